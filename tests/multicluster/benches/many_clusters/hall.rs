//! The hub with its process, the cluster that has an agent, and the echoes.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use http::Method;
use kruise_core::{api::image_pull_job::keys::SECRETS_NAMESPACE, runtime::clock::Clock};
use kube::Client;
use lab::{
    control_plane,
    join::{self, Newcomer},
};
use multicluster::{
    cost::{self, Process},
    processes::Running,
};
use serde_json::Value;
use sim::{World, nodes::NodeShape, serve::Served};
use tokio::{task::JoinSet, time::Instant};

use crate::{
    LOOK, STILL, Size,
    echo::Echoes,
    setup::{Program, add, agent_command, enter, hub_command, namespace, object, policy},
};

pub(crate) const HUB: &str = "hub";
/// The cluster that has an agent.
pub(crate) const AGENT: &str = "c0000";
pub(crate) const FLEET: &str = "/apis/fleet.kruise.io/v1alpha1";
pub(crate) const SHOP: &str = "shop";
/// A line of the log.
const MARK: &str = "writes are counted";
/// Requests of ours under way at once.
const AT_ONCE: usize = 20;
/// How long something may take before it counts as broken.
const PATIENCE: Duration = Duration::from_secs(900);
/// Kinds that the hub keeps, by the names of their tables.
const KEPT: [&str; 5] =
    ["assignments", "fleetbindings", "fleetrevisions", "memberclusters", "placementpolicies"];

pub(crate) struct Hall {
    size: Size,
    world: World,
    /// Writes to the hub.
    client: Client,
    echoes: Echoes,
    programs: [Program; 2],
    hub: Option<Running>,
    agent: Option<Running>,
    folder: PathBuf,
    _tasks: JoinSet<()>,
    _served: Vec<Served>,
}

impl Hall {
    pub(crate) async fn open(size: Size) -> Result<Self> {
        let folder =
            std::env::temp_dir().join(format!("many-clusters-{}-{}", size.clusters, std::process::id()));
        fs::create_dir_all(&folder)?;
        let world = World::at(1, Clock::system().now());
        let hub = add(&world, HUB, &folder)?;
        let member = add(&world, AGENT, &folder)?;
        for index in 0..=(size.objects + size.singles) / 100 {
            world.add_node(AGENT, &format!("n{index}"), &NodeShape::default());
        }
        for name in [SHOP, "fleet-content", "fleet-system"] {
            namespace(&world, HUB, name)?;
        }
        for name in ["kruise-system", SECRETS_NAMESPACE] {
            namespace(&world, AGENT, name)?;
        }
        let client = control_plane::client(&hub.1).await?;
        let names: Vec<String> = (0..size.clusters).map(|it| format!("c{it:04}")).collect();
        let newcomer = Newcomer { name: AGENT, kubeconfig: &member.1, server: None };
        let joined = join::join_simulated(&hub.1, newcomer).await?;
        // After that, as their admission has nobody yet who would answer.
        let webhooks = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/webhook/hub");
        for file in fs::read_dir(webhooks)? {
            let text = fs::read_to_string(file?.path())?;
            join::apply(&client, &serde_saphyr::from_str::<Value>(&text)?).await?;
        }
        for (place, name) in names.iter().enumerate() {
            enter(&world, name, place / size.span)?;
        }
        for group in 0..size.clusters.div_ceil(size.span) {
            world
                .write(
                    HUB,
                    Method::POST,
                    &format!("{FLEET}/namespaces/{SHOP}/placementpolicies"),
                    &policy(group),
                )
                .map_err(|it| anyhow::anyhow!("{}", it.message))?;
        }
        let echoes = Echoes::new(&world, AGENT);
        let mut tasks = JoinSet::new();
        tasks.spawn(echoes.clone().beat(names[1..].to_vec()));
        tasks.spawn(echoes.clone().answer());
        let programs =
            [hub_command(&hub.1, &folder).await?, agent_command(&member.1, joined, &folder).await?];
        let mut hall = Self {
            size,
            world,
            client,
            echoes,
            programs,
            hub: None,
            agent: None,
            folder,
            _tasks: tasks,
            _served: vec![hub.0, member.0],
        };
        hall.start_hub()?;
        hall.agent = Some(hall.programs[1].start()?);
        Ok(hall)
    }

