//! Conversion between versions, by a real API server that calls our webhook.

use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context, Result};
use kruise_core::{
    api,
    runtime::{
        clock::Clock,
        webhook::{Host, Server},
    },
};
use multicluster::{Cluster, cluster, eventually};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A webhook server that converts, for as long as this lives.
struct Converter {
    stop: CancellationToken,
    task: JoinHandle<Result<(), kruise_core::runtime::webhook::Error>>,
}

impl Converter {
    async fn start(cluster: &Cluster, namespace: &str) -> Result<Self> {
        let clock = Clock::system();
        let server = Server::builder()
            .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .host(Host::url("127.0.0.1"))
            .secret(namespace, "webhook-certs")
            .conversion(api::converted_crds(), |object, version| {
                api::convert(object, version).map_err(|it| it.to_string())
            })
            .clock(move || clock.now())
            .bind()?;
        let stop = CancellationToken::new();
        let task = tokio::spawn(server.run(cluster.client().await?, stop.clone()));
        Ok(Self { stop, task })
    }

    async fn end(self) -> Result<()> {
        self.stop.cancel();
        Ok(self.task.await??)
    }
}

/// What the API server itself puts into every object, or counts.
fn without_bookkeeping(mut object: Value) -> Value {
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for key in ["managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"] {
            metadata.remove(key);
        }
    }
    object
}

fn read(cluster: &Cluster, version: &str, resource: &str, name: &str, namespace: &str) -> Result<Value> {
    let plural = format!("{resource}.{version}.apps.kruise.io");
    let text = cluster.kubectl(&["get", &plural, name, "--namespace", namespace, "-o", "json"])?;
    Ok(without_bookkeeping(serde_json::from_str(&text)?))
}

async fn create(cluster: &Cluster, object: &Value) -> Result<()> {
    // The API server learns of the webhook and of its certificate a moment after they are written.
    eventually("the object is accepted", async || {
        let output =
            cluster.try_kubectl(&["create", "--validate=false", "--filename", "-"], &object.to_string())?;
        if output.status.success() {
            return Ok(Some(()));
        }
        anyhow::bail!("{}", String::from_utf8_lossy(&output.stderr).into_owned())
    })
    .await
}

// Calls of kubectl block their thread; the server of this test needs another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_manifest_is_the_same_object_after_a_trip_through_the_stored_version() -> Result<()> {
    let cluster = cluster("m2");
    cluster.install_crds().await?;
    let namespace = cluster.namespace("convert").await?;
    let converter = Converter::start(&cluster, &namespace).await?;
    let old = json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "CloneSet",
        "metadata": {
            "name": "web", "namespace": namespace,
            "labels": {"apps.kruise.io/cloneset-scaling-exclude-preparing-delete": "true"},
            "annotations": {"apps.kruise.io/image-predownload-parallelism": "3"},
        },
        "spec": {
            "replicas": 4,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "lab/web:1", "fromTheFuture": true}]},
            },
            "scaleStrategy": {"disablePVCReuse": true},
            "updateStrategy": {"type": "InPlaceIfPossible", "partition": "50%", "maxUnavailable": 1, "maxSurge": "10%"},
        },
    });
    create(&cluster, &old).await?;

    let stored = read(&cluster, "v1beta1", "clonesets", "web", &namespace)?;
    assert_eq!(stored["spec"]["updateStrategy"]["type"], "RollingUpdate");
    assert_eq!(stored["spec"]["updateStrategy"]["rollingUpdate"]["podUpdatePolicy"], "InPlaceIfPossible");
    assert_eq!(stored["spec"]["updateStrategy"]["rollingUpdate"]["partition"], "50%");
    assert_eq!(stored["spec"]["scaleStrategy"]["excludePreparingDelete"], true);
    assert_eq!(stored["spec"]["template"], old["spec"]["template"]);
    let back = read(&cluster, "v1alpha1", "clonesets", "web", &namespace)?;
    assert_eq!(back, old);

    // Written in the stored version, read in the old one, written back as read: still the same object.
    let rewritten =
        cluster.try_kubectl(&["replace", "--validate=false", "--filename", "-"], &back.to_string())?;
    assert!(rewritten.status.success(), "{rewritten:?}");
    assert_eq!(read(&cluster, "v1beta1", "clonesets", "web", &namespace)?, stored);
    converter.end().await?;
    cluster.forget(&namespace).await
}

// Calls of kubectl block their thread; the server of this test needs another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_certificate_reaches_the_definitions_and_is_replaced_when_it_is_spoilt() -> Result<()> {
    // The hub's definitions are not touched by the other tests, whose webhook servers would fight over the bundle.
    let cluster = cluster("hub");
    cluster.install_crds().await?;
    let namespace = cluster.namespace("certs").await?;
    let converter = Converter::start(&cluster, &namespace).await?;
    let bundle = || -> Result<String> {
        let path = "jsonpath={.spec.conversion.webhook.clientConfig.caBundle}";
        cluster.kubectl(&["get", "crd", "clonesets.apps.kruise.io", "-o", path])
    };
    let first =
        eventually("the bundle is written", async || Ok(Some(bundle()?).filter(|it| it.len() > 100))).await?;
    let spoil =
        r#"{"data": {"tls.crt": "bm90IGEgY2VydGlmaWNhdGU=", "cert.pem": "bm90IGEgY2VydGlmaWNhdGU="}}"#;
    cluster.kubectl(&["patch", "secret", "webhook-certs", "--namespace", &namespace, "--patch", spoil])?;
    eventually("the certificate is whole again", async || {
        let path = r"jsonpath={.data.tls\.crt}";
        let now =
            cluster.kubectl(&["get", "secret", "webhook-certs", "--namespace", &namespace, "-o", path])?;
        Ok((now.len() > 100).then_some(()))
    })
    .await?;
    assert!(!first.is_empty());
    let object = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
        "metadata": {"name": "after", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
        },
    });
    create(&cluster, &object).await.context("conversion works after the certificate was replaced")?;
    converter.end().await?;
    cluster.forget(&namespace).await
}
