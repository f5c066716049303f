//! Processes: closures that can be killed at any moment and start again with empty memory.

use std::{
    fmt,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use tokio::sync::Notify;

use super::{Shared, World, lock, said};
use crate::faults::LinkService;

type Body = dyn Fn(ProcessContext) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// A handle to a running process.
#[derive(Clone)]
pub struct Process {
    state: Arc<ProcessState>,
}

/// One life of a process: what its closure is given.
#[derive(Clone)]
pub struct ProcessContext {
    world: World,
    process: Arc<ProcessState>,
    life: Arc<AtomicBool>,
    /// Which life this is, from 1.
    pub incarnation: u64,
}

#[derive(Debug)]
pub(crate) struct ProcessState {
    name: String,
    writes: AtomicU64,
    starts: AtomicU64,
    crash_at: Mutex<Option<u64>>,
    restart_after: Mutex<Duration>,
    stopped: AtomicBool,
    kill: Notify,
}

/// A process and the life that a link belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Life {
    process: Arc<ProcessState>,
    alive: Arc<AtomicBool>,
}

impl World {
    /// Starts a process. It runs until it is crashed, and then again.
    pub fn process<F>(
        &self,
        name: &str,
        body: impl Fn(ProcessContext) -> F + Send + Sync + 'static,
    ) -> Process
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let state = Arc::new(ProcessState {
            name: name.to_owned(),
            writes: AtomicU64::new(0),
            starts: AtomicU64::new(0),
            crash_at: Mutex::new(None),
            restart_after: Mutex::new(Duration::from_secs(5)),
            stopped: AtomicBool::new(false),
            kill: Notify::new(),
        });
        let body: Box<Body> = Box::new(move |context| Box::pin(body(context)));
        // The task must not keep the world alive by itself.
        let world = Arc::downgrade(&self.shared);
        self.shared.own(tokio::spawn(supervise(world, state.clone(), body)));
        Process { state }
    }
}

async fn supervise(world: std::sync::Weak<Shared>, state: Arc<ProcessState>, body: Box<Body>) {
    while !state.stopped.load(Ordering::Relaxed) {
        let Some(shared) = world.upgrade() else { return };
        let incarnation = state.starts.fetch_add(1, Ordering::Relaxed) + 1;
        shared.write_log(format_args!("process {} starts for the {incarnation}. time", state.name));
        let life = Arc::new(AtomicBool::new(true));
        let context = ProcessContext {
            world: World { shared },
            process: state.clone(),
            life: life.clone(),
            incarnation,
        };
        let running = AssertUnwindSafe(async { body(context).await }).catch_unwind();
        let ended = tokio::select! {
            biased;
            () = state.kill.notified() => None,
            ended = running => Some(ended),
        };
        life.store(false, Ordering::Relaxed);
        let Some(shared) = world.upgrade() else { return };
        match ended {
            None => shared.write_log(format_args!("process {} is killed", state.name)),
            Some(Ok(())) => shared.write_log(format_args!("process {} ends", state.name)),
            Some(Err(panic)) => {
                shared.fail(format!("the process {} panicked: {}", state.name, said(&*panic)));
            }
        }
        drop(shared);
        let delay = *lock(&state.restart_after);
        tokio::time::sleep(delay).await;
    }
}

impl Process {
    /// Kills it now. It starts again after its restart delay.
    pub fn crash(&self) {
        self.state.kill.notify_one();
    }

    /// Kills it for good.
    pub fn stop(&self) {
        self.state.stopped.store(true, Ordering::Relaxed);
        self.state.kill.notify_one();
    }

    /// Kills it once, right after the `k`-th write from now took effect; the answer never arrives.
    pub fn crash_after_writes(&self, k: u64) {
        let done = self.state.writes.load(Ordering::Relaxed);
        *lock(&self.state.crash_at) = Some(done + k);
    }

    /// How long it stays down.
    pub fn restart_after(&self, delay: Duration) {
        *lock(&self.state.restart_after) = delay;
    }

    /// How many writes of it took effect, over all its lives.
    pub fn writes(&self) -> u64 {
        self.state.writes.load(Ordering::Relaxed)
    }

    /// How often it was started.
    pub fn starts(&self) -> u64 {
        self.state.starts.load(Ordering::Relaxed)
    }
}

impl ProcessContext {
    /// A client of this life; it goes silent when the life ends.
    pub fn client(&self, cluster: &str) -> kube::Client {
        kube::Client::new(self.service(cluster), "default")
    }

    /// What [`Self::client`] is built on, for clients that need layers of their own.
    pub fn service(&self, cluster: &str) -> LinkService {
        let life = Life { process: self.process.clone(), alive: self.life.clone() };
        let link = self.world.link(&self.process.name, cluster);
        LinkService::new(&self.world.shared, self.world.cluster(cluster), link, Some(life))
    }

    /// The world, for its clock.
    pub fn world(&self) -> &World {
        &self.world
    }
}

impl Life {
    pub(crate) fn is_over(&self) -> bool {
        !self.alive.load(Ordering::Relaxed)
    }

    /// Counts a write that took effect; true when it was the last one of this life.
    pub(crate) fn count_write(&self) -> bool {
        let writes = self.process.writes.fetch_add(1, Ordering::Relaxed) + 1;
        let mut crash_at = lock(&self.process.crash_at);
        if crash_at.is_some_and(|it| writes >= it) {
            *crash_at = None;
            self.alive.store(false, Ordering::Relaxed);
            self.process.kill.notify_one();
            return true;
        }
        false
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Process").field(&self.state.name).finish()
    }
}

impl fmt::Debug for ProcessContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("ProcessContext").field(&self.process.name).field(&self.incarnation).finish()
    }
}
