//! Random fleets and policies.
//!
//! A case is a seed and two sizes. Everything else is drawn from the seed, cluster by cluster, so that a case costs
//! microseconds, and a failing one shrinks to fewer clusters and replicas with the rest as it was.

use proptest::prelude::*;
use scheduling::{
    names::GroupName,
    numbers::Percent,
    partition::{Admission, Cluster, Link, Seeding},
    split::{Candidate, Goal, Mode, Request, Spread, State, WhenShort, WhenUnsatisfiable},
};

/// How wild a random request may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) clusters: usize,
    pub(crate) replicas: u32,
    pub(crate) tiers: u32,
    pub(crate) rules: u32,
    pub(crate) modes: &'static [Mode],
    pub(crate) groups: Groups,
}

/// Which spread rules are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Groups {
    /// Only shares are limited, and every cluster has every key.
    Shares,
    /// Everything.
    All,
}

/// Up to 50 clusters, 100,000 replicas, three tiers and two spread rules in every mode.
pub(crate) const WIDE: Shape = Shape {
    clusters: 50,
    replicas: 100_000,
    tiers: 3,
    rules: 2,
    modes: &[Mode::Divided, Mode::Aggregated, Mode::Duplicated],
    groups: Groups::All,
};

/// Divided over one tier, without spread rules.
pub(crate) const PLAIN: Shape = Shape { tiers: 1, rules: 0, modes: &[Mode::Divided], ..WIDE };

impl Shape {
    pub(crate) fn request(self) -> impl Strategy<Value = Request> {
        (any::<u64>().no_shrink(), 0..=self.clusters, replicas(self.replicas))
            .prop_map(move |(seed, clusters, replicas)| self.draw(seed, clusters, replicas))
    }

    fn draw(self, seed: u64, clusters: usize, replicas: u32) -> Request {
        let dice = &mut Dice::new(seed, 0);
        let rules = dice.below(self.rules + 1);
        // Bounds of the size that each cluster's part has, so that they bind now and then.
        let scale = (replicas / 4).clamp(4, 100_000);
        Request {
            replicas,
            mode: dice.pick(self.modes),
            selects_none: false,
            when_short: dice.pick(&[WhenShort::Overcommit, WhenShort::Hold]),
            goal: if dice.one_in(5) { Goal::Rebalance } else { Goal::LeastMovement },
            spread: (0..rules).map(|_| self.rule(dice)).collect(),
            clusters: (0..clusters).map(|it| self.cluster(seed, it, rules, scale)).collect(),
        }
    }

    fn cluster(self, seed: u64, index: usize, rules: u32, scale: u32) -> Candidate {
        let dice = &mut Dice::new(seed, index as u64 + 1);
        let group = |dice: &mut Dice| {
            let has_key = self.groups == Groups::Shares || !dice.one_in(12);
            has_key.then(|| GroupName::from(format!("g{}", dice.below(4))))
        };
        let min = dice.count(scale / 4);
        let weight = match dice.below(3) {
            0 => 1,
            1 => dice.below(4),
            _ => dice.below(10_001),
        };
        Candidate {
            state: dice.state(),
            tier: dice.below(self.tiers),
            weight,
            min,
            max: dice.maybe(|it| min + it.count(scale)),
            fit: dice.maybe(|it| it.count(scale)),
            current: dice.count(scale),
            named_for_deletion: dice.below(4),
            groups: (0..rules).map(|_| group(dice)).collect(),
            // Few ranks, so that names settle ties too.
            ..Candidate::new(format!("c{index:02}"), u64::from(dice.below(6)))
        }
    }

    fn rule(self, dice: &mut Dice) -> Spread {
        let is_share_only = self.groups == Groups::Shares;
        let min_groups = if is_share_only { 1 } else { 1 + dice.below(3) };
        let max_groups = dice.maybe(|it| min_groups + it.below(4));
        let is_wish = dice.one_in(3);
        Spread {
            key: "region".into(),
            min_groups,
            max_groups: max_groups.filter(|_| !is_share_only),
            max_share: dice.maybe(|it| Percent::whole(1 + it.below(100))),
            when_unsatisfiable: if is_wish {
                WhenUnsatisfiable::ScheduleAnyway
            } else {
                WhenUnsatisfiable::DoNotSchedule
            },
        }
    }
}

