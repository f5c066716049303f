//! The book of what happened, kept after every single write, and what the rules found in it.
//!
//! A controller can only act on what it has heard, and what it has sent cannot be called back. So each rule is held
//! against every version of the CloneSet that the controller may be acting on: those that its cache has not moved past,
//! or only within [`UNDER_WAY`]. Pods that others took down (users, kubelets) are excused for the same time from when
//! its cache shows it. What it has done itself is never excused: it has to know.

mod rules;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use jiff::{SignedDuration, Timestamp};
use kruise_core::runtime::{
    cache::pod::PodLite,
    key::{Key, uid, version, version_number},
};
use sim::{
    World,
    server::admission::{Hook, Operation, Stage, Verdict},
};

use super::{
    agent::{Agents, Eyes},
    objects::{self, Pod, SET, Set},
};
use crate::kit::CLUSTER;

/// How long a pass may go on with what it has read: a call without an answer takes thirty seconds.
const UNDER_WAY: SignedDuration = SignedDuration::from_secs(40);

/// What the rules have found so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger(Arc<Mutex<Book>>);

/// How often each rule was put to the test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) births: u64,
    /// Available pods that the controller took down.
    pub(super) takedowns: u64,
    /// Pods that it sent away.
    pub(super) deaths: u64,
    /// Pods that it took to another release in place.
    pub(super) changes: u64,
    /// Claims that it deleted.
    pub(super) claims: u64,
    /// Pods that somebody else took down.
    pub(super) outages: u64,
}

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        let Self { births, takedowns, deaths, changes, claims, outages } = other;
        self.births += births;
        self.takedowns += takedowns;
        self.deaths += deaths;
        self.changes += changes;
        self.claims += claims;
        self.outages += outages;
    }

    /// Whether every rule had something to judge.
    pub(super) fn is_full(self) -> bool {
        let Self { births, takedowns, deaths, changes, claims, outages } = self;
        [births, takedowns, deaths, changes, claims, outages].iter().all(|it| *it > 0)
    }
}

#[derive(Debug, Default)]
struct Book {
    pods: BTreeMap<String, Pod>,
    /// Claims that are not on their way out, and their instances.
    claims: BTreeMap<String, String>,
    sets: Vec<(Set, Option<Timestamp>)>,
    /// What the pods and claims of the last check are told from others by.
    stamp: Vec<(usize, u64)>,
    /// Who asked last for a change of a pod or claim, by its name.
    writers: BTreeMap<String, String>,
    outages: Vec<Outage>,
    tally: Tally,
    broken: Option<String>,
}

/// Something that others did to a pod.
#[derive(Debug)]
struct Outage {
    pod: Pod,
    /// The version of the pod with which it happened.
    version: u64,
    /// Since when the controller knows.
    known: Option<Timestamp>,
}

impl Ledger {
    /// Watches over `world` from now on.
    pub(super) fn keep(world: &World, eyes: &Eyes) -> Self {
        let ledger = Self::default();
        let book = ledger.0.clone();
        let kinds = ["pods", "pods/status", "persistentvolumeclaims"];
        world.cluster(CLUSTER).server().admit(Hook {
            name: "ledger.test".to_owned(),
            stage: Stage::Validating,
            kinds: kinds.map(str::to_owned).into(),
            operations: vec![Operation::Create, Operation::Update, Operation::Delete],
            fail_open: false,
            call: Arc::new(move |review| {
                let writers = &mut book.lock().unwrap().writers;
                writers.insert(review.name.to_owned(), review.manager.to_owned());
                Verdict::Allow
            }),
        });
        let (book, eyes) = (ledger.0.clone(), eyes.clone());
        world.invariant("the ledger is kept", move |world| {
            book.lock().unwrap().check(world, &eyes);
            Ok(())
        });
        ledger
    }

    /// The first rule that was broken, how, and what had happened before.
    pub(super) fn broken(&self) -> Option<String> {
        self.0.lock().unwrap().broken.clone()
    }

    pub(super) fn tally(&self) -> Tally {
        self.0.lock().unwrap().tally
    }
}

impl Book {
    fn check(&mut self, world: &World, eyes: &Eyes) {
        let now = world.now();
        self.note_set(world, eyes, now);
        self.note_knowledge(eyes, now);
        if self.broken.is_some() || self.sets.is_empty() {
            return;
        }
        // Most writes are about other things: leases, the CloneSet's status.
        let server = world.cluster(CLUSTER).server().clone();
        let stamp = objects::stamp(&server);
        if self.stamp == stamp {
            self.writers.clear();
            return;
        }
        self.stamp = stamp;
        let claims = objects::claims(world);
        let lost: Vec<String> = self.claims.keys().filter(|it| !claims.contains_key(*it)).cloned().collect();
        let mut found = lost.iter().try_for_each(|it| self.claim_gone(it));
        self.claims = claims;
        let mut gone: Vec<String> = self.pods.keys().cloned().collect();
        for stored in server.list("pods") {
            gone.retain(|it| **it != *stored.name);
            if self.pods.get(&*stored.name).is_none_or(|it| it.version != stored.version) {
                found = found.and(self.changed(world, Pod::read(&stored), now));
            }
        }
        for name in gone {
            found = found.and(self.gone(&name, server.version(), now));
        }
        self.writers.clear();
        if let Err(cause) = found {
            let log = world.log().last(super::shown()).join("\n");
            self.broken = Some(format!("{cause}\n{log}"));
        }
    }

