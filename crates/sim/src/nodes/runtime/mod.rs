//! The container runtime of a node, in the process: what the kubelet's containers look like from below.
//!
//! Whoever shares a node with a kubelet (a daemon) talks to [`Runtime`]: it lists and stops containers, runs commands in
//! them, and pulls images from the world's [registries](crate::images). The kubelet uses the same images, sees containers
//! that were stopped, and starts them again as their pod says. Calls are entries of the agenda, like requests to API
//! servers, so that they happen in the same order in every run of a seed.

mod exec;
mod pull;
mod view;

use std::{fmt, sync::Arc, time::Duration};

use tokio::sync::oneshot;

pub(super) use exec::Programs;
pub use exec::{Command, Ran};
pub use view::{Container, ContainerState, Image};

use self::view::Found;
use super::{Nodes, kubelet};
use crate::{
    images::{Login, Refusal, full},
    world::{Member, Shared, World, lock},
};

/// How long a call takes to reach the runtime.
const CALL: Duration = Duration::from_millis(1);

/// Exit codes of programs that end at the first signal, and of those that are killed.
const TERMINATED: i32 = 143;
const KILLED: i32 = 137;

/// A handle to the runtime of one node.
#[derive(Clone)]
pub struct Runtime {
    world: World,
    member: Arc<Member>,
    node: String,
}

/// Something that was done to a container through its runtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Act {
    /// When.
    pub at: Duration,
    /// The pod's name.
    pub pod: String,
    /// The container's name.
    pub container: String,
    /// What.
    pub what: Did,
}

/// What was done to a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Did {
    /// A command began.
    Exec(Vec<String>),
    /// A command ended with this code.
    ExecEnded(i32),
    /// It was asked to stop within this time.
    Stop(Duration),
    /// It has stopped.
    Stopped,
}

impl World {
    /// The container runtime of a node. A name that does not exist is a mistake in the test.
    pub fn runtime(&self, cluster: &str, node: &str) -> Runtime {
        let member = self.cluster(cluster);
        let is_known = lock(&member.nodes).entries.contains_key(node);
        assert!(is_known, "there is no node named {node} in {cluster}");
        Runtime { world: self.clone(), member, node: node.to_owned() }
    }

    /// What commands do in the containers of a cluster, from now on.
    pub fn set_programs(&self, cluster: &str, run: impl Fn(&Command<'_>) -> Ran + Send + Sync + 'static) {
        lock(&self.cluster(cluster).nodes).programs = Programs::new(run);
    }
}

impl Runtime {
    /// Containers in any state: those that run, and what is left of the ones before them.
    pub async fn containers(&self) -> Vec<Container> {
        let node = self.node.clone();
        self.call("list containers", move |_, world, member| view::containers(world, member, &node)).await
    }

    /// The images of the node.
    pub async fn images(&self) -> Vec<Image> {
        let node = self.node.clone();
        self.call("list images", move |_, _, member| view::images(&lock(&member.nodes), &node)).await
    }

    /// The address of a sandbox; none if it uses the host's network.
    pub async fn address(&self, sandbox: &str) -> Result<Option<String>, Refusal> {
        let (node, sandbox) = (self.node.clone(), sandbox.to_owned());
        self.call("status of sandbox", move |_, _, member| view::address(member, &node, &sandbox)).await
    }

    /// Downloads an image from its registry. Dropping the future gives the download up.
    pub async fn pull(&self, image: &str, login: Option<Login>) -> Result<(), Refusal> {
        let image = full(image);
        let what = format!("pull {image}");
        let (node, wanted) = (self.node.clone(), image.clone());
        let begin = move |now: Duration, world: &Arc<Shared>, member: &Arc<Member>| {
            pull::begin(world, member, &node, &wanted, login.as_ref(), now)
        };
        let ticket = self.call(&what, begin).await?;
        let (node, stub, takes) = (self.node.clone(), ticket.stub(), ticket.takes);
        let end = move |now: Duration, world: &Arc<Shared>, member: &Arc<Member>| {
            pull::end(world, member, &node, &image, &stub, now);
        };
        self.after(takes, &what, end).await;
        // Until here: who does not wait for the end has given the download up.
        drop(ticket);
        Ok(())
    }

    /// Takes an image off the node; one that is not there is fine.
    pub async fn remove_image(&self, image: &str) {
        let (node, image) = (self.node.clone(), full(image));
        let remove = move |_: Duration, _: &Arc<Shared>, member: &Arc<Member>| {
            if let Some(entry) = lock(&member.nodes).entries.get_mut(&node) {
                entry.images.remove(&image);
            }
        };
        self.call("remove image", remove).await;
    }

