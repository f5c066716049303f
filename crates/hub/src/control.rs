//! What the leader does: caches, the roster of clusters, and one dispatcher for each kind.

use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
};
use kruise_core::{
    api::{cloneset::v1beta1::CloneSet, fleet::keys, image_pull_job::v1beta1::ImagePullJob},
    backoff::Doubling,
    runtime::{
        access::{self, Right},
        cache::{Cache, Cached},
        client::{self, Error, call},
        clock::Clock,
        controller,
        events::{self, Recorder},
    },
};
use kube::{
    Api, Client, Resource,
    api::{ObjectMeta, PostParams},
};
use ring::rand::{SecureRandom, SystemRandom};
use std::sync::Arc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{
    dispatch::{
        self, Shared,
        lists::{self, Lists},
        raw::Raw,
        sweep,
        term::{self, Term},
        tombstones,
    },
    measures::Measures,
    members::{
        account::Credentials,
        answer::{self, Answerer},
        departure,
        joining::AutoApprove,
        roster::{self, Roster},
    },
    names::RevisionKey,
};

/// The Secret from which names of bodies are made, in the hub's own namespace.
pub const KEY: &str = "fleet-hub-key";
const SECRET: &str = "key";

/// What the leader is made from.
#[derive(Clone)]
pub struct Parts {
    /// The hub's API server.
    pub client: Client,
    /// The hub's own namespace.
    pub namespace: String,
    /// Tells people.
    pub events: Recorder,
    /// Counts.
    pub measures: Measures,
    /// Time.
    pub clock: Clock,
    /// Clusters that may join without a person's word.
    pub rules: Vec<AutoApprove>,
    /// By what agents are known.
    pub credentials: Credentials,
}

/// Why the leader cannot begin, or go on.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// A call failed.
    #[error("the hub's own objects cannot be set up")]
    Call(#[from] Error),
    /// The operating system gives no random bytes.
    #[error("there is no randomness for the hub's key")]
    NoRandomness,
    /// The API server has no `kube-system`.
    #[error("there is no namespace kube-system, by which the hub is known")]
    Nameless,
    /// Another leader has written since.
    #[error("another leader has written under a later number; beginning anew, if this one still leads")]
    Deposed,
    /// Somebody emptied the Secret.
    #[error("the Secret {KEY} has no key of {} bytes", RevisionKey::BYTES)]
    BadKey,
}

/// The rights that the leader needs, part by part.
pub fn needs() -> Vec<Right> {
    let own = vec![
        access::cluster("", "namespaces", &["get", "create"]),
        access::own_namespace("", "secrets", &["create"]),
        access::own_namespace("", "secrets", &["get"]).named([KEY]),
    ];
    let rights = [
        own,
        roster::needs(),
        answer::needs(),
        departure::needs(),
        dispatch::needs(),
        lists::needs(),
        term::needs(),
        events::needs(),
    ];
    rights.concat()
}

