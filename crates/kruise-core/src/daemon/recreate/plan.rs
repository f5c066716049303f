//! What to do next about the recreate requests of one pod.
//!
//! Requests of one pod are worked on one after the other: [`choose`] picks one. [`before_looking`] says whether it may
//! go on, [`states`] where each container stands, and [`pass`] what to do about that.

use std::{collections::BTreeSet, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::{
    api::container_recreate_request::{
        FailurePolicy, RecreateStrategy, conditions,
        v1beta1::{ContainerRecreateRequest, ContainerRecreateState, RecreatePhase},
    },
    daemon::cri::{Container, ContainerState, newest, split_id},
};

/// A transition time has whole seconds; a little more is waited so that the grace period has really passed.
const MARGIN: Duration = Duration::from_millis(100);

/// Which request is worked on, and which others are told to wait.
#[derive(Debug, PartialEq, Eq)]
pub struct Choice {
    /// The place of the request that is worked on.
    pub picked: usize,
    /// The places of those that have not heard yet that they wait.
    pub wait: Vec<usize>,
}

/// Whether there may still be work to do for a request.
pub fn is_open(request: &ContainerRecreateRequest) -> bool {
    request.metadata.deletion_timestamp.is_none()
        && request.status.as_ref().is_none_or(|it| it.completion_time.is_none())
}

/// Picks one of the requests of a pod: one that has begun, else the oldest.
pub fn choose(requests: &[&ContainerRecreateRequest]) -> Option<Choice> {
    let mut open: Vec<usize> = (0..requests.len()).filter(|it| is_open(requests[*it])).collect();
    open.sort_by_key(|it| {
        let request = requests[*it];
        let weight = match phase(request) {
            Some(RecreatePhase::Completed) => 1,
            Some(RecreatePhase::Recreating) => 2,
            Some(RecreatePhase::Pending) => 3,
            _ => 4,
        };
        (weight, request.metadata.creation_timestamp.as_ref().map(|it| it.0), &request.metadata.name)
    });
    let (picked, others) = open.split_first()?;
    let wait = others.iter().copied().filter(|it| phase(requests[*it]).is_none()).collect();
    Some(Choice { picked: *picked, wait })
}

/// What to do before the runtime is asked.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Write down that the work begins.
    Begin,
    /// Traffic is draining: look again after this long, or when the controller has said since when.
    Drain(Option<Duration>),
    /// End the request with this message.
    Complete(String),
    /// Ask the runtime of this name.
    Look(String),
}

/// Says how the chosen request goes on.
pub fn before_looking(request: &ContainerRecreateRequest, runtimes: &[&str], now: Timestamp) -> Step {
    if phase(request) != Some(RecreatePhase::Recreating) {
        return Step::Begin;
    }
    if let Some(grace) = strategy(request).unready_grace_period_seconds {
        let Some(since) = drained_since(request) else { return Step::Drain(None) };
        let left = SignedDuration::from_secs(grace) - now.duration_since(since.0);
        if left > SignedDuration::ZERO {
            let left = Duration::try_from(left).unwrap_or_default();
            return Step::Drain(Some(left + MARGIN));
        }
    }
    match runtime_of(request, runtimes) {
        Ok(name) => Step::Look(name),
        Err(why) => Step::Complete(format!("failed to find runtime service: {why}")),
    }
}

/// Since when the pod is out of rotation, where the controller has said so.
fn drained_since(request: &ContainerRecreateRequest) -> Option<&Time> {
    let conditions = &request.status.as_ref()?.conditions;
    let condition = conditions.iter().find(|it| it.type_ == conditions::PRE_RECREATE_GRACE)?;
    (condition.status == "True").then_some(&condition.last_transition_time)
}

/// The one runtime that all containers of the request belong to.
fn runtime_of(request: &ContainerRecreateRequest, runtimes: &[&str]) -> Result<String, String> {
    let mut found: Option<&str> = None;
    for container in &request.spec.containers {
        let id = container.status_context.as_ref().map(|it| it.container_id.as_str()).unwrap_or_default();
        let Some((name, _)) = split_id(id) else {
            return Err(format!("container {} has no usable containerID {id:?}", container.name));
        };
        match found {
            Some(other) if other != name => {
                return Err(format!("the containers belong to {other} and {name}"));
            }
            _ => found = Some(name),
        }
    }
    match found {
        Some(name) if runtimes.contains(&name) => Ok(name.to_owned()),
        Some(name) => Err(format!("there is no runtime {name} on this node")),
        None => Err("no container is named".into()),
    }
}

