//! Rules one by one, on a hub whose members do as they are told.

mod budget;
mod duplicated;
mod failover;
mod moves;
mod revision;
mod sidecar;
mod slots;
mod stateful;
mod waves;

use super::{
    Cluster, Condition, Ledger, Numbers, OnReturn, Plan, Population, Rules, Spec, UnknownCountsAs, Why,
    World, plan,
};
use crate::{
    ledger::{Report, Revision, Row, Share},
    moves::{PolicyMark, Rebalance, Trigger},
    partition::Seeding,
    release::{Gate, PreDownload, Wave},
    split::{Candidate, Mode, State, WhenShort},
};

/// A hub with its ledger, and what it would see of its members.
struct Hub {
    spec: Spec,
    rules: Rules,
    mode: Mode,
    selects_none: bool,
    waves: Vec<Wave>,
    after: Option<&'static str>,
    pre_download: Option<PreDownload>,
    clusters: Vec<Cluster>,
    ledger: Ledger,
    elapsed: u32,
    number: u64,
}

impl Hub {
    /// So many clusters, at rest with `replicas` available replicas each.
    fn at_rest(clusters: usize, replicas: u32) -> Self {
        let mut hub = Self::empty(clusters);
        hub.spec.replicas = clusters as u32 * replicas;
        hub.round();
        hub.obey_all();
        hub.round();
        hub.obey_all();
        hub
    }

    fn empty(clusters: usize) -> Self {
        let mut hub = Self {
            spec: Spec {
                replicas: 0,
                partition: 0,
                unavailable: 1,
                surge: 0,
                scale_unavailable: None,
                paused: false,
                target: Revision(1),
                in_place_only: false,
                stateful: false,
                population: Population::Granted,
                numbers: Numbers::Global,
            },
            rules: Rules {
                move_surge: 1,
                move_unavailable: 0,
                unknown: UnknownCountsAs::LastReported,
                max_overlap: 100,
                max_lost: 1,
                progress_deadline: 600,
                rebalance: Rebalance {
                    trigger: Trigger::Never,
                    tolerance: 0,
                    max_moves: 10,
                    interval: 300,
                    policy: PolicyMark { id: 1, generation: 1 },
                },
                on_return: OnReturn::Keep,
                partition_rollback: false,
                gate: Gate::default(),
            },
            mode: Mode::Divided,
            selects_none: false,
            waves: Vec::new(),
            after: None,
            pre_download: None,
            clusters: Vec::new(),
            ledger: Ledger::new(Revision(1)),
            elapsed: 0,
            number: 0,
        };
        for _ in 0..clusters {
            hub.join();
        }
        hub
    }

    fn join(&mut self) {
        let index = self.clusters.len();
        let candidate = Candidate::new(format!("c{index}"), index as u64);
        self.ledger.rows.push(Row::new(candidate.name.clone()));
        self.clusters.push(Cluster {
            candidate,
            wave: 0,
            order: 0,
            seeding: Seeding::Able,
            names: 0,
            dispatched: 0,
            stopped: false,
            moves_stateful: false,
        });
    }

    fn world(&self) -> World<'_> {
        World {
            spec: self.spec,
            rules: self.rules,
            mode: self.mode,
            selects_none: self.selects_none,
            when_short: WhenShort::Hold,
            spread: &[],
            waves: &self.waves,
            after: self.after,
            pre_download: self.pre_download,
            pre_pull: None,
            clusters: &self.clusters,
            elapsed: self.elapsed,
        }
    }

    /// One round, all of whose writes arrive.
    fn round(&mut self) -> Plan {
        let plan = plan(&self.world(), &self.ledger).unwrap();
        self.ledger = plan.ledger.clone();
        for (place, share) in &plan.writes {
            self.clusters[*place].dispatched = share.seq;
        }
        plan
    }

    fn share(&self, index: usize) -> Share {
        self.ledger.rows[index].share
    }

    fn shares(&self, of: impl Fn(&Share) -> u32) -> Vec<u32> {
        self.ledger.rows.iter().map(|it| of(&it.share)).collect()
    }

    /// What a member reports that has done all its plan says.
    fn obedient(&self, index: usize) -> Report {
        let share = self.share(index);
        let updated = share.updated.min(share.replicas);
        Report {
            incarnation: 1,
            seq: share.seq,
            epoch: share.epoch,
            known_epoch: share.epoch,
            observed: true,
            replicas: share.replicas,
            body: share.body,
            stable: share.stable,
            pods: share.replicas,
            available: share.replicas,
            updated,
            updated_available: updated,
            at_stable: if share.body == share.stable { updated } else { share.replicas - updated },
            ..Report::default()
        }
    }

    fn obey(&mut self, index: usize) {
        self.report(index, |_| ());
    }

    fn obey_all(&mut self) {
        for index in 0..self.clusters.len() {
            self.obey(index);
        }
    }

    /// A report of a member that has done all its plan says, but for what `change` changes.
    fn report(&mut self, index: usize, change: impl Fn(&mut Report)) {
        self.number += 1;
        let mut report = Report { number: self.number, ..self.obedient(index) };
        change(&mut report);
        let target = self.ledger.target;
        let taken = self.ledger.rows[index].take(report, target);
        assert!(!matches!(taken, crate::ledger::Taken::Refused(_)), "{taken:?} {report:?}");
    }

    /// A report of a member whose pods are all at the stable revision still.
    fn report_old(&mut self, index: usize) {
        self.report(index, |it| {
            (it.updated, it.updated_available) = (0, 0);
            it.at_stable = it.pods;
        });
    }

    fn set(&mut self, index: usize, state: State) {
        self.clusters[index].candidate.state = state;
    }

    /// Rounds and obedience until nothing is written any more.
    fn settle(&mut self) {
        for _ in 0..200 {
            let plan = self.round();
            self.obey_all();
            if plan.writes.is_empty() && self.round().writes.is_empty() {
                return;
            }
        }
        panic!("never quiet: {:?}", self.ledger);
    }
}

