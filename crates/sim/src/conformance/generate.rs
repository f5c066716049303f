//! Random sequences of requests.

use http::Method;
use serde_json::{Value, json};

use super::owners;
use crate::seed::Seed;

/// One request. `{ns}` in the path stands for the sequence's namespace; `$rv` and `$uid` in the body for what was last
/// seen of the object that the path names, and `$uid(PLURAL/NAME)` for the uid last seen of another.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The HTTP method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// The media type of the body.
    pub media: &'static str,
    /// The body, or null for none.
    pub body: Value,
}

pub(super) struct Kind {
    pub(super) root: &'static str,
    pub(super) plural: &'static str,
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
}

impl Kind {
    /// The path of its objects.
    pub(super) fn list(&self) -> String {
        format!("{}/namespaces/{{ns}}/{}", self.root, self.plural)
    }
}

/// Families are made of the first three.
pub(super) const KINDS: &[Kind] = &[
    Kind { root: "/api/v1", plural: "configmaps", api_version: "v1", kind: "ConfigMap" },
    Kind { root: "/api/v1", plural: "pods", api_version: "v1", kind: "Pod" },
    Kind {
        root: "/apis/conformance.example.com/v1",
        plural: "widgets",
        api_version: "conformance.example.com/v1",
        kind: "Widget",
    },
    Kind { root: "/api/v1", plural: "secrets", api_version: "v1", kind: "Secret" },
    Kind {
        root: "/apis/coordination.k8s.io/v1",
        plural: "leases",
        api_version: "coordination.k8s.io/v1",
        kind: "Lease",
    },
];

pub(super) const NAMES: &[&str] = &["a", "b", "c"];
pub(super) const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
pub(super) const JSON: &str = "application/json";

/// What must exist before any sequence: the definition of the custom kind.
pub fn prepare() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.conformance.example.com"},
        "spec": {
            "group": "conformance.example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                },
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": widget_spec(),
                    "status": {"type": "object", "properties": {
                        "replicas": {"type": "integer"}, "phase": {"type": "string"}}},
                }}},
            }],
        },
    })
}

/// The schema of what a widget is to be, with rules of every sort.
fn widget_spec() -> Value {
    let part = json!({
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}, "weight": {"type": "integer"}},
        "x-kubernetes-validations": [{
            "rule": "!has(oldSelf.weight) || !has(self.weight) || self.weight >= oldSelf.weight",
            "message": "a part never gets lighter",
        }],
    });
    let properties = json!({
        "size": {"type": "string", "enum": ["small", "large"], "x-kubernetes-validations": [
            {"rule": "self == oldSelf || self == 'large'", "message": "a widget never shrinks"},
        ]},
        "replicas": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 50, "default": 1},
        "limit": {"x-kubernetes-int-or-string": true},
        "template": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                  "items": part},
    });
    json!({
        "type": "object", "required": ["size"], "properties": properties,
        "x-kubernetes-validations": [
            {"rule": "self.size == 'large' || self.replicas <= 40", "fieldPath": ".replicas",
             "message": "a small widget has at most 40 replicas"},
            {"rule": "!has(self.limit) || self.limit != '0%'", "reason": "FieldValueForbidden"},
            {"rule": "self.replicas >= oldSelf.replicas - 30",
             "messageExpression": "'%d are too few after %d'.format([self.replicas, oldSelf.replicas])"},
        ],
    })
}

/// The sequence of a seed, with at most `length` requests.
pub fn sequence(seed: Seed, length: usize) -> Vec<Step> {
    (0..length).map(|index| step(seed.at(index as u64))).collect()
}

pub(super) fn pick<T>(draw: Seed, rows: &[T]) -> &T {
    &rows[draw.below(rows.len() as u64) as usize]
}

fn step(draw: Seed) -> Step {
    let kind = pick(draw.of("kind"), KINDS);
    let name = *pick(draw.of("name"), NAMES);
    let list = kind.list();
    let one = format!("{list}/{name}");
    let new =
        |method: Method, path: String, media: &'static str, body: Value| Step { method, path, media, body };
    match draw.of("verb").below(100) {
        0..22 => new(Method::POST, list, JSON, object(kind, name, draw)),
        22..32 => {
            let mut body = object(kind, name, draw);
            match draw.of("version").below(4) {
                0 => {}
                1 => body["metadata"]["resourceVersion"] = json!("1"),
                _ => body["metadata"]["resourceVersion"] = json!("$rv"),
            }
            new(Method::PUT, one, JSON, body)
        }
        32..44 => new(Method::PATCH, one, MERGE, change(kind, draw)),
        44..52 => new(Method::PATCH, one, STRATEGIC, change(kind, draw)),
        52..57 => new(Method::PATCH, one, JSON_PATCH, json_patch(draw)),
        57..72 => {
            let manager = *pick(draw.of("manager"), &["one", "two"]);
            let force = if draw.of("force").below(3) == 0 { "&force=true" } else { "" };
            let path = format!("{one}?fieldManager={manager}{force}");
            new(Method::PATCH, path, APPLY, object(kind, name, draw))
        }
        72..77 => new(Method::PATCH, format!("{one}/status"), MERGE, status(kind, draw)),
        77..80 => new(
            Method::PATCH,
            format!("{one}/scale"),
            MERGE,
            json!({"spec": {"replicas": draw.of("n").below(4)}}),
        ),
        80..90 => {
            let path = format!("{one}?{}", owners::delete_query(draw));
            new(Method::DELETE, path, JSON, owners::delete_options(draw))
        }
        90..92 => {
            let path = format!("{list}?labelSelector=app%3Dx&{}", owners::delete_query(draw));
            new(Method::DELETE, path, JSON, owners::delete_options(draw))
        }
        92..95 => new(Method::GET, one, JSON, Value::Null),
        _ => {
            let query = *pick(
                draw.of("query"),
                &[
                    "",
                    "?labelSelector=app%3Dx",
                    "?labelSelector=app+in+(x,y),tier",
                    "?limit=1",
                    "?fieldSelector=metadata.name%3Da",
                    "?labelSelector=%21app",
                ],
            );
            new(Method::GET, format!("{list}{query}"), JSON, Value::Null)
        }
    }
}

