//! Pods over the fleet, as they are stored.

use serde::Deserialize;
use sim::World;

use super::{LATE, MEMBERS};

/// A pod that is not on its way out.
#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) cluster: &'static str,
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) is_ready: bool,
}

/// What is read of a stored pod. These are read after every write: whole trees would be most of what a test costs.
#[derive(Deserialize)]
struct Stored {
    metadata: Metadata,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: String,
    deletion_timestamp: Option<String>,
}

#[derive(Deserialize)]
struct Spec {
    containers: Vec<Container>,
}

#[derive(Deserialize)]
struct Container {
    #[serde(default)]
    image: String,
}

#[derive(Deserialize, Default)]
struct Status {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Deserialize)]
struct Condition {
    r#type: String,
    status: String,
}

/// The members that are there now.
pub(crate) fn present(world: &World) -> Vec<&'static str> {
    let clusters = world.clusters();
    let is_there = |name: &&str| clusters.iter().any(|it| it.server().name() == *name);
    MEMBERS.into_iter().chain([LATE]).filter(is_there).collect()
}

/// The pods of a member.
pub(crate) fn pods_of(world: &World, cluster: &'static str) -> Vec<Pod> {
    let stored = world.cluster(cluster).server().list("pods");
    let pods = stored.iter().filter_map(|it| {
        let Stored { metadata, spec, status } = it.read().unwrap();
        metadata.deletion_timestamp.is_none().then(|| Pod {
            cluster,
            name: metadata.name,
            image: spec.containers.into_iter().next().map(|it| it.image).unwrap_or_default(),
            is_ready: status.conditions.iter().any(|it| it.r#type == "Ready" && it.status == "True"),
        })
    });
    pods.collect()
}

/// The pods of all members.
pub(crate) fn all_pods(world: &World) -> Vec<Pod> {
    present(world).into_iter().flat_map(|it| pods_of(world, it)).collect()
}
