//! Conditions that keep a pod out of rotation.
//!
//! `KruisePodReady` has many writers. Each adds a [`Key`] while it wants the pod out of rotation, and takes it back
//! afterwards; the keys stand in the condition's message, and the condition is true while there are none. Whoever
//! changes the list has read it, so those patches are bound to the version that was read: of two writers at the same
//! time one is refused and looks again, and no key is ever lost.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    api::common::keys::CONDITION_KRUISE_POD_READY,
    pod::patch::{Part, Pin, PodPatch},
    runtime::cache::pod::PodLite,
};

const READY: &str = "Ready";
const CONTAINERS_READY: &str = "ContainersReady";

/// Who keeps a pod out of rotation, and why.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Key {
    /// Who: `Lifecycle`, `ContainerRecreateRequest`.
    pub user_agent: String,
    /// Why, unique for that writer.
    pub key: String,
}

impl Key {
    /// A key of this writer.
    pub fn new(user_agent: impl Into<String>, key: impl Into<String>) -> Self {
        Self { user_agent: user_agent.into(), key: key.into() }
    }
}

/// One entry of the condition's message. Entries of another form are somebody else's: they count, and they stay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Entry {
    Key(Key),
    Foreign(Value),
}

impl Entry {
    /// Entries are sorted by writer, then by key; what has neither comes first.
    fn order(&self) -> (&str, &str) {
        match self {
            Self::Key(key) => (&key.user_agent, &key.key),
            Self::Foreign(it) => {
                (it["userAgent"].as_str().unwrap_or_default(), it["key"].as_str().unwrap_or_default())
            }
        }
    }
}

/// Takes a pod out of rotation. `None` if it already is for this reason, or if it has no gate to do so.
pub fn add_key(pod: &PodLite, key: &Key, now: Timestamp) -> Option<PodPatch> {
    if !has_gate(pod, CONDITION_KRUISE_POD_READY) {
        return None;
    }
    let condition = pod.condition(CONDITION_KRUISE_POD_READY);
    let mut list = entries_of(pod);
    if list.iter().any(|it| matches!(it, Entry::Key(it) if it == key)) {
        if condition.is_some_and(|it| it.status != "True") {
            return None;
        }
    } else {
        list.push(Entry::Key(key.clone()));
    }
    Some(turn_false(pod, CONDITION_KRUISE_POD_READY, json!({"message": text(&mut list)}), now))
}

/// Takes one reason back; the pod returns to rotation with the last one. `None` if the reason is not there.
pub fn remove_key(pod: &PodLite, key: &Key, now: Timestamp) -> Option<PodPatch> {
    remove_keys(pod, std::slice::from_ref(key), now)
}

/// Takes several reasons back at once. `None` if none of them is there.
pub fn remove_keys(pod: &PodLite, keys: &[Key], now: Timestamp) -> Option<PodPatch> {
    if !has_gate(pod, CONDITION_KRUISE_POD_READY) {
        return None;
    }
    let before = entries_of(pod);
    let is_taken_back = |it: &Entry| matches!(it, Entry::Key(it) if keys.contains(it));
    let mut after: Vec<Entry> = before.iter().filter(|it| !is_taken_back(it)).cloned().collect();
    if after.len() == before.len() {
        return None;
    }
    // Ready is kubelet's to turn back to true.
    let status = if after.is_empty() { "True" } else { "False" };
    Some(patch(vec![json!({
        "type": CONDITION_KRUISE_POD_READY,
        "status": status,
        "message": text(&mut after),
        "lastTransitionTime": rfc3339(now),
    })]))
}

/// The first word on a new pod: nothing keeps it out of rotation. `None` if somebody has spoken already, if nobody asks
/// (no gate), and for pods that are being deleted.
pub fn initial(pod: &PodLite, now: Timestamp) -> Option<PodPatch> {
    awaits_first_word(pod).then(|| {
        patch(vec![json!({
            "type": CONDITION_KRUISE_POD_READY,
            "status": "True",
            "lastTransitionTime": rfc3339(now),
        })])
    })
}