    pub(crate) fn start_hub(&mut self) -> Result<()> {
        self.hub = Some(self.programs[0].start()?);
        Ok(())
    }

    pub(crate) fn kill_hub(&mut self) -> Result<()> {
        self.hub.take().context("the hub runs")?.kill()
    }

    pub(crate) fn hub_process(&self) -> Process {
        Process(self.hub.as_ref().map_or_else(String::new, |it| it.pid.clone()))
    }

    pub(crate) fn agent_process(&self) -> Process {
        Process(self.agent.as_ref().map_or_else(String::new, |it| it.pid.clone()))
    }

    /// Waits until every cluster may be used.
    pub(crate) async fn until_ready(&self) -> Result<()> {
        self.until("all clusters are Ready", |it| {
            let members = it.world.cluster(HUB).server().list("memberclusters.fleet.kruise.io");
            members.iter().filter(|it| it.value()["status"]["state"] == "Ready").count() == it.size.clusters
        })
        .await
    }

    /// Waits until so many objects are acknowledged everywhere, and the hub says so.
    pub(crate) async fn until_settled(&self, objects: usize) -> Result<()> {
        self.until("all objects rest", |it| {
            let bindings = it.world.cluster(HUB).server().list("fleetbindings.fleet.kruise.io");
            let rests = |it: &Value| it["available"] == it["desired"] && it["available"] != 0;
            bindings.iter().filter(|it| rests(&it.value()["status"])).count() == objects
        })
        .await
    }

