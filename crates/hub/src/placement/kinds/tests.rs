use kruise_core::api::fleet::{
    CloneSetSlice, Counts, PullSlice, WholeSlice, assignment::AssignmentStatus, member_cluster::ClusterState,
};
use proptest::prelude::*;
use scheduling::{ledger::Share, numbers::Percent};

use super::{totals::MemberWord, *};

fn cloneset() -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7",
            "labels": {"app": "web"}, "finalizers": ["fleet.kruise.io/members"],
            "annotations": {"team": "a", "fleet.kruise.io/policy": "p", "kubectl.kubernetes.io/last-applied-configuration": "{}"}},
        "spec": {
            "replicas": 10, "selector": {"matchLabels": {"app": "web"}},
            "template": {"spec": {"containers": [{"name": "c", "image": "web:1", "futureField": 1}]}},
            "minReadySeconds": 5,
            "scaleStrategy": {"podsToDelete": ["web-a", "eu-1/web-b"], "maxUnavailable": "30%", "enablePVCReuse": true},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": "90%", "maxUnavailable": 2,
                "maxSurge": "10%", "paused": true, "podUpdatePolicy": "InPlaceIfPossible"}},
        },
        "status": {"replicas": 3},
    })
}

fn pods(object: &Value) -> PodNumbers {
    match of("apps.kruise.io", "CloneSet").division(object).unwrap() {
        Division::Pods(pods) => pods,
        other => panic!("{other:?}"),
    }
}

fn granted<'a>(share: &'a Share, pods_to_delete: &'a [String], nodes: &'a [String]) -> Granted<'a> {
    Granted { cluster: "eu-1", share, slots: 3, time: Time::Left(50), pods_to_delete, nodes }
}

#[test]
fn the_numbers_of_a_cloneset_are_read_as_written() {
    let percent = |it| Some(IntOrPercent::Percent(Percent::whole(it)));
    assert_eq!(
        pods(&cloneset()),
        PodNumbers {
            replicas: 10,
            partition: percent(90),
            unavailable: Some(IntOrPercent::Int(2)),
            surge: percent(10),
            scale_unavailable: percent(30),
            paused: true,
            in_place_only: false,
            stateful: false,
            pods_to_delete: vec!["web-a".to_owned(), "eu-1/web-b".to_owned()],
            pre_download: None,
        }
    );
    let bare = pods(&json!({"spec": {}}));
    assert_eq!((bare.replicas, bare.partition, bare.unavailable, bare.surge), (1, None, None, None));
}

#[test]
fn cs_5_pods_with_claims_of_their_own_are_stateful() {
    let with = |claims: Value| {
        let mut object = cloneset();
        object["spec"]["volumeClaimTemplates"] = claims;
        pods(&object).stateful
    };
    assert!(with(json!([{"metadata": {"name": "data"}}])));
    assert!(!with(json!([])) && !with(Value::Null));
}

#[test]
fn rel_11_and_g_09_images_are_downloaded_ahead_where_that_is_asked_for() {
    let with = |strategy: Value, annotation: Option<&str>| {
        let mut object = cloneset();
        object["spec"]["updateStrategy"]["rollingUpdate"]["inPlaceUpdateStrategy"] = strategy;
        let key = "apps.kruise.io/image-predownload-min-updated-ready-pods";
        object["metadata"]["annotations"] = annotation.map(|it| json!({key: it})).unwrap_or_default();
        pods(&object).pre_download
    };
    assert_eq!(with(json!({}), None), None);
    assert_eq!(with(json!({"imagePreDownloadParallelism": 5}), None), Some(0));
    assert_eq!(with(json!({"imagePreDownloadMinUpdatedReadyPods": 2}), Some("100%")), Some(2));
    assert_eq!(with(json!({}), Some("25%")), Some(3), "of ten over the fleet, rounded up");
    assert_eq!(with(json!({}), Some("some")), Some(0));
}

