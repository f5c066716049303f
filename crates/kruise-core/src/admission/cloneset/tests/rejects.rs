use serde_json::{Value, json};

use super::{BOTH, Version, assert_fault, assert_good, cloneset, faults, path, policy, with};
use crate::{
    admission::cloneset::{Context, validate, validate_delete},
    runtime::{
        gates::{Gate, Gates},
        webhook::{FieldFault, Verdict},
    },
};

const ALPHA: Version = Version::V1Alpha1;
const BETA: Version = Version::V1Beta1;

/// Sets one value of a new object in both versions and expects one fault there.
#[track_caller]
fn refused(pointer: &str, value: Value, text: &str) {
    for version in BOTH {
        let it = with(cloneset(version), pointer, value.clone());
        assert_fault(&it, None, version, &path(pointer), text);
    }
}

#[test]
fn a_good_object_passes_in_both_versions() {
    for version in BOTH {
        assert_good(&cloneset(version), None, version);
        assert_good(&cloneset(version), Some(&cloneset(version)), version);
    }
}

#[test]
fn metadata_follows_kubernetes() {
    refused("/metadata/name", json!("Foo"), "DNS-1123");
    refused("/metadata/labels", json!({"a b": "c"}), "name part");
}

#[test]
fn numbers_below_zero_are_refused() {
    for field in ["replicas", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        refused(&format!("/spec/{field}"), json!(-1), "greater than or equal to 0");
    }
}

#[test]
fn a_selector_is_needed_and_must_match_the_template() {
    for version in BOTH {
        let mut it = cloneset(version);
        it["spec"].as_object_mut().unwrap().remove("selector");
        assert_fault(&it, None, version, "spec.selector", "Required value");
    }
    refused("/spec/selector", json!({}), "empty selector is invalid for cloneset");
    refused("/spec/selector", json!({"matchLabels": {}, "matchExpressions": []}), "empty selector");
    refused("/spec/template/metadata/labels", json!({"app": "y"}), "does not match");
    refused("/spec/template/metadata/labels", json!({"app": "x", "bad": "a b"}), "label bad");
    for version in BOTH {
        let bad = json!({"matchExpressions": [{"key": "app", "operator": "Like"}]});
        let it = with(cloneset(version), "/spec/selector", bad);
        assert_fault(&it, None, version, "spec.selector.matchExpressions[0].operator", "must be In, NotIn");
    }
}

#[test]
fn a_template_must_restart_its_containers_and_have_no_deadline() {
    for policy in ["Never", "OnFailure", "sometimes"] {
        refused("/spec/template/spec/restartPolicy", json!(policy), "supported values: \"Always\"");
    }
    let bad = with(cloneset(BETA), "/spec/template/spec/restartPolicy", json!("Never"));
    assert_eq!(faults(&bad, None, BETA)[0].fault, FieldFault::NotSupported);
    refused("/spec/template/spec/activeDeadlineSeconds", json!(5), "Forbidden");
    for version in BOTH {
        assert_good(&with(cloneset(version), "/spec/template/spec/restartPolicy", json!("")), None, version);
    }
}

#[test]
fn claim_templates_are_named_like_volumes() {
    for (names, index, text) in
        [(["A", "b"], 0, "DNS-1123 label"), (["a", "a"], 1, "Duplicate"), (["a", ""], 1, "Required")]
    {
        let claims = names.map(|it| json!({"metadata": {"name": it}}));
        let it = with(cloneset(BETA), "/spec/volumeClaimTemplates", json!(claims));
        let path = format!("spec.volumeClaimTemplates[{index}].metadata.name");
        assert_fault(&it, None, BETA, &path, text);
    }
}

#[test]
fn pods_to_delete_must_be_pods_of_this_cloneset() {
    let pods = "/spec/scaleStrategy/podsToDelete";
    for (name, text) in [
        ("gone", "there is no pod gone"),
        ("foo-leaving", "is being deleted already"),
        ("bar-a", "does not belong"),
        ("orphan", "does not belong"),
    ] {
        refused(pods, json!(["foo-a", name]), text);
    }
    for version in BOTH {
        assert_good(&with(cloneset(version), pods, json!(["foo-a", "foo-b"])), None, version);
        // Names that were there before are not looked at again.
        let old = with(cloneset(version), pods, json!(["gone"]));
        assert_good(&with(old.clone(), pods, json!(["gone", "foo-a"])), Some(&old), version);
        assert_fault(&with(old.clone(), pods, json!(["lost"])), Some(&old), version, &path(pods), "lost");
        // Without pods to look at, names are taken on trust.
        let context = Context { pods: None };
        assert!(validate(&old, None, version, &context).is_empty());
    }
}

#[test]
fn a_pod_named_twice_ends_the_look_at_the_scale_strategy() {
    let strategy = json!({"podsToDelete": ["a", "b", "a"], "maxUnavailable": "5"});
    for version in BOTH {
        let it = with(cloneset(version), "/spec/scaleStrategy", strategy.clone());
        assert_fault(&it, None, version, "spec.scaleStrategy.podsToDelete", "duplicated items [a]");
    }
}

#[test]
fn the_brake_on_scaling_out_is_a_number_or_a_percentage() {
    for bad in [json!("5"), json!(-1), json!("many%")] {
        refused("/spec/scaleStrategy/maxUnavailable", bad, "it must");
    }
    for version in BOTH {
        assert_good(
            &with(cloneset(version), "/spec/scaleStrategy/maxUnavailable", json!("5%")),
            None,
            version,
        );
    }
}

