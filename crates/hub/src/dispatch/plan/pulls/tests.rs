use std::{collections::BTreeSet, sync::Arc};

use kruise_core::api::fleet::{
    Counts, FederatedObject, Slice,
    assignment::{Assignment, AssignmentSpec, AssignmentStatus, Intent, ShareState},
    binding::{FleetBinding, PolicyRef},
    member_cluster::ClusterState,
    policy::{DeletionPolicy, Placement},
};
use serde_json::json;

use super::*;
use crate::{
    dispatch::{
        end::end,
        plan::{Round, caution::Word, plan, secrets::Looks},
    },
    names::RevisionKey,
    placement::select::ClusterFacts,
};

/// A job with its policy and what the hub has stored about it.
struct World {
    object: Value,
    reference: FederatedObject,
    winner: Winner,
    binding: Option<FleetBinding>,
    clusters: Vec<Cluster>,
    key: RevisionKey,
    secrets: Option<Looks>,
    now: i64,
}

impl World {
    fn new(parallelism: u32) -> Self {
        let cluster = |name: &str| Cluster {
            facts: Arc::new(ClusterFacts {
                name: name.to_owned(),
                apis: vec!["apps.kruise.io/v1beta1/ImagePullJob".to_owned()],
                ..ClusterFacts::default()
            }),
            is_member: true,
            shown: ClusterState::Ready,
            planning: State::Ready,
            assignment: None,
            word: Word::Heard,
            promised_to_others: 0,
            claimed_by_others: 0,
            asked_for: 0,
            departure: None,
        };
        Self {
            object: json!({
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
                "metadata": {"name": "warm", "namespace": "shop", "generation": 1},
                "spec": {"image": "web:1", "parallelism": parallelism, "completionPolicy": {"type": "Always"}},
            }),
            reference: FederatedObject {
                api_version: "apps.kruise.io/v1beta1".into(),
                kind: "ImagePullJob".into(),
                namespace: Some("shop".into()),
                name: "warm".into(),
                uid: "u".into(),
            },
            winner: Winner { placement: Arc::default(), reference: PolicyRef::default() },
            binding: None,
            clusters: ["a", "b", "c"].map(cluster).to_vec(),
            key: RevisionKey::new(&[7; 32]),
            secrets: None,
            now: 1_000,
        }
    }

    fn observed(&self) -> Observed<'_> {
        Observed {
            object: &self.object,
            reference: &self.reference,
            policy: Some(&self.winner),
            binding: self.binding.as_ref(),
            clusters: &self.clusters,
            key: Some(&self.key),
            secrets: self.secrets.as_ref(),
            elapsed: 0,
            now: Timestamp::from_second(self.now).unwrap(),
        }
    }

    fn plan(&self) -> Round {
        plan(&self.observed())
    }

    /// Stores what a round wants, as far as its `writes`-th Assignment.
    fn store(&mut self, round: &Round, writes: usize) {
        if let Some(spec) = &round.save {
            self.binding = Some(FleetBinding { spec: spec.clone(), ..FleetBinding::default() });
        }
        for write in round.writes.iter().take(writes) {
            let cluster = self.clusters.iter_mut().find(|it| it.facts.name == write.cluster).unwrap();
            let status = cluster.assignment.as_ref().and_then(|it| it.status.clone());
            let spec = AssignmentSpec { term: 1, ..write.spec.clone() };
            cluster.assignment = Some(Arc::new(Assignment { spec, status, ..Assignment::default() }));
        }
        self.object["status"] = round.standing.object.clone();
    }

    /// A cluster has observed its plan, and says how many of its nodes pull, and how many are served.
    fn report(&mut self, name: &str, desired: u32, active: u32, succeeded: u32) {
        let cluster = self.clusters.iter_mut().find(|it| it.facts.name == name).unwrap();
        let assignment = Arc::make_mut(cluster.assignment.as_mut().unwrap());
        let spec = &assignment.spec;
        let number = assignment.status.as_ref().map_or(0, |it| it.report) + 1;
        let counts = Counts {
            desired: Some(desired),
            active: Some(active),
            succeeded: Some(succeeded),
            failed: Some(0),
            ..Counts::default()
        };
        assignment.status = Some(AssignmentStatus {
            incarnation: 1,
            report: number,
            applied_term: spec.term,
            applied_seq: spec.seq,
            generation: 1,
            observed_generation: 1,
            applied: spec.slice.clone(),
            completed: succeeded == desired,
            counts,
            ..AssignmentStatus::default()
        });
    }

    fn round(&mut self) {
        let round = self.plan();
        self.store(&round, usize::MAX);
    }

    /// A job of which every cluster has seen that it has three nodes.
    fn looked(parallelism: u32) -> Self {
        let mut world = Self::new(parallelism);
        world.round();
        for name in ["a", "b", "c"] {
            world.report(name, 3, 0, 0);
        }
        world
    }

    fn slots(&self, name: &str) -> (u32, u32) {
        let row = &self.binding.as_ref().unwrap().spec.ledger.clusters[name].parallelism;
        (row.grant, row.exposure)
    }

    fn exposed(&self) -> u32 {
        ["a", "b", "c"].iter().map(|it| self.slots(it).1).sum()
    }

    fn slice(&self, name: &str) -> (u32, Option<u32>) {
        let cluster = self.clusters.iter().find(|it| it.facts.name == name).unwrap();
        match cluster.stored().and_then(|it| it.slice.as_ref()) {
            Some(Slice::ImagePullJob(it)) => (it.parallelism, it.active_deadline_seconds),
            other => panic!("{other:?}"),
        }
    }

    fn granted(&self) -> Vec<&'static str> {
        ["a", "b", "c"].into_iter().filter(|it| self.slots(it).0 > 0).collect()
    }
}

