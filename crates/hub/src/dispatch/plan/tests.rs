mod ends;
mod heeded;
mod part;
mod restored;
mod told;

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kruise_core::api::fleet::{
    CloneSetSlice, Counts, Slice, assignment::PodsAnswer, binding::LedgerShare, keys, policy::ClusterScope,
};
use serde_json::json;

use super::*;
use crate::dispatch::end::{SweptBy, end, swept_by};

const CLUSTERS: [&str; 3] = ["a", "b", "c"];

/// An object with its policy and what the hub has stored about it.
pub(super) struct World {
    pub(super) object: Value,
    reference: FederatedObject,
    pub(super) winner: Option<Winner>,
    pub(super) binding: Option<FleetBinding>,
    pub(super) clusters: Vec<Cluster>,
    key: RevisionKey,
    pub(super) elapsed: u32,
}

impl World {
    pub(super) fn new(replicas: u32) -> Self {
        let cluster = |name: &str| Cluster {
            facts: Arc::new(ClusterFacts {
                name: name.to_owned(),
                apis: vec!["apps.kruise.io/v1beta1/CloneSet".to_owned()],
                ..ClusterFacts::default()
            }),
            is_member: true,
            shown: ClusterState::Ready,
            planning: State::Ready,
            assignment: None,
            word: caution::Word::Heard,
            promised_to_others: 0,
            claimed_by_others: 0,
            asked_for: 0,
            departure: None,
        };
        Self {
            object: json!({
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
                "metadata": {"name": "web", "namespace": "shop", "generation": 1},
                "spec": {"replicas": replicas, "selector": {}, "template": {"spec": {"containers": []}}},
            }),
            reference: FederatedObject {
                api_version: "apps.kruise.io/v1beta1".into(),
                kind: "CloneSet".into(),
                namespace: Some("shop".into()),
                name: "web".into(),
                uid: "u".into(),
            },
            winner: Some(Winner { placement: Arc::default(), reference: PolicyRef::default() }),
            binding: None,
            clusters: CLUSTERS.map(cluster).to_vec(),
            key: RevisionKey::new(&[7; 32]),
            elapsed: 0,
        }
    }

