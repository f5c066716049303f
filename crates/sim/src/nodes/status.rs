//! A pod's status, as its kubelet writes it.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Behaviour,
    containers::{ContainerRun, Ended, State},
    kubelet::PodRun,
};

/// The whole status of a pod. Conditions that others own are kept.
pub(super) fn of(pod: &Value, run: &PodRun, now: Duration, wall: &str, behaviour: &Behaviour) -> Value {
    let mut status = Some(pod["status"].clone()).filter(Value::is_object).unwrap_or_else(|| json!({}));
    let specs = |list: &str| pod["spec"][list].as_array().cloned().unwrap_or_default();
    let find = |runs: &'_ [ContainerRun], name: &Value| runs.iter().position(|it| *name == it.name.as_str());

    status["phase"] = json!(phase(pod, run));
    status["hostIP"] = json!(host_of(pod, run));
    status["startTime"] = json!(run.started);
    if run.containers.iter().any(|it| it.id.is_some()) || run.init.iter().any(|it| it.id.is_some()) {
        status["podIP"] = json!(run.address);
        status["podIPs"] = json!([{"ip": run.address}]);
    }
    let statuses = |list: &str, runs: &[ContainerRun]| -> Vec<Value> {
        let row = |spec: &Value| match find(runs, &spec["name"]) {
            Some(index) => container_status(spec, &runs[index], now, behaviour),
            None => not_yet(spec, list),
        };
        specs(list).iter().map(row).collect()
    };
    let init = statuses("initContainers", &run.init);
    if !init.is_empty() {
        status["initContainerStatuses"] = json!(init);
    }
    status["containerStatuses"] = json!(statuses("containers", &run.containers));
    status["conditions"] = conditions(pod, run, now, wall);
    status
}

fn host_of(pod: &Value, run: &PodRun) -> String {
    let known = pod["status"]["hostIP"].as_str().filter(|it| !it.is_empty());
    // A pod's address begins with its node's number, which its node's address ends with.
    let number: Vec<&str> = run.address.split('.').collect();
    known.map_or_else(|| format!("192.168.{}.{}", number[1], number[2]), str::to_owned)
}

/// Whether a pod has ended, by its containers or by the word of somebody else: no kubelet takes that back.
pub(super) fn end_of(pod: &Value) -> Option<&'static str> {
    ["Succeeded", "Failed"].into_iter().find(|it| pod["status"]["phase"] == *it)
}

fn phase(pod: &Value, run: &PodRun) -> &'static str {
    if let Some(phase) = end_of(pod) {
        return phase;
    }
    let wanted = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    let ended: Vec<&Ended> = run
        .containers
        .iter()
        .filter_map(|it| match &it.state {
            State::Done(ended) => Some(ended),
            _ => None,
        })
        .collect();
    if !run.containers.is_empty() && ended.len() == run.containers.len() && run.containers.len() == wanted {
        let failed = ended.iter().any(|it| it.code != 0);
        return if failed { "Failed" } else { "Succeeded" };
    }
    let init_failed = run.init.iter().any(|it| matches!(&it.state, State::Done(ended) if ended.code != 0));
    if init_failed {
        return "Failed";
    }
    let started = run.containers.len() == wanted && run.all_started();
    if started || pod["status"]["phase"] == "Running" { "Running" } else { "Pending" }
}

fn not_yet(spec: &Value, list: &str) -> Value {
    let reason = if list == "initContainers" { "PodInitializing" } else { "ContainerCreating" };
    json!({
        "name": spec["name"], "image": spec["image"], "imageID": "", "ready": false, "started": false,
        "restartCount": 0, "state": {"waiting": {"reason": reason}}, "lastState": {},
    })
}

fn container_status(spec: &Value, run: &ContainerRun, now: Duration, behaviour: &Behaviour) -> Value {
    let ready = run.is_ready(now);
    let mut status = json!({
        "name": run.name,
        "image": with_tag(&run.image),
        "imageID": if run.id.is_some() { image_id(&run.image, behaviour) } else { String::new() },
        "ready": ready,
        "started": matches!(run.state, State::Running { .. }),
        "restartCount": run.restarts,
        "state": state(run),
        "lastState": run.last.as_ref().map_or_else(|| json!({}), |it| json!({"terminated": terminated(it)})),
    });
    if let Some(id) = &run.id {
        status["containerID"] = json!(id);
    }
    let resources = &spec["resources"];
    if matches!(run.state, State::Running { .. }) && resources.as_object().is_some_and(|it| !it.is_empty()) {
        status["resources"] = resources.clone();
        if !resources["requests"].is_null() {
            status["allocatedResources"] = resources["requests"].clone();
        }
    }
    status
}