fn reasons(plan: &Plan, cluster: &str) -> Vec<Why> {
    let of = |it: &&super::Decision| it.cluster.as_deref() == Some(cluster);
    plan.decisions.iter().filter(of).map(|it| it.why.clone()).collect()
}

fn words(conditions: &[Condition]) -> String {
    conditions.iter().map(|it| format!("{it}; ")).collect()
}

#[test]
fn a_restart_at_rest_writes_nothing() {
    let mut hub = Hub::at_rest(3, 4);
    let before = hub.ledger.clone();
    let plan = hub.round();
    assert!(plan.writes.is_empty());
    assert_eq!(plan.ledger, before);
}

#[test]
fn what_a_crash_kept_from_being_written_is_written_next() {
    let mut hub = Hub::at_rest(2, 3);
    hub.spec.replicas = 8;
    let written = hub.round().writes;
    assert!(!written.is_empty());
    for (place, share) in &written {
        hub.clusters[*place].dispatched = share.seq - 1;
    }
    assert_eq!(hub.round().writes, written);
}

#[test]
fn huge_numbers_give_right_sums_and_absurd_ones_change_nothing() {
    let mut hub = Hub::empty(5_000);
    hub.spec.replicas = 1_000_000;
    (hub.spec.unavailable, hub.spec.surge) = (u32::MAX, u32::MAX);
    (hub.rules.move_surge, hub.rules.move_unavailable) = (u32::MAX, u32::MAX);
    hub.round();
    assert_eq!(hub.shares(|it| it.replicas).iter().sum::<u32>(), 1_000_000);
    hub.obey_all();
    hub.spec.target = Revision(2);
    hub.spec.partition = u64::MAX;
    hub.round();
    let updated =
        |hub: &Hub| hub.shares(|it| if it.body == Revision(2) { it.updated } else { 0 }).iter().sum::<u32>();
    assert_eq!(updated(&hub), 0);
    hub.spec.partition = 1;
    hub.round();
    assert_eq!(updated(&hub), 999_999);
    let before = hub.shares(|it| it.replicas);
    hub.spec.replicas = u32::MAX;
    let plan = hub.round();
    assert!(words(&plan.conditions).contains("above the limit"));
    assert_eq!(hub.shares(|it| it.replicas), before);
}

#[test]
fn rows_that_are_not_of_the_clusters_are_refused() {
    let mut hub = Hub::at_rest(3, 2);
    hub.ledger.rows.swap(1, 2);
    assert_eq!(plan(&hub.world(), &hub.ledger), Err(super::Mismatch { place: 1 }));
    hub.ledger.rows.swap(1, 2);
    hub.ledger.rows.pop();
    assert_eq!(plan(&hub.world(), &hub.ledger), Err(super::Mismatch { place: 2 }));
}

/// The same fleet with its clusters in another order.
fn turned(hub: &Hub, by: usize) -> Hub {
    let mut other = Hub { clusters: hub.clusters.clone(), ledger: hub.ledger.clone(), ..Hub::empty(0) };
    (other.spec, other.rules, other.waves) = (hub.spec, hub.rules, hub.waves.clone());
    (other.elapsed, other.number) = (hub.elapsed, hub.number);
    other.clusters.rotate_left(by);
    other.ledger.rows.rotate_left(by);
    other
}

#[test]
fn the_order_of_the_clusters_changes_no_plan() {
    let steps: [fn(&mut Hub); 8] = [
        |hub| hub.spec.replicas = 13,
        |hub| hub.spec.target = Revision(2),
        |hub| hub.spec.partition = 7,
        |hub| (hub.spec.unavailable, hub.spec.surge) = (3, 2),
        |hub| hub.spec.replicas = 6,
        |hub| hub.rules.max_lost = 1,
        |hub| hub.spec.unavailable = 1,
        |hub| hub.spec.partition = 0,
    ];
    for by in 1..5 {
        let mut hub = Hub::empty(5);
        for cluster in &mut hub.clusters {
            cluster.candidate.rank = 7;
        }
        for step in steps {
            step(&mut hub);
            for turn in 0..3 {
                let mut other = turned(&hub, by);
                other.round();
                hub.round();
                other.ledger.rows.rotate_right(by);
                assert_eq!(other.ledger, hub.ledger);
                if turn == 1 {
                    hub.report_old(0);
                } else {
                    hub.obey_all();
                }
            }
        }
    }
}
