//! Which controllers the leader runs. To add a kind, add a line to [`CONTROLLERS`].

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use kruise_core::{
    controllers::{
        cloneset, container_recreate_request, image_list_pull_job, image_pull_job, launch_priority,
        node_image, pod_readiness, sidecar_terminator,
    },
    runtime::{
        access::Right,
        clock::Seed,
        controller::{Controller, Reconcile},
        gates::{Gate, Gates},
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
    /// The gate without which it does not run.
    pub gate: Option<Gate>,
    build: fn(&Context) -> Box<dyn Run>,
}

/// Every controller, in the order in which they start.
pub const CONTROLLERS: &[Entry] = &[
    Entry {
        name: cloneset::NAME,
        needs: cloneset::needs,
        gate: None,
        build: |it| {
            let settings = it.controller(cloneset::NAME, it.cloneset.workers);
            Box::new(cloneset::controller(cloneset_context(it), settings))
        },
    },
    Entry {
        name: pod_readiness::NAME,
        needs: pod_readiness::needs,
        gate: None,
        build: |it| {
            let settings = it.controller(pod_readiness::NAME, pod_readiness::WORKERS);
            Box::new(pod_readiness::controller(it.client.clone(), &it.caches.pods, settings))
        },
    },
    Entry {
        name: launch_priority::NAME,
        needs: launch_priority::needs,
        gate: None,
        build: |it| {
            let settings = it.controller(launch_priority::NAME, launch_priority::WORKERS);
            Box::new(launch_priority::controller(it.client.clone(), &it.caches.pods, settings))
        },
    },
    Entry {
        name: node_image::NAME,
        needs: node_image::needs,
        gate: Some(Gate::KruiseDaemon),
        build: |it| {
            let settings = it.controller(node_image::NAME, it.nodes.node_image_workers);
            let (recorder, delay) = (it.events.of("nodeimage-controller"), it.nodes.creation_delay);
            let caches = node_image_caches(it);
            Box::new(node_image::controller(it.client.clone(), &caches, recorder, delay, settings))
        },
    },
    Entry {
        name: image_pull_job::NAME,
        needs: image_pull_job::needs,
        gate: Some(Gate::ImagePullJob),
        build: |it| {
            let settings = it.controller(image_pull_job::NAME, it.nodes.job_workers);
            let own = it.nodes.jobs.clone();
            Box::new(image_pull_job::controller(it.client.clone(), &job_caches(it), own, settings))
        },
    },
    Entry {
        name: image_list_pull_job::NAME,
        needs: image_list_pull_job::needs,
        gate: Some(Gate::ImagePullJob),
        build: |it| {
            let settings = it.controller(image_list_pull_job::NAME, it.nodes.list_workers);
            let recorder = it.events.of("imagelistpulljob-controller");
            let (lists, jobs) = (&it.caches.image_list_pull_jobs, &it.caches.image_pull_jobs);
            let (client, executor) = (it.client.clone(), it.executor.clone());
            Box::new(image_list_pull_job::controller(client, lists, jobs, recorder, executor, settings))
        },
    },
    Entry {
        name: container_recreate_request::NAME,
        needs: container_recreate_request::needs,
        gate: Some(Gate::KruiseDaemon),
        build: |it| {
            let settings = it.controller(container_recreate_request::NAME, it.nodes.request_workers);
            let (requests, pods) = (&it.caches.recreate_requests, &it.caches.pods);
            let (client, recorder) = (it.client.clone(), it.events.of("containerrecreaterequest-controller"));
            Box::new(container_recreate_request::controller(client, requests, pods, recorder, settings))
        },
    },
    Entry {
        name: sidecar_terminator::NAME,
        needs: sidecar_terminator::needs,
        gate: Some(Gate::SidecarTerminator),
        build: |it| {
            let settings = it.controller(sidecar_terminator::NAME, it.nodes.terminator_workers);
            let caches = sidecar_terminator::Caches {
                pods: it.caches.pods.clone(),
                nodes: it.caches.nodes.clone(),
                requests: it.caches.recreate_requests.clone(),
            };
            let recorder = it.events.of("sidecarterminator-controller");
            Box::new(sidecar_terminator::controller(it.client.clone(), &caches, recorder, settings))
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

fn node_image_caches(context: &Context) -> node_image::Caches {
    node_image::Caches {
        nodes: context.caches.nodes.clone(),
        node_images: context.caches.node_images.clone(),
        jobs: context.caches.image_pull_jobs.clone(),
        secrets: context.caches.secrets.clone(),
        jobs_in: context.namespace.clone(),
        secrets_in: context.secrets_in().map(str::to_owned),
    }
}

fn job_caches(context: &Context) -> image_pull_job::Caches {
    image_pull_job::Caches {
        jobs: context.caches.image_pull_jobs.clone(),
        node_images: context.caches.node_images.clone(),
        pods: context.caches.pods.clone(),
        secrets: context.caches.secrets.clone(),
    }
}

impl Entry {
    /// Whether it runs with these gates.
    pub fn runs(&self, gates: Gates) -> bool {
        self.gate.is_none_or(|it| gates.is_on(it))
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

/// Builds every controller that the gates let run. They hear of changes from now on, so this is for the leader alone.
pub(super) fn controllers(context: &Context) -> Vec<Box<dyn Run>> {
    CONTROLLERS.iter().filter(|it| it.runs(context.gates)).map(|it| (it.build)(context)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(gates: &str) -> Vec<&'static str> {
        let gates = gates.parse().unwrap();
        CONTROLLERS.iter().filter(|it| it.runs(gates)).map(|it| it.name).collect()
    }

    #[test]
    fn nobody_is_told_that_the_gate_of_a_controller_has_no_effect() {
        let gates: Gates = "AllAlpha=true,AllBeta=true".parse().unwrap();
        for entry in CONTROLLERS {
            assert!(gates.in_vain().all(|it| Some(it) != entry.gate), "{}", entry.name);
        }
    }

    #[test]
    fn node_duties_run_with_their_gates() {
        let workloads = ["cloneset-controller", "pod-readiness", "launch-priority"];
        let without_jobs = [workloads.as_slice(), &["nodeimage", "containerrecreaterequest"]].concat();
        assert_eq!(running("KruiseDaemon=false,ImagePullJobGate=true"), workloads);
        assert_eq!(running(""), without_jobs);
        let all = "PreDownloadImageForInPlaceUpdate=true,SidecarTerminator=true";
        assert_eq!(running(all).len(), CONTROLLERS.len());
        assert_eq!(running("KruiseDaemon=false,SidecarTerminator=true"), workloads);
    }
}