#[test]
fn ipj_1_clusters_look_first_and_slots_go_where_nodes_are() {
    let mut world = World::new(2);
    let first = world.plan();
    assert_eq!(first.writes.len(), 3);
    let saved = &first.save.as_ref().unwrap().ledger;
    assert!(saved.job.is_some() && saved.clusters.values().all(|it| it.parallelism.exposure == 0));
    world.store(&first, usize::MAX);
    assert_eq!(world.slice("a"), (0, None));
    world.report("a", 3, 0, 0);
    world.report("b", 0, 0, 0);
    world.round();
    assert_eq!((world.slots("a").0, world.slots("b").0, world.slots("c").0), (2, 0, 0));
}

#[test]
fn ipj_1_slots_go_round_only_when_it_is_acknowledged_that_they_are_free() {
    let mut world = World::looked(2);
    world.round();
    let [first, second] = world.granted()[..] else { panic!("{:?}", world.granted()) };
    let third = ["a", "b", "c"].into_iter().find(|it| *it != first && *it != second).unwrap();
    // The first one is done and says so under the plan that gave it a slot: the slot is taken back.
    world.report(first, 3, 0, 3);
    world.report(second, 3, 1, 0);
    world.round();
    assert_eq!((world.slice(first).0, world.slots(third).0), (0, 0), "not free before that is seen");
    assert_eq!(world.exposed(), 2);
    world.report(first, 3, 0, 3);
    world.round();
    assert_eq!((world.slots(third), world.exposed()), ((1, 1), 2));
    assert_eq!(world.slice(third).0, 1);
}

#[test]
fn ha_3_slots_that_were_saved_and_not_written_are_written_as_they_are() {
    let mut world = World::looked(3);
    let first = world.plan();
    assert_eq!(first.writes.len(), 3);
    world.store(&first, 1);
    let second = world.plan();
    assert_eq!(second.save, None);
    assert_eq!(second.writes, first.writes[1..]);
}

#[test]
fn ha_4_a_job_that_runs_or_is_over_is_not_written_again() {
    let mut world = World::looked(3);
    world.round();
    for name in ["a", "b", "c"] {
        world.report(name, 3, 1, 0);
    }
    world.round();
    world.now += 3_600;
    let round = world.plan();
    assert_eq!((round.save, round.writes), (None, vec![]));
    for _ in 0..3 {
        for name in ["a", "b", "c"] {
            world.report(name, 3, 0, 3);
        }
        world.round();
    }
    assert!(world.object["status"]["completionTime"].is_string());
    world.now += 3_600;
    let round = world.plan();
    assert_eq!((round.save, round.writes, round.expires), (None, vec![], false));
}