    /// Asks a container to stop, kills it after `grace`, and waits for its end. One that has ended is fine.
    pub async fn stop(&self, id: &str, grace: Duration) -> Result<(), Refusal> {
        let what = format!("stop {id}");
        let (node, container) = (self.node.clone(), id.to_owned());
        let begin = move |now: Duration, world: &Arc<Shared>, member: &Arc<Member>| {
            begin_stop(world, member, &node, &container, grace, now)
        };
        let Some(left) = self.call(&what, begin).await? else { return Ok(()) };
        let (node, container) = (self.node.clone(), id.to_owned());
        let end = move |now: Duration, world: &Arc<Shared>, member: &Arc<Member>| {
            note(world, member, &node, &container, now, Did::Stopped);
        };
        self.after(left, &what, end).await;
        Ok(())
    }

    /// Runs a command in a container and waits for its end.
    pub async fn exec(&self, id: &str, command: Vec<String>) -> Result<Ran, Refusal> {
        let what = format!("exec {id} {}", command.join(" "));
        let (node, container) = (self.node.clone(), id.to_owned());
        let begin = move |now: Duration, world: &Arc<Shared>, member: &Arc<Member>| {
            exec::begin(world, member, &node, &container, command, now)
        };
        let ran: Ran = self.call(&what, begin).await?;
        let takes = ran.takes;
        let (node, container) = (self.node.clone(), id.to_owned());
        let end = move |now: Duration, world: &Arc<Shared>, member: &Arc<Member>| {
            exec::end(world, member, &node, &container, ran, now)
        };
        Ok(self.after(takes, &what, end).await)
    }

    /// What was done to containers through this runtime so far.
    pub fn acts(&self) -> Vec<Act> {
        let nodes = lock(&self.member.nodes);
        nodes.entries.get(&self.node).map(|it| it.acts.clone()).unwrap_or_default()
    }

    /// Does something when the call has arrived, and gives the answer.
    async fn call<T: Send + 'static>(
        &self,
        what: &str,
        work: impl FnOnce(Duration, &Arc<Shared>, &Arc<Member>) -> T + Send + 'static,
    ) -> T {
        self.after(CALL, what, work).await
    }

    async fn after<T: Send + 'static>(
        &self,
        delay: Duration,
        what: &str,
        work: impl FnOnce(Duration, &Arc<Shared>, &Arc<Member>) -> T + Send + 'static,
    ) -> T {
        let (sender, receiver) = oneshot::channel();
        let shared = &self.world.shared;
        let rank = self.member.server().seed().of("runtime").of(&self.node).of(what).bits();
        let (due, member) = (shared.clock.elapsed().saturating_add(delay), self.member.clone());
        shared.agenda.add(due, rank, Some(self.member.clone()), move |world| {
            // Who no longer waits has given up; what the answer holds ends with it.
            let _ = sender.send(work(world.clock.elapsed(), world, &member));
        });
        match receiver.await {
            Ok(answer) => answer,
            // The world has ended.
            Err(_) => std::future::pending().await,
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Runtime").field(&self.node).finish()
    }
}

/// Begins to stop a container and says how long that takes; none if it has ended before.
fn begin_stop(
    world: &Arc<Shared>,
    member: &Arc<Member>,
    node: &str,
    id: &str,
    grace: Duration,
    now: Duration,
) -> Result<Option<Duration>, Refusal> {
    let mut nodes = lock(&member.nodes);
    let Nodes { behaviour, seed, runs, .. } = &mut *nodes;
    let Found { uid, container } = view::find(runs, node, id).ok_or_else(|| gone(id))?;
    if !view::is(container.id.as_deref(), id) {
        return Ok(None);
    }
    let takes = container.stop_time(behaviour, seed.of("pod").of(&uid));
    let (takes, code) = if takes <= grace { (takes, TERMINATED) } else { (grace, KILLED) };
    let Some(end) = container.exit_at(now.saturating_add(takes), code) else { return Ok(None) };
    drop(nodes);
    note(world, member, node, id, now, Did::Stop(grace));
    let left = end.saturating_sub(now);
    kubelet::wake(world, member, &uid, left.saturating_add(CALL));
    Ok(Some(left))
}

/// Writes down what was done to a container.
fn note(world: &Arc<Shared>, member: &Arc<Member>, node: &str, id: &str, now: Duration, what: Did) {
    let mut nodes = lock(&member.nodes);
    let Nodes { runs, entries, .. } = &mut *nodes;
    let Some((pod, container)) = view::names(runs, node, id) else { return };
    let Some(entry) = entries.get_mut(node) else { return };
    let cluster = member.server().name();
    world.write_log(format_args!("{cluster} runtime {node} {pod}/{container} {what:?}"));
    entry.acts.push(Act { at: now, pod, container, what });
}

fn gone(id: &str) -> Refusal {
    Refusal::new("NotFound", format!("an error occurred when try to find container {id:?}: not found"))
}
