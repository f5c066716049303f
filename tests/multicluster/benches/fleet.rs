//! How long CloneSets take from the hub into three real members, and what that costs: one at a time, and many at once.
//!
//! `cargo xtask bench fleet` starts the clusters. The clock runs from before a CloneSet is sent to the hub until all three
//! members have theirs, as a watch in each of them says. Every CloneSet asks for three replicas, one in each member: a cluster
//! that gets no replicas gets no object.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use kruise_core::api::{cloneset::v1beta1::CloneSet, fleet::binding::FleetBinding};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
    core::PartialObjectMeta,
    runtime::watcher::{self, Event, watcher},
};
use multicluster::{
    PATIENCE,
    cost::{self, Process, percentile},
    fleet::{Fleet, HUB, Links, MEMBERS},
};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};

/// How long after one CloneSet the next one is applied.
const REST: Duration = Duration::from_millis(500);

/// Requests of ours under way at once, when many CloneSets are applied.
const AT_ONCE: usize = 40;

/// How often the hub is asked whether everything rests.
const LOOK: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<()> {
    let number = |name: &str, default: usize| -> Result<usize> {
        std::env::var(name).map_or(Ok(default), |it| Ok(it.parse()?))
    };
    let (singles, burst) = (number("BENCH_SINGLES", 100)?, number("BENCH_BURST", 500)?);
    println!("the hub and its members are started ...");
    let fleet = Fleet::start(Links::Direct, &[]).await?;
    let namespace = fleet.hub.namespace("bench").await?;
    let mut stage = Stage::open(&fleet, &namespace).await?;
    // The first one has its namespace made in the members, and connections opened.
    stage.apply("warm-up").await?;
    stage.until_everywhere("warm-up").await?;
    stage.until_rest(1).await?;
    println!(
        "\n| processes at rest | CPU s so far | memory MiB | of its own | most |\n|---|---|---|---|---|"
    );
    stage.print_processes()?;

    stage.measure_singles(singles).await?;
    stage.until_rest(singles + 1).await?;
    stage.measure_burst(singles + 1, burst).await?;
    println!(
        "\n| processes at the end | CPU s so far | memory MiB | of its own | most |\n|---|---|---|---|---|"
    );
    stage.print_processes()
}

/// A CloneSet that a member has now.
struct Arrival {
    member: &'static str,
    name: String,
    at: Instant,
}

struct Stage<'a> {
    fleet: &'a Fleet,
    namespace: String,
    clonesets: Api<CloneSet>,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    /// When each member had each CloneSet.
    arrived: BTreeMap<String, BTreeMap<&'static str, Instant>>,
    _watches: JoinSet<()>,
}

/// What everybody has spent so far.
struct Spent {
    ours: BTreeMap<&'static str, f64>,
    servers: f64,
    machine: f64,
    writes: BTreeMap<String, f64>,
}

impl<'a> Stage<'a> {
    /// A policy for everything in the namespace, and a look at it in every member.
    async fn open(fleet: &'a Fleet, namespace: &str) -> Result<Self> {
        let policy = json!({
            "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "PlacementPolicy",
            "metadata": {"name": "all", "namespace": namespace},
            "spec": {"targets": [{"kind": "CloneSet", "labelSelector": {}}]},
        });
        lab::join::apply(&fleet.client, &policy).await?;
        let (sender, arrivals) = mpsc::unbounded_channel();
        let mut watches = JoinSet::new();
        for member in MEMBERS {
            let api = Api::namespaced(fleet.member(member).client.clone(), namespace);
            watches.spawn(watch(member, api, sender.clone()));
        }
        Ok(Self {
            fleet,
            namespace: namespace.to_owned(),
            clonesets: Api::namespaced(fleet.client.clone(), namespace),
            arrivals,
            arrived: BTreeMap::new(),
            _watches: watches,
        })
    }

    /// Applies a CloneSet of three replicas.
    async fn apply(&self, name: &str) -> Result<()> {
        let params = PatchParams::apply("bench").force();
        self.clonesets.patch(name, &params, &Patch::Apply(wanted(name))).await?;
        Ok(())
    }