#[test]
fn ipj_3_who_has_begun_keeps_its_time_and_who_has_not_is_told_what_is_left() {
    let mut world = World::new(2);
    world.object["spec"]["completionPolicy"]["activeDeadlineSeconds"] = json!(900);
    world.clusters[2].planning = State::Offline;
    world.round();
    world.report("a", 3, 0, 0);
    assert_eq!((world.slice("a"), world.slice("b")), ((0, Some(900)), (0, Some(900))));
    assert!(world.clusters[2].assignment.is_none());
    world.now += 5;
    world.round();
    assert_eq!(world.slice("b").1, Some(900), "a few seconds are not worth a write");
    world.now += 295;
    world.clusters[2].planning = State::Ready;
    world.round();
    assert_eq!(
        (world.slice("a").1, world.slice("b").1, world.slice("c").1),
        (Some(900), Some(600), Some(600))
    );
    // Somebody changes the deadline: everybody has that much more.
    world.object["spec"]["completionPolicy"]["activeDeadlineSeconds"] = json!(1_000);
    world.round();
    assert_eq!((world.slice("a").1, world.slice("b").1), (Some(1_000), Some(700)));
    // Whoever is not reached in time is told at least that it is too late.
    world.now += 1_000;
    world.round();
    assert_eq!((world.slice("a").1, world.slice("b")), (Some(1_000), (0, Some(0))));
}

#[test]
fn ipj_1_an_offline_cluster_holds_its_slots_until_it_is_lost_or_time_is_over() {
    let mut world = World::looked(1);
    world.object["spec"]["completionPolicy"]["activeDeadlineSeconds"] = json!(900);
    world.round();
    let holder = world.granted()[0];
    let place = world.clusters.iter().position(|it| it.facts.name == holder).unwrap();
    for (state, others) in [(State::Offline, 0), (State::Lost, 1)] {
        world.clusters[place].planning = state;
        world.round();
        let granted: u32 =
            ["a", "b", "c"].iter().filter(|it| **it != holder).map(|it| world.slots(it).0).sum();
        assert_eq!(granted, others, "{state:?}");
    }
}

#[test]
fn ipj_1_and_ipj_4_a_cluster_that_has_left_the_fleet_holds_nobody_up() {
    let mut world = World::looked(1);
    world.round();
    let holder = world.granted()[0];
    let place = world.clusters.iter().position(|it| it.facts.name == holder).unwrap();
    let cluster = &mut world.clusters[place];
    (cluster.is_member, cluster.planning) = (false, State::Offline);
    for name in ["a", "b", "c"].into_iter().filter(|it| *it != holder) {
        world.round();
        world.report(name, 3, 0, 3);
    }
    for _ in 0..4 {
        world.round();
        for name in ["a", "b", "c"].into_iter().filter(|it| *it != holder) {
            world.report(name, 3, 0, 3);
        }
    }
    let status = world.plan().standing.object;
    assert!(status["completionTime"].is_string(), "{status}");
    assert_eq!(status["succeeded"], 6);
}

#[test]
fn ipj_2_a_job_goes_only_when_its_end_is_stored_and_its_copies_with_it() {
    let mut world = World::looked(9);
    world.object["spec"]["completionPolicy"]["ttlSecondsAfterFinished"] = json!(60);
    let placement = Placement { deletion: DeletionPolicy::Orphan, ..Placement::default() };
    world.winner.placement = Arc::new(placement);
    for _ in 0..3 {
        for name in ["a", "b", "c"] {
            world.report(name, 3, 0, 3);
        }
        world.round();
    }
    assert_eq!(world.plan().look_again, Some(Duration::from_secs(60)));
    world.now += 60;
    let told = std::mem::take(&mut world.object["status"]);
    assert!(!world.plan().expires, "people have not been told yet");
    world.object["status"] = told;
    assert!(world.plan().expires);
    let ending = end(&world.observed(), &BTreeSet::new());
    assert!(ending.writes.len() == 3 && ending.writes.iter().all(|it| it.spec.intent == Intent::Delete));
    // Somebody who deletes it before leaves the copies, as the policy says.
    world.now -= 30;
    assert!(
        end(&world.observed(), &BTreeSet::new()).writes.iter().all(|it| it.spec.intent == Intent::Orphan)
    );
}

