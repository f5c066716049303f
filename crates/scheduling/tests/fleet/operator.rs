//! What people do to a fleet.

use scheduling::{
    ledger::{Revision, Row},
    names::ClusterName,
    partition::Seeding,
    release::{Approved, Paused},
    round::Cluster,
    split::{Candidate, State},
};

use crate::{
    fleet::{Fleet, Variant},
    member::Member,
    pod::Missing,
    setting::zone,
};

impl Fleet {
    pub(crate) fn join(&mut self) {
        let index = self.clusters.len();
        let name = ClusterName::from(format!("c{index:02}"));
        let wave = self.dice.below(self.waves.len().max(1));
        let mut candidate = Candidate::new(name.clone(), index as u64);
        if !self.spread.is_empty() {
            candidate.groups.push(zone(&mut self.dice));
        }
        let unable = self.some_cannot_seed && self.dice.permille(400);
        let seeding = if unable { Seeding::Unable } else { Seeding::Able };
        self.clusters.push(Cluster {
            candidate,
            wave,
            order: 0,
            seeding,
            names: 0,
            dispatched: 0,
            stopped: false,
            moves_stateful: false,
        });
        let mut member = Member::new(self.in_place, self.rules.partition_rollback, self.spec.in_place_only);
        member.seeds = !unable && self.variant != Variant::NeverSeeds;
        self.members.push(member);
        self.flags.push(State::Ready);
        self.given_up.push(false);
        self.unheard.push(false);
        self.written.push(Vec::new());
        self.ledger.rows.push(Row::new(name.clone()));
        self.saved.rows.push(Row::new(name));
        if self.uneven {
            self.shape(index);
        }
    }

    /// Gives a cluster a weight, bounds, room and a tier of its own.
    pub(crate) fn shape(&mut self, index: usize) {
        let dice = &mut self.dice;
        let candidate = &mut self.clusters[index].candidate;
        candidate.weight = dice.pick(&[0, 1, 1, 2, 5]);
        candidate.min = dice.pick(&[0, 0, 1, 2]);
        candidate.max = dice.pick(&[None, None, Some(3), Some(6)]);
        candidate.fit = dice.pick(&[None, None, None, Some(4), Some(8)]);
        candidate.tier = dice.pick(&[0, 0, 0, 1]);
    }

    /// The operator vouches for it that nothing runs in a lost cluster.
    pub(crate) fn declare_stopped(&mut self, index: usize) {
        let member = &mut self.members[index];
        member.pods.clear();
        member.missing = Missing::default();
        member.known_epoch = self.ledger.rows[index].epoch;
        self.clusters[index].stopped = true;
    }

    pub(crate) fn newest_revision(&self) -> u64 {
        self.next_revision - 1
    }

    /// The operator leaves a cluster's broken pods out of account (REL-12).
    pub(crate) fn ignore(&mut self, index: usize) {
        let name = self.clusters[index].candidate.name.clone();
        for ledger in [&mut self.ledger, &mut self.saved] {
            if let Some(release) = &mut ledger.release {
                release.ignored.push(name.clone());
            }
        }
    }

    pub(crate) fn pause_release(&mut self) {
        for ledger in [&mut self.ledger, &mut self.saved] {
            if let Some(release) = &mut ledger.release {
                release.paused = Some(Paused::ByOperator);
            }
        }
    }

    /// A new template. It may be one that was released before.
    pub(crate) fn edit_template(&mut self) -> Revision {
        let revision = Revision(self.next_revision);
        self.next_revision += 1;
        self.spec.target = revision;
        revision
    }

    /// A person gives every approval the release could ask for, and lets it go on.
    pub(crate) fn approve_all(&mut self) {
        let target = self.ledger.target;
        for ledger in [&mut self.ledger, &mut self.saved] {
            ledger.paused = None;
            let Some(release) = &mut ledger.release else { continue };
            for wave in release.waves.clone() {
                release.approve(Approved { wave: wave.name, target });
            }
            release.resume();
        }
    }
}
