//! What wakes the controller up.

use std::{num::NonZeroUsize, sync::Arc};

use kube::{Client, Resource};

use super::{
    Caches, CloneSets, Context, Stored, Writers,
    plan::Options,
    wake::{self, Resizing},
};
use crate::{
    api::APPS_GROUP,
    pod::inplace::{self, UpdateState},
    runtime::{
        access::{self, Right},
        cache::{Cache, Change, Feed, pod::PodLite},
        controller::{Controller, Settings, Triggers},
        gates::{Gate, Gates},
        key::{Key, uid},
        writes::Writer,
    },
};

/// The controller's name in logs, metrics and events.
pub const NAME: &str = "cloneset-controller";

/// How many CloneSets are seen to at once, unless the user says otherwise.
pub const WORKERS: NonZeroUsize = NonZeroUsize::new(3).expect("three is not zero");

/// The rights it needs, those of its admission among them: pod templates are only ever created as a dry run, to have them
/// checked.
pub fn needs() -> Vec<Right> {
    const READ: &[&str] = &["get", "list", "watch"];
    const KEEP: &[&str] = &["get", "list", "watch", "create", "patch", "delete"];
    vec![
        access::cluster(APPS_GROUP, "clonesets", &["get", "list", "watch", "patch"]),
        access::cluster(APPS_GROUP, "clonesets/status", &["patch"]),
        access::cluster(APPS_GROUP, "clonesets/finalizers", &["update"]),
        access::cluster(APPS_GROUP, "imagepulljobs", KEEP),
        access::cluster("", "pods", KEEP),
        access::cluster("", "pods/status", &["patch"]),
        access::cluster("", "pods/resize", &["patch"]),
        access::cluster("", "persistentvolumeclaims", KEEP),
        access::cluster("", "nodes", READ),
        access::cluster("", "podtemplates", &["create"]),
        access::cluster("apps", "controllerrevisions", KEEP),
    ]
}

impl Options {
    /// What the gates say. `exclude_preparing_delete` is a flag of the process, `server_resizes` what the API server can.
    pub fn of(gates: &Gates, exclude_preparing_delete: bool, server_resizes: bool) -> Self {
        let daemon = gates.is_on(Gate::KruiseDaemon);
        Self {
            short_hash: gates.is_on(Gate::CloneSetShortHash),
            partition_rollback: gates.is_on(Gate::CloneSetPartitionRollback),
            preparing_update_as_update: gates.is_on(Gate::PreparingUpdateAsUpdate),
            env_from_metadata: gates.is_on(Gate::InPlaceUpdateEnvFromMetadata),
            vertical_scaling: gates.is_on(Gate::InPlaceWorkloadVerticalScaling),
            recreate_for_claims: gates.is_on(Gate::RecreatePodWhenChangeVctInCloneSet),
            exclude_preparing_delete,
            ignore_irrelevant: gates.is_on(Gate::CloneSetEventHandlerOptimization),
            download_ahead: daemon && gates.is_on(Gate::PreDownloadImageForInPlaceUpdate),
            server_resizes,
        }
    }
}

impl Writers {
    /// Writers whose answers go into `caches`.
    pub fn new(client: &Client, caches: &Caches) -> Self {
        Self {
            clonesets: Writer::new(client.clone(), caches.clonesets.clone()),
            pods: Writer::new(client.clone(), caches.pods.clone()),
            claims: Writer::new(client.clone(), caches.claims.clone()),
            revisions: Writer::new(client.clone(), caches.revisions.clone()),
            jobs: Writer::new(client.clone(), caches.jobs.clone()),
        }
    }
}

/// The controller, which hears of changes from now on.
pub fn controller(context: Context, settings: Settings) -> Controller<CloneSets> {
    let triggers = Triggers::new(settings.clock.clone());
    let Caches { clonesets, pods, claims, revisions, nodes, jobs } = context.caches.clone();
    follow_clonesets(&triggers, &clonesets, &context);
    follow_pods(&triggers, &pods, &context);
    let wake = triggers.clone();
    claims.on_change(move |change| wake::claim_wakes(change).into_iter().for_each(|it| wake.now(it)));
    let (wake, opened) = (triggers.clone(), context.opened.clone());
    revisions.on_change(move |change| {
        if let Some(gone) = gone(change) {
            opened.forget_revision(uid(&**gone));
            // One that somebody else has removed may be the one that pods are made from.
            wake::claim_wakes(change).into_iter().for_each(|it| wake.now(it));
        }
    });
    let feeds: Vec<Arc<dyn Feed>> = vec![
        Arc::new(clonesets),
        Arc::new(pods),
        Arc::new(claims),
        Arc::new(revisions),
        Arc::new(nodes),
        Arc::new(jobs),
    ];
    Controller::new(settings, triggers, feeds, CloneSets::new(context))
}

