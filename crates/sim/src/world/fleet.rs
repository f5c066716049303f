//! Builders: a hub, members and nodes in one line.

use std::time::Duration;

use serde_json::{Value, json};

use super::World;
use crate::{
    faults::Weather,
    nodes::{Behaviour, NodeShape},
    server::Settings,
};

/// Starts to describe a fleet.
pub fn fleet() -> FleetBuilder {
    FleetBuilder::default()
}

/// What a fleet is made of.
#[derive(Debug, Clone)]
pub struct FleetBuilder {
    members: usize,
    nodes: usize,
    hub: bool,
    seed: u64,
    shape: NodeShape,
    settings: Settings,
    behaviour: Behaviour,
    weather: Weather,
    definitions: Vec<Value>,
    policies: Vec<Value>,
}

impl Default for FleetBuilder {
    fn default() -> Self {
        Self {
            members: 1,
            nodes: 3,
            hub: false,
            seed: 0,
            shape: NodeShape::default(),
            settings: Settings::default(),
            behaviour: Behaviour::default(),
            weather: Weather::calm(),
            definitions: Vec::new(),
            policies: Vec::new(),
        }
    }
}

impl FleetBuilder {
    /// How many member clusters: `member-1`, `member-2`, ...
    pub fn members(self, members: usize) -> Self {
        Self { members, ..self }
    }

    /// How many nodes each member has: `node-1`, `node-2`, ...
    pub fn nodes(self, nodes: usize) -> Self {
        Self { nodes, ..self }
    }

    /// Adds a cluster named `hub`, without nodes.
    pub fn hub(self) -> Self {
        Self { hub: true, ..self }
    }

    /// The seed, for [`Self::run`].
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// What a node can hold.
    pub fn node_shape(self, shape: NodeShape) -> Self {
        Self { shape, ..self }
    }

    /// How the API servers are set.
    pub fn settings(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }

    /// How kubelets and schedulers behave.
    pub fn behaviour(self, behaviour: Behaviour) -> Self {
        Self { behaviour, ..self }
    }

    /// The weather of every link.
    pub fn weather(self, weather: Weather) -> Self {
        Self { weather, ..self }
    }

    /// A CustomResourceDefinition that every cluster gets.
    pub fn define(mut self, crd: Value) -> Self {
        self.definitions.push(crd);
        self
    }

    /// A policy that the hub has from the start: a manifest of any kind that was [defined](Self::define). It goes into the
    /// namespace that it names, which is made with it, and a fleet with a policy has a hub.
    pub fn policy(mut self, manifest: Value) -> Self {
        self.hub = true;
        self.policies.push(manifest);
        self
    }

    /// Builds the fleet in a world.
    pub fn build(self, world: &World) {
        let Self { members, nodes, hub, seed: _, shape, settings, behaviour, weather, definitions, policies } =
            self;
        world.set_weather(weather);
        let mut names: Vec<String> = (1..=members).map(|it| format!("member-{it}")).collect();
        if hub {
            names.push("hub".to_owned());
        }
        for name in names {
            let member = world.add_cluster_with(&name, settings, behaviour.clone());
            for crd in &definitions {
                let defined = member.server().define(crd);
                assert!(defined.is_ok(), "the definition was refused: {defined:?}");
            }
            world.shared.settle(&member);
            if name != "hub" {
                for index in 1..=nodes {
                    world.add_node(&name, &format!("node-{index}"), &shape);
                }
            }
        }
        for policy in &policies {
            create(world, "hub", policy);
        }
    }

    /// Builds the fleet in a fresh world and runs a test there.
    pub fn run<F, T>(self, test: impl FnOnce(World) -> F) -> T
    where
        F: Future<Output = T>,
    {
        let seed = self.seed;
        super::run(seed, |world| {
            self.build(&world);
            test(world)
        })
    }
}

impl World {
    /// How many pods of a cluster are ready.
    pub fn ready_pods(&self, cluster: &str) -> usize {
        let pods = self.cluster(cluster).server().list("pods");
        pods.iter().filter(|it| is_ready(&it.value())).count()
    }

    /// A pod with one container, for tests.
    pub fn create_pod(&self, cluster: &str, name: &str, image: &str) -> Value {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"containers": [{"name": "main", "image": image}]},
        });
        let created = self.write(cluster, http::Method::POST, "/api/v1/namespaces/default/pods", &pod);
        created.unwrap_or_else(|failure| panic!("the pod was refused: {failure:?}"))
    }

    /// Waits until every pod of a cluster is ready.
    pub async fn all_ready(&self, cluster: &str, deadline: Duration) {
        let what = format!("every pod of {cluster} is ready");
        self.eventually(&what, deadline, |world| {
            world.ready_pods(cluster) == world.cluster(cluster).server().count("pods")
        })
        .await;
    }
}

/// Creates what a manifest describes, with its namespace. What is refused is a mistake in the test.
fn create(world: &World, cluster: &str, manifest: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&manifest["apiVersion"]), text(&manifest["kind"]));
    let server = world.cluster(cluster).server().clone();
    let resource = server.state().registry.by_kind(&version, &kind);
    let Some(resource) = resource else { panic!("{cluster} does not know the kind {kind} of {version}") };
    let root = if resource.group.is_empty() { "api" } else { "apis" };
    let inside = if resource.namespaced {
        let namespace = Some(text(&manifest["metadata"]["namespace"])).filter(|it| !it.is_empty());
        let namespace = namespace.unwrap_or_else(|| "default".to_owned());
        if server.get("namespaces", "", &namespace).is_none() {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            let made = world.write(cluster, http::Method::POST, "/api/v1/namespaces", &body);
            assert!(made.is_ok(), "the namespace {namespace} was refused: {made:?}");
        }
        format!("namespaces/{namespace}/")
    } else {
        String::new()
    };
    let path = format!("/{root}/{version}/{inside}{}", resource.plural);
    let created = world.write(cluster, http::Method::POST, &path, manifest);
    assert!(created.is_ok(), "the {kind} was refused: {created:?}");
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
}
