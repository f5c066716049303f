//! The loops of the daemon, and what they are made of.

use std::{collections::BTreeMap, num::NonZeroUsize, sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{BoxFuture, join_all},
};
use kube::{Api, runtime::watcher};
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::{error, info, warn};

use super::{
    cri::{self, Runtime, sockets},
    images::{self, Puller, docker_files::DockerFiles, plugins::Plugins, secrets::Secrets},
    kill::Killer,
    meta::{self, Reporter, Restarter},
    parts::{Parts, Runtimes},
    probes,
    recreate::{self, Recreator},
    start::Settings,
};
use crate::{
    api::{
        container_recreate_request::v1beta1::ContainerRecreateRequest, node_image::v1beta1::NodeImage,
        node_pod_probe::v1alpha1::NodePodProbe,
    },
    backoff::Doubling,
    runtime::{
        cache::{Cache, Cached, Feed, pod::PodLite},
        client,
        controller::{self, Controller, Reconcile, Triggers},
        events::Sink,
        gates::Gate,
        key::Key,
        writes::Writer,
    },
};

/// How long the daemon waits before it looks for a runtime again.
const LOOK_FOR_RUNTIME: Duration = Duration::from_secs(5);

/// How long hooks and downloads that are under way may take at the end.
const DRAIN: Duration = Duration::from_secs(2);

/// How long an object waits after failures.
const BACKOFF: Doubling = Doubling { first: Duration::from_millis(500), ceiling: Duration::from_secs(50) };

/// How long a container waits after failures to stop it.
const RESTART_BACKOFF: Doubling =
    Doubling { first: Duration::from_secs(3), ceiling: Duration::from_secs(600) };

/// What tells one loop from another; the names are upstream's.
#[derive(Clone, Copy)]
struct Loop {
    name: &'static str,
    workers: NonZeroUsize,
    backoff: Doubling,
}

const fn a_loop(name: &'static str, workers: usize, backoff: Doubling) -> Loop {
    Loop { name, workers: NonZeroUsize::new(workers).expect("a loop has workers"), backoff }
}

const IMAGE_PULLER: Loop = a_loop("imagepuller", 1, BACKOFF);
const RECREATE: Loop = a_loop("crr", 32, BACKOFF);
const CONTAINER_META: Loop = a_loop("runtime_container_meta", 5, BACKOFF);
const RESTARTER: Loop = a_loop("runtime_container_meta_restarter", 10, RESTART_BACKOFF);
const POD_PROBES: Loop = a_loop("sync_node_pod_probe", 1, BACKOFF);
const PROBE_RESULTS: Loop = a_loop("update_node_pod_probe_status", 1, BACKOFF);

impl Parts {
    /// Looks for runtimes until there is one. The daemon stays unhealthy meanwhile, and says why.
    pub(super) async fn find_runtimes(&self, token: &CancellationToken) -> Option<Runtimes> {
        loop {
            let found = token.run_until_cancelled(self.try_runtimes()).await?;
            if found.is_some() {
                self.health.runtime_found();
                return found;
            }
            token.run_until_cancelled(tokio::time::sleep(LOOK_FOR_RUNTIME)).await?;
        }
    }

    async fn try_runtimes(&self) -> Option<Runtimes> {
        let Settings { host_run, socket, .. } = &self.settings;
        let paths = sockets::candidates(host_run, socket.as_deref(), |it| it.exists());
        if paths.is_empty() {
            let (flag, below) = (socket.as_deref().unwrap_or_default(), host_run.display());
            error!(%below, flag, "not found container runtime sock: check --socket-file and the mount of /var/run");
        }
        let mut by_name: BTreeMap<String, Arc<dyn Runtime>> = BTreeMap::new();
        let mut first: Option<cri::client::Client> = None;
        for path in paths {
            match cri::client::Client::connect(&path, self.clock.clone(), self.counted.clone()).await {
                Ok(client) => {
                    info!(path = %path.display(), runtime = client.name(), "found a container runtime");
                    first.get_or_insert_with(|| client.clone());
                    by_name.entry(client.name().to_owned()).or_insert_with(|| Arc::new(client));
                }
                Err(error) => {
                    warn!(error = &error as &dyn std::error::Error, "a socket is of no use");
                }
            }
        }
        first.map(|it| Runtimes { by_name, first: Arc::new(it.clone()), images: Arc::new(it) })
    }

