//! Answers those who want to join, and keeps the rights and certificates of those who have (JOIN-1 to 6, ADR 9).
//!
//! Everything is done by name: the request for it, the member that has it, its rights, and what its agent asks to be signed.
//! `observe` reads the caches, [`plan`] decides with `verdict` (may it join?), `sign` and [`signing`] (may that be signed?) or [`issue`]
//! (which token is owed?), and `apply` and `hand` write, in an order in which every prefix is safe: the token is used up before
//! the request is approved, it is approved before anything is made for it, and the MemberCluster comes last.

pub mod issue;
pub mod plan;
pub mod signing;

mod apply;
mod hand;
mod observe;
mod sign;
mod verdict;

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use k8s_openapi::api::{
    certificates::v1::CertificateSigningRequest,
    core::v1::{ConfigMap, Namespace, ServiceAccount},
    rbac::v1::{ClusterRoleBinding, RoleBinding},
};
use kruise_core::{
    api::fleet::{
        GROUP,
        join_request::{JoinDecision, JoinRequest},
        keys::{BOOTSTRAP, CLUSTER, CONTENT_NAMESPACE},
        member_cluster::{ClusterState, MemberCluster},
    },
    runtime::{
        access::{self as rights, Right},
        cache::{Cache, Cached, Feed},
        client::{self, Error, call},
        clock::Clock,
        controller::{self, Controller, Next, Reconcile, Triggers},
        events::Recorder,
        key::Key,
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Preconditions},
    core::DeserializeGuard,
};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    access,
    account::{self, Credentials},
    joining::AutoApprove,
    tokens,
};
use crate::{measures::Measures, names::cluster_namespace};
use observe::Source;

/// How many names are seen to at once.
pub const WORKERS: NonZeroUsize = NonZeroUsize::new(4).expect("four is not zero");
/// A plan is looked at again so often before others get their turn; each look brings a name one step on.
const STEPS: usize = 8;

/// How often is looked for tokens that have expired.
const TIDY: Duration = Duration::from_secs(600);
/// How soon a member that cannot be read is looked at again; a change of it is seen at once.
const UNREADABLE: Duration = Duration::from_secs(60);

/// The rights it needs. Whoever makes a role must hold every right in it, so those of agents are here too.
pub fn needs() -> Vec<Right> {
    const SIGNING: &str = "certificates.k8s.io";
    const LEASES: &str = "coordination.k8s.io";
    vec![
        rights::cluster(GROUP, "joinrequests", &["get", "list", "watch", "delete"]),
        rights::cluster(GROUP, "joinrequests/status", &["patch"]),
        rights::cluster(GROUP, "memberclusters", &["create"]),
        rights::own_namespace("", "configmaps", &["list", "watch", "get", "patch", "delete"]),
        rights::cluster("", "namespaces", &["get", "create"]),
        rights::cluster(LEASES, "leases", &["get", "create"]),
        rights::cluster(access::RBAC, "roles", &["get", "create", "patch"]),
        rights::cluster(access::RBAC, "clusterroles", &["get", "create", "patch"]),
        rights::cluster(access::RBAC, "rolebindings", &["get", "list", "watch", "create", "patch", "delete"]),
        rights::cluster(
            access::RBAC,
            "clusterrolebindings",
            &["get", "list", "watch", "create", "patch", "delete"],
        ),
        // Of this name only, in whichever namespace: whoever may issue tokens of any account may do everything.
        rights::cluster("", "serviceaccounts", &["get", "list", "watch", "create", "patch", "delete"])
            .named([account::ACCOUNT]),
        rights::cluster("", "serviceaccounts/token", &["create"]).named([account::ACCOUNT]),
        rights::cluster(SIGNING, "certificatesigningrequests", &["get", "list", "watch"]),
        rights::cluster(SIGNING, "certificatesigningrequests/approval", &["patch"]),
        rights::cluster(SIGNING, "signers", &["approve"]).named([signing::SIGNER]),
        // What agents may do and the hub itself has no use for.
        rights::cluster(GROUP, "assignments/status", &["patch"]),
        rights::in_namespace(CONTENT_NAMESPACE, GROUP, "fleetrevisions", &["get"]),
        rights::cluster(LEASES, "leases", &["get", "patch", "update"]).named([access::LEASE]),
        rights::cluster("events.k8s.io", "events", &["create"]),
        rights::cluster(SIGNING, "certificatesigningrequests", &["create"]),
    ]
}

/// What the holders of tokens may do before anybody has answered them (JOIN-1).
pub fn bootstrap_needs() -> Vec<Right> {
    vec![
        rights::cluster("certificates.k8s.io", "certificatesigningrequests", &["create"]),
        rights::cluster(GROUP, "joinrequests", &["create"]),
    ]
}

