//! Which controllers the leader runs. To add a kind, add a line to [`CONTROLLERS`].

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use kruise_core::{
    controllers::{cloneset, launch_priority, pod_readiness},
    runtime::{
        access::Right,
        clock::Seed,
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
        name: cloneset::NAME,
        needs: cloneset::needs,
        build: |it| {
            let settings = it.controller(cloneset::NAME, it.cloneset.workers);
            Box::new(cloneset::controller(cloneset_context(it), settings))
        },
    },
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

fn cloneset_context(context: &Context) -> cloneset::Context {
    let caches = cloneset::Caches {
        clonesets: context.caches.clonesets.clone(),
        pods: context.caches.pods.clone(),
        claims: context.caches.claims.clone(),
        revisions: context.caches.revisions.clone(),
        nodes: context.caches.nodes.clone(),
        jobs: context.caches.image_pull_jobs.clone(),
    };
    cloneset::Context {
        writers: cloneset::Writers::new(&context.client, &caches),
        caches,
        executor: context.executor.clone(),
        recorder: context.events.of(cloneset::NAME),
        clock: context.clock.clone(),
        seed: Seed::from_system(),
        options: cloneset::plan::Options::of(
            &context.gates,
            context.cloneset.exclude_preparing_delete,
            context.server_resizes,
        ),
        opened: Arc::default(),
    }
}

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
