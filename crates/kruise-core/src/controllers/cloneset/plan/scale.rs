//! Adding and removing pods.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    Action, Change, Death, Fact, Plan, Why, World, birth, is_new_for_scale,
    limits::Limits,
    numbers::{Numbers, ready_deletions},
    scale_numbers,
    update::Specs,
};
use crate::{
    api::cloneset::keys::INSTANCE_ID,
    pod::{
        lifecycle::{self, Marking, State},
        patch::Pin,
        rank::{self, Spread},
    },
    runtime::cache::{claim::ClaimLite, pod::PodLite},
};

/// Picks pods to add and to remove. The first step that has anything to do ends it: each of the later ones counts on
/// those before it being done.
pub(super) fn plan(
    world: &World<'_>,
    limits: &Limits,
    facts: &[Fact<'_>],
    specs: &Specs,
    draw: &mut dyn FnMut() -> u64,
) -> Plan {
    let regrets = regrets(world, limits, facts);
    if !regrets.is_empty() {
        return Plan { scale: regrets, ..Plan::default() };
    }
    let numbers = scale_numbers(world, limits, facts, specs);
    if numbers.scale_up > 0 {
        let births = birth::births(world, numbers.scale_up_limit, numbers.scale_up_old, draw);
        let limited_to = (numbers.scale_up > numbers.scale_up_limit).then_some(numbers.scale_up_limit);
        let scale: Vec<Action> = match births.is_empty() {
            false => births.into_iter().map(Action::Create).collect(),
            true => instead_of_births(world, facts, &numbers),
        };
        return Plan { scale, limited_to, ..Plan::default() };
    }
    let claims = claims_by_id(world);
    let mut scale: Vec<Action> = asked_for(facts, &numbers).filter_map(|it| go(world, it, &claims)).collect();
    if scale.is_empty() && !facts.iter().any(|it| it.is_marked || it.is_preparing_delete()) {
        let surplus = surplus(world, limits, facts, &numbers).into_iter();
        scale = surplus.filter_map(|it| go(world, it, &claims)).collect();
    }
    Plan { scale, ..Plan::default() }
}

/// What can go on while pods are missing and none can be added now.
///
/// Where the limit is used up, pods whose hook has let go of them may be what it counts: they go. Where a successor waits
/// for the name of a pod that is on its way out, perhaps for ever, the others must not wait as well.
fn instead_of_births(world: &World<'_>, facts: &[Fact<'_>], numbers: &Numbers) -> Vec<Action> {
    let claims = claims_by_id(world);
    let go = |it: &Fact<'_>| go(world, it, &claims);
    match numbers.scale_up_limit {
        0 => facts.iter().filter(|it| it.is_preparing_delete()).filter_map(go).collect(),
        _ => asked_for(facts, numbers).filter_map(go).collect(),
    }
}

/// Pods that a hook holds back before their deletion and that are wanted again. Where a hook has taken its pod out of
/// rotation there is no way back.
fn regrets(world: &World<'_>, limits: &Limits, facts: &[Fact<'_>]) -> Vec<Action> {
    if lifecycle::is_deletion_final(world.cloneset.spec.lifecycle.as_ref()) {
        return Vec::new();
    }
    let going = facts.iter().filter(|it| it.is_marked || it.is_preparing_delete()).count();
    let missing = limits.replicas - count(facts.len()) + count(going);
    let kept = facts.iter().filter(|it| it.is_preparing_delete() && !it.is_marked);
    let change = |it: &Fact<'_>| {
        let patches = lifecycle::enter(it.pod, State::PreparingNormal, Marking::Leave, world.now);
        Action::Change(Change { pod: it.pod.clone(), patches, why: Why::Regret })
    };
    kept.take(usize::try_from(missing).unwrap_or_default()).map(change).collect()
}

/// Pods that are to go whatever the replicas: those that a hook held back, and those that somebody has named, the ready
/// ones among these within the budget.
fn asked_for<'f, 'a>(
    facts: &'f [Fact<'a>],
    numbers: &Numbers,
) -> impl Iterator<Item = &'f Fact<'a>> + use<'f, 'a> {
    let is_named = |it: &&Fact<'_>| it.is_marked && !it.is_preparing_delete();
    let down = facts.iter().filter(is_named).filter(|it| !it.is_available).count();
    let held = facts.iter().filter(|it| it.is_preparing_delete());
    held.chain(within(facts.iter().filter(is_named), Budget::new(numbers, down)))
}

