//! Updating pods: which ones, and how.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use serde_json::json;

use super::{
    Action, At, Change, Fact, Version, Why, World,
    limits::{Limits, is_paused},
    mode,
    numbers::{self, Counted, Numbers},
};
use crate::{
    api::{cloneset::v1beta1::CloneSetPodUpdatePolicy, common::keys::SPECIFIED_DELETE},
    pod::{
        inplace::{self, Start, UpdateSpec},
        lifecycle::{self, Marking, State},
        patch::{Part, Pin, PodPatch},
        rank::{self, priority, scatter},
        state,
    },
    revision::hash::short_hash,
    runtime::cache::pod::PodLite,
};

/// What it takes to bring pods from each revision to the two that a release knows; computed once for all pods.
#[derive(Debug, Default)]
pub(super) struct Specs {
    /// By the short hash of the revision they come from.
    to_update: BTreeMap<String, Option<UpdateSpec>>,
    to_current: BTreeMap<String, Option<UpdateSpec>>,
}

impl Specs {
    /// Looks at the revisions that pods are at. Empty where pods are not updated in place.
    pub(super) fn new(world: &World<'_>, facts: &[Fact<'_>]) -> Self {
        let mut specs = Self::default();
        if world.policy() == CloneSetPodUpdatePolicy::ReCreate || world.is_on_delete() {
            return specs;
        }
        // Pods are many, their revisions few.
        let mut last: Option<&Arc<str>> = None;
        for fact in facts {
            if last.is_some_and(|it| Arc::ptr_eq(it, fact.revision)) {
                continue;
            }
            last = Some(fact.revision);
            let (known, to) = match fact.is_updated {
                false => (&mut specs.to_update, world.update),
                true if world.options.partition_rollback => (&mut specs.to_current, world.current),
                true => continue,
            };
            let from = short_hash(fact.revision);
            if !known.contains_key(from) {
                let spec = world.version_of(fact.pod).and_then(|it| calculate(world, it, to));
                known.insert(from.to_owned(), spec);
            }
        }
        specs
    }

    /// Whether every pod that has to be updated can be without a restart.
    pub(super) fn needs_no_surge(&self) -> bool {
        let restarts_nothing = |it: &Option<UpdateSpec>| it.as_ref().is_some_and(inplace::is_metadata_only);
        !self.to_update.is_empty() && self.to_update.values().all(restarts_nothing)
    }

    fn of(&self, fact: &Fact<'_>) -> Option<&UpdateSpec> {
        let known = if fact.is_updated { &self.to_current } else { &self.to_update };
        known.get(short_hash(fact.revision))?.as_ref()
    }
}

pub(super) fn calculate(world: &World<'_>, from: &Version, to: &Version) -> Option<UpdateSpec> {
    let grace = world.rolling().and_then(|it| it.in_place_update_strategy.as_ref());
    let options = inplace::Options {
        env_from_metadata: world.options.env_from_metadata,
        vertical_scaling: world.options.vertical_scaling,
        recreate_for_claims: world.options.recreate_for_claims,
        in_place_only: world.policy() == CloneSetPodUpdatePolicy::InPlaceOnly,
        grace_seconds: grace.map_or(0, |it| it.grace_period_seconds),
    };
    inplace::calculate(&from.view(), &to.view(), &options)
}

/// Updates to begin, and what stands in the way.
#[derive(Debug, Default)]
pub(super) struct Begun {
    pub(super) actions: Vec<Action>,
    pub(super) trouble: Option<String>,
}

/// The numbers for updates; nothing to update where the user has stopped it.
pub(super) fn numbers(world: &World<'_>, limits: &Limits, facts: &[Fact<'_>], specs: &Specs) -> Numbers {
    if world.is_on_delete() || is_paused(&world.cloneset.spec) {
        return Numbers::default();
    }
    let counted = facts.iter().map(|it| it.counted(it.is_updated));
    numbers::numbers(limits, counted, mode(world, specs))
}

