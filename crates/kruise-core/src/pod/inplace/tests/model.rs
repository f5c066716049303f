//! Random updates against a small kubelet: they end, they end right, and priorities hold on the way.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::{STATE, at, barrier, condition, env_from, pod, read, send, state, time};
use crate::pod::{
    inplace::{
        Context, Refresh, Start, UpdateSpec, UpdateState,
        hashes::{expected_env_hash, plain_hash},
        is_complete, refresh,
        state::{RefMetadata, Resources},
        update,
    },
    patch::PodPatch,
};

/// One container, and what the update does to it.
#[derive(Debug, Clone)]
struct Shape {
    priority: Option<i64>,
    /// Which of two labels it reads.
    reads: Option<usize>,
    image: NewImage,
    resized: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum NewImage {
    Same,
    OtherDigest,
    /// A new name for the same digest, which the runtime reports by the new or by the old name.
    SameDigest {
        keeps_name: bool,
    },
}

/// Everything that is left to chance.
#[derive(Debug, Clone)]
struct Chance {
    shapes: Vec<Shape>,
    labels_change: [bool; 2],
    grace: i32,
    daemon: bool,
    vertical: bool,
    server_resizes: bool,
    /// Seconds between looks, which container kubelet turns to, and after how many patches the controller dies.
    rhythm: Vec<(i64, usize, usize)>,
}

fn shape() -> impl Strategy<Value = Shape> {
    let image = prop_oneof![
        Just(NewImage::Same),
        Just(NewImage::OtherDigest),
        any::<bool>().prop_map(|keeps_name| NewImage::SameDigest { keeps_name }),
    ];
    (prop::option::of(0i64..3), prop::option::of(0usize..2), image, any::<bool>())
        .prop_map(|(priority, reads, image, resized)| Shape { priority, reads, image, resized })
}

fn chance() -> impl Strategy<Value = Chance> {
    let rhythm = prop::collection::vec((0i64..4, 0usize..4, 0usize..4), 1..20);
    (prop::collection::vec(shape(), 1..5), any::<[bool; 2]>(), 0i32..8, any::<[bool; 3]>(), rhythm).prop_map(
        |(shapes, labels_change, grace, [daemon, vertical, server_resizes], rhythm)| Chance {
            shapes,
            labels_change,
            grace,
            daemon,
            vertical,
            server_resizes,
            rhythm,
        },
    )
}

/// What really runs in a container.
#[derive(Debug, Clone)]
struct Running {
    image: String,
    label: String,
    cpu: String,
    started: i64,
    starts: u32,
    ready: bool,
}

struct World {
    chance: Chance,
    pod: Value,
    running: Vec<Running>,
    seconds: i64,
}

impl World {
    fn new(chance: Chance) -> Self {
        let containers = chance.shapes.iter().enumerate().map(|(index, shape)| {
            let mut env = Vec::new();
            env.extend(shape.priority.map(barrier));
            env.extend(shape.reads.map(|it| env_from("E", &format!("metadata.labels['l{it}']"))));
            let resources = json!({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}});
            let spec = json!({"name": name(index), "image": "i:1", "env": env, "resources": resources});
            (spec, json!({"name": name(index)}))
        });
        let mut pod = pod(containers.collect());
        pod["metadata"]["labels"]["l0"] = json!("old");
        pod["metadata"]["labels"]["l1"] = json!("old");
        let first = Running {
            image: "i:1".into(),
            label: "old".into(),
            cpu: "2".into(),
            started: -100,
            starts: 0,
            ready: true,
        };
        let running = vec![first; chance.shapes.len()];
        let mut world = Self { chance, pod, running, seconds: 0 };
        world.report();
        world
    }

    fn ctx(&self) -> Context {
        let Chance { vertical, server_resizes, .. } = self.chance;
        Context { vertical_scaling: vertical, server_resizes, ..at(self.seconds) }
    }

    fn spec(&self) -> UpdateSpec {
        let mut spec = UpdateSpec {
            revision: "set-new".into(),
            grace_seconds: self.chance.grace,
            ..UpdateSpec::default()
        };
        for (index, shape) in self.chance.shapes.iter().enumerate() {
            if shape.image != NewImage::Same {
                spec.container_images.insert(name(index), "i:2".into());
            }
            if let Some(label) = shape.reads.filter(|it| self.chance.labels_change[*it] && self.chance.daemon)
            {
                let labels = BTreeMap::from([(format!("l{label}"), "new".to_owned())]);
                spec.container_ref_metadata
                    .insert(name(index), RefMetadata { labels, ..RefMetadata::default() });
                spec.update_env_from_metadata = true;
            }
            if shape.resized && self.chance.vertical {
                let limits = BTreeMap::from([("cpu".to_owned(), "3".to_owned())]);
                spec.container_resources.insert(name(index), Resources { limits, ..Resources::default() });
            }
        }
        spec
    }

