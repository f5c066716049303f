//! The kubelet: brings a pod's containers to what its spec says, and says in its status how far that is.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    Behaviour, Due, Nodes,
    containers::{ContainerRun, Pull, Restart, State, Surroundings},
    scheduler::Request,
    sooner, status,
    supply::Supply,
};
use crate::{
    images::full,
    seed::Seed,
    server::{Cluster, object::Stored},
    world::{Member, Shared, lock},
};

/// A pod as its node runs it.
#[derive(Debug)]
pub(super) struct PodRun {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) node: String,
    pub(super) address: String,
    pub(super) request: Request,
    pub(super) started: Option<String>,
    pub(super) init: Vec<ContainerRun>,
    pub(super) containers: Vec<ContainerRun>,
    /// When its containers are gone, once it is being deleted.
    ends: Due,
    /// The moment of the wake-up that counts; earlier ones were overtaken.
    wake: Due,
}

impl PodRun {
    pub(super) fn new(pod: &Stored, node: &str, address: String, request: Request) -> Self {
        Self {
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            node: node.to_owned(),
            address,
            request,
            started: None,
            init: Vec::new(),
            containers: Vec::new(),
            ends: None,
            wake: None,
        }
    }

    pub(super) fn all_started(&self) -> bool {
        self.containers.iter().all(|it| {
            !matches!(
                it.state,
                State::New
                    | State::Pulling { .. }
                    | State::Creating { .. }
                    | State::Unpulled { .. }
                    | State::Refused { .. }
                    | State::NoImage { .. }
            ) || it.restarts > 0
        })
    }
}

/// Has a pod looked at after a while, unless that happens sooner anyway.
pub(super) fn wake(world: &Arc<Shared>, member: &Arc<Member>, uid: &str, delay: Duration) {
    let due = world.clock.elapsed().saturating_add(delay);
    let mut nodes = lock(&member.nodes);
    let Some(run) = nodes.runs.get_mut(uid) else { return };
    if run.wake.is_some_and(|it| it <= due) {
        return;
    }
    run.wake = Some(due);
    drop(nodes);
    let uid: Box<str> = uid.into();
    world.later(member, delay, move |world, member| {
        let mut nodes = lock(&member.nodes);
        let Some(run) = nodes.runs.get_mut(&uid) else { return };
        if run.wake != Some(due) {
            return;
        }
        run.wake = None;
        drop(nodes);
        sync(world, member, &uid);
    });
}

/// Makes a container exit.
pub(super) fn exit(world: &Arc<Shared>, member: &Arc<Member>, pod: &str, container: &str, code: i32) {
    let now = world.clock.elapsed();
    change(world, member, pod, container, |it| it.make_exit(now, code));
}

/// Sets a container's readiness.
pub(super) fn set_ready(world: &Arc<Shared>, member: &Arc<Member>, pod: &str, container: &str, ready: bool) {
    change(world, member, pod, container, |it| it.forced_ready = Some(ready));
}

fn change(
    world: &Arc<Shared>,
    member: &Arc<Member>,
    pod: &str,
    container: &str,
    change: impl FnOnce(&mut ContainerRun),
) {
    let mut nodes = lock(&member.nodes);
    let Some((uid, run)) = nodes.runs.iter_mut().find(|(_, it)| it.name == pod) else { return };
    let uid = uid.clone();
    if let Some(container) = run.containers.iter_mut().find(|it| it.name == container) {
        change(container);
    }
    drop(nodes);
    wake(world, member, &uid, Duration::from_millis(1));
}

/// What has to be written after a look at a pod.
struct Outcome {
    status: Value,
    finished: bool,
    next: Due,
}

/// One look at a pod.
fn sync(world: &Arc<Shared>, member: &Arc<Member>, uid: &str) {
    let server = member.server();
    let now = world.clock.elapsed();
    let time = server.clock().now();
    let (path, pod, outcome) = {
        let mut nodes = lock(&member.nodes);
        let Some(run) = nodes.runs.get(uid) else { return };
        if nodes.entries.get(&run.node).is_none_or(|it| it.lost) {
            return;
        }
        let stored = server.get("pods", &run.namespace, &run.name).filter(|it| *it.uid == *uid);
        let Some(stored) = stored else {
            nodes.forget(uid, now);
            return;
        };
        let pod = stored.value();
        let path = format!("/api/v1/namespaces/{}/pods/{}", run.namespace, run.name);
        let outcome = nodes.look(uid, &pod, (world, server), now, time);
        (path, pod, outcome)
    };
    let Some(Outcome { status, finished, next }) = outcome else { return };
    if status != pod["status"] {
        let phase = status["phase"].as_str().unwrap_or_default();
        world.write_log(format_args!("{} kubelet {} {phase}", server.name(), &path[19..]));
        let mut object = pod.clone();
        object["status"] = status;
        let _ = server.write(Method::PUT, &format!("{path}/status"), &object);
    }
    if finished {
        let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
        let _ = server.write(Method::DELETE, &path, &options);
        return;
    }
    if let Some(next) = next {
        wake(world, member, uid, next.saturating_sub(now).max(Duration::from_millis(1)));
    }
}

impl Nodes {
    fn look(
        &mut self,
        uid: &str,
        pod: &Value,
        (world, server): (&Shared, &Cluster),
        now: Duration,
        time: Timestamp,
    ) -> Option<Outcome> {
        let wall = &crate::time::seconds(time);
        let run = self.runs.get_mut(uid)?;
        let images = &mut self.entries.get_mut(&run.node)?.images;
        let seed = self.seed.of("pod").of(uid);
        run.started.get_or_insert_with(|| wall.to_owned());
        let node = run.node.clone();
        let supply = Supply { world, server, node: &node, pod };
        let mut look = Look { behaviour: &self.behaviour, seed, images, supply, pod, now, wall, time };
        Some(if !pod["metadata"]["deletionTimestamp"].is_null() {
            look.wind_down(run)
        } else if status::end_of(pod).is_some() {
            look.stop_the_rest(run)
        } else {
            look.go_on(run)
        })
    }
}

