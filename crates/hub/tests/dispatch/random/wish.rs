//! What the user wants, and what that comes to in pods: worked out here once more, from the rules and not from our code.

use serde_json::{Value, json};
use sim::seed::Seed;

use super::promises::Bounds;
use crate::kit::{Stage, rolling};

/// A number of pods, as users write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Amount {
    Pods(usize),
    Percent(usize),
}

impl Amount {
    fn up(self, all: usize) -> usize {
        match self {
            Self::Pods(it) => it,
            Self::Percent(it) => (it * all).div_ceil(100),
        }
    }

    fn down(self, all: usize) -> usize {
        match self {
            Self::Pods(it) => it,
            Self::Percent(it) => it * all / 100,
        }
    }

    fn text(self) -> Value {
        match self {
            Self::Pods(it) => json!(it),
            Self::Percent(it) => json!(format!("{it}%")),
        }
    }

    pub(super) fn is_percent(self) -> bool {
        matches!(self, Self::Percent(_))
    }
}

/// What the user wants now.
#[derive(Debug, Clone)]
pub(super) struct Wish {
    pub(super) replicas: usize,
    /// Which image, counted from 1.
    pub(super) image: u64,
    pub(super) unavailable: Amount,
    pub(super) surge: Amount,
    pub(super) partition: Amount,
    pub(super) paused: bool,
    pub(super) in_place: bool,
    /// Pods to delete, by name.
    pub(super) named: Vec<String>,
}

impl Wish {
    /// Six pods, one of which may be down.
    pub(super) fn plain(replicas: usize) -> Self {
        Self {
            replicas,
            image: 1,
            unavailable: Amount::Pods(1),
            surge: Amount::Pods(0),
            partition: Amount::Pods(0),
            paused: false,
            in_place: false,
            named: Vec::new(),
        }
    }

    /// Draws how fast it may go: never nothing at all.
    pub(super) fn draw_pace(&mut self, draw: Seed) {
        let number = |it: Seed, pods: [u64; 2], percents: [u64; 2]| match it.of("form").below(3) {
            0 => Amount::Percent((percents[0] + it.of("percent").below(percents[1])) as usize),
            _ => Amount::Pods((pods[0] + it.of("pods").below(pods[1])) as usize),
        };
        self.surge = number(draw.of("surge"), [0, 3], [0, 40]);
        // With a surge there may be none down.
        let least = u64::from(self.surge.up(1) == 0);
        self.unavailable = number(draw.of("unavailable"), [least, 3], [least, 40]);
    }

    /// Draws how many stay old.
    pub(super) fn draw_partition(&mut self, draw: Seed) {
        self.partition = match draw.of("form").below(3) {
            0 => Amount::Percent(draw.of("percent").below(101) as usize),
            _ => Amount::Pods(draw.of("pods").below(self.replicas.max(1) as u64) as usize),
        };
    }

    /// REV-2: pods that stay old.
    pub(super) fn old(&self) -> usize {
        let all = self.replicas;
        let old = self.partition.up(all).min(all);
        let is_some = matches!(self.partition, Amount::Percent(it) if it < 100);
        if all > 1 && old == all && is_some { all - 1 } else { old }
    }

    /// BUD-1: pods beyond the replicas.
    fn surge(&self, all: usize) -> usize {
        self.surge.up(all)
    }

    /// BUD-1: pods that may be down.
    fn unavailable(&self, all: usize) -> usize {
        if self.surge(all) == 0 { self.unavailable.up(all) } else { self.unavailable.down(all) }
    }

    /// The bounds while replicas go from `before` to what is wanted, and `moving` more may be started elsewhere first.
    pub(super) fn bounds(&self, before: usize, moving: usize, updated: Option<(String, usize)>) -> Bounds {
        let after = self.replicas;
        let unavailable = self.unavailable(before).max(self.unavailable(after));
        let surge = self.surge(before).max(self.surge(after));
        Bounds {
            available: before.min(after).saturating_sub(unavailable),
            pods: before.max(after) + surge + moving,
            updated,
        }
    }

    /// The name of the image.
    pub(super) fn name(&self) -> String {
        format!("v{}", self.image)
    }

    /// Applies it.
    pub(super) fn apply(&self, stage: &Stage) {
        let Self { unavailable, surge, partition, paused, in_place, named, .. } = self;
        let mut fields = json!({
            "maxUnavailable": unavailable.text(), "maxSurge": surge.text(), "partition": partition.text(),
            "paused": paused,
        });
        if *in_place {
            fields["podUpdatePolicy"] = json!("InPlaceIfPossible");
        }
        stage.apply(&self.name(), self.replicas as u32, |spec| {
            rolling(spec, fields);
            if !named.is_empty() {
                spec["scaleStrategy"] = json!({"podsToDelete": named});
            }
        });
    }
}