    /// Sends the first patches only, as if the controller had died then. Whether all were sent.
    fn send_some(&mut self, patches: &[PodPatch], dies_after: usize) -> bool {
        let sent = patches.len().min(dies_after);
        send(&mut self.pod, &patches[..sent]);
        sent == patches.len()
    }

    fn container(&self, index: usize) -> &Value {
        &self.pod["spec"]["containers"][index]
    }

    fn label(&self, index: usize) -> String {
        let label = self.chance.shapes[index].reads;
        label.map_or("old".into(), |it| {
            self.pod["metadata"]["labels"][format!("l{it}")].as_str().unwrap().into()
        })
    }

    fn runs_what_it_should(&self, index: usize) -> bool {
        let running = &self.running[index];
        running.image == self.container(index)["image"]
            && (running.label == self.label(index) || !self.chance.daemon)
            && running.cpu == self.container(index)["resources"]["limits"]["cpu"]
    }

    /// Kubelet does one thing, to the container it turns to.
    fn kubelet(&mut self, turn: usize) {
        let index = turn % self.running.len();
        let label = self.label(index);
        let drained = condition(&self.pod, "InPlaceUpdateReady")["status"] == "False";
        let (image, cpu) = (
            self.container(index)["image"].as_str().unwrap().to_owned(),
            self.container(index)["resources"]["limits"]["cpu"].as_str().unwrap().to_owned(),
        );
        let (seconds, daemon) = (self.seconds, self.chance.daemon);
        let running = &mut self.running[index];
        running.cpu = cpu;
        if running.image != image || (daemon && drained && running.label != label) {
            let starts = running.starts + 1;
            *running = Running { image, label, started: seconds, starts, ready: false, ..running.clone() };
        } else {
            running.ready = true;
        }
        self.report();
    }

    /// Kubelet and daemon write down what they see.
    fn report(&mut self) {
        let mut reports = Vec::new();
        for (index, running) in self.running.iter().enumerate() {
            let (named, digest) = match (self.chance.shapes[index].image, running.image.as_str()) {
                (NewImage::OtherDigest, "i:2") => ("i:2", "sha:2"),
                (NewImage::SameDigest { keeps_name: false }, "i:2") => ("i:2", "sha:1"),
                _ => ("i:1", "sha:1"),
            };
            let id = format!("{index}-{}", running.starts);
            self.pod["status"]["containerStatuses"][index] = json!({
                "name": name(index), "image": named, "imageID": digest, "containerID": id, "ready": running.ready,
                "restartCount": running.starts, "state": {"running": {"startedAt": time(running.started)}},
                "resources": {"limits": {"cpu": running.cpu}, "requests": {"cpu": "1"}},
            });
            let labels = ["l0", "l1"].map(|it| (it.to_owned(), running.label.clone())).into();
            let env = self.pod["spec"]["containers"][index]["env"].as_array().unwrap();
            reports.push(json!({
                "name": name(index), "containerID": id, "restartCount": running.starts,
                "hashes": {
                    "plainHash": plain_hash(&name(index), &running.image),
                    "extractedEnvFromMetadataHash": expected_env_hash(env, &labels, &BTreeMap::new()),
                },
            }));
        }
        if self.chance.daemon {
            self.pod["metadata"]["annotations"]["apps.kruise.io/runtime-containers-meta"] =
                json!(json!({"containers": reports}).to_string());
        }
    }
}

fn name(index: usize) -> String {
    format!("c{index}")
}

/// Whoever changed in an earlier batch runs and is ready before others change.
fn check_batches(world: &World, before: &UpdateState) -> Result<(), TestCaseError> {
    let after = state(&world.pod);
    if after.container_batches_record.len() > before.container_batches_record.len() {
        for done in before.container_batches_record.iter().flat_map(|it| &it.containers) {
            let index: usize = done[1..].parse().unwrap();
            let running = &world.running[index];
            prop_assert!(
                running.ready && running.image == *world.container(index)["image"].as_str().unwrap(),
                "{done}"
            );
        }
    }
    Ok(())
}

