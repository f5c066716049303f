use kruise_core::{
    api::{
        cloneset::v1beta1::CloneSet,
        fleet::{CloneSetSlice, assignment::RevisionRef},
    },
    revision::{
        data::RevisionData,
        hash::{revision_hash, revision_name},
    },
    runtime::cache::{pod::PodLite, revision::RevisionLite},
};
use serde_json::{Value, json};

use super::{
    cloneset::{Population, count, found},
    *,
};

fn now() -> Timestamp {
    "2026-01-15T12:00:00Z".parse().unwrap()
}

fn data(image: &str) -> RevisionData {
    RevisionData::of_template(&json!({"spec": {"containers": [{"name": "a", "image": image}]}}))
}

fn name(image: &str) -> String {
    revision_name("web", &revision_hash(&data(image), 0))
}

fn revision(image: &str) -> RevisionLite {
    let data: Value = serde_json::from_str(data(image).as_str()).unwrap();
    serde_json::from_value(json!({"metadata": {"name": name(image)}, "revision": 1, "data": data})).unwrap()
}

/// A pod made from `image`: `up`, `down` or `stuck`.
fn pod(id: &str, image: &str, how: &str) -> PodLite {
    let (ready, waiting) = match how {
        "up" => ("True", json!(null)),
        "stuck" => ("False", json!({"reason": "ImagePullBackOff"})),
        _ => ("False", json!(null)),
    };
    serde_json::from_value(json!({
        "metadata": {"name": id, "labels": {"controller-revision-hash": name(image)}},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-15T11:00:00Z"}],
            "containerStatuses": [{"name": "a", "state": {"waiting": waiting}}],
        },
    }))
    .unwrap()
}

fn census(pods: &[PodLite], known: &[&str], target: &str, stable: &str, replicas: u32) -> cloneset::Census {
    census_of(pods, known, (target, stable), None, replicas)
}

fn census_of(
    pods: &[PodLite],
    known: &[&str],
    (target, stable): (&str, &str),
    granted: Option<u32>,
    replicas: u32,
) -> cloneset::Census {
    let cloneset: CloneSet = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {"selector": {}, "template": {}, "scaleStrategy": {"podsToDelete": ["p1"]}},
    }))
    .unwrap();
    let revisions: Vec<_> = known.iter().map(|it| revision(it)).collect();
    let population = Population {
        cloneset: &cloneset,
        pods: &pods.iter().collect::<Vec<_>>(),
        revisions: &revisions.iter().collect::<Vec<_>>(),
        target: &data(target),
        stable: &data(stable),
        granted,
        now: now(),
    };
    count(&population, replicas)
}

#[test]
fn rev_14_pods_are_counted_by_fleet_revision() {
    let pods = [
        pod("p1", "new", "up"),
        pod("p2", "new", "stuck"),
        pod("p3", "old", "up"),
        pod("p4", "old", "down"),
        pod("p5", "other", "down"),
    ];
    let census = census(&pods, &["old", "new", "other"], "new", "old", 6);
    assert_eq!(
        census.counts,
        Counts {
            replicas: 5,
            ready: 2,
            available: 2,
            updated: 2,
            updated_ready: 1,
            updated_available: 1,
            stable: 2,
            other: 1,
            other_unavailable: 1,
            marked_for_deletion: 1,
            unavailable: 4,
            ..Counts::default()
        }
    );
    assert_eq!(census.failing, 1);
    assert_eq!((census.revisions.current, census.revisions.update), (name("old"), name("new")));
}

#[test]
fn rev_14_where_the_body_is_the_stable_one_updated_is_about_the_stable_one() {
    let pods = [pod("a", "old", "up"), pod("b", "new", "up")];
    let census = census(&pods, &["old", "new"], "old", "old", 2);
    assert_eq!((census.counts.updated, census.counts.stable, census.counts.other), (1, 1, 1));
}

#[test]
fn rev_14_where_two_revisions_of_the_fleet_are_one_here_no_pod_counts_twice() {
    let pods = [pod("a", "old", "down"), pod("b", "old", "up"), pod("c", "old", "up")];
    let counts = |granted| census_of(&pods, &["old"], ("old", "old"), granted, 3).counts;
    let of = |it: Counts| (it.updated, it.updated_available, it.stable);
    assert_eq!(of(counts(Some(1))), (1, 1, 2));
    assert_eq!(of(counts(Some(3))), (3, 2, 0));
    assert_eq!(of(counts(Some(0))), (0, 0, 3));
    assert_eq!(of(counts(None)), (3, 2, 3), "the plan has one revision");
    let stuck = [pod("a", "old", "stuck"), pod("b", "old", "stuck")];
    assert_eq!(census_of(&stuck, &["old"], ("old", "old"), Some(1), 2).failing, 1);
}

#[test]
fn a_target_that_the_member_has_not_recorded_yet_has_no_pods() {
    let census = census(&[pod("a", "old", "up")], &["old"], "new", "old", 1);
    assert_eq!((census.counts.updated, census.counts.stable), (0, 1));
    assert_eq!(census.revisions.update, "");
}

#[test]
fn proto_5_a_pod_that_was_deleted_and_not_replaced_counts_as_unavailable() {
    assert_eq!(census(&[pod("a", "old", "up")], &["old"], "old", "old", 3).counts.unavailable, 2);
    let surplus = [pod("a", "old", "up"), pod("b", "old", "up")];
    assert_eq!(census(&surplus, &["old"], "old", "old", 1).counts.unavailable, 0);
}