/// Runs until `stop` is cancelled and what is under way has ended. Dropping this ends it where it is.
pub async fn run(parts: Parts, told: CancellationToken) -> Result<(), Trouble> {
    let stop = told.child_token();
    let Some(prepared) = stop.run_until_cancelled(prepare(&parts)).await else { return Ok(()) };
    let (key, hub_uid) = prepared?;
    let roster = Roster::new(&parts.clock, &parts.measures.metrics);
    let answerer = answerer(&parts, hub_uid, &roster);
    let Parts { client, namespace, events, measures, clock, rules: _, credentials: _ } = parts;
    let metrics = &measures.metrics;
    let shared = Shared {
        client: client.clone(),
        policies: Cache::new("placementpolicies", clock.clone(), metrics.clone()),
        cluster_policies: Cache::new("clusterplacementpolicies", clock.clone(), metrics.clone()),
        bindings: Cache::new("fleetbindings", clock.clone(), metrics.clone()),
        assignments: Cache::new("assignments", clock.clone(), metrics.clone()),
        lists: Lists::new(&clock, metrics),
        roster: roster.clone(),
        heard: Arc::default(),
        told: Arc::default(),
        key,
        bodies: Arc::default(),
        term: Arc::new(Term::new(client.clone(), &namespace)),
        deposed: stop.clone(),
        events: events.of("fleet-hub"),
        measures: measures.clone(),
        clock: clock.clone(),
    };
    let mut running = JoinSet::new();
    let feeds = stop.clone();
    feed(&mut running, &shared.policies, &client, &feeds);
    feed(&mut running, &shared.cluster_policies, &client, &feeds);
    feed(&mut running, &shared.bindings, &client, &feeds);
    feed(&mut running, &shared.assignments, &client, &feeds);
    make_jobs(&mut running, &shared, &stop);
    follow::<CloneSet>(&mut running, &shared, ("fleet-cloneset", "clonesets"), &stop);
    follow::<ImagePullJob>(&mut running, &shared, ("fleet-imagepulljob", "imagepulljobs"), &stop);
    running.spawn(sweep::run(shared.clone(), stop.clone()));
    let settings = |name, workers| controller::Settings {
        name,
        workers,
        backoff: Doubling::default(),
        clock: clock.clone(),
        metrics: metrics.clone(),
    };
    running.spawn(answerer.controller(settings("fleet-joining", answer::WORKERS)).run(stop.clone()));
    let departures = departure::Parts {
        client: client.clone(),
        roster: roster.clone(),
        bindings: shared.bindings.clone(),
        assignments: shared.assignments.clone(),
        events: events.of("fleet-members"),
        clock: clock.clone(),
    };
    let departures = departure::controller(departures, settings("fleet-leaving", departure::WORKERS));
    running.spawn(departures.run(stop.clone()));
    let tombstones = tombstones::controller(&shared, settings("fleet-tombstones", departure::WORKERS));
    running.spawn(tombstones.run(stop.clone()));
    let (tidying, token) = (answerer.clone(), stop.clone());
    running.spawn(async move { tidying.tidy(token).await });
    let token = stop.clone();
    running.spawn(async move { answerer.follow(token).await });
    let (watching, token) = (roster.clone(), stop.clone());
    running.spawn({
        let client = client.clone();
        async move { watching.follow(client, token).await }
    });
    let token = stop.clone();
    running.spawn(async move { roster.watch(client, events.of("fleet-members"), measures, token).await });
    running.join_all().await;
    if told.is_cancelled() { Ok(()) } else { Err(Trouble::Deposed) }
}

/// Brings objects of one kind into the clusters. `names` are those of the controller and of the kind.
fn follow<K>(
    running: &mut JoinSet<()>,
    shared: &Shared,
    names: (&'static str, &'static str),
    stop: &CancellationToken,
) where
    K: Resource<DynamicType = ()> + 'static,
    Raw<K>: Cached,
{
    let (clock, metrics) = (shared.clock.clone(), shared.measures.metrics.clone());
    let objects: Cache<Raw<K>> = Cache::new(names.1, clock.clone(), metrics.clone());
    feed(running, &objects, &shared.client, stop);
    let (name, workers) = (names.0, dispatch::WORKERS);
    let settings = controller::Settings { name, workers, backoff: Doubling::default(), clock, metrics };
    running.spawn(dispatch::controller(shared.clone(), objects, settings).run(stop.clone()));
}

/// Makes jobs from lists of images. Those that cannot be read do not stop the others.
fn make_jobs(running: &mut JoinSet<()>, shared: &Shared, stop: &CancellationToken) {
    let (clock, metrics) = (shared.clock.clone(), shared.measures.metrics.clone());
    let jobs = Cache::new("imagepulljobs-of-lists", clock.clone(), metrics.clone());
    guarded(running, shared.lists.cache(), &shared.client, stop);
    guarded(running, &jobs, &shared.client, stop);
    let (name, workers) = ("fleet-imagelistpulljob", dispatch::WORKERS);
    let settings = controller::Settings { name, workers, backoff: Doubling::default(), clock, metrics };
    running.spawn(lists::controller(shared, &jobs, settings).run(stop.clone()));
}