#[test]
fn a_deadline_must_be_later_than_the_time_a_pod_needs() {
    for version in BOTH {
        let it = |ready: i32, deadline: i32| {
            let it = with(cloneset(version), "/spec/minReadySeconds", json!(ready));
            with(it, "/spec/progressDeadlineSeconds", json!(deadline))
        };
        for (ready, deadline) in [(10, 10), (10, 5), (0, 0)] {
            assert_fault(
                &it(ready, deadline),
                None,
                version,
                "spec.progressDeadlineSeconds",
                "minReadySeconds",
            );
        }
        for (ready, deadline) in [(10, 11), (i32::MAX, i32::MAX), (0, 1)] {
            assert_good(&it(ready, deadline), None, version);
        }
    }
}

#[test]
fn only_named_fields_of_the_spec_may_change() {
    for version in BOTH {
        let old = cloneset(version);
        let both = with(old.clone(), "/spec/template/metadata/labels", json!({"app": "x", "b": "y"}));
        let other = with(both.clone(), "/spec/selector", json!({"matchLabels": {"b": "y"}}));
        assert_fault(&other, Some(&both), version, "spec", "selector must not change");
        let same =
            with(old.clone(), "/spec/selector", json!({"matchLabels": {"app": "x"}, "matchExpressions": []}));
        assert_good(&with(same, "/spec/replicas", json!(1)), Some(&old), version);
        let claims = |size: &str| json!([{"metadata": {"name": "a"}, "spec": {"resources": {"requests": {"storage": size}}}}]);
        let claimed = with(old.clone(), "/spec/volumeClaimTemplates", claims("1Gi"));
        for (pointer, value) in [
            ("/spec/replicas", json!(7)),
            ("/spec/lifecycle", json!({"preDelete": {"finalizersHandler": ["f"]}})),
            ("/spec/minReadySeconds", json!(7)),
            ("/spec/progressDeadlineSeconds", json!(600)),
            ("/spec/revisionHistoryLimit", json!(3)),
            ("/spec/scaleStrategy", json!({"maxUnavailable": 1})),
            ("/spec/template/spec/containers/0/env", json!([{"name": "A"}])),
            ("/spec/volumeClaimTemplates", claims("2Gi")),
        ] {
            assert_good(&with(claimed.clone(), pointer, value), Some(&claimed), version);
        }
    }
}

#[test]
fn in_place_only_lets_nothing_but_images_change() {
    for version in BOTH {
        let old = cloneset(version);
        let only = with(old.clone(), &policy(version), json!("InPlaceOnly"));
        let image = "/spec/template/spec/containers/0/image";
        // From another type as well.
        assert_good(&with(only.clone(), image, json!("i:2")), Some(&old), version);
        let annotated = with(only.clone(), "/spec/template/metadata/annotations", json!({"a": "b"}));
        assert_good(&annotated, Some(&only), version);
        let mut bare = with(only.clone(), image, json!("i:2"));
        bare["spec"]["template"]["spec"]["containers"][0].as_object_mut().unwrap().remove("resources");
        assert_good(&bare, Some(&only), version);

        let env =
            with(only.clone(), "/spec/template/spec/containers/0/env", json!([{"name": "A", "value": "1"}]));
        assert_fault(&env, Some(&only), version, "spec", "add /containers/0/env");
        let mut more = only.clone();
        let containers = &mut more["spec"]["template"]["spec"]["containers"];
        containers.as_array_mut().unwrap().push(json!({"name": "d", "image": "i"}));
        assert_fault(&more, Some(&only), version, "spec", "add /containers/1");
        let renamed = with(only.clone(), "/spec/template/spec/containers/0/name", json!("d"));
        assert_fault(&renamed, Some(&only), version, "spec", "replace /containers/0/name");
        let possible = with(env, &policy(version), json!("InPlaceIfPossible"));
        assert_good(&possible, Some(&only), version);
    }
}

#[test]
fn a_spec_that_nobody_touches_is_not_judged_again() {
    for version in BOTH {
        let bad = with(cloneset(version), "/spec/minReadySeconds", json!(-1));
        assert_good(&with(bad.clone(), "/metadata/finalizers", json!([])), Some(&bad), version);
        let touched = with(bad.clone(), "/spec/replicas", json!(1));
        assert_fault(&touched, Some(&bad), version, "spec.minReadySeconds", "-1");
    }
}

#[test]
fn protected_objects_are_not_deleted() {
    let gates = Gates::defaults().with(Gate::ResourcesDeletionProtection, true);
    let label = |value: &str| {
        with(cloneset(BETA), "/metadata/labels", json!({"policy.kruise.io/delete-protection": value}))
    };
    for value in ["Always", "Cascading"] {
        let denial = validate_delete(&label(value), gates).unwrap();
        assert_eq!(denial.code, 403);
        assert!(
            denial.message.contains(value) && denial.message.contains("remove the label"),
            "{}",
            denial.message
        );
        assert_eq!(validate_delete(&label(value), Gates::defaults()), None, "the gate is off");
        let leaving = with(label(value), "/metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z"));
        assert_eq!(validate_delete(&leaving, gates), None);
    }
    assert_eq!(validate_delete(&with(label("Cascading"), "/spec/replicas", json!(0)), gates), None);
    assert!(validate_delete(&with(label("Always"), "/spec/replicas", json!(0)), gates).is_some());
    assert_eq!(validate_delete(&label("Maybe"), gates), None);
    assert_eq!(validate_delete(&cloneset(BETA), gates), None);
}

#[test]
fn every_fault_is_told_at_once() {
    let it = with(cloneset(ALPHA), "/spec/replicas", json!(-1));
    let it = with(it, "/spec/selector", json!({}));
    let it = with(it, "/spec/updateStrategy/partition", json!(-1));
    let Verdict::Denied(denial) = Verdict::invalid(faults(&it, None, ALPHA)) else { panic!() };
    assert_eq!((denial.code, denial.causes.len()), (422, 3));
}