    /// Waits until a hub has looked at so many objects and has nothing to do any more. Says since when.
    pub(crate) async fn until_still(&self, hub: &Process, objects: usize) -> Result<Instant> {
        let end = Instant::now() + PATIENCE;
        loop {
            let (begun, before) = (Instant::now(), hub.cpu()?);
            tokio::time::sleep(Duration::from_secs(1)).await;
            // It may not have got round to answering.
            let planned =
                cost::metric(self.programs[0].metrics, "kruise_fleet_plan_duration_seconds_count").await;
            if hub.cpu()? - before < STILL && planned.unwrap_or(-1.0) >= objects as f64 {
                return Ok(begun);
            }
            anyhow::ensure!(begun < end, "the hub does not come to rest; see {}", self.folder.display());
        }
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !is_so(self) {
            anyhow::ensure!(
                Instant::now() < end,
                "waited too long for: {what}; see {}",
                self.folder.display()
            );
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Applies so many objects at once. Gives the seconds until each was placed.
    pub(crate) async fn apply_all(&self, objects: usize) -> Result<Vec<f64>> {
        let begun = Instant::now();
        let names: Vec<String> = (0..objects).map(|it| format!("all-{it}")).collect();
        let applied = stream::iter(names.iter().enumerate())
            .map(async |(place, name)| self.apply(name, place).await)
            .buffer_unordered(AT_ONCE);
        applied.try_for_each(async |()| Ok(())).await?;
        let mut seconds = Vec::new();
        for name in &names {
            seconds.push(self.placed(name).await?.duration_since(begun).as_secs_f64());
        }
        Ok(seconds)
    }

    /// Applies so many objects one after the other, each when the one before is placed. Gives the seconds each took.
    pub(crate) async fn apply_singly(&self, objects: usize) -> Result<Vec<f64>> {
        let mut seconds = Vec::new();
        for place in 0..objects {
            let (name, begun) = (format!("single-{place}"), Instant::now());
            self.apply(&name, place).await?;
            seconds.push(self.placed(&name).await?.duration_since(begun).as_secs_f64());
            tokio::time::sleep(LOOK).await;
        }
        Ok(seconds)
    }

    async fn apply(&self, name: &str, place: usize) -> Result<()> {
        let group = place % self.size.clusters.div_ceil(self.size.span);
        join::apply(&self.client, &object(name, group, self.size.span)).await
    }

    /// Waits until all clusters of an object have their Assignment; says when the last got it.
    async fn placed(&self, name: &str) -> Result<Instant> {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.echoes.seen(name) {
                Some(seen) if seen.clusters >= self.size.span => return Ok(seen.last),
                seen => anyhow::ensure!(Instant::now() < end, "{name} is not placed: {seen:?}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Requests of the hub, or of the agent to the hub, so far.
    pub(crate) async fn requests(&self, of: &str) -> Result<f64> {
        let (program, name) = match of {
            HUB => (&self.programs[0], "rest_client_requests_total"),
            _ => (&self.programs[1], "kruise_fleet_agent_requests_total"),
        };
        cost::metric(program.metrics, name).await
    }

    /// From here on writes are counted.
    pub(crate) fn count_writes(&self) {
        self.world.note(MARK);
    }

    /// Writes to the hub's API server since then that did not only renew a Lease: how many, and which. Echoes' do not count, as
    /// they do not pass the network.
    pub(crate) fn writes(&self) -> String {
        let lines = self.world.log().last(usize::MAX);
        let begin = lines.iter().rposition(|it| it.ends_with(&format!("note {MARK}")));
        let Some(begin) = begin else { return "more than are kept".to_owned() };
        let mut counts = BTreeMap::new();
        for line in &lines[begin..] {
            let words: Vec<&str> = line.split_whitespace().collect();
            // A line that asks is a write which waits for a webhook.
            if let [_, HUB, "https", verb, target, outcome, ..] = words[..]
                && !matches!((verb, outcome), ("GET" | "WATCH", _) | (_, "asks"))
                && !target.starts_with("leases/")
            {
                let kind = target.split('/').next().unwrap_or_default();
                *counts.entry(format!("{verb} {kind}")).or_insert(0) += 1;
            }
        }
        if counts.is_empty() {
            return "0".to_owned();
        }
        counts.iter().map(|it| format!("{} {}", it.1, it.0)).collect::<Vec<_>>().join(", ")
    }

    /// Objects that the cluster with an agent has a share of.
    pub(crate) fn held_by_agent(&self) -> usize {
        self.world.cluster(AGENT).server().count("clonesets.apps.kruise.io")
    }

    /// Bytes that the fleet's objects take in the store, how many of them say who wrote which field, and the largest kinds.
    pub(crate) fn store(&self) -> (f64, f64, String) {
        let server = self.world.cluster(HUB).server().clone();
        let tables = KEPT.map(|it| (format!("{it}.fleet.kruise.io"), it)).into_iter();
        let tables = tables.chain([("clonesets.apps.kruise.io".to_owned(), "clonesets")]);
        let (mut sizes, mut managed) = (Vec::new(), 0.0);
        for (table, name) in tables {
            let all = server.list(&table);
            sizes.push((all.iter().map(|it| it.text().len() as f64).sum::<f64>(), name, all.len()));
            let fields =
                all.iter().map(|it| it.value()["metadata"]["managedFields"].to_string().len() as f64);
            managed += fields.sum::<f64>();
        }
        sizes.sort_by(|a, b| b.0.total_cmp(&a.0));
        let shown = sizes.iter().take(3).map(|it| format!("{} {} {:.0}", it.2, it.1, it.0 / 1e6));
        (sizes.iter().map(|it| it.0).sum(), managed, shown.collect::<Vec<_>>().join(", "))
    }
}

impl Drop for Hall {
    fn drop(&mut self) {
        (self.hub, self.agent) = (None, None);
        if std::env::var_os("BENCH_KEEP").is_none() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