fn state(run: &ContainerRun) -> Value {
    let waiting = |reason: &str, message: &str| json!({"waiting": {"reason": reason, "message": message}});
    match &run.state {
        State::New | State::Pulling { .. } | State::Creating { .. } => {
            json!({"waiting": {"reason": "ContainerCreating"}})
        }
        State::Unpulled { .. } => {
            let message = format!("Container image {:?} is not present with pull policy of Never", run.image);
            waiting("ErrImageNeverPull", &message)
        }
        State::Refused { why, .. } => waiting("ErrImagePull", why),
        State::NoImage { .. } => {
            waiting("ImagePullBackOff", &format!("Back-off pulling image {:?}", run.image))
        }
        State::Running { wall, .. } | State::Replacing { wall, .. } => {
            json!({"running": {"startedAt": wall}})
        }
        State::Waiting { .. } => {
            waiting("CrashLoopBackOff", &format!("back-off restarting failed container={}", run.name))
        }
        State::Done(ended) => json!({"terminated": terminated(ended)}),
    }
}

fn terminated(ended: &Ended) -> Value {
    let Ended { code, started, finished, id, made: _ } = ended;
    let reason = if *code == 0 { "Completed" } else { "Error" };
    json!({"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": finished, "containerID": id})
}

fn conditions(pod: &Value, run: &PodRun, now: Duration, wall: &str) -> Value {
    let old = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let specs = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    let unready: Vec<&str> = pod["spec"]["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| it["name"].as_str())
        .filter(|name| !run.containers.iter().any(|it| it.name == *name && it.is_ready(now)))
        .collect();
    let initialized = run.init.iter().all(|it| matches!(it.state, State::Done(_)))
        && run.init.len() == pod["spec"]["initContainers"].as_array().map_or(0, Vec::len);
    let containers_ready = unready.is_empty() && specs > 0;
    let finished = matches!(phase(pod, run), "Succeeded" | "Failed");
    let not_ready = if finished {
        ("PodCompleted", String::new())
    } else {
        ("ContainersNotReady", format!("containers with unready status: [{}]", unready.join(" ")))
    };

    let mut result = old.clone();
    let mut put = |kind: &str, holds: bool, (reason, message): (&str, String)| {
        let status = if holds { "True" } else { "False" };
        let before = old.iter().find(|it| it["type"] == kind);
        let same = before.is_some_and(|it| it["status"] == status);
        let since =
            before.filter(|_| same).map_or_else(|| json!(wall), |it| it["lastTransitionTime"].clone());
        let mut condition =
            json!({"type": kind, "status": status, "lastProbeTime": null, "lastTransitionTime": since});
        if !holds {
            condition["reason"] = json!(reason);
            if !message.is_empty() {
                condition["message"] = json!(message);
            }
        }
        match result.iter_mut().find(|it| it["type"] == kind) {
            Some(place) => *place = condition,
            None => result.push(condition),
        }
    };
    let sandbox = run.containers.iter().chain(&run.init).any(|it| it.id.is_some()) && !finished;
    put("PodReadyToStartContainers", sandbox, ("", String::new()));
    put("Initialized", initialized, ("ContainersNotInitialized", String::new()));
    put("ContainersReady", containers_ready, not_ready.clone());
    match (containers_ready, closed_gates(pod, &old)) {
        (true, gates) if !gates.is_empty() => {
            put("Ready", false, ("ReadinessGatesNotReady", gates.join(", ")))
        }
        (ready, _) => put("Ready", ready, not_ready),
    }
    put("PodScheduled", true, ("", String::new()));
    json!(result)
}

/// What is to be said about readiness gates that are not open.
fn closed_gates(pod: &Value, conditions: &[Value]) -> Vec<String> {
    let gates = pod["spec"]["readinessGates"].as_array().into_iter().flatten();
    gates
        .filter_map(|it| it["conditionType"].as_str())
        .filter_map(|gate| match conditions.iter().find(|it| it["type"] == gate) {
            None => Some(format!("corresponding condition of pod readiness gate {gate:?} does not exist.")),
            Some(it) if it["status"] != "True" => Some(format!(
                "the status of pod readiness gate {gate:?} is not \"True\", but {}",
                it["status"].as_str().unwrap_or_default()
            )),
            Some(_) => None,
        })
        .collect()
}

fn with_tag(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    if last.contains(':') || image.contains('@') { image.to_owned() } else { format!("{image}:latest") }
}

/// The same for the same content, on every node of every cluster.
pub(super) fn image_id(image: &str, behaviour: &Behaviour) -> String {
    let content = behaviour.images.get(image).and_then(|it| it.same_as.as_deref()).unwrap_or(image);
    let content = with_tag(content);
    if image.contains('@') {
        return image.to_owned();
    }
    let seed = crate::seed::Seed::new(0).of(&content);
    let digest: String = (0..4).map(|it| format!("{:016x}", seed.at(it).bits())).collect();
    let name = content.rsplit_once(':').map_or(content.as_str(), |(name, _)| name);
    format!("{name}@sha256:{digest}")
}
