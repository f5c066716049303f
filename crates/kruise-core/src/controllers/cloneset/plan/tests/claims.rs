//! Claims as a CloneSet uses them (cloneset.md 7.4, 12, 17.4).

use serde_json::{Value, json};

use super::Village;

fn village(reuse: bool) -> Village {
    let mut village = Village::new(json!({
        "replicas": 3,
        "scaleStrategy": {"enablePVCReuse": reuse},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}],
    }));
    village.settle();
    village.log.clear();
    village
}

fn claims(village: &Village) -> Vec<String> {
    village.claims.keys().cloned().collect()
}

#[test]
fn every_pod_has_its_own_claim() {
    let village = village(true);
    let expected: Vec<_> = village.names().iter().map(|it| format!("data-{it}")).collect();
    assert_eq!(claims(&village), expected);
    let (name, pod) = village.pods.first_key_value().unwrap();
    let volume = &pod["spec"]["volumes"][0];
    assert_eq!(volume["persistentVolumeClaim"]["claimName"], format!("data-{name}"));
    let claim = village.claims.first_key_value().unwrap().1;
    let id = "apps.kruise.io/cloneset-instance-id";
    assert_eq!(claim["metadata"]["labels"][id], pod["metadata"]["labels"][id]);
    assert_eq!(claim["metadata"]["labels"]["app"], "web");
    assert_eq!(claim["metadata"]["ownerReferences"][0]["kind"], "CloneSet");
}

#[test]
fn a_claim_goes_with_its_pod_when_we_delete_it_and_waits_when_somebody_else_does() {
    let mut village = village(true);
    village.change(json!({"replicas": 2}));
    village.settle();
    assert_eq!(village.claims.len(), 2);
    let names = village.names();
    village.pods.remove(&names[0]);
    village.settle();
    assert_eq!(village.names(), names, "the successor takes over the id, and with it name and data");
}

#[test]
fn the_successor_of_a_pod_that_somebody_deletes_waits_until_its_name_and_data_are_free() {
    let mut village = village(true);
    let (names, claims_before) = (village.names(), claims(&village));
    let now = village.now.to_string();
    village.pods.get_mut(&names[0]).unwrap()["metadata"]["deletionTimestamp"] = json!(now);
    assert!(village.plan().is_empty(), "the name is taken, and other claims would be empty");
    village.change(json!({"replicas": 4}));
    assert_eq!(village.pass(usize::MAX), 1, "what does not need the name does not wait");
    village.pods.remove(&names[0]);
    village.settle();
    assert_eq!(village.pods.len(), 4);
    assert!(names.iter().all(|it| village.pods.contains_key(it)));
    assert!(claims_before.iter().all(|it| village.claims.contains_key(it)) && village.claims.len() == 4);
}

/// Nobody knows whether a pod on its way out ever ends: its node may be lost.
#[test]
fn a_pod_on_its_way_out_does_not_keep_others_from_going() {
    let mut village = village(true);
    village.change(json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}}));
    let (names, now) = (village.names(), village.now.to_string());
    village.pods.get_mut(&names[0]).unwrap()["metadata"]["deletionTimestamp"] = json!(now);
    village.label(&names[1], "apps.kruise.io/specified-delete", json!("true"));
    village.pass(usize::MAX);
    assert!(!village.pods.contains_key(&names[1]), "{:?}", village.log);
    village.label(&names[2], "apps.kruise.io/specified-delete", json!("true"));
    village.pass(usize::MAX);
    assert!(village.pods.contains_key(&names[2]), "the budget holds: {:?}", village.log);
}

#[test]
fn an_id_whose_name_a_stranger_has_taken_is_left_alone_until_the_stranger_is_gone() {
    let mut village = village(true);
    let lost = village.names()[0].clone();
    let id = village.pods[&lost]["metadata"]["labels"]["apps.kruise.io/cloneset-instance-id"].clone();
    village.pods.remove(&lost);
    village.occupied.insert(id.as_str().unwrap().to_owned());
    village.settle();
    assert_eq!((village.pods.len(), village.claims.len()), (3, 4), "another pod, with a claim of its own");
    assert!(!village.pods.contains_key(&lost));

    village.occupied.clear();
    village.change(json!({"replicas": 4}));
    village.settle();
    assert!(village.pods.contains_key(&lost), "name and data are free again");
    assert_eq!(village.claims.len(), 4);
}

#[test]
fn updating_in_place_keeps_claims_and_recreating_replaces_them() {
    for (policy, kept) in [("InPlaceIfPossible", true), ("ReCreate", false)] {
        let mut village = village(true);
        village.change(json!({"updateStrategy": {"rollingUpdate": {"podUpdatePolicy": policy}}}));
        let before = claims(&village);
        village.image("web:2");
        village.settle();
        assert_eq!(claims(&village) == before, kept, "{policy}");
        assert_eq!(village.claims.len(), 3);
    }
}

#[test]
fn editing_claim_templates_changes_no_pod() {
    let mut village = village(true);
    let grown: Value =
        json!([{"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "2Gi"}}}}]);
    village.change(json!({"volumeClaimTemplates": grown}));
    assert!(village.plan().is_empty());
}

/// openkruise/kruise#1872: such pods were refused for ever.
#[test]
fn a_pod_of_the_old_revision_has_claims_whose_template_has_been_removed() {
    let mut village = village(true);
    village
        .change(json!({"volumeClaimTemplates": [], "updateStrategy": {"rollingUpdate": {"partition": 3}}}));
    village.image("web:2");
    let lost = village.names()[0].clone();
    village.pods.remove(&lost);
    village.claims.clear();
    village.change(json!({"replicas": 4}));
    village.settle();
    let volumes = |it: &Value| it["spec"]["volumes"].as_array().map_or(0, Vec::len);
    let old = village.pods.values().filter(|it| it["spec"]["containers"][0]["image"] == "web:1");
    assert_eq!(old.map(volumes).collect::<Vec<_>>(), [1, 1, 1], "the image mounts its data");
    let new = village.pods.values().filter(|it| it["spec"]["containers"][0]["image"] == "web:2");
    assert_eq!(new.map(volumes).collect::<Vec<_>>(), [0]);
    assert_eq!(village.claims.len(), 1, "the one of the new old pod");
}
