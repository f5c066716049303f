//! The defaults that Kubernetes gives a pod template, on JSON.
//!
//! They are those that OpenKruise writes into templates, no more: each one ends up in revisions, and one more or less
//! would make a new revision out of an old template. Two differ from stock Kubernetes: containers without a pull policy
//! get `Always` whatever their tag, because an update in place must see a moved tag; and host ports are left alone
//! unless a gate asks for them.

use serde_json::{Map, Value, json};

use crate::{
    admission::tree::{self, fill},
    quantity,
    runtime::gates::{Gate, Gates},
};

const NONE: Value = Value::Null;

/// Fills in what the template leaves out. `old` is the template as it was, on updates: a value that was itself a
/// default there stays, so that applying the same manifest with a new image changes the image only.
pub fn apply(template: &mut Value, old: Option<&Value>, gates: Gates) {
    let Some(spec) = tree::fields(template).map(|it| it.entry("spec").or_insert(Value::Null)) else { return };
    let Some(spec) = tree::fields(spec) else { return };
    let blank = json!("");
    fill(spec, "dnsPolicy", &blank, "ClusterFirst");
    fill(spec, "restartPolicy", &blank, "Always");
    fill(spec, "securityContext", &NONE, json!({}));
    fill(spec, "terminationGracePeriodSeconds", &NONE, 30);
    fill(spec, "schedulerName", &blank, "default-scheduler");
    if gates.is_on(Gate::DefaultHostNetworkHostPortsInPodTemplates)
        && spec.get("hostNetwork") == Some(&json!(true))
    {
        host_ports(spec);
    }
    each(spec, "volumes", volume);
    let old_spec = old.and_then(|it| it.get("spec"));
    each(spec, "initContainers", |it| {
        keep_pull_policy(it, old_spec);
        let policy = pull_policy(it.get("image"));
        fill(it, "imagePullPolicy", &json!(""), policy);
        messages(it);
        container(it);
    });
    each(spec, "containers", |it| {
        fill(it, "imagePullPolicy", &json!(""), "Always");
        messages(it);
        container(it);
    });
    each(spec, "ephemeralContainers", container);
    round(spec.get_mut("overhead"));
}

/// Fills in what claim templates leave out.
pub fn apply_to_claims(templates: &mut Value) {
    for template in templates.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        if let Some(status) = tree::fields(template.entry("status").or_insert(Value::Null)) {
            fill(status, "phase", &json!(""), "Pending");
            round(status.get_mut("capacity"));
        }
        if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
            resources(spec);
        }
    }
}

/// Where the host's network is used, containers are reached through the host's ports.
pub(super) fn host_ports(spec: &mut Map<String, Value>) {
    for list in ["containers", "initContainers"] {
        each(spec, list, |container| {
            each(container, "ports", |port| {
                let number = port.get("containerPort").cloned().unwrap_or(Value::Null);
                fill(port, "hostPort", &json!(0), number);
            });
        });
    }
}

/// The pull policy of a container that does not name one: `Always` for the tag `latest`, named or not.
fn pull_policy(image: Option<&Value>) -> &'static str {
    let image = image.and_then(Value::as_str).unwrap_or_default();
    let (name, digest) = image.split_once('@').map_or((image, None), |(name, digest)| (name, Some(digest)));
    // What follows a colon is a tag only in the last part of the path; before, it is a port.
    let tag = name.rsplit('/').next().and_then(|it| it.split_once(':')).map(|(_, tag)| tag);
    let is_latest =
        if digest.is_some() { tag == Some("latest") } else { matches!(tag, None | Some("latest")) };
    if is_latest && !image.is_empty() { "Always" } else { "IfNotPresent" }
}

/// A pull policy that was a default stays what it was, even if the new image's default is another one.
fn keep_pull_policy(container: &mut Map<String, Value>, old_spec: Option<&Value>) {
    let Some(old_spec) = old_spec else { return };
    let mut olds = tree::items(old_spec, &["initContainers"]).iter();
    let Some(old) = olds.find(|it| it.get("name") == container.get("name")) else { return };
    let policy = tree::text(old, &["imagePullPolicy"]);
    if let Some(policy) = policy.filter(|it| *it == pull_policy(old.get("image"))) {
        fill(container, "imagePullPolicy", &json!(""), policy);
    }
}

fn messages(container: &mut Map<String, Value>) {
    fill(container, "terminationMessagePath", &json!(""), "/dev/termination-log");
    fill(container, "terminationMessagePolicy", &json!(""), "File");
}

fn container(container: &mut Map<String, Value>) {
    each(container, "ports", |it| fill(it, "protocol", &json!(""), "TCP"));
    each(container, "env", |it| {
        if let Some(source) = it.get_mut("valueFrom").and_then(Value::as_object_mut) {
            field_ref(source);
        }
    });
    resources(container);
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(it) = container.get_mut(name).and_then(Value::as_object_mut) {
            probe(it);
        }
    }
    let Some(lifecycle) = container.get_mut("lifecycle").and_then(Value::as_object_mut) else { return };
    for name in ["postStart", "preStop"] {
        if let Some(it) = lifecycle.get_mut(name).and_then(Value::as_object_mut) {
            http_get(it);
        }
    }
}

