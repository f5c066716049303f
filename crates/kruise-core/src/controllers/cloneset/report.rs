//! Writing what a pass has found into the CloneSet.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    Context, Stored,
    apply::OVERTAKEN,
    observe::Observed,
    plan::{Fact, World, limits::Limits},
    status::{self, Counted, Names, Report},
};
use crate::{
    api::cloneset::v1beta1::{CloneSet, CloneSetStatus},
    runtime::{
        client::Error,
        key::{uid, version},
        writes::On,
    },
};

impl Context {
    /// What is to be said of these pods before anything is done about them.
    pub(super) fn report(
        world: &World<'_>,
        limits: &Limits,
        collision_count: i32,
        facts: &[Fact<'_>],
    ) -> Report {
        let counted = facts.iter().map(|it| Counted {
            is_updated: it.is_updated,
            is_ready: it.is_ready,
            is_available: it.is_available,
        });
        let names = Names { update: &world.update.name, current: &world.current.name, collision_count };
        status::report(world.cloneset, limits, names, counted, world.now)
    }

    /// Writes the status if it says anything new, and answers with the object as it is then.
    pub(super) async fn tell(
        &self,
        stored: &Stored,
        before: Option<&CloneSetStatus>,
        status: &CloneSetStatus,
    ) -> Result<Option<Arc<Stored>>, Error> {
        if !status::is_news(before, status) {
            return Ok(None);
        }
        let patch = Patch::Merge(json!({"status": replacing(before, status)}));
        let on = On { call: "write a CloneSet's status", owner: uid(stored) };
        let params = PatchParams::default();
        self.writers.clonesets.patch(on, stored, Some("status"), &patch, &params).await.map(Some)
    }

    /// Takes the names of pods that are gone off the list of pods to delete. Answers when to try again.
    pub(super) async fn drop_names_of_gone_pods(
        &self,
        stored: &Stored,
        cloneset: &CloneSet,
        observed: &Observed,
    ) -> Result<Option<Duration>, Error> {
        let named = &cloneset.spec.scale_strategy.pods_to_delete;
        if named.is_empty() {
            return Ok(None);
        }
        let there: BTreeSet<&str> =
            observed.pods.active().filter_map(|it| it.pod.metadata.name.as_deref()).collect();
        let left: Vec<&String> = named.iter().filter(|it| there.contains(it.as_str())).collect();
        if left.len() == named.len() {
            return Ok(None);
        }
        // The list is replaced as a whole, so it must be the one that was read.
        let patch = json!({
            "metadata": {"resourceVersion": version(stored)},
            "spec": {"scaleStrategy": {"podsToDelete": left}},
        });
        let on = On { call: "drop names of deleted pods", owner: uid(cloneset) };
        let patch = Patch::Merge(patch);
        match self.writers.clonesets.patch(on, stored, None, &patch, &PatchParams::default()).await {
            // Somebody was faster. The watch may not bring us back here: a change of finalizers is none of our business.
            Err(error) if error.is_conflict() => Ok(Some(OVERTAKEN)),
            other => other.map(|_| None),
        }
    }
}

/// The merge patch that turns `before` into `after`: what is gone is named.
fn replacing(before: Option<&CloneSetStatus>, after: &CloneSetStatus) -> Value {
    let before = before.map_or(Value::Null, |it| json!(it));
    let mut patch = json!(after);
    if let (Some(old), Some(new)) = (before.as_object(), patch.as_object_mut()) {
        for key in old.keys() {
            new.entry(key.clone()).or_insert(Value::Null);
        }
    }
    patch
}
