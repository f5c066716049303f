//! What a hub costs with many clusters and many objects.
//!
//! `cargo xtask bench fleet` builds the programs. `kruise-hub` runs as a process of its own against a simulated API server over
//! HTTPS, so its memory is its own. Clusters are echoes (see [`echo`]) but for one, which has a simulated API server and a
//! real `kruise-agent` process.

mod echo;
mod hall;
mod setup;

use std::time::Duration;

use anyhow::Result;
use multicluster::cost::{Process, percentile};
use tokio::time::Instant;

use hall::{HUB, Hall};

/// How long requests are counted while nothing happens: until every watch was opened anew.
const IDLE: u64 = 60;
/// What counts as no work: CPU seconds in a second.
const STILL: f64 = 0.1;
/// How often is looked.
const LOOK: Duration = Duration::from_millis(500);

/// How large the fleet is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) clusters: usize,
    pub(crate) objects: usize,
    /// Clusters that each object runs on.
    pub(crate) span: usize,
    /// Objects that are applied one at a time, once all others are there.
    pub(crate) singles: usize,
    /// How long nothing happens.
    pub(crate) idle: Duration,
}

fn main() -> Result<()> {
    let variable = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let clusters = variable("BENCH_CLUSTERS", "100");
    let objects: usize = variable("BENCH_OBJECTS", "100").parse()?;
    let idle = Duration::from_secs(variable("BENCH_IDLE", &IDLE.to_string()).parse()?);
    // Two providers may be in the build; one has to be named before the first connection.
    let _ = rustls::crypto::ring::default_provider().install_default();
    for clusters in clusters.split(',') {
        let clusters: usize = clusters.parse()?;
        let size = Size { clusters, objects, span: clusters.min(100), singles: 30, idle };
        // The simulation is one thread's work, whatever the number of clients.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        runtime.block_on(measure(size))?;
    }
    Ok(())
}

async fn measure(size: Size) -> Result<()> {
    let Size { clusters, objects, span, singles, idle: pause } = size;
    println!("\n{clusters} clusters join ...");
    let mut hall = Hall::open(size).await?;
    let (hub, agent) = (hall.hub_process(), hall.agent_process());
    hall.until_ready().await?;
    hall.until_still(&hub, 0).await?;
    println!("\n| {clusters} clusters, {objects} objects on {span} clusters each | | aim |\n|---|---|---|");
    let row = |what: &str, value: String, aim: &str| println!("| {what} | {value} | {aim} |");
    let memory =
        |it: &Process| anyhow::Ok((it.memory("VmRSS:")?, it.memory("RssAnon:")?, it.memory("VmHWM:")?));
    let (at_first, agent_at_first) = (memory(&hub)?, memory(&agent)?);
    row("hub without objects: memory MiB, of it own", format!("{:.0}, {:.0}", at_first.0, at_first.1), "");

    let (begun, spent) = (Instant::now(), hub.cpu()?);
    let placed = hall.apply_all(objects).await?;
    let last = placed.iter().copied().fold(0.0, f64::max);
    let quick = percentile(&placed, 0.9);
    row("all objects at once: 90% placed after s, last after s", format!("{quick:.1}, {last:.1}"), "");
    hall.until_settled(objects).await?;
    let settled = begun.elapsed().as_secs_f64();
    let cpu = hub.cpu()? - spent;
    row("all acknowledged and told after s; hub's CPU s", format!("{settled:.1}; {cpu:.1}"), "");
    hall.until_still(&hub, 0).await?;

    let times = hall.apply_singly(singles).await?;
    let [p50, p90, most] = [0.5, 0.9, 1.0].map(|it| percentile(&times, it));
    row(
        "one object more: placed on all its clusters, p50, p90, slowest s",
        format!("{p50:.2}, {p90:.2}, {most:.2}"),
        "p90 3",
    );
    hall.until_settled(objects + singles).await?;
    hall.until_still(&hub, 0).await?;

    idle(&hall, &hub, pause, &row).await?;
    let (full, full_agent) = (memory(&hub)?, memory(&agent)?);
    row("hub: memory MiB, of it own, most", format!("{:.0}, {:.0}, {:.0}", full.0, full.1, full.2), "1024");
    let held = hall.held_by_agent();
    let grown = format!("{:.0} to {:.0}", agent_at_first.1, full_agent.1);
    row(
        &format!("an agent with {held} objects: memory MiB; of it own, from without to with objects"),
        format!("{:.0}; {grown}", full_agent.0),
        "20 more",
    );
    let (bytes, managed, kinds) = hall.store();
    let (bytes, managed) = (bytes / 1e6, managed / 1e6);
    row("store MB, of it `managedFields`", format!("{bytes:.0}, {managed:.0} ({kinds})"), "150");
    restart(&mut hall, objects + singles, pause, &row).await
}

/// What is asked of API servers while nothing happens.
async fn idle(hall: &Hall, hub: &Process, pause: Duration, row: &impl Fn(&str, String, &str)) -> Result<()> {
    let before = (hall.requests(HUB).await?, hall.requests(hall::AGENT).await?, hub.cpu()?);
    hall.count_writes();
    tokio::time::sleep(pause).await;
    let after = (hall.requests(HUB).await?, hall.requests(hall::AGENT).await?, hub.cpu()?);
    let seconds = pause.as_secs_f64();
    let [of_hub, of_agent] = [after.0 - before.0, after.1 - before.1].map(|it| it / seconds);
    row("at rest: requests/s of the hub", format!("{of_hub:.2}"), "");
    row("at rest: requests/s of an agent to the hub", format!("{of_agent:.2}"), "0.2");
    let cpu = 100.0 * (after.2 - before.2) / seconds;
    row("at rest: hub's CPU; its writes", format!("{cpu:.1}%; {}", hall.writes()), "");
    Ok(())
}

/// Kills the hub, and starts it again.
async fn restart(
    hall: &mut Hall,
    objects: usize,
    pause: Duration,
    row: &impl Fn(&str, String, &str),
) -> Result<()> {
    hall.kill_hub()?;
    hall.count_writes();
    let begun = Instant::now();
    hall.start_hub()?;
    let hub = hall.hub_process();
    let steady = hall.until_still(&hub, objects).await?.duration_since(begun).as_secs_f64();
    row("killed and started again: steady after s", format!("{steady:.1}"), "30");
    tokio::time::sleep(pause).await;
    let what = format!("its writes until then and {} s longer", pause.as_secs());
    row(&what, hall.writes(), "0");
    let (now, most, cpu) = (hub.memory("VmRSS:")?, hub.memory("VmHWM:")?, hub.cpu()?);
    row("its memory MiB, most; CPU s", format!("{now:.0}, {most:.0}; {cpu:.1}"), "1024");
    Ok(())
}
