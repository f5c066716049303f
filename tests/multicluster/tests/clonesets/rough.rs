//! A real API server, and a controller for which everything goes wrong: it is killed after its writes, they are refused
//! or lost, its watches lag, and the server itself is killed. Every pod event is held against what was promised.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, ensure};
use futures::TryStreamExt;
use k8s_openapi::api::core::v1::Pod;
use kruise_core::api::cloneset::v1beta1::CloneSet;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use multicluster::{
    Cluster,
    agent::turn,
    cluster, eventually,
    life::live,
    rough::{Fault, Road, Rules},
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{condition, container, state};

/// How many pods may be down at a time.
const DOWN: i32 = 2;

const NAME: &str = "rough";

const FAULTS: &[Fault] = &[
    Fault::Refused(409),
    Fault::DoneAndLost,
    Fault::Refused(429),
    Fault::DoneAndDenied(500),
    Fault::Refused(500),
    Fault::DoneAndDenied(504),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_is_killed_after_every_few_writes_comes_to_the_same_end() -> Result<()> {
    // An update in place takes two writes, and the first is always repeated: by one write at a time it would never end.
    let rules = |life: u64| Rules { dies_after: 1 + life % 3, every: None, faults: &[], lag: Duration::ZERO };
    let told = story(rules, Mishap::None).await?;
    println!("{told}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_made_twice_lost_or_taken_down_too_much_when_everything_goes_wrong() -> Result<()> {
    let rules = |life: u64| {
        let dies_after = [7, 25, 3, 12][life as usize % 4];
        Rules { dies_after, every: Some(4), faults: FAULTS, lag: Duration::from_millis(150) }
    };
    let told = story(rules, Mishap::ServerDies).await?;
    println!("{told}");
    Ok(())
}

/// What happens besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mishap {
    None,
    /// The API server is killed while pods are replaced.
    ServerDies,
}

/// Pods are made, updated in place, joined by others, replaced and sent away, by lives with these `rules`.
async fn story(rules: impl Fn(u64) -> Rules + Send + 'static, mishap: Mishap) -> Result<String> {
    let cluster = cluster("hub");
    let _turn = turn(&cluster).await;
    cluster.install_crds().await?;
    let client = cluster.client().await?;
    let namespace = cluster.namespace("rough").await?;
    let lives = Lives::begin(&cluster, rules).await?;
    let user = User { clonesets: Api::namespaced(client.clone(), &namespace) };
    let book = Book::keep(&client, &namespace);

    book.promise(0, 4);
    user.clonesets.create(&PostParams::default(), &serde_json::from_value(cloneset(4))?).await?;
    user.complete(4).await?;
    ensure!(book.births() == 4, "{} pods were made for 4", book.births());

    book.promise(4, 4);
    user.edit(template("app:2", "a")).await?;
    user.complete(4).await?;
    ensure!(book.births() == 4, "an update in place has made {} pods", book.births() - 4);

    book.promise(4, 6);
    user.edit(json!({"replicas": 6})).await?;
    user.complete(6).await?;
    ensure!(book.births() == 6, "{} pods were made for 6", book.births());

    book.promise(6, 6);
    user.edit(template("app:2", "b")).await?;
    if mishap == Mishap::ServerDies {
        eventually("the first pods are replaced", async || Ok((book.births() > 6).then_some(()))).await?;
        cluster.restart_server()?;
    }
    user.complete(6).await?;
    ensure!(book.births() == 12, "{} pods were made in place of 6", book.births() - 6);

    book.promise(6, 2);
    user.edit(json!({"replicas": 2})).await?;
    user.complete(2).await?;
    eventually("the others are gone", async || Ok((book.alive() == 2).then_some(()))).await?;
    ensure!(book.births() == 12, "{} pods were made while others went", book.births() - 12);
    ensure!(book.broken().is_empty(), "{:#?}", book.broken());

    user.clonesets.delete(NAME, &Default::default()).await?;
    cluster.forget(&namespace).await?;
    Ok(format!("{} writes in {} lives", lives.writes(), lives.count()))
}

fn cloneset(replicas: i32) -> Value {
    let mut object = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": NAME},
        // Nobody fills in what is left out: admission is not there.
        "spec": {
            "replicas": replicas, "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": NAME}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {
                "podUpdatePolicy": "InPlaceIfPossible", "inPlaceUpdateStrategy": {}, "partition": 0, "maxSurge": 0,
                "maxUnavailable": DOWN,
            }},
        },
    });
    json_patch::merge(&mut object["spec"], &template("app:1", "a"));
    object
}

/// The part of a spec with this image, and with a word that cannot be changed in place.
fn template(image: &str, word: &str) -> Value {
    let mut container = container(image);
    container["env"] = json!([{"name": "WORD", "value": word}]);
    json!({"template": {"metadata": {"labels": {"app": NAME}}, "spec": {"containers": [container]}}})
}

struct User {
    clonesets: Api<CloneSet>,
}

