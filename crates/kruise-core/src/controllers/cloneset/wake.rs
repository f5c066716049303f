//! Which CloneSets a change of a pod or a claim concerns.
//!
//! Upstream delays what it meets in its first list and keeps a back-off for that; here caches are complete before the
//! first pass, and the queue takes one entry per object, so every answer is "now".

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;

use crate::{
    api::common::{Lifecycle, LifecycleHook, keys},
    pod::state,
    runtime::{
        cache::{Change, pod::PodLite},
        key::{Key, uid, version},
    },
};

const GROUP: &str = "apps.kruise.io";
const KIND: &str = "CloneSet";

/// The CloneSets to reconcile after `change`, in order.
///
/// `find_matching` gives the CloneSets in the pod's namespace whose selector is not empty and matches its labels.
/// `may_ignore` says whether the change of a pod, whose owner and labels are unchanged, cannot matter to its CloneSet:
/// [`is_irrelevant`] with gate CloneSetEventHandlerOptimization, else never.
pub fn wakes(
    change: &Change<PodLite>,
    find_matching: impl Fn(&PodLite) -> Vec<Key>,
    may_ignore: impl Fn(&Key, &PodLite, &PodLite) -> bool,
) -> Vec<Key> {
    let mut keys = BTreeSet::new();
    match (change.before.as_deref(), change.after.as_deref()) {
        (None, Some(pod)) => added(pod, &find_matching, &mut keys),
        (Some(pod), None) => keys.extend(owner(pod)),
        (Some(before), Some(after)) if uid(before) != uid(after) => {
            // The one was deleted and the other created while nobody watched.
            keys.extend(owner(before));
            added(after, &find_matching, &mut keys);
        }
        (Some(before), Some(after)) if version(before) != version(after) => {
            updated(before, after, &find_matching, &may_ignore, &mut keys);
        }
        _ => {}
    }
    keys.into_iter().collect()
}

/// The CloneSets to reconcile after a change of a claim: it came, it went, or it began to go.
pub fn claim_wakes<K: Resource>(change: &Change<K>) -> Vec<Key> {
    match (change.before.as_deref(), change.after.as_deref()) {
        (Some(before), Some(after)) if uid(before) != uid(after) => {
            BTreeSet::from_iter(owner(before).into_iter().chain(owner(after))).into_iter().collect()
        }
        (Some(_), Some(after)) => {
            owner(after).filter(|_| after.meta().deletion_timestamp.is_some()).into_iter().collect()
        }
        (Some(claim), None) | (None, Some(claim)) => owner(claim).into_iter().collect(),
        (None, None) => Vec::new(),
    }
}

/// Whether workloads resize pods in place: gate InPlaceWorkloadVerticalScaling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resizing {
    /// They do.
    On,
    /// They do not.
    Off,
}

/// Whether the step from `before` to `after`, with owner and labels unchanged, cannot matter to a CloneSet with this
/// lifecycle. `is_consistent` says whether the pod carries a state of an in-place update that its containers have
/// reached.
pub fn is_irrelevant(
    lifecycle: Option<&Lifecycle>,
    before: &PodLite,
    after: &PodLite,
    resizing: Resizing,
    is_consistent: impl Fn(&PodLite) -> bool,
) -> bool {
    if before.metadata.generation != after.metadata.generation
        || has_finalizer_change(lifecycle, before, after)
        || is_ready(before) != is_ready(after)
        // A pod that failed has to be replaced (openkruise/kruise#2473).
        || is_active(before) != is_active(after)
        // A new pod gets its first word once it has a node, and is not ready before.
        || state::has_node(before) != state::has_node(after)
    {
        return false;
    }
    let is_done = |pod: &PodLite| {
        pod.condition(keys::CONDITION_INPLACE_UPDATE_READY).is_some_and(|it| it.status == "True")
    };
    let finishes =
        may_be_updating(after) && is_consistent(after) && (!is_done(after) || resizing == Resizing::On);
    !finishes
}

fn added(pod: &PodLite, find_matching: &impl Fn(&PodLite) -> Vec<Key>, keys: &mut BTreeSet<Key>) {
    if controller(pod).is_some() {
        keys.extend(owner(pod));
    } else if !pod.is_terminating() {
        keys.extend(find_matching(pod));
    }
}

fn updated(
    before: &PodLite,
    after: &PodLite,
    find_matching: &impl Fn(&PodLite) -> Vec<Key>,
    may_ignore: &impl Fn(&Key, &PodLite, &PodLite) -> bool,
    keys: &mut BTreeSet<Key>,
) {
    let has_new_labels = before.labels() != after.labels();
    if after.is_terminating() {
        keys.extend(owner(after));
        if has_new_labels {
            keys.extend(owner(before));
        }
        return;
    }

    let has_new_owner = controller(before) != controller(after);
    if has_new_owner {
        keys.extend(owner(before));
    }
    if controller(after).is_some() {
        let is_filtered = |it: &Key| !has_new_owner && !has_new_labels && may_ignore(it, before, after);
        keys.extend(owner(after).filter(|it| !is_filtered(it)));
    } else if has_new_owner || has_new_labels {
        keys.extend(find_matching(after));
    }
}

