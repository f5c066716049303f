//! Reading what there is about one name: the only reader of caches, and of the API server where they may be behind or do not
//! tell.

use std::sync::Arc;

use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, core::v1::ConfigMap, rbac::v1::Subject};
use kruise_core::{
    api::fleet::{
        join_request::{JoinDecision, JoinRequest},
        keys::{BOOTSTRAP, TOKEN},
        member_cluster::MemberCluster,
    },
    runtime::{
        client::{Error, call},
        key::{Key, version},
    },
};
use kube::{Api, Resource, ResourceExt, api::ListParams, core::DeserializeGuard};
use serde_json::Value;

use super::{
    Answerer, is_silent,
    plan::{Observed, StoredToken},
    sign::is_of_agent,
};
use crate::{
    members::{
        access,
        account::{self, Account, Credentials},
        joining::Known,
        tokens,
    },
    names::cluster_namespace,
};

/// Where members are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// In the cache, which may be a moment behind.
    Cache,
    /// At the API server.
    Server,
}

/// What was read; [`Seen::observed`] is what plans see of it.
pub(super) struct Seen {
    pub(super) request: Option<Arc<JoinRequest>>,
    pub(super) member: Option<Arc<DeserializeGuard<MemberCluster>>>,
    members: Vec<Known>,
    token: Option<StoredToken>,
    signing: Vec<Arc<CertificateSigningRequest>>,
    bound: Vec<Option<Vec<String>>>,
    means: Vec<Option<Value>>,
    account: Option<Account>,
    reader: Option<(String, String)>,
    has_namespace: bool,
}

impl Answerer {
    /// Looks at one name.
    pub(super) async fn observe(&self, cluster: &str, source: Source) -> Result<Seen, Error> {
        let key = Key::new("", cluster);
        let request = self.requests.get(&key);
        let status = request.as_ref().map(|it| it.status.clone().unwrap_or_default());
        let is_open =
            status.as_ref().is_some_and(|it| it.decision.is_none_or(|it| it == JoinDecision::Pending));
        let is_unmade =
            status.is_some_and(|it| it.decision != Some(JoinDecision::Denied) && it.namespace.is_empty());
        let members = match source {
            Source::Server if is_unmade => self.list().await?,
            _ if is_unmade => self.members.all(),
            _ => self.members.get(&key).into_iter().collect(),
        };
        let member = members.iter().find(|it| it.meta().name.as_deref() == Some(cluster)).cloned();
        let (bound, account) = (self.bound(cluster), self.account(cluster));
        let readable = member.as_ref().and_then(|it| it.0.as_ref().ok());
        // One that falls silent may have lost its Lease, or the right to renew it. Where a binding is missing, all of it is made anyway.
        let is_looked_at =
            readable.is_some_and(|it| it.spec.accepted && is_silent(it)) && bound.iter().all(Option::is_some);
        let means = if is_looked_at { self.means(cluster).await? } else { Vec::new() };
        let is_account_missed = self.credentials == Credentials::Token && account.is_none();
        let is_missed = is_account_missed
            || bound.first().is_some_and(Option::is_none)
            || means.iter().any(Option::is_none);
        let is_in_doubt = is_missed && bound.iter().any(Option::is_some);
        Ok(Seen {
            signing: self.signing(cluster, request.as_deref()),
            token: if is_open { self.token(request.as_deref()).await? } else { None },
            members: if is_unmade { known(&members) } else { Vec::new() },
            member,
            reader: self.reader(cluster),
            has_namespace: !is_in_doubt || self.has_namespace(cluster).await?,
            request,
            bound,
            means,
            account,
        })
    }

    async fn list(&self) -> Result<Vec<Arc<DeserializeGuard<MemberCluster>>>, Error> {
        let api: Api<DeserializeGuard<MemberCluster>> = Api::all(self.client.clone());
        let all = call("list clusters", api.list(&ListParams::default())).await?;
        Ok(all.items.into_iter().map(Arc::new).collect())
    }

    /// The token of a request as it is now: a denial is for good, and the watch may not have shown the token yet.
    async fn token(&self, request: Option<&JoinRequest>) -> Result<Option<StoredToken>, Error> {
        let Some(id) = request.and_then(|it| it.annotations().get(TOKEN)) else { return Ok(None) };
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let map = call("read a token", api.get_opt(&tokens::name(id))).await?;
        // What is not labelled as one is none: admission does not know it either.
        let map = map.filter(|it| it.labels().contains_key(BOOTSTRAP));
        Ok(map
            .and_then(|it| Some(StoredToken { token: tokens::read(&it)?, version: version(&it).to_owned() })))
    }

    /// By name, so that a plan for the same objects is always the same.
    fn signing(&self, cluster: &str, request: Option<&JoinRequest>) -> Vec<Arc<CertificateSigningRequest>> {
        let named = request.and_then(|it| it.spec.signing_request.as_deref());
        let mut signing = self.signing.all();
        let account = account::user(cluster);
        signing.retain(|it| {
            let creator = it.spec.username.as_deref().unwrap_or_default();
            creator == account
                || access::cluster_of(creator) == Some(cluster)
                || (!is_of_agent(it) && named.is_some() && it.metadata.name.as_deref() == named)
        });
        signing.sort_by_key(|it| it.name_any());
        signing
    }

