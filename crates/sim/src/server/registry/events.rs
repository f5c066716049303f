//! Events have two faces, `v1` and `events.k8s.io/v1`, and are kept once, as `v1`.

use serde_json::Value;

use super::Resource;

/// The newer face.
const GROUP: &str = "events.k8s.io";

/// What a member is called in `v1` and in the newer face.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Whether a kind is the face under which events are not kept.
pub(super) fn is_other_face(resource: &Resource) -> bool {
    resource.group == GROUP && resource.plural == "events"
}

/// Turns an event to the face that `api_version` names.
pub fn turn(event: &mut Value, api_version: &str) {
    let newer = api_version.starts_with(GROUP);
    if let Some(members) = event.as_object_mut() {
        for (old, new) in NAMES {
            let (from, to) = if newer { (old, new) } else { (new, old) };
            if let Some(value) = members.remove(from) {
                members.insert(to.to_owned(), value);
            }
        }
    }
    event["apiVersion"] = api_version.into();
}

/// The path under which a field of the newer face is kept.
pub fn kept_path(path: &str) -> String {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let kept = NAMES.iter().find(|(_, new)| *new == first).map_or(first, |(old, _)| old);
    if rest.is_empty() { kept.to_owned() } else { format!("{kept}.{rest}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_turned_twice_is_the_same() {
        let event = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "reason": "Started", "message": "up",
            "involvedObject": {"kind": "Pod", "name": "p"}, "count": 3, "source": {"component": "kubelet"},
            "reportingComponent": "kubelet", "reportingInstance": "node-1",
        });
        let mut turned = event.clone();
        turn(&mut turned, "events.k8s.io/v1");
        let expected = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"}, "reason": "Started",
            "note": "up", "regarding": {"kind": "Pod", "name": "p"}, "deprecatedCount": 3,
            "deprecatedSource": {"component": "kubelet"}, "reportingController": "kubelet",
            "reportingInstance": "node-1",
        });
        assert_eq!(turned, expected);
        turn(&mut turned, "v1");
        assert_eq!(turned, event);
        assert_eq!(kept_path("regarding.name"), "involvedObject.name");
        assert_eq!(kept_path("reason"), "reason");
    }
}