/// Whoever shares no label with others changes strictly in the order of priorities, and everybody exactly once.
fn check_order(world: &World, spec: &UpdateSpec) -> Result<(), TestCaseError> {
    let mut batch_of = BTreeMap::new();
    for (batch, record) in state(&world.pod).container_batches_record.iter().enumerate() {
        for container in &record.containers {
            prop_assert_eq!(batch_of.insert(container.clone(), batch), None);
        }
    }
    let touched: BTreeSet<&String> = spec
        .container_images
        .keys()
        .chain(spec.container_ref_metadata.keys())
        .chain(spec.container_resources.keys())
        .collect();
    prop_assert_eq!(batch_of.keys().collect::<BTreeSet<_>>(), touched);
    let alone = |it: &&String| !spec.container_ref_metadata.contains_key(*it);
    for (a, b) in
        batch_of.keys().filter(alone).flat_map(|a| batch_of.keys().filter(alone).map(move |b| (a, b)))
    {
        let priority = |it: &str| world.chance.shapes[it[1..].parse::<usize>().unwrap()].priority;
        match (priority(a), priority(b)) {
            (Some(first), Some(second)) if first > second => prop_assert!(batch_of[a] < batch_of[b]),
            (None, _) => prop_assert_eq!(batch_of[a], 0),
            _ => {}
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn an_update_always_ends_right_in_the_order_of_priorities_and_then_rests(chance in chance()) {
        let mut world = World::new(chance.clone());
        let spec = world.spec();
        let labels = BTreeMap::from([("controller-revision-hash".to_owned(), "set-new".to_owned())]);
        let start = Start { labels: &labels, state: None };

        // The controller comes back until the pod carries the new revision.
        let mut deaths = chance.rhythm.iter().map(|it| it.2);
        while world.pod["metadata"]["labels"]["controller-revision-hash"] != "set-new" {
            let patches = update(&read(&world.pod), &spec, &start, &world.ctx());
            world.send_some(&patches, deaths.next().unwrap_or(9));
        }

        let mut rhythm = chance.rhythm.iter().cycle().copied();
        let mut looks = 0;
        while !(is_complete(&read(&world.pod), &world.ctx())
            && refresh(&read(&world.pod), &world.ctx()) == Refresh::default())
        {
            looks += 1;
            prop_assert!(looks < 300, "no end: {}", world.pod);
            let (wait, turn, dies_after) = rhythm.next().unwrap();
            world.seconds += wait;
            world.kubelet(turn);
            // It gets round to every container, whatever the numbers.
            world.kubelet(looks);
            let before = state(&world.pod);
            let step = refresh(&read(&world.pod), &world.ctx());
            if world.send_some(&step.patches, if looks < 100 { dies_after } else { 9 }) {
                check_batches(&world, &before)?;
            }
            // Nothing happens until then.
            if let (true, Some(wait)) = (step.patches.is_empty(), step.look_again) {
                world.seconds += i64::try_from(wait.as_secs()).unwrap();
            }
            let written = state(&world.pod);
            prop_assert_eq!(&serde_json::from_str::<UpdateState>(&written.to_text()).unwrap(), &written);
            prop_assert_eq!(&json!(written.to_text()), &world.pod["metadata"]["annotations"][STATE]);
        }

        for index in 0..chance.shapes.len() {
            prop_assert!(world.runs_what_it_should(index), "c{index}: {}", world.pod);
            // Image and environment change with one restart.
            prop_assert!(world.running[index].starts <= 1, "c{index} started {} times", world.running[index].starts);
        }
        prop_assert_eq!(&condition(&world.pod, "InPlaceUpdateReady")["status"], &json!("True"));
        prop_assert_eq!(&world.pod["metadata"]["annotations"]["keep"], &json!("me"));
        check_order(&world, &spec)?;
    }

    #[test]
    fn a_step_is_asked_for_once(chance in chance()) {
        let mut world = World::new(chance);
        let spec = UpdateSpec { grace_seconds: 0, ..world.spec() };
        let labels = BTreeMap::new();
        let patches = update(&read(&world.pod), &spec, &Start { labels: &labels, state: None }, &world.ctx());
        send(&mut world.pod, &patches);
        let mut steps = 0;
        loop {
            let patches = refresh(&read(&world.pod), &world.ctx()).patches;
            if patches.is_empty() {
                break;
            }
            steps += 1;
            // Nobody else moves: at most one step for each container, and the return to rotation.
            prop_assert!(steps <= world.chance.shapes.len() + 1);
            send(&mut world.pod, &patches);
        }
    }
}
