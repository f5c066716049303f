//! Beginning an update.

use std::collections::BTreeMap;

use serde_json::json;

use super::{
    Context, batches,
    body::Body,
    complete::is_consistent,
    grace,
    resize::restarts,
    spec::UpdateSpec,
    state::{LastStatus, UpdateState, whole_seconds},
};
use crate::{
    api::common::keys,
    pod::{
        lifecycle::{self, State},
        patch::PodPatch,
        readiness,
    },
    runtime::cache::pod::PodLite,
};

/// What a kind writes on its pods when their update begins.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    /// Labels that name the new revision.
    pub labels: &'a BTreeMap<String, String>,
    /// The lifecycle state, for kinds that have one.
    pub state: Option<State>,
}

/// Begins an update. With a grace period the pod only leaves rotation, and [`refresh`](super::refresh()) changes it
/// later; otherwise its first batch of containers changes now. In both cases it counts for the new revision at once.
///
/// What an earlier update has not brought into the pod yet is taken along: the labels already say that it has.
pub fn update(pod: &PodLite, spec: &UpdateSpec, start: &Start<'_>, ctx: &Context) -> Vec<PodPatch> {
    let unfinished = unfinished(pod, ctx);
    let spec = &with_rest(spec, unfinished.as_ref());
    let mut state = UpdateState {
        last_container_statuses: unfinished.and_then(|it| still_awaited(it, spec)),
        revision: spec.revision.clone(),
        update_timestamp: Some(whole_seconds(ctx.now)),
        update_env_from_metadata: spec.update_env_from_metadata,
        update_resources: !spec.container_resources.is_empty(),
        update_images: !spec.container_images.is_empty(),
        ..UpdateState::default()
    };
    let mut body = Body::default();
    let resize = if spec.grace_seconds > 0 {
        grace::begin(pod, spec, &mut body);
        None
    } else {
        let resize = batches::apply(pod, spec, &mut state, ctx, &mut body);
        grace::end(pod, &mut body);
        resize
    };
    // Our own marks come last: a template cannot overwrite them.
    for (key, value) in start.labels {
        body.label(key, value);
    }
    if let Some(lifecycle) = start.state {
        body.merge(&lifecycle::mark(lifecycle, ctx.now));
    }
    record(pod, &state, &mut body);

    // Written even where the pod seems to be out of rotation already; what it seems comes from a cache (kruise#2276).
    let drain = needs_unready(pod, spec, ctx).then(|| {
        let details = json!({"reason": "StartInPlaceUpdate", "message": null});
        readiness::turn_false(pod, keys::CONDITION_INPLACE_UPDATE_READY, details, ctx.now)
    });
    drain.into_iter().chain(resize).chain([body.into_main()]).collect()
}

/// The update that stands on the pod and is not through.
fn unfinished(pod: &PodLite, ctx: &Context) -> Option<UpdateState> {
    UpdateState::of(pod)?.ok().filter(|it| it.has_next() || !is_consistent(pod, it, ctx))
}

/// `spec`, with what `unfinished` has left for later batches where `spec` says nothing newer.
fn with_rest(spec: &UpdateSpec, unfinished: Option<&UpdateState>) -> UpdateSpec {
    let mut spec = spec.clone();
    let Some(before) = unfinished else { return spec };
    for (name, image) in &before.next_container_images {
        spec.container_images.entry(name.clone()).or_insert_with(|| image.clone());
    }
    for (name, resources) in &before.next_container_resources {
        spec.container_resources.entry(name.clone()).or_insert_with(|| resources.clone());
    }
    for (name, metadata) in &before.next_container_ref_metadata {
        let now = spec.container_ref_metadata.entry(name.clone()).or_default();
        for (mine, theirs) in
            [(&mut now.labels, &metadata.labels), (&mut now.annotations, &metadata.annotations)]
        {
            for (key, value) in theirs {
                mine.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }
    spec.update_env_from_metadata |= before.update_env_from_metadata;
    spec
}

/// What ran before in containers that an earlier update has changed and this one does not.
fn still_awaited(unfinished: UpdateState, spec: &UpdateSpec) -> Option<BTreeMap<String, LastStatus>> {
    let mut left = unfinished.last_container_statuses?;
    left.retain(|name, _| !spec.container_images.contains_key(name));
    (!left.is_empty()).then_some(left)
}

/// Whether the pod has to leave rotation for this update. It has if it can, unless only cpu and memory change and no
/// container restarts for that.
pub fn needs_unready(pod: &PodLite, spec: &UpdateSpec, ctx: &Context) -> bool {
    let restarts_nothing = || {
        ctx.vertical_scaling
            && spec.is_resize_only()
            && !pod.spec.containers.iter().any(|container| {
                spec.container_resources.get(&container.name).is_some_and(|it| restarts(container, it))
            })
    };
    readiness::has_gate(pod, keys::CONDITION_INPLACE_UPDATE_READY) && !restarts_nothing()
}

/// Writes the state down, under the key of today only.
pub(super) fn record(pod: &PodLite, state: &UpdateState, body: &mut Body) {
    body.annotation(keys::INPLACE_UPDATE_STATE, &state.to_text());
    if pod.annotations().contains_key(keys::INPLACE_UPDATE_STATE_LEGACY) {
        body.drop_annotation(keys::INPLACE_UPDATE_STATE_LEGACY);
    }
}
