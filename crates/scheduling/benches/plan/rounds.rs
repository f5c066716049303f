//! Whole planning rounds, ledger included.

use scheduling::{
    ledger::{Report, Revision, Row},
    moves::{PolicyMark, Rebalance, Trigger},
    partition::Seeding,
    release::Gate,
    round::{Cluster, Ledger, Numbers, OnReturn, Population, Rules, Spec, UnknownCountsAs, World, plan},
    split::{Mode, State, WhenShort},
};

use crate::candidate;

/// A hub with one object, whose members do as they are told.
pub(crate) struct Hub {
    pub(crate) spec: Spec,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) ledger: Ledger,
    number: u64,
}

impl Hub {
    /// So many clusters with their replicas available.
    pub(crate) fn at_rest(clusters: u32, replicas: u32, uid: &str) -> Self {
        let even = (replicas / clusters).max(1);
        let clusters: Vec<Cluster> = (0..clusters).map(|it| cluster(it, even, uid)).collect();
        let mut ledger = Ledger::new(Revision(1));
        ledger.rows = clusters.iter().map(|it| Row::new(it.candidate.name.clone())).collect();
        let mut hub = Self { spec: spec(replicas), clusters, ledger, number: 0 };
        for _ in 0..3 {
            hub.round();
            hub.obey();
        }
        hub
    }

    /// In the middle of a canary of 37%, shares granted and nothing acknowledged.
    pub(crate) fn releasing(mut self) -> Self {
        self.spec.target = Revision(2);
        self.spec.partition = u64::from(self.spec.replicas) * 63 / 100;
        self.round();
        self
    }

    /// With its first cluster lost.
    pub(crate) fn after_loss(mut self) -> Self {
        self.clusters[0].candidate.state = State::Lost;
        self
    }

    /// What the next round writes.
    pub(crate) fn planned(&self) -> u64 {
        plan(&self.world(), &self.ledger).map_or(0, |it| it.writes.len() as u64)
    }

    fn world(&self) -> World<'_> {
        World {
            spec: self.spec,
            rules: rules(),
            mode: Mode::Divided,
            selects_none: false,
            when_short: WhenShort::Overcommit,
            spread: &[],
            waves: &[],
            after: None,
            pre_download: None,
            pre_pull: None,
            clusters: &self.clusters,
            elapsed: 1,
        }
    }

    fn round(&mut self) {
        let Ok(plan) = plan(&self.world(), &self.ledger) else { return };
        self.ledger = plan.ledger;
        for (place, share) in plan.writes {
            self.clusters[place].dispatched = share.seq;
        }
    }

    fn obey(&mut self) {
        self.number += 1;
        let target = self.ledger.target;
        for row in &mut self.ledger.rows {
            let share = row.share;
            let updated = share.updated.min(share.replicas);
            let report = Report {
                incarnation: 1,
                number: self.number,
                seq: share.seq,
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
            };
            row.take(report, target);
        }
    }
}

fn cluster(number: u32, even: u32, uid: &str) -> Cluster {
    Cluster {
        candidate: candidate(number, even, uid),
        wave: 0,
        order: 0,
        seeding: Seeding::Able,
        names: 0,
        dispatched: 0,
        stopped: false,
        moves_stateful: false,
    }
}

fn spec(replicas: u32) -> Spec {
    Spec {
        replicas,
        partition: 0,
        unavailable: (replicas / 10).max(1),
        surge: 0,
        scale_unavailable: None,
        paused: false,
        target: Revision(1),
        in_place_only: false,
        stateful: false,
        population: Population::Granted,
        numbers: Numbers::Global,
    }
}

fn rules() -> Rules {
    Rules {
        move_surge: 100,
        move_unavailable: 0,
        unknown: UnknownCountsAs::LastReported,
        max_overlap: 100,
        max_lost: 5,
        progress_deadline: 600,
        rebalance: Rebalance {
            trigger: Trigger::Never,
            tolerance: 0,
            max_moves: 0,
            interval: 0,
            policy: PolicyMark { id: 1, generation: 1 },
        },
        on_return: OnReturn::Keep,
        partition_rollback: false,
        gate: Gate::default(),
    }
}
