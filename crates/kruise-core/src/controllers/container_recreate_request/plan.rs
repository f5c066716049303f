//! What the cluster's side of a recreate request has to do: take the pod out of rotation and put it back, show the node
//! what the API server knows, end what takes too long, and tidy up.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::{
    api::container_recreate_request::{
        conditions, keys,
        v1beta1::{ContainerRecreateRequest, ContainerStatusSnapshot, RecreatePhase},
    },
    pod::{
        patch::PodPatch,
        readiness::{self, Key},
    },
    runtime::{cache::pod::PodLite, clock::whole_seconds},
};

/// How long the node's daemon may be silent.
const RESPONSE_TIMEOUT: SignedDuration = SignedDuration::from_secs(60);

/// How often the pod is looked at while its containers start: its events lag.
const POLL: Duration = Duration::from_secs(3);

/// Who keeps a pod out of rotation, in the pod's condition.
const USER_AGENT: &str = "ContainerRecreateRequest";

/// Why a request ends without being done.
pub mod messages {
    /// The pod is not there any more.
    pub const POD_GONE: &str = "pod has gone";
    /// The pod has ended and with it the containers: nothing starts there any more. That is what sidecars of a job are
    /// stopped for.
    pub const POD_ENDED: &str = "pod has ended";
    /// The daemon does not answer.
    pub const NO_RESPONSE: &str = "daemon has not responded for a long time";
    /// The deadline has passed.
    pub const DEADLINE: &str = "recreating has exceeded the activeDeadlineSeconds";
}

/// One write. They are carried out in order, and none after one that failed.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Change the pod's readiness.
    PatchPod(PodPatch),
    /// Set the request's finalizers.
    SetFinalizers(Vec<String>),
    /// The node need not watch the request any more.
    DropActive,
    /// Fill in what admission would have filled in.
    Fill,
    /// Write down since when the pod is out of rotation: these are all conditions.
    WriteConditions(Vec<Condition>),
    /// Show the node what the API server knows of the new containers. Not bound to what was looked at, so it comes last.
    WriteSnapshot(Vec<ContainerStatusSnapshot>),
    /// End the request.
    Complete {
        /// Why; never empty, as an empty one means that everything was done.
        message: &'static str,
    },
    /// Delete the request: its time is up.
    Delete,
}

/// What to do about one request.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// The writes.
    pub actions: Vec<Action>,
    /// When to look again at the latest.
    pub look_again_in: Option<Duration>,
}

impl Plan {
    fn only(action: Action) -> Self {
        Self { actions: vec![action], look_again_in: None }
    }

    /// Of several such wishes the earliest counts.
    fn again(&mut self, left: SignedDuration) {
        let left = Duration::try_from(left).unwrap_or_default();
        self.look_again_in = Some(self.look_again_in.map_or(left, |it| it.min(left)));
    }
}

/// Decides. `pod` is the pod that the request names, if there is one of that name.
pub fn plan(request: &ContainerRecreateRequest, pod: Option<&PodLite>, now: Timestamp) -> Plan {
    let pod = pod.filter(|it| is_meant(request, it));
    let completion = request.status.as_ref().and_then(|it| it.completion_time.as_ref());
    if request.metadata.deletion_timestamp.is_some() || completion.is_some() {
        return end(request, pod, completion, now);
    }
    let Some(pod) = pod else { return Plan::only(Action::Complete { message: messages::POD_GONE }) };
    if label(request, keys::NODE_NAME).is_none() || label(request, keys::POD_UID).is_none() {
        return Plan::only(Action::Fill);
    }
    if has_ended(request, pod) {
        return Plan::only(Action::Complete { message: messages::POD_ENDED });
    }
    let mut plan = Plan::default();
    let created = request.metadata.creation_timestamp.as_ref().map_or(now, |it| it.0);
    let phase = request.status.as_ref().and_then(|it| it.phase);
    if phase.is_none() {
        let left = RESPONSE_TIMEOUT - now.duration_since(created);
        if left <= SignedDuration::ZERO {
            return Plan::only(Action::Complete { message: messages::NO_RESPONSE });
        }
        plan.again(left);
    }
    if let Some(deadline) = request.spec.active_deadline_seconds {
        let left = SignedDuration::from_secs(deadline) - now.duration_since(created);
        if left <= SignedDuration::ZERO {
            return Plan::only(Action::Complete { message: messages::DEADLINE });
        }
        plan.again(left);
    }
    if phase == Some(RecreatePhase::Recreating) {
        recreating(request, pod, created, now, &mut plan);
    }
    plan
}

/// The request is over, or is to go: the pod returns to rotation first, whatever happened.
fn end(
    request: &ContainerRecreateRequest,
    pod: Option<&PodLite>,
    completion: Option<&Time>,
    now: Timestamp,
) -> Plan {
    let mut plan = Plan::default();
    let finalizers = request.metadata.finalizers.clone().unwrap_or_default();
    if finalizers.iter().any(|it| it == keys::UNREADY_ACQUIRED) {
        let released = pod.and_then(|it| readiness::remove_key(it, &key(request), now));
        plan.actions.extend(released.map(Action::PatchPod));
        let others = finalizers.into_iter().filter(|it| it != keys::UNREADY_ACQUIRED).collect();
        plan.actions.push(Action::SetFinalizers(others));
    }
    let Some(completion) = completion.filter(|_| request.metadata.deletion_timestamp.is_none()) else {
        return plan;
    };
    if label(request, keys::ACTIVE).is_some() {
        plan.actions.push(Action::DropActive);
    }
    if let Some(ttl) = request.spec.ttl_seconds_after_finished {
        let left = SignedDuration::from_secs(i64::from(ttl)) - now.duration_since(completion.0);
        match left <= SignedDuration::ZERO {
            true => plan.actions.push(Action::Delete),
            false => plan.again(left),
        }
    }
    plan
}