fn controller<K: Resource>(object: &K) -> Option<&OwnerReference> {
    let owners = object.meta().owner_references.as_deref().unwrap_or_default();
    owners.iter().find(|it| it.controller == Some(true))
}

/// The CloneSet that controls `object`. Its version does not matter: pods keep that of the day they were made.
pub fn owner<K: Resource>(object: &K) -> Option<Key> {
    let owner = controller(object)?;
    let (group, _) = owner.api_version.split_once('/')?;
    let namespace = object.meta().namespace.as_deref().unwrap_or_default();
    (group == GROUP && owner.kind == KIND).then(|| Key::new(namespace, &owner.name))
}

fn has_finalizer_change(lifecycle: Option<&Lifecycle>, before: &PodLite, after: &PodLite) -> bool {
    let Some(Lifecycle { pre_delete, in_place_update, pre_normal }) = lifecycle else { return false };
    let has =
        |pod: &PodLite, name: &String| pod.metadata.finalizers.as_ref().is_some_and(|it| it.contains(name));
    let differs =
        |hook: &LifecycleHook| hook.finalizers_handler.iter().any(|it| has(before, it) != has(after, it));
    [pre_delete, in_place_update, pre_normal].into_iter().flatten().any(differs)
}

fn may_be_updating(pod: &PodLite) -> bool {
    let has_gate =
        pod.spec.readiness_gates.iter().any(|it| it.condition_type == keys::CONDITION_INPLACE_UPDATE_READY);
    let is_normal = pod.labels().get(keys::LIFECYCLE_STATE).is_some_and(|it| it == "Normal");
    has_gate || (!pod.labels().is_empty() && !is_normal)
}

fn is_ready(pod: &PodLite) -> bool {
    pod.condition("Ready").is_some_and(|it| it.status == "True")
}

