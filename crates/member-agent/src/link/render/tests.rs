use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kruise_core::{
    admission::cloneset::{Context, validate},
    api::{
        cloneset::{keys::PINNED_REVISION, v1beta1::CloneSet},
        fleet::{CloneSetSlice, PullSlice, WholeSlice},
    },
    controllers::cloneset::plan::limits::Limits,
};
use proptest::prelude::*;

use super::*;
use crate::link::marks::Pair;

fn object(kind: &str) -> FederatedObject {
    FederatedObject {
        api_version: APPS_V1BETA1.into(),
        kind: kind.into(),
        namespace: Some("shop".into()),
        name: "web".into(),
        uid: "object-uid".into(),
    }
}

fn plan(slice: Slice) -> AssignmentSpec {
    let kind = match slice {
        Slice::CloneSet(_) => "CloneSet",
        Slice::ImagePullJob(_) => "ImagePullJob",
        Slice::Whole(_) => "ConfigMap",
    };
    AssignmentSpec {
        object: object(kind),
        term: 3,
        seq: 41,
        epoch: 2,
        slice: Some(slice),
        ..AssignmentSpec::default()
    }
}

/// A body in the words of v1beta1, with numbers as the hub's user wrote them: none of them may come through.
fn body(policy: &str) -> Value {
    json!({
        "apiVersion": APPS_V1BETA1, "kind": "CloneSet",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "generation": 2,
            "finalizers": ["fleet.kruise.io/members"], "labels": {"team": "x"},
            "annotations": {"note": "kept", "fleet.kruise.io/policy": "p", (PINNED_REVISION): "evil", (LAST_APPLIED): "{}"},
        },
        "spec": {
            "replicas": 100, "minReadySeconds": 5, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}},
            "scaleStrategy": {"maxUnavailable": "10%", "podsToDelete": ["x"]},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {
                "podUpdatePolicy": policy, "partition": "90%", "maxUnavailable": "20%", "maxSurge": "10%",
            }},
        },
        "status": {"replicas": 9},
    })
}

fn rendered(body: &Value, plan: &AssignmentSpec, pods: &[&str]) -> Result<Value, Fault> {
    let marks = Marks {
        hub_uid: "hub".into(),
        object_uid: "object-uid".into(),
        plan: Pair { term: 3, seq: 41 },
        epoch: 2,
        ..Marks::default()
    };
    let pods = pods.iter().map(|it| (*it).to_owned()).collect();
    let base = base(body, plan)?;
    member(&base, Share { plan, pods: &pods, marks: &marks })
}

fn slice(replicas: u32, updated: u32, max_unavailable: u32, max_surge: u32) -> CloneSetSlice {
    CloneSetSlice { replicas, updated, max_unavailable, max_surge, ..CloneSetSlice::default() }
}

#[test]
fn a_share_becomes_a_cloneset_with_whole_numbers_and_our_marks() {
    let share = CloneSetSlice {
        scale_max_unavailable: Some(2),
        pods_to_delete: vec!["web-b".into(), "web-a".into(), "gone".into()],
        ..slice(4, 1, 1, 2)
    };
    let member =
        rendered(&body("ReCreate"), &plan(Slice::CloneSet(share)), &["web-a", "web-b", "web-c"]).unwrap();
    assert_eq!(
        member["metadata"],
        json!({
            "name": "web", "namespace": "shop", "labels": {"team": "x"},
            "annotations": {
                "note": "kept", "fleet.kruise.io/hub-uid": "hub", "fleet.kruise.io/object-uid": "object-uid",
                "fleet.kruise.io/applied-plan": "3.41", "fleet.kruise.io/epoch": "2",
            },
        })
    );
    assert_eq!(member["spec"]["replicas"], 4);
    assert_eq!(member["spec"]["minReadySeconds"], 5, "CS-4: what acts in one cluster is copied");
    assert_eq!(
        member["spec"]["scaleStrategy"],
        json!({"maxUnavailable": 2, "podsToDelete": ["web-a", "web-b"]})
    );
    assert_eq!(
        member["spec"]["updateStrategy"]["rollingUpdate"],
        json!({"podUpdatePolicy": "ReCreate", "partition": 3, "maxUnavailable": 1, "maxSurge": 2, "paused": false})
    );
    assert_eq!(member.get("status"), None);
}

#[test]
fn bud_9_without_any_share_nothing_available_can_go() {
    let pace = |policy: &str| {
        let member = rendered(&body(policy), &plan(Slice::CloneSet(slice(4, 1, 0, 0))), &[]).unwrap();
        let rolling = &member["spec"]["updateStrategy"]["rollingUpdate"];
        (rolling["paused"].clone(), rolling["maxUnavailable"].clone(), rolling["maxSurge"].clone())
    };
    assert_eq!(pace("ReCreate"), (json!(true), json!(0), json!(1)));
    assert_eq!(pace("InPlaceIfPossible"), (json!(true), json!(0), json!(1)));
    assert_eq!(pace("InPlaceOnly"), (json!(true), json!(1), json!(0)));
    // What BUD-9 relies on: while paused a member's surge is 0.
    let member = rendered(&body("ReCreate"), &plan(Slice::CloneSet(slice(4, 1, 0, 0))), &[]).unwrap();
    let member: CloneSet = serde_json::from_value(member).unwrap();
    let limits = Limits::of(&member.spec);
    assert_eq!((limits.max_surge, limits.max_unavailable), (0, 0));
}

