//! Which sidecars of a pod are to be stopped now, and how (spec/images-and-recreate.md 4.4).

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    admission::container_recreate_request::SIDECAR_TERMINATED,
    pod::patch::{Part, Pin, PodPatch},
    runtime::{
        cache::pod::{ContainerLite, ContainerStateLite, PodLite, TerminatedLite},
        clock::whole_seconds,
        key::uid,
    },
};

/// Environment variables by which a container says that it is a sidecar, and how it may be stopped.
pub mod env {
    /// `true`: stop this container once the others have ended.
    pub const STOP: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT";
    /// The same on nodes without a daemon: give it this image, whose program ends at once.
    pub const STOP_BY_IMAGE: &str = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE";
    /// `true`: the job's result is that of the others, whatever this container ends with.
    pub const IGNORE_EXIT_CODE: &str = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE";
}

/// Message of the condition on pods that were ended before their sidecars.
const ENDED_EARLY: &str = "Terminated by Sidecar Terminator";

/// One write. They are carried out in order, and none after one that failed.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Give sidecars the images they asked to be ended with.
    Replace {
        /// The sidecars.
        containers: Vec<String>,
        /// The change of the pod.
        patch: PodPatch,
    },
    /// Say how the job ended, before the sidecars have.
    End(PodPatch),
    /// Ask the node to stop sidecars.
    Stop {
        /// The sidecars.
        containers: Vec<String>,
        /// The name of the ContainerRecreateRequest.
        name: String,
    },
}

/// Whether the pod's own work is done and a sidecar keeps it from ending.
pub fn is_due(pod: &PodLite) -> bool {
    if pod.is_terminating() || pod.status.phase.as_deref().is_none_or(|it| it == "Pending") {
        return false;
    }
    // What still runs in a pod that has ended without us is the kubelet's to stop.
    if matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"))
        && pod.condition(SIDECAR_TERMINATED).is_none()
    {
        return false;
    }
    // As long as a container has no status, nothing is known about how it stands.
    if pod.spec.containers.len() != pod.status.container_statuses.len() {
        return false;
    }
    let (sidecars, work): (Vec<_>, Vec<_>) = pod.spec.containers.iter().partition(|it| is_sidecar(it));
    let is_done = |it: &&ContainerLite| match pod.spec.restart_policy.as_deref() {
        Some("Never") => ended(pod, it).is_some(),
        Some("OnFailure") => ended(pod, it).is_some_and(|it| it.exit_code == 0),
        _ => false,
    };
    sidecars.iter().any(|it| ended(pod, it).is_none()) && work.iter().all(is_done)
}

/// Decides. `has_request` says whether there is a ContainerRecreateRequest of a name in the pod's namespace.
pub fn plan(
    pod: &PodLite,
    is_on_virtual_node: bool,
    has_request: impl Fn(&str) -> bool,
    now: Timestamp,
) -> Vec<Action> {
    if !is_due(pod) {
        return Vec::new();
    }
    if is_on_virtual_node {
        return replace(pod).into_iter().collect();
    }
    let (ignored, plain): (Vec<_>, Vec<_>) =
        pod.spec.containers.iter().filter(|it| says_yes(it, env::STOP)).partition(|it| is_ignored(it));
    let mut actions = Vec::new();
    let name = format!("sidecar-termination-{}", uid(pod));
    actions.extend(stop(pod, &plain, &name).filter(|_| !has_request(&name)));
    let mut others = pod.spec.containers.iter().filter(|it| is_sidecar(it) && !ignored.contains(it));
    if ignored.is_empty() || others.any(|it| ended(pod, it).is_none()) {
        return actions;
    }
    // A name of its own where there are both: the request for the others is there already and names other containers.
    let name = if plain.is_empty() { name } else { format!("{name}-ignored") };
    if !matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        actions.push(Action::End(end(pod, now)));
    }
    actions.extend(stop(pod, &ignored, &name).filter(|_| !has_request(&name)));
    actions
}

/// On a virtual node nobody stops single containers; another image does.
fn replace(pod: &PodLite) -> Option<Action> {
    let wanted: Vec<(&ContainerLite, &str)> = pod
        .spec
        .containers
        .iter()
        .filter(|it| ended(pod, it).is_none())
        .filter_map(|it| Some((it, variable(it, env::STOP_BY_IMAGE).filter(|it| !it.is_empty())?)))
        .filter(|(container, image)| container.image.as_deref() != Some(image))
        .collect();
    let images: Vec<Value> =
        wanted.iter().map(|(it, image)| json!({"name": it.name, "image": image})).collect();
    (!wanted.is_empty()).then(|| Action::Replace {
        containers: wanted.iter().map(|(it, _)| it.name.clone()).collect(),
        patch: PodPatch {
            part: Part::Main,
            pin: Pin::Version,
            body: json!({"spec": {"containers": images}}),
        },
    })
}

/// Asks once all that are left run. One that waits to be started again would be taken for one that was stopped; its start
/// is a change of the pod.
fn stop(pod: &PodLite, sidecars: &[&ContainerLite], name: &str) -> Option<Action> {
    let left: Vec<_> = sidecars.iter().filter(|it| ended(pod, it).is_none()).collect();
    let all_run = left.iter().all(|it| state(pod, it).is_some_and(|it| it.running.is_some()));
    let containers: Vec<String> = left.iter().map(|it| it.name.clone()).collect();
    (!left.is_empty() && all_run).then(|| Action::Stop { containers, name: name.to_owned() })
}

/// A kubelet never takes a pod out of these phases again, so what the sidecars end with does not matter any more.
fn end(pod: &PodLite, now: Timestamp) -> PodPatch {
    let mut work = pod.spec.containers.iter().filter(|it| !is_sidecar(it));
    let went_well = work.all(|it| ended(pod, it).is_some_and(|it| it.exit_code == 0));
    let condition = json!({
        "type": SIDECAR_TERMINATED, "status": "True", "message": ENDED_EARLY, "lastTransitionTime": whole_seconds(now),
    });
    let phase = if went_well { "Succeeded" } else { "Failed" };
    let body = json!({"status": {"phase": phase, "conditions": [condition]}});
    PodPatch { part: Part::Status, pin: Pin::Version, body }
}

fn ended<'a>(pod: &'a PodLite, container: &ContainerLite) -> Option<&'a TerminatedLite> {
    state(pod, container)?.terminated.as_ref()
}

fn state<'a>(pod: &'a PodLite, container: &ContainerLite) -> Option<&'a ContainerStateLite> {
    let mut statuses = pod.status.container_statuses.iter();
    statuses.find(|it| *it.name == *container.name).map(|it| &it.state)
}

fn is_sidecar(container: &ContainerLite) -> bool {
    says_yes(container, env::STOP) || variable(container, env::STOP_BY_IMAGE).is_some_and(|it| !it.is_empty())
}

fn is_ignored(container: &ContainerLite) -> bool {
    says_yes(container, env::IGNORE_EXIT_CODE)
}

fn says_yes(container: &ContainerLite, name: &str) -> bool {
    variable(container, name).is_some_and(|it| it.eq_ignore_ascii_case("true"))
}

fn variable<'a>(container: &'a ContainerLite, name: &str) -> Option<&'a str> {
    container.env.iter().find(|it| it["name"] == name)?["value"].as_str()
}
