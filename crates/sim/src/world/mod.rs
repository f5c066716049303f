//! A world: clusters, the network between them and their clients, one clock, one seed, one log.

mod check;
mod fleet;
mod process;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use http::Method;
use jiff::Timestamp;
use serde_json::Value;
use tokio::{sync::watch, task::JoinHandle};

pub use check::run;
pub(crate) use check::said;
pub use fleet::{FleetBuilder, fleet};
pub(crate) use process::Life;
pub use process::{Process, ProcessContext};

use crate::{
    agenda::{Agenda, drive},
    collect,
    faults::{Link, LinkService, Weather},
    images::Registries,
    log::EventLog,
    nodes::{Behaviour, Nodes},
    seed::Seed,
    server::{Cluster, Settings, status::Failure},
    time::Clock,
};

/// A handle to a world. Clones are handles to the same one; it ends when the last is dropped.
#[derive(Clone)]
pub struct World {
    pub(crate) shared: Arc<Shared>,
}

/// One cluster of a world, with its nodes.
pub struct Member {
    cluster: Arc<Cluster>,
    pub(crate) nodes: Mutex<Nodes>,
    pub(crate) collector: Mutex<collect::Memory>,
}

pub(crate) type Invariant = Box<dyn Fn(&World) -> Result<(), String> + Send + Sync>;

