//! CloneSet: interchangeable pods (spec/cloneset.md).
//!
//! One reconcile reads the caches ([`observe`], through what [`sights`] keeps), settles the revisions ([`revisions`]), plans ([`plan`]), carries the
//! plan out ([`apply`]) and reports ([`status`]). Everything worth a decision is in `plan` and `status`.

pub mod apply;
pub mod observe;
pub mod plan;
pub mod predownload;
pub mod revisions;
pub mod sights;
pub mod status;
pub mod wake;

mod images;
mod report;
mod wiring;

use std::{collections::BTreeMap, mem, sync::Arc, time::Duration};

use kube::core::{DeserializeGuard, Selector};
use tracing::warn;

use crate::{
    api::{
        cloneset::{events, v1beta1::CloneSet},
        image_pull_job::v1beta1::ImagePullJob,
    },
    controllers::cloneset::{
        apply::Outcome,
        observe::Observed,
        plan::{Fact, Options, Plan, Version, World, glance::Glanced, limits::Limits},
        revisions::Opened,
        status::{Trouble, Troubles},
    },
    runtime::{
        cache::{Cache, claim::ClaimLite, node::NodeLite, pod::PodLite, revision::RevisionLite},
        client::Error,
        clock::{Clock, Seed},
        controller::{Next, Reconcile, ReconcileError},
        events::{Recorder, Severity, about},
        executor::Executor,
        key::Key,
        writes::Writer,
    },
};
pub use wiring::{NAME, WORKERS, controller, needs};

/// A CloneSet as it is cached. One that cannot be read is known by its name, and does not stop the others.
pub type Stored = DeserializeGuard<CloneSet>;

/// What the controller reads.
#[derive(Debug, Clone)]
pub struct Caches {
    /// CloneSets.
    pub clonesets: Cache<Stored>,
    /// Pods.
    pub pods: Cache<PodLite>,
    /// Volume claims.
    pub claims: Cache<ClaimLite>,
    /// Revisions.
    pub revisions: Cache<RevisionLite>,
    /// Nodes.
    pub nodes: Cache<NodeLite>,
    /// Image pull jobs.
    pub jobs: Cache<ImagePullJob>,
}

/// What it writes with.
#[derive(Debug, Clone)]
pub struct Writers {
    /// CloneSets: status, and names of deleted pods.
    pub clonesets: Writer<Stored>,
    /// Pods.
    pub pods: Writer<PodLite>,
    /// Volume claims.
    pub claims: Writer<ClaimLite>,
    /// Revisions.
    pub revisions: Writer<RevisionLite>,
    /// Image pull jobs.
    pub jobs: Writer<ImagePullJob>,
}

/// Everything a reconcile works with.
#[derive(Debug)]
pub struct Context {
    /// What is read.
    pub caches: Caches,
    /// What is written with.
    pub writers: Writers,
    /// Carries out many actions at once.
    pub executor: Executor,
    /// Tells people.
    pub recorder: Recorder,
    /// Time.
    pub clock: Clock,
    /// Chance, for names.
    pub seed: Seed,
    /// Switches.
    pub options: Options,
    /// What is kept between reconciles.
    pub opened: Arc<Opened>,
}

/// The reconciler.
#[derive(Debug)]
pub struct CloneSets(Context);

impl CloneSets {
    /// A reconciler that works with `context`.
    pub fn new(context: Context) -> Self {
        Self(context)
    }

    /// What it works with.
    pub fn context(&self) -> &Context {
        &self.0
    }
}

impl Reconcile for CloneSets {
    type Error = Failure;

    async fn reconcile(&self, key: Key) -> Result<Next, Failure> {
        let ctx = &self.0;
        let Some(stored) = ctx.caches.clonesets.get(&key) else { return Ok(Next::Change) };
        let cloneset = match &stored.0 {
            Ok(it) => it,
            Err(fault) => {
                ctx.complain(&*stored, format!("the stored object cannot be read: {}", fault.error));
                return Ok(Next::Change);
            }
        };
        let Ok(selector) = Selector::try_from(cloneset.spec.selector.clone()) else {
            ctx.complain(
                cloneset,
                "spec.selector cannot be read: use matchLabels or valid expressions".into(),
            );
            return Ok(Next::Change);
        };
        ctx.reconcile(&stored, cloneset, &selector).await
    }

