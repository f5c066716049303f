//! What the columns of pods say.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::human;

/// Ready containers of all.
pub(super) fn ready(pod: &Value, _: Timestamp) -> Value {
    let of = pod["spec"]["containers"].as_array().map_or(0, Vec::len);
    let ready = list(&pod["status"]["containerStatuses"]).filter(|it| it["ready"] == true).count();
    json!(format!("{ready}/{of}"))
}

/// The phase, or what explains it better: a waiting or ended container, or the deletion.
pub(super) fn status(pod: &Value, _: Timestamp) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let status = &pod["status"];
    let mut shown = text(&status["phase"]);
    let reason = text(&status["reason"]);
    let gated = list(&status["conditions"])
        .any(|it| it["type"] == "PodScheduled" && it["reason"] == "SchedulingGated");
    if gated {
        shown = "SchedulingGated".to_owned();
    }
    if !reason.is_empty() {
        shown.clone_from(&reason);
    }
    for container in list(&status["containerStatuses"]) {
        let state = &container["state"];
        let ended = &state["terminated"];
        let waits = text(&state["waiting"]["reason"]);
        if !waits.is_empty() {
            shown = waits;
        } else if !ended.is_null() {
            let reason = text(&ended["reason"]);
            shown = if reason.is_empty() { format!("ExitCode:{}", ended["exitCode"]) } else { reason };
        }
    }
    if pod["metadata"]["deletionTimestamp"].is_string() {
        shown = if reason == "NodeLost" { "Unknown".to_owned() } else { "Terminating".to_owned() };
    }
    json!(shown)
}

/// How often containers were started again, and when last.
pub(super) fn restarts(pod: &Value, now: Timestamp) -> Value {
    let containers = || list(&pod["status"]["containerStatuses"]);
    let count: i64 = containers().filter_map(|it| it["restartCount"].as_i64()).sum();
    let last = containers()
        .filter_map(|it| it["lastState"]["terminated"]["finishedAt"].as_str()?.parse::<Timestamp>().ok())
        .max();
    match last {
        Some(last) if count > 0 => json!(format!("{count} ({} ago)", human(now.duration_since(last)))),
        _ => json!(count.to_string()),
    }
}

/// Readiness gates that are open, of all.
pub(super) fn gates(pod: &Value, _: Timestamp) -> Value {
    let gates: Vec<&Value> = list(&pod["spec"]["readinessGates"]).collect();
    if gates.is_empty() {
        return json!("<none>");
    }
    let is_true = |gate: &Value| {
        list(&pod["status"]["conditions"]).any(|it| it["type"] == *gate && it["status"] == "True")
    };
    let open = gates.iter().filter(|it| is_true(&it["conditionType"])).count();
    json!(format!("{open}/{}", gates.len()))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_shows_what_explains_it_best() {
        let now: Timestamp = "2030-01-01T00:10:00Z".parse().unwrap();
        let mut pod = json!({
            "metadata": {},
            "spec": {"containers": [{"name": "a"}, {"name": "b"}], "readinessGates": [{"conditionType": "x"}]},
            "status": {"phase": "Running", "conditions": [{"type": "x", "status": "True"}], "containerStatuses": [
                {"ready": true, "restartCount": 2, "state": {"running": {}},
                 "lastState": {"terminated": {"finishedAt": "2030-01-01T00:09:00Z"}}},
                {"ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}},
            ]},
        });
        assert_eq!(ready(&pod, now), "1/2");
        assert_eq!(status(&pod, now), "ImagePullBackOff");
        assert_eq!(restarts(&pod, now), "2 (60s ago)");
        assert_eq!(gates(&pod, now), "1/1");
        pod["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:10:30Z");
        assert_eq!(status(&pod, now), "Terminating");
    }
}
