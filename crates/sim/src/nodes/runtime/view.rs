//! What a runtime shows of containers and images.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    images::{Refusal, familiar},
    nodes::{
        Nodes,
        containers::{ContainerRun, Made, State},
        kubelet::PodRun,
        status,
    },
    seed::Seed,
    world::{Member, Shared, lock},
};

/// Where a container is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerState {
    /// It runs.
    Running,
    /// It has ended.
    Exited,
}

/// A container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// The runtime's id, without a scheme.
    pub id: String,
    /// The id of its pod's sandbox.
    pub sandbox: String,
    /// Its name in the pod.
    pub name: String,
    /// Where it is in its life.
    pub state: ContainerState,
    /// How often it was started before.
    pub restarts: u32,
    /// When it was made and started.
    pub created: Timestamp,
    /// What the kubelet has written on it.
    pub labels: BTreeMap<String, String>,
    /// What else the kubelet has written on it.
    pub annotations: BTreeMap<String, String>,
}

/// An image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The digest of its configuration.
    pub id: String,
    /// Full references by tag.
    pub tags: Vec<String>,
    /// Full references by digest.
    pub digests: Vec<String>,
}

/// A container that was found by its id.
pub(super) struct Found<'a> {
    pub(super) uid: Box<str>,
    pub(super) container: &'a mut ContainerRun,
}

/// Whether a pod's containerID is the id that the runtime uses.
pub(super) fn is(container_id: Option<&str>, id: &str) -> bool {
    container_id.is_some_and(|it| bare(it) == id)
}

fn bare(container_id: &str) -> &str {
    container_id.split_once("://").map_or(container_id, |(_, id)| id)
}

/// The container that has this id, or had it before its last restart.
pub(super) fn find<'a>(runs: &'a mut BTreeMap<Box<str>, PodRun>, node: &str, id: &str) -> Option<Found<'a>> {
    let here = runs.iter_mut().filter(|(_, run)| run.node == node);
    here.flat_map(|(uid, run)| run.containers.iter_mut().chain(&mut run.init).map(move |it| (uid, it)))
        .find(|(_, it)| has_id(it, id))
        .map(|(uid, container)| Found { uid: uid.clone(), container })
}

/// The names of the pod and the container with this id.
pub(super) fn names(runs: &BTreeMap<Box<str>, PodRun>, node: &str, id: &str) -> Option<(String, String)> {
    let here = runs.values().filter(|run| run.node == node);
    here.flat_map(|run| run.containers.iter().chain(&run.init).map(move |it| (run, it)))
        .find(|(_, it)| has_id(it, id))
        .map(|(run, it)| (run.name.clone(), it.name.clone()))
}

fn has_id(container: &ContainerRun, id: &str) -> bool {
    let last = container.last.as_ref().and_then(|it| it.id.as_deref());
    is(container.id.as_deref(), id) || is(last, id)
}

/// Every container of a node.
pub(super) fn containers(world: &Arc<Shared>, member: &Arc<Member>, node: &str) -> Vec<Container> {
    let server = member.server();
    let now = world.clock.elapsed();
    let nodes = lock(&member.nodes);
    let mut all = Vec::new();
    for (uid, run) in nodes.runs.iter().filter(|(_, it)| it.node == node) {
        let Some(pod) = server.get("pods", &run.namespace, &run.name).filter(|it| it.uid == *uid) else {
            continue;
        };
        let pod = pod.value();
        for (list, runs) in [("initContainers", &run.init), ("containers", &run.containers)] {
            for container in runs {
                let specs = pod["spec"][list].as_array().into_iter().flatten();
                let spec = specs.into_iter().find(|it| it["name"] == container.name.as_str());
                let make = |it: Life| it.show(uid, run, container, &pod, spec.unwrap_or(&Value::Null));
                all.extend(lives(container, now).into_iter().map(make));
            }
        }
    }
    all
}

/// One run of a container from its start to its end.
struct Life {
    id: String,
    state: ContainerState,
    restarts: u32,
    made: Made,
}

