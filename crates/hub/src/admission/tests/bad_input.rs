//! Section 23, numbered in the order of its rows.

use kruise_core::runtime::webhook::Verdict;
use scheduling::{
    ledger::{ReportRefused, Revision, Row, Share, Taken},
    names::ClusterName,
};
use serde_json::{Value, json};

use super::{cloneset, cluster, policy, refusal};
use crate::{
    admission::{object, policy as policies, reviews},
    placement::kinds::pods_report,
};

fn policy_refusal(parts: Value) -> Option<String> {
    refusal(policies::check(&policy(parts), &[cluster("eu-1"), cluster("eu-2")]).verdict())
}

fn warnings(parts: Value) -> Vec<String> {
    let findings = policies::check(&policy(parts), &[cluster("eu-1"), cluster("eu-2")]);
    assert!(findings.faults.is_empty(), "{:?}", findings.faults);
    findings.warnings
}

/// What is told about waves besides that there are none yet.
fn about_waves(parts: Value) -> Vec<String> {
    warnings(parts).into_iter().filter(|it| !it.starts_with("spec.rollout.order")).collect()
}

fn object_refusal(replicas: i64, rolling: Value) -> Option<String> {
    refusal(object::check(&cloneset(replicas, rolling), None).verdict())
}

#[track_caller]
fn assert_names(refusal: Option<String>, field: &str, reason: &str) {
    let refusal = refusal.expect("it must be denied");
    assert!(refusal.starts_with(field), "{refusal} does not name {field}");
    assert!(refusal.contains(reason), "{refusal} does not say {reason}");
}

#[test]
fn bad_input_1_numbers_out_of_range_are_denied_with_field_and_reason() {
    const PARTITION: &str = "spec.updateStrategy.rollingUpdate.partition: Invalid value";
    assert_names(
        object_refusal(3, json!({"partition": "abc"})),
        PARTITION,
        "must be an integer or a percent",
    );
    assert_names(object_refusal(3, json!({"partition": -1})), PARTITION, "must not be negative");
    assert_names(object_refusal(3, json!({"partition": "101%"})), PARTITION, "must not be above 100%");
    assert_names(
        policy_refusal(json!({"replicas": {"weights": [{"weight": 1}, {"weight": -1}]}})),
        "spec.replicas.weights[1].weight: Invalid value: -1",
        "must be an integer from 0 to 10000",
    );
    assert_names(
        policy_refusal(json!({"replicas": {"perCluster": [{"min": 5, "max": 3}]}})),
        "spec.replicas.perCluster[0].min: Invalid value: 5",
        "must not be above max, which is 3",
    );
    for share in ["0%", "00%"] {
        assert_names(
            policy_refusal(json!({"spread": [{"topologyKey": "region", "maxShare": share}]})),
            "spec.spread[0].maxShare: Invalid value",
            "must be above 0%",
        );
    }
    for (key, reason) in [("moon", "is unknown"), ("not a key", "must be region, zone, provider or a label")]
    {
        assert_names(
            policy_refusal(json!({"spread": [{"topologyKey": key}]})),
            "spec.spread[0].topologyKey: Invalid value",
            reason,
        );
    }
}

#[test]
fn bad_input_1_numbers_in_range_pass() {
    for partition in [json!(0), json!("100%"), json!("12.5%"), json!(7)] {
        assert_eq!(object_refusal(3, json!({"partition": partition})), None);
    }
    let spread = json!([{"topologyKey": "env", "maxShare": "50%"}, {"topologyKey": "zone"}]);
    assert_eq!(policy_refusal(json!({"spread": spread})), None);
    // Before any cluster has joined every label may be known later.
    let early = policies::check(&policy(json!({"spread": [{"topologyKey": "moon"}]})), &[]);
    assert!(early.faults.is_empty());
}

#[test]
fn bad_input_2_budgets_that_are_both_zero_are_denied() {
    const FIELD: &str = "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value";
    for (unavailable, surge) in [(json!(0), json!(0)), (json!("0%"), Value::Null), (json!("10%"), json!(0))] {
        let both = json!({"maxUnavailable": unavailable, "maxSurge": surge});
        // 10% of 3 rounds up to 1 where there is no surge.
        let expected = unavailable != json!("10%");
        let refusal = object_refusal(3, both.clone());
        assert_eq!(refusal.is_some(), expected, "{both} {refusal:?}");
        if expected {
            assert_names(refusal, FIELD, "must not both be 0");
        }
        assert_eq!(object_refusal(0, both), None, "with no replicas there is nothing to update");
    }
    for zero in [json!(0), json!("0%")] {
        assert_names(
            policy_refusal(json!({"rebalance": {"maxSurge": zero}})),
            "spec.rebalance.maxUnavailable: Invalid value",
            "no move could ever be made",
        );
    }
    assert_eq!(policy_refusal(json!({"rebalance": {"maxSurge": 0, "maxUnavailable": "5%"}})), None);
}