    fn note_set(&mut self, world: &World, eyes: &Eyes, now: Timestamp) {
        let stored = world.cluster(CLUSTER).server().get("clonesets.apps.kruise.io", "default", SET);
        if let Some(stored) = stored
            && self.sets.last().is_none_or(|it| it.0.version != stored.version)
        {
            self.sets.push((Set::read(&stored), None));
        }
        let key = Key::new("default", SET);
        let heard = eyes.look(|it| {
            let version = it.clonesets.get(&key)?.0.as_ref().ok()?.metadata.resource_version.clone();
            version_number(&version?)
        });
        let next: Vec<u64> = self.sets.iter().skip(1).map(|it| it.0.version).collect();
        for ((_, left), next) in self.sets.iter_mut().zip(next) {
            if left.is_none() && heard.is_some_and(|it| it >= next) {
                *left = Some(now);
            }
        }
        self.sets.retain(|it| is_open(it.1, now));
    }

    fn note_knowledge(&mut self, eyes: &Eyes, now: Timestamp) {
        for Outage { pod, version: since, known } in &mut self.outages {
            let shows_it = |it: &PodLite| {
                uid(it) != pod.uid || version_number(version(it)).is_some_and(|it| it >= *since)
            };
            let key = Key::new("default", &pod.name);
            let is_known = eyes.look(|it| Some(it.pods.get(&key).is_none_or(|it| shows_it(&it))));
            if known.is_none() && is_known == Some(true) {
                *known = Some(now);
            }
        }
        self.outages.retain(|it| is_open(it.known, now));
    }

    fn is_ours(&self, name: &str) -> bool {
        self.writers.get(name).is_some_and(|it| Agents::are(it))
    }

    /// A pod is new, or not what it was.
    fn changed(&mut self, world: &World, pod: Pod, now: Timestamp) -> Result<(), String> {
        let name = pod.name.clone();
        let before = self.pods.insert(name.clone(), pod.clone()).filter(|it| it.uid == pod.uid);
        let is_ours = self.is_ours(&name);
        let Some(before) = before else {
            if !is_ours {
                return Ok(());
            }
            self.tally.births += 1;
            return self.judge_birth(&pod).and_then(|()| self.judge_release(world, &pod));
        };
        self.went_down(&before, Some(&pod), pod.version, now)?;
        if is_ours && !before.is_marked && pod.is_marked {
            self.judge_mark(&pod)?;
        }
        if is_ours && before.release != pod.release {
            self.tally.changes += 1;
            self.judge_release(world, &pod)?;
        }
        Ok(())
    }

    fn gone(&mut self, name: &str, version: u64, now: Timestamp) -> Result<(), String> {
        let Some(before) = self.pods.remove(name) else { return Ok(()) };
        self.went_down(&before, None, version, now)
    }

    /// Judges what a pod lost with this write.
    fn went_down(
        &mut self,
        before: &Pod,
        after: Option<&Pod>,
        version: u64,
        now: Timestamp,
    ) -> Result<(), String> {
        let stops_serving = before.serves_since.is_some() && after.is_none_or(|it| it.serves_since.is_none());
        let leaves = !before.is_leaving && after.is_none_or(|it| it.is_leaving);
        if !self.is_ours(&before.name) {
            if stops_serving || leaves {
                self.tally.outages += 1;
                self.outages.push(Outage { pod: before.clone(), version, known: None });
            }
            return Ok(());
        }
        if leaves {
            self.tally.deaths += 1;
            self.judge_death(before)?;
        }
        let min_ready = self.min_ready_seconds();
        if before.is_available(min_ready, now) && after.is_none_or(|it| !it.is_available(min_ready, now)) {
            self.tally.takedowns += 1;
            self.judge_takedown(before, now)?;
        }
        Ok(())
    }

    /// A claim is gone, or on its way out.
    fn claim_gone(&mut self, name: &str) -> Result<(), String> {
        if !self.is_ours(name) {
            return Ok(());
        }
        self.tally.claims += 1;
        self.judge_claim(name)
    }

    /// It does not change in a run.
    fn min_ready_seconds(&self) -> i32 {
        self.sets.last().map_or(0, |it| it.0.limits.min_ready_seconds)
    }
}

fn is_open(since: Option<Timestamp>, now: Timestamp) -> bool {
    since.is_none_or(|it| now.duration_since(it) < UNDER_WAY)
}
