//! What to do about the pods of one CloneSet. Pure: a world in, a plan out.
//!
//! [`glance`] is what is read off a pod, [`limits`] are the numbers of the spec, [`numbers`] how many pods are missing or
//! too many. [`scale`] picks pods to
//! add and remove, [`refresh`] carries on what was begun on a pod, [`update`] picks pods to update and begins.

pub mod birth;
pub mod glance;
pub mod limits;
pub mod numbers;
pub mod refresh;
pub mod scale;
pub mod update;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use serde_json::Value;

use self::{
    glance::Glanced,
    limits::Limits,
    numbers::{Counted, Mode, Numbers},
};
use crate::{
    api::cloneset::v1beta1::{
        CloneSet, CloneSetPodUpdatePolicy, CloneSetUpdateStrategyType, RollingUpdateCloneSetStrategy,
    },
    pod::{
        inplace::{self, RevisionView},
        lifecycle::State,
        patch::PodPatch,
        state::{self, Standing},
    },
    runtime::cache::{claim::ClaimLite, pod::PodLite},
};

/// Switches of the process that decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Gate `CloneSetShortHash`.
    pub short_hash: bool,
    /// Gate `CloneSetPartitionRollback`.
    pub partition_rollback: bool,
    /// Gate `PreparingUpdateAsUpdate`.
    pub preparing_update_as_update: bool,
    /// Gate `InPlaceUpdateEnvFromMetadata`.
    pub env_from_metadata: bool,
    /// Gate `InPlaceWorkloadVerticalScaling`.
    pub vertical_scaling: bool,
    /// Gate `RecreatePodWhenChangeVCTInCloneSetGate`.
    pub recreate_for_claims: bool,
    /// Flag `--cloneset-scaling-exclude-preparing-delete`.
    pub exclude_preparing_delete: bool,
    /// Gate `CloneSetEventHandlerOptimization`: changes of pods that cannot matter wake nobody.
    pub ignore_irrelevant: bool,
    /// Gate `PreDownloadImageForInPlaceUpdate`, with everything that it needs.
    pub download_ahead: bool,
    /// Whether the API server has `pods/resize`.
    pub server_resizes: bool,
}

impl Options {
    /// What the in-place engine must know.
    pub fn inplace(&self, now: Timestamp) -> inplace::Context {
        inplace::Context { now, vertical_scaling: self.vertical_scaling, server_resizes: self.server_resizes }
    }
}

/// A revision, opened.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// Its name.
    pub name: String,
    /// What it records: `{"spec": {"template": ..}}`.
    pub data: Value,
    /// The hash of the claim templates that were in force.
    pub claims_hash: Option<String>,
    /// The claim templates that were in force, as far as they were recorded.
    pub claim_templates: Vec<Value>,
}

impl Version {
    /// A revision of which nothing is known but its name.
    pub fn named(name: String) -> Self {
        Self { name, data: Value::Null, claims_hash: None, claim_templates: Vec::new() }
    }

    /// The template that pods of this revision are made from.
    pub fn template(&self) -> &Value {
        &self.data["spec"]["template"]
    }

    pub(super) fn view(&self) -> RevisionView<'_> {
        RevisionView { name: &self.name, data: &self.data, claims_hash: self.claims_hash.as_deref() }
    }
}

/// When to look again at pods in doubt. What clears a doubt up may change nothing that would wake us.
const IN_DOUBT: Duration = Duration::from_secs(15);

/// Requests whose outcome is unknown. The remedy is to ask for the same again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Doubts {
    /// Ids of pods that may have been made.
    pub created: BTreeSet<String>,
    /// Names of pods that may have been deleted.
    pub deleted: BTreeSet<String>,
    /// Names of pods that may have been deleted if they were still what was looked at: down.
    pub deleted_as_seen: BTreeSet<String>,
    /// Names of pods that may have been changed.
    pub changed: BTreeSet<String>,
}

impl Doubts {
    /// Whether everything is known.
    pub fn is_empty(&self) -> bool {
        let Self { created, deleted, deleted_as_seen, changed } = self;
        [created, deleted, deleted_as_seen, changed].into_iter().all(BTreeSet::is_empty)
    }
}

