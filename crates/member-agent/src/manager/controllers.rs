//! Which controllers the leader runs. To add a kind, add a line to [`CONTROLLERS`].

use futures::{FutureExt, future::BoxFuture};
use kruise_core::{
    controllers::{launch_priority, pod_readiness},
    runtime::{
        access::Right,
        controller::{Controller, Reconcile},
    },
};
use tokio_util::sync::CancellationToken;

use super::Context;

/// One controller of the manager.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// Its name in logs and metrics.
    pub name: &'static str,
    /// The rights it needs.
    pub needs: fn() -> Vec<Right>,
    build: fn(&Context) -> Box<dyn Run>,
}

/// Every controller, in the order in which they start.
pub const CONTROLLERS: &[Entry] = &[
    Entry {
        name: pod_readiness::NAME,
        needs: pod_readiness::needs,
        build: |it| {
            let settings = it.controller(pod_readiness::NAME, pod_readiness::WORKERS);
            Box::new(pod_readiness::controller(it.client.clone(), &it.caches.pods, settings))
        },
    },
    Entry {
        name: launch_priority::NAME,
        needs: launch_priority::needs,
        build: |it| {
            let settings = it.controller(launch_priority::NAME, launch_priority::WORKERS);
            Box::new(launch_priority::controller(it.client.clone(), &it.caches.pods, settings))
        },
    },
];

/// A controller that is ready to run.
pub(super) trait Run: Send {
    /// Runs until `stop` is cancelled and what is under way has ended.
    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, ()>;
}

impl<R: Reconcile + 'static> Run for Controller<R> {
    fn run(self: Box<Self>, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Controller::run(*self, stop).boxed()
    }
}

/// Builds every controller. They hear of changes from now on, so this is for the leader alone.
pub(super) fn controllers(context: &Context) -> Vec<Box<dyn Run>> {
    CONTROLLERS.iter().map(|it| (it.build)(context)).collect()
}