fn guarded<K: Cached>(
    running: &mut JoinSet<()>,
    cache: &Cache<K>,
    client: &Client,
    stop: &CancellationToken,
) {
    let (cache, client, stop) = (cache.clone(), client.clone(), stop.clone());
    running.spawn(async move {
        cache.run_guarded(client.clone(), Api::all(client), client::watch(), stop).await;
    });
}

/// Who answers clusters that want to join, and keeps the rights of those that have.
fn answerer(parts: &Parts, hub_uid: String, roster: &Roster) -> Answerer {
    let Parts { client, namespace, events, measures, clock, rules, credentials } = parts.clone();
    let (members, events) = (roster.members().clone(), events.of("fleet-joining"));
    let answerer = Answerer::new(answer::Parts {
        client,
        namespace,
        hub_uid,
        rules,
        credentials,
        members,
        events,
        measures,
        clock,
    });
    let asked = answerer.clone();
    roster.say_revoked_after(move |cluster| asked.has_access(cluster));
    answerer
}

fn feed<K: Cached>(running: &mut JoinSet<()>, cache: &Cache<K>, client: &Client, stop: &CancellationToken) {
    let (cache, client, stop) = (cache.clone(), client.clone(), stop.clone());
    running.spawn(async move {
        cache.run(client.clone(), Api::all(client), client::watch(), stop).await;
    });
}

/// Makes sure that what the hub keeps for itself is there. Gives the hub's key and its UID.
async fn prepare(parts: &Parts) -> Result<(RevisionKey, String), Trouble> {
    let namespaces: Api<Namespace> = Api::all(parts.client.clone());
    for name in [keys::SYSTEM_NAMESPACE, keys::CONTENT_NAMESPACE, &parts.namespace] {
        if call("look for a namespace", namespaces.get_opt(name)).await?.is_some() {
            continue;
        }
        let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        made(call("make a namespace", namespaces.create(&PostParams::default(), &namespace)).await)?;
    }
    let system = call("read who the hub is", namespaces.get_opt("kube-system")).await?;
    let uid = system.and_then(|it| it.metadata.uid).ok_or(Trouble::Nameless)?;
    Ok((key(Api::namespaced(parts.client.clone(), &parts.namespace)).await?, uid))
}

/// The hub's key. The first leader makes it, and it never changes: another one would store every body again.
async fn key(secrets: Api<Secret>) -> Result<RevisionKey, Trouble> {
    if call("look for the hub's key", secrets.get_opt(KEY)).await?.is_none() {
        let mut bytes = vec![0; RevisionKey::BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| Trouble::NoRandomness)?;
        let metadata = ObjectMeta { name: Some(KEY.to_owned()), ..ObjectMeta::default() };
        let data = Some([(SECRET.to_owned(), ByteString(bytes))].into());
        let secret = Secret { metadata, data, ..Secret::default() };
        made(call("make the hub's key", secrets.create(&PostParams::default(), &secret)).await)?;
    }
    let stored = call("read the hub's key", secrets.get(KEY)).await?;
    let bytes = stored.data.as_ref().and_then(|it| it.get(SECRET)).map(|it| it.0.as_slice());
    let bytes = bytes.filter(|it| it.len() == RevisionKey::BYTES).ok_or(Trouble::BadKey)?;
    Ok(RevisionKey::new(bytes))
}

/// What somebody else made in the meantime is made.
fn made<T>(result: Result<T, Error>) -> Result<(), Error> {
    match result {
        Err(error) if error.is_name_taken() => Ok(()),
        other => other.map(drop),
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}
