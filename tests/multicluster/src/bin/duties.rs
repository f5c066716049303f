//! The node duties as processes that tests can kill: `duties daemon KUBECONFIG NODE SOCKET` on a node, and
//! `duties manager KUBECONFIG` for the cluster's side. Both end when their standard input does.

use std::{io::Read, num::NonZeroUsize, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::core::v1::Secret;
use kruise_core::{
    api::{
        container_recreate_request::v1beta1::ContainerRecreateRequest,
        image_list_pull_job::v1beta1::ImageListPullJob, image_pull_job::v1beta1::ImagePullJob,
        node_image::v1beta1::NodeImage,
    },
    backoff::Doubling,
    controllers::{container_recreate_request, image_list_pull_job, image_pull_job, node_image},
    daemon,
    runtime::{
        cache::{Cache, Cached, node::NodeLite, pod::PodLite},
        client::{self, Options, Source},
        clock::Clock,
        controller,
        events::Sink,
        executor::Executor,
        logs,
        metrics::Metrics,
        throttle::Throttle,
    },
};
use kube::{Api, Client, core::PartialObjectMeta};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    rustls::crypto::ring::default_provider().install_default().ok().context("the first provider")?;
    logs::init(logs::Format::Text, "info", std::env::var("RUST_LOG").ok().as_deref())?;
    let token = CancellationToken::new();
    let stop = token.clone();
    // A thread, as reading from a terminal or pipe cannot be given up; it ends with the process.
    std::thread::spawn(move || {
        let mut rest = Vec::new();
        let _ = std::io::stdin().read_to_end(&mut rest);
        stop.cancel();
    });
    match arguments.as_slice() {
        ["daemon", kubeconfig, node, socket] => {
            let settings = daemon::Settings {
                source: source(kubeconfig),
                address: None,
                socket: Some((*socket).to_owned()),
                downloads: None,
                ..daemon::Settings::new(*node)
            };
            daemon::run(settings, token).await?;
        }
        ["manager", kubeconfig] => manager(kubeconfig, token).await?,
        _ => bail!("usage: duties daemon KUBECONFIG NODE SOCKET | duties manager KUBECONFIG"),
    }
    Ok(())
}

fn source(kubeconfig: &str) -> Source {
    Source::Kubeconfig { path: Some(PathBuf::from(kubeconfig)), context: None }
}

/// What every controller of the manager is made from.
struct Parts {
    client: Client,
    clock: Clock,
    metrics: Metrics,
    token: CancellationToken,
}

impl Parts {
    fn cache<K: Cached>(&self, name: &'static str) -> Cache<K> {
        Cache::new(name, self.clock.clone(), self.metrics.clone())
    }

    fn settings(&self, name: &'static str, workers: NonZeroUsize) -> controller::Settings {
        controller::Settings {
            name,
            workers,
            backoff: Doubling::default(),
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
        }
    }

    fn feed<K: Cached>(&self, tasks: &mut JoinSet<()>, cache: &Cache<K>) {
        let (cache, client, token) = (cache.clone(), self.client.clone(), self.token.clone());
        let api: Api<K> = Api::all(client.clone());
        tasks.spawn(async move { cache.run(client, api, client::watch(), token).await });
    }
}

async fn manager(kubeconfig: &str, token: CancellationToken) -> Result<()> {
    let (clock, metrics) = (Clock::system(), Metrics::default());
    let options = Options {
        user_agent: "duties/1".to_owned(),
        metrics: metrics.clone(),
        throttle: Throttle::default(),
        clock: clock.clone(),
    };
    let client = client::connect(&source(kubeconfig), &options).await?;
    let executor = Executor {
        limit: NonZeroUsize::new(10).context("ten is not zero")?,
        throttle: options.throttle.clone(),
        clock: clock.clone(),
    };
    let sink = Sink::new(client.clone(), clock.clone(), metrics.clone());
    let parts = Parts { client: client.clone(), clock, metrics, token: token.clone() };
    let (nodes, pods) = (parts.cache::<NodeLite>("nodes"), parts.cache::<PodLite>("pods"));
    let node_images = parts.cache::<NodeImage>("nodeimages");
    let jobs = parts.cache::<ImagePullJob>("imagepulljobs");
    let lists = parts.cache::<ImageListPullJob>("imagelistpulljobs");
    let requests = parts.cache::<ContainerRecreateRequest>("containerrecreaterequests");
    let secrets = parts.cache::<PartialObjectMeta<Secret>>("secrets");

    let node_caches = node_image::Caches {
        nodes: nodes.clone(),
        node_images: node_images.clone(),
        jobs: jobs.clone(),
        secrets: secrets.clone(),
        jobs_in: None,
        secrets_in: None,
    };
    let settings = parts.settings(node_image::NAME, node_image::WORKERS);
    let recorder = sink.recorder("nodeimage-controller");
    let first = node_image::controller(client.clone(), &node_caches, recorder, Duration::ZERO, settings);
    let job_caches = image_pull_job::Caches {
        jobs: jobs.clone(),
        node_images: node_images.clone(),
        pods: pods.clone(),
        secrets: secrets.clone(),
    };
    let settings = parts.settings(image_pull_job::NAME, image_pull_job::WORKERS);
    let second = image_pull_job::controller(client.clone(), &job_caches, Default::default(), settings);
    let settings = parts.settings(image_list_pull_job::NAME, image_list_pull_job::WORKERS);
    let recorder = sink.recorder("imagelistpulljob-controller");
    let third = image_list_pull_job::controller(client.clone(), &lists, &jobs, recorder, executor, settings);
    let settings = parts.settings(container_recreate_request::NAME, container_recreate_request::WORKERS);
    let fourth = container_recreate_request::controller(client, &requests, &pods, settings);

    let mut tasks = JoinSet::new();
    parts.feed(&mut tasks, &nodes);
    parts.feed(&mut tasks, &pods);
    parts.feed(&mut tasks, &node_images);
    parts.feed(&mut tasks, &jobs);
    parts.feed(&mut tasks, &lists);
    parts.feed(&mut tasks, &requests);
    parts.feed(&mut tasks, &secrets);
    tasks.spawn(first.run(token.clone()));
    tasks.spawn(second.run(token.clone()));
    tasks.spawn(third.run(token.clone()));
    tasks.spawn(fourth.run(token.clone()));
    tasks.spawn(sink.run(token));
    tasks.join_all().await;
    Ok(())
}