    /// Runs every loop until the token is cancelled.
    pub async fn work(&self, runtimes: Runtimes, token: &CancellationToken) {
        let node = self.settings.node.as_str();
        let tasks = TaskTracker::new();
        let sink = Sink::new(self.client.clone(), self.clock.clone(), self.metrics.clone());
        let node_images: Cache<NodeImage> = self.cache("nodeimages");
        let requests: Cache<ContainerRecreateRequest> = self.cache("containerrecreaterequests");
        let mut checks: Vec<(_, Arc<dyn Feed>)> = vec![
            ("nodeImageInformerSynced", Arc::new(node_images.clone())),
            ("crrInformerSynced", Arc::new(requests.clone())),
        ];
        let killer = Arc::new(Killer {
            events: sink.recorder("kruise-daemon"),
            clock: self.clock.clone(),
            tasks: tasks.clone(),
            metrics: self.counted.clone(),
        });

        let named = || client::watch().fields(&format!("metadata.name={node}"));
        let labelled = client::watch().labels(&recreate::selector(node));
        let mut parts = vec![
            self.guarded_feed(&node_images, named(), token),
            self.guarded_feed(&requests, labelled, token),
        ];
        // Nothing begins before the pods are known, where they are watched at all.
        let mut first: Vec<Arc<dyn Feed>> = Vec::new();
        if self.settings.gates.is_on(Gate::DaemonWatchingPod) {
            let pods: Cache<PodLite> = self.cache("pods");
            let here = client::watch().fields(&format!("spec.nodeName={node}"));
            parts.push(self.feed(&pods, here, token));
            first.push(Arc::new(pods.clone()));
            checks.insert(0, ("podInformerSynced", Arc::new(pods.clone())));
            let (reporter, changed, restarter, restarts) = self.reporter(&pods, &runtimes, &killer);
            parts.push(self.controller(CONTAINER_META, changed, first.clone(), reporter, token));
            parts.push(self.controller(RESTARTER, restarts, first.clone(), restarter, token));
        }
        let with = |feed: Arc<dyn Feed>| first.iter().cloned().chain([feed]).collect::<Vec<_>>();
        let (puller, woken) = self.puller(&node_images, &runtimes, &sink, &tasks, token);
        parts.push(self.controller(IMAGE_PULLER, woken, with(Arc::new(node_images)), puller, token));
        let (recreator, asked) = self.recreator(&requests, &runtimes, &killer);
        parts.push(self.controller(RECREATE, asked, with(Arc::new(requests)), recreator, token));
        if self.settings.gates.is_on(Gate::PodProbeMarker) {
            let wanted: Cache<NodePodProbe> = self.cache("nodepodprobes");
            checks.push(("nodePodProbeInformerSynced", Arc::new(wanted.clone())));
            parts.push(self.guarded_feed(&wanted, named(), token));
            let feeds = with(Arc::new(wanted.clone()));
            let (syncer, changed, reporter, found) = self.probes(&wanted, &runtimes, &sink, &tasks, token);
            parts.push(self.controller(POD_PROBES, changed, feeds.clone(), syncer, token));
            parts.push(self.controller(PROBE_RESULTS, found, feeds, reporter, token));
        }
        self.health.watch(checks);
        parts.push(sink.run(token.clone()).boxed());
        join_all(parts).await;
        tasks.close();
        // Hooks may hang for as long as they like: they are given up at the end.
        let _ = tokio::time::timeout(DRAIN, tasks.wait()).await;
    }

    fn puller(
        &self,
        cache: &Cache<NodeImage>,
        runtimes: &Runtimes,
        sink: &Sink,
        tasks: &TaskTracker,
        token: &CancellationToken,
    ) -> (Puller, Triggers) {
        let triggers = Triggers::new(self.clock.clone());
        let wake = triggers.clone();
        cache.on_change(move |change| {
            if images::is_worth_a_look(change) {
                wake.now(change.key());
            }
        });
        let Settings { plugin_config, plugin_binaries, docker_files, .. } = &self.settings;
        let plugins =
            Plugins::load(plugin_config, plugin_binaries, self.clock.clone()).unwrap_or_else(|error| {
                error!(error = &error as &dyn std::error::Error, "credential provider plugins are left out");
                Plugins::none(self.clock.clone())
            });
        let context = images::Context {
            node: Key::new("", &self.settings.node),
            cache: cache.clone(),
            writer: Writer::new(self.client.clone(), cache.clone()),
            images: runtimes.images.clone(),
            secrets: Secrets::new(self.client.clone(), self.clock.clone(), self.seed.clone()),
            docker_files: DockerFiles::new(docker_files.clone(), self.clock.clone()),
            plugins,
            slots: self.settings.downloads.map(|it| Arc::new(Semaphore::new(it.get()))),
            triggers: triggers.clone(),
            events: sink.recorder("kruise-daemon-imagepuller"),
            clock: self.clock.clone(),
            seed: self.seed.clone(),
            metrics: self.counted.clone(),
        };
        (Puller::new(context, tasks.clone(), token.clone()), triggers)
    }

    fn recreator(
        &self,
        cache: &Cache<ContainerRecreateRequest>,
        runtimes: &Runtimes,
        killer: &Arc<Killer>,
    ) -> (Recreator, Triggers) {
        let triggers = Triggers::new(self.clock.clone());
        let wake = triggers.clone();
        cache.on_change(move |change| {
            for pod in recreate::pods_of(change) {
                wake.now(pod);
            }
        });
        let recreator = Recreator {
            cache: cache.clone(),
            writer: Writer::new(self.client.clone(), cache.clone()),
            runtimes: runtimes.by_name.clone(),
            killer: killer.clone(),
            kills: recreate::Kills::default(),
            clock: self.clock.clone(),
        };
        (recreator, triggers)
    }

