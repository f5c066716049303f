//! Letting go of a member object: our marks, our claim to fields and our pace go, and the object runs on (DEL-3). Pure.

use kruise_core::api::{cloneset::keys::PINNED_REVISION, fleet::keys};
use serde_json::{Map, Value, json};

const MARKS: [&str; 6] =
    [keys::HUB_UID, keys::OBJECT_UID, keys::APPLIED_PLAN, keys::EPOCH, keys::ADOPTED, PINNED_REVISION];

/// The merge patch that lets go of `member`, which is as the API server has it.
pub(super) fn patch(member: &Value) -> Value {
    let annotations: Map<_, _> = MARKS.iter().map(|it| ((*it).to_owned(), Value::Null)).collect();
    let managers = member["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let (ours, mut others): (Vec<_>, Vec<_>) =
        managers.into_iter().partition(|it| it["manager"] == keys::AGENT_FIELD_MANAGER);
    if others.is_empty() {
        // An empty list would leave things as they are.
        others.push(json!({}));
    }
    let mut patch = json!({"metadata": {
        "annotations": annotations,
        "managedFields": others,
        // What was judged must be what is changed: pods of an older revision may have come up meanwhile.
        "resourceVersion": member["metadata"]["resourceVersion"],
    }});
    // Without a claim of ours it was let go of before, and what is there now is its owner's.
    if let Some(partition) = partition(member).filter(|_| !ours.is_empty()) {
        // What the user wrote on the hub is divided among the members and is not known here: without a word of ours the
        // defaults hold. Replicas are what runs, and stay.
        patch["spec"] = json!({
            "scaleStrategy": {"maxUnavailable": Value::Null, "podsToDelete": Value::Null},
            "updateStrategy": {"rollingUpdate": {
                "paused": Value::Null, "maxUnavailable": Value::Null, "maxSurge": Value::Null, "partition": partition,
            }},
        });
    }
    patch
}

/// The partition with which a CloneSet goes its own way and no pod restarts; nothing if there is none, and its pace stays the
/// fleet's. At rest that is a pause (BUD-9), under which no later edit of the template would ever be rolled out.
fn partition(member: &Value) -> Option<Value> {
    let rolling =
        member.pointer("/spec/updateStrategy/rollingUpdate").filter(|_| member["kind"] == "CloneSet")?;
    let number = |path: &str| member.pointer(path).and_then(Value::as_u64).unwrap_or_default();
    // Before its controller has seen the template nobody knows which pods carry it.
    if number("/status/observedGeneration") < number("/metadata/generation") {
        return None;
    }
    let old = number("/status/replicas").saturating_sub(number("/status/updatedReplicas"));
    if old == 0 {
        return Some(Value::Null);
    }
    // An update that is under way, or rests on purpose, stays where it is. Where pods were to go back to an older revision, the
    // pause is what keeps them.
    let kept = rolling["partition"].as_u64().unwrap_or_default();
    (kept <= old).then(|| json!(old))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(manager: &str) -> Value {
        json!({"manager": manager, "operation": "Apply"})
    }

    /// A CloneSet at rest, with `updated` of its four pods at the template.
    fn resting(updated: u32, partition: Value) -> Value {
        json!({
            "kind": "CloneSet",
            "metadata": {
                "generation": 5, "resourceVersion": "7", "managedFields": [entry(keys::AGENT_FIELD_MANAGER)],
            },
            "spec": {"replicas": 4, "updateStrategy": {"rollingUpdate": {
                "paused": true, "maxUnavailable": 0, "maxSurge": 1, "partition": partition,
            }}},
            "status": {"observedGeneration": 5, "replicas": 4, "updatedReplicas": updated},
        })
    }

    fn after(member: &Value) -> Value {
        let mut after = member.clone();
        json_patch::merge(&mut after, &patch(member));
        after["spec"].clone()
    }

    #[test]
    fn del_3_marks_and_ownership_go() {
        let member = json!({"metadata": {
            "resourceVersion": "7", "managedFields": [entry("fleet-agent"), entry("kubectl")],
        }});
        let sent = patch(&member);
        assert_eq!(sent["metadata"]["managedFields"], json!([entry("kubectl")]));
        assert_eq!(sent["metadata"]["resourceVersion"], "7");
        let annotations = sent["metadata"]["annotations"].as_object().unwrap();
        assert!(annotations.len() == 6 && annotations.values().all(Value::is_null));
        assert_eq!(sent.get("spec"), None, "other kinds have no pace");
        let alone = patch(&json!({"metadata": {"managedFields": [entry("fleet-agent")]}}));
        assert_eq!(alone["metadata"]["managedFields"], json!([{}]));
    }

    #[test]
    fn del_3_a_cloneset_at_rest_is_not_left_paused() {
        let spec = after(&resting(4, json!(0)));
        assert_eq!(spec["updateStrategy"], json!({"rollingUpdate": {}}));
        assert_eq!(spec["replicas"], 4);
    }

    #[test]
    fn del_3_pods_of_an_older_revision_are_kept_where_they_are() {
        // A release that rests at its partition, and one that was under way.
        for partition in [3, 1] {
            let spec = after(&resting(1, json!(partition)));
            assert_eq!(spec["updateStrategy"], json!({"rollingUpdate": {"partition": 3}}));
        }
        // Pods that were to go back would do so without the pause.
        let back = resting(3, json!(3));
        assert_eq!(after(&back), back["spec"]);
    }

    #[test]
    fn del_3_what_its_controller_has_not_seen_keeps_its_pace() {
        let mut unseen = resting(4, json!(0));
        unseen["metadata"]["generation"] = json!(6);
        assert_eq!(after(&unseen), unseen["spec"]);
    }

    #[test]
    fn del_3_what_was_let_go_of_before_keeps_what_its_owner_wrote_since() {
        let mut member = resting(4, json!(0));
        member["metadata"]["managedFields"] = json!([entry("kubectl")]);
        assert_eq!(after(&member), member["spec"]);
    }
}