fn probe(probe: &mut Map<String, Value>) {
    let zero = json!(0);
    for (name, value) in
        [("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)]
    {
        fill(probe, name, &zero, value);
    }
    http_get(probe);
}

fn http_get(handler: &mut Map<String, Value>) {
    if let Some(it) = handler.get_mut("httpGet").and_then(Value::as_object_mut) {
        fill(it, "path", &json!(""), "/");
        fill(it, "scheme", &json!(""), "HTTP");
    }
}

fn field_ref(source: &mut Map<String, Value>) {
    if let Some(it) = source.get_mut("fieldRef").and_then(Value::as_object_mut) {
        fill(it, "apiVersion", &json!(""), "v1");
    }
}

fn volume(volume: &mut Map<String, Value>) {
    // A volume that says nothing is an empty directory. A source we do not know is a source.
    if !volume.iter().any(|(name, it)| name != "name" && !it.is_null()) {
        volume.insert("emptyDir".to_owned(), json!({}));
    }
    if let Some(it) = volume.get_mut("hostPath").and_then(Value::as_object_mut) {
        fill(it, "type", &NONE, "");
    }
    for name in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(it) = volume.get_mut(name).and_then(Value::as_object_mut) {
            fill(it, "defaultMode", &NONE, 0o644);
        }
    }
    if let Some(it) = volume.get_mut("downwardAPI").and_then(Value::as_object_mut) {
        each(it, "items", field_ref);
    }
    if let Some(it) = volume.get_mut("projected").and_then(Value::as_object_mut) {
        each(it, "sources", projection);
    }
}

fn projection(source: &mut Map<String, Value>) {
    if let Some(it) = source.get_mut("downwardAPI").and_then(Value::as_object_mut) {
        each(it, "items", field_ref);
    }
    if let Some(it) = source.get_mut("serviceAccountToken").and_then(Value::as_object_mut) {
        fill(it, "expirationSeconds", &NONE, 3600);
    }
}

fn resources(holder: &mut Map<String, Value>) {
    if let Some(it) = holder.get_mut("resources").and_then(Value::as_object_mut) {
        round(it.get_mut("limits"));
        round(it.get_mut("requests"));
    }
}

fn round(quantities: Option<&mut Value>) {
    for quantity in quantities.and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        let text = match &*quantity {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => continue,
        };
        if let Some(rounded) = quantity::round_up_to_milli(&text) {
            *quantity = rounded.into();
        }
    }
}

