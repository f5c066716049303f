//! What processes and API servers have spent so far, for benchmarks: read it twice and subtract.

use std::{collections::BTreeMap, fs, net::SocketAddr};

use anyhow::{Context, Result, ensure};
use kube::Client;

use crate::{agent, processes};

/// Clock ticks per second, as Linux counts the CPU time of processes.
const TICKS: f64 = 100.0;

/// A process by its id.
#[derive(Debug, Clone)]
pub struct Process(pub String);

impl Process {
    /// Seconds of CPU used so far.
    pub fn cpu(&self) -> Result<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0))?;
        // The name of the program, in brackets, may hold blanks.
        let fields: Vec<&str> = stat.rsplit_once(')').context("a stat line")?.1.split_whitespace().collect();
        let ticks =
            |index: usize| fields.get(index).and_then(|it| it.parse::<f64>().ok()).unwrap_or_default();
        Ok((ticks(11) + ticks(12)) / TICKS)
    }

    /// MiB, by the name of a line of its status: `VmRSS:`, `VmHWM:`, `RssAnon:`, `RssFile:`.
    pub fn memory(&self, what: &str) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0))?;
        let line = status.lines().find_map(|it| it.strip_prefix(what)).context("its memory")?;
        let kib: f64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib / 1024.0)
    }
}

/// Seconds of CPU that all processes of these programs have used so far.
pub fn cpu_of(programs: &[&str]) -> f64 {
    let is_one = |pid: &String| programs.contains(&processes::program(pid).as_str());
    // One that ends meanwhile counts for nothing.
    processes::pids().filter(is_one).filter_map(|it| Process(it).cpu().ok()).sum()
}

/// Seconds of CPU that this machine has used so far, for whatever.
pub fn cpu_of_all() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().context("a line for all processors")?;
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|it| it.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq
    let is_work = |index: &usize| !matches!(index, 3 | 4) && *index < 7;
    Ok(ticks.iter().enumerate().filter(|it| is_work(&it.0)).map(|it| it.1).sum::<f64>() / TICKS)
}

/// How many requests that change something an API server has answered so far: `POST pods/binding` and the like.
pub async fn writes(client: &Client) -> Result<BTreeMap<String, f64>> {
    let text = client.request_text(axum::http::Request::get("/metrics").body(Vec::new())?).await?;
    let mut sums = BTreeMap::new();
    for line in text.lines().filter(|it| it.starts_with("apiserver_request_total{")) {
        let label = |name: &str| {
            let begin = format!("{name}=\"");
            line.split_once(&begin).and_then(|it| it.1.split_once('"')).map_or("", |it| it.0)
        };
        let (verb, resource, part) = (label("verb"), label("resource"), label("subresource"));
        let count = line.rsplit_once(' ').and_then(|it| it.1.parse::<f64>().ok()).unwrap_or_default();
        // Leases are renewed whatever happens.
        if matches!(verb, "POST" | "PUT" | "PATCH" | "DELETE" | "APPLY") && resource != "leases" {
            let slash = if part.is_empty() { "" } else { "/" };
            *sums.entry(format!("{verb} {resource}{slash}{part}")).or_default() += count;
        }
    }
    Ok(sums)
}

/// The sum of a metric of one of our processes over all its labels.
pub async fn metric(at: SocketAddr, name: &str) -> Result<f64> {
    let (code, text) = agent::get(at, "/metrics").await?;
    ensure!(code == 200, "{at} answers with {code}");
    let values = text.lines().filter(|it| it.split(['{', ' ']).next() == Some(name));
    Ok(values.filter_map(|it| it.rsplit_once(' ')?.1.parse::<f64>().ok()).sum())
}

/// The value that this part of all values (0.99) does not exceed.
pub fn percentile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!([0.5, 0.9, 0.99, 1.0].map(|it| percentile(&values, it)), [50.0, 90.0, 99.0, 100.0]);
        assert_eq!((percentile(&[7.0], 0.5), percentile(&[], 0.5).is_nan()), (7.0, true));
    }

    #[test]
    fn this_process_has_memory_and_a_name() {
        let me = Process(std::process::id().to_string());
        assert!(me.memory("VmRSS:").unwrap() > 0.1);
        assert!(me.cpu().unwrap() >= 0.0 && cpu_of_all().unwrap() > 0.0);
        let name = processes::program(&me.0);
        assert!(!name.is_empty() && cpu_of(&["no such program"]) == 0.0);
    }
}