    pub(super) fn observed(&self) -> Observed<'_> {
        Observed {
            object: &self.object,
            reference: &self.reference,
            policy: self.winner.as_ref(),
            binding: self.binding.as_ref(),
            clusters: &self.clusters,
            key: Some(&self.key),
            secrets: None,
            elapsed: self.elapsed,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    pub(super) fn plan(&self) -> Round {
        plan(&self.observed())
    }

    /// Stores what a round wants, as far as its `writes`-th Assignment.
    pub(super) fn store(&mut self, round: &Round, writes: usize) {
        if let Some(spec) = &round.save {
            self.binding = Some(FleetBinding { spec: spec.clone(), ..FleetBinding::default() });
        }
        for write in round.writes.iter().take(writes) {
            let cluster = self.clusters.iter_mut().find(|it| it.facts.name == write.cluster).unwrap();
            let status = cluster.assignment.as_ref().and_then(|it| it.status.clone());
            let spec = AssignmentSpec { term: 1, ..write.spec.clone() };
            cluster.assignment = Some(Arc::new(Assignment { spec, status, ..Assignment::default() }));
        }
    }

    /// Every cluster does at once what its Assignment says, and reports it.
    pub(super) fn obey(&mut self) {
        for cluster in &mut self.clusters {
            let Some(assignment) = &mut cluster.assignment else { continue };
            let assignment = Arc::make_mut(assignment);
            let spec = &assignment.spec;
            let Some(Slice::CloneSet(CloneSetSlice { replicas, .. })) = spec.slice else { continue };
            let number = assignment.status.as_ref().map_or(0, |it| it.report) + 1;
            let counts = Counts {
                replicas,
                ready: replicas,
                available: replicas,
                updated: replicas,
                updated_available: replicas,
                stable: replicas,
                ..Counts::default()
            };
            let capacity = assignment.status.as_ref().and_then(|it| it.capacity.clone());
            assignment.status = Some(AssignmentStatus {
                capacity,
                incarnation: 1,
                report: number,
                applied_term: spec.term,
                applied_seq: spec.seq,
                generation: 1,
                observed_generation: 1,
                applied: spec.slice.clone(),
                target: spec.target.clone(),
                stable: spec.stable.clone(),
                counts,
                ..AssignmentStatus::default()
            });
        }
    }

    pub(super) fn settle(&mut self) {
        for _ in 0..20 {
            let round = self.plan();
            if round.save.is_none() && round.writes.is_empty() {
                return;
            }
            self.store(&round, usize::MAX);
            self.obey();
        }
        panic!("it does not come to rest");
    }
}

#[test]
fn a_first_round_saves_all_shares_before_it_writes_any() {
    let world = World::new(10);
    let round = world.plan();
    let saved = &round.save.as_ref().unwrap().ledger;
    let shares: Vec<u32> = saved.clusters.values().map(|it| it.share.replicas).collect();
    assert_eq!((shares.iter().sum::<u32>(), round.writes.len()), (10, 3));
    assert!(round.writes.iter().all(|it| it.spec.seq == 1 && it.grows));
    let body = round.body.unwrap();
    assert_eq!(body.spec.body.unwrap().pointer("/spec/replicas"), None);
    assert!(round.writes.iter().all(|it| it.spec.target.as_ref().unwrap().name == body.name));
}

#[test]
fn ha_3_shares_that_were_saved_and_not_written_are_written_as_they_are() {
    let mut world = World::new(10);
    let first = world.plan();
    world.store(&first, 1);
    let second = world.plan();
    assert_eq!(second.save, None);
    assert_eq!(second.writes, first.writes[1..]);
}

#[test]
fn ha_4_at_rest_nothing_is_saved_or_written() {
    let mut world = World::new(10);
    world.settle();
    world.elapsed = 3_600;
    let round = world.plan();
    assert_eq!((round.save, round.writes, round.body), (None, vec![], None));
    assert!(round.is_settled);
}

/// That the time of a rebalance is over is nothing to write down: a restart at rest would.
#[test]
fn ha_4_a_rebalance_whose_time_is_over_is_not_saved_for_that() {
    let mut world = World::new(10);
    world.settle();
    let progress = &mut world.binding.as_mut().unwrap().spec.ledger.rebalance;
    (progress.moved, progress.passed_seconds) = (1, 299);
    world.elapsed = 3_600;
    assert_eq!(world.plan().save, None);
}

/// A cluster may never see that it had no Assignment for a moment: it refuses a number below the one that it knows.
#[test]
fn proto_3_a_cluster_that_gave_an_object_up_is_given_it_again_under_a_higher_number() {
    let mut world = World::new(9);
    world.settle();
    let before = world.binding.as_ref().unwrap().spec.ledger.clone();
    let ledger = &mut world.binding.as_mut().unwrap().spec.ledger;
    ledger.clusters.remove("c");
    ledger.last_seq = 8;
    world.clusters.iter_mut().find(|it| it.facts.name == "c").unwrap().assignment = None;
    world.object["spec"]["replicas"] = json!(15);
    let round = world.plan();
    let again = round.writes.iter().find(|it| it.cluster == "c").unwrap();
    assert_eq!((again.spec.seq, again.spec.intent), (9, Intent::Apply));
    let ledger = &round.save.as_ref().unwrap().ledger;
    assert_eq!((ledger.clusters["c"].share.seq, ledger.last_seq), (9, 8));
    assert_eq!(
        ledger.clusters["a"].share.seq,
        before.clusters["a"].share.seq + 1,
        "others go on as they were"
    );
}

/// Somebody deletes the Assignment of a cluster that is given up: it is told again, under one number until that is written.
#[test]
fn proto_7_a_cluster_that_leaves_is_told_again_what_somebody_has_deleted() {
    let mut world = World::new(9);
    world.settle();
    let ledger = &mut world.binding.as_mut().unwrap().spec.ledger;
    let row = ledger.clusters.get_mut("c").unwrap();
    row.share = LedgerShare {
        seq: 5,
        body: row.share.body.clone(),
        stable: row.share.stable.clone(),
        ..LedgerShare::default()
    };
    (row.replicas, row.updated, row.report) = Default::default();
    let placement = Placement {
        clusters: ClusterScope { exclude: vec!["c".into()], ..ClusterScope::default() },
        ..Placement::default()
    };
    world.winner.as_mut().unwrap().placement = Arc::new(placement);
    world.clusters[2].assignment = None;
    let again = |round: &Round| {
        let write = round.writes.iter().find(|it| it.cluster == "c").unwrap();
        (write.spec.intent, write.spec.seq)
    };
    let round = world.plan();
    assert_eq!(again(&round), (Intent::Delete, 6));
    world.store(&round, 0);
    assert_eq!(again(&world.plan()), (Intent::Delete, 6), "it was not written");
    // Nobody could read it.
    world.clusters[2].is_member = false;
    let round = world.plan();
    assert!(round.writes.iter().all(|it| it.cluster != "c"));
    let ledger = round.save.unwrap().ledger;
    assert!(!ledger.clusters.contains_key("c") && ledger.last_seq == 6);
}

#[test]
fn split_8_a_scale_down_waits_until_it_is_known_whose_the_named_pods_are() {
    let mut world = World::new(6);
    world.settle();
    world.object["spec"]["replicas"] = json!(4);
    world.object["spec"]["scaleStrategy"] = json!({"podsToDelete": ["x"]});
    let replicas = |round: &Round| -> Vec<u32> {
        round.save.as_ref().unwrap().ledger.clusters.values().map(|it| it.share.replicas).collect()
    };
    let asking = world.plan();
    assert_eq!(replicas(&asking), [2, 2, 2], "nothing goes before the answer");
    assert!(asking.writes.iter().all(|it| it.spec.pods_asked == ["x"]) && asking.writes.len() == 3);
    world.store(&asking, usize::MAX);
    world.obey();
    for cluster in &mut world.clusters {
        let found = if cluster.facts.name == "b" { vec!["x".to_owned()] } else { Vec::new() };
        let assignment = Arc::make_mut(cluster.assignment.as_mut().unwrap());
        assignment.status.as_mut().unwrap().pods = Some(PodsAnswer { asked: vec!["x".to_owned()], found });
    }
    let shares = replicas(&world.plan());
    assert_eq!((shares[1], shares.iter().sum::<u32>()), (1, 4), "{shares:?}");
    // A cluster that is not heard is not waited for.
    let silent = world.clusters.iter_mut().find(|it| it.facts.name == "b").unwrap();
    silent.planning = State::Offline;
    Arc::make_mut(silent.assignment.as_mut().unwrap()).status.as_mut().unwrap().pods = None;
    assert_eq!(replicas(&world.plan()), [1, 2, 1]);
}

#[test]
fn split_8_a_scale_down_waits_for_nobody_who_is_not_asked() {
    let mut world = World::new(6);
    world.settle();
    let placement = json!({
        "targets": [],
        "overrides": [{
            "clusters": {"names": ["b"]},
            "patches": [{"op": "replace", "path": "/spec/template/spec/nodeName", "value": "n"}],
        }],
    });
    let winner = world.winner.as_mut().unwrap();
    winner.placement = Arc::new(serde_json::from_value(placement).unwrap());
    world.object["spec"]["replicas"] = json!(4);
    world.object["spec"]["scaleStrategy"] = json!({"podsToDelete": ["x"]});
    let asking = world.plan();
    assert!(asking.writes.iter().all(|it| it.cluster != "b"), "{:?}", asking.writes);
    world.store(&asking, usize::MAX);
    for cluster in world.clusters.iter_mut().filter(|it| it.facts.name != "b") {
        let found = if cluster.facts.name == "a" { vec!["x".to_owned()] } else { Vec::new() };
        let assignment = Arc::make_mut(cluster.assignment.as_mut().unwrap());
        assignment.status.as_mut().unwrap().pods = Some(PodsAnswer { asked: vec!["x".to_owned()], found });
    }
    let shares = world.plan().save.unwrap().ledger.clusters;
    assert_eq!(shares.values().map(|it| it.share.replicas).sum::<u32>(), 4, "the others go on");
}

#[test]
fn a_body_that_differs_without_another_revision_gets_a_number_of_its_own() {
    let mut world = World::new(10);
    world.settle();
    world.object["spec"]["minReadySeconds"] = json!(5);
    let round = world.plan();
    let seqs: Vec<u64> = round.writes.iter().map(|it| it.spec.seq).collect();
    assert_eq!(seqs, [2, 2, 2]);
    let ledger = &round.save.as_ref().unwrap().ledger;
    assert!(ledger.clusters.values().all(|it| it.share.seq == 2 && !it.acknowledged));
    assert!(round.writes.iter().all(|it| it.spec.target == it.spec.stable && !it.grows));
}

#[test]
fn state_4_a_silent_cluster_is_left_alone_whatever_changes() {
    let mut world = World::new(10);
    world.settle();
    world.clusters[1].planning = State::Offline;
    world.clusters[1].shown = ClusterState::Offline;
    world.object["spec"]["replicas"] = json!(20);
    world.object["spec"]["minReadySeconds"] = json!(5);
    let round = world.plan();
    assert!(!round.writes.is_empty() && round.writes.iter().all(|it| it.cluster != "b"));
}

#[test]
fn ha_5_a_cluster_that_knows_a_newer_plan_is_not_planned_for() {
    let mut world = World::new(10);
    world.settle();
    let assignment = Arc::make_mut(world.clusters[1].assignment.as_mut().unwrap());
    assignment.status.as_mut().unwrap().applied_seq = 9;
    world.object["spec"]["replicas"] = json!(20);
    let round = world.plan();
    assert!(!round.writes.is_empty() && round.writes.iter().all(|it| it.cluster != "b"));
    let stale =
        round.standing.binding.conditions.iter().find(|it| it.type_ == keys::conditions::STALE).unwrap();
    assert_eq!(stale.reason, "Restored");
    assert!(
        stale.message.starts_with("newer plans than this hub knows are carried out by b:"),
        "{}",
        stale.message
    );
    assert!(round.standing.binding.clusters[1].reason.contains("left alone"));
    assert!(round.standing.notes.iter().any(|it| it.reason == "Restored"), "people are told");
}

#[test]
fn ha_5_a_deletion_is_numbered_above_every_plan_that_a_cluster_knows() {
    let mut world = World::new(10);
    world.settle();
    let assignment = Arc::make_mut(world.clusters[1].assignment.as_mut().unwrap());
    assignment.status.as_mut().unwrap().applied_seq = 9;
    let ending = end(&world.observed(), &BTreeSet::new());
    let write = ending.writes.iter().find(|it| it.cluster == "b").unwrap();
    assert_eq!((write.spec.seq, write.spec.intent), (10, Intent::Delete));
}

#[test]
fn del_5_without_a_policy_nothing_changes_but_what_is_said() {
    let mut world = World::new(10);
    world.settle();
    world.winner = None;
    let round = world.plan();
    assert_eq!((round.writes, round.removals), (vec![], vec![]));
    let saved = round.save.unwrap();
    assert_eq!((saved.policy, saved.ledger), (None, world.binding.unwrap().spec.ledger));
    assert_eq!(round.standing.binding.summary, "Suspended");
}

#[test]
fn a_policy_with_waves_is_not_carried_out_half() {
    let mut world = World::new(10);
    let mut placement = Placement::default();
    placement.rollout.order = RolloutOrder::Waves;
    world.winner.as_mut().unwrap().placement = Arc::new(placement);
    let round = world.plan();
    assert!(round.writes.is_empty());
    assert_eq!(round.standing.binding.conditions[0].reason, "NotSupported");
}

#[test]
fn del_1_every_cluster_is_told_and_forgotten_when_it_has_obeyed() {
    let mut world = World::new(10);
    world.settle();
    let ending = end(&world.observed(), &BTreeSet::new());
    assert_eq!(ending.writes.len(), 3);
    assert!(ending.writes.iter().all(|it| it.spec.intent == Intent::Delete && it.spec.seq == 2));
    let saved = ending.save.clone().unwrap();
    assert!(saved.ledger.clusters.values().all(|it| it.share.seq == 2));
    let round = Round { save: ending.save, writes: ending.writes, ..Round::default() };
    world.store(&round, 1);
    // A crash: the others are told with the numbers that were saved.
    let again = end(&world.observed(), &BTreeSet::new());
    assert_eq!((again.writes.len(), again.waiting.len(), again.save), (2, 1, None));
    world.store(&Round { writes: again.writes, ..Round::default() }, 2);
    for cluster in &mut world.clusters {
        let assignment = Arc::make_mut(cluster.assignment.as_mut().unwrap());
        let status = assignment.status.as_mut().unwrap();
        (status.applied_seq, status.state) = (2, Some(ShareState::Deleted));
    }
    let over = end(&world.observed(), &BTreeSet::new());
    assert_eq!((over.removals.len(), over.writes.len()), (3, 0));
    world.store(&Round { save: over.save, ..Round::default() }, 0);
    assert!(world.binding.as_ref().unwrap().spec.ledger.clusters.is_empty(), "rows go before Assignments");
    world.clusters.iter_mut().for_each(|it| it.assignment = None);
    assert!(end(&world.observed(), &BTreeSet::new()).is_over());
}

#[test]
fn bad_input_9_clusters_that_lack_the_kind_are_left_out_and_named_on_the_binding() {
    let condition = |round: &Round, kind: &str| {
        let found = round.standing.binding.conditions.iter().find(|it| it.type_ == kind).cloned();
        found.map(|it| (it.status, it.reason, it.message))
    };
    let reason = |round: &Round, cluster: &str| {
        let row = round.standing.binding.clusters.iter().find(|it| it.cluster == cluster);
        row.map(|it| it.reason.clone()).unwrap_or_default()
    };
    let says = "APINotSupported: it does not serve apps.kruise.io/CloneSet";

    let mut world = World::new(10);
    Arc::make_mut(&mut world.clusters[2].facts).apis.clear();
    let round = world.plan();
    assert!(round.writes.iter().all(|it| it.cluster != "c"));
    assert_eq!(reason(&round, "c"), says);
    let scheduled = condition(&round, keys::conditions::SCHEDULED).unwrap();
    assert_eq!((scheduled.0.as_str(), scheduled.1.as_str()), ("True", "Placed"));
    assert_eq!(scheduled.2, "APINotSupported: the kind is not served by c");

    // With no other cluster that is what keeps the replicas away, not room.
    world.clusters.iter_mut().for_each(|it| Arc::make_mut(&mut it.facts).apis.clear());
    let round = world.plan();
    assert!(round.writes.is_empty());
    let binding = &round.standing.binding;
    assert_eq!((binding.summary.as_str(), binding.cluster_count), ("APINotSupported", 0));
    for (kind, status) in [(keys::conditions::SCHEDULED, "False"), (keys::conditions::UNPLACED, "True")] {
        let found = condition(&round, kind).unwrap();
        assert_eq!((found.0.as_str(), found.1.as_str()), (status, "APINotSupported"), "{kind}");
    }

    // One that has not said yet what it serves is not accused.
    (world.clusters[0].planning, world.clusters[0].shown) = (State::Pending, ClusterState::Pending);
    let round = world.plan();
    assert_eq!((reason(&round, "a"), reason(&round, "b")), (String::new(), says.to_owned()));
    assert_eq!(condition(&round, keys::conditions::SCHEDULED).unwrap().0, "True");

    // One that has the object and lost the kind is left as it is, and says why.
    let mut world = World::new(9);
    world.settle();
    Arc::make_mut(&mut world.clusters[1].facts).apis.clear();
    world.object["spec"]["replicas"] = json!(3);
    world.object["metadata"]["generation"] = json!(2);
    let round = world.plan();
    assert!(round.writes.iter().all(|it| it.cluster != "b"), "{:?}", round.writes);
    assert_eq!(reason(&round, "b"), says);
}

#[test]
fn bad_input_6_a_patch_that_does_not_apply_keeps_one_cluster_out_and_is_told() {
    let mut world = World::new(10);
    let placement = json!({
        "targets": [],
        "overrides": [{
            "clusters": {"names": ["b"]},
            "patches": [{"op": "replace", "path": "/spec/template/spec/nodeName", "value": "n"}],
        }],
    });
    let winner = world.winner.as_mut().unwrap();
    winner.placement = Arc::new(serde_json::from_value(placement).unwrap());
    world.settle();
    let round = world.plan();
    let binding = &round.standing.binding;
    assert_eq!((binding.cluster_count, binding.ready), (2, 10), "the others go on");
    let row = binding.clusters.iter().find(|it| it.cluster == "b").unwrap();
    assert!(row.reason.starts_with("spec.overrides[0] does not apply: "), "{}", row.reason);
    let applied = binding.conditions.iter().find(|it| it.type_ == keys::conditions::APPLIED).unwrap();
    assert_eq!(
        (applied.status.as_str(), applied.reason.as_str(), applied.message.as_str()),
        ("False", "OverrideDoesNotApply", "an override does not apply in b")
    );
}

/// Six pods at rest, as people were told, and what `b` says next.
fn says_next(change: impl FnOnce(&mut AssignmentStatus)) -> (Standing, Standing) {
    let mut world = World::new(6);
    world.settle();
    let rest = world.plan().standing;
    world.binding.as_mut().unwrap().status = Some(rest.binding.clone());
    let ledger = &mut world.binding.as_mut().unwrap().spec.ledger;
    ledger.clusters.get_mut("b").unwrap().report.as_mut().unwrap().number = 5;
    let status = Arc::make_mut(world.clusters[1].assignment.as_mut().unwrap()).status.as_mut().unwrap();
    status.report = 6;
    change(status);
    let standing = world.plan().standing;
    // What was told because of it is told again, and is not what comes of it.
    world.binding.as_mut().unwrap().status = Some(standing.binding.clone());
    assert_eq!(world.plan().standing.object, standing.object);
    (rest, standing)
}

fn counts(standing: &Standing) -> Vec<Counts> {
    standing.binding.clusters.iter().map(|it| it.counts.clone()).collect()
}

fn is_refused(standing: &Standing) -> bool {
    standing.notes.iter().any(|it| it.reason == "ReportRefused")
}

#[test]
fn bad_input_10_a_report_that_cannot_be_true_leaves_what_was_told_before_it() {
    for (wrong, why) in [
        (
            Counts { replicas: 900_000, available: 900_000, ..Counts::default() },
            "more pods than were granted",
        ),
        (Counts { updated: 50, ..Counts::default() }, "more new pods than pods"),
        (Counts { replicas: 2, ready: 3, ..Counts::default() }, "more ready pods than pods"),
        (
            Counts { replicas: 2, ready: 2, updated_ready: 1, ..Counts::default() },
            "ready new pods and no new ones",
        ),
    ] {
        let (rest, standing) = says_next(|it| it.counts = wrong);
        assert!(is_refused(&standing), "{why}");
        assert_eq!((&standing.object, &standing.figures), (&rest.object, &rest.figures), "{why}");
        assert_eq!(counts(&standing), counts(&rest), "{why}");
    }
    let (rest, standing) = says_next(|it| it.counts.ready = 0);
    assert_ne!(standing.object, rest.object, "the next one that can be true counts");
}

#[test]
fn proto_10_a_report_that_is_late_or_was_changed_leaves_what_was_told_before_it() {
    type Change = fn(&mut AssignmentStatus);
    let cases: [(&str, Change); 3] = [
        ("an older one", |it| (it.report, it.counts) = (1, Counts::default())),
        ("of an agent that was deposed", |it| (it.incarnation, it.counts) = (0, Counts::default())),
        ("the same number for another word", |it| {
            it.report -= 1;
            it.counts.replicas = 900_000;
        }),
    ];
    for (what, change) in cases {
        let (rest, standing) = says_next(change);
        assert_eq!(standing.object, rest.object, "{what}");
        assert_eq!((counts(&standing), is_refused(&standing)), (counts(&rest), false), "{what}");
    }
    let (_, standing) = says_next(|it| it.report = 0);
    assert_eq!(counts(&standing)[1], Counts::default(), "without a number nothing was said");
}

#[test]
fn ha_5_what_a_cluster_has_by_a_plan_that_is_not_known_is_not_counted_and_never_will_be() {
    let (rest, standing) = says_next(|it| {
        it.applied_seq = 9;
        it.counts = Counts { replicas: 900_000, ready: 900_000, ..Counts::default() };
    });
    assert_eq!(standing.object["replicas"], 4);
    assert_eq!(counts(&standing), counts(&rest), "it is not told as though it were known");
    assert_eq!(standing.binding.clusters[1].applied_seq, 9);
}

#[test]
fn proto_7_and_del_4_who_is_swept_along_was_not_meant_to_go() {
    let mut world = World::new(6);
    world.settle();
    world.object["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:10Z");
    let meta = |deleted: Option<&str>, confirmed: Option<&str>| -> ObjectMeta {
        let annotations = confirmed.map(|it| json!({"fleet.kruise.io/confirm-delete": it}));
        serde_json::from_value(json!({
            "name": "shop", "deletionTimestamp": deleted, "annotations": annotations,
        }))
        .unwrap()
    };
    let (now, after) = (Some("2030-01-01T00:00:10Z"), Some("2030-01-01T00:00:11Z"));
    let (alive, going, later) = (meta(None, None), meta(now, None), meta(after, None));
    let by = |world: &World, kind: &ObjectMeta, namespace: &ObjectMeta| {
        swept_by(&world.observed(), Some(kind), Some(namespace))
    };
    assert_eq!(by(&world, &alive, &alive), None);
    assert_eq!(by(&world, &going, &alive), Some(SweptBy::Kind));
    assert_eq!(by(&world, &alive, &going), Some(SweptBy::Namespace));
    assert_eq!(by(&world, &later, &later), None, "it was deleted before");
    assert_eq!(by(&world, &alive, &meta(now, Some("shop"))), None);
    assert_eq!(by(&world, &alive, &meta(now, Some("other"))), Some(SweptBy::Namespace));
    let gone = swept_by(&world.observed(), None, Some(&alive));
    assert_eq!(gone, Some(SweptBy::Kind), "the kind is not even there any more");
    let mut anew = meta(None, None);
    anew.creation_timestamp = later.deletion_timestamp.clone();
    assert_eq!(by(&world, &anew, &alive), Some(SweptBy::Kind), "it was deleted, and made again since");
    // Assignments that went along hide nothing: the ledger knows.
    let mut bare = World { clusters: world.clusters.clone(), ..World::new(6) };
    (bare.object, bare.binding) = (world.object.clone(), world.binding.clone());
    bare.clusters.iter_mut().for_each(|it| it.assignment = None);
    assert_eq!(by(&bare, &going, &alive), Some(SweptBy::Kind));
    assert_eq!(by(&bare, &alive, &going), Some(SweptBy::Namespace));
    assert_eq!(by(&bare, &alive, &alive), None);
    // One cluster may have been told because it left the policy; what is told to all is not turned round.
    let tell = |world: &mut World, place: usize| {
        let assignment = Arc::make_mut(world.clusters[place].assignment.as_mut().unwrap());
        assignment.spec.intent = Intent::Delete;
    };
    tell(&mut world, 0);
    assert_eq!(by(&world, &going, &alive), Some(SweptBy::Kind));
    tell(&mut world, 1);
    tell(&mut world, 2);
    assert_eq!(by(&world, &going, &going), None);
}
