//! What the tests share.

use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, Client,
    api::{DynamicObject, ObjectMeta},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use sim::{World, fleet};

/// A world with one cluster, `member-1`, without nodes.
pub(crate) fn bare<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    fleet().nodes(0).seed(1).run(test);
}

/// A world with one cluster of three nodes.
pub(crate) fn with_nodes<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(World) -> F) {
    fleet().nodes(3).seed(seed).run(test);
}

pub(crate) fn client(world: &World) -> Client {
    world.client("test", "member-1")
}

pub(crate) fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

pub(crate) fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), "default")
}

pub(crate) fn map(name: &str, key: &str, value: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        data: Some([(key.to_owned(), value.to_owned())].into()),
        ..ConfigMap::default()
    }
}

pub(crate) fn pod(name: &str, image: &str) -> Pod {
    from(json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    }))
}

pub(crate) fn from<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Reads past the network.
pub(crate) fn read(world: &World, path: &str) -> Value {
    world.write("member-1", Method::GET, path, &Value::Null).unwrap()
}

/// Writes past the network.
pub(crate) fn write(world: &World, method: Method, path: &str, body: Value) -> Value {
    world.write("member-1", method, path, &body).unwrap()
}

/// The Status of an error.
pub(crate) fn status(error: &kube::Error) -> Value {
    match error {
        kube::Error::Api(status) => serde_json::to_value(status).unwrap(),
        other => panic!("not an answer of the server: {other:?}"),
    }
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A custom kind with a schema, a status and a scale subresource.
pub(crate) fn widget_definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [
                {
                    "name": "v1", "served": true, "storage": true,
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
                                  "labelSelectorPath": ".status.selector"},
                    },
                    "schema": {"openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {"type": "string", "enum": ["small", "large"]},
                                    "replicas": {"type": "integer", "minimum": 0, "default": 1},
                                    "template": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                                    "parts": {
                                        "type": "array", "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {"type": "object", "required": ["name"], "properties": {
                                            "name": {"type": "string"}, "weight": {"type": "integer"},
                                        }},
                                    },
                                },
                            },
                            "status": {"type": "object", "properties": {
                                "replicas": {"type": "integer"}, "selector": {"type": "string"},
                                "phase": {"type": "string"},
                            }},
                        },
                    }},
                },
                {"name": "v1alpha1", "served": true, "storage": false,
                 "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
            ],
        },
    })
}

pub(crate) fn widgets(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
    Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk_with_plural(&kind, "widgets"))
}

pub(crate) fn widget(name: &str, spec: Value) -> DynamicObject {
    from(json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec}))
}