/// Whether our gate is closed only because nobody has said anything yet.
pub fn awaits_first_word(pod: &PodLite) -> bool {
    has_gate(pod, CONDITION_KRUISE_POD_READY)
        && pod.condition(CONDITION_KRUISE_POD_READY).is_none()
        && !pod.is_terminating()
}

/// Why a pod is kept out of rotation. A message that is no list counts as empty.
fn entries_of(pod: &PodLite) -> Vec<Entry> {
    pod.condition(CONDITION_KRUISE_POD_READY)
        .and_then(|it| it.message.as_deref())
        .and_then(|it| serde_json::from_str(it).ok())
        .unwrap_or_default()
}

/// Whether nobody keeps the pod out of rotation by our gate.
pub fn is_in_rotation(pod: &PodLite) -> bool {
    pod.condition(CONDITION_KRUISE_POD_READY).is_none_or(|it| it.status == "True")
}

/// Whether a pod is ready only if this condition is true.
pub fn has_gate(pod: &PodLite, condition: &str) -> bool {
    pod.spec.readiness_gates.iter().any(|it| it.condition_type == condition)
}

/// Turns one gate false, and Ready with it: kubelet would do the same, but only some time later.
pub(crate) fn turn_false(pod: &PodLite, kind: &str, details: Value, now: Timestamp) -> PodPatch {
    let mut condition = details;
    condition["type"] = json!(kind);
    condition["status"] = json!("False");
    condition["lastTransitionTime"] = json!(rfc3339(now));
    let mut conditions = vec![condition];
    conditions.extend(unready(pod, kind, now));
    patch(conditions)
}

/// Turns one gate true, with neither reason nor message.
pub(crate) fn turn_true(kind: &str, now: Timestamp) -> PodPatch {
    patch(vec![json!({
        "type": kind,
        "status": "True",
        "reason": null,
        "message": null,
        "lastTransitionTime": rfc3339(now),
    })])
}

/// A time as Kubernetes writes it: UTC, whole seconds.
pub(crate) fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Ready as it must be once the gate `turned` is false; `None` where that is kubelet's business or already so.
fn unready(pod: &PodLite, turned: &str, now: Timestamp) -> Option<Value> {
    let ready = pod.condition(READY)?;
    if ready.status == "False" || pod.condition(CONTAINERS_READY).is_none_or(|it| it.status != "True") {
        return None;
    }
    let mut reasons = Vec::new();
    for gate in &pod.spec.readiness_gates {
        let kind = gate.condition_type.as_str();
        let status = if kind == turned { Some("False") } else { pod.condition(kind).map(|it| &*it.status) };
        // The words are kubelet's, so that it finds nothing to correct.
        match status {
            Some("True") => {}
            Some(status) => {
                reasons
                    .push(format!("the status of pod readiness gate {kind:?} is not \"True\", but {status}"));
            }
            None => {
                reasons
                    .push(format!("corresponding condition of pod readiness gate {kind:?} does not exist."));
            }
        }
    }
    if reasons.is_empty() {
        return None;
    }
    Some(json!({
        "type": READY,
        "status": "False",
        "reason": "ReadinessGatesNotReady",
        "message": reasons.join(", "),
        "lastTransitionTime": rfc3339(now),
    }))
}

fn text(entries: &mut [Entry]) -> String {
    entries.sort_by(|a, b| a.order().cmp(&b.order()));
    serde_json::to_string(entries).expect("what was JSON, or is a pair of strings, is always JSON")
}