    fn exists(&self, key: &Key) -> bool {
        self.0.caches.clonesets.get(key).is_some()
    }

    fn rest(&self, key: &Key) -> Duration {
        let stored = self.0.caches.clonesets.get(key);
        let status = stored.as_ref().and_then(|it| it.0.as_ref().ok()?.status.as_ref());
        let pods = status.map_or(0, |it| u32::try_from(it.replicas).unwrap_or_default());
        (REST_PER_POD * pods).min(LONGEST_REST)
    }
}

/// How long a CloneSet is left alone after a look at it, for each of its pods. A look itself is cheap, but each that finds
/// something new writes a status.
const REST_PER_POD: Duration = Duration::from_micros(20);

/// Nobody notices a second.
const LONGEST_REST: Duration = Duration::from_secs(1);

impl Context {
    async fn reconcile(
        &self,
        stored: &Stored,
        cloneset: &CloneSet,
        selector: &Selector,
    ) -> Result<Next, Failure> {
        if cloneset.metadata.deletion_timestamp.is_some() {
            return self.watch_it_go(stored, cloneset, selector).await;
        }
        let mut observed = observe::observe(cloneset, selector, &self.caches, &self.opened.sights);
        let mut pass = Pass::default();
        pass.take(apply::release(self, cloneset, &observed).await);
        pass.take(apply::tidy_claims(self, cloneset, &mut observed).await);
        if let Some(pinned) = revisions::missing_pin(cloneset, selector, &observed) {
            warn!(revision = pinned, "the pinned revision is not there; nothing is done without it");
            return Ok(Next::After(PIN_AGAIN));
        }
        let settled =
            revisions::settle(cloneset, selector, &observed, &self.opened, &self.writers.revisions).await;
        let settled = match settled {
            Ok(settled) => settled,
            Err(source) => return Err(Failure { source, look_again: None }),
        };
        let limits = Limits::of(&cloneset.spec);
        let active = observed.active();
        let mut world = self.world(cloneset, &observed, &active, &settled.update, &settled.current);
        world.history = &settled.history;
        let nodes = observe::nodes(&world, &limits, &self.caches);
        world.nodes = &nodes;
        self.download_ahead(&world, &settled).await;
        let facts = plan::facts(&world, &limits);
        // Whoever sees a pod change can see that its CloneSet is at it: what was counted is told before anything is done.
        let report = Self::report(&world, &limits, settled.collision_count, &facts);
        let told = self.tell(stored, cloneset.status.as_ref(), &report.status).await;
        self.act(&world, &limits, &facts, &mut pass).await;
        let known = if told.is_ok() { Some(&report.status) } else { cloneset.status.as_ref() };
        let in_the_end = report.after(&pass.troubles, world.now);
        match self.tell(stored, known, &in_the_end).await {
            Ok(newest) => {
                let newest = newest.or_else(|| told.ok().flatten());
                let stored = newest.as_deref().unwrap_or(stored);
                match self.drop_names_of_gone_pods(stored, cloneset, &observed).await {
                    Ok(again) => pass.look_again.extend(again),
                    Err(error) => pass.note(Some(error)),
                }
            }
            Err(error) => pass.note(Some(error)),
        }
        pass.look_again.extend(report.look_again);
        revisions::truncate(cloneset, &settled, &observed, &self.writers.revisions).await;
        pass.look_again.extend(soonest_available(&facts, &limits, &world));
        let look_again = pass.look_again.into_iter().min();
        match pass.error {
            Some(source) => Err(Failure { source, look_again }),
            None => Ok(look_again.map_or(Next::Change, Next::After)),
        }
    }

    /// What a CloneSet owns is the garbage collector's once it is being deleted: a revision that we wrote again would hold
    /// it up. But people see its pods go.
    async fn watch_it_go(
        &self,
        stored: &Stored,
        cloneset: &CloneSet,
        selector: &Selector,
    ) -> Result<Next, Failure> {
        let observed = observe::observe(cloneset, selector, &self.caches, &self.opened.sights);
        let active = observed.active();
        let status = cloneset.status.clone().unwrap_or_default();
        let limits = Limits::of(&cloneset.spec);
        // The revisions themselves may be gone already.
        let [update, current] = [status.update_revision, status.current_revision].map(Version::named);
        let world = self.world(cloneset, &observed, &active, &update, &current);
        let facts = plan::facts(&world, &limits);
        let report = Self::report(&world, &limits, status.collision_count.unwrap_or_default(), &facts);
        match self.tell(stored, cloneset.status.as_ref(), &report.status).await {
            Err(source) if source.code() != Some(404) => Err(Failure { source, look_again: None }),
            _ => Ok(Next::Change),
        }
    }