/// How many pods may be updated, in the direction of `numbers`, if `births` are there: then they count for the partition.
pub(super) fn beside(
    world: &World<'_>,
    limits: &Limits,
    facts: &[Fact<'_>],
    specs: &Specs,
    births: &[At],
    numbers: &Numbers,
) -> usize {
    let counted = facts.iter().map(|it| it.counted(it.is_updated));
    let newborn = births.iter().map(|it| Counted {
        is_new: *it == At::Update,
        is_preparing_delete: false,
        is_marked: false,
        is_available: false,
    });
    let update = numbers::numbers(limits, counted.chain(newborn), mode(world, specs)).update;
    match numbers.update.signum() == update.signum() {
        true => usize::try_from(update.unsigned_abs()).unwrap_or(usize::MAX),
        false => 0,
    }
}

/// Begins updates as far as the limits allow.
pub(super) fn plan(world: &World<'_>, facts: &[Fact<'_>], specs: &Specs, numbers: &Numbers) -> Begun {
    let mut begun = Begun::default();
    if numbers.update == 0 {
        return begun;
    }
    let target = if numbers.update > 0 { world.update } else { world.current };
    let down = Down::of(facts, target);
    let allowed = Allowed::of(numbers);
    if down.at_target >= allowed.at_target {
        return begun;
    }
    let mut order = order(world, facts, numbers.update > 0);
    if allowed.all <= 0 {
        order.retain(|it| !facts[*it].is_available && !facts[*it].is_doubtful);
    }
    let wanted = usize::try_from(numbers.update.unsigned_abs()).unwrap_or(usize::MAX);
    let chosen = affordable(facts, &order, wanted, allowed, down);
    for fact in chosen.iter().map(|it| &facts[*it]) {
        match one(world, fact, specs, target) {
            Ok(change) => begun.actions.extend(change.map(Action::Change)),
            // The others can go on all the same.
            Err(trouble) => begun.trouble = begun.trouble.or(Some(trouble)),
        }
    }
    begun
}

/// Pods that could be updated (or taken back), in the order in which they should be.
fn order(world: &World<'_>, facts: &[Fact<'_>], forward: bool) -> Vec<usize> {
    let may_change = |it: &Fact<'_>| it.is_updated != forward && inplace::may_update(it.pod);
    let candidates: Vec<usize> = (0..facts.len()).filter(|it| may_change(&facts[*it])).collect();
    let pods: Vec<&PodLite> = facts.iter().map(|it| &**it.pod).collect();
    let among: Vec<&PodLite> = candidates.iter().map(|it| pods[*it]).collect();
    let mut order: Vec<usize> = rank::order_for_update(&among).into_iter().map(|it| candidates[it]).collect();
    let rolling = world.rolling();
    if let Some(strategy) = rolling.and_then(|it| it.priority_strategy.as_ref()) {
        order = priority::sort(&pods, order, strategy);
    }
    if let Some(rolling) = rolling.filter(|it| !it.scatter_strategy.is_empty()) {
        order = scatter::sort(&pods, order, &rolling.scatter_strategy);
    }
    // A pod that has prepared itself must not wait for others.
    order.sort_by_key(|it| Reverse(facts[*it].state == Some(State::PreparingUpdate)));
    order
}

/// Pods that are down.
#[derive(Debug, Clone, Copy)]
struct Down {
    all: i64,
    /// Those among them that have been brought where they should be.
    at_target: i64,
}