#[test]
fn bud_10_the_limit_for_adding_pods_is_the_shares_or_none() {
    let member = rendered(&body("ReCreate"), &plan(Slice::CloneSet(slice(4, 4, 1, 0))), &[]).unwrap();
    assert_eq!(member["spec"]["scaleStrategy"].get("maxUnavailable"), None);
}

#[test]
fn ipj_2_and_3_a_member_has_no_time_to_live_and_the_seconds_that_are_left() {
    let body = json!({
        "apiVersion": APPS_V1BETA1, "kind": "ImagePullJob", "metadata": {"name": "web"},
        "spec": {
            "image": "web:1", "parallelism": 50, "selector": {"names": ["a/n1", "n2"]},
            "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 900, "ttlSecondsAfterFinished": 60},
        },
    });
    let spec = |share| rendered(&body, &plan(Slice::ImagePullJob(share)), &[]).unwrap()["spec"].clone();
    let late =
        PullSlice { parallelism: 0, active_deadline_seconds: Some(120), nodes: Some(vec!["n1".into()]) };
    assert_eq!(
        spec(late),
        json!({
            "image": "web:1", "parallelism": 0, "selector": {"names": ["n1"]},
            "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 120},
            // A member refuses a deadline that is shorter than one attempt.
            "pullPolicy": {"timeoutSeconds": 120},
        })
    );
    let over = spec(PullSlice { active_deadline_seconds: Some(0), ..PullSlice::default() });
    assert_eq!(over["completionPolicy"]["activeDeadlineSeconds"], 1);
    let long = spec(PullSlice { active_deadline_seconds: Some(700), ..PullSlice::default() });
    assert_eq!(long.get("pullPolicy"), None);
    let free = spec(PullSlice { parallelism: 3, ..PullSlice::default() });
    assert_eq!((&free["completionPolicy"], &free["parallelism"]), (&json!({"type": "Always"}), &json!(3)));
    assert_eq!(free["selector"]["names"], json!(["a/n1", "n2"]));
    let nowhere = spec(PullSlice { parallelism: 1, nodes: Some(Vec::new()), ..PullSlice::default() });
    assert_eq!(
        nowhere["selector"]["names"].as_array().unwrap().len(),
        1,
        "no names at all would be every node"
    );
}

#[test]
fn an_object_without_numbers_is_copied_as_it_is() {
    let body = json!({"apiVersion": APPS_V1BETA1, "kind": "ConfigMap", "metadata": {"name": "web"}, "data": {"a": "b"}});
    let member = rendered(&body, &plan(Slice::Whole(WholeSlice {})), &[]).unwrap();
    assert_eq!((&member["data"], member.get("spec")), (&json!({"a": "b"}), None));
    assert_eq!(member["metadata"]["annotations"]["fleet.kruise.io/applied-plan"], "3.41");
}

#[test]
fn sec_6_a_body_reaches_no_other_object() {
    let mut other = body("ReCreate");
    other["metadata"]["name"] = json!("api");
    let plan = plan(Slice::CloneSet(slice(1, 1, 1, 0)));
    assert!(matches!(rendered(&other, &plan, &[]), Err(Fault::OtherObject { .. })));
    let mut elsewhere = body("ReCreate");
    elsewhere["metadata"]["namespace"] = json!("kube-system");
    assert_eq!(rendered(&elsewhere, &plan, &[]).unwrap()["metadata"]["namespace"], "shop");
    let mut wrong = plan.clone();
    wrong.slice = Some(Slice::ImagePullJob(PullSlice::default()));
    assert_eq!(rendered(&body("ReCreate"), &wrong, &[]), Err(Fault::OtherKind { kind: "CloneSet".into() }));
}

#[test]
fn ov_1_overrides_come_after_the_body_and_before_the_numbers() {
    let mut plan = plan(Slice::CloneSet(slice(4, 1, 1, 0)));
    let step = |path: &str, value: Value| {
        serde_json::from_value(json!({"op": "replace", "path": path, "value": value}))
    };
    plan.overrides = vec![step("/spec/template/spec/containers/0/image", json!("mirror/web:1")).unwrap()];
    let member = rendered(&body("ReCreate"), &plan, &[]).unwrap();
    assert_eq!(member["spec"]["template"]["spec"]["containers"][0]["image"], "mirror/web:1");
    plan.overrides = vec![step("/spec/replicas", json!(1)).unwrap()];
    assert_eq!(
        rendered(&body("ReCreate"), &plan, &[]),
        Err(Fault::OwnedPath { path: "/spec/replicas".into() })
    );
}

