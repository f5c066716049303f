//! Joins clusters to a hub by hand: everything that the hub makes when it approves a cluster, and a certificate for the
//! agent. Nobody gets more rights on the hub than that.

mod credential;

use std::path::Path;

use anyhow::{Context, Result};
use hub::members::access;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
    config::Kubeconfig,
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::control_plane;
use credential::Credential;

/// Under whose name objects are made.
const MANAGER: &str = "lab-join";

/// Nothing is pinned: the certificate is for the user that has only the cluster's name, and is renewed by hand.
const NO_KEY: &str = "";

/// A cluster that joins.
#[derive(Debug, Clone, Copy)]
pub struct Newcomer<'a> {
    /// Its name in the fleet.
    pub name: &'a str,
    /// An administrator's kubeconfig of it.
    pub kubeconfig: &'a Path,
    /// Where its agent finds the hub, if not where an administrator does: `https://127.0.0.1:1234`.
    pub server: Option<&'a str>,
}

/// What the agent of a cluster that has joined is given.
#[derive(Debug)]
pub struct Joined {
    /// Its kubeconfig for the hub.
    pub kubeconfig: Value,
    /// The UID of the hub.
    pub hub_uid: String,
}

/// Joins a cluster to the hub of an administrator's kubeconfig.
pub async fn join(hub: &Path, newcomer: Newcomer<'_>) -> Result<Joined> {
    // Harmless when it was done before; without it the first connection fails.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let Newcomer { name, kubeconfig, server } = newcomer;
    let (admin, client) = (Kubeconfig::read_from(hub)?, control_plane::client(hub).await?);
    let cluster_uid = uid(&control_plane::client(kubeconfig).await?).await?;
    let credential = credential::request(&client, &access::user(name, NO_KEY)).await?;
    let Credential { certificate, key } = credential;
    accept(&client, name, &cluster_uid).await?;
    let user = json!({"client-certificate-data": certificate, "client-key-data": key});
    let of_agent = of_agent(&admin, &hub::names::cluster_namespace(name), &user, server)?;
    Ok(Joined { kubeconfig: of_agent, hub_uid: uid(&client).await? })
}

/// Joins a cluster to a hub that is simulated. Nobody signs certificates there and nothing limits anybody: the agent gets what
/// the administrator has.
pub async fn join_simulated(hub: &Path, newcomer: Newcomer<'_>) -> Result<Joined> {
    let Newcomer { name, kubeconfig, server } = newcomer;
    let (admin, client) = (Kubeconfig::read_from(hub)?, control_plane::client(hub).await?);
    let cluster_uid = uid(&control_plane::client(kubeconfig).await?).await?;
    accept(&client, name, &cluster_uid).await?;
    let known = admin.auth_infos.first().context("a kubeconfig names a user")?;
    let user = serde_json::to_value(&known.auth_info)?;
    let of_agent = of_agent(&admin, &hub::names::cluster_namespace(name), &user, server)?;
    Ok(Joined { kubeconfig: of_agent, hub_uid: uid(&client).await? })
}

/// Makes a cluster a member.
async fn accept(hub: &Client, name: &str, cluster_uid: &str) -> Result<()> {
    grant(hub, name).await?;
    let member = json!({
        "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "MemberCluster", "metadata": {"name": name},
        "spec": {"clusterUid": cluster_uid, "publicKey": NO_KEY, "accepted": true},
    });
    apply(hub, &member).await
}

/// Makes everything that a cluster has on the hub besides its MemberCluster; what is there already stays.
pub async fn grant(hub: &Client, name: &str) -> Result<()> {
    for object in access::granted(name, &access::user(name, NO_KEY)) {
        apply(hub, &object).await?;
    }
    Ok(())
}

/// The same as [`join`] for programs that wait for everything.
pub fn join_blocking(hub: &Path, newcomer: Newcomer<'_>) -> Result<Joined> {
    tokio::runtime::Runtime::new()?.block_on(join(hub, newcomer))
}

/// A kubeconfig with nothing but a token.
pub fn with_token(admin: &Path, token: &str) -> Result<Value> {
    let mut config = serde_json::to_value(Kubeconfig::read_from(admin)?)?;
    for user in config["users"].as_array_mut().context("a kubeconfig has users")? {
        user["user"] = json!({ "token": token.trim() });
    }
    Ok(config)
}

/// What identifies a cluster.
async fn uid(client: &Client) -> Result<String> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.get("kube-system").await?.metadata.uid.context("every namespace has a UID")
}

/// The kubeconfig of an agent: the hub as an administrator finds it, the agent's own namespace and credential.
fn of_agent(admin: &Kubeconfig, namespace: &str, user: &Value, server: Option<&str>) -> Result<Value> {
    let known = admin.clusters.first().context("a kubeconfig names a cluster")?;
    let mut cluster = serde_json::to_value(&known.cluster)?;
    if let Some(server) = server {
        cluster["server"] = json!(server);
    }
    let (hub, agent) = ("hub", "agent");
    Ok(json!({
        "apiVersion": "v1", "kind": "Config", "current-context": hub,
        "clusters": [{"name": hub, "cluster": cluster}],
        "contexts": [{"name": hub, "context": {"cluster": hub, "user": agent, "namespace": namespace}}],
        "users": [{"name": agent, "user": user}],
    }))
}

/// Applies an object as an administrator.
pub async fn apply(hub: &Client, object: &Value) -> Result<()> {
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = version.split_once('/').unwrap_or(("", &version));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(hub.clone(), namespace, &resource),
        None => Api::all_with(hub.clone(), &resource),
    };
    let name = text(&object["metadata"]["name"]);
    api.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(object))
        .await
        .with_context(|| format!("the hub refuses {kind} {name}"))?;
    Ok(())
}
