//! The processes of the fleet: the hub with its own rights, and agents that are linked to it.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use kruise_core::api::image_pull_job::keys::SECRETS_NAMESPACE;
use lab::{
    join::{Joined, Newcomer, join_blocking, with_token},
    pki::write_private,
};
use serde_json::Value;

use super::{Place, patiently};
use crate::{
    agent::{self, Link, Running},
    up::{BINDING, SAMPLES},
};

/// The hub's cluster, once its process has been started.
#[derive(Debug)]
pub(super) struct Hub<'a> {
    place: &'a Place<'a>,
}

/// Installs the CRDs of a cluster: those of the fleet are the hub's, in a folder below.
pub(super) fn install_kinds(place: &Place<'_>) -> Result<()> {
    let below = format!("--recursive={}", place.name == "hub");
    place.run(&["apply", "--server-side", "--filename", &config("crd"), &below]).map(drop)
}

/// Waits until a CloneSet would be let in: before that its conversion has nobody to ask.
pub(super) fn until_admitted(place: &Place<'_>) -> Result<()> {
    let sample = config("samples/cloneset.yaml");
    let admitted = patiently("a CloneSet is let in", || {
        place.run(&["apply", "--dry-run=server", "--filename", &sample]).map(drop)
    });
    admitted.with_context(|| format!("see {}", place.cluster.record.folder.display()))
}

impl<'a> Hub<'a> {
    /// Starts the hub with exactly the rights of `config/rbac/hub`.
    pub(super) fn start(place: &'a Place<'a>, program: &Path) -> Result<(Self, Vec<Running>)> {
        place.run(&["apply", "--filename", &config("rbac/hub")])?;
        place.run(&["apply", "--filename", &config("webhook/hub")])?;
        let account = [hub::process::SERVICE_ACCOUNT, "--namespace", hub::process::NAMESPACE];
        let token = place.run(&[&["create", "token", "--duration=24h"][..], &account].concat())?;
        let record = &place.cluster.record;
        let own = record.folder.join("hub.kubeconfig");
        write_private(&own, &with_token(&record.kubeconfig(), &token)?.to_string())?;
        let running = agent::start_hub(program, &own, &record.folder.join("hub.log"))?;
        Ok((Self { place }, vec![running]))
    }

    /// Joins a cluster, and starts its manager and the daemons of its nodes.
    pub(super) fn join(&self, member: &Place<'_>, program: &Path) -> Result<Vec<Running>> {
        for namespace in ["kruise-system", SECRETS_NAMESPACE] {
            member.run(&["create", "namespace", namespace])?;
        }
        let record = &member.cluster.record;
        let kubeconfig = record.kubeconfig();
        let newcomer = Newcomer { name: member.name, kubeconfig: &kubeconfig, server: None };
        let Joined { kubeconfig: granted, hub_uid } =
            join_blocking(&self.place.cluster.record.kubeconfig(), newcomer)?;
        let link = Link { kubeconfig: record.folder.join("agent-on-hub.kubeconfig"), hub_uid };
        write_private(&link.kubeconfig, &granted.to_string())?;
        let mut running = vec![agent::start(program, &kubeconfig, &link, &record.folder.join("agent.log"))?];
        for node in &record.nodes {
            running.push(agent::start_daemon(program, &kubeconfig, node)?);
        }
        Ok(running)
    }

    /// Waits until clusters may be used.
    pub(super) fn until_ready(&self, members: &[&str]) -> Result<()> {
        let ready = patiently("all members are Ready", || {
            for member in members {
                let state =
                    self.place.run(&["get", "memberclusters", member, "-o", "jsonpath={.status.state}"])?;
                ensure!(state == "Ready", "{member} is {state}");
            }
            Ok(())
        });
        ready.with_context(|| format!("see {}", self.place.cluster.record.folder.join("hub.log").display()))
    }

    /// Applies the samples.
    pub(super) fn apply_samples(&self) -> Result<()> {
        for sample in SAMPLES {
            self.place.run(&["apply", "--filename", &config(sample)])?;
        }
        Ok(())
    }

    /// Waits until all pods of the sample run.
    pub(super) fn until_split(&self) -> Result<()> {
        patiently("all pods of the sample are ready", || {
            let status = self.binding()?["status"].clone();
            ensure!(status["desired"].as_u64().is_some_and(|it| it > 0), "nothing is planned yet");
            ensure!(status["ready"] == status["desired"], "{} of {}", status["ready"], status["desired"]);
            Ok(())
        })
    }

    /// How the sample stands over the fleet.
    pub(super) fn binding(&self) -> Result<Value> {
        let text = self.place.run(&["get", "fleetbindings", BINDING, "-o", "json"])?;
        Ok(serde_json::from_str(&text)?)
    }
}

/// A file or folder of the generated and sample manifests.
fn config(name: &str) -> String {
    crate::root().join("config").join(name).display().to_string()
}
