//! How long CloneSets of many pods take, and what they cost: scale out, update in place, scale in.
//!
//! `cargo xtask bench cloneset` starts the cluster and the agent. The first line is what the API server takes when pods
//! are simply created, and how fast they become ready, in the same run on the same machine: no controller can be faster
//! than that. The last table says who has used the processors, and what was written for each pod.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kruise_core::api::cloneset::v1beta1::CloneSet;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use multicluster::{
    agent::agent,
    cluster,
    cost::{self, Process},
};
use serde_json::{Value, json};
use tokio::time::Instant;

/// How often the state is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Pods that are created without any controller.
const RAW: usize = 500;

/// Requests under way at once, for the server's own rate.
const AT_ONCE: usize = 40;

#[tokio::main]
async fn main() -> Result<()> {
    let sizes = std::env::var("BENCH_PODS").unwrap_or_else(|_| "1000".to_owned());
    let sizes: Vec<i32> = sizes.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let cluster = cluster("bench");
    let client = cluster.client().await?;
    let namespace = cluster.namespace("bench").await?;
    println!("pods are created without a controller ...");
    let rate = raw_rate(&client, &namespace).await?;
    println!("{RAW} pods: {:.0}/s created, {:.0}/s created and ready", rate.created, rate.ready);

    let running = agent(&cluster).start().await?;
    let agent = Process(running.process_id()?.to_string());
    println!();
    println!(
        "| what | pods | wall s | pods/s | of the server's {:.0}/s | CPU s | memory MiB |",
        rate.created
    );
    println!("|---|---|---|---|---|---|---|");
    tokio::time::sleep(Duration::from_secs(2)).await;
    println!("| idle | 0 | | | | {:.2} | {:.0} |", agent.cpu()?, agent.memory("VmRSS:")?);
    let mut costs = Vec::new();
    for size in sizes {
        measure(&client, &namespace, &agent, size, rate, &mut costs).await?;
    }
    println!(
        "\n| where the time goes | CPU s: agent | API server, etcd | scheduler | all of the machine | writes for one pod |"
    );
    println!("|---|---|---|---|---|---|");
    costs.iter().for_each(|it| println!("{it}"));
    let (own, files) = (agent.memory("RssAnon:")?, agent.memory("RssFile:")?);
    println!("\nmemory of the agent at the end: {own:.0} MiB of its own, {files:.0} MiB of its program file");
    Ok(())
}

/// Where everybody stands.
struct Spent {
    at: Instant,
    agent: f64,
    server: f64,
    scheduler: f64,
    machine: f64,
    writes: BTreeMap<String, f64>,
}

impl Spent {
    async fn so_far(client: &Client, agent: &Process) -> Result<Self> {
        Ok(Self {
            at: Instant::now(),
            agent: agent.cpu()?,
            server: cost::cpu_of(&["kube-apiserver", "etcd"]),
            scheduler: cost::cpu_of(&["kube-scheduler"]),
            machine: cost::cpu_of_all()?,
            writes: cost::writes(client).await?,
        })
    }

    /// A row of the table of costs: what was spent since `before` on `size` pods.
    fn row(&self, before: &Self, what: &str, size: i32) -> String {
        let since = |of: fn(&Self) -> f64| of(self) - of(before);
        let per_pod = |name: &str, now: f64| {
            (now - before.writes.get(name).copied().unwrap_or_default()) / f64::from(size)
        };
        let mut writes: Vec<(&str, f64)> =
            self.writes.iter().map(|(name, now)| (name.as_str(), per_pod(name, *now))).collect();
        writes.retain(|it| it.1 >= 0.1);
        writes.sort_by(|a, b| b.1.total_cmp(&a.1));
        let writes: Vec<String> = writes.iter().map(|it| format!("{:.1} {}", it.1, it.0)).collect();
        let [agent, server] = [since(|it| it.agent), since(|it| it.server)];
        let [scheduler, machine] = [since(|it| it.scheduler), since(|it| it.machine)];
        let writes = writes.join(", ");
        format!("| {what}, {size} | {agent:.1} | {server:.1} | {scheduler:.1} | {machine:.1} | {writes} |")
    }
}

/// Scales out, updates and scales in a CloneSet of `size` pods.
async fn measure(
    client: &Client,
    namespace: &str,
    agent: &Process,
    size: i32,
    rate: Rate,
    costs: &mut Vec<String>,
) -> Result<()> {
    let api: Api<CloneSet> = Api::namespaced(client.clone(), namespace);
    let name = format!("many-{size}");
    let mut row = async |what: &'static str, before: Spent| -> Result<()> {
        let now = Spent::so_far(client, agent).await?;
        let seconds = now.at.duration_since(before.at).as_secs_f64();
        let speed = f64::from(size) / seconds;
        let (spent, memory) = (now.agent - before.agent, agent.memory("VmRSS:")?);
        let share = 100.0 * speed / rate.created;
        println!("| {what} | {size} | {seconds:.1} | {speed:.0} | {share:.0}% | {spent:.1} | {memory:.0} |");
        costs.push(now.row(&before, what, size));
        Ok(())
    };

    let before = Spent::so_far(client, agent).await?;
    api.create(&PostParams::default(), &wanted(&name, size)?).await?;
    until(&api, &name, |it| it["updatedAvailableReplicas"] == size).await?;
    row("scale out", before).await?;

    let before = Spent::so_far(client, agent).await?;
    let container = json!([{"name": "main", "image": "lab/web:2"}]);
    patch(&api, &name, json!({"template": {"spec": {"containers": container}}})).await?;
    until(&api, &name, |it| {
        it["updatedAvailableReplicas"] == size
            && it["currentRevision"] == it["updateRevision"]
            && it["observedGeneration"] == 2
    })
    .await?;
    row("update in place, 20% at once", before).await?;

    let before = Spent::so_far(client, agent).await?;
    patch(&api, &name, json!({"replicas": 0})).await?;
    until(&api, &name, |it| it["replicas"] == 0 && it["observedGeneration"] == 3).await?;
    row("scale in", before).await?;
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

/// Pods per second without any controller.
#[derive(Debug, Clone, Copy)]
struct Rate {
    /// As the server takes them.
    created: f64,
    /// As they become ready, with scheduler and nodes at work.
    ready: f64,
}

/// Creates pods and waits until they are ready.
async fn raw_rate(client: &Client, namespace: &str) -> Result<Rate> {
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
    let created = RAW as f64 / start.elapsed().as_secs_f64();
    while api.list(&ListParams::default()).await?.iter().filter(|it| is_ready(it)).count() < RAW {
        tokio::time::sleep(LOOK).await;
    }
    let ready = RAW as f64 / start.elapsed().as_secs_f64();
    api.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default()).await?;
    while !api.list_metadata(&ListParams::default()).await?.items.is_empty() {
        tokio::time::sleep(LOOK).await;
    }
    Ok(Rate { created, ready })
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|it| it.conditions.iter().flatten());
    conditions.into_iter().any(|it| it.type_ == "Ready" && it.status == "True")
}
