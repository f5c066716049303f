//! What configurations and CRDs should say.

use std::collections::BTreeSet;

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::replica::{CRD, MUTATE, NAMESPACE, TABLE, VALIDATE, crd, service};
use crate::{
    api::crds,
    runtime::webhook::{
        Host, Operation, Registration,
        configuration::{Rebuilt, Wanted, distrusting, rebuild},
        crd::{conversion_patch, is_trusting},
        registration::{ConfigurationNames, FailurePolicy, LabelRule, check, configurations},
    },
};

const POD: Registration = Registration {
    name: "mpod.kb.io",
    path: "/mutate-pod",
    operations: &[Operation::Create],
    group: "",
    versions: &["v1"],
    resources: &["pods"],
    namespaces: &[LabelRule::DoesNotExist("control-plane")],
    ..TABLE[0]
};

struct World {
    host: Host,
    bundle: Vec<u8>,
    served: BTreeSet<String>,
}

impl World {
    fn serving(paths: &[&str]) -> Self {
        let served = paths.iter().map(|it| (*it).to_owned()).collect();
        Self { host: service(), bundle: b"bundle".to_vec(), served }
    }

    fn wanted(&self) -> Wanted<'_> {
        Wanted { host: &self.host, ca_bundle: &self.bundle, served: &self.served, own_namespace: NAMESPACE }
    }

    fn rebuild(&self, live: &[Value], template: Option<&str>) -> Option<Rebuilt> {
        rebuild(live, template, &[], &self.wanted())
    }
}

/// Manifests for widgets and pods, as an installation brings them.
fn manifest() -> Vec<Value> {
    let all = configurations(&[TABLE[0], POD], &ConfigurationNames::default(), &service(), "elsewhere");
    all.mutating.unwrap()["webhooks"].as_array().unwrap().clone()
}

fn names(webhooks: &[Value]) -> Vec<&str> {
    webhooks.iter().map(|it| it["name"].as_str().unwrap()).collect()
}