#[test]
fn what_waits_for_deletes_is_not_paused_or_deleted_pods_would_come_back_old() {
    let mut object = cloneset();
    object["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    assert!(!pods(&object).paused);
}

#[test]
fn rev_1_a_revision_is_the_template_and_its_claims_and_nothing_else() {
    let kind = of("apps.kruise.io", "CloneSet");
    let first = revision(&*kind, &cloneset());
    let mut scaled = cloneset();
    scaled["spec"]["replicas"] = json!(3);
    scaled["spec"]["updateStrategy"]["rollingUpdate"]["partition"] = json!(0);
    scaled["metadata"]["labels"] = json!({});
    assert_eq!(revision(&*kind, &scaled), first);
    let mut other_image = cloneset();
    other_image["spec"]["template"]["spec"]["containers"][0]["image"] = json!("web:2");
    assert_ne!(revision(&*kind, &other_image), first);
    let mut claims = cloneset();
    claims["spec"]["volumeClaimTemplates"] = json!([{"metadata": {"name": "d"}}]);
    assert_ne!(revision(&*kind, &claims), first);
}

#[test]
fn proto_2_a_body_is_what_the_user_wrote_without_the_divided_numbers() {
    let body = body(&*of("apps.kruise.io", "CloneSet"), &cloneset());
    assert_eq!(
        body,
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
            "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}, "annotations": {"team": "a"}},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"spec": {"containers": [{"name": "c", "image": "web:1", "futureField": 1}]}},
                "minReadySeconds": 5,
                "scaleStrategy": {"enablePVCReuse": true},
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible"}},
            },
        })
    );
}

#[test]
fn proto_2_a_share_of_a_cloneset_becomes_its_slice() {
    let share = Share {
        replicas: 4,
        updated: 1,
        unavailable: 1,
        surge: 2,
        scale_unavailable: Some(3),
        paused: true,
        ..Share::default()
    };
    let pods = ["web-b".to_owned()];
    assert_eq!(
        of("apps.kruise.io", "CloneSet").slice(&granted(&share, &pods, &[])),
        Slice::CloneSet(CloneSetSlice {
            replicas: 4,
            updated: 1,
            max_unavailable: 1,
            max_surge: 2,
            scale_max_unavailable: Some(3),
            paused: true,
            pods_to_delete: pods.to_vec(),
        })
    );
}

