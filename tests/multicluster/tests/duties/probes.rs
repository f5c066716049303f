//! Pod probes.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Event, Pod};
use kruise_core::api::node_pod_probe::{ContainerProbeState, ProbeState, v1alpha1::NodePodProbe};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use multicluster::eventually;
use serde_json::{Value, json};

use crate::support::Stage;

const CONTAINER: &str = "app";

fn probe(name: &str, handler: Value) -> Value {
    let mut probe = handler;
    probe["periodSeconds"] = json!(1);
    json!({"name": format!("marker#{name}"), "containerName": CONTAINER, "probe": probe})
}

fn pod_probes(pod: &Pod, probes: &[Value]) -> Result<Value> {
    let address = pod.status.as_ref().and_then(|it| it.pod_ip.clone()).context("it has an address")?;
    let (name, namespace, uid) = (pod.name_any(), pod.namespace(), pod.uid());
    Ok(json!({"name": name, "namespace": namespace, "uid": uid, "IP": address, "probes": probes}))
}

/// What one node is asked to probe.
struct Wanted {
    api: Api<NodePodProbe>,
    node: String,
}

impl Wanted {
    fn of(stage: &Stage) -> Self {
        // Other tests take the daemon of the last node away.
        Self { api: Api::all(stage.client.clone()), node: stage.duties.places[0].name.clone() }
    }

    async fn ask(&self, pods: &[Value]) -> Result<()> {
        let object = json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodePodProbe", "metadata": {"name": self.node},
            "spec": {"podProbes": pods},
        });
        let params = PatchParams::apply("duties").force();
        self.api.patch(&self.node, &params, &Patch::Apply(object)).await?;
        Ok(())
    }

    /// What is reported of a pod, by the name of the probe.
    async fn states(&self, pod: &Pod) -> Result<BTreeMap<String, ContainerProbeState>> {
        let status = self.api.get_status(&self.node).await?.status.unwrap_or_default();
        let of_pod = status.pod_probe_statuses.into_iter().find(|it| Some(&it.uid) == pod.uid().as_ref());
        Ok(of_pod.into_iter().flat_map(|it| it.probe_states).map(|it| (it.name.clone(), it)).collect())
    }

    /// Waits until exactly these probes are reported in these states.
    async fn reported(
        &self,
        pod: &Pod,
        expected: &[(&str, ProbeState)],
    ) -> Result<BTreeMap<String, ContainerProbeState>> {
        let expected: Vec<_> =
            expected.iter().map(|(name, state)| (format!("marker#{name}"), *state)).collect();
        eventually(&format!("{} is reported with {expected:?}", pod.name_any()), async || {
            let states = self.states(pod).await?;
            let found: Vec<_> = states.iter().map(|(name, it)| (name.clone(), it.state)).collect();
            Ok((found == expected).then_some(states))
        })
        .await
    }
}

/// Reasons and messages of what was told about the probes of a pod.
async fn told(stage: &Stage, pod: &Pod) -> Result<Vec<(String, String)>> {
    let events: Api<Event> = Api::namespaced(stage.client.clone(), &stage.namespace);
    let about = format!("involvedObject.uid={}", pod.uid().context("it has one")?);
    let all = events.list(&ListParams::default().fields(&about)).await?;
    let of_probes = all.into_iter().filter(|it| {
        it.source.as_ref().and_then(|it| it.component.as_deref()) == Some("kruise-daemon-podprobe")
    });
    Ok(of_probes.map(|it| (it.reason.unwrap_or_default(), it.message.unwrap_or_default())).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_of_one_container_are_reported_side_by_side_and_people_are_told() -> Result<()> {
    let stage = Stage::set().await?;
    let wanted = Wanted::of(&stage);
    let spec = json!({"nodeName": wanted.node, "containers": [{"name": CONTAINER, "image": "lab/web:1"}]});
    let pod = stage.pod("web", spec).await?;
    stage.exec("web", CONTAINER, &["sh", "-c", "echo fine > /ready"])?;
    let ready = probe("ready", json!({"exec": {"command": ["cat", "/ready"]}}));
    let (http, tcp) = (json!({"httpGet": {"port": 80, "path": "/"}}), json!({"tcpSocket": {"port": 81}}));
    wanted.ask(&[pod_probes(&pod, &[ready.clone(), probe("web", http), probe("closed", tcp)])?]).await?;

    use ProbeState::{Failed, Succeeded};
    let first =
        wanted.reported(&pod, &[("closed", Failed), ("ready", Succeeded), ("web", Succeeded)]).await?;
    assert_eq!(first["marker#ready"].message, "fine");
    let refused = &first["marker#closed"].message;
    assert!(refused.starts_with("cannot connect to") && refused.contains("refused"), "{refused}");

    stage.exec("web", CONTAINER, &["rm", "/ready"])?;
    let second = wanted.reported(&pod, &[("closed", Failed), ("ready", Failed), ("web", Succeeded)]).await?;
    let complaint = second["marker#ready"].message.clone();
    assert!(complaint.contains("/ready"), "{complaint}");
    for name in ["marker#closed", "marker#web"] {
        assert_eq!(second[name], first[name], "only the other one changed");
    }
    eventually("people were told of every result", async || {
        let told = told(&stage, &pod).await?;
        let is_told = |reason: &str, message: &str| told.contains(&(reason.to_owned(), message.to_owned()));
        let all = is_told("KruiseProbeSucceeded", "fine")
            && is_told("KruiseProbeFailed", &complaint)
            && is_told("KruiseProbeFailed", refused);
        Ok(all.then_some(()))
    })
    .await?;

    // What leaves the spec leaves the status; what has another handler begins anew.
    let other = probe("ready", json!({"exec": {"command": ["echo", "other"]}}));
    wanted.ask(&[pod_probes(&pod, &[other])?]).await?;
    let third = wanted.reported(&pod, &[("ready", Succeeded)]).await?;
    assert_eq!(third["marker#ready"].message, "other");

    // A container that ended and is not started again fails unprobed.
    let spec = json!({"nodeName": wanted.node, "restartPolicy": "Never",
        "containers": [{"name": CONTAINER, "image": "lab/sleep:1"}]});
    let short = stage.pod("short", spec).await?;
    wanted.ask(&[pod_probes(&short, &[ready])?]).await?;
    wanted.reported(&short, &[("ready", Failed)]).await?;
    // The container may take the command that ends it along; what counts is reported below.
    let _ = stage.exec("short", CONTAINER, &["kill", "1"]);
    eventually("the end of the container is reported", async || {
        let states = wanted.states(&short).await?;
        let message = states.get("marker#ready").map(|it| it.message.as_str());
        Ok((message == Some("Container(app) is Non-running")).then_some(()))
    })
    .await?;
    assert!(wanted.states(&pod).await?.is_empty(), "the other pod is not asked for any more");
    wanted.api.delete(&wanted.node, &DeleteParams::default()).await?;
    stage.end().await
}