fn is_active(pod: &PodLite) -> bool {
    !pod.is_terminating() && !matches!(pod.status.phase.as_deref(), Some("Succeeded" | "Failed"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::PersistentVolumeClaim;
    use serde_json::{Value, json};

    use super::*;

    fn owned_by(kind: &str, api_version: &str, name: &str) -> Value {
        json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": format!("uid-{name}"), "controller": true}])
    }

    /// A pod of the CloneSet `web`, changed by `more`.
    fn pod(more: &Value) -> PodLite {
        let mut pod = json!({
            "metadata": {
                "namespace": "shop", "name": "web-abcde", "uid": "pod-1", "resourceVersion": "1", "generation": 1,
                "labels": {"app": "web", "lifecycle.apps.kruise.io/state": "Normal"},
                "ownerReferences": owned_by("CloneSet", "apps.kruise.io/v1alpha1", "web"),
            },
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        json_patch::merge(&mut pod, more);
        serde_json::from_value(pod).unwrap()
    }

    /// The pod after a write that changed `more`.
    fn after(more: &Value) -> PodLite {
        let mut pod = pod(more);
        pod.metadata.resource_version = Some("2".into());
        pod
    }

    fn change<K>(before: Option<K>, after: Option<K>) -> Change<K> {
        Change { before: before.map(Arc::new), after: after.map(Arc::new) }
    }

    /// Names of the sets that wake; three sets match every orphan.
    fn woken(change: &Change<PodLite>, may_ignore: bool) -> Vec<String> {
        let matching = |_: &PodLite| ["c", "a", "b"].map(|it| Key::new("shop", it)).to_vec();
        wakes(change, matching, |_, _, _| may_ignore).iter().map(ToString::to_string).collect()
    }

    fn orphan() -> Value {
        json!({"metadata": {"ownerReferences": null}})
    }

    #[test]
    fn a_pod_that_comes_or_goes_wakes_its_owner() {
        assert_eq!(woken(&change(None, Some(pod(&json!({})))), false), ["shop/web"]);
        assert_eq!(woken(&change(Some(pod(&json!({}))), None), false), ["shop/web"]);
        let terminating = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(woken(&change(None, Some(pod(&terminating))), true), ["shop/web"]);
    }

    #[test]
    fn an_orphan_that_comes_wakes_whoever_matches_it() {
        assert_eq!(woken(&change(None, Some(pod(&orphan()))), false), ["shop/a", "shop/b", "shop/c"]);
        assert!(woken(&change(Some(pod(&orphan())), None), false).is_empty());
        let mut terminating = orphan();
        terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(woken(&change(None, Some(pod(&terminating))), false).is_empty());
    }

    #[test]
    fn only_the_group_and_the_kind_of_the_owner_count() {
        for (kind, version, want) in [
            ("CloneSet", "apps.kruise.io/v1beta1", 1),
            ("CloneSet", "apps.kruise.io/v9", 1),
            ("StatefulSet", "apps.kruise.io/v1beta1", 0),
            ("CloneSet", "example.com/v1", 0),
            ("CloneSet", "v1", 0),
        ] {
            let pod = pod(&json!({"metadata": {"ownerReferences": owned_by(kind, version, "web")}}));
            assert_eq!(woken(&change(None, Some(pod)), false).len(), want, "{kind} {version}");
        }
        let mut follower = pod(&json!({}));
        follower.metadata.owner_references.as_mut().unwrap()[0].controller = Some(false);
        assert_eq!(woken(&change(None, Some(follower)), false), ["shop/a", "shop/b", "shop/c"]);
    }

    #[test]
    fn a_resync_wakes_nobody() {
        assert!(woken(&change(Some(pod(&json!({}))), Some(pod(&json!({})))), false).is_empty());
        assert!(woken(&change(None, None), false).is_empty());
    }

    #[test]
    fn a_pod_that_begins_to_go_always_wakes_its_owner() {
        let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(woken(&change(Some(pod(&json!({}))), Some(after(&going))), true), ["shop/web"]);

        let before = pod(
            &json!({"metadata": {"ownerReferences": owned_by("CloneSet", "apps.kruise.io/v1beta1", "old")}}),
        );
        assert_eq!(woken(&change(Some(before.clone()), Some(after(&going))), true), ["shop/web"]);
        let relabelled =
            json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "other"}}});
        assert_eq!(woken(&change(Some(before), Some(after(&relabelled))), true), ["shop/old", "shop/web"]);
    }

    #[test]
    fn a_new_owner_wakes_the_old_one_too() {
        let moved = after(
            &json!({"metadata": {"ownerReferences": owned_by("CloneSet", "apps.kruise.io/v1beta1", "new")}}),
        );
        assert_eq!(woken(&change(Some(pod(&json!({}))), Some(moved)), true), ["shop/new", "shop/web"]);
    }

    #[test]
    fn a_released_pod_with_new_labels_wakes_its_old_owner_and_whoever_matches() {
        let released = after(&json!({"metadata": {"ownerReferences": null, "labels": {"app": "other"}}}));
        assert_eq!(
            woken(&change(Some(pod(&json!({}))), Some(released)), true),
            ["shop/a", "shop/b", "shop/c", "shop/web"]
        );
    }

    #[test]
    fn an_orphan_wakes_somebody_only_by_new_labels() {
        let same = after(&json!({"metadata": {"ownerReferences": null}, "status": {"phase": "Failed"}}));
        assert!(woken(&change(Some(pod(&orphan())), Some(same)), false).is_empty());
        let labelled = after(&json!({"metadata": {"ownerReferences": null, "labels": {"new": "label"}}}));
        assert_eq!(woken(&change(Some(pod(&orphan())), Some(labelled)), false).len(), 3);
    }

    #[test]
    fn the_filter_is_asked_only_if_owner_and_labels_stay() {
        let written = after(&json!({}));
        assert_eq!(woken(&change(Some(pod(&json!({}))), Some(written.clone())), false), ["shop/web"]);
        assert!(woken(&change(Some(pod(&json!({}))), Some(written)), true).is_empty());
        let labelled = after(&json!({"metadata": {"labels": {"new": "label"}}}));
        assert_eq!(woken(&change(Some(pod(&json!({}))), Some(labelled)), true), ["shop/web"]);
    }

    #[test]
    fn a_namesake_wakes_the_owners_of_both() {
        let namesake = pod(
            &json!({"metadata": {"uid": "pod-2", "ownerReferences": owned_by("CloneSet", "apps.kruise.io/v1beta1", "new")}}),
        );
        assert_eq!(woken(&change(Some(pod(&json!({}))), Some(namesake)), true), ["shop/new", "shop/web"]);
    }

    fn ignored(more: &Value) -> bool {
        is_irrelevant(None, &pod(&json!({})), &after(more), Resizing::Off, |_| true)
    }

    #[test]
    fn what_only_moves_a_heartbeat_is_irrelevant() {
        assert!(ignored(&json!({})));
        assert!(ignored(&json!({"metadata": {"annotations": {"a": "b"}}, "status": {"podIP": "10.0.0.1"}})));
    }

    #[test]
    fn a_new_generation_readiness_or_phase_is_relevant() {
        assert!(!ignored(&json!({"metadata": {"generation": 2}})));
        assert!(!ignored(&json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})));
        // openkruise/kruise#2473: an evicted pod has to be replaced.
        assert!(!ignored(&json!({"status": {"phase": "Failed", "reason": "Evicted"}})));
        assert!(!ignored(&json!({"status": {"phase": "Succeeded"}})));
        assert!(ignored(&json!({"status": {"phase": "Pending"}})));
    }

    #[test]
    fn a_pod_that_gets_its_node_is_relevant() {
        assert!(!ignored(&json!({"spec": {"nodeName": "node-1"}})));
    }

    #[test]
    fn a_lifecycle_finalizer_that_comes_or_goes_is_relevant() {
        let hook = || {
            Some(LifecycleHook {
                finalizers_handler: vec!["example.com/f".into()],
                ..LifecycleHook::default()
            })
        };
        let with = json!({"metadata": {"finalizers": ["example.com/f"]}});
        let other = json!({"metadata": {"finalizers": ["example.com/g"]}});
        let none = json!({});
        for lifecycle in [
            Lifecycle { pre_delete: hook(), ..Lifecycle::default() },
            Lifecycle { in_place_update: hook(), ..Lifecycle::default() },
            Lifecycle { pre_normal: hook(), ..Lifecycle::default() },
        ] {
            let step = |from: &Value, to: &Value| {
                is_irrelevant(Some(&lifecycle), &pod(from), &after(to), Resizing::Off, |_| false)
            };
            assert!(!step(&none, &with) && !step(&with, &none));
            assert!(step(&with, &with) && step(&none, &other));
        }
        assert!(is_irrelevant(None, &pod(&none), &after(&with), Resizing::Off, |_| false));
    }

    #[test]
    fn the_end_of_an_update_in_place_is_relevant() {
        let updating = |condition: Value| {
            json!({
                "metadata": {"labels": {"lifecycle.apps.kruise.io/state": "Updating"}},
                "status": {"conditions": [{"type": "Ready", "status": "True"}, condition]},
            })
        };
        let done = updating(json!({"type": "InPlaceUpdateReady", "status": "True"}));
        let not_done = updating(json!({"type": "InPlaceUpdateReady", "status": "False"}));
        let silent = updating(json!({"type": "Other", "status": "True"}));
        let step = |it: &Value, resizing, is_consistent: bool| {
            is_irrelevant(None, &pod(it), &after(it), resizing, |_| is_consistent)
        };
        assert!(step(&done, Resizing::Off, true), "finished already");
        assert!(!step(&done, Resizing::On, true), "a resize may be all there was");
        assert!(!step(&not_done, Resizing::Off, true) && !step(&silent, Resizing::Off, true));
        assert!(step(&not_done, Resizing::Off, false) && step(&not_done, Resizing::On, false), "still at it");
    }

    #[test]
    fn a_pod_that_cannot_be_updating_is_not_looked_at() {
        let idle = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        assert!(is_irrelevant(None, &pod(&idle), &after(&idle), Resizing::On, |_| unreachable!()));
        let gated = json!({"spec": {"readinessGates": [{"conditionType": "InPlaceUpdateReady"}]}});
        assert!(!is_irrelevant(None, &pod(&gated), &after(&gated), Resizing::On, |_| true));
        let stateless = json!({"metadata": {"labels": {"lifecycle.apps.kruise.io/state": null}}});
        assert!(!is_irrelevant(None, &pod(&stateless), &after(&stateless), Resizing::Off, |_| true));
    }

    fn claim(uid: &str, owner: &str, more: &Value) -> PersistentVolumeClaim {
        let mut claim = json!({"metadata": {
            "namespace": "shop", "name": "data-web-abcde", "uid": uid,
            "ownerReferences": owned_by("CloneSet", "apps.kruise.io/v1beta1", owner),
        }});
        json_patch::merge(&mut claim, more);
        serde_json::from_value(claim).unwrap()
    }

    #[test]
    fn a_claim_wakes_its_owner_when_it_comes_goes_or_begins_to_go() {
        let woken = |change: Change<PersistentVolumeClaim>| -> Vec<String> {
            claim_wakes(&change).iter().map(ToString::to_string).collect()
        };
        let plain = || Some(claim("1", "web", &json!({})));
        let bound = Some(claim("1", "web", &json!({"status": {"phase": "Bound"}})));
        let going =
            Some(claim("1", "web", &json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})));
        let orphan = Some(claim("1", "web", &json!({"metadata": {"ownerReferences": null}})));
        assert_eq!(woken(change(None, plain())), ["shop/web"]);
        assert_eq!(woken(change(plain(), None)), ["shop/web"]);
        assert!(woken(change(plain(), bound)).is_empty());
        assert_eq!(woken(change(plain(), going)), ["shop/web"]);
        assert!(woken(change(None, orphan)).is_empty());
        assert!(woken(change(None, None)).is_empty());
        assert_eq!(woken(change(plain(), Some(claim("2", "new", &json!({}))))), ["shop/new", "shop/web"]);
    }
}