#[test]
fn ipj_4_clusters_that_are_still_to_be_reached_keep_a_job_from_being_over() {
    let mut world = World::new(9);
    world.clusters[2].planning = State::Offline;
    world.round();
    for _ in 0..2 {
        world.report("a", 3, 0, 3);
        world.report("b", 3, 0, 3);
        world.round();
    }
    assert!(world.object["status"]["completionTime"].is_null());
    world.clusters[2].planning = State::Lost;
    world.round();
    assert!(world.object["status"]["completionTime"].is_string());
}

#[test]
fn ipj_3_and_ipj_4_a_cluster_that_could_not_begin_holds_a_job_no_longer_than_its_deadline() {
    let mut world = World::looked(9);
    world.object["spec"]["completionPolicy"]["activeDeadlineSeconds"] = json!(900);
    for _ in 0..2 {
        world.report("a", 3, 0, 3);
        world.report("b", 3, 0, 3);
        world.report("c", 0, 0, 1);
        let refused = Arc::make_mut(world.clusters[2].assignment.as_mut().unwrap());
        refused.status.as_mut().unwrap().state = Some(ShareState::Failed);
        world.round();
    }
    assert!(world.object["status"]["completionTime"].is_null(), "it may still begin");
    world.now += 901;
    world.round();
    assert!(world.object["status"]["completionTime"].is_string(), "{}", world.object["status"]);
}

#[test]
fn a_job_without_a_cluster_is_not_over() {
    let mut world = World::new(9);
    world.clusters.clear();
    world.round();
    assert!(
        world.object["status"]["completionTime"].is_null() && world.object["status"]["startTime"].is_null()
    );
}

#[test]
fn sec_5_a_cluster_that_boasts_of_nodes_breaks_no_status() {
    let mut world = World::looked(2);
    world.report("a", u32::MAX, 0, u32::MAX - 1);
    world.report("b", u32::MAX, 0, 0);
    world.round();
    assert_eq!(world.object["status"]["desired"], i32::MAX);
    assert!(world.exposed() <= 2);
}

#[test]
fn bad_input_10_a_report_that_cannot_be_true_leaves_what_was_told_before_it() {
    let mut world = World::looked(3);
    world.round();
    world.report("a", 3, 1, 2);
    world.round();
    let told = world.plan().standing;
    world.binding.as_mut().unwrap().status = Some(told.binding.clone());
    assert_eq!((&told.object["succeeded"], &told.object["active"]), (&json!(2), &json!(1)));
    world.report("a", 0, 0, 0);
    let assignment = Arc::make_mut(world.clusters[0].assignment.as_mut().unwrap());
    assignment.status.as_mut().unwrap().report = u64::MAX;
    let standing = world.plan().standing;
    assert!(standing.notes.iter().any(|it| it.reason == "ReportRefused"), "{:?}", standing.notes);
    assert_eq!(standing.object, told.object);
    assert_eq!(standing.binding.clusters[0].counts, told.binding.clusters[0].counts);
}

#[test]
fn a_ledger_that_was_lost_begins_no_job_anew() {
    let mut world = World::looked(2);
    world.round();
    world.binding = None;
    world.now += 100;
    let round = world.plan();
    let saved = &round.save.as_ref().unwrap().ledger;
    assert_eq!(saved.job.as_ref().unwrap().start_time.0.as_second(), 1_000);
    assert_eq!(saved.clusters.values().map(|it| it.parallelism.exposure).sum::<u32>(), 2);
}