fn replicas(most: u32) -> impl Strategy<Value = u32> {
    prop_oneof![1 => Just(0), 4 => 0..=most.min(12), 3 => 0..=most.min(200), 3 => 0..=most]
}

/// Clusters in the middle of a release, all within reach and admitted, with some pods updated already.
pub(crate) fn reachable(waves: u32) -> impl Strategy<Value = Vec<Cluster>> {
    (any::<u64>().no_shrink(), 0..=50usize)
        .prop_map(move |(seed, clusters)| (0..clusters).map(|it| cluster(seed, it, waves)).collect())
}

/// Everything that can happen to a cluster in the middle of a release.
pub(crate) fn any_clusters() -> impl Strategy<Value = Vec<Cluster>> {
    (any::<u64>().no_shrink(), 0..=50usize).prop_map(|(seed, clusters)| {
        let wild = |index| {
            let dice = &mut Dice::new(!seed, index as u64);
            let it = cluster(seed, index, 3);
            let is_to_come = it.wave > 0 && dice.one_in(2);
            Cluster {
                link: if dice.one_in(7) {
                    Link::Frozen { exposure: dice.below(20) }
                } else {
                    Link::Reachable
                },
                admission: if is_to_come { Admission::ToCome } else { Admission::Admitted },
                seeding: if dice.one_in(8) { Seeding::Unable } else { Seeding::Able },
                has_target: it.updated > 0 || dice.one_in(2),
                broken_old: dice.below(4),
                granted: dice.below(30),
                leftovers: dice.below(4),
                ..it
            }
        };
        (0..clusters).map(wild).collect()
    })
}

fn cluster(seed: u64, index: usize, waves: u32) -> Cluster {
    let dice = &mut Dice::new(seed, index as u64);
    let most = dice.pick(&[0, 5, 60, 20_000]);
    let replicas = dice.below(most + 1);
    let previous = replicas + dice.below(8);
    let part = dice.below(101);
    Cluster {
        previous,
        updated: (u64::from(previous) * u64::from(part * part) / 10_000) as u32,
        wave: dice.below(waves),
        ..Cluster::new(format!("c{index:02}"), u64::from(dice.below(4)), replicas)
    }
}

/// What the request looks like once its answer has been carried out.
pub(crate) fn carried_out(request: &Request, replicas: &[u32]) -> Request {
    let mut request = request.clone();
    for (it, replicas) in request.clusters.iter_mut().zip(replicas) {
        // Pods that were named have been deleted.
        (it.current, it.named_for_deletion) = (*replicas, 0);
    }
    request
}

/// Numbers from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn new(seed: u64, stream: u64) -> Self {
        let mut dice = Self(seed ^ stream.wrapping_mul(0xd1b5_4a32_d192_ed03));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut it = self.0;
        it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        it ^ (it >> 31)
    }

    fn below(&mut self, end: u32) -> u32 {
        (self.next() % u64::from(end.max(1))) as u32
    }

    fn one_in(&mut self, many: u32) -> bool {
        self.below(many) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u32) as usize]
    }

    fn maybe<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (!self.one_in(2)).then(|| make(self))
    }

    /// Zero now and then, mostly small.
    fn count(&mut self, most: u32) -> u32 {
        match self.below(6) {
            0 => 0,
            1..=3 => self.below(most.min(8) + 1),
            _ => self.below(most + 1),
        }
    }

    fn state(&mut self) -> State {
        match self.below(24) {
            0 | 1 => State::Cordoned,
            2 => State::Draining,
            3 | 4 => State::Offline,
            5 => State::Lost,
            6 => State::Pending,
            7 => State::Returning,
            8 => State::Excluded,
            9 => State::Unsupported,
            10 | 11 => State::Unconfirmed,
            _ => State::Ready,
        }
    }
}
