//! The status a pod should have, from its spec and the status it has.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodCondition};
use serde_json::{Value, json};

/// The status to write now; none if the pod's status says it all already.
pub(super) fn due(pod: &Pod, now: Timestamp) -> Option<Value> {
    let spec = pod.spec.as_ref()?;
    let status = pod.status.as_ref();
    let uid = pod.metadata.uid.as_deref()?;
    let now = now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let had = |list: Option<&Vec<ContainerStatus>>, name: &str| {
        list.and_then(|it| it.iter().find(|it| it.name == name)).cloned()
    };
    let have = status.and_then(|it| it.container_statuses.as_ref());
    let have_init = status.and_then(|it| it.init_container_statuses.as_ref());

    let containers: Vec<Value> =
        spec.containers.iter().map(|it| running(it, had(have, &it.name), uid, &now)).collect();
    let init: Vec<Value> = spec
        .init_containers
        .iter()
        .flatten()
        .map(|it| {
            let before = had(have_init, &it.name);
            // An init container that restarts always is a sidecar: it runs beside the others.
            if it.restart_policy.is_some() {
                running(it, before, uid, &now)
            } else {
                done(it, before, uid, &now)
            }
        })
        .collect();

    let conditions: &[PodCondition] = status.and_then(|it| it.conditions.as_deref()).unwrap_or_default();
    let gates_open = spec
        .readiness_gates
        .iter()
        .flatten()
        .all(|gate| conditions.iter().any(|it| it.type_ == gate.condition_type && it.status == "True"));
    let condition = |kind: &str, value: bool| {
        let wanted = if value { "True" } else { "False" };
        let unchanged = conditions.iter().find(|it| it.type_ == kind && it.status == wanted);
        let since =
            unchanged.and_then(|it| it.last_transition_time.as_ref()).map_or(json!(now), |it| json!(it));
        json!({"type": kind, "status": wanted, "lastTransitionTime": since})
    };
    let mut wanted = json!({
        "phase": "Running",
        "podIP": address(uid),
        "podIPs": [{"ip": address(uid)}],
        "startTime": status.and_then(|it| it.start_time.as_ref()).map_or(json!(now), |it| json!(it)),
        "conditions": [
            condition("Initialized", true),
            condition("ContainersReady", true),
            condition("Ready", gates_open),
        ],
        "containerStatuses": containers,
    });
    if !init.is_empty() {
        wanted["initContainerStatuses"] = json!(init);
    }
    if let Some(generation) = pod.metadata.generation {
        wanted["observedGeneration"] = json!(generation);
    }
    (!says(&json!(status), &wanted)).then_some(wanted)
}

fn running(container: &Container, before: Option<ContainerStatus>, uid: &str, now: &str) -> Value {
    let image = container.image.as_deref().unwrap_or_default();
    let identity = image_id(image);
    let same = before
        .as_ref()
        .filter(|it| it.image_id == identity && it.state.as_ref().is_some_and(|it| it.running.is_some()));
    let restarts = match (&before, same) {
        (None, _) => 0,
        (Some(it), Some(_)) => it.restart_count,
        (Some(it), None) => it.restart_count + 1,
    };
    let since =
        same.and_then(|it| it.state.as_ref()?.running.as_ref()?.started_at.as_ref().map(|it| json!(it)));
    let mut status = json!({
        "name": container.name,
        "image": image,
        "imageID": identity,
        "containerID": format!("fake://{:016x}", hash(&[uid, &container.name, &restarts.to_string()])),
        "ready": true,
        "started": true,
        "restartCount": restarts,
        "state": {"running": {"startedAt": since.unwrap_or_else(|| json!(now))}},
    });
    if let Some(resources) = &container.resources {
        status["resources"] = json!(resources);
        if let Some(requests) = &resources.requests {
            status["allocatedResources"] = json!(requests);
        }
    }
    status
}

fn done(container: &Container, before: Option<ContainerStatus>, uid: &str, now: &str) -> Value {
    if let Some(before) = before.filter(|it| it.state.as_ref().is_some_and(|it| it.terminated.is_some())) {
        return json!(before);
    }
    let image = container.image.as_deref().unwrap_or_default();
    let id = format!("fake://{:016x}", hash(&[uid, &container.name, "0"]));
    json!({
        "name": container.name, "image": image, "imageID": image_id(image), "containerID": id,
        "ready": true, "started": false, "restartCount": 0,
        "state": {"terminated": {
            "exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now, "containerID": id,
        }},
    })
}

