//! Reads what decides where objects run.

use ::hub::names;
use kruise_core::{
    api::fleet::{
        assignment::Assignment,
        binding::FleetBinding,
        member_cluster::MemberCluster,
        policy::{ClusterPlacementPolicy, PlacementPolicy},
    },
    runtime::client::call,
};
use kube::{
    Api,
    api::{DynamicObject, ListParams},
};
use serde_json::{Value, json};

use super::{
    Federated,
    world::{World, clusters},
};
use crate::{
    Error,
    connection::{self, Hub},
};

/// What all objects have in common.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    /// Policies of namespaces.
    pub policies: Vec<PlacementPolicy>,
    /// Policies for all namespaces.
    pub cluster_policies: Vec<ClusterPlacementPolicy>,
    /// The clusters.
    pub members: Vec<MemberCluster>,
}

impl Fleet {
    /// Reads clusters, and policies that can match objects of one namespace.
    pub async fn read(hub: &Hub, namespace: &str) -> Result<Self, Error> {
        let all = ListParams::default();
        Ok(Self {
            policies: connection::list(&hub.within::<PlacementPolicy>(namespace), &all).await?,
            cluster_policies: connection::list(&hub.all::<ClusterPlacementPolicy>(), &all).await?,
            members: connection::list(&hub.all::<MemberCluster>(), &all).await?,
        })
    }

    /// One object among them, and what the hub has promised for it.
    pub async fn world(
        &self,
        hub: &Hub,
        kind: &Federated,
        namespace: &str,
        object: Value,
    ) -> Result<World, Error> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let reference = kind.reference(namespace, text("/metadata/name"), text("/metadata/uid"));
        let (place, name) = names::binding(&reference);
        let binding = call("get the binding", hub.within::<FleetBinding>(&place).get_opt(&name)).await?;
        // That of an object of the same name that was deleted says nothing about this one.
        let binding = binding.filter(|it| it.spec.object.uid == reference.uid);
        let named = ListParams::default().fields(&format!("metadata.name={}", names::assignment(&reference)));
        let shares = if binding.is_some() {
            connection::list(&hub.all::<Assignment>(), &named).await?
        } else {
            Vec::new()
        };
        let is_own = |it: &&PlacementPolicy| it.metadata.namespace == reference.namespace;
        Ok(World {
            clusters: clusters(&self.members, &shares, binding.as_ref()),
            policies: self.policies.iter().filter(is_own).cloned().collect(),
            cluster_policies: self.cluster_policies.clone(),
            object,
            reference,
            binding,
            now: hub.clock.now(),
        })
    }
}

/// One object of the hub, if it is there.
pub async fn object(
    hub: &Hub,
    kind: &Federated,
    namespace: &str,
    name: &str,
) -> Result<Option<Value>, Error> {
    let found = call("get", api(hub, kind, namespace).get_opt(name)).await?;
    Ok(found.map(|it| plain(kind, it)))
}

/// All objects of a kind.
pub async fn objects(hub: &Hub, kind: &Federated) -> Result<Vec<Value>, Error> {
    let all: Api<DynamicObject> = Api::all_with(hub.client.clone(), &kind.resource());
    let found = connection::list(&all, &ListParams::default()).await?;
    Ok(found.into_iter().map(|it| plain(kind, it)).collect())
}

/// Changes fields of one object of the hub.
pub async fn change(
    hub: &Hub,
    kind: &Federated,
    namespace: &str,
    name: &str,
    change: &Value,
) -> Result<(), Error> {
    connection::patch(&api(hub, kind, namespace), name, change).await.map(drop)
}

fn api(hub: &Hub, kind: &Federated, namespace: &str) -> Api<DynamicObject> {
    if kind.is_namespaced {
        Api::namespaced_with(hub.client.clone(), namespace, &kind.resource())
    } else {
        Api::all_with(hub.client.clone(), &kind.resource())
    }
}

/// Items of a list do not say what they are.
fn plain(kind: &Federated, object: DynamicObject) -> Value {
    let mut value = object.data;
    value["metadata"] = json!(object.metadata);
    value["apiVersion"] = kind.resource().api_version.into();
    value["kind"] = kind.kind.clone().into();
    value
}