/// What is there, at one moment.
#[derive(Debug)]
pub struct World<'a> {
    /// The object.
    pub cloneset: &'a CloneSet,
    /// Its pods that count.
    pub active: &'a [Glanced<'a>],
    /// Its pods that have ended or are on their way out.
    pub inactive: &'a [Arc<PodLite>],
    /// Its claims that may serve further pods, and those that are on their way out.
    pub claims: &'a [Arc<ClaimLite>],
    /// Ids of claims that no new pod can have: a pod of that name is there, and not ours, or the claim may be gone.
    pub occupied: &'a BTreeSet<String>,
    /// Where pods go.
    pub update: &'a Version,
    /// Where they come from.
    pub current: &'a Version,
    /// All revisions that are known, oldest first.
    pub history: &'a [Arc<Version>],
    /// What was asked of the API server without an answer.
    pub doubts: &'a Doubts,
    /// Labels of the nodes that pods are on; read only where a template spreads pods.
    pub nodes: &'a BTreeMap<String, BTreeMap<String, String>>,
    /// Switches.
    pub options: Options,
    /// The time.
    pub now: Timestamp,
}

impl World<'_> {
    fn rolling(&self) -> Option<&RollingUpdateCloneSetStrategy> {
        self.cloneset.spec.update_strategy.rolling_update.as_ref()
    }

    fn policy(&self) -> CloneSetPodUpdatePolicy {
        self.rolling().and_then(|it| it.pod_update_policy).unwrap_or_default()
    }

    fn is_on_delete(&self) -> bool {
        self.cloneset.spec.update_strategy.type_ == Some(CloneSetUpdateStrategyType::OnDelete)
    }

    fn inplace(&self) -> inplace::Context {
        self.options.inplace(self.now)
    }

    /// Whether the step from the current to the update revision can be made in place.
    pub fn can_update_in_place(&self) -> bool {
        update::calculate(self, self.current, self.update).is_some()
    }

    /// The revision that this pod is at, if it is still known.
    fn version_of(&self, pod: &PodLite) -> Option<&Version> {
        let known = self.history.iter().map(|it| &**it).chain([self.current, self.update]);
        known.into_iter().find(|it| state::is_at_revision(pod, &it.name))
    }
}

/// A pod and what is known of it.
#[derive(Debug, Clone, Copy)]
pub struct Fact<'a> {
    /// The pod.
    pub pod: &'a Arc<PodLite>,
    /// Where it stands; nothing for a word that we do not know.
    pub state: Option<State>,
    /// What it says of its revision: a name or a short hash, nothing if it says nothing.
    revision: &'a Arc<str>,
    standing: Standing,
    /// Nothing was begun on it that has not ended.
    is_at_rest: bool,
    /// At the update revision.
    pub is_updated: bool,
    /// Named for deletion, by label or in the spec.
    pub is_marked: bool,
    /// Running and ready, whatever its state.
    pub is_ready: bool,
    /// Ready at this moment, and in no lifecycle step: taking it down costs something.
    pub is_serving: bool,
    /// Ready for long enough, and in no lifecycle step: it is what limits are about.
    pub is_available: bool,
    /// Available as far as it can be seen.
    seems_available: bool,
    /// Available as far as it can be seen, and perhaps taken down by a request without an answer. It counts as down, and
    /// costs as much to take down as one that is up.
    is_doubtful: bool,
}

impl Fact<'_> {
    /// How long until it becomes available by the passing of time alone.
    pub fn available_in(&self, limits: &Limits, now: Timestamp) -> Option<Duration> {
        self.standing.available_in(limits.min_ready_seconds, now)
    }

    fn is_preparing_delete(&self) -> bool {
        self.state == Some(State::PreparingDelete)
    }

    fn counted(&self, is_new: bool) -> Counted {
        Counted {
            is_new,
            is_preparing_delete: self.is_preparing_delete(),
            is_marked: self.is_marked,
            is_available: self.is_available,
        }
    }
}

