//! How long CloneSets of many pods take, and what they cost: scale out, update in place, scale in.
//!
//! `cargo xtask bench cloneset` starts the cluster and the agent. The first line is what the API server takes when pods
//! are simply created, in the same run on the same machine: no controller can be faster than that.

use std::{fs, time::Duration};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kruise_core::api::cloneset::v1beta1::CloneSet;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use multicluster::{
    agent::{Agent, agent},
    cluster,
};
use serde_json::{Value, json};
use tokio::time::Instant;

/// How often the state is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Pods that are created without any controller.
const RAW: usize = 500;

/// Requests under way at once, for the server's own rate.
const AT_ONCE: usize = 40;

/// Clock ticks per second, as Linux counts the CPU time of processes.
const TICKS: f64 = 100.0;

#[tokio::main]
async fn main() -> Result<()> {
    let sizes = std::env::var("BENCH_PODS").unwrap_or_else(|_| "1000".to_owned());
    let sizes: Vec<i32> = sizes.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let cluster = cluster("bench");
    let client = cluster.client().await?;
    let namespace = cluster.namespace("bench").await?;
    println!("pods are created without a controller ...");
    let rate = raw_rate(&client, &namespace).await?;

    let agent = agent(&cluster).start().await?;
    println!("| what | pods | wall s | pods/s | of the server's {rate:.0}/s | CPU s | memory MiB |");
    println!("|---|---|---|---|---|---|---|");
    tokio::time::sleep(Duration::from_secs(2)).await;
    println!("| idle | 0 | | | | {:.2} | {:.0} |", cpu(&agent)?, memory(&agent)?);
    for size in sizes {
        measure(&client, &namespace, &agent, size, rate).await?;
    }
    Ok(())
}

/// Scales out, updates and scales in a CloneSet of `size` pods.
async fn measure(client: &Client, namespace: &str, agent: &Agent, size: i32, rate: f64) -> Result<()> {
    let api: Api<CloneSet> = Api::namespaced(client.clone(), namespace);
    let name = format!("many-{size}");
    let row = |what: &'static str, took: Duration, before: f64| -> Result<()> {
        let seconds = took.as_secs_f64();
        let speed = f64::from(size) / seconds;
        let (spent, memory) = (cpu(agent)? - before, memory(agent)?);
        let share = 100.0 * speed / rate;
        println!("| {what} | {size} | {seconds:.1} | {speed:.0} | {share:.0}% | {spent:.1} | {memory:.0} |");
        Ok(())
    };

    let (start, spent) = (Instant::now(), cpu(agent)?);
    api.create(&PostParams::default(), &wanted(&name, size)?).await?;
    until(&api, &name, |it| it["updatedAvailableReplicas"] == size).await?;
    row("scale out", start.elapsed(), spent)?;

    let (start, spent) = (Instant::now(), cpu(agent)?);
    let container = json!([{"name": "main", "image": "lab/web:2"}]);
    patch(&api, &name, json!({"template": {"spec": {"containers": container}}})).await?;
    until(&api, &name, |it| {
        it["updatedAvailableReplicas"] == size
            && it["currentRevision"] == it["updateRevision"]
            && it["observedGeneration"] == 2
    })
    .await?;
    row("update in place, 20% at once", start.elapsed(), spent)?;

    let (start, spent) = (Instant::now(), cpu(agent)?);
    patch(&api, &name, json!({"replicas": 0})).await?;
    until(&api, &name, |it| it["replicas"] == 0 && it["observedGeneration"] == 3).await?;
    row("scale in", start.elapsed(), spent)?;
    api.delete(&name, &DeleteParams::default()).await?;
    Ok(())
}

fn wanted(name: &str, replicas: i32) -> Result<CloneSet> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": "20%"}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "lab/web:1"}]},
            },
        },
    }))?)
}

async fn patch(api: &Api<CloneSet>, name: &str, spec: Value) -> Result<()> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await?;
    Ok(())
}

/// Waits until the status says so.
async fn until(api: &Api<CloneSet>, name: &str, is_there: impl Fn(&Value) -> bool) -> Result<()> {
    loop {
        let status = json!(api.get_status(name).await?.status);
        if is_there(&status) {
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Pods per second that the server takes when they are simply created.
async fn raw_rate(client: &Client, namespace: &str) -> Result<f64> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pod = |index: usize| -> Result<Pod> {
        Ok(serde_json::from_value(json!({
            "metadata": {"name": format!("raw-{index}"), "labels": {"app": "raw"}},
            "spec": {"containers": [{"name": "main", "image": "lab/web:1"}]},
        }))?)
    };
    let start = Instant::now();
    let pods: Vec<Pod> = (0..RAW).map(pod).collect::<Result<_>>()?;
    let (post, api) = (PostParams::default(), &api);
    let created = stream::iter(&pods).map(|it| api.create(&post, it)).buffer_unordered(AT_ONCE);
    created.try_for_each(async |_| Ok(())).await?;
    let rate = RAW as f64 / start.elapsed().as_secs_f64();
    api.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await?;
    while !api.list_metadata(&ListParams::default()).await?.items.is_empty() {
        tokio::time::sleep(LOOK).await;
    }
    Ok(rate)
}

/// Seconds of CPU that the agent has used so far.
fn cpu(agent: &Agent) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", agent.process_id()?))?;
    // The name of the program, in brackets, may hold blanks.
    let fields: Vec<&str> = stat.rsplit_once(')').context("a stat line")?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|it| it.parse::<f64>().ok()).unwrap_or_default();
    Ok((ticks(11) + ticks(12)) / TICKS)
}

/// MiB that the agent has in memory.
fn memory(agent: &Agent) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{}/status", agent.process_id()?))?;
    let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:")).context("its memory")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024.0)
}
