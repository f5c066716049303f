//! Beginning an update.

use std::collections::BTreeMap;

use serde_json::json;

use super::{
    Context, batches,
    body::Body,
    grace,
    resize::restarts,
    spec::UpdateSpec,
    state::{UpdateState, whole_seconds},
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
pub fn update(pod: &PodLite, spec: &UpdateSpec, start: &Start<'_>, ctx: &Context) -> Vec<PodPatch> {
    let mut state = UpdateState {
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