impl User {
    /// Changes the spec. The server may be on its way up again.
    async fn edit(&self, spec: Value) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": spec}));
        eventually("the user's change is taken", async || {
            Ok(Some(self.clonesets.patch(NAME, &PatchParams::default(), &patch).await.map(drop)?))
        })
        .await
    }

    /// Waits until the status says that all is as it was asked for.
    async fn complete(&self, count: i32) -> Result<()> {
        eventually(&format!("{count} pods, all updated and available"), async || {
            let cloneset = self.clonesets.get(NAME).await?;
            let status = cloneset.status.unwrap_or_default();
            let counts = [status.replicas, status.updated_replicas, status.updated_available_replicas];
            let is_current = cloneset.metadata.generation == Some(status.observed_generation);
            let is_over = status.current_revision == status.update_revision;
            Ok((is_current && is_over && counts == [count; 3]).then_some(()))
        })
        .await
    }
}

/// The lives of the controller, one after the other.
struct Lives {
    count: Arc<AtomicU64>,
    writes: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Lives {
    async fn begin(cluster: &Cluster, rules: impl Fn(u64) -> Rules + Send + 'static) -> Result<Self> {
        let mut config = cluster.config().await?;
        config.default_retry = false;
        let (count, writes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (lived, written) = (count.clone(), writes.clone());
        let task = tokio::spawn(async move {
            loop {
                let number = lived.fetch_add(1, Ordering::Relaxed);
                // Connections die with the process.
                let Ok(client) = Client::try_from(config.clone()) else { return };
                let road = Road::new(client, rules(number), written.clone());
                if let Err(error) = live(road, number).await {
                    eprintln!("life {number}: {error:#}");
                }
            }
        });
        Ok(Self { count, writes, task })
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }
}

impl Drop for Lives {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What became of pods, event by event, and what was promised.
struct Book {
    pages: Arc<Mutex<Pages>>,
    task: JoinHandle<()>,
}

impl Drop for Book {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Default)]
struct Pages {
    /// Every pod that was ever there by its UID, and how it stands if it still is.
    pods: BTreeMap<String, Option<Standing>>,
    most: usize,
    least: usize,
    broken: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Standing {
    is_alive: bool,
    is_available: bool,
}

impl Book {
    fn keep(client: &Client, namespace: &str) -> Self {
        let pages = Arc::new(Mutex::new(Pages::default()));
        let events = watcher(Api::<Pod>::namespaced(client.clone(), namespace), watcher::Config::default());
        let kept = pages.clone();
        let task = tokio::spawn(async move {
            let mut events = std::pin::pin!(events.default_backoff());
            loop {
                match events.try_next().await {
                    Ok(Some(event)) => kept.lock().unwrap().note(&event),
                    Ok(None) => return,
                    // The next event is a new list, or the watch goes on.
                    Err(error) => eprintln!("the book's watch broke: {error}"),
                }
            }
        });
        Self { pages, task }
    }

    /// From now on, on the way from `old` to `new` replicas.
    fn promise(&self, old: usize, new: usize) {
        let mut pages = self.pages.lock().unwrap();
        pages.most = old.max(new);
        pages.least = old.min(new).saturating_sub(DOWN as usize);
    }

    fn births(&self) -> usize {
        self.pages.lock().unwrap().pods.len()
    }

    fn alive(&self) -> usize {
        self.pages.lock().unwrap().standing().filter(|it| it.is_alive).count()
    }

    fn broken(&self) -> Vec<String> {
        self.pages.lock().unwrap().broken.clone()
    }
}

impl Pages {
    fn standing(&self) -> impl Iterator<Item = Standing> + '_ {
        self.pods.values().flatten().copied()
    }

    fn note(&mut self, event: &Event<Pod>) {
        let (pod, is_there) = match event {
            Event::Apply(pod) => (pod, true),
            Event::Delete(pod) => (pod, false),
            // The pods of a list are not what there was at any one moment until it is complete.
            Event::InitApply(pod) => {
                self.pods.insert(pod.uid().unwrap_or_default(), Some(standing(pod)));
                return;
            }
            Event::Init => {
                self.pods.values_mut().for_each(|it| *it = None);
                return;
            }
            Event::InitDone => return,
        };
        self.pods.insert(pod.uid().unwrap_or_default(), is_there.then(|| standing(pod)));
        let alive = self.standing().filter(|it| it.is_alive).count();
        let available = self.standing().filter(|it| it.is_available).count();
        if alive > self.most || available < self.least {
            let Self { most, least, .. } = self;
            let name = pod.name_any();
            self.broken.push(format!(
                "{alive} of at most {most} alive, {available} of at least {least} available, by {name}"
            ));
        }
    }
}

fn standing(pod: &Pod) -> Standing {
    let is_alive = pod.metadata.deletion_timestamp.is_none();
    let is_settled = matches!(state(pod), "" | "Normal");
    Standing { is_alive, is_available: is_alive && is_settled && condition(pod, "Ready") == Some("True") }
}
