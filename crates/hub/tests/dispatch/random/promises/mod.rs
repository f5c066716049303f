//! What must hold over the fleet after every single write, in the words of section 25 of the specification.
//!
//! Everything is read from what the API servers have stored: what members really do is known here, and not only what they say.

mod honest;
mod sight;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use kruise_core::api::fleet::{assignment::Intent, binding::Ledger};
use sim::World;

use honest::Honest;
use sight::{Local, Plan, Sight};

/// The bounds of one step of a story.
#[derive(Debug, Clone, Default)]
pub(super) struct Bounds {
    /// Pods that are available at least.
    pub(super) available: usize,
    /// Pods there are at most.
    pub(super) pods: usize,
    /// The image being released, and how many pods may have it.
    pub(super) updated: Option<(String, usize)>,
}

/// The promises, which hold from now on. The bounds among them are those of the step that is told.
#[derive(Debug, Clone, Default)]
pub(super) struct Promises(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    bounds: Option<Bounds>,
    sight: Sight,
    past: BTreeMap<&'static str, Past>,
    honest: Honest,
    observed: (i64, i64),
    released: bool,
    checks: u64,
}

/// What is remembered of a member.
#[derive(Debug, Default)]
struct Past {
    /// The newest plan that its object had, and the generation that the object had with it first.
    plan: Plan,
    generation: i64,
    /// Whether there was an object, and whether somebody has asked since for its deletion.
    had_object: bool,
    may_go: bool,
}

impl Promises {
    /// Has them checked after every write to any cluster.
    pub(super) fn watch(world: &World) -> Self {
        let promises = Self::default();
        let rule = promises.clone();
        world.invariant("the fleet's promises", move |world| rule.0.lock().unwrap().check(world));
        promises
    }

    /// Other bounds hold from now on; none if there is nothing.
    pub(super) fn set(&self, bounds: Option<Bounds>) {
        self.0.lock().unwrap().bounds = bounds;
    }

    /// How often they were checked.
    pub(super) fn checks(&self) -> u64 {
        self.0.lock().unwrap().checks
    }
}

impl State {
    fn check(&mut self, world: &World) -> Result<(), String> {
        self.checks += 1;
        self.sight.look(world);
        self.budget_never_exceeded().map_err(|it| format!("budget_never_exceeded: {it}"))?;
        self.remember();
        self.term_fencing().map_err(|it| format!("term_fencing: {it}"))?;
        self.ack_required().map_err(|it| format!("ack_required: {it}"))?;
        self.deletion_needs_intent().map_err(|it| format!("deletion_needs_intent: {it}"))?;
        self.honest.check(&self.sight, world.now()).map_err(|it| format!("status_honest: {it}"))
    }

    /// Section 25, item 8, and with the image item 7 and REV-11; and what it rests on: what a member was last given is never more than
    /// the ledger counts for it (BUD-2).
    fn budget_never_exceeded(&self) -> Result<(), String> {
        if let Some(bounds) = &self.bounds {
            let pods = || self.sight.members.values().flat_map(|it| &it.pods);
            let (count, available) = (pods().count(), pods().filter(|it| it.is_ready).count());
            if available < bounds.available {
                return Err(format!("{available} pods are available; {bounds:?}"));
            }
            if count > bounds.pods {
                return Err(format!("there are {count} pods; {bounds:?}"));
            }
            if let Some((image, most)) = &bounds.updated {
                let updated = pods().filter(|it| it.image == *image).count();
                if updated > *most {
                    return Err(format!("{updated} pods are updated; {bounds:?}"));
                }
            }
        }
        let Some(ledger) = &self.sight.ledger else { return Ok(()) };
        for (name, copy) in self.sight.copies() {
            let Some(row) = ledger.clusters.get(name) else { continue };
            let held = [
                ("replicas", copy.replicas, row.replicas.exposure),
                ("pods down", copy.unavailable, row.unavailable.exposure),
                ("pods more", copy.surge, row.surge.exposure),
            ];
            if let Some((what, does, counted)) = held.into_iter().find(|(_, does, counted)| does > counted) {
                return Err(format!("{name} may have {does} {what}, and the ledger counts {counted}"));
            }
        }
        Ok(())
    }