    fn reporter(
        &self,
        cache: &Cache<PodLite>,
        runtimes: &Runtimes,
        killer: &Arc<Killer>,
    ) -> (Reporter, Triggers, Restarter, Triggers) {
        let reads_env = self.settings.gates.is_on(Gate::InPlaceUpdateEnvFromMetadata);
        let (changed, restarts) = (Triggers::new(self.clock.clone()), Triggers::new(self.clock.clone()));
        let wake = changed.clone();
        cache.on_change(move |change| {
            let Some(pod) = &change.after else { return };
            if meta::plan::is_worth_a_look(change.before.as_deref(), pod, reads_env) {
                wake.after(change.key(), meta::DELAY);
            }
        });
        let reporter = Reporter {
            cache: cache.clone(),
            writer: Writer::new(self.client.clone(), cache.clone()),
            runtimes: runtimes.by_name.clone(),
            restarts: restarts.clone(),
            reads_env,
        };
        let restarter = Restarter { runtimes: runtimes.by_name.clone(), killer: killer.clone() };
        (reporter, changed, restarter, restarts)
    }

    fn probes(
        &self,
        cache: &Cache<NodePodProbe>,
        runtimes: &Runtimes,
        sink: &Sink,
        tasks: &TaskTracker,
        token: &CancellationToken,
    ) -> (probes::Syncer, Triggers, probes::Reporter, Triggers) {
        let (changed, found) = (Triggers::new(self.clock.clone()), Triggers::new(self.clock.clone()));
        let wake = changed.clone();
        cache.on_change(move |change| {
            if probes::is_worth_a_look(change) {
                wake.now(change.key());
            }
        });
        let context = probes::Context {
            node: Key::new("", &self.settings.node),
            cache: cache.clone(),
            writer: Writer::new(self.client.clone(), cache.clone()),
            runtime: runtimes.first.clone(),
            status: found.clone(),
            events: sink.recorder("kruise-daemon-podprobe"),
            clock: self.clock.clone(),
            started: self.clock.instant(),
            seed: self.seed.clone(),
            metrics: self.counted.clone(),
        };
        let (syncer, reporter) = probes::loops(context, tasks.clone(), token.clone());
        (syncer, changed, reporter, found)
    }

    fn cache<K: Cached>(&self, name: &'static str) -> Cache<K> {
        Cache::new(name, self.clock.clone(), self.metrics.clone())
    }

    fn feed<K: Cached>(
        &self,
        cache: &Cache<K>,
        config: watcher::Config,
        token: &CancellationToken,
    ) -> BoxFuture<'static, ()> {
        let (cache, client, token) = (cache.clone(), self.client.clone(), token.clone());
        async move { cache.run(client.clone(), Api::all(client), config, token).await }.boxed()
    }

    fn guarded_feed<K: Cached>(
        &self,
        cache: &Cache<K>,
        config: watcher::Config,
        token: &CancellationToken,
    ) -> BoxFuture<'static, ()> {
        let (cache, client, token) = (cache.clone(), self.client.clone(), token.clone());
        async move { cache.run_guarded(client.clone(), Api::all(client), config, token).await }.boxed()
    }

    fn controller<R: Reconcile + 'static>(
        &self,
        of: Loop,
        triggers: Triggers,
        feeds: Vec<Arc<dyn Feed>>,
        reconciler: R,
        token: &CancellationToken,
    ) -> BoxFuture<'static, ()> {
        let Loop { name, workers, backoff } = of;
        let settings = controller::Settings {
            name,
            workers,
            backoff,
            clock: self.clock.clone(),
            metrics: self.metrics.clone(),
        };
        Controller::new(settings, triggers, feeds, reconciler).run(token.clone()).boxed()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::{
        daemon::{
            cri::fake::{FakeImages, FakeRuntime},
            health::Health,
            metrics::DaemonMetrics,
            tests::no_server,
        },
        runtime::{
            clock::{Clock, Seed},
            gates::Gates,
            metrics::Metrics,
        },
    };

    /// What health says about a daemon that has begun to work, with an API server that refuses everything.
    fn health(gates: &str) -> String {
        let clock = Clock::following(Timestamp::UNIX_EPOCH);
        let parts = Parts {
            settings: Settings { gates: gates.parse::<Gates>().unwrap(), ..Settings::new("n1") },
            client: no_server(&clock),
            clock,
            metrics: Metrics::default(),
            counted: DaemonMetrics::new(),
            health: Health::default(),
            seed: Seed::from_number(1),
        };
        parts.health.runtime_found();
        let runtimes = Runtimes {
            by_name: BTreeMap::new(),
            first: Arc::new(FakeRuntime::default()),
            images: Arc::new(FakeImages::default()),
        };
        assert!(parts.work(runtimes, &CancellationToken::new()).now_or_never().is_none());
        format!("{:?}", parts.health)
    }

    #[tokio::test(start_paused = true)]
    async fn a_daemon_that_does_not_know_its_pods_is_not_healthy() {
        let text = health("DaemonWatchingPod=true");
        assert!(text.contains("podInformerSynced"), "{text}");
        let text = health("DaemonWatchingPod=false");
        assert!(text.contains("nodeImageInformerSynced"), "{text}");
    }
}