/// Pods that are too many: old ones first as far as the partition has too many of them.
fn surplus<'f, 'a>(
    world: &World<'_>,
    limits: &Limits,
    facts: &'f [Fact<'a>],
    numbers: &Numbers,
) -> impl IntoIterator<Item = &'f Fact<'a>> + use<'f, 'a> {
    if numbers.scale_down <= 0 {
        return Vec::new();
    }
    let (new, old): (Vec<_>, Vec<_>) = facts.iter().partition(|it| is_new_for_scale(world, it));
    let from_old = numbers.scale_down.min(numbers.scale_down_old);
    let mut chosen = first(world, limits, old, from_old);
    chosen.extend(first(world, limits, new, numbers.scale_down - from_old));
    within(chosen.into_iter(), Budget::new(numbers, 0)).collect()
}

/// The first `wanted` of `group` in the order of deletion.
fn first<'f, 'a>(
    world: &World<'_>,
    limits: &Limits,
    group: Vec<&'f Fact<'a>>,
    wanted: i64,
) -> Vec<&'f Fact<'a>> {
    let wanted = usize::try_from(wanted).unwrap_or_default();
    if wanted == 0 || wanted >= group.len() {
        return if wanted == 0 { Vec::new() } else { group };
    }
    let pods: Vec<&PodLite> = group.iter().map(|it| &**it.pod).collect();
    let labels = |node: &str| world.nodes.get(node);
    let spread = Spread { constraints: spread_keys(world), node_labels: &labels };
    let order = rank::order_for_deletion(&pods, &spread, limits.min_ready_seconds, world.now);
    order.into_iter().take(wanted).map(|it| group[it]).collect()
}

/// The topology keys that the live template spreads pods over.
pub(in crate::controllers::cloneset) fn spread_keys(world: &World<'_>) -> Vec<String> {
    let constraints = world.cloneset.spec.template["spec"]["topologySpreadConstraints"].as_array();
    let keys = constraints.into_iter().flatten().filter_map(|it| it["topologyKey"].as_str());
    keys.map(str::to_owned).collect()
}

/// How many pods may be taken out of service.
#[derive(Debug, Clone, Copy)]
struct Budget {
    /// Pods that serve, whether for long enough or not.
    serving: i64,
    /// Pods among them that count as available.
    available: i64,
}

impl Budget {
    fn new(numbers: &Numbers, named_and_down: usize) -> Self {
        Self { serving: numbers.delete_ready_limit, available: ready_deletions(numbers, named_and_down) }
    }

    fn allows(&mut self, fact: &Fact<'_>) -> bool {
        if !fact.is_serving {
            return true;
        }
        if self.serving <= 0 || (fact.is_available && self.available <= 0) {
            return false;
        }
        self.serving -= 1;
        self.available -= i64::from(fact.is_available);
        true
    }
}

/// Pods that serve nobody, and as many others as the budget allows.
fn within<'f, 'a: 'f>(
    pods: impl Iterator<Item = &'f Fact<'a>>,
    mut budget: Budget,
) -> impl Iterator<Item = &'f Fact<'a>> {
    pods.filter(move |it| budget.allows(it))
}

/// Claims of instances, by id.
type Claims<'a> = BTreeMap<&'a str, Vec<&'a Arc<ClaimLite>>>;

fn claims_by_id<'a>(world: &World<'a>) -> Claims<'a> {
    let mut claims = Claims::new();
    for claim in world.claims.iter().filter(|it| !it.is_terminating()) {
        if let Some(id) = claim.labels().get(INSTANCE_ID) {
            claims.entry(id.as_str()).or_default().push(claim);
        }
    }
    claims
}

/// How a pod goes: a hook may hold it back first. Nothing if it is held back already.
fn go(world: &World<'_>, fact: &Fact<'_>, claims: &Claims<'_>) -> Option<Action> {
    let hook = world.cloneset.spec.lifecycle.as_ref().and_then(|it| it.pre_delete.as_ref());
    // It costs nothing only as long as it is down. One that is held back is down whatever its readiness.
    let only_as_seen = !fact.seems_available && !fact.is_preparing_delete();
    if lifecycle::is_hooked(hook, fact.pod) {
        let mut patches = lifecycle::enter(fact.pod, State::PreparingDelete, Marking::of(hook), world.now);
        if only_as_seen {
            patches.iter_mut().for_each(|it| it.pin = Pin::Version);
        }
        let change = Change { pod: fact.pod.clone(), patches, why: Why::PrepareDelete };
        return (!change.patches.is_empty()).then_some(Action::Change(change));
    }
    let id = fact.pod.labels().get(INSTANCE_ID);
    let claims = id.and_then(|it| claims.get(it.as_str())).into_iter().flatten();
    let claims = claims.map(|it| Arc::clone(it)).collect();
    Some(Action::Delete(Death { pod: fact.pod.clone(), claims, only_as_seen }))
}

fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
