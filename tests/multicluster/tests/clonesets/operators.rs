//! Controllers of others that work through lifecycle hooks.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use multicluster::stage::{self, Stage};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::{PLAIN, condition, cs_demo, image, image_of, merged, state};

/// One call that an operator makes for a pod, and what it then writes into the pod.
type Answer = (&'static str, Value);

/// What an operator has done, by pod.
type Journal = BTreeMap<String, Vec<&'static str>>;

/// An operator that looks at all pods again and again.
struct Operator {
    journal: Arc<Mutex<Journal>>,
    /// What it found that should never be.
    complaints: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Operator {
    fn start(
        stage: &Stage,
        answer: fn(&Pod) -> Option<Answer>,
        complaint: fn(&Pod, &[&str]) -> Option<String>,
    ) -> Self {
        let (journal, complaints) = (Arc::<Mutex<Journal>>::default(), Arc::<Mutex<Vec<String>>>::default());
        let (pods, log, odd) = (stage.pods_api(), Arc::clone(&journal), Arc::clone(&complaints));
        let task = tokio::spawn(async move {
            loop {
                // An API server that does not answer is asked again.
                let _ = look(&pods, answer, complaint, &log, &odd).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        Self { journal, complaints, task }
    }

    fn of(&self, pod: &str) -> Vec<&'static str> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner).get(pod).cloned().unwrap_or_default()
    }

    fn complaints(&self) -> Vec<String> {
        self.complaints.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn look(
    pods: &Api<Pod>,
    answer: fn(&Pod) -> Option<Answer>,
    complaint: fn(&Pod, &[&str]) -> Option<String>,
    journal: &Mutex<Journal>,
    complaints: &Mutex<Vec<String>>,
) -> Result<()> {
    for pod in pods.list(&ListParams::default()).await? {
        let name = pod.name_any();
        let done =
            journal.lock().unwrap_or_else(PoisonError::into_inner).get(&name).cloned().unwrap_or_default();
        complaints.lock().unwrap_or_else(PoisonError::into_inner).extend(complaint(&pod, &done));
        let Some((call, mut patch)) = answer(&pod).filter(|_| pod.metadata.deletion_timestamp.is_none())
        else {
            continue;
        };
        // Decided on this version of the pod, so written into no other.
        patch["metadata"]["resourceVersion"] = json!(pod.resource_version());
        if pods.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.is_ok() {
            journal.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default().push(call);
        }
    }
    Ok(())
}

const BLOCKER: &str = "example.io/unready-blocker";
const INITIALING: &str = "example.io/initialing";

fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready") == Some("True")
}

/// The traffic controller of CLN-27.
fn traffic(pod: &Pod) -> Option<Answer> {
    let has_blocker = pod.finalizers().iter().any(|it| it == BLOCKER);
    match state(pod) {
        "Normal" if pod.annotations().contains_key(INITIALING) && is_ready(pod) => {
            Some(("on", json!({"metadata": {"annotations": {INITIALING: null}}})))
        }
        "PreparingDelete" | "PreparingUpdate" if has_blocker => {
            Some(("off", json!({"metadata": {"finalizers": null}})))
        }
        "Updated" if !has_blocker => Some(("on", json!({"metadata": {"finalizers": [BLOCKER]}}))),
        _ => None,
    }
}

/// Neither a deletion nor another image while there is traffic.
fn with_traffic(pod: &Pod, done: &[&str]) -> Option<String> {
    let has_traffic = done.last() == Some(&"on");
    let is_new = image_of(pod) == "nginx:1.7.9" && !done.contains(&"off");
    let is_going = pod.metadata.deletion_timestamp.is_some();
    (has_traffic && (is_new || is_going)).then(|| format!("{} has traffic: {done:?}", pod.name_any()))
}

#[test]
fn cln_27_a_traffic_controller_on_finalizers_is_always_asked_first() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let hook = json!({"finalizersHandler": [BLOCKER]});
        let base = json!({
            "lifecycle": {"preDelete": hook, "inPlaceUpdate": hook},
            "template": {"metadata": {"annotations": {INITIALING: "true"}, "finalizers": [BLOCKER]}},
            "updateStrategy": {"type": "InPlaceIfPossible"},
        });
        let spec = |replicas: i32, tag: &str| {
            cs_demo(merged(&merged(&base, &json!({"replicas": replicas})), &image(tag)))
        };
        let operator = Operator::start(stage, traffic, with_traffic);
        stage.apply(&spec(3, "nginx:alpine"))?;
        stage.complete("cs-demo", 3).await?;
        let names = stage.pod_names().await?;
        let on = |count: usize| {
            let all: Vec<bool> = names.iter().map(|it| operator.of(it).len() >= count).collect();
            all.iter().all(|it| *it)
        };
        multicluster::eventually("traffic is on everywhere", async || Ok(on(1).then_some(()))).await?;
        stage.apply(&spec(3, "nginx:1.7.9"))?;
        stage.complete("cs-demo", 3).await?;
        for pod in stage.pods().await? {
            assert_eq!(operator.of(&pod.name_any()), ["on", "off", "on"]);
            assert!(!pod.annotations().contains_key(INITIALING), "a removed annotation does not come back");
        }
        stage.apply(&spec(2, "nginx:1.7.9"))?;
        stage.complete("cs-demo", 2).await?;
        let left = stage.pod_names().await?;
        let gone = names.iter().find(|it| !left.contains(it)).cloned().unwrap_or_default();
        assert_eq!(operator.of(&gone), ["on", "off", "on", "off"]);
        assert_eq!(operator.complaints(), Vec::<String>::new());
        Ok(())
    })
}

const NEW: &str = "example.com/newly-create";
const IN_PLACE: &str = "example.com/unready-blocker-inplace";
const DELETE: &str = "example.com/unready-blocker-delete";

/// The service registry operator of CLN-28.
fn registry(pod: &Pod) -> Option<Answer> {
    let is = |key: &str, value: &str| pod.labels().get(key).is_some_and(|it| it == value);
    let set = |key: &str, value: &str| json!({"metadata": {"labels": {key: value}}});
    match state(pod) {
        "Normal" if is(NEW, "true") && is_ready(pod) => Some(("register", set(NEW, "false"))),
        "PreparingUpdate" if is(IN_PLACE, "true") => Some(("failover", set(IN_PLACE, "false"))),
        "Updated" if is(IN_PLACE, "false") && is_ready(pod) => Some(("register", set(IN_PLACE, "true"))),
        "PreparingDelete" if is(DELETE, "true") => Some(("unregister", set(DELETE, "false"))),
        _ => None,
    }
}

#[test]
fn cln_28_a_service_registry_on_labels_is_told_of_every_step() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let spec = |replicas: i32, image: &str| {
            json!({
                "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",
                "metadata": {"name": "cloneset-lifecycle-demo"},
                "spec": {
                    "replicas": replicas,
                    "lifecycle": {
                        "inPlaceUpdate": {"labelsHandler": {IN_PLACE: "true"}},
                        "preDelete": {"labelsHandler": {DELETE: "true"}},
                    },
                    "selector": {"matchLabels": {"app": "nginx"}},
                    "template": {
                        "metadata": {"labels": {"app": "nginx", NEW: "true", IN_PLACE: "true", DELETE: "true"}},
                        "spec": {"containers": [{"name": "main", "image": image, "imagePullPolicy": "Always"}]},
                    },
                    "updateStrategy": {"type": "InPlaceIfPossible", "maxUnavailable": "20%"},
                },
            })
        };
        let name = "cloneset-lifecycle-demo";
        let operator = Operator::start(stage, registry, |_, _| None);
        stage.apply(&spec(2, "nginx:latest"))?;
        stage.complete(name, 2).await?;
        let names = stage.pod_names().await?;
        let registered = || names.iter().all(|it| operator.of(it) == ["register"]);
        multicluster::eventually("both are registered", async || Ok(registered().then_some(()))).await?;
        stage.apply(&spec(2, "nginx:1.7.9"))?;
        stage.complete(name, 2).await?;
        for pod in stage.pods().await? {
            assert_eq!(operator.of(&pod.name_any()), ["register", "failover", "register"]);
            assert_eq!(
                pod.labels().get(NEW).map(String::as_str),
                Some("false"),
                "the operator's value stays"
            );
        }
        stage.apply(&spec(1, "nginx:1.7.9"))?;
        stage.complete(name, 1).await?;
        let left = stage.pod_names().await?;
        let gone = names.iter().find(|it| !left.contains(it)).cloned().unwrap_or_default();
        assert_eq!(operator.of(&gone), ["register", "failover", "register", "unregister"]);
        Ok(())
    })
}