fn each(holder: &mut Map<String, Value>, list: &str, mut change: impl FnMut(&mut Map<String, Value>)) {
    let items = holder.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
    items.filter_map(Value::as_object_mut).for_each(&mut change);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaulted(mut template: Value) -> Value {
        apply(&mut template, None, Gates::defaults());
        template
    }

    #[test]
    fn a_bare_template_gets_the_defaults_of_upstream_and_no_others() {
        let got = defaulted(json!({"spec": {"containers": [{"name": "c", "image": "i:1", "unknown": 1}]}}));
        let expected = json!({"spec": {
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "securityContext": {},
            "terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler",
            "containers": [{
                "name": "c", "image": "i:1", "unknown": 1, "imagePullPolicy": "Always",
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            }],
        }});
        assert_eq!(got, expected);
        assert_eq!(defaulted(got.clone()), got, "defaulting twice changes nothing");
    }

    #[test]
    fn probes_ports_and_environment_get_theirs() {
        let got = defaulted(json!({"spec": {"containers": [{
            "ports": [{"containerPort": 80}],
            "env": [{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": "p"}}}, {"name": "F", "value": ""}],
            "livenessProbe": {"httpGet": {"port": 80}, "periodSeconds": 5, "timeoutSeconds": 0},
            "startupProbe": {"grpc": {"port": 1}},
            "lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "/x"}}},
            "resources": {"limits": {"cpu": "0.0001", "memory": "1Gi"}, "requests": {"cpu": 0.00001}},
        }]}}));
        let it = &got["spec"]["containers"][0];
        assert_eq!(it["ports"], json!([{"containerPort": 80, "protocol": "TCP"}]));
        assert_eq!(it["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
        let probe = json!({
            "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}, "periodSeconds": 5, "timeoutSeconds": 1,
            "successThreshold": 1, "failureThreshold": 3,
        });
        assert_eq!(it["livenessProbe"], probe);
        assert_eq!(it["startupProbe"]["grpc"], json!({"port": 1}));
        assert_eq!(
            it["lifecycle"]["preStop"]["httpGet"],
            json!({"port": 80, "path": "/x", "scheme": "HTTP"})
        );
        assert_eq!(it["resources"]["limits"], json!({"cpu": "1m", "memory": "1Gi"}));
        assert_eq!(it["resources"]["requests"], json!({"cpu": "1m"}));
    }

    #[test]
    fn init_containers_are_pulled_as_their_tag_says() {
        let policy = |image: &str| {
            let got = defaulted(json!({"spec": {"initContainers": [{"image": image}]}}));
            got["spec"]["initContainers"][0]["imagePullPolicy"].as_str().unwrap().to_owned()
        };
        for image in ["a", "a:latest", "r:5000/a", "r:5000/a:latest", "a:latest@sha256:00"] {
            assert_eq!(policy(image), "Always", "{image}");
        }
        for image in ["a:1", "r:5000/a:1", "a@sha256:00", "a:1@sha256:00", ""] {
            assert_eq!(policy(image), "IfNotPresent", "{image}");
        }
    }

    #[test]
    fn a_new_image_of_an_init_container_changes_the_image_only() {
        let template = |image: &str| json!({"spec": {"initContainers": [{"name": "i", "image": image}]}});
        let policy = |old: &Value, image: &str| {
            let mut new = template(image);
            apply(&mut new, Some(old), Gates::defaults());
            new["spec"]["initContainers"][0]["imagePullPolicy"].clone()
        };
        assert_eq!(policy(&defaulted(template("a:latest")), "a:1"), "Always");
        assert_eq!(policy(&defaulted(template("a:1")), "a:latest"), "IfNotPresent");
        let mut chosen = defaulted(template("a:1"));
        chosen["spec"]["initContainers"][0]["imagePullPolicy"] = json!("Never");
        assert_eq!(policy(&chosen, "a:2"), "IfNotPresent", "what was asked for and is no longer, goes");
    }

    #[test]
    fn volumes_get_a_mode_and_a_volume_without_a_source_is_empty() {
        let got = defaulted(json!({"spec": {"volumes": [
            {"name": "a"}, {"name": "b", "secret": {}}, {"name": "c", "configMap": {"defaultMode": 0}},
            {"name": "d", "hostPath": {"path": "/"}}, {"name": "e", "newSource": {}},
            {"name": "f", "downwardAPI": {"items": [{"fieldRef": {}}]}},
            {"name": "g", "projected": {"sources": [
                {"serviceAccountToken": {}}, {"downwardAPI": {"items": [{"fieldRef": {"apiVersion": "v2"}}]}},
            ]}},
        ]}}));
        let expected = json!([
            {"name": "a", "emptyDir": {}}, {"name": "b", "secret": {"defaultMode": 420}},
            {"name": "c", "configMap": {"defaultMode": 0}}, {"name": "d", "hostPath": {"path": "/", "type": ""}},
            {"name": "e", "newSource": {}},
            {"name": "f", "downwardAPI": {"defaultMode": 420, "items": [{"fieldRef": {"apiVersion": "v1"}}]}},
            {"name": "g", "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3600}},
                {"downwardAPI": {"items": [{"fieldRef": {"apiVersion": "v2"}}]}},
            ]}},
        ]);
        assert_eq!(got["spec"]["volumes"], expected);
    }

    #[test]
    fn host_ports_follow_only_with_the_gate_and_the_hosts_network() {
        let ports = |host: bool, gates: Gates| {
            let ports = json!([{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081}]);
            let mut it = json!({"spec": {"hostNetwork": host, "containers": [{"ports": ports}]}});
            apply(&mut it, None, gates);
            let ports = it["spec"]["containers"][0]["ports"].as_array().unwrap().clone();
            ports.iter().map(|it| it["hostPort"].as_i64()).collect::<Vec<_>>()
        };
        let on = Gates::defaults().with(Gate::DefaultHostNetworkHostPortsInPodTemplates, true);
        assert_eq!(ports(true, on), [Some(80), Some(8081)]);
        assert_eq!(ports(false, on), [None, Some(8081)]);
        assert_eq!(ports(true, Gates::defaults()), [None, Some(8081)]);
    }

    #[test]
    fn claim_templates_get_a_phase_and_whole_thousandths() {
        let mut claims = json!([{"metadata": {"name": "a"}, "spec": {"resources": {"requests": {"storage": "0.1m"}}}}, {}]);
        apply_to_claims(&mut claims);
        let expected = json!([
            {"metadata": {"name": "a"}, "spec": {"resources": {"requests": {"storage": "1m"}}}, "status": {"phase": "Pending"}},
            {"status": {"phase": "Pending"}},
        ]);
        assert_eq!(claims, expected);
    }

    #[test]
    fn a_template_of_the_wrong_shape_is_no_panic() {
        for it in
            [json!(1), json!({"spec": 1}), json!({"spec": {"containers": [1, {"ports": 1}], "volumes": {}}})]
        {
            defaulted(it);
        }
    }
}