#[test]
fn ipj_1_3_and_6_a_job_gets_its_slots_the_time_left_and_its_own_nodes() {
    let job = json!({"spec": {"image": "web:1", "parallelism": 5, "selector": {"names": ["eu-1/n1", "us-1/n2", "n3"]},
        "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 600, "ttlSecondsAfterFinished": 60}}});
    let kind = of("apps.kruise.io", "ImagePullJob");
    let Division::Pulls(pulls) = kind.division(&job).unwrap() else { panic!("a job has downloads") };
    assert_eq!(pulls.parallelism, 5);
    assert_eq!(pulls.completion, Completion::Always { deadline: Some(600), ttl: Some(60) });
    let share = Share::default();
    assert_eq!(
        kind.slice(&granted(&share, &[], &pulls.nodes)),
        Slice::ImagePullJob(PullSlice {
            parallelism: 3,
            active_deadline_seconds: Some(50),
            nodes: Some(vec!["n1".to_owned(), "n3".to_owned()]),
        })
    );
    let late = Granted { time: Time::Over, ..granted(&share, &[], &[]) };
    let over = PullSlice { parallelism: 0, active_deadline_seconds: Some(0), nodes: None };
    assert_eq!(kind.slice(&late), Slice::ImagePullJob(over));
}

#[test]
fn ipj_2_a_member_never_carries_the_time_to_live() {
    let job = json!({"spec": {"image": "a", "parallelism": 2, "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 60}}});
    let body = body(&*of("apps.kruise.io", "ImagePullJob"), &job);
    assert_eq!(body["spec"], json!({"image": "a", "completionPolicy": {"type": "Always"}}));
}

#[test]
fn kinds_without_numbers_are_copied_whole() {
    let kind = of("example.org", "CloneSet");
    assert_eq!(kind.division(&json!({})).unwrap(), Division::Whole);
    let share = Share::default();
    assert_eq!(kind.slice(&granted(&share, &[], &[])), Slice::Whole(WholeSlice {}));
}

#[test]
fn proto_4_a_report_acknowledges_only_what_the_controller_has_observed() {
    let status = |generation, observed_generation| AssignmentStatus {
        applied_seq: 3,
        generation,
        observed_generation,
        ..AssignmentStatus::default()
    };
    assert!(pods_report(&status(5, 5)).observed && pulls_report(&status(5, 6)).observed);
    assert!(!pods_report(&status(5, 4)).observed && !pulls_report(&status(5, 4)).observed);
    assert!(!pods_report(&status(0, 0)).observed, "nothing was applied yet");
}

#[test]
fn a_job_that_is_over_in_a_cluster_has_no_nodes_left() {
    let counts = Counts {
        desired: Some(10),
        succeeded: Some(4),
        failed: Some(1),
        active: Some(2),
        ..Counts::default()
    };
    let mut status = AssignmentStatus { counts, ..AssignmentStatus::default() };
    assert_eq!((pulls_report(&status).left, pulls_report(&status).active), (5, 2));
    status.completed = true;
    assert_eq!(pulls_report(&status).left, 0);
}

fn word<'a>(state: ClusterState, counts: &'a Counts) -> MemberWord<'a> {
    MemberWord { cluster: "c", state, counts, is_of_target: true, is_acknowledged: true }
}

#[test]
fn st_1_what_is_not_known_is_not_called_ready() {
    let counts = Counts {
        replicas: 4,
        ready: 4,
        available: 3,
        updated: 2,
        updated_ready: 2,
        updated_available: 1,
        ..Counts::default()
    };
    let words = [
        word(ClusterState::Ready, &counts),
        word(ClusterState::Offline, &counts),
        word(ClusterState::Lost, &counts),
        MemberWord { is_of_target: false, ..word(ClusterState::Draining, &counts) },
    ];
    let totals = Totals::of(&words, Some(5));
    assert_eq!((totals.replicas, totals.ready, totals.available, totals.unknown), (12, 8, 6, 4));
    // REV-14: a cluster that was not given the target has none of its pods.
    assert_eq!((totals.updated, totals.updated_ready, totals.updated_available), (4, 2, 1));
    assert_eq!(totals.observed_generation, Some(5));
}

#[test]
fn st_2_a_generation_is_observed_when_every_cluster_but_lost_ones_has_acknowledged() {
    let counts = Counts::default();
    let late = MemberWord { is_acknowledged: false, ..word(ClusterState::Offline, &counts) };
    assert_eq!(Totals::of(std::slice::from_ref(&late), Some(5)).observed_generation, None);
    let lost = MemberWord { state: ClusterState::Lost, ..late };
    assert_eq!(Totals::of(&[lost], Some(5)).observed_generation, Some(5));
    assert_eq!(Totals::of(&[], None).observed_generation, None);
}

#[test]
fn st_3_the_status_of_a_cloneset_has_the_columns_users_know() {
    let totals = Totals {
        replicas: 10,
        ready: 9,
        available: 8,
        updated: 1,
        expected_updated: 1,
        target: "web-2".to_owned(),
        stable: "web-1".to_owned(),
        ..Totals::default()
    };
    let mut object = cloneset();
    object["spec"]["selector"]["matchExpressions"] = json!([{"key": "tier", "operator": "In", "values": ["b", "a"]}, {"key": "old", "operator": "DoesNotExist"}]);
    let status = of("apps.kruise.io", "CloneSet").status(&object, &totals);
    assert_eq!(status["expectedUpdatedReplicas"], 1);
    assert_eq!((&status["updateRevision"], &status["currentRevision"]), (&json!("web-2"), &json!("web-1")));
    assert_eq!(status["labelSelector"], "!old,app=web,tier in (a,b)");
    assert_eq!(status.get("observedGeneration"), None);
}

proptest! {
    #[test]
    fn status_honest(clusters in prop::collection::vec((0u32..100, 0u32..100, 0usize..8), 0..20)) {
        use ClusterState::*;
        let states = [Pending, Ready, Cordoned, Draining, Offline, Lost, Returning, Revoked];
        let counts: Vec<Counts> = clusters
            .iter()
            .map(|it| Counts { replicas: it.0, ready: it.1.min(it.0), available: it.1.min(it.0), ..Counts::default() })
            .collect();
        let words: Vec<_> = clusters.iter().zip(&counts).map(|(it, counts)| word(states[it.2], counts)).collect();
        let totals = Totals::of(&words, None);
        let reachable = |it: &&MemberWord<'_>| matches!(it.state, Ready | Cordoned | Draining | Returning);
        let truly: u64 = words.iter().filter(reachable).map(|it| u64::from(it.counts.ready)).sum();
        prop_assert!(totals.ready <= truly);
        prop_assert!(totals.ready + totals.unknown <= totals.replicas);
    }
}
