//! A tiny reconcile loop over a modelled API server whose watch lags as it likes.

use std::collections::BTreeMap;

use proptest::{prelude::*, strategy::ValueTree};

use super::*;

/// One thing that happens.
#[derive(Debug, Clone)]
enum Step {
    /// The watch shows up to so many events.
    Deliver(u8),
    /// The watch breaks, or the list that follows goes one stage on.
    Relist,
    /// The loop runs once. Each answer comes after the watch has shown `slow` more events; the answer to write number
    /// `lost` never comes, and that write happens at once or later.
    Reconcile { slow: u8, lost: Option<(u8, bool)> },
    /// A pod that was asked to end has ended.
    Kubelet,
    /// Somebody else deletes a pod, with or without grace.
    Stranger(u8, bool),
    /// Somebody else changes a pod.
    Touch(u8),
    /// The wanted number changes.
    Scale(u8),
    /// A request whose sender gave up arrives.
    Land,
    /// Own writes are looked up; the answers come with the next such step.
    LookUp,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Naming {
    /// Every pod gets a name of its own, as a CloneSet's.
    Fresh,
    /// Names are used again, as a StatefulSet's.
    Ordinal,
}

#[derive(Debug)]
enum Feed {
    Watching(usize),
    ListBegun,
    ListRead(Vec<PodLite>, usize),
}

struct World {
    // the server
    revision: u64,
    numeric: bool,
    pods: BTreeMap<String, PodLite>,
    log: Vec<(bool, PodLite)>,
    late: Vec<String>,
    // us
    store: Store<PodLite>,
    feed: Feed,
    now: Instant,
    naming: Naming,
    wanted: usize,
    names: usize,
    look_ups: Vec<(Ticket, Option<Arc<PodLite>>)>,
    /// Writes that asked for what was done already.
    repeated: usize,
    /// The most pods there ever were beyond the wanted number.
    surplus: usize,
}

impl World {
    fn new(overlay: Overlay<PodLite>, naming: Naming, numeric: bool, wanted: usize) -> Self {
        let mut world = Self {
            revision: 0,
            numeric,
            pods: BTreeMap::new(),
            log: Vec::new(),
            late: Vec::new(),
            store: Store::new(overlay),
            feed: Feed::ListBegun,
            now: Clock::system().instant(),
            naming,
            wanted,
            names: 0,
            look_ups: Vec::new(),
            repeated: 0,
            surplus: 0,
        };
        world.store.watched(Event::Init);
        world.relist();
        world.relist();
        world
    }

    fn alive(&self) -> usize {
        self.pods.values().filter(|it| !it.is_terminating()).count()
    }

    fn change(&mut self, mut pod: PodLite, is_delete: bool) -> PodLite {
        self.revision += 1;
        let version = if self.numeric { self.revision.to_string() } else { format!("v{}", self.revision) };
        pod.metadata.resource_version = Some(version);
        let name = pod.metadata.name.clone().unwrap();
        if is_delete {
            self.pods.remove(&name);
        } else {
            self.pods.insert(name, pod.clone());
        }
        self.log.push((is_delete, pod.clone()));
        pod
    }

    fn create(&mut self, name: &str) -> Option<PodLite> {
        if self.pods.contains_key(name) {
            return None;
        }
        let uid = format!("u{}", self.revision + 1);
        Some(self.change(pod(name, &uid, 0), false))
    }

    /// The answer to a delete: the pod if it takes its time.
    fn delete(&mut self, name: &str, uid_meant: &str, graceful: bool) -> Option<PodLite> {
        let pod = self.pods.get(name).filter(|it| uid(*it) == uid_meant && !it.is_terminating()).cloned();
        let Some(pod) = pod else {
            self.repeated += 1;
            return None;
        };
        if graceful {
            return Some(self.change(terminating(pod), false));
        }
        self.change(pod, true);
        None
    }

    fn deliver(&mut self, events: u8) {
        for _ in 0..events {
            let Feed::Watching(next) = &mut self.feed else { return };
            let Some((is_delete, pod)) = self.log.get(*next).cloned() else { return };
            *next += 1;
            self.store.watched(if is_delete { Event::Delete(pod) } else { Event::Apply(pod) });
        }
    }

    fn relist(&mut self) {
        self.feed = match std::mem::replace(&mut self.feed, Feed::ListBegun) {
            Feed::Watching(_) => {
                self.store.watched(Event::Init);
                Feed::ListBegun
            }
            Feed::ListBegun => Feed::ListRead(self.pods.values().cloned().collect(), self.log.len()),
            Feed::ListRead(items, next) => {
                for it in items {
                    self.store.watched(Event::InitApply(it));
                }
                self.store.watched(Event::InitDone);
                Feed::Watching(next)
            }
        };
    }