    /// Notes which plans members have now, and which objects may go.
    fn remember(&mut self) {
        for (&name, member) in &self.sight.members {
            let past = self.past.entry(name).or_default();
            let intent = self.sight.assignments.get(name).map(|it| it.intent);
            match &member.copy {
                Some(copy) => {
                    if !past.had_object {
                        (past.had_object, past.may_go) = (true, false);
                    }
                    if copy.plan != past.plan && past.plan.allows(copy.plan) {
                        past.plan = copy.plan;
                        past.generation = copy.generation;
                    }
                }
                // Of one that has left nothing is known any more, and its plans are counted anew.
                None if intent.is_none() && past.may_go => *past = Past::default(),
                None => {}
            }
            past.may_go |= intent == Some(Intent::Delete);
        }
    }

    /// Section 25, item 12: the plan that a member carries out is never followed by an older one (PROTO-3).
    fn term_fencing(&self) -> Result<(), String> {
        for (name, copy) in self.sight.copies() {
            let newest = self.past[name].plan;
            if copy.plan != newest {
                return Err(format!("{name} has gone back from plan {newest:?} to {:?}", copy.plan));
            }
        }
        Ok(())
    }

    /// Section 25, item 10: nothing is taken for done before members do it and their controllers have seen it (PROTO-4).
    fn ack_required(&mut self) -> Result<(), String> {
        let Some(ledger) = &self.sight.ledger else { return Ok(()) };
        for (name, row) in ledger.clusters.iter().filter(|it| it.1.acknowledged) {
            self.has_done(name, row.share.seq)?;
        }
        let (before, now) = (self.observed, self.sight.observed());
        self.observed = now;
        // The moment at which the status says that this generation is everywhere (ST-2).
        if before.1 != now.1 && now.0 == now.1 && ledger.generation == now.0 {
            for (name, assignment) in &self.sight.assignments {
                self.has_done(name, assignment.seq)?;
            }
        }
        let was_released = std::mem::replace(&mut self.released, is_released(ledger));
        // The moment at which a release ends (REV-13).
        if self.released && !was_released {
            let image = self.sight.image_of_target.as_deref();
            let of_ledger = |it: &&'static str| ledger.clusters.contains_key(*it);
            let members = self.sight.members.iter().filter(|it| of_ledger(it.0));
            let old = members.flat_map(|it| &it.1.pods).find(|it| Some(it.image.as_str()) != image);
            if let Some(pod) = old {
                return Err(format!("the release of {image:?} has ended without {pod:?}"));
            }
        }
        Ok(())
    }

    /// Whether a member really carries a plan out, and its controller has seen that.
    fn has_done(&self, name: &str, seq: u64) -> Result<(), String> {
        let to_run = self.sight.assignments.get(name).is_some_and(|it| it.intent == Intent::Apply);
        let Some((name, member)) = self.sight.members.get_key_value(name).filter(|_| to_run) else {
            return Ok(());
        };
        let Some(copy) = &member.copy else {
            return Err(format!("{name} has nothing, and plan {seq} is taken for done there"));
        };
        let since = self.past[name].generation;
        if copy.plan.seq < seq || (copy.plan.seq == seq && copy.observed < since) {
            let Local { plan, observed, .. } = copy;
            return Err(format!(
                "plan {seq} is taken for done in {name}, which has plan {plan:?} since generation {since} and has \
                 observed generation {observed}"
            ));
        }
        Ok(())
    }

    /// Section 25, item 11: nothing of a member goes unless somebody has asked for that (PROTO-7).
    fn deletion_needs_intent(&mut self) -> Result<(), String> {
        for (&name, member) in &self.sight.members {
            let past = self.past.entry(name).or_default();
            let is_there = member.copy.as_ref().is_some_and(|it| !it.is_ending);
            if past.had_object && !is_there {
                if !past.may_go {
                    return Err(format!("the object of {name} goes, and nobody has asked for it"));
                }
                past.had_object = member.copy.is_some();
            }
        }
        Ok(())
    }
}

fn is_released(ledger: &Ledger) -> bool {
    ledger.target.is_some() && ledger.target == ledger.stable
}