    /// Whom the bindings of a cluster are for.
    pub(super) fn bound(&self, cluster: &str) -> Vec<Option<Vec<String>>> {
        let bound = |(_, namespace, name): (_, Option<String>, String)| match namespace {
            Some(namespace) => {
                self.bindings.get(&Key::new(&namespace, &name)).map(|it| holders(it.subjects.as_deref()))
            }
            None => self.cluster_bindings.get(&Key::new("", &name)).map(|it| holders(it.subjects.as_deref())),
        };
        access::withdrawn(cluster).into_iter().map(bound).collect()
    }

    /// What is there of what a cluster's agent needs besides its bindings. The API server is asked: roles are of no interest
    /// to anybody else here, and Leases change all the time.
    async fn means(&self, cluster: &str) -> Result<Vec<Option<Value>>, Error> {
        let mut means = Vec::new();
        for object in access::means(cluster) {
            let (api, name) = (self.any(&object), object["metadata"]["name"].as_str().unwrap_or_default());
            let found = call("look for what an agent needs", api.get_opt(name)).await?;
            means.push(found.map(|it| it.data["rules"].clone()));
        }
        Ok(means)
    }

    /// The ServiceAccount of a cluster's agent.
    pub(super) fn account(&self, cluster: &str) -> Option<Account> {
        let key = Key::new(&cluster_namespace(cluster), account::ACCOUNT);
        self.accounts.get(&key).map(|it| Account::of(&it))
    }

    fn reader(&self, cluster: &str) -> Option<(String, String)> {
        let binding = self.cluster_bindings.get(&Key::new("", &access::reader_name(cluster)))?;
        let [owner] = binding.owner_references() else { return None };
        Some((owner.uid.clone(), sole_user(binding.subjects.as_deref())))
    }

    async fn has_namespace(&self, cluster: &str) -> Result<bool, Error> {
        let name = cluster_namespace(cluster);
        let found = call("look for a cluster's namespace", self.namespaces.get_opt(&name)).await?;
        Ok(found.is_some_and(|it| it.metadata.deletion_timestamp.is_none()))
    }
}

impl Seen {
    /// Why the stored member cannot be read, if so.
    pub(super) fn unreadable_member(&self) -> Option<&str> {
        self.member.as_ref().and_then(|it| it.0.as_ref().err()).map(|it| it.error.as_str())
    }

    pub(super) fn observed<'a>(&'a self, cluster: &'a str, answerer: &'a Answerer) -> Observed<'a> {
        Observed {
            cluster,
            hub_uid: &answerer.hub_uid,
            now: answerer.clock.now(),
            credentials: answerer.credentials,
            request: self.request.as_deref(),
            member: self.member.as_ref().and_then(|it| it.0.as_ref().ok()),
            members: &self.members,
            token: self.token.as_ref(),
            rules: &answerer.rules,
            signing: self.signing.iter().map(|it| &**it).collect(),
            bound: self.bound.clone(),
            means: self.means.clone(),
            account: self.account.clone(),
            reader: self.reader.clone(),
            has_namespace: self.has_namespace,
        }
    }
}

fn known(members: &[Arc<DeserializeGuard<MemberCluster>>]) -> Vec<Known> {
    let known = |it: &Arc<DeserializeGuard<MemberCluster>>| match &it.0 {
        Ok(it) => Known {
            name: it.name_any(),
            cluster_uid: it.spec.cluster_uid.clone(),
            public_key: it.spec.public_key.clone(),
            is_accepted: it.spec.accepted,
        },
        // Its name is taken, whoever has it.
        Err(fault) => Known {
            name: fault.metadata.name.clone().unwrap_or_default(),
            cluster_uid: String::new(),
            public_key: String::new(),
            is_accepted: false,
        },
    };
    members.iter().map(known).collect()
}

/// The user that a binding is for; nobody's name if it is for others as well.
fn sole_user(subjects: Option<&[Subject]>) -> String {
    match subjects.unwrap_or_default() {
        [only] if only.kind == "User" => only.name.clone(),
        _ => String::new(),
    }
}

/// The users that a binding is for, in the order of their names. What is no user of ours is told apart from all that are.
fn holders(subjects: Option<&[Subject]>) -> Vec<String> {
    let holder = |it: &Subject| match (it.kind.as_str(), &it.namespace) {
        ("User", _) => it.name.clone(),
        ("ServiceAccount", Some(namespace)) => format!("system:serviceaccount:{namespace}:{}", it.name),
        (kind, _) => format!("{kind} {}", it.name),
    };
    let mut holders: Vec<_> = subjects.unwrap_or_default().iter().map(holder).collect();
    holders.sort();
    holders
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn join_6_the_name_of_a_member_that_cannot_be_read_is_taken() {
        let stored = json!({
            "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "MemberCluster", "metadata": {"name": "m1"},
            "spec": {"clusterUid": 7},
        });
        let stored: DeserializeGuard<MemberCluster> = serde_json::from_value(stored).unwrap();
        assert!(stored.0.is_err());
        let [known] = &known(&[Arc::new(stored)])[..] else { panic!("it counts") };
        assert_eq!((known.name.as_str(), known.cluster_uid.as_str()), ("m1", ""));
    }
}