#[test]
fn bodies_of_the_older_version_get_their_numbers_where_the_stored_one_has_them() {
    let old = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}}},
            "updateStrategy": {"type": "InPlaceOnly", "partition": "50%", "maxUnavailable": 3},
        },
    });
    let mut plan = plan(Slice::CloneSet(slice(4, 1, 0, 0)));
    plan.object.api_version = "apps.kruise.io/v1alpha1".into();
    let member = rendered(&old, &plan, &[]).unwrap();
    assert_eq!(member["apiVersion"], APPS_V1BETA1);
    let rolling = &member["spec"]["updateStrategy"]["rollingUpdate"];
    assert_eq!(
        (&rolling["partition"], &rolling["maxUnavailable"], &rolling["maxSurge"]),
        (&json!(3), &json!(1), &json!(0))
    );
}

#[test]
fn rev_7_what_a_member_would_record_has_the_defaults_of_its_admission() {
    let plan = AssignmentSpec { object: object("CloneSet"), ..AssignmentSpec::default() };
    let plain = base(&body("ReCreate"), &plan).unwrap();
    let mut stored = plain.clone();
    default(&mut stored, None, Operation::Create, Version::V1Beta1, Gates::defaults());
    assert_ne!(plain["spec"]["template"], stored["spec"]["template"], "admission fills something in");
    let data = recorded(&plain, Gates::defaults()).unwrap();
    assert_eq!(data, RevisionData::of_template(&stored["spec"]["template"]));
    assert_eq!(recorded(&stored, Gates::defaults()), Some(data), "filled in twice is filled in once");
}

prop_compose! {
    fn shares()(
        replicas in 0u32..300, updated in 0u32..300, max_unavailable in 0u32..20, max_surge in 0u32..20,
        scale in prop::option::of(1u32..10), paused: bool,
        pods_to_delete in prop::collection::vec("web-[a-d]", 0..5),
    ) -> CloneSetSlice {
        let updated = updated.min(replicas);
        CloneSetSlice { replicas, updated, max_unavailable, max_surge, scale_max_unavailable: scale, paused, pods_to_delete }
    }
}

proptest! {
    #[test]
    fn a_member_is_never_invalid_and_partition_never_percent(
        share in shares(),
        policy in prop::sample::select(vec!["ReCreate", "InPlaceIfPossible", "InPlaceOnly"]),
    ) {
        let plan = plan(Slice::CloneSet(share.clone()));
        let mut member = rendered(&body(policy), &plan, &["web-a", "web-b"]).unwrap();
        let rolling = member["spec"]["updateStrategy"]["rollingUpdate"].clone();
        for name in ["partition", "maxUnavailable", "maxSurge"] {
            prop_assert!(rolling[name].is_u64(), "{name} is {}", rolling[name]);
        }
        prop_assert_eq!(&rolling["partition"], &json!(share.replicas - share.updated));

        default(&mut member, None, Operation::Create, Version::V1Beta1, Gates::defaults());
        let faults = validate(&member, None, Version::V1Beta1, &Context { pods: None });
        prop_assert!(faults.is_empty(), "{faults:?}");

        let typed: CloneSet = serde_json::from_value(member).unwrap();
        let is_int = |it: &Option<IntOrString>| it.as_ref().is_none_or(|it| matches!(it, IntOrString::Int(_)));
        prop_assert!(is_int(&typed.spec.scale_strategy.max_unavailable));
        // What the member's own controller makes of it.
        let limits = Limits::of(&typed.spec);
        prop_assert_eq!(limits.expected_updated(), Some(i64::from(share.updated)));
        let nothing = share.max_unavailable == 0 && (share.max_surge == 0 || policy == "InPlaceOnly");
        let unavailable = if nothing && policy == "InPlaceOnly" { 1 } else { share.max_unavailable };
        prop_assert_eq!(limits.max_unavailable, i64::from(unavailable));
        let surge = if nothing || share.paused || policy == "InPlaceOnly" { 0 } else { share.max_surge };
        prop_assert_eq!(limits.max_surge, i64::from(surge));
    }

    #[test]
    fn rendering_twice_is_the_same(share in shares()) {
        let plan = plan(Slice::CloneSet(share));
        let once = rendered(&body("ReCreate"), &plan, &["web-a"]).unwrap();
        prop_assert_eq!(rendered(&body("ReCreate"), &plan, &["web-a"]).unwrap(), once);
    }
}

#[test]
fn ipj_3_a_copy_that_has_begun_keeps_the_time_that_it_was_given() {
    let told = |seconds: u64| json!({"spec": {"completionPolicy": {"activeDeadlineSeconds": seconds}}});
    let mut begun = told(600);
    begun["status"] = json!({"startTime": "2026-11-17T08:00:00Z"});
    let kept = |new: u64, member: &Value| {
        let mut body = told(new);
        pull_job::keep_time(&mut body, member);
        body["spec"]["completionPolicy"]["activeDeadlineSeconds"].as_u64().unwrap()
    };
    assert_eq!(kept(540, &begun), 600, "the same seconds do not count twice");
    assert_eq!(kept(900, &begun), 900, "more time is taken");
    assert_eq!(kept(1, &begun), 1, "no time at all ends it");
    assert_eq!(kept(540, &told(600)), 540, "one that has not begun counts from now");
}
