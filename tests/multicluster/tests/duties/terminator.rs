//! Sidecars of finished jobs are stopped.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use multicluster::eventually;
use serde_json::{Value, json};

use crate::support::{Stage, condition};

/// Work that takes three seconds, and sidecars that would run for ever.
fn job(code: u8, sidecars: &[Value]) -> Value {
    let work = json!({"name": "work", "image": "lab/sleep:1", "command": ["sh", "-c", format!("sleep 3; exit {code}")]});
    let mut containers = vec![work];
    containers.extend_from_slice(sidecars);
    json!({"restartPolicy": "Never", "containers": containers})
}

/// A sidecar that ends well when it is asked to stop.
fn sidecar(name: &str, more: &[&str]) -> Value {
    let names = ["KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT"].iter().chain(more);
    let env: Vec<Value> = names.map(|it| json!({"name": it, "value": "true"})).collect();
    let command = ["sh", "-c", "trap 'exit 0' TERM; while true; do sleep 1; done"];
    json!({"name": name, "image": "lab/sleep:2", "command": command, "env": env})
}

fn codes(pod: &Pod) -> Vec<(String, Option<i32>)> {
    let statuses = pod.status.iter().flat_map(|it| it.container_statuses.iter().flatten());
    statuses
        .map(|it| {
            let ended = it.state.as_ref().and_then(|it| it.terminated.as_ref());
            (it.name.clone(), ended.map(|it| it.exit_code))
        })
        .collect()
}

async fn ended(stage: &Stage, name: &str) -> Result<Pod> {
    eventually(&format!("all containers of {name} have ended"), async || {
        let pod = stage.pods().get(name).await?;
        Ok(codes(&pod).iter().all(|it| it.1.is_some()).then_some(pod))
    })
    .await
}

fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|it| it.phase.as_deref()).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_ends_with_its_work_and_its_sidecar_is_stopped() -> Result<()> {
    let stage = Stage::set().await?;
    stage.pod("job", job(0, &[sidecar("log", &[])])).await?;
    let pod = ended(&stage, "job").await?;
    assert_eq!(codes(&pod), [("log".to_owned(), Some(0)), ("work".to_owned(), Some(0))]);
    let uid = pod.metadata.uid.clone().context("it has one")?;
    let request = stage.requests().get(&format!("sidecar-termination-{uid}")).await?;
    let owner = &request.metadata.owner_references.context("the pod")?[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str(), owner.controller), ("Pod", "job", Some(true)));
    let request = stage.completed(&format!("sidecar-termination-{uid}")).await?;
    assert_eq!(request.status.context("it has one")?.message, "pod has ended");
    let done = eventually("the pod has ended", async || {
        let pod = stage.pods().get("job").await?;
        Ok((phase(&pod) == "Succeeded").then_some(pod))
    })
    .await?;
    assert_eq!(condition(&done, "SidecarTerminated"), None);
    let told = eventually("people are told", async || {
        let reason = "--field-selector=reason=SidecarTerminator";
        let told = stage.cluster.kubectl(&["get", "events", "--namespace", &stage.namespace, reason])?;
        Ok(told.contains("stopping log").then_some(told))
    })
    .await?;
    assert!(told.contains("pod/job"), "{told}");
    stage.end().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_fails_or_not_whatever_a_sidecar_ends_with_that_does_not_count() -> Result<()> {
    let stage = Stage::set().await?;
    // It does not listen to SIGTERM, so it is killed and ends with 137.
    let mut deaf = sidecar("mesh", &["KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE"]);
    deaf["command"] = json!(["sh", "-c", "trap '' TERM; while true; do sleep 1; done"]);
    stage.pod("good", job(0, std::slice::from_ref(&deaf))).await?;
    stage.pod("bad", job(3, &[deaf, sidecar("log", &[])])).await?;
    for (name, expected) in [("good", "Succeeded"), ("bad", "Failed")] {
        let pod = ended(&stage, name).await?;
        assert_eq!(phase(&pod), expected, "{name}");
        let message = condition(&pod, "SidecarTerminated").context("it is there")?;
        assert_eq!(message, ("True".to_owned(), "Terminated by Sidecar Terminator".to_owned()));
        let code = codes(&pod).into_iter().find(|it| it.0 == "mesh").and_then(|it| it.1);
        assert!(code.is_some_and(|it| it != 0), "{name}: {code:?}");
        let uid = pod.metadata.uid.context("it has one")?;
        let requests: &[&str] = if name == "good" { &[""] } else { &["", "-ignored"] };
        for suffix in requests {
            let request = stage.completed(&format!("sidecar-termination-{uid}{suffix}")).await?;
            assert_eq!(request.status.context("it has one")?.message, "pod has ended", "{name}{suffix}");
        }
    }
    stage.end().await
}
