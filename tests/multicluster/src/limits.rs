//! What must hold over the fleet at every moment, looked at ten times a second.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, bail};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, api::ListParams};
use tokio::{sync::oneshot, task::JoinHandle};

/// How often the fleet is looked at.
const EVERY: Duration = Duration::from_millis(100);

/// A pod that is not on its way out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    /// The cluster it is in.
    pub cluster: &'static str,
    /// Its name.
    pub name: String,
    /// Which pod of that name it is.
    pub uid: String,
    /// The image of its first container.
    pub image: String,
    /// Whether it is ready.
    pub is_ready: bool,
    /// How often its containers were restarted.
    pub restarts: i32,
}

impl Seen {
    fn of(cluster: &'static str, pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let conditions = status.iter().flat_map(|it| it.conditions.iter().flatten());
        let containers = status.iter().flat_map(|it| it.container_statuses.iter().flatten());
        let image = pod.spec.as_ref().and_then(|it| it.containers.first()?.image.clone());
        Self {
            cluster,
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            image: image.unwrap_or_default(),
            is_ready: conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True"),
            restarts: containers.map(|it| it.restart_count).sum(),
        }
    }
}

/// The pods of one namespace in several clusters.
#[derive(Clone)]
pub struct Pods {
    /// The namespace.
    pub namespace: String,
    /// The clusters, and a client for each.
    pub clusters: Vec<(&'static str, Client)>,
}

impl Pods {
    /// All that are not on their way out.
    pub async fn list(&self) -> Result<Vec<Seen>> {
        let lists = self.clusters.iter().map(|(name, client)| async move {
            let api: Api<Pod> = Api::namespaced(client.clone(), &self.namespace);
            let mut pods = api.list(&ListParams::default()).await?.items;
            pods.retain(|it| it.metadata.deletion_timestamp.is_none());
            anyhow::Ok(pods.iter().map(|it| Seen::of(name, it)).collect::<Vec<_>>())
        });
        let mut pods = try_join_all(lists).await?.concat();
        pods.sort_unstable();
        Ok(pods)
    }
}

impl std::fmt::Debug for Pods {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let clusters: Vec<_> = self.clusters.iter().map(|it| it.0).collect();
        f.debug_struct("Pods").field("namespace", &self.namespace).field("clusters", &clusters).finish()
    }
}

/// What must hold while something happens.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Pods that are available at least.
    pub available: usize,
    /// Pods there are at most.
    pub pods: usize,
    /// Pods of an image there are at most.
    pub of_image: Option<(&'static str, usize)>,
}

/// The worst that was seen.
#[derive(Debug, Default)]
struct Worst {
    looks: usize,
    available: Option<usize>,
    pods: usize,
    of_image: usize,
}

impl Limits {
    /// Waits for `doing`, and fails as soon as a limit is seen to be broken.
    ///
    /// The looking is a task of its own: what is done meanwhile may keep its own thread busy, as running kubectl does.
    pub async fn hold_during<T>(
        self,
        pods: impl Into<Pods>,
        doing: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let watched = pods.into();
        let (done, is_done) = oneshot::channel();
        let mut watching = Watching(tokio::spawn(self.watch(watched.clone(), is_done)));
        let result = tokio::select! {
            result = doing => result?,
            broken = &mut watching.0 => bail!("{:?}", broken?.err()),
        };
        // Nobody listens where a limit was broken in the last moment; then it says so itself.
        let _ = done.send(());
        let Worst { looks, available, pods, of_image } = (&mut watching.0).await??;
        eprintln!(
            "{}: in {looks} looks at least {available:?} available ({} must be), at most {pods} pods ({} may be), {of_image} of \
             the image counted",
            watched.namespace, self.available, self.pods
        );
        Ok(result)
    }

    /// Looks until something is broken, or all is done.
    async fn watch(self, watched: Pods, mut is_done: oneshot::Receiver<()>) -> Result<Worst> {
        let mut worst = Worst::default();
        loop {
            self.look(&watched, &mut worst).await?;
            if tokio::time::timeout(EVERY, &mut is_done).await.is_ok() {
                return Ok(worst);
            }
        }
    }

    /// Looks twice, and believes what both looks say: clusters are read one after the other, so that a single look may show one
    /// before and another after something that happened in between.
    async fn look(&self, watched: &Pods, worst: &mut Worst) -> Result<()> {
        let (first, second) = (watched.list().await?, watched.list().await?);
        let sum = |counts: fn(&[Seen], &Self) -> BTreeMap<&'static str, usize>,
                   pick: fn(usize, usize) -> usize| {
            let (a, b) = (counts(&first, self), counts(&second, self));
            watched.clusters.iter().map(|it| pick(count(&a, it.0), count(&b, it.0))).sum::<usize>()
        };
        let available = sum(|pods, _| by_cluster(pods, |it| it.is_ready), usize::max);
        let pods = sum(|pods, _| by_cluster(pods, |_| true), usize::min);
        let of_image = sum(
            |pods, limits| by_cluster(pods, |it| limits.of_image.is_some_and(|one| one.0 == it.image)),
            usize::min,
        );
        worst.looks += 1;
        worst.available = Some(worst.available.map_or(available, |it| it.min(available)));
        (worst.pods, worst.of_image) = (worst.pods.max(pods), worst.of_image.max(of_image));
        let is_broken = available < self.available
            || pods > self.pods
            || self.of_image.is_some_and(|(_, most)| of_image > most);
        if is_broken {
            bail!(
                "seen at look {}: {available} available, {pods} pods, {of_image} of the image counted; {self:?}\n\
                 {first:#?}\nand then\n{second:#?}",
                worst.looks
            );
        }
        Ok(())
    }
}

/// A task that ends with this value.
struct Watching(JoinHandle<Result<Worst>>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn by_cluster(pods: &[Seen], counts: impl Fn(&Seen) -> bool) -> BTreeMap<&'static str, usize> {
    let mut sums = BTreeMap::new();
    for pod in pods.iter().filter(|it| counts(it)) {
        *sums.entry(pod.cluster).or_default() += 1;
    }
    sums
}

fn count(sums: &BTreeMap<&'static str, usize>, cluster: &str) -> usize {
    sums.get(cluster).copied().unwrap_or(0)
}