    fn world<'a>(
        &self,
        cloneset: &'a CloneSet,
        observed: &'a Observed,
        active: &'a [Glanced<'a>],
        update: &'a Version,
        current: &'a Version,
    ) -> World<'a> {
        static NO_NODES: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        World {
            cloneset,
            active,
            inactive: &observed.inactive,
            claims: &observed.claims,
            update,
            current,
            history: &[],
            occupied: &observed.occupied,
            doubts: &observed.doubts,
            nodes: &NO_NODES,
            options: self.options,
            now: self.clock.now(),
        }
    }

    /// Plans and carries out.
    async fn act(&self, world: &World<'_>, limits: &Limits, facts: &[Fact<'_>], pass: &mut Pass) {
        let Plan { scale, refresh, mut update, beside, limited_to, trouble, look_again } =
            plan::plan(world, limits, facts, &mut || self.seed.draw());
        if let Some(limit) = limited_to {
            let message =
                format!("scaleUp is limited because of scaleStrategy.maxUnavailable, limit: {limit}");
            self.recorder.record(about(world.cloneset), Severity::Warning, events::SCALE_UP_LIMITED, message);
        }
        pass.troubles.update = trouble.into();
        pass.look_again.extend(look_again);
        let mut scaled = apply::apply(self, world, scale).await;
        pass.troubles.scale = mem::take(&mut scaled.trouble);
        // A pod that cannot be made or deleted must not keep the others from a better image; but one that may be down now
        // was counted as up.
        let mut steps = vec![refresh];
        // Whether a pod was added may not be known; it would count for the partition.
        if scaled.may_have_added || !world.doubts.created.is_empty() {
            update.truncate(beside);
        }
        if !scaled.is_felt {
            steps.push(update);
        } else if !update.is_empty() {
            pass.told_of_update(Trouble::Untried);
        }
        pass.take(scaled);
        for actions in steps {
            let mut updated = apply::apply(self, world, actions).await;
            pass.told_of_update(mem::take(&mut updated.trouble));
            pass.take(updated);
        }
    }

    fn complain<K: kube::Resource<DynamicType = ()>>(&self, object: &K, message: String) {
        warn!(object = %Key::of(object), message, "this object cannot be reconciled");
        self.recorder.record(about(object), Severity::Warning, INVALID, message);
    }
}

/// Why a pass has failed.
#[derive(Debug, thiserror::Error)]
#[error("a CloneSet is not where it should be")]
pub struct Failure {
    source: Error,
    look_again: Option<Duration>,
}

impl ReconcileError for Failure {
    fn label(&self) -> &'static str {
        self.source.label()
    }

    fn at_latest(&self) -> Option<Duration> {
        self.look_again
    }
}

/// How long to wait for a pinned revision. Whoever pins writes the revision first, so only the cache can be behind.
const PIN_AGAIN: Duration = Duration::from_secs(1);

/// The event on an object that makes no sense.
const INVALID: &str = "InvalidSpec";

/// What a pass brought.
#[derive(Debug, Default)]
struct Pass {
    troubles: Troubles,
    look_again: Vec<Duration>,
    error: Option<Error>,
}

impl Pass {
    /// Takes in what became of some actions.
    fn take(&mut self, outcome: Outcome) {
        self.look_again.extend(outcome.look_again);
        self.note(outcome.error);
    }

    /// Keeps the first trouble with updates.
    fn told_of_update(&mut self, trouble: Trouble) {
        self.troubles.update = mem::take(&mut self.troubles.update).or(trouble);
    }

    /// Keeps the first error: what can still be done is done first.
    fn note(&mut self, error: Option<Error>) {
        self.error = self.error.take().or(error);
    }
}

/// How long until the next ready pod becomes available.
fn soonest_available(facts: &[Fact<'_>], limits: &Limits, world: &World<'_>) -> Option<Duration> {
    let waiting = facts.iter().filter(|it| it.is_ready && !it.is_available);
    waiting.filter_map(|it| it.available_in(limits, world.now)).min()
}
