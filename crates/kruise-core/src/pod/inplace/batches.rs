//! Which containers change together, and in which order.

use std::collections::BTreeSet;

use serde_json::json;

use super::{
    Context,
    body::Body,
    env::launch_priority,
    resize::differing,
    spec::UpdateSpec,
    state::{Batch, LastStatus, PreCheck, RefMetadata, UpdateState},
};
use crate::{
    pod::patch::PodPatch,
    runtime::cache::pod::{ContainerLite, PodLite},
};

/// Changes the first batch of `spec` and leaves the rest in `state`. What changes in the pod is put into `body`; the
/// answer is the resize, which has to be sent before.
pub(super) fn apply(
    pod: &PodLite,
    spec: &UpdateSpec,
    state: &mut UpdateState,
    ctx: &Context,
    body: &mut Body,
) -> Option<PodPatch> {
    let chosen = choose(&pod.spec.containers, spec);
    state.next_container_images.clear();
    state.next_container_ref_metadata.clear();
    state.next_container_resources.clear();
    if let Some(patch) = &spec.meta_data_patch {
        body.merge(&patch["metadata"]);
    }

    let mut resize = Body::default();
    for container in &pod.spec.containers {
        let name = &container.name;
        let is_chosen = chosen.contains(name);
        match spec.container_images.get(name) {
            Some(image) if is_chosen => {
                body.container(name, "image", json!(image));
                remember(pod, name, state);
            }
            Some(image) => {
                state.next_container_images.insert(name.clone(), image.clone());
            }
            None => {}
        }
        match spec.container_resources.get(name).filter(|_| ctx.vertical_scaling) {
            Some(resources) if is_chosen => {
                let target = if ctx.server_resizes { &mut resize } else { &mut *body };
                if let Some(resources) = differing(container, resources) {
                    target.container(name, "resources", resources);
                }
            }
            Some(resources) => {
                state.next_container_resources.insert(name.clone(), resources.clone());
            }
            None => {}
        }
    }
    for (name, metadata) in &spec.container_ref_metadata {
        // Of a container that this pod does not have, nothing could ever be waited for.
        if chosen.contains(name) || !pod.spec.containers.iter().any(|it| it.name == *name) {
            merge_metadata(metadata, body);
        } else {
            state.next_container_ref_metadata.insert(name.clone(), metadata.clone());
        }
    }

    let containers: Vec<String> = chosen.into_iter().collect();
    state.pre_check_before_next =
        state.has_next().then(|| PreCheck { containers_required_ready: containers.clone() });
    state
        .container_batches_record
        .push(Batch { timestamp: Some(super::state::whole_seconds(ctx.now)), containers });
    resize.into_resize()
}

/// The containers that change now: those without a launch priority, those of the highest priority, and whoever reads
/// the same labels and annotations as they do, because those can change only once.
pub(super) fn choose(containers: &[ContainerLite], spec: &UpdateSpec) -> BTreeSet<String> {
    let touched: Vec<(&ContainerLite, Option<i64>)> = containers
        .iter()
        .filter(|it| {
            spec.container_images.contains_key(&it.name)
                || spec.container_ref_metadata.contains_key(&it.name)
                || spec.container_resources.contains_key(&it.name)
        })
        .map(|it| (it, launch_priority(it)))
        .collect();
    let highest = touched.iter().filter_map(|it| it.1).max();
    let mut chosen: BTreeSet<String> = touched
        .iter()
        .filter(|(_, priority)| priority.is_none() || *priority == highest)
        .map(|(container, _)| container.name.clone())
        .collect();

    loop {
        let drawn_in: Vec<String> = touched
            .iter()
            .map(|(it, _)| &it.name)
            .filter(|it| !chosen.contains(*it) && chosen.iter().any(|other| shares(spec, it, other)))
            .cloned()
            .collect();
        if drawn_in.is_empty() {
            return chosen;
        }
        chosen.extend(drawn_in);
    }
}

fn shares(spec: &UpdateSpec, a: &str, b: &str) -> bool {
    let (Some(a), Some(b)) = (spec.container_ref_metadata.get(a), spec.container_ref_metadata.get(b)) else {
        return false;
    };
    a.labels.keys().any(|it| b.labels.contains_key(it))
        || a.annotations.keys().any(|it| b.annotations.contains_key(it))
}

/// Notes what ran before, by which the change is recognised later. What was noted first stays.
fn remember(pod: &PodLite, container: &str, state: &mut UpdateState) {
    if let Some(status) = pod.status.container_statuses.iter().find(|it| it.name == container) {
        let statuses = state.last_container_statuses.get_or_insert_default();
        statuses
            .entry(container.into())
            .or_insert_with(|| LastStatus { image_id: status.image_id.to_string() });
    }
}

fn merge_metadata(metadata: &RefMetadata, body: &mut Body) {
    for (key, value) in &metadata.labels {
        body.label(key, value);
    }
    for (key, value) in &metadata.annotations {
        body.annotation(key, value);
    }
}