#[test]
fn bad_input_3_a_policy_that_selects_no_cluster_is_accepted_with_a_warning() {
    let found = warnings(json!({"clusters": {"names": ["nowhere"]}}));
    assert_eq!(found, ["the policy selects no cluster at present: nothing is placed or changed"]);
}

#[test]
fn bad_input_4_overlapping_waves_warn_and_left_out_clusters_are_in_the_last() {
    let wave = |name: &str, cluster: &str| json!({"name": name, "clusters": {"names": [cluster]}});
    let waves = json!([wave("a", "eu-1"), wave("b", "eu-1")]);
    let found = about_waves(json!({"rollout": {"order": "Waves", "waves": waves}}));
    assert_eq!(found, ["cluster eu-1 is in waves a and b: a counts"]);
    let left_out = about_waves(json!({"rollout": {"order": "Waves", "waves": [wave("a", "eu-1")]}}));
    assert!(left_out.is_empty(), "{left_out:?}");
    assert_names(
        policy_refusal(
            json!({"rollout": {"order": "Waves", "waves": [wave("a", "eu-1"), wave("a", "eu-2")]}}),
        ),
        "spec.rollout.waves[1].name: Duplicate value",
        "needs a name of its own",
    );
}

#[test]
fn bad_input_5_times_of_failover_that_cannot_be_kept_are_denied() {
    assert_names(
        policy_refusal(json!({"failover": {"enabled": true, "after": "79s"}})),
        "spec.failover.after: Invalid value",
        "at least 80s",
    );
    assert_eq!(policy_refusal(json!({"failover": {"enabled": true, "after": "80s"}})), None);
    let fenced = |after: &str| {
        policy_refusal(json!({"failover": {"enabled": true, "after": after, "fencing": "SelfFence",
            "fenceAfter": "60s", "fenceGrace": "30s"}}))
    };
    // (60 + 30 + 40) x 1.02 = 132.6
    assert_names(fenced("132s"), "spec.failover.after: Invalid value", "133s");
    assert_eq!(fenced("133s"), None);
    assert_names(
        policy_refusal(json!({"failover": {"enabled": true, "fencing": "SelfFence"}})),
        "spec.failover.fenceAfter: Required value",
        "SelfFence needs it",
    );
}

#[test]
fn bad_input_6_overrides_of_paths_that_belong_to_the_fleet_are_denied_with_the_path() {
    let refused = |step: Value| policy_refusal(json!({"overrides": [{"patches": [step]}]}));
    for (path, owned) in [
        ("/spec/replicas", "/spec/replicas"),
        ("/spec", "/metadata/name"),
        ("/spec/updateStrategy", "/spec/updateStrategy"),
        ("/spec/updateStrategy/rollingUpdate/partition", "/spec/updateStrategy/rollingUpdate/partition"),
        ("/spec/selector/matchLabels/app", "/spec/selector"),
        ("/spec/scaleStrategy/podsToDelete/0", "/spec/scaleStrategy/podsToDelete"),
        ("/metadata/name", "/metadata/name"),
        ("/metadata/namespace", "/metadata/namespace"),
        ("/spec/parallelism", "/spec/parallelism"),
    ] {
        let refusal = refused(json!({"op": "replace", "path": path, "value": 1}));
        let field = "spec.overrides[0].patches[0].path: Invalid value";
        let owned = if path == "/spec" { "belongs to the fleet" } else { owned };
        assert_names(refusal, field, owned);
    }
    let moved = refused(json!({"op": "move", "path": "/metadata/labels/x", "from": "/spec/replicas"}));
    assert_names(moved, "spec.overrides[0].patches[0].path", "/spec/replicas belongs to the fleet");
    for step in [
        json!({"op": "replace", "path": "/spec/template/spec/priorityClassName", "value": "low"}),
        json!({"op": "test", "path": "/spec/replicas", "value": 1}),
        json!({"op": "add", "path": "/metadata/labels/x", "value": "y"}),
        json!({"op": "replace", "path": "/spec/replicasOfTheFuture", "value": 1}),
    ] {
        assert_eq!(refused(step.clone()), None, "{step}");
    }
    assert_names(
        refused(json!({"op": "add", "path": "/a"})),
        "spec.overrides[0].patches[0].value",
        "need a value",
    );
}

