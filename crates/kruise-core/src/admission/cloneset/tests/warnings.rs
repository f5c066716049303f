use serde_json::{Value, json};

use super::{BOTH, Version, assert_good, cloneset, policy, rolling, with};
use crate::{
    admission::cloneset::warnings,
    runtime::gates::{Gate, Gates},
};

const ALPHA: Version = Version::V1Alpha1;
const BETA: Version = Version::V1Beta1;

fn told(it: &Value, version: Version) -> Vec<String> {
    warnings(it, None, version, Gates::defaults())
}

/// The object is accepted, with exactly one warning that contains this.
#[track_caller]
fn assert_warned(it: &Value, version: Version, text: &str) {
    assert_good(it, None, version);
    let told = told(it, version);
    assert!(told.len() == 1 && told[0].contains(text), "{version:?}: {told:?}");
}

#[test]
fn an_object_that_means_what_it_says_is_not_warned_of() {
    for version in BOTH {
        assert_eq!(told(&cloneset(version), version), [""; 0]);
    }
    // v1alpha1 has its numbers filled in for OnDelete as well; nobody meant anything by them.
    let on_delete = with(cloneset(ALPHA), "/spec/updateStrategy/type", json!("OnDelete"));
    assert_eq!(told(&on_delete, ALPHA), [""; 0]);
}

#[test]
fn a_name_that_leaves_no_room_for_the_hash_unless_hashes_are_short() {
    for version in BOTH {
        let named = |length: usize| with(cloneset(version), "/metadata/name", json!("n".repeat(length)));
        assert_warned(&named(53), version, "CloneSetShortHash");
        assert_eq!(told(&named(52), version), [""; 0]);
        let gates = Gates::defaults().with(Gate::CloneSetShortHash, true);
        assert_eq!(warnings(&named(53), None, version, gates), [""; 0]);
    }
}

#[test]
fn numbers_of_an_update_that_never_runs() {
    let alpha = with(cloneset(ALPHA), "/spec/updateStrategy/type", json!("OnDelete"));
    assert_warned(
        &with(alpha, "/spec/updateStrategy/partition", json!(3)),
        ALPHA,
        "updateStrategy.partition has no effect",
    );
    let beta = with(
        cloneset(BETA),
        "/spec/updateStrategy",
        json!({"type": "OnDelete", "rollingUpdate": {"paused": true}}),
    );
    assert_warned(&beta, BETA, "spec.updateStrategy.rollingUpdate.paused has no effect");
}

#[test]
fn in_place_settings_where_pods_are_replaced() {
    for version in BOTH {
        let grace = rolling(version, "inPlaceUpdateStrategy");
        let it = with(cloneset(version), &grace, json!({"gracePeriodSeconds": 5}));
        assert_warned(&it, version, "inPlaceUpdateStrategy has no effect with ReCreate");
        assert!(told(&with(it, &policy(version), json!("InPlaceIfPossible")), version).is_empty());
        let hook = json!({"inPlaceUpdate": {"finalizersHandler": ["f"]}});
        let it = with(cloneset(version), "/spec/lifecycle", hook);
        assert_warned(&it, version, "spec.lifecycle.inPlaceUpdate has no effect");
        assert!(told(&with(it, &policy(version), json!("InPlaceOnly")), version).is_empty());
    }
}

#[test]
fn hooks_that_hold_nothing() {
    for version in BOTH {
        let it = with(cloneset(version), "/spec/lifecycle", json!({"preDelete": {"markPodNotReady": true}}));
        assert_warned(&it, version, "spec.lifecycle.preDelete has neither");
        let hook = json!({"preNormal": {"labelsHandler": {"a": "b"}, "markPodNotReady": true}});
        let it = with(cloneset(version), "/spec/lifecycle", hook);
        assert_warned(&it, version, "preNormal.markPodNotReady has no effect");
    }
}