impl Down {
    fn of(facts: &[Fact<'_>], target: &Version) -> Self {
        let mut down = Self { all: 0, at_target: 0 };
        for fact in facts.iter().filter(|it| !it.is_available) {
            down.all += 1;
            down.at_target += i64::from(state::is_at_revision(fact.pod, &target.name));
        }
        down
    }
}

/// How many pods may be down.
#[derive(Debug, Clone, Copy)]
struct Allowed {
    all: i64,
    /// After their update.
    at_target: i64,
}

impl Allowed {
    /// Where `scaleStrategy.maxUnavailable` keeps every missing pod from being added, these use the budget up, and pods
    /// that are down would keep each other from being mended for ever. One of them may go ahead: nobody is taken down.
    fn of(numbers: &Numbers) -> Self {
        let all = numbers.update_max_unavailable;
        let is_held_up = numbers.scale_up > 0 && numbers.scale_up_limit == 0;
        Self { all, at_target: if is_held_up { all.max(1) } else { all } }
    }
}

/// How many of the first `wanted` may be updated. Replacing a pod that is down takes nothing more down, but pods that are
/// down *after* their update brake all the same (openkruise/kruise#898).
fn affordable<'o>(
    facts: &[Fact<'_>],
    order: &'o [usize],
    wanted: usize,
    allowed: Allowed,
    mut down: Down,
) -> &'o [usize] {
    let mut chosen = 0;
    for fact in order.iter().take(wanted).map(|it| &facts[*it]) {
        if down.at_target + chosen >= allowed.at_target {
            break;
        }
        if fact.is_available || fact.is_doubtful {
            // One in doubt is among those that are down already.
            down.all += i64::from(fact.is_available);
            if down.all > allowed.all {
                break;
            }
        }
        chosen += 1;
    }
    &order[..usize::try_from(chosen).unwrap_or_default()]
}

/// The update of one pod; nothing if it has to wait for its hook or is marked already.
fn one(
    world: &World<'_>,
    fact: &Fact<'_>,
    specs: &Specs,
    target: &Version,
) -> Result<Option<Change>, String> {
    match (specs.of(fact), world.policy()) {
        (Some(spec), _) => in_place(world, fact, spec, target),
        (None, CloneSetPodUpdatePolicy::InPlaceOnly) => Err(format!(
            "pod {} cannot be updated in place to revision {}, and spec.updateStrategy allows nothing else: change only \
             images and metadata of the template, or set podUpdatePolicy to InPlaceIfPossible",
            name(fact.pod),
            target.name
        )),
        (None, _) => Ok(replace(fact)),
    }
}

fn in_place(
    world: &World<'_>,
    fact: &Fact<'_>,
    spec: &UpdateSpec,
    target: &Version,
) -> Result<Option<Change>, String> {
    let hook = world.cloneset.spec.lifecycle.as_ref().and_then(|it| it.in_place_update.as_ref());
    let is_hooked = lifecycle::is_hooked(hook, fact.pod);
    let change = |patches: Vec<PodPatch>, why| {
        (!patches.is_empty()).then(|| Change { pod: fact.pod.clone(), patches, why })
    };
    match fact.state {
        Some(State::PreparingNormal | State::Normal) if is_hooked => {
            let patches = lifecycle::enter(fact.pod, State::PreparingUpdate, Marking::of(hook), world.now);
            return Ok(change(patches, Why::PrepareUpdate));
        }
        Some(State::Updated) if hook.is_some() => {
            let patches = lifecycle::enter_hooked(fact.pod, State::PreparingUpdate, hook, world.now);
            return Ok(change(patches, Why::PrepareUpdate));
        }
        Some(State::PreparingUpdate) if is_hooked => return Ok(None),
        Some(State::PreparingDelete) | None => {
            return Err(format!("pod {} is in a lifecycle state that allows no update", name(fact.pod)));
        }
        Some(_) => {}
    }
    let labels = state::revision_labels(&target.name, world.options.short_hash);
    let start = Start { labels: &labels, state: Some(State::Updating) };
    let patches = inplace::update(fact.pod, spec, &start, &world.inplace());
    Ok(change(patches, Why::InPlace))
}

/// Marks a pod: it is deleted later, within the budget and through its hook.
fn replace(fact: &Fact<'_>) -> Option<Change> {
    if state::is_marked_for_deletion(fact.pod) {
        return None;
    }
    let body = json!({"metadata": {"labels": {SPECIFIED_DELETE: "true"}}});
    let patch = PodPatch { part: Part::Main, pin: Pin::Uid, body };
    Some(Change { pod: fact.pod.clone(), patches: vec![patch], why: Why::Replace })
}

fn name(pod: &PodLite) -> &str {
    pod.metadata.name.as_deref().unwrap_or_default()
}