/// The run that a container is in, and the one before it.
fn lives(container: &ContainerRun, elapsed: Duration) -> Vec<Life> {
    let life = |id: &Option<String>, made: &Option<Made>, state, restarts| {
        let id = bare(id.as_deref()?).to_owned();
        Some(Life { id, state, restarts, made: made.clone()? })
    };
    let over = |due: Duration| match due <= elapsed {
        true => ContainerState::Exited,
        false => ContainerState::Running,
    };
    let restarts = container.restarts;
    let here = |state| life(&container.id, &container.made, state, restarts);
    let (now, before) = match &container.state {
        State::Running { exit, .. } => {
            let state = exit.map_or(ContainerState::Running, |(at, _)| over(at));
            (here(state), restarts.saturating_sub(1))
        }
        State::Replacing { until, .. } => (here(over(*until)), restarts.saturating_sub(1)),
        State::Done(_) => (here(ContainerState::Exited), restarts.saturating_sub(1)),
        State::Waiting { .. } => (None, restarts),
        State::New
        | State::Pulling { .. }
        | State::Creating { .. }
        | State::Unpulled { .. }
        | State::Refused { .. }
        | State::NoImage { .. } => (None, restarts.saturating_sub(1)),
    };
    let last = container.last.as_ref().filter(|it| now.is_none() || it.id != container.id);
    let last = last.and_then(|it| life(&it.id, &it.made, ContainerState::Exited, before));
    now.into_iter().chain(last).collect()
}

impl Life {
    fn show(self, uid: &str, run: &PodRun, container: &ContainerRun, pod: &Value, spec: &Value) -> Container {
        let Self { id, state, restarts, made: Made { image, created } } = self;
        let labels = [
            ("io.kubernetes.pod.uid", uid),
            ("io.kubernetes.pod.name", run.name.as_str()),
            ("io.kubernetes.pod.namespace", run.namespace.as_str()),
            ("io.kubernetes.container.name", container.name.as_str()),
        ];
        let hash = Seed::new(0).of(&container.name).of(&image).bits() >> 32;
        let mut annotations = BTreeMap::from([
            ("io.kubernetes.container.hash".to_owned(), format!("{hash:x}")),
            ("io.kubernetes.container.restartCount".to_owned(), restarts.to_string()),
        ]);
        let written = [
            ("io.kubernetes.pod.terminationGracePeriod", &pod["spec"]["terminationGracePeriodSeconds"]),
            ("io.kubernetes.pod.deletionGracePeriod", &pod["metadata"]["deletionGracePeriodSeconds"]),
            ("io.kubernetes.container.preStopHandler", &spec["lifecycle"]["preStop"]),
            ("io.kubernetes.container.ports", &spec["ports"]),
        ];
        let written = written.into_iter().filter(|(_, it)| !it.is_null());
        annotations.extend(written.map(|(key, it)| (key.to_owned(), it.to_string())));
        Container {
            id,
            sandbox: sandbox(uid),
            name: container.name.clone(),
            state,
            restarts,
            created,
            labels: labels.into_iter().map(|(key, it)| (key.to_owned(), it.to_owned())).collect(),
            annotations,
        }
    }
}

/// The images of a node.
pub(super) fn images(nodes: &Nodes, node: &str) -> Vec<Image> {
    let names = nodes.entries.get(node).into_iter().flat_map(|it| &it.images);
    names
        .map(|name| {
            let short = familiar(name);
            let digest = status::image_id(short, &nodes.behaviour);
            let digest = digest.rsplit_once('@').map_or(digest.as_str(), |(_, it)| it).to_owned();
            let seed = Seed::new(0).of("configuration").of(&digest);
            let id: String = (0..4).map(|it| format!("{:016x}", seed.at(it).bits())).collect();
            let (tags, repository) = match name.split_once('@') {
                Some((repository, _)) => (Vec::new(), repository),
                None => (vec![name.clone()], name.rsplit_once(':').map_or(name.as_str(), |(it, _)| it)),
            };
            Image { id: format!("sha256:{id}"), tags, digests: vec![format!("{repository}@{digest}")] }
        })
        .collect()
}

/// The address of a sandbox.
pub(super) fn address(member: &Member, node: &str, id: &str) -> Result<Option<String>, Refusal> {
    let nodes = lock(&member.nodes);
    let here = nodes.runs.iter().find(|(uid, run)| run.node == node && sandbox(uid) == id);
    let Some((_, run)) = here else {
        return Err(Refusal::new("NotFound", format!("an error occurred when try to find sandbox {id:?}")));
    };
    let pod = member.server().get("pods", &run.namespace, &run.name).map(|it| it.value());
    let is_host = pod.is_some_and(|it| it["spec"]["hostNetwork"] == true);
    Ok((!is_host).then(|| run.address.clone()))
}

fn sandbox(uid: &str) -> String {
    let seed = Seed::new(0).of("sandbox").of(uid);
    (0..4).map(|it| format!("{:016x}", seed.at(it).bits())).collect()
}
