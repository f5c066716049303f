//! One chart, and Helm.

use std::process::Command;

use anyhow::{Context, Result, bail};
use multicluster::Cluster;
use serde_json::Value;

/// A chart and the name of its release.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chart {
    release: &'static str,
    folder: &'static str,
}

pub(crate) const MEMBER: Chart = Chart { release: "kruise", folder: "member" };
pub(crate) const HUB: Chart = Chart { release: "hub", folder: "hub" };

/// Values that turn everything on.
pub(crate) const MEMBER_FULL: &[&str] = &[
    "manager.image.repository=mirror.example/kruise-agent,manager.image.tag=1.2.3",
    "manager.replicas=3,manager.webhook.port=9443,manager.hostNetwork=true,manager.loggingFormat=",
    "manager.priorityClassName=system-cluster-critical,manager.nodeSelector.disk=ssd",
    "manager.extraArgs={--cloneset-workers=5}",
    "featureGates=PreDownloadImageForInPlaceUpdate=true\\,ResourceDistributionGate=false",
    "webhookConfiguration.failurePolicy.pods=Ignore,webhookConfiguration.timeoutSeconds=30",
    "daemon.socketLocation=/run,daemon.socketFile=containerd/containerd.sock,daemon.port=10321",
    "daemon.credentialProvider.enable=true,daemon.credentialProvider.hostPath=/opt/plugins",
    "daemon.credentialProvider.awsCredentialsDir=/root/.aws,daemon.extraArgs={--context=node}",
    "daemon.extraEnvs[0].name=HTTPS_PROXY,daemon.extraEnvs[0].value=proxy",
    "hub.enabled=true,hub.kubeconfigSecret=fleet,hub.uid=2f8f,hub.clusterName=eu-1,hub.pullSecrets=true",
    "metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.labels.team=a",
    "serviceAccount.annotations.owner=b,externalCerts.annotations.issuer=c,imagePullSecrets[0].name=d",
];

/// Values of a cluster that joins by itself.
pub(crate) const MEMBER_JOINS: &[&str] = &[
    "hub.enabled=true,hub.server=https://hub:6443,hub.clusterName=eu-1,hub.caHash=sha256:00,hub.tokenSecretName=other",
    "hub.labels.env=prod,hub.region=eu,hub.zone=eu-a,hub.provider=own",
];

/// The same for the hub.
pub(crate) const HUB_FULL: &[&str] = &[
    "hub.image.repository=mirror.example/kruise-hub,hub.image.tag=1.2.3,hub.replicas=3",
    "hub.webhook.port=9443,hub.dedicatedApi=true,hub.loggingFormat=,hub.priorityClassName=system-cluster-critical",
    "hub.autoApprove[0]=eu-*\\,env=prod,hub.autoApprove[1]=us-1,hub.agentCredentials=token",
    "hub.nodeSelector.disk=ssd,hub.extraArgs={--leader-election-lease-duration=30s}",
    "metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.labels.team=a",
    "serviceAccount.annotations.owner=b,imagePullSecrets[0].name=d,pullSecrets.enabled=true",
];

impl Chart {
    /// What would be installed, hooks included.
    pub(crate) fn render(self, values: &[&str]) -> Result<Vec<Value>> {
        let text = run(&mut self.command("template", values))?;
        let documents = serde_saphyr::from_multiple::<Value>(&text).context("reading what Helm printed")?;
        Ok(documents.into_iter().filter(|it| !it.is_null()).collect())
    }

    /// Why Helm does not render it.
    pub(crate) fn complaint(self, values: &[&str]) -> String {
        run(&mut self.command("template", values)).expect_err("rendered").to_string()
    }

    /// Installs or upgrades. What tests and `kubectl` left on the cluster becomes the release's.
    pub(crate) fn install(self, cluster: &Cluster, values: &[&str]) -> Result<()> {
        let mut helm = self.command("upgrade", values);
        run(helm.args(["--install", "--take-ownership"]).env("KUBECONFIG", &cluster.kubeconfig)).map(drop)
    }

    /// Uninstalls, if it is installed.
    pub(crate) fn uninstall(self, cluster: &Cluster) -> Result<()> {
        let mut helm = helm();
        helm.args(["uninstall", self.release, "--ignore-not-found", "--wait"]);
        run(helm.env("KUBECONFIG", &cluster.kubeconfig)).map(drop)
    }

    fn command(self, verb: &str, values: &[&str]) -> Command {
        let mut helm = helm();
        let folder = format!("{}/../../deploy/{}", env!("CARGO_MANIFEST_DIR"), self.folder);
        helm.args([verb, self.release, &folder]);
        helm.args(values.iter().flat_map(|it| ["--set", it]));
        helm
    }
}

/// A definition of the Prometheus operator, as small as can be.
pub(crate) fn serve_monitors(cluster: &Cluster) -> Result<()> {
    let crd = serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "servicemonitors.monitoring.coreos.com" },
        "spec": {
            "group": "monitoring.coreos.com", "scope": "Namespaced",
            "names": { "kind": "ServiceMonitor", "plural": "servicemonitors", "singular": "servicemonitor" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            }],
        },
    });
    let applied = cluster.try_kubectl(&["apply", "--filename", "-"], &crd.to_string())?;
    if !applied.status.success() {
        bail!("{}", String::from_utf8_lossy(&applied.stderr));
    }
    let wait = ["wait", "--for=condition=Established", "crd/servicemonitors.monitoring.coreos.com"];
    cluster.kubectl(&wait).map(drop)
}

/// One object as JSON; nothing if it is not there.
pub(crate) fn get(cluster: &Cluster, arguments: &[&str]) -> Result<Value> {
    let all = [&["get", "--ignore-not-found", "--output", "json"], arguments].concat();
    let text = cluster.kubectl(&all)?;
    Ok(if text.trim().is_empty() { Value::Null } else { serde_json::from_str(&text)? })
}

fn helm() -> Command {
    Command::new(std::env::var_os("FLEET_HELM").unwrap_or_else(|| "helm".into()))
}

fn run(command: &mut Command) -> Result<String> {
    let output = command.output().context("cannot start helm: set FLEET_HELM, or put it on PATH")?;
    if !output.status.success() {
        bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}
