//! New pods: which ids they get, what they look like.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{At, Birth, Version, World};
use crate::{
    api::{cloneset::keys::INSTANCE_ID, common::keys::CONDITION_INPLACE_UPDATE_READY},
    controllers::cloneset::revisions,
    pod::{
        build::{self, Instance},
        claims::{self, ClaimOf},
        state,
    },
};

/// `count` new pods, the first `old` of them at the current revision; fewer while pods on their way out are to be
/// succeeded under their names.
pub(super) fn births(world: &World<'_>, count: i64, old: i64, draw: &mut dyn FnMut() -> u64) -> Vec<Birth> {
    let pods = world.active.iter().map(|it| it.pod).chain(world.inactive).map(|it| &**it);
    let taken = build::taken_ids(pods, name(world), INSTANCE_ID);
    let claims: Vec<_> = world.claims.iter().map(|it| &**it).collect();
    let reusable = claims::reusable_ids(&claims, INSTANCE_ID);
    let count = usize::try_from(count)
        .unwrap_or_default()
        .saturating_sub(awaited(world, &(&reusable - world.occupied)));
    // A pod that may exist already is made again under its name, which is harmless; under another one it might be one
    // too many. The others wait until it is known at which revision it is.
    let doubted: Vec<String> = world.doubts.created.difference(&taken).take(count).cloned().collect();
    let ids = if doubted.is_empty() {
        build::instance_ids(&taken, &(&reusable - world.occupied), count, draw)
    } else {
        doubted
    };
    let at = |index: usize| if (index as i64) < old { At::Current } else { At::Update };
    ids.into_iter().enumerate().map(|(index, id)| Birth { id, at: at(index) }).collect()
}

/// How many pods are on their way out and leave their claims to a successor. It needs their name, so it has to wait until
/// they are gone; a pod with another name in its place would begin without their data.
fn awaited(world: &World<'_>, reusable: &BTreeSet<String>) -> usize {
    let leaving = world.inactive.iter().filter(|it| it.is_terminating());
    let ids: BTreeSet<&String> = leaving.filter_map(|it| it.labels().get(INSTANCE_ID)).collect();
    ids.into_iter().filter(|it| reusable.contains(*it)).count()
}

/// What is sent for a new pod: claims first, then the pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Bodies {
    /// The claims it lacks.
    pub claims: Vec<Value>,
    /// The pod.
    pub pod: Value,
}

/// The names of the claims that exist.
pub fn owned_claims<'a>(world: &World<'a>) -> BTreeSet<&'a str> {
    world.claims.iter().map(|it| it.name()).collect()
}

/// What is sent for `birth`, where the claims named `owned` exist.
pub fn bodies(world: &World<'_>, birth: &Birth, owned: &BTreeSet<&str>) -> Bodies {
    let spec = &world.cloneset.spec;
    let owner = json!(revisions::owner(world.cloneset));
    let namespace = world.cloneset.metadata.namespace.as_deref().unwrap_or_default();
    let none = std::collections::BTreeMap::new();
    let of = ClaimOf {
        workload: name(world),
        namespace,
        owner: &owner,
        selector: spec.selector.match_labels.as_ref().unwrap_or(&none),
        id: &birth.id,
        id_label: INSTANCE_ID,
    };
    let version: &Version = match birth.at {
        At::Current => world.current,
        At::Update => world.update,
    };
    let templates = claim_templates(world, version);
    let instance = Instance {
        workload: name(world),
        namespace,
        owner: &owner,
        id: &birth.id,
        id_label: INSTANCE_ID,
        revision_labels: &state::revision_labels(&version.name, world.options.short_hash),
        readiness_gate: CONDITION_INPLACE_UPDATE_READY,
        claims: &claims::template_names(&templates),
        now: world.now,
    };
    Bodies { claims: claims::lacking(&templates, &of, owned), pod: build::pod(version.template(), &instance) }
}

/// The claim templates for a pod of `version`: those of the CloneSet, and for an older revision also those that have been
/// removed since. Its pods mount them still, and could not be made without (openkruise/kruise#1872).
fn claim_templates(world: &World<'_>, version: &Version) -> Vec<Value> {
    let mut templates = world.cloneset.spec.volume_claim_templates.clone();
    if version.name != world.update.name {
        let known = claims::template_names(&templates);
        let is_removed = |it: &&Value| !known.iter().any(|name| name == claims::template_name(it));
        templates.extend(version.claim_templates.iter().filter(is_removed).cloned());
    }
    templates
}

fn name<'a>(world: &World<'a>) -> &'a str {
    world.cloneset.metadata.name.as_deref().unwrap_or_default()
}