#[test]
fn cs_1_names_of_pods_are_answered_in_full() {
    let pods = [pod("a", "old", "up")];
    let answer = found(&["a".into(), "b".into()], &pods.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!((answer.asked.len(), answer.found), (2, vec!["a".to_owned()]));
    assert_eq!(found(&[], &[]), None);
}

fn applied(generation: i64, observed_generation: i64) -> Applied {
    let revision = |name: &str| Some(RevisionRef { name: name.into(), hash: name.into(), namespace: None });
    let slice = CloneSetSlice { replicas: 3, updated: 1, ..CloneSetSlice::default() };
    let plan = AssignmentSpec {
        term: 2,
        seq: 9,
        epoch: 1,
        target: revision("new"),
        stable: revision("old"),
        slice: Some(Slice::CloneSet(slice)),
        ..AssignmentSpec::default()
    };
    Applied { plan, generation, observed_generation }
}

fn verdict() -> Verdict {
    Verdict { state: ShareState::Applying, reason: "Applied", message: String::new() }
}

#[test]
fn proto_4_a_report_says_which_plan_was_applied_and_what_the_controller_has_seen() {
    let sender = Sender { incarnation: 4, report: 17, known_epoch: 2 };
    let status = report(sender, Some(&applied(8, 7)), Facts::default(), verdict(), None, now());
    assert_eq!((status.applied_term, status.applied_seq, status.epoch, status.known_epoch), (2, 9, 1, 2));
    assert_eq!((status.generation, status.observed_generation), (8, 7));
    assert_eq!((status.incarnation, status.report), (4, 17), "PROTO-10");
    assert_eq!(status.target.unwrap().name, "new");
    assert_eq!(status.applied, applied(8, 7).plan.slice);
    assert!(!applied(8, 7).is_observed() && applied(8, 8).is_observed());
    let nothing = report(sender, None, Facts::default(), verdict(), None, now());
    assert_eq!((nothing.applied_seq, nothing.applied), (0, None));
}

#[test]
fn proto_4_a_plan_that_is_not_applied_takes_nothing_back_and_acknowledges_nothing() {
    let sender = Sender { incarnation: 4, report: 17, known_epoch: 2 };
    let counts = Counts { replicas: 3, available: 3, ..Counts::default() };
    let facts = Facts { counts, ..Facts::default() };
    let before = report(sender, Some(&applied(8, 8)), facts, verdict(), None, now());
    let failed = Verdict { state: ShareState::Failed, reason: "X", message: String::new() };
    let after = report(Sender { report: 18, ..sender }, None, Facts::default(), failed, Some(&before), now());
    assert_eq!((after.applied_seq, &after.counts, after.report), (9, &before.counts, 18));
    assert_eq!((after.state, after.conditions[0].status.as_str()), (Some(ShareState::Failed), "False"));
}

#[test]
fn a_share_is_settled_only_when_it_was_observed_and_every_pod_serves() {
    let counts = |available| Counts { replicas: 3, available, updated_available: 1, ..Counts::default() };
    assert_eq!(progress(&applied(8, 8), &counts(3), false), ShareState::Settled);
    assert_eq!(progress(&applied(8, 7), &counts(3), false), ShareState::Applying);
    assert_eq!(progress(&applied(8, 8), &counts(2), false), ShareState::Applying);
}

#[test]
fn proto_5_lists_are_capped() {
    let many = |count: usize| (0..count).map(|it| it.to_string()).collect::<Vec<_>>();
    let facts = Facts { drift: many(30), failures: many(60), ..Facts::default() };
    let status = report(Sender::default(), Some(&applied(1, 1)), facts, verdict(), None, now());
    assert_eq!((status.drift.len(), status.failures.len()), (MOST_DRIFT, MOST_FAILURES));
}

#[test]
fn a_condition_keeps_its_time_until_its_status_changes() {
    let tell = |state, before: Option<&AssignmentStatus>, at: &str| {
        let verdict = Verdict { state, reason: "X", message: String::new() };
        report(Sender::default(), None, Facts::default(), verdict, before, at.parse().unwrap())
    };
    let first = tell(ShareState::Conflict, None, "2026-01-15T12:00:00Z");
    let second = tell(ShareState::Failed, Some(&first), "2026-01-15T12:05:00Z");
    assert_eq!(first.conditions[0].last_transition_time, second.conditions[0].last_transition_time);
    let third = tell(ShareState::Settled, Some(&second), "2026-01-15T12:06:00Z");
    assert_eq!(third.conditions[0].status, "True");
    assert_ne!(third.conditions[0].last_transition_time, second.conditions[0].last_transition_time);
}

#[test]
fn ipj_4_a_job_tells_its_counts_and_when_it_is_over() {
    let mut status =
        ImagePullJobStatus { desired: 5, active: 1, succeeded: 3, failed: 1, ..Default::default() };
    status.failed_nodes = vec!["n1".into()];
    let facts = pull_job(&status);
    assert_eq!((facts.counts.desired, facts.counts.active, facts.completed), (Some(5), Some(1), false));
    assert_eq!(facts.failures, ["n1"]);
    status.completion_time = Some(Time(now()));
    assert!(pull_job(&status).completed);
}