/// Whether `status` already says everything `wanted` says.
fn says(status: &Value, wanted: &Value) -> bool {
    match (status, wanted) {
        (Value::Object(has), Value::Object(wants)) => {
            wants.iter().all(|(key, value)| has.get(key).is_some_and(|it| says(it, value)))
        }
        (Value::Array(has), Value::Array(wants)) => {
            // Conditions of others stand between ours.
            wants.iter().all(|wanted| has.iter().any(|it| says(it, wanted)))
        }
        (has, wants) => has == wants,
    }
}

fn image_id(image: &str) -> String {
    format!("fake://sha256:{:016x}{:016x}", hash(&[image]), hash(&[image, "more"]))
}

/// An address of the range reserved for benchmarks; nobody listens there.
fn address(uid: &str) -> String {
    let [.., a, b] = hash(&[uid]).to_be_bytes();
    format!("198.18.{a}.{b}")
}

/// FNV-1a: the same on every run, and enough to tell fake things apart.
fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|it| it.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |sum, it| (sum ^ u64::from(it)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: Value, status: Value) -> Pod {
        let pod =
            json!({"metadata": {"name": "a", "uid": "u-1", "generation": 1}, "spec": spec, "status": status});
        serde_json::from_value(pod).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn spec(image: &str) -> Value {
        json!({"containers": [{"name": "main", "image": image}, {"name": "side", "image": "side:1"}]})
    }

    #[test]
    fn a_new_pod_runs_and_is_then_left_alone() {
        let status = due(&pod(spec("a:1"), json!({})), at(10)).unwrap();
        assert_eq!(status["phase"], "Running");
        assert_eq!(
            status["conditions"][2],
            json!({"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:10Z"})
        );
        assert_eq!(due(&pod(spec("a:1"), status), at(99)), None);
    }

    #[test]
    fn a_changed_image_restarts_its_container_and_no_other() {
        let before = due(&pod(spec("a:1"), json!({})), at(10)).unwrap();
        let after = due(&pod(spec("a:2"), before.clone()), at(20)).unwrap();
        let (old, new) = (&before["containerStatuses"], &after["containerStatuses"]);
        assert_eq!(new[0]["restartCount"], 1);
        assert_ne!(new[0]["imageID"], old[0]["imageID"]);
        assert_ne!(new[0]["containerID"], old[0]["containerID"]);
        assert_eq!(new[0]["state"]["running"]["startedAt"], "1970-01-01T00:00:20Z");
        assert_eq!(new[1], old[1]);
        assert_eq!(due(&pod(spec("a:2"), after), at(99)), None);
    }

    #[test]
    fn a_closed_readiness_gate_holds_the_pod_back_and_keeps_the_conditions_of_others() {
        let mut gated = spec("a:1");
        gated["readinessGates"] = json!([{"conditionType": "InPlaceUpdateReady"}]);
        let status = due(&pod(gated.clone(), json!({})), at(10)).unwrap();
        assert_eq!(status["conditions"][2]["status"], "False");
        let mut opened = status;
        opened["conditions"]
            .as_array_mut()
            .unwrap()
            .push(json!({"type": "InPlaceUpdateReady", "status": "True"}));
        let status = due(&pod(gated, opened), at(20)).unwrap();
        assert_eq!(
            status["conditions"][2],
            json!({"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:20Z"})
        );
    }

    #[test]
    fn a_resize_shows_in_the_status_without_a_restart() {
        let before = due(&pod(spec("a:1"), json!({})), at(10)).unwrap();
        let mut resized = spec("a:1");
        resized["containers"][0]["resources"] = json!({"requests": {"cpu": "2"}});
        let after = due(&pod(resized, before), at(20)).unwrap();
        assert_eq!(after["containerStatuses"][0]["resources"], json!({"requests": {"cpu": "2"}}));
        assert_eq!(after["containerStatuses"][0]["restartCount"], 0);
    }
}