pub(crate) struct Shared {
    number: u64,
    pub(crate) seed: Seed,
    pub(crate) clock: Clock,
    pub(crate) log: EventLog,
    pub(crate) agenda: Arc<Agenda>,
    pub(crate) registries: Registries,
    members: Mutex<BTreeMap<String, Arc<Member>>>,
    links: Mutex<BTreeMap<(String, String), Arc<Link>>>,
    weather: Mutex<Weather>,
    invariants: Mutex<Vec<(String, Arc<Invariant>)>>,
    broken: watch::Sender<Option<String>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl World {
    /// An empty world. It must be made inside a tokio runtime with one thread and a paused clock.
    pub fn new(seed: u64) -> Self {
        Self::starting_at(seed, Clock::virtual_epoch())
    }

    /// An empty world whose clock shows `now` and goes on as tokio's does. With a clock that is not paused this is a
    /// world for people: it runs while nobody asks anything, and no seed repeats it.
    pub fn at(seed: u64, now: Timestamp) -> Self {
        Self::starting_at(seed, Clock::starting_at(now))
    }

    fn starting_at(seed: u64, clock: Clock) -> Self {
        // Jitter inside kube's back-off comes from this thread's generator.
        fastrand::seed(seed);
        let agenda = Arc::new(Agenda::default());
        let shared = Arc::new(Shared {
            number: seed,
            seed: Seed::new(seed),
            clock,
            log: EventLog::keeping(4_096),
            agenda: agenda.clone(),
            registries: Registries::default(),
            members: Mutex::default(),
            links: Mutex::default(),
            weather: Mutex::new(Weather::calm()),
            invariants: Mutex::default(),
            broken: watch::Sender::new(None),
            tasks: Mutex::default(),
        });
        let driver = tokio::spawn(drive(agenda, Arc::downgrade(&shared)));
        lock(&shared.tasks).push(driver);
        Self { shared }
    }

    /// The number the world was made from.
    pub fn seed(&self) -> u64 {
        self.shared.number
    }

    /// What the world's clock shows.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// The event log.
    pub fn log(&self) -> &EventLog {
        &self.shared.log
    }

    /// Writes a line of the test's own into the log.
    pub fn note(&self, text: &str) {
        self.shared.log.write(self.shared.clock.elapsed(), format_args!("note {text}"));
    }

    /// Adds an empty cluster.
    pub fn add_cluster(&self, name: &str) -> Arc<Member> {
        self.add_cluster_with(name, Settings::default(), Behaviour::default())
    }

    /// Adds an empty cluster with its own settings.
    pub fn add_cluster_with(&self, name: &str, settings: Settings, behaviour: Behaviour) -> Arc<Member> {
        let cluster = Cluster::new(name, self.shared.seed, self.shared.clock.twin(), settings);
        let cluster = Arc::new(cluster);
        let nodes = Mutex::new(Nodes::new(cluster.seed(), behaviour));
        let member = Arc::new(Member { cluster, nodes, collector: Mutex::default() });
        lock(&self.shared.members).insert(name.to_owned(), member.clone());
        self.shared.settle(&member);
        member
    }

    /// A cluster by name. A name that does not exist is a mistake in the test.
    pub fn cluster(&self, name: &str) -> Arc<Member> {
        let found = lock(&self.shared.members).get(name).cloned();
        found.unwrap_or_else(|| panic!("there is no cluster named {name}"))
    }

    /// All clusters, by name.
    pub fn clusters(&self) -> Vec<Arc<Member>> {
        lock(&self.shared.members).values().cloned().collect()
    }

    /// The link between a client and a cluster, for its weather.
    pub fn link(&self, client: &str, cluster: &str) -> Arc<Link> {
        let key = (client.to_owned(), cluster.to_owned());
        let weather = lock(&self.shared.weather).clone();
        let mut links = lock(&self.shared.links);
        let make = || Arc::new(Link::new(client, cluster, self.shared.seed, weather));
        links.entry(key).or_insert_with(make).clone()
    }

    /// Sets the weather of all links: those that are there, and those that are made from now on.
    pub fn set_weather(&self, weather: Weather) {
        lock(&self.shared.links).values().for_each(|it| it.set_weather(weather.clone()));
        *lock(&self.shared.weather) = weather;
    }

    /// A client, named for the log, managed fields and its link.
    pub fn client(&self, client: &str, cluster: &str) -> kube::Client {
        let service = self.service(client, cluster);
        kube::Client::new(service, "default")
    }

    /// What [`Self::client`] is built on, for clients that need layers of their own.
    pub fn service(&self, client: &str, cluster: &str) -> LinkService {
        LinkService::new(&self.shared, self.cluster(cluster), self.link(client, cluster), None)
    }

    /// Writes past the network, as the person at the cluster's own machine would.
    pub fn write(&self, cluster: &str, method: Method, path: &str, body: &Value) -> Result<Value, Failure> {
        let member = self.cluster(cluster);
        let result = member.cluster.write(method, path, body);
        self.shared.settle(&member);
        result
    }

    /// Puts an object into a cluster's store as it is, past every rule.
    pub fn put_back(&self, cluster: &str, table: &str, object: Value) {
        let member = self.cluster(cluster);
        member.cluster.put_back(table, object);
        self.shared.settle(&member);
    }

    /// Restarts a cluster's API server: its watches end.
    pub fn restart_server(&self, cluster: &str) {
        self.shared.log.write(self.shared.clock.elapsed(), format_args!("{cluster} server restarts"));
        self.cluster(cluster).cluster.restart();
    }

    /// Makes a cluster's API server forget the past.
    pub fn compact(&self, cluster: &str) {
        self.shared.log.write(self.shared.clock.elapsed(), format_args!("{cluster} server compacts"));
        self.cluster(cluster).cluster.compact();
    }

    /// Lets virtual time pass.
    pub async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

impl Member {
    /// Its API server.
    pub fn server(&self) -> &Arc<Cluster> {
        &self.cluster
    }
}

impl Shared {
    /// Lets the cluster's own controllers see what was written, and checks the invariants.
    pub(crate) fn settle(self: &Arc<Self>, member: &Arc<Member>) {
        let changes = member.cluster.take_changes();
        if changes.is_empty() {
            return;
        }
        for change in &changes {
            collect::react(self, member, change);
            Nodes::react(self, member, change);
        }
        self.check_invariants();
    }

    /// Does something to a cluster after a while.
    pub(crate) fn later(
        self: &Arc<Self>,
        member: &Arc<Member>,
        delay: Duration,
        job: impl FnOnce(&Arc<Self>, &Arc<Member>) + Send + 'static,
    ) {
        let target = member.clone();
        let due = self.clock.elapsed().saturating_add(delay);
        self.agenda.add(due, 0, Some(member.clone()), move |world| job(world, &target));
    }

    pub(crate) fn write_log(&self, line: fmt::Arguments<'_>) {
        self.log.write(self.clock.elapsed(), line);
    }

    pub(crate) fn own(&self, task: JoinHandle<()>) {
        let mut tasks = lock(&self.tasks);
        tasks.retain(|it| !it.is_finished());
        tasks.push(task);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for task in lock(&self.tasks).drain(..) {
            task.abort();
        }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("World").field("seed", &self.shared.number).finish_non_exhaustive()
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Member").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