/// Looks at every active pod.
pub fn facts<'a>(world: &World<'a>, limits: &Limits) -> Vec<Fact<'a>> {
    let named: BTreeSet<&str> =
        world.cloneset.spec.scale_strategy.pods_to_delete.iter().map(String::as_str).collect();
    // Names are in the pods, which are best left alone.
    let is_in = |names: &BTreeSet<&str>, pod: &PodLite| {
        !names.is_empty() && names.contains(pod.metadata.name.as_deref().unwrap_or_default())
    };
    let Doubts { deleted, deleted_as_seen, changed, .. } = world.doubts;
    let [deleted, as_seen, changed] = [deleted, deleted_as_seen, changed]
        .map(|names| names.iter().map(String::as_str).collect::<BTreeSet<&str>>());
    let mut updated = glance::AtRevision::new(&world.update.name);
    let fact = |it: &Glanced<'a>| {
        let Glanced { pod, glance } = *it;
        let standing = glance.standing;
        let seems_available = standing.is_available(limits.min_ready_seconds, world.now);
        // It may be gone: it is asked to go again before any other, and counts for nothing until then. One that was down
        // when it was asked to go, and has become available by the passing of time, costs as much as any other.
        let is_asked_to_go = is_in(&deleted, pod) || is_in(&as_seen, pod);
        let is_doubted = is_in(&deleted, pod) || (is_asked_to_go && !seems_available);
        // It may have begun its update: it counts as down until that is known.
        let may_be_down = is_asked_to_go || is_in(&changed, pod);
        Fact {
            pod,
            state: glance.state,
            revision: &glance.revision,
            standing,
            is_at_rest: glance.is_at_rest,
            is_updated: updated.has(&glance.revision),
            is_marked: is_asked_to_go || glance.is_marked || is_in(&named, pod),
            is_ready: !is_doubted && standing.is_ready_for(0, world.now),
            is_serving: !is_doubted && standing.is_available(0, world.now),
            is_available: !may_be_down && seems_available,
            is_doubtful: !is_doubted && may_be_down && seems_available,
            seems_available,
        }
    };
    world.active.iter().map(fact).collect()
}

/// One thing to do. Whatever prefix of a plan was carried out, planning again goes on from there.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Makes a pod, and before it the claims that it lacks.
    Create(Birth),
    /// Deletes a pod and its claims.
    Delete(Death),
    /// Changes a pod.
    Change(Change),
}

/// A pod to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Birth {
    /// Its instance.
    pub id: String,
    /// At which revision.
    pub at: At,
}

/// One of the two revisions of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum At {
    /// Where pods come from.
    Current,
    /// Where they go.
    Update,
}

/// A pod to be deleted.
#[derive(Debug, Clone)]
pub struct Death {
    /// The pod.
    pub pod: Arc<PodLite>,
    /// The claims that go with it.
    pub claims: Vec<Arc<ClaimLite>>,
    /// It costs nothing because it is down: it goes only if it is still what was looked at.
    pub only_as_seen: bool,
}

impl PartialEq for Death {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pod, &other.pod)
    }
}

/// A pod to be changed.
#[derive(Debug, Clone)]
pub struct Change {
    /// The pod.
    pub pod: Arc<PodLite>,
    /// Requests, in order.
    pub patches: Vec<PodPatch>,
    /// What it is for.
    pub why: Why,
}

impl PartialEq for Change {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pod, &other.pod) && self.patches == other.patches && self.why == other.why
    }
}

/// What a change of a pod is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It is kept after all.
    Regret,
    /// A hook holds it back before it is deleted.
    PrepareDelete,
    /// What was begun on it goes on.
    Refresh,
    /// A hook holds it back before it is updated.
    PrepareUpdate,
    /// It is updated in place.
    InPlace,
    /// It is marked, to be replaced later.
    Replace,
}