fn recreating(
    request: &ContainerRecreateRequest,
    pod: &PodLite,
    created: Timestamp,
    now: Timestamp,
    plan: &mut Plan,
) {
    leave_rotation(request, pod, now, plan);
    let shown = request.status.as_ref().map(|it| it.container_status_snapshot.as_slice()).unwrap_or_default();
    let snapshot = snapshot(request, pod, created);
    if !snapshot.is_empty() && snapshot != shown {
        plan.actions.push(Action::WriteSnapshot(snapshot));
    }
    plan.again(SignedDuration::try_from(POLL).unwrap_or_default());
}

/// Takes the pod out of rotation, where that is asked for, and writes down since when.
fn leave_rotation(request: &ContainerRecreateRequest, pod: &PodLite, now: Timestamp, plan: &mut Plan) {
    let known = request.status.as_ref().map(|it| it.conditions.as_slice()).unwrap_or_default();
    let wants_grace =
        request.spec.strategy.as_ref().is_some_and(|it| it.unready_grace_period_seconds.is_some());
    let is_in_grace = |it: &Condition| it.type_ == conditions::PRE_RECREATE_GRACE && it.status == "True";
    if !wants_grace || known.iter().any(is_in_grace) {
        return;
    }
    if readiness::has_gate(pod, crate::api::common::keys::CONDITION_KRUISE_POD_READY) {
        // The finalizer first: if we stop right after the pod was marked, the mark is still taken back.
        let mut finalizers = request.metadata.finalizers.clone().unwrap_or_default();
        if !finalizers.iter().any(|it| it == keys::UNREADY_ACQUIRED) {
            finalizers.push(keys::UNREADY_ACQUIRED.to_owned());
            plan.actions.push(Action::SetFinalizers(finalizers));
        }
        plan.actions.extend(readiness::add_key(pod, &key(request), now).map(Action::PatchPod));
    }
    let mut all: Vec<Condition> =
        known.iter().filter(|it| it.type_ != conditions::PRE_RECREATE_GRACE).cloned().collect();
    all.push(Condition {
        type_: conditions::PRE_RECREATE_GRACE.into(),
        status: "True".into(),
        reason: conditions::PRE_RECREATE_GRACE.into(),
        message: conditions::PRE_RECREATE_GRACE_MESSAGE.into(),
        last_transition_time: whole_seconds(now),
        observed_generation: None,
    });
    plan.actions.push(Action::WriteConditions(all));
}

/// The containers that a request which ends now leaves undone: people are told about each, unless they were stopped for
/// their pod to end.
pub fn unfinished<'a>(request: &'a ContainerRecreateRequest, message: &str) -> Vec<&'a str> {
    let mut owners = request.metadata.owner_references.iter().flatten();
    let is_for_the_pod = owners.any(|it| it.kind == "Pod" && it.controller == Some(true));
    if message == messages::POD_ENDED && is_for_the_pod {
        return Vec::new();
    }
    let states =
        request.status.as_ref().map(|it| it.container_recreate_states.as_slice()).unwrap_or_default();
    let is_over = |name: &str| {
        let state = states.iter().find(|it| it.name == name);
        state.is_some_and(|it| matches!(it.phase, RecreatePhase::Succeeded | RecreatePhase::Failed))
    };
    request.spec.containers.iter().map(|it| it.name.as_str()).filter(|it| !is_over(it)).collect()
}

/// The requested containers that were started since the request was made, as the API server shows them.
fn snapshot(
    request: &ContainerRecreateRequest,
    pod: &PodLite,
    created: Timestamp,
) -> Vec<ContainerStatusSnapshot> {
    let wanted = request.spec.containers.iter();
    wanted
        .filter_map(|wanted| {
            let mut statuses =
                pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
            let status = statuses.find(|it| it.name == wanted.name)?;
            let started = status.state.running.as_ref()?.started_at.as_ref()?.0;
            (started >= created).then(|| ContainerStatusSnapshot {
                name: status.name.to_string(),
                ready: status.ready,
                restart_count: status.restart_count,
                container_id: status.container_id.clone().unwrap_or_default(),
            })
        })
        .collect()
}

/// Whether the pod has ended, and none of the requested containers runs on for its grace period.
fn has_ended(request: &ContainerRecreateRequest, pod: &PodLite) -> bool {
    let is_stopped = |name: &str| {
        let mut statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
        statuses.any(|it| *it.name == *name && it.state.terminated.is_some())
    };
    matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"))
        && request.spec.containers.iter().all(|it| is_stopped(&it.name))
}

/// Whether this is the pod that the request was made for, and it is to stay.
fn is_meant(request: &ContainerRecreateRequest, pod: &PodLite) -> bool {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    !pod.is_terminating() && label(request, keys::POD_UID).is_none_or(|it| it == uid)
}

fn key(request: &ContainerRecreateRequest) -> Key {
    let namespace = request.metadata.namespace.as_deref().unwrap_or_default();
    let name = request.metadata.name.as_deref().unwrap_or_default();
    Key::new(USER_AGENT, format!("{namespace}/{name}"))
}

fn label<'a>(request: &'a ContainerRecreateRequest, key: &str) -> Option<&'a str> {
    request.metadata.labels.as_ref()?.get(key).map(String::as_str)
}