#[test]
fn downloads_ahead_without_the_gate_or_in_the_wrong_place() {
    let gates = Gates::defaults().with(Gate::PreDownloadImageForInPlaceUpdate, true);
    let field = rolling(BETA, "inPlaceUpdateStrategy/imagePreDownloadParallelism");
    let it = with(with(cloneset(BETA), &policy(BETA), json!("InPlaceOnly")), &field, json!(2));
    assert_warned(
        &it,
        BETA,
        "PreDownloadImageForInPlaceUpdate is off; turn it on with the chart value featureGates",
    );
    assert!(warnings(&it, None, BETA, gates).is_empty());

    let field = rolling(ALPHA, "inPlaceUpdateStrategy/imagePreDownloadParallelism");
    let it = with(with(cloneset(ALPHA), &policy(ALPHA), json!("InPlaceOnly")), &field, json!(2));
    assert_warned(&it, ALPHA, "use the annotation apps.kruise.io/image-predownload-parallelism");

    let annotated = |key: &str, value: &str| {
        let it = with(cloneset(ALPHA), &policy(ALPHA), json!("InPlaceOnly"));
        warnings(&with(it, "/metadata/annotations", json!({ key: value })), None, ALPHA, gates)
    };
    let (timeout, pods) = (
        "apps.kruise.io/image-predownload-timeout-seconds",
        "apps.kruise.io/image-predownload-min-updated-ready-pods",
    );
    assert!(
        annotated(timeout, "5").is_empty()
            && annotated(pods, "5").is_empty()
            && annotated(pods, "20%").is_empty()
    );
    for (key, value) in [(timeout, "20%"), (timeout, "x"), (pods, "many"), (pods, "-1")] {
        let told = annotated(key, value);
        assert!(told.len() == 1 && told[0].contains(key), "{told:?}");
    }
}

#[test]
fn labels_with_values_that_nobody_reads() {
    let it =
        |version, key: &str, value: &str| with(cloneset(version), "/metadata/labels", json!({ key: value }));
    let exclude = "apps.kruise.io/cloneset-scaling-exclude-preparing-delete";
    assert_warned(&it(ALPHA, exclude, "yes"), ALPHA, "only \"true\" has");
    assert!(told(&it(ALPHA, exclude, "true"), ALPHA).is_empty());
    let protection = "policy.kruise.io/delete-protection";
    assert_warned(&it(BETA, protection, "Always"), BETA, "ResourcesDeletionProtection is off");
    assert_warned(&it(BETA, protection, "always"), BETA, "must be Always or Cascading");
    let gates = Gates::defaults().with(Gate::ResourcesDeletionProtection, true);
    assert!(warnings(&it(BETA, protection, "Cascading"), None, BETA, gates).is_empty());
}

#[test]
fn terms_and_volumes_that_change_nothing() {
    for version in BOTH {
        let term = json!({"weight": 0, "matchSelector": {"matchLabels": {"a": "b"}}});
        let it =
            with(cloneset(version), &rolling(version, "priorityStrategy"), json!({"weightPriority": [term]}));
        assert_warned(&it, version, "weightPriority[0] has no effect");
        let it =
            with(cloneset(version), "/spec/volumeClaimTemplates", json!([{"metadata": {"name": "data"}}]));
        let it = with(it, "/spec/template/spec/volumes", json!([{"name": "data", "emptyDir": {}}]));
        assert_warned(&it, version, "spec.template.spec.volumes[0] has no effect");
    }
}

#[test]
fn changed_claims_reach_only_new_pods() {
    for version in BOTH {
        let old = cloneset(version);
        let new = with(old.clone(), "/spec/volumeClaimTemplates", json!([{"metadata": {"name": "data"}}]));
        let told = warnings(&new, Some(&old), version, Gates::defaults());
        assert!(told.len() == 1 && told[0].contains("only new pods"), "{told:?}");
        let both = with(new, "/spec/template/spec/containers/0/image", json!("i:2"));
        assert!(warnings(&both, Some(&old), version, Gates::defaults()).is_empty());
    }
}