/// What to do now.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// Pods to add and remove.
    pub scale: Vec<Action>,
    /// Pods to carry on with.
    pub refresh: Vec<Action>,
    /// Pods to begin an update of, if adding and removing did nothing: the numbers of both would not fit together.
    pub update: Vec<Action>,
    /// How many of these fit the partition if pods that should have been added are there after all.
    pub beside: usize,
    /// How many pods `scaleStrategy.maxUnavailable` allows of those that are missing, if that is fewer.
    pub limited_to: Option<i64>,
    /// Why a pod cannot be updated.
    pub trouble: Option<String>,
    /// When to look again, should nothing change until then.
    pub look_again: Option<Duration>,
}

impl Plan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.scale.is_empty() && self.refresh.is_empty() && self.update.is_empty()
    }
}

/// Plans one pass. `draw` gives numbers that look random, for the names of pods.
pub fn plan(world: &World<'_>, limits: &Limits, facts: &[Fact<'_>], draw: &mut dyn FnMut() -> u64) -> Plan {
    let specs = update::Specs::new(world, facts);
    let mut plan = scale::plan(world, limits, facts, &specs, draw);
    let births =
        plan.scale.iter().filter_map(|it| if let Action::Create(it) = it { Some(it.at) } else { None });
    let births: Vec<At> = births.collect();
    let numbers = update::numbers(world, limits, facts, &specs);
    plan.beside = update::beside(world, limits, facts, &specs, &births, &numbers);
    // What was begun on a pod goes on whatever else happens, on pods that are not about to go.
    let doomed: BTreeSet<*const PodLite> = plan.scale.iter().filter_map(touched).collect();
    let rest = facts.iter().filter(|it| !doomed.contains(&Arc::as_ptr(it.pod)));
    let steps = refresh::plan(world, rest, numbers.update < 0);
    let in_doubt = (!world.doubts.is_empty()).then_some(IN_DOUBT);
    plan.look_again = steps.look_again.into_iter().chain(in_doubt).min();
    plan.refresh = steps.actions;
    plan.trouble = steps.trouble;
    if !steps.moves_states {
        let begun = update::plan(world, facts, &specs, &numbers);
        // A pod's refresh and its update would fight over the same version of it.
        let updated: BTreeSet<*const PodLite> = begun.actions.iter().filter_map(touched).collect();
        if plan.scale.is_empty() {
            plan.refresh.retain(|it| touched(it).is_none_or(|it| !updated.contains(&it)));
            plan.update = begun.actions;
        } else {
            let refreshed: BTreeSet<*const PodLite> = plan.refresh.iter().filter_map(touched).collect();
            let is_free = |it: &*const PodLite| !doomed.contains(it) && !refreshed.contains(it);
            let may_begin = |it: &Action| touched(it).is_some_and(|it| is_free(&it));
            plan.update = begun.actions.into_iter().filter(may_begin).collect();
        }
        plan.trouble = plan.trouble.or(begun.trouble);
    }
    plan
}

fn touched(action: &Action) -> Option<*const PodLite> {
    match action {
        Action::Create(_) => None,
        Action::Delete(it) => Some(Arc::as_ptr(&it.pod)),
        Action::Change(it) => Some(Arc::as_ptr(&it.pod)),
    }
}

/// The numbers for adding and removing pods. For these a pod that prepares its update may count as updated.
fn scale_numbers(world: &World<'_>, limits: &Limits, facts: &[Fact<'_>], specs: &update::Specs) -> Numbers {
    let counted = facts.iter().map(|it| it.counted(is_new_for_scale(world, it)));
    numbers::numbers(limits, counted, mode(world, specs))
}

fn is_new_for_scale(world: &World<'_>, fact: &Fact<'_>) -> bool {
    let prepares = fact.state == Some(State::PreparingUpdate);
    fact.is_updated || (world.options.preparing_update_as_update && prepares)
}

fn mode(world: &World<'_>, specs: &update::Specs) -> Mode {
    Mode {
        is_settled: world.current.name == world.update.name,
        may_roll_back: world.options.partition_rollback,
        excludes_preparing_delete: world.options.exclude_preparing_delete
            || world.cloneset.spec.scale_strategy.exclude_preparing_delete,
        needs_no_surge: specs.needs_no_surge(),
    }
}

#[cfg(test)]
mod tests;