#[test]
fn bad_input_7_more_replicas_than_the_limit_are_denied_with_the_limit() {
    assert_names(object_refusal(1_000_001, json!({})), "spec.replicas: Invalid value", "at most 1000000");
    assert_eq!(object_refusal(1_000_000, json!({})), None);
    assert_names(object_refusal(-1, json!({})), "spec.replicas: Invalid value", "must not be negative");
}

#[test]
fn bad_input_7_and_split_9_a_number_written_through_the_scale_subresource_has_the_same_limits() {
    let stored = cloneset(3, json!({"maxSurge": "50%"}));
    let scaled = |replicas: i64| object::scaled(&stored, &json!({"spec": {"replicas": replicas}}));
    let refused = |replicas: i64, quota| refusal(object::check(&scaled(replicas), quota).verdict());
    assert_names(refused(1_000_001, None), "spec.replicas: Invalid value", "at most 1000000");
    assert_eq!(refused(1_000_000, None), None);
    let quota = object::Quota { limit: 9, used_by_others: 3 };
    assert_eq!(refused(4, Some(quota)), None);
    assert_names(refused(5, Some(quota)), "spec.replicas: Forbidden", "8 replicas and surge pods");
    assert!(object::demand(&scaled(3)) <= object::demand(&stored), "nothing is scaled");
    assert_eq!(object::scaled(&stored, &json!({}))["spec"]["replicas"], 0);
}

#[test]
fn bad_input_10_a_report_that_cannot_be_true_is_refused_and_the_last_one_kept() {
    let mut row = Row::new(ClusterName::from("eu-1"));
    let share = Share { replicas: 4, updated: 4, body: Revision(7), stable: Revision(7), ..Share::default() };
    row.write(share, Revision(7), 4);
    let reference = json!({"name": "b", "hash": "0000000000000007"});
    let status = |counts: Value, report: u64| {
        let status = json!({
            "incarnation": 1, "report": report, "appliedSeq": 1, "appliedTerm": 1, "generation": 1,
            "observedGeneration": 1, "applied": {"cloneSet": {"replicas": 4, "updated": 4}},
            "target": reference, "stable": reference, "counts": counts,
        });
        serde_json::from_value(status).map(|it| pods_report(&it))
    };
    let good = json!({"replicas": 4, "ready": 4, "available": 4, "updated": 4, "updatedReady": 4, "updatedAvailable": 4});
    assert_eq!(row.take(status(good.clone(), 1).unwrap(), Revision(7)), Taken::Acknowledged);
    let before = row.clone();
    let mut more_updated = good.clone();
    more_updated["updated"] = json!(5);
    assert_eq!(
        row.take(status(more_updated, 2).unwrap(), Revision(7)),
        Taken::Refused(ReportRefused::Contradiction)
    );
    let absurd = json!({"replicas": 4_000_000, "available": 4});
    assert_eq!(row.take(status(absurd, 3).unwrap(), Revision(7)), Taken::Refused(ReportRefused::TooManyPods));
    assert_eq!(row, before);
    let mut negative = good;
    negative["replicas"] = json!(-1);
    assert!(status(negative, 4).is_err(), "a negative count cannot even be read");
}

#[test]
fn split_9_what_is_above_the_quota_already_may_be_changed_as_long_as_it_does_not_grow() {
    let quota = object::Quota { limit: 20, used_by_others: 15 };
    let judged = |replicas, image: &str| {
        let mut object = cloneset(replicas, json!({"maxSurge": 1}));
        object["spec"]["template"] = json!({"spec": {"containers": [{"name": "main", "image": image}]}});
        let request = json!({
            "uid": "1", "operation": "UPDATE", "object": object, "oldObject": cloneset(10, json!({"maxSurge": 1})),
            "kind": {"group": "apps.kruise.io", "version": "v1beta1", "kind": "CloneSet"},
            "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": "clonesets"},
        });
        let request = serde_json::from_value(request).unwrap();
        refusal(reviews::with_fleet_rules(Verdict::allow(), &request, Some(quota)))
    };
    assert_eq!(judged(10, "a:2"), None, "a new image needs no more pods");
    assert_eq!(judged(8, "a:1"), None, "fewer replicas are what the limit asks for");
    assert_names(judged(11, "a:1"), "spec.replicas: Forbidden", "allows 20, and 15 are taken");
}