#[test]
fn both_configurations_come_from_one_table() {
    let all =
        configurations(&[TABLE[0], TABLE[1], POD], &ConfigurationNames::default(), &service(), NAMESPACE);
    let validating = all.validating.unwrap();
    assert_eq!(validating["kind"], "ValidatingWebhookConfiguration");
    assert_eq!(validating["metadata"]["name"], "kruise-validating-webhook-configuration");
    assert_eq!(names(validating["webhooks"].as_array().unwrap()), ["vwidget.kb.io"]);
    let mutating = all.mutating.unwrap();
    let expected = json!({
        "name": "mpod.kb.io",
        "admissionReviewVersions": ["v1", "v1beta1"],
        "clientConfig": { "service": {
            "namespace": NAMESPACE, "name": "kruise-webhook-service", "path": "/mutate-pod", "port": 443,
        } },
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"] }],
        "namespaceSelector": { "matchExpressions": [
            { "key": "control-plane", "operator": "DoesNotExist" },
            { "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [NAMESPACE] },
        ] },
    });
    assert_eq!(mutating["webhooks"][1], expected);
    let none = configurations(&TABLE[1..], &ConfigurationNames::default(), &service(), NAMESPACE);
    assert_eq!(none.mutating, None);
}

#[test]
fn a_table_that_could_block_a_cluster_is_refused() {
    assert_eq!(check(&[TABLE[0], TABLE[1], POD]), Vec::<String>::new());
    let careless = Registration { namespaces: &[], ..POD };
    assert_eq!(check(&[careless]).len(), 1);
    assert_eq!(check(&[Registration { failure: FailurePolicy::Ignore, ..careless }]), Vec::<String>::new());
    assert_eq!(check(&[TABLE[0], TABLE[0]]).len(), 1);
    assert_eq!(check(&[Registration { path: "mutate", ..TABLE[0] }]).len(), 1);
    assert_eq!(check(&[Registration { resources: &["*"], ..TABLE[0] }]).len(), 1);
    assert_eq!(check(&[Registration { operations: &[], ..TABLE[0] }]).len(), 1);
}

#[test]
fn no_webhook_covers_our_own_namespace_whatever_the_manifest_says() {
    let mut live = manifest();
    live[0].as_object_mut().unwrap().remove("namespaceSelector");
    live[1]["namespaceSelector"] = json!({ "matchLabels": { "a": "b" } });
    let rebuilt = World::serving(&[MUTATE, "/mutate-pod"]).rebuild(&live, None).unwrap();
    let exemption =
        json!({ "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [NAMESPACE] });
    for it in &rebuilt.webhooks {
        let expressions = it["namespaceSelector"]["matchExpressions"].as_array().unwrap();
        assert_eq!(expressions.iter().filter(|it| **it == exemption).count(), 1);
    }
    assert_eq!(rebuilt.webhooks[1]["namespaceSelector"]["matchLabels"], json!({ "a": "b" }));
}

#[test]
fn paths_that_are_not_served_are_dropped_but_remembered() {
    let live = manifest();
    let some = World::serving(&[MUTATE]).rebuild(&live, Some("")).unwrap();
    assert_eq!(names(&some.webhooks), ["mwidget.kb.io"]);
    assert_eq!(some.webhooks[0]["clientConfig"]["caBundle"], json!(ByteString(b"bundle".to_vec())));
    let remembered: Vec<Value> = serde_json::from_str(&some.template).unwrap();
    assert_eq!(names(&remembered), ["mwidget.kb.io", "mpod.kb.io"]);

    // Once it is served, it comes back.
    let all = World::serving(&[MUTATE, "/mutate-pod"]).rebuild(&some.webhooks, Some(&some.template)).unwrap();
    assert_eq!(names(&all.webhooks), ["mwidget.kb.io", "mpod.kb.io"]);
    assert_eq!(all.template, some.template);
}

#[test]
fn what_was_rebuilt_is_left_alone_also_after_the_api_server_filled_in_defaults() {
    let world = World::serving(&[MUTATE, "/mutate-pod"]);
    let mut rebuilt = world.rebuild(&manifest(), None).unwrap();
    assert_eq!(world.rebuild(&rebuilt.webhooks, Some(&rebuilt.template)), None);
    for it in &mut rebuilt.webhooks {
        it["matchPolicy"] = json!("Equivalent");
        it["objectSelector"] = json!({});
        it["timeoutSeconds"] = json!(10);
        it["reinvocationPolicy"] = json!("Never");
        it["rules"][0]["scope"] = json!("*");
    }
    assert_eq!(world.rebuild(&rebuilt.webhooks, Some(&rebuilt.template)), None);
}

#[test]
fn a_new_bundle_or_host_is_written_without_touching_the_template() {
    let mut world = World::serving(&[MUTATE, "/mutate-pod"]);
    let before = world.rebuild(&manifest(), None).unwrap();
    world.bundle = b"other".to_vec();
    world.host = Host::Url { host: "fd00::1".to_owned(), port: Some(8443) };
    let after = world.rebuild(&before.webhooks, Some(&before.template)).unwrap();
    assert_eq!(after.template, before.template);
    let expected = json!({ "url": format!("https://[fd00::1]:8443{MUTATE}"), "caBundle": json!(ByteString(b"other".to_vec())) });
    assert_eq!(after.webhooks[0]["clientConfig"], expected);
    assert_eq!(world.rebuild(&after.webhooks, Some(&after.template)), None);
}

#[test]
fn newer_manifests_win_over_the_template() {
    let world = World::serving(&[MUTATE]);
    let before = world.rebuild(&manifest(), None).unwrap();
    // Applied again with another rule, without a bundle; kubectl keeps our annotation.
    let mut newer = manifest();
    newer[0]["rules"][0]["operations"] = json!(["CREATE"]);
    newer[0]["failurePolicy"] = json!("Ignore");
    let after = world.rebuild(&newer, Some(&before.template)).unwrap();
    assert_eq!(after.webhooks[0]["rules"][0]["operations"], json!(["CREATE"]));
    assert_eq!(after.webhooks[0]["failurePolicy"], "Ignore");
    assert_eq!(world.rebuild(&after.webhooks, Some(&after.template)), None);
}

#[test]
fn a_webhook_that_somebody_removed_comes_back() {
    let world = World::serving(&[MUTATE, "/mutate-pod"]);
    let before = world.rebuild(&manifest(), None).unwrap();
    let after = world.rebuild(&before.webhooks[..1], Some(&before.template)).unwrap();
    assert_eq!(after, before);
    assert_eq!(world.rebuild(&[], Some(&before.template)).unwrap(), before);
}

#[test]
fn a_garbled_template_is_made_anew() {
    let world = World::serving(&[MUTATE, "/mutate-pod"]);
    let before = world.rebuild(&manifest(), None).unwrap();
    for garbage in ["{", "{}", "null", "[1, null, \"x\"]", "[]"] {
        let after = world.rebuild(&before.webhooks, Some(garbage)).unwrap();
        assert_eq!(after.webhooks, before.webhooks, "{garbage}");
        assert_eq!(world.rebuild(&after.webhooks, Some(&after.template)), None);
    }
}

#[test]
fn an_external_bundle_must_be_everywhere_it_is_served() {
    let world = World::serving(&[MUTATE]);
    let rebuilt = world.rebuild(&manifest(), None).unwrap();
    assert_eq!(distrusting(&rebuilt.webhooks, &world.wanted()), Vec::<String>::new());
    assert_eq!(distrusting(&manifest(), &world.wanted()), ["mwidget.kb.io"]);
}

#[test]
fn conversion_leads_to_us_and_trusts_us() {
    for host in [service(), Host::Url { host: "hooks.example".to_owned(), port: None }.at_port(9876)] {
        let world = World { host, ..World::serving(&[VALIDATE]) };
        let mut live = crd();
        live["metadata"]["resourceVersion"] = json!("7");
        assert!(!is_trusting(&live, &world.wanted()));
        let patch = conversion_patch(&live, &world.wanted()).unwrap();
        assert_eq!(patch["metadata"], json!({ "resourceVersion": "7" }), "{CRD}");
        json_patch::merge(&mut live, &patch);
        assert_eq!(conversion_patch(&live, &world.wanted()), None);
        assert!(is_trusting(&live, &world.wanted()));
        assert_eq!(live["spec"]["a-field-of-the-future"], true);
        let webhook = &live["spec"]["conversion"]["webhook"];
        assert_eq!(webhook["conversionReviewVersions"], json!(["v1", "v1beta1"]));
        let client_config = webhook["clientConfig"].as_object().unwrap();
        assert_eq!(client_config.len(), 2, "only one of service and url: {client_config:?}");
    }
}

#[test]
fn a_crd_that_asks_for_no_webhook_gets_none() {
    let world = World::serving(&[]);
    let mut live = crd();
    live["spec"]["conversion"] = json!({ "strategy": "None" });
    assert_eq!(conversion_patch(&live, &world.wanted()), None);
    assert!(is_trusting(&live, &world.wanted()));
    live["spec"].as_object_mut().unwrap().remove("conversion");
    assert_eq!(conversion_patch(&live, &world.wanted()), None);
}

#[test]
fn a_crd_as_we_generate_it_lacks_only_the_bundle() {
    let host = Host::service(crds::WEBHOOK_NAMESPACE, crds::WEBHOOK_SERVICE);
    let world = World { host, ..World::serving(&[]) };
    let mut converted = 0;
    for crd in crds::crds() {
        let mut applied = serde_json::to_value(crd).unwrap();
        if applied["spec"]["conversion"]["strategy"] != "Webhook" {
            continue;
        }
        converted += 1;
        // The API server fills this in.
        applied["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"] = json!(443);

        let mut led = applied.clone();
        let mut patch = conversion_patch(&applied, &world.wanted()).unwrap();
        patch.as_object_mut().unwrap().remove("metadata");
        json_patch::merge(&mut led, &patch);
        let path = "/spec/conversion/webhook/clientConfig";
        let bundle = led.pointer_mut(path).unwrap().as_object_mut().unwrap().remove("caBundle");
        assert_eq!(bundle, Some(json!(ByteString(b"bundle".to_vec()))));
        assert_eq!(led, applied);
    }
    assert_eq!(converted, 5);
}