fn patch(conditions: Vec<Value>) -> PodPatch {
    PodPatch { part: Part::Status, pin: Pin::Version, body: json!({"status": {"conditions": conditions}}) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-03-01T10:00:00.5Z".parse().unwrap()
    }

    fn pod(conditions: Value) -> PodLite {
        serde_json::from_value(json!({
            "metadata": {"name": "a"},
            "spec": {"readinessGates": [{"conditionType": "KruisePodReady"}, {"conditionType": "other"}]},
            "status": {"conditions": conditions},
        }))
        .unwrap()
    }

    fn conditions(patch: &PodPatch) -> Value {
        assert_eq!((patch.part, patch.pin), (Part::Status, Pin::Version));
        patch.body["status"]["conditions"].clone()
    }

    #[test]
    fn the_first_key_turns_the_condition_and_ready_false() {
        let pod = pod(json!([
            {"type": "Ready", "status": "True"},
            {"type": "ContainersReady", "status": "True"},
            {"type": "KruisePodReady", "status": "True", "message": "[]"},
        ]));
        let patch = add_key(&pod, &Key::new("Lifecycle", "preDeleteHook"), now()).unwrap();
        assert_eq!(
            conditions(&patch),
            json!([
                {
                    "type": "KruisePodReady", "status": "False", "lastTransitionTime": "2026-03-01T10:00:00Z",
                    "message": r#"[{"userAgent":"Lifecycle","key":"preDeleteHook"}]"#,
                },
                {
                    "type": "Ready", "status": "False", "reason": "ReadinessGatesNotReady",
                    "lastTransitionTime": "2026-03-01T10:00:00Z",
                    "message": "the status of pod readiness gate \"KruisePodReady\" is not \"True\", but False, \
                                corresponding condition of pod readiness gate \"other\" does not exist.",
                },
            ])
        );
    }

    #[test]
    fn a_key_on_a_pod_without_the_condition_writes_false_and_not_an_empty_status() {
        let patch = add_key(&pod(json!([])), &Key::new("Lifecycle", "k"), now()).unwrap();
        assert_eq!(conditions(&patch)[0]["status"], "False");
        assert_eq!(conditions(&patch).as_array().unwrap().len(), 1);
    }

    #[test]
    fn keys_are_sorted_by_writer_then_key_and_added_once() {
        let pod = pod(json!([{
            "type": "KruisePodReady", "status": "False",
            "message": r#"[{"userAgent":"Lifecycle","key":"b"}]"#,
        }]));
        let message = |key: Key| {
            let patch = add_key(&pod, &key, now()).unwrap();
            conditions(&patch)[0]["message"].as_str().unwrap().to_owned()
        };
        assert_eq!(
            message(Key::new("Lifecycle", "a")),
            r#"[{"userAgent":"Lifecycle","key":"a"},{"userAgent":"Lifecycle","key":"b"}]"#
        );
        assert_eq!(
            message(Key::new("ContainerRecreateRequest", "ns/z")),
            r#"[{"userAgent":"ContainerRecreateRequest","key":"ns/z"},{"userAgent":"Lifecycle","key":"b"}]"#
        );
        assert_eq!(add_key(&pod, &Key::new("Lifecycle", "b"), now()), None);
    }

    #[test]
    fn a_key_that_stands_in_a_true_condition_is_written_again() {
        let pod = pod(json!([{
            "type": "KruisePodReady", "status": "True",
            "message": r#"[{"userAgent":"Lifecycle","key":"b"}]"#,
        }]));
        let patch = add_key(&pod, &Key::new("Lifecycle", "b"), now()).unwrap();
        assert_eq!(conditions(&patch)[0]["status"], "False");
        assert_eq!(conditions(&patch)[0]["message"], r#"[{"userAgent":"Lifecycle","key":"b"}]"#);
    }

    #[test]
    fn ready_is_left_alone_while_containers_are_not_ready_or_it_is_already_false() {
        for conditions_before in [
            json!([{"type": "Ready", "status": "True"}, {"type": "ContainersReady", "status": "False"}]),
            json!([{"type": "Ready", "status": "True"}]),
            json!([{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"}]),
            json!([{"type": "ContainersReady", "status": "True"}]),
        ] {
            let patch = add_key(&pod(conditions_before), &Key::new("Lifecycle", "k"), now()).unwrap();
            assert_eq!(conditions(&patch).as_array().unwrap().len(), 1);
        }
    }

    #[test]
    fn only_the_last_key_taken_back_turns_the_condition_true_and_ready_is_not_touched() {
        let both = pod(json!([
            {"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "True"},
            {"type": "KruisePodReady", "status": "False",
             "message": r#"[{"userAgent":"Lifecycle","key":"a"},{"userAgent":"Lifecycle","key":"b"}]"#},
        ]));
        let one = conditions(&remove_key(&both, &Key::new("Lifecycle", "a"), now()).unwrap());
        assert_eq!(one.as_array().unwrap().len(), 1);
        assert_eq!(
            (&one[0]["status"], &one[0]["message"]),
            (&json!("False"), &json!(r#"[{"userAgent":"Lifecycle","key":"b"}]"#))
        );
        let keys = [Key::new("Lifecycle", "a"), Key::new("Lifecycle", "b")];
        let none = conditions(&remove_keys(&both, &keys, now()).unwrap());
        assert_eq!((&none[0]["status"], &none[0]["message"]), (&json!("True"), &json!("[]")));
        assert_eq!(remove_key(&both, &Key::new("Lifecycle", "c"), now()), None);
        assert_eq!(remove_key(&pod(json!([])), &Key::new("Lifecycle", "a"), now()), None);
    }

    #[test]
    fn a_pod_without_the_gate_is_never_written() {
        let pod = PodLite::default();
        let key = Key::new("Lifecycle", "a");
        assert_eq!(add_key(&pod, &key, now()), None);
        assert_eq!(remove_key(&pod, &key, now()), None);
        assert_eq!(initial(&pod, now()), None);
    }

    #[test]
    fn a_message_that_is_no_list_counts_as_empty() {
        let pod = pod(json!([{"type": "KruisePodReady", "status": "False", "message": "who knows"}]));
        assert_eq!(entries_of(&pod), []);
        assert!(add_key(&pod, &Key::new("Lifecycle", "a"), now()).is_some());
    }

    /// images-and-recreate.md 5: entries of others are opaque and stay.
    #[test]
    fn entries_of_another_form_stay_and_keep_the_pod_out_of_rotation() {
        let ours = Key::new("Lifecycle", "a");
        let foreign = r#"{"key":"k","since":7,"userAgent":"Mesh"}"#;
        let with = |list: &str| {
            pod(json!([{"type": "KruisePodReady", "status": "False", "message": format!("[{list}]")}]))
        };
        let added = conditions(&add_key(&with(&format!(r#""drain",{foreign}"#)), &ours, now()).unwrap());
        let own = r#"{"userAgent":"Lifecycle","key":"a"}"#;
        assert_eq!(added[0]["message"], format!(r#"["drain",{own},{foreign}]"#));
        let taken = conditions(&remove_key(&with(&format!("{own},{foreign}")), &ours, now()).unwrap());
        assert_eq!(
            (&taken[0]["status"], &taken[0]["message"]),
            (&json!("False"), &json!(format!("[{foreign}]")))
        );
        // One that only looks like ours says more than we know how to take back.
        let marked = r#"{"key":"a","since":7,"userAgent":"Lifecycle"}"#;
        assert_eq!(remove_key(&with(marked), &ours, now()), None);
    }

    #[test]
    fn the_first_word_is_said_once_and_never_on_a_pod_that_goes() {
        let mut fresh = pod(json!([]));
        let first = conditions(&initial(&fresh, now()).unwrap());
        assert_eq!((&first[0]["type"], &first[0]["status"]), (&json!("KruisePodReady"), &json!("True")));
        assert_eq!(initial(&pod(json!([{"type": "KruisePodReady", "status": "False"}])), now()), None);
        fresh.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
        assert_eq!(initial(&fresh, now()), None);
    }
}