/// What it is made from.
#[derive(Clone)]
pub struct Parts {
    /// The hub's API server.
    pub client: Client,
    /// The hub's own namespace, where tokens are.
    pub namespace: String,
    /// UID of the hub's `kube-system` namespace.
    pub hub_uid: String,
    /// Who is approved without a person.
    pub rules: Vec<AutoApprove>,
    /// By what agents are known.
    pub credentials: Credentials,
    /// The members, kept up to date by the roster.
    pub members: Cache<DeserializeGuard<MemberCluster>>,
    /// Tells people.
    pub events: Recorder,
    /// Counts.
    pub measures: Measures,
    /// Time.
    pub clock: Clock,
}

/// Answers those who want to join. Clones are handles to the same.
#[derive(Clone)]
pub struct Answerer(Arc<Inner>);

/// The inside of an [`Answerer`].
pub struct Inner {
    client: Client,
    namespace: String,
    hub_uid: String,
    rules: Vec<AutoApprove>,
    credentials: Credentials,
    events: Recorder,
    measures: Measures,
    clock: Clock,
    namespaces: Api<Namespace>,
    members: Cache<DeserializeGuard<MemberCluster>>,
    requests: Cache<JoinRequest>,
    tokens: Cache<ConfigMap>,
    signing: Cache<CertificateSigningRequest>,
    bindings: Cache<RoleBinding>,
    cluster_bindings: Cache<ClusterRoleBinding>,
    accounts: Cache<ServiceAccount>,
    /// Held by whoever lets a cluster in or turns one away.
    deciding: tokio::sync::Mutex<()>,
}

impl std::ops::Deref for Answerer {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Answerer {
    /// One that knows nothing yet; [`Answerer::follow`] tells it.
    pub fn new(parts: Parts) -> Self {
        let Parts { client, namespace, hub_uid, rules, credentials, members, events, measures, clock } =
            parts;
        fn cache<K: Cached>(name: &'static str, clock: &Clock, measures: &Measures) -> Cache<K> {
            Cache::new(name, clock.clone(), measures.metrics.clone())
        }
        Self(Arc::new(Inner {
            namespaces: Api::all(client.clone()),
            requests: cache("joinrequests", &clock, &measures),
            tokens: cache("tokens", &clock, &measures),
            signing: cache("certificatesigningrequests", &clock, &measures),
            bindings: cache("rolebindings", &clock, &measures),
            cluster_bindings: cache("clusterrolebindings", &clock, &measures),
            accounts: cache("serviceaccounts", &clock, &measures),
            client,
            namespace,
            hub_uid,
            rules,
            credentials,
            members,
            events,
            measures,
            clock,
            deciding: tokio::sync::Mutex::default(),
        }))
    }

    /// Removes tokens that have been of no use for a while, until `stop` is cancelled.
    pub async fn tidy(&self, stop: CancellationToken) {
        if stop.run_until_cancelled(self.tokens.synced()).await.is_none() {
            return;
        }
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        loop {
            let now = self.clock.now();
            for map in self.tokens.all().iter().filter(|it| tokens::is_outlived(it, now)) {
                let params = DeleteParams::default().preconditions(Preconditions {
                    uid: map.metadata.uid.clone(),
                    resource_version: map.metadata.resource_version.clone(),
                });
                let removed = call("remove a token", api.delete(&map.name_any(), &params)).await;
                if let Err(error) = removed
                    && !matches!(error.code(), Some(404 | 409))
                {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        "a token that has expired is not removed yet"
                    );
                }
            }
            if stop.run_until_cancelled(tokio::time::sleep(TIDY)).await.is_none() {
                return;
            }
        }
    }

    /// Keeps the caches up to date until `stop` is cancelled, but for that of the members.
    pub async fn follow(&self, stop: CancellationToken) {
        let client = || self.client.clone();
        let ours = || client::watch().labels(CLUSTER);
        let of_signer = client::watch().fields(&format!("spec.signerName={}", signing::SIGNER));
        // By this name the right to do so is bound.
        let of_agents = client::watch().fields(&format!("metadata.name={}", account::ACCOUNT));
        let tokens = Api::namespaced(client(), &self.namespace);
        tokio::join!(
            self.requests.run_guarded(client(), Api::all(client()), client::watch(), stop.clone()),
            self.tokens.run(client(), tokens, client::watch().labels(BOOTSTRAP), stop.clone()),
            self.signing.run(client(), Api::all(client()), of_signer, stop.clone()),
            self.bindings.run(client(), Api::all(client()), ours(), stop.clone()),
            self.cluster_bindings.run(client(), Api::all(client()), ours(), stop.clone()),
            self.accounts.run(client(), Api::all(client()), of_agents, stop.clone()),
        );
    }

    /// Whether any binding of this cluster's agent, or the account that its tokens are of, is still there.
    pub fn has_access(&self, cluster: &str) -> bool {
        let is_known = self.0.bindings.is_synced() && self.0.accounts.is_synced();
        !is_known || self.bound(cluster).iter().any(Option::is_some) || self.account(cluster).is_some()
    }