/// One look at a pod and what is around it.
struct Look<'a> {
    behaviour: &'a Behaviour,
    seed: Seed,
    /// What the node has pulled.
    images: &'a mut BTreeSet<String>,
    supply: Supply<'a>,
    pod: &'a Value,
    now: Duration,
    wall: &'a str,
    /// The same as a time.
    time: Timestamp,
}

impl Look<'_> {
    /// Brings the containers of a pod up, or to a new image.
    fn go_on(&mut self, run: &mut PodRun) -> Outcome {
        let (mut next, mut initialized) = (None, true);
        for spec in self.pod["spec"]["initContainers"].as_array().into_iter().flatten() {
            let around = Surroundings { restart: Restart::OnFailure, ..self.around(spec) };
            let (it, image) = place(&mut run.init, spec);
            it.advance(&image, &around);
            // An init container has done its work as soon as it runs, unless its image says how it ends.
            if matches!(&it.state, State::Running { exit: None, .. }) {
                it.make_exit(self.now, 0);
                it.advance(&image, &around);
            }
            next = sooner(next, it.due(self.now));
            self.images.extend(it.take_arrived());
            initialized = matches!(&it.state, State::Done(ended) if ended.code == 0);
            if !initialized {
                break;
            }
        }
        if initialized {
            for spec in self.pod["spec"]["containers"].as_array().into_iter().flatten() {
                let around = self.around(spec);
                let (it, image) = place(&mut run.containers, spec);
                it.advance(&image, &around);
                next = sooner(next, it.due(self.now));
                self.images.extend(it.take_arrived());
            }
        }
        Outcome { status: self.status(run), finished: false, next }
    }

    /// Stops what still runs in a pod that has ended.
    fn stop_the_rest(&mut self, run: &mut PodRun) -> Outcome {
        const TERMINATED: i32 = 143;
        let around = self.around(&Value::Null);
        for container in &mut run.containers {
            container.stop(TERMINATED, &around);
        }
        Outcome { status: self.status(run), finished: false, next: None }
    }

    /// Stops the containers of a pod that is being deleted.
    fn wind_down(&mut self, run: &mut PodRun) -> Outcome {
        let around = self.around(&Value::Null);
        let seconds = self.pod["metadata"]["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
        let grace = Duration::from_secs(seconds);
        let slowest = run
            .containers
            .iter()
            .map(|it| it.stop_time(self.behaviour, self.seed).saturating_add(pre_stop(self.pod, &it.name)))
            .max();
        let ends = run.ends.unwrap_or_else(|| self.now.saturating_add(slowest.unwrap_or_default()));
        // A second delete may have shortened the grace period.
        let ends = ends.min(self.now.saturating_add(grace));
        run.ends = Some(ends);
        if self.now < ends {
            return Outcome { status: self.status(run), finished: false, next: Some(ends) };
        }
        for container in run.containers.iter_mut().chain(&mut run.init) {
            container.stop(0, &around);
        }
        Outcome { status: self.status(run), finished: true, next: None }
    }

    fn status(&self, run: &PodRun) -> Value {
        status::of(self.pod, run, self.now, self.wall, self.behaviour)
    }

    fn around(&self, spec: &Value) -> Surroundings<'_> {
        let seconds = |probe: &str| spec[probe]["initialDelaySeconds"].as_u64().unwrap_or(0);
        let probed = spec["readinessProbe"].is_object() || spec["startupProbe"].is_object();
        let delay = Duration::from_secs(seconds("readinessProbe").max(seconds("startupProbe")));
        let restart = match self.pod["spec"]["restartPolicy"].as_str() {
            Some("Never") => Restart::Never,
            Some("OnFailure") => Restart::OnFailure,
            _ => Restart::Always,
        };
        let pull = match spec["imagePullPolicy"].as_str() {
            Some("Always") => Pull::Always,
            Some("Never") => Pull::Never,
            _ => Pull::IfNotPresent,
        };
        Surroundings {
            behaviour: self.behaviour,
            seed: self.seed,
            now: self.now,
            wall: self.wall,
            time: self.time,
            has_image: self.images.contains(&full(&text(&spec["image"]))),
            pull,
            supply: self.supply,
            probe_delay: probed.then_some(delay),
            restart,
        }
    }
}

/// The run of a container, made when there is none, and the image it should have.
fn place<'a>(runs: &'a mut Vec<ContainerRun>, spec: &Value) -> (&'a mut ContainerRun, String) {
    let (name, image) = (text(&spec["name"]), text(&spec["image"]));
    let index = runs.iter().position(|it| it.name == name).unwrap_or_else(|| {
        runs.push(ContainerRun::new(&name, &image));
        runs.len() - 1
    });
    (&mut runs[index], image)
}

/// How long a container's preStop hook takes: a `sleep` says so, and any other hook counts as quick.
fn pre_stop(pod: &Value, name: &str) -> Duration {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let hook = containers.into_iter().find(|it| it["name"] == name).map(|it| &it["lifecycle"]["preStop"]);
    let Some(hook) = hook else { return Duration::ZERO };
    if let Some(seconds) = hook["sleep"]["seconds"].as_u64() {
        return Duration::from_secs(seconds);
    }
    let words: Vec<&str> =
        hook["exec"]["command"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let line = words.join(" ");
    let sleep = line.split_whitespace().skip_while(|it| *it != "sleep").nth(1);
    Duration::from_secs(sleep.and_then(|it| it.parse().ok()).unwrap_or(0))
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