fn follow_clonesets(triggers: &Triggers, clonesets: &Cache<Stored>, context: &Context) {
    let (wake, opened) = (triggers.clone(), context.opened.clone());
    clonesets.on_change(move |change| {
        if let Some(gone) = gone(change) {
            opened.forget_cloneset(uid(&**gone));
        }
        if !is_talk_alone(change) {
            wake.now(change.key());
        }
    });
    for cloneset in clonesets.all() {
        triggers.now(Key::of(&*cloneset));
    }
}

/// The object that a change has removed, be it that another one of the same name took its place.
fn gone<K: Resource>(change: &Change<K>) -> Option<&Arc<K>> {
    let before = change.before.as_ref()?;
    let is_there = change.after.as_ref().is_some_and(|it| uid(&**it) == uid(&**before));
    (!is_there).then_some(before)
}

/// Whether only conditions have changed: that was us, and a pass that fails would be its own reason to run again, at once
/// and for ever. Counters and revisions of the status matter to the next pass: downloads wait for pods to be ready, and a
/// release that is over leaves things to clean up.
fn is_talk_alone(change: &Change<Stored>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return false };
    let what_counts = |it: &Stored| {
        let meta = it.meta();
        let (labels, annotations) = (meta.labels.clone(), meta.annotations.clone());
        let mut status = it.0.as_ref().ok().and_then(|it| it.status.clone()).unwrap_or_default();
        status.conditions.clear();
        (meta.uid.clone(), meta.generation, labels, annotations, meta.deletion_timestamp.clone(), status)
    };
    what_counts(before) == what_counts(after)
}

fn follow_pods(triggers: &Triggers, pods: &Cache<PodLite>, context: &Context) {
    let wake = triggers.clone();
    let (clonesets, clock, options) =
        (context.caches.clonesets.clone(), context.clock.clone(), context.options);
    pods.on_change(move |change| {
        let may_ignore = |key: &Key, before: &PodLite, after: &PodLite| {
            let Some(stored) = clonesets.get(key).filter(|_| options.ignore_irrelevant) else { return false };
            let lifecycle = stored.0.as_ref().ok().and_then(|it| it.spec.lifecycle.as_ref());
            let resizing = if options.vertical_scaling { Resizing::On } else { Resizing::Off };
            let ctx = options.inplace(clock.now());
            let is_consistent = |it: &PodLite| {
                matches!(UpdateState::of(it), Some(Ok(state)) if inplace::is_consistent(it, &state, &ctx))
            };
            wake::is_irrelevant(lifecycle, before, after, resizing, is_consistent)
        };
        // Pods that nobody owns are never adopted, so they are no reason to wake anybody.
        for key in wake::wakes(change, |_| Vec::new(), may_ignore) {
            wake.now(key);
        }
    });
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn stored(status: Value) -> Option<Arc<Stored>> {
        let object = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "generation": 1},
            "spec": {"selector": {}, "template": {}}, "status": status,
        });
        Some(Arc::new(serde_json::from_value(object).unwrap()))
    }

    fn counters(ready: i32, conditions: Value) -> Value {
        json!({
            "replicas": 1, "readyReplicas": ready, "availableReplicas": 0, "updatedReplicas": 1,
            "updatedReadyReplicas": ready, "conditions": conditions,
        })
    }

    #[test]
    fn our_own_words_wake_nobody_but_what_we_have_counted_does() {
        let trouble = json!([{"type": "FailedScale", "status": "True", "message": "quota"}]);
        let before = stored(counters(0, json!([])));
        let change = |after| Change { before: before.clone(), after: stored(after) };
        assert!(is_talk_alone(&change(counters(0, trouble))));
        assert!(!is_talk_alone(&change(counters(1, json!([])))), "downloads may wait for ready pods");
        assert!(!is_talk_alone(&Change { before: before.clone(), after: None }));
    }
}