    /// The controller.
    pub fn controller(&self, settings: controller::Settings) -> Controller<Self> {
        let triggers = Triggers::new(self.clock.clone());
        self.wake(&triggers);
        let feeds: Vec<Arc<dyn Feed>> = vec![
            Arc::new(self.requests.clone()),
            Arc::new(self.members.clone()),
            Arc::new(self.tokens.clone()),
            Arc::new(self.signing.clone()),
            Arc::new(self.bindings.clone()),
            Arc::new(self.cluster_bindings.clone()),
            Arc::new(self.accounts.clone()),
        ];
        Controller::new(settings, triggers, feeds, self.clone())
    }

    /// Wakes the controller for every name that a change concerns.
    fn wake(&self, triggers: &Triggers) {
        triggers.follow_all(&self.requests);
        let (to, requests) = (triggers.clone(), self.requests.clone());
        let open = move || {
            let is_open = |it: &JoinRequest| {
                let decision = it.status.as_ref().and_then(|it| it.decision);
                decision.is_none_or(|it| it == JoinDecision::Pending)
            };
            requests.all().iter().filter(|it| is_open(it)).for_each(|it| to.now(Key::of(&**it)));
        };
        let wake = open.clone();
        self.tokens.on_change(move |_| wake());
        let to = triggers.clone();
        self.members.on_change(move |change| {
            let essence = |it: &Option<Arc<DeserializeGuard<MemberCluster>>>| {
                let member = it.as_ref().and_then(|it| it.0.as_ref().ok());
                let credential = |it: &MemberCluster| {
                    it.status.as_ref().map(|it| (it.certificate.clone(), it.sealed_for.clone()))
                };
                member.map(|it| (it.uid(), it.spec.clone(), credential(it), is_silent(it)))
            };
            // Reports of agents come every few seconds and say nothing about joining.
            if essence(&change.before) != essence(&change.after) {
                to.now(change.key());
                open();
            }
        });
        let (to, requests, members) = (triggers.clone(), self.requests.clone(), self.members.clone());
        self.signing.on_change(move |change| {
            let Some(asked) = change.after.as_ref() else { return };
            let creator = asked.spec.username.as_deref().unwrap_or_default();
            let of_account = account::namespace_of(creator);
            match access::cluster_of(creator) {
                Some(cluster) => to.now(Key::new("", cluster)),
                None if of_account.is_some() => members
                    .all()
                    .iter()
                    .filter_map(|it| it.meta().name.as_deref())
                    .filter(|it| of_account == Some(cluster_namespace(it).as_str()))
                    .for_each(|it| to.now(Key::new("", it))),
                None => requests
                    .all()
                    .iter()
                    .filter(|it| it.spec.signing_request == asked.metadata.name)
                    .for_each(|it| to.now(Key::of(&**it))),
            }
        });
        let to = triggers.clone();
        self.bindings.on_change(move |it| wake_owner(&to, it.after.as_deref().or(it.before.as_deref())));
        let to = triggers.clone();
        self.cluster_bindings
            .on_change(move |it| wake_owner(&to, it.after.as_deref().or(it.before.as_deref())));
        let to = triggers.clone();
        self.accounts.on_change(move |it| wake_owner(&to, it.after.as_deref().or(it.before.as_deref())));
    }
}

/// Whether a member is not heard.
fn is_silent(member: &MemberCluster) -> bool {
    member.status.as_ref().and_then(|it| it.state) == Some(ClusterState::Offline)
}

/// Wakes the controller for the cluster that an object was made for.
fn wake_owner<K: Resource>(triggers: &Triggers, object: Option<&K>) {
    let Some(object) = object else { return };
    // Those that were made by hand long ago have the label only.
    if let Some(cluster) = object.annotations().get(CLUSTER).or_else(|| object.labels().get(CLUSTER)) {
        triggers.now(Key::new("", cluster));
    }
}

impl Reconcile for Answerer {
    type Error = Error;

    async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let cluster = &*key.name;
        for _ in 0..STEPS {
            let mut seen = self.observe(cluster, Source::Cache).await?;
            let mut plan = plan::plan(&seen.observed(cluster, self));
            // One at a time: of two names that one cluster asks for at the same instant, the second must see the first.
            let mut turn = None;
            if plan.is_for_good() {
                turn = Some(self.deciding.lock().await);
                seen = self.observe(cluster, Source::Server).await?;
                plan = plan::plan(&seen.observed(cluster, self));
            }
            if let Some(fault) = seen.unreadable_member() {
                // One that cannot be read is not one that is gone: its rights stay as they are (JOIN-6).
                warn!(cluster, fault, "a MemberCluster cannot be read; nothing is decided about its name");
                return Ok(Next::After(UNREADABLE));
            }
            if plan.actions.is_empty() {
                return Ok(plan.look_again_in.map_or(Next::Change, Next::After));
            }
            for action in plan.actions {
                self.apply(cluster, &seen, action).await?;
            }
            drop(turn);
        }
        // Somebody undoes what we do.
        Ok(Next::After(Duration::from_secs(10)))
    }

    fn exists(&self, key: &Key) -> bool {
        self.requests.get(key).is_some() || self.members.get(key).is_some()
    }
}

impl std::fmt::Debug for Answerer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answerer").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inner").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