    fn reconcile(&mut self, slow: u8, lost: Option<(u8, bool)>) {
        let view = self.store.owned_by("owner");
        let doubts: Vec<String> =
            self.store.overlay().doubts_of("owner").iter().map(|it| it.key.name.to_string()).collect();
        let alive: Vec<_> = view.iter().filter(|it| !it.is_terminating()).cloned().collect();
        let missing = self.wanted.saturating_sub(alive.len());
        let (creates, deletes): (Vec<String>, Vec<_>) = match self.naming {
            Naming::Fresh => {
                let mut names: Vec<_> = doubts.iter().take(missing).cloned().collect();
                while names.len() < missing {
                    self.names += 1;
                    names.push(format!("pod-{}", self.names));
                }
                (names, alive.iter().skip(self.wanted).cloned().collect())
            }
            Naming::Ordinal => {
                let wanted: Vec<_> = (0..self.wanted).map(|it| format!("pod-{it}")).collect();
                let has = |name: &String| view.iter().any(|it| it.metadata.name.as_ref() == Some(name));
                let surplus = alive.iter().filter(|it| !wanted.contains(it.metadata.name.as_ref().unwrap()));
                let surplus: Vec<_> = surplus.cloned().collect();
                (wanted.iter().filter(|it| !has(it)).cloned().collect(), surplus)
            }
        };
        let mut write = 0;
        for name in creates {
            let is_lost = lost.filter(|it| it.0 == write).map(|it| it.1);
            write += 1;
            self.create_and_record(&name, slow, is_lost, doubts.contains(&name));
        }
        for it in deletes {
            let graceful = write % 2 == 0;
            write += 1;
            let name = it.metadata.name.clone().unwrap();
            let answer = self.delete(&name, uid(&*it), graceful);
            self.deliver(slow);
            match answer {
                Some(pod) => self.store.wrote(Arc::new(pod), self.now),
                None => self.store.deleted(&Key::new("n", &name), uid(&*it), self.now),
            }
        }
        self.surplus = self.surplus.max(self.alive().saturating_sub(self.wanted));
    }

    fn create_and_record(&mut self, name: &str, slow: u8, lost: Option<bool>, in_doubt: bool) {
        let key = Key::new("n", name);
        let doubt = Doubt { key, uid: None, owner: Some("owner".into()), intent: Intent::Create };
        // The repeat ends what was under way under the name: it has happened by now, or it answers 409 as well. (If the
        // pod were deleted first it would happen once more; no client can help that.)
        self.late.retain(|it| it != name);
        match lost {
            Some(true) => {
                let _ = self.create(name);
                self.deliver(slow);
                return self.store.doubted(doubt, self.now);
            }
            Some(false) => {
                if !self.pods.contains_key(name) {
                    self.late.push(name.to_owned());
                }
                return self.store.doubted(doubt, self.now);
            }
            None => {}
        }
        let answer = self.create(name).or_else(|| {
            // 409: fine for a repeat of a write in doubt, whose object is then read.
            self.repeated += usize::from(!in_doubt);
            self.pods.get(name).cloned()
        });
        self.deliver(slow);
        self.store.wrote(Arc::new(answer.unwrap()), self.now);
    }

    fn look_up(&mut self) {
        for (ticket, found) in std::mem::take(&mut self.look_ups) {
            self.store.looked_up(&ticket, found, self.now);
        }
        for ticket in self.store.overdue(Duration::ZERO, self.now) {
            // Look-ups begin when no request can be on its way any more.
            if !self.late.iter().any(|it| **it == *ticket.key.name) {
                let found = self.pods.get(&*ticket.key.name).cloned().map(Arc::new);
                self.look_ups.push((ticket, found));
            }
        }
    }

    fn nth(&self, n: u8) -> Option<PodLite> {
        let alive: Vec<_> = self.pods.values().filter(|it| !it.is_terminating()).collect();
        (!alive.is_empty()).then(|| alive[usize::from(n) % alive.len()].clone())
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Deliver(n) => self.deliver(n),
            Step::Relist => self.relist(),
            Step::Reconcile { slow, lost } => self.reconcile(slow, lost),
            Step::Kubelet => {
                if let Some(pod) = self.pods.values().find(|it| it.is_terminating()).cloned() {
                    self.change(pod, true);
                }
            }
            Step::Stranger(n, graceful) => {
                if let Some(pod) = self.nth(n) {
                    self.delete(pod.metadata.name.as_ref().unwrap(), uid(&pod), graceful);
                }
            }
            Step::Touch(n) => {
                if let Some(pod) = self.nth(n) {
                    self.change(pod, false);
                }
            }
            Step::Scale(n) => self.wanted = usize::from(n),
            Step::Land => {
                if let Some(name) = self.late.pop() {
                    self.create(&name);
                }
            }
            Step::LookUp => self.look_up(),
        }
    }

