//! The rules.

use std::collections::BTreeSet;

use jiff::Timestamp;
use sim::World;

use super::{
    super::objects::{self, Pod, Set},
    Book,
};

impl Book {
    /// No pod is made beyond replicas and surge, none for an instance that has one, and none without its claims.
    pub(super) fn judge_birth(&self, pod: &Pod) -> Result<(), String> {
        let twins = self.pods.values().filter(|it| it.id == pod.id).count();
        if twins > 1 {
            return Err(format!("instance {} has {twins} pods", pod.id));
        }
        if let Some(lacking) = pod.claims.iter().find(|it| self.claims.get(*it) != Some(&pod.id)) {
            return Err(format!("{} was made, but no claim {lacking}", pod.name));
        }
        let active = self.pods.values().filter(|it| it.is_active).count() as i64;
        let allowed = |it: &Set| it.limits.replicas + it.limits.max_surge;
        self.any("pods are alive", active, |it| active <= allowed(it), allowed)
    }

    /// No available pod is taken down beyond the budget.
    pub(super) fn judge_takedown(&self, pod: &Pod, now: Timestamp) -> Result<(), String> {
        let min_ready = self.min_ready_seconds();
        let available: BTreeSet<&str> =
            self.pods.values().filter(|it| it.is_available(min_ready, now)).map(|it| &*it.uid).collect();
        let served = self.outages.iter().filter(|it| it.pod.serves_since.is_some());
        let excused: BTreeSet<&str> = served.map(|it| &*it.pod.uid).filter(|it| *it != pod.uid).collect();
        let believed = available.union(&excused).count() as i64;
        let needed = |it: &Set| it.limits.replicas - it.limits.max_unavailable;
        let what = format!(
            "pods may be believed to be available, {} of them are, and {} was just taken down",
            available.len(),
            pod.name
        );
        self.any(&what, believed, |it| believed >= needed(it), needed)
    }

    /// A pod is sent away only if it is named, or if there are enough without it.
    pub(super) fn judge_death(&self, pod: &Pod) -> Result<(), String> {
        if pod.is_marked || self.sets.iter().any(|it| it.0.names(&pod.name)) {
            return Ok(());
        }
        let staying: BTreeSet<&str> =
            self.pods.values().filter(|it| !it.is_leaving).map(|it| &*it.uid).collect();
        let left = self.outages.iter().filter(|it| !it.pod.is_leaving);
        let excused: BTreeSet<&str> = left.map(|it| &*it.pod.uid).filter(|it| *it != pod.uid).collect();
        let believed = staying.union(&excused).count() as i64;
        let what = format!("pods may be believed to stay, and {} was sent away for no reason", pod.name);
        self.any(&what, believed, |it| believed >= it.limits.replicas, |it| it.limits.replicas)
    }

    /// A pod is marked for replacement only if it is not what it should be.
    pub(super) fn judge_mark(&self, pod: &Pod) -> Result<(), String> {
        let what = format!("{} is at {:?} and was marked for replacement", pod.name, pod.release);
        self.any(&what, 1, |it| it.release != pod.release, |_| 0)
    }

    /// A claim goes only after its pod.
    pub(super) fn judge_claim(&self, name: &str) -> Result<(), String> {
        let is_used = |it: &&Pod| it.is_active && it.claims.iter().any(|it| it == name);
        match self.pods.values().find(is_used) {
            Some(pod) => Err(format!("claim {name} was deleted under {}", pod.name)),
            None => Ok(()),
        }
    }

    /// No pod gets to a release beyond the partition, or to one that nobody asked for.
    pub(super) fn judge_release(&self, world: &World, pod: &Pod) -> Result<(), String> {
        let releases = objects::revisions(world);
        let updated =
            self.pods.values().filter(|it| it.is_active && it.release == pod.release).count() as i64;
        let allowed = |it: &Set| {
            it.limits.expected_updated().map_or(i64::MAX, |expected| expected + it.limits.max_surge)
        };
        let is_right = |it: &Set| {
            let current = it.current.as_ref().and_then(|name| releases.get(name));
            let is_settled = current.is_none_or(|release| *release == it.release);
            match pod.release == it.release {
                true => is_settled || updated <= allowed(it),
                false => current == Some(&pod.release),
            }
        };
        self.any(&format!("pods are at {:?}", pod.release), updated, is_right, allowed)
    }

    /// It is enough that one version of the CloneSet allows it.
    fn any(
        &self,
        what: &str,
        count: i64,
        is_right: impl Fn(&Set) -> bool,
        bound: impl Fn(&Set) -> i64,
    ) -> Result<(), String> {
        if self.sets.iter().any(|it| is_right(&it.0)) {
            return Ok(());
        }
        let bounds: Vec<String> = self
            .sets
            .iter()
            .map(|it| format!("{} (version {}, {:?})", bound(&it.0), it.0.version, it.0.limits))
            .collect();
        Err(format!("{count} {what}; the bound was {}", bounds.join(" or ")))
    }
}
