//! What must hold over the fleet at every moment, looked at ten times a second.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, bail};
use tokio::{sync::oneshot, task::JoinHandle};

use super::{Seen, Stage};

/// How often the fleet is looked at.
const EVERY: Duration = Duration::from_millis(100);

/// What must hold while something happens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Pods that are available at least.
    pub(crate) available: usize,
    /// Pods there are at most.
    pub(crate) pods: usize,
    /// Pods of an image there are at most.
    pub(crate) of_image: Option<(&'static str, usize)>,
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
    pub(crate) async fn hold_during<T>(
        self,
        stage: &Stage,
        doing: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let (done, is_done) = oneshot::channel();
        let mut watching = Watching(tokio::spawn(self.watch(stage.clone(), is_done)));
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
            stage.namespace, self.available, self.pods
        );
        Ok(result)
    }

    /// Looks until something is broken, or all is done.
    async fn watch(self, stage: Stage, mut is_done: oneshot::Receiver<()>) -> Result<Worst> {
        let mut worst = Worst::default();
        loop {
            self.look(&stage, &mut worst).await?;
            if tokio::time::timeout(EVERY, &mut is_done).await.is_ok() {
                return Ok(worst);
            }
        }
    }

    /// Looks twice, and believes what both looks say: clusters are read one after the other, so that a single look may show one
    /// before and another after something that happened in between.
    async fn look(&self, stage: &Stage, worst: &mut Worst) -> Result<()> {
        let (first, second) = (stage.pods().await?, stage.pods().await?);
        let sum = |counts: fn(&[Seen], &Self) -> BTreeMap<&'static str, usize>,
                   pick: fn(usize, usize) -> usize| {
            let (a, b) = (counts(&first, self), counts(&second, self));
            stage.members.iter().map(|it| pick(count(&a, it), count(&b, it))).sum::<usize>()
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