    /// Lets everything come to rest and returns what is left in the overlay.
    fn rest(&mut self) -> usize {
        for _ in 0..6 {
            while !self.late.is_empty() {
                self.step(Step::Land);
            }
            while !matches!(self.feed, Feed::Watching(_)) {
                self.relist();
            }
            self.deliver(u8::MAX);
            self.look_up();
            self.look_up();
            self.reconcile(0, None);
            while self.pods.values().any(PodLite::is_terminating) {
                self.step(Step::Kubelet);
            }
            self.deliver(u8::MAX);
        }
        for _ in 0..3 {
            self.relist();
        }
        let shown: BTreeMap<_, _> = self
            .store
            .all()
            .into_iter()
            .map(|it| (it.metadata.name.clone().unwrap(), version(&*it).to_owned()))
            .collect();
        let real: BTreeMap<_, _> =
            self.pods.iter().map(|it| (it.0.clone(), version(it.1).to_owned())).collect();
        assert_eq!(shown, real, "readers see what is there");
        self.store.overlay().len()
    }
}

fn feed_steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..6_u8).prop_map(Step::Deliver),
        2 => Just(Step::Relist),
        2 => Just(Step::Kubelet),
        1 => any::<u8>().prop_map(Step::Touch),
        1 => Just(Step::LookUp),
    ]
}

/// Only we create and delete, the wanted number changes, every answer comes.
fn own_steps() -> impl Strategy<Value = Step> {
    let reconcile = (0..4_u8).prop_map(|slow| Step::Reconcile { slow, lost: None });
    prop_oneof![3 => feed_steps(), 2 => reconcile, 1 => (0..7_u8).prop_map(Step::Scale)]
}

/// Others delete as well, answers get lost, the wanted number stays.
fn faulty_steps() -> impl Strategy<Value = Step> {
    let reconcile = (0..4_u8, proptest::option::of((0..4_u8, any::<bool>())))
        .prop_map(|(slow, lost)| Step::Reconcile { slow, lost });
    let stranger = (any::<u8>(), any::<bool>()).prop_map(|(n, graceful)| Step::Stranger(n, graceful));
    prop_oneof![4 => feed_steps(), 3 => reconcile, 1 => stranger, 1 => Just(Step::Land)]
}

fn naming() -> impl Strategy<Value = Naming> {
    prop_oneof![Just(Naming::Fresh), Just(Naming::Ordinal)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn however_the_cache_lags_no_write_is_repeated(
        naming in naming(),
        numeric in any::<bool>(),
        steps in prop::collection::vec(own_steps(), 0..60),
    ) {
        let mut world = World::new(Overlay::new(1_000), naming, numeric, 3);
        for step in steps {
            let is_reconcile = matches!(step, Step::Reconcile { .. });
            world.step(step);
            if is_reconcile && naming == Naming::Fresh {
                prop_assert_eq!(world.alive(), world.wanted, "one reconcile is enough, however old the cache");
            }
            prop_assert_eq!(world.repeated, 0);
        }
        prop_assert_eq!(world.rest(), 0, "nothing stays in the overlay");
        prop_assert_eq!((world.alive(), world.repeated), (world.wanted, 0));
    }

    #[test]
    fn lost_answers_and_strangers_never_lead_to_too_many_pods(
        naming in naming(),
        wanted in 0..6_usize,
        steps in prop::collection::vec(faulty_steps(), 0..60),
    ) {
        let mut world = World::new(Overlay::new(1_000), naming, true, wanted);
        for step in steps {
            world.step(step);
            prop_assert!(world.alive() <= wanted, "{} instead of {wanted}", world.alive());
        }
        prop_assert_eq!(world.rest(), 0, "nothing stays in the overlay");
        prop_assert_eq!(world.alive(), wanted);
    }
}

/// The same loop on the same steps without the overlay: this is what it is good for.
#[test]
fn without_the_overlay_writes_are_repeated() {
    let run = |overlay: fn() -> Overlay<PodLite>| {
        let (mut repeated, mut surplus) = (0, 0);
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let strategy = (naming(), prop::collection::vec(own_steps(), 0..60));
        for _ in 0..200 {
            let (naming, steps) = strategy.new_tree(&mut runner).unwrap().current();
            let mut world = World::new(overlay(), naming, true, 3);
            for step in steps {
                world.step(step);
            }
            repeated += world.repeated;
            surplus += world.surplus;
        }
        (repeated, surplus)
    };
    assert_eq!(run(|| Overlay::new(1_000)), (0, 0));
    let (repeated, surplus) = run(Overlay::switched_off);
    assert!(repeated > 100 && surplus > 100, "{repeated} writes repeated, {surplus} pods too many");
}