fn object(kind: &Kind, name: &str, draw: Seed) -> Value {
    let draw = draw.of("object");
    let mut metadata = json!({"name": name});
    if draw.of("labels").below(2) == 0 {
        metadata["labels"] = json!({"app": pick(draw.of("app"), &["x", "y"])});
        if draw.of("tier").below(3) == 0 {
            metadata["labels"]["tier"] = json!("front");
        }
    }
    if draw.of("finalizer").below(6) == 0 {
        metadata["finalizers"] = owners::finalizers(draw);
    }
    if draw.of("owned").below(4) == 0 {
        metadata["ownerReferences"] = owners::owners(draw);
    }
    if draw.of("bad").below(25) == 0 {
        metadata["labels"] = json!({"app": "not valid!"});
    }
    let mut object = json!({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata});
    let value = |name: &str| draw.of(name).below(3).to_string();
    match kind.kind {
        "ConfigMap" => {
            object["data"] = json!({"k": value("k")});
            if draw.of("more").below(2) == 0 {
                object["data"][format!("m{}", value("m"))] = json!(value("mv"));
            }
        }
        "Secret" => object["stringData"] = json!({"s": value("s")}),
        "Pod" => {
            object["spec"] = json!({"automountServiceAccountToken": false, "containers": [
                {"name": "main", "image": format!("nginx:{}", value("image"))},
            ]});
            if draw.of("side").below(3) == 0 {
                let side = json!({"name": "side", "image": "busybox", "env": [{"name": "E", "value": value("env")}],
                                  "ports": [{"containerPort": 80}]});
                object["spec"]["containers"].as_array_mut().expect("it was written as a list").push(side);
            }
        }
        "Widget" => {
            object["spec"] =
                json!({"size": pick(draw.of("size"), &["small", "large", "small", "large", "huge"])});
            if draw.of("replicas").below(2) == 0 {
                object["spec"]["replicas"] = json!(draw.of("r").below(60));
            }
            if draw.of("unknown").below(4) == 0 {
                object["spec"]["unknown"] = json!({"x": 1});
                object["spec"]["template"] = json!({"any": [value("t")]});
            }
            if draw.of("limit").below(4) == 0 {
                object["spec"]["limit"] = pick(draw.of("l"), &[json!("0%"), json!("50%"), json!(3)]).clone();
            }
            if draw.of("tags").below(3) == 0 {
                object["spec"]["tags"] = json!([format!("t{}", value("tag"))]);
            }
            if draw.of("parts").below(2) == 0 {
                object["spec"]["parts"] =
                    json!([{"name": format!("p{}", value("p")), "weight": draw.of("w").below(3)}]);
            }
        }
        _ => {
            object["spec"] =
                json!({"holderIdentity": value("holder"), "leaseDurationSeconds": 1 + draw.of("d").below(20)})
        }
    }
    object
}

fn change(kind: &Kind, draw: Seed) -> Value {
    let draw = draw.of("change");
    let value = draw.of("value").below(3).to_string();
    match draw.of("what").below(10) {
        8..10 => owners::change(draw),
        0 => json!({"metadata": {"labels": {"app": value}}}),
        1 => json!({"metadata": {"labels": null}}),
        2 => json!({"metadata": {"finalizers": null}}),
        3 => json!({"metadata": {"finalizers": ["example.com/two"]}}),
        4 => json!({"metadata": {"annotations": {"note": value}}}),
        5 => json!({"metadata": {"resourceVersion": "1"}}),
        _ => match kind.kind {
            "ConfigMap" => json!({"data": {"k": value, "gone": null}}),
            "Secret" => json!({"data": {"s": "eA=="}}),
            "Pod" => json!({"spec": {"containers": [{"name": "main", "image": format!("nginx:{value}")}]}}),
            "Widget" => json!({"spec": {"replicas": draw.of("r").below(60), "tags": ["a", "b"]}}),
            _ => json!({"spec": {"holderIdentity": value}}),
        },
    }
}

fn json_patch(draw: Seed) -> Value {
    let draw = draw.of("json-patch");
    match draw.below(6) {
        4..6 => owners::json_patch(draw),
        0 => json!([{"op": "add", "path": "/metadata/labels", "value": {"app": "x"}}]),
        1 => json!([{"op": "remove", "path": "/metadata/labels/app"}]),
        2 => json!([{"op": "test", "path": "/metadata/name", "value": "a"},
                    {"op": "add", "path": "/metadata/annotations", "value": {"n": "1"}}]),
        _ => json!([{"op": "replace", "path": "/metadata/finalizers", "value": []}]),
    }
}

fn status(kind: &Kind, draw: Seed) -> Value {
    let draw = draw.of("status");
    let phase = *pick(draw.of("phase"), &["Running", "Failed"]);
    let mut change = json!({"status": {"phase": phase}, "metadata": {"labels": {"by": "status"}}});
    if kind.kind == "Widget" {
        change["status"]["replicas"] = json!(draw.of("n").below(5));
    }
    change
}