#[test]
fn a_quota_of_the_namespace_caps_replicas_and_surge() {
    let namespace = json!({"metadata": {"annotations": {"fleet.kruise.io/quota-pods": "20"}}});
    let quota = object::Quota::of(&namespace, 8).unwrap();
    let judged = |replicas, surge: &str| {
        let object = cloneset(replicas, json!({"maxSurge": surge}));
        refusal(object::check(&object, Some(quota)).verdict())
    };
    assert_eq!(judged(10, "20%"), None);
    assert_names(judged(11, "20%"), "spec.replicas: Forbidden", "allows 20, and 8 are taken");
    let unreadable = json!({"metadata": {"annotations": {"fleet.kruise.io/quota-pods": "many"}}});
    assert_eq!(object::Quota::of(&unreadable, 0).unwrap().limit, 0);
    assert_eq!(object::Quota::of(&json!({}), 0), None);
}

#[test]
fn g_04_what_is_accepted_and_does_nothing_yet_is_told_with_its_field() {
    let told = |parts: Value, field: &str, word: &str| {
        let warnings = warnings(parts);
        assert!(
            warnings.iter().any(|it| it.starts_with(field) && it.contains(word)),
            "{field}: {warnings:?}"
        );
    };
    told(json!({"dependencies": "Auto"}), "spec.dependencies", "no effect yet");
    told(json!({"failover": {"enabled": true}}), "spec.failover.enabled", "no effect yet");
    told(json!({"rollout": {"prePull": {"enabled": true}}}), "spec.rollout.prePull", "no effect yet");
    told(json!({"encryption": "Sealed"}), "spec.encryption", "no effect yet");
    told(json!({"rollout": {"order": "Waves"}}), "spec.rollout.order", "scaling");
    assert_eq!(warnings(json!({"rollout": {"onFailure": "Rollback"}})), Vec::<String>::new());
}

#[test]
fn g_04_kinds_that_nobody_brings_into_clusters_yet_are_told_by_name_and_once() {
    let about_kinds = |targets: Value| -> Vec<String> {
        let all = warnings(json!({"targets": targets}));
        all.into_iter().filter(|it| it.starts_with("spec.targets")).collect()
    };
    let told = about_kinds(json!([
        {"kind": "CloneSet", "name": "web"},
        {"kind": "SidecarSet", "name": "log"},
        {"kind": "SidecarSet", "name": "proxy"},
        {"group": "apps", "kind": "Deployment", "labelSelector": {}},
        {"group": "example.org", "kind": "CloneSet", "labelSelector": {}},
    ]));
    let begin = [
        "spec.targets[1].kind: SidecarSet of apps.kruise.io has no effect yet",
        "spec.targets[3].kind: Deployment of apps has no effect yet",
        "spec.targets[4].kind: CloneSet of example.org has no effect yet",
    ];
    assert_eq!(told.len(), begin.len(), "{told:?}");
    assert!(told.iter().zip(begin).all(|(told, begin)| told.starts_with(begin)), "{told:?}");
    let dispatched =
        ["CloneSet", "ImagePullJob", "ImageListPullJob"].map(|it| json!({"kind": it, "name": "a"}));
    assert_eq!(about_kinds(json!(dispatched)), Vec::<String>::new());
}

#[test]
fn numbers_of_other_kinds_are_judged_too() {
    let refused = |object: Value| refusal(object::check(&object, None).verdict());
    let job = |parallelism: Value| json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob", "spec": {"parallelism": parallelism}});
    assert_names(refused(job(json!("10%"))), "spec.parallelism: Invalid value", "not a percentage");
    assert_eq!(refused(job(json!(0))), None);
    let sidecars = |strategy: Value| json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "spec": {"updateStrategy": strategy}});
    assert_names(
        refused(sidecars(json!({"partition": "101%"}))),
        "spec.updateStrategy.partition",
        "above 100%",
    );
    assert_names(
        refused(sidecars(json!({"maxUnavailable": 0}))),
        "spec.updateStrategy.maxUnavailable",
        "not be 0",
    );
    let mut copied = cloneset(1, json!({}));
    copied["metadata"]["annotations"] = json!({"fleet.kruise.io/numbers": "perCluster"});
    assert_names(refused(copied), "metadata.annotations[fleet.kruise.io/numbers]", "must be PerCluster");
}