    /// Waits until every member has the CloneSet; says when the first and the last had it.
    async fn until_everywhere(&mut self, name: &str) -> Result<(Instant, Instant)> {
        loop {
            if let Some(times) = self.arrived.get(name).filter(|it| it.len() == MEMBERS.len()) {
                let (first, last) = (times.values().min(), times.values().max());
                return first.copied().zip(last.copied()).context("three members");
            }
            let arrival = tokio::time::timeout(PATIENCE, self.arrivals.recv()).await;
            let Arrival { member, name, at } =
                arrival.with_context(|| format!("{name} is missing"))?.context("the watches run")?;
            self.arrived.entry(name).or_default().entry(member).or_insert(at);
        }
    }

    /// Waits until so many CloneSets have all their pods, and the hub knows.
    async fn until_rest(&self, count: usize) -> Result<()> {
        let bindings: Api<FleetBinding> = Api::namespaced(self.fleet.client.clone(), &self.namespace);
        let resting = async {
            loop {
                let all = bindings.list(&ListParams::default()).await?;
                let rests = |it: &&FleetBinding| {
                    it.status.as_ref().is_some_and(|it| it.desired == 3 && it.available == 3)
                };
                if all.iter().filter(rests).count() >= count {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(PATIENCE, resting).await.context("the CloneSets do not come to rest")?
    }

    /// One at a time.
    async fn measure_singles(&mut self, count: usize) -> Result<()> {
        let (mut first, mut all) = (Vec::new(), Vec::new());
        for index in 0..count {
            let name = format!("single-{index}");
            let begun = Instant::now();
            self.apply(&name).await?;
            let arrived = self.until_everywhere(&name).await?;
            let milliseconds = |it: Instant| it.duration_since(begun).as_secs_f64() * 1e3;
            first.push(milliseconds(arrived.0));
            all.push(milliseconds(arrived.1));
            tokio::time::sleep(REST).await;
        }
        println!(
            "\n| {count} CloneSets one at a time, applied on the hub until | p50 ms | p99 ms | slowest ms |"
        );
        println!("|---|---|---|---|");
        for (what, times) in [("one member has it", first), ("all three members have it", all)] {
            let [p50, p99, most] = [0.5, 0.99, 1.0].map(|it| percentile(&times, it));
            println!("| {what} | {p50:.0} | {p99:.0} | {most:.0} |");
        }
        println!("| Karmada, push mode, three real members | 168 | 339 | |\n| aim | | 120 | |");
        Ok(())
    }

    /// Many at once.
    async fn measure_burst(&mut self, before: usize, count: usize) -> Result<()> {
        let names: Vec<String> = (0..count).map(|it| format!("burst-{it}")).collect();
        let (spent, begun) = (self.spent().await?, Instant::now());
        let applied = stream::iter(&names).map(|it| self.apply(it)).buffer_unordered(AT_ONCE);
        applied.try_for_each(async |()| Ok(())).await?;
        let taken = begun.elapsed().as_secs_f64();
        let mut last = begun;
        for name in &names {
            last = last.max(self.until_everywhere(name).await?.1);
        }
        let seconds = last.duration_since(begun).as_secs_f64();
        let arrived = self.spent().await?.since(&spent);
        let memory = self.memory()?;
        self.until_rest(before + count).await?;
        let (rested, rest) = (begun.elapsed().as_secs_f64(), self.spent().await?.since(&spent));
        println!(
            "\nThe hub's API server had taken all {count} after {taken:.1} s; all pods were ready after {rested:.1} s."
        );
        println!("\n| {count} CloneSets at once | last arrives s | CPU s | memory MiB | of it own |");
        println!("|---|---|---|---|---|");
        let (cpu, pods) = (arrived.of_ours(), rest.of_ours());
        println!("| hub and three agents | {seconds:.1} | {cpu:.1} | {:.0} | {:.0} |", memory.0, memory.1);
        println!("| the same until all pods are ready | {rested:.1} | {pods:.1} | | |");
        println!("| Karmada, push mode, four processes | 69 | 41 | 387 | |\n| aim | 10 | 5 | 60 | |");
        println!(
            "\n| who used the processors | CPU s: hub | agents | API servers, etcd | all of the machine |"
        );
        println!("|---|---|---|---|---|");
        arrived.print("until the last arrives");
        rest.print("until all pods are ready");
        println!("\n| writes to the hub for one CloneSet, until all pods are ready | |\n|---|---|");
        let each = rest.writes.iter().map(|it| (it.1 / count as f64, it.0));
        let mut each: Vec<_> = each.filter(|it| it.0 >= 0.05).collect();
        each.sort_by(|a, b| b.0.total_cmp(&a.0));
        each.iter().for_each(|it| println!("| {} | {:.1} |", it.1, it.0));
        Ok(())
    }

    fn processes(&self) -> Result<Vec<(&'static str, Process)>> {
        let names = [HUB].into_iter().chain(MEMBERS);
        names.map(|it| Ok((it, self.fleet.process(it)?))).collect()
    }

    fn print_processes(&self) -> Result<()> {
        let mut sums = [0.0; 4];
        for (name, process) in self.processes()? {
            let row = [
                process.cpu()?,
                process.memory("VmRSS:")?,
                process.memory("RssAnon:")?,
                process.memory("VmHWM:")?,
            ];
            sums.iter_mut().zip(row).for_each(|(sum, it)| *sum += it);
            let name = if name == HUB { "hub".to_owned() } else { format!("agent of {name}") };
            println!("| {name} | {:.1} | {:.0} | {:.0} | {:.0} |", row[0], row[1], row[2], row[3]);
        }
        println!("| all | {:.1} | {:.0} | {:.0} | {:.0} |", sums[0], sums[1], sums[2], sums[3]);
        Ok(())
    }

    /// MiB of all our processes, and what of it is not pages of their program files.
    fn memory(&self) -> Result<(f64, f64)> {
        let mut sums = (0.0, 0.0);
        for (_, process) in self.processes()? {
            sums.0 += process.memory("VmRSS:")?;
            sums.1 += process.memory("RssAnon:")?;
        }
        Ok(sums)
    }

    async fn spent(&self) -> Result<Spent> {
        let ours = self.processes()?.into_iter().map(|(name, it)| Ok((name, it.cpu()?)));
        Ok(Spent {
            ours: ours.collect::<Result<_>>()?,
            servers: cost::cpu_of(&["kube-apiserver", "etcd"]),
            machine: cost::cpu_of_all()?,
            writes: cost::writes(&self.fleet.client).await?,
        })
    }
}

impl Spent {
    fn since(mut self, before: &Self) -> Self {
        self.ours.iter_mut().for_each(|(name, it)| *it -= before.ours.get(name).copied().unwrap_or_default());
        self.writes
            .iter_mut()
            .for_each(|(name, it)| *it -= before.writes.get(name).copied().unwrap_or_default());
        self.servers -= before.servers;
        self.machine -= before.machine;
        self
    }

    fn of_ours(&self) -> f64 {
        self.ours.values().sum()
    }

    fn print(&self, what: &str) {
        let hub = self.ours.get(HUB).copied().unwrap_or_default();
        let agents = self.of_ours() - hub;
        println!("| {what} | {hub:.1} | {agents:.1} | {:.1} | {:.1} |", self.servers, self.machine);
    }
}

/// Says when a member has a CloneSet for the first time.
async fn watch(
    member: &'static str,
    api: Api<PartialObjectMeta<CloneSet>>,
    sender: mpsc::UnboundedSender<Arrival>,
) {
    let mut known = BTreeSet::new();
    let mut events = watcher(api, watcher::Config::default()).boxed();
    while let Some(event) = events.next().await {
        // It begins anew by itself.
        let Ok(Event::Apply(object) | Event::InitApply(object)) = event else { continue };
        let name = object.name_any();
        if known.insert(name.clone()) {
            let _ = sender.send(Arrival { member, name, at: Instant::now() });
        }
    }
}

fn wanted(name: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": name},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "lab/web:1"}]},
            },
        },
    })
}