/// Where each container stands, in the order of the request.
///
/// A container is recreated when the runtime shows another one than the request was made for, the API server shows that
/// very one as ready, and it has been up for longer than asked. `stopped` names the containers that were stopped for the
/// request; its status may not say so yet.
pub fn states(
    request: &ContainerRecreateRequest,
    containers: &[Container],
    stopped: &BTreeSet<String>,
    runtime: &str,
    now: Timestamp,
) -> Vec<ContainerRecreateState> {
    let status = request.status.as_ref();
    let strategy = strategy(request);
    let wanted = request.spec.containers.iter();
    wanted
        .map(|wanted| {
            let before = status
                .and_then(|it| it.container_recreate_states.iter().find(|it| it.name == wanted.name))
                .cloned()
                .unwrap_or_else(|| ContainerRecreateState {
                    name: wanted.name.clone(),
                    ..Default::default()
                });
            if matches!(before.phase, RecreatePhase::Failed | RecreatePhase::Succeeded) {
                return before;
            }
            let is_killed = before.is_killed || stopped.contains(&wanted.name);
            let state = |phase, message: &str| ContainerRecreateState {
                name: wanted.name.clone(),
                phase,
                message: message.to_owned(),
                is_killed,
            };
            let Some(running) = newest(containers, &wanted.name) else {
                return state(RecreatePhase::Pending, "not found container on Node");
            };
            if running.state == ContainerState::Exited {
                return state(RecreatePhase::Recreating, "");
            }
            if strategy.force_recreate && !is_killed {
                return state(RecreatePhase::Pending, "");
            }
            let id = format!("{runtime}://{}", running.id);
            let context = wanted.status_context.clone().unwrap_or_default();
            if id == context.container_id && running.restart_count <= context.restart_count {
                return state(RecreatePhase::Pending, "");
            }
            let snapshot =
                status.and_then(|it| it.container_status_snapshot.iter().find(|it| it.name == wanted.name));
            let is_ready = snapshot.is_some_and(|it| it.container_id == id && it.ready);
            let least = SignedDuration::from_secs(i64::from(strategy.min_started_seconds));
            let is_up = running.started_at.is_some_and(|it| now.duration_since(it) > least);
            match is_ready && is_up {
                true => state(RecreatePhase::Succeeded, ""),
                false => state(RecreatePhase::Recreating, ""),
            }
        })
        .collect()
}

/// What one pass over the containers comes to.
#[derive(Debug, PartialEq, Eq)]
pub enum Act {
    /// Stop the container of the request at this place.
    Kill(usize),
    /// Write the states down and wait for the next event.
    Write,
    /// Everything is over, well or not.
    Complete,
    /// Nothing but waiting: look again after this long, or when something happens.
    Wait(Option<Duration>),
}

/// Goes over the containers in order, and says what they look like after it and what comes next.
pub fn pass(
    request: &ContainerRecreateRequest,
    mut states: Vec<ContainerRecreateState>,
    containers: &[Container],
) -> (Vec<ContainerRecreateState>, Act) {
    let strategy = strategy(request);
    let mut over = 0;
    for place in 0..states.len() {
        let state = &mut states[place];
        match state.phase {
            RecreatePhase::Succeeded => over += 1,
            RecreatePhase::Failed => {
                over += 1;
                if !goes_on(&strategy) {
                    return (states, Act::Complete);
                }
            }
            RecreatePhase::Recreating => {
                state.is_killed = true;
                if strategy.ordered_recreate {
                    break;
                }
            }
            RecreatePhase::Pending | RecreatePhase::Completed => match newest(containers, &state.name) {
                Some(_) => return (states, Act::Kill(place)),
                None => break,
            },
        }
    }
    let known = request.status.as_ref().map(|it| it.container_recreate_states.as_slice()).unwrap_or_default();
    if states != known {
        return (states, Act::Write);
    }
    if over == states.len() {
        return (states, Act::Complete);
    }
    let least = u64::try_from(strategy.min_started_seconds).unwrap_or(0);
    let again = (least > 0).then(|| Duration::from_secs(least));
    (states, Act::Wait(again))
}

/// What the states are after a container was stopped, and whether the pass goes on.
pub fn killed(
    request: &ContainerRecreateRequest,
    mut states: Vec<ContainerRecreateState>,
    place: usize,
    result: Result<(), String>,
) -> (Vec<ContainerRecreateState>, bool) {
    let state = &mut states[place];
    match result {
        Ok(()) => {
            state.phase = RecreatePhase::Recreating;
            state.is_killed = true;
            (states, false)
        }
        Err(error) => {
            state.phase = RecreatePhase::Failed;
            state.message = format!("kill container error: {error}");
            (states, goes_on(&strategy(request)))
        }
    }
}

fn goes_on(strategy: &RecreateStrategy) -> bool {
    strategy.failure_policy == Some(FailurePolicy::Ignore)
}

fn strategy(request: &ContainerRecreateRequest) -> RecreateStrategy {
    request.spec.strategy.clone().unwrap_or_default()
}

fn phase(request: &ContainerRecreateRequest) -> Option<RecreatePhase> {
    request.status.as_ref().and_then(|it| it.phase)
}
