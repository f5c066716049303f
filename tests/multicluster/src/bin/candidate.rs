//! One replica for tests of leader election: says so, with the time, as long as it may act.
//!
//! Usage: `candidate KUBECONFIG NAMESPACE IDENTITY`. Prints `waiting` when it begins to
//! wait for the lease, and `acting <nanoseconds>` about every 20 ms while it leads.

use std::{io::Write, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use kruise_core::runtime::{
    client::{self, Options, Source},
    clock::Clock,
    leader::{Election, Ended, Timings},
    metrics::Metrics,
    throttle::Throttle,
};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kubeconfig, namespace, identity] = arguments.as_slice() else {
        bail!("usage: candidate KUBECONFIG NAMESPACE IDENTITY");
    };
    rustls::crypto::ring::default_provider().install_default().ok().context("the first provider")?;
    let clock = Clock::system();
    let metrics = Metrics::new(|_| {});
    let options = Options {
        user_agent: "candidate/1".to_owned(),
        metrics: metrics.clone(),
        throttle: Throttle::default(),
        clock: clock.clone(),
    };
    let source = Source::Kubeconfig { path: Some(PathBuf::from(kubeconfig)), context: None };
    let client = client::connect(&source, &options).await?;
    let timings = Timings {
        lease: Duration::from_secs(5),
        renew: Duration::from_secs(3),
        retry: Duration::from_millis(500),
    };
    let election =
        Election::new(client, (namespace, "candidates"), identity, timings, clock.clone(), metrics)?;
    say("waiting");
    let ended = election
        .lead(&CancellationToken::new(), async |leadership| {
            loop {
                if leadership.may_act() {
                    say(&format!("acting {}", clock.now().as_nanosecond()));
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    match ended {
        Ended::Finished(()) | Ended::Stopped => Ok(()),
        Ended::Lost => bail!("leadership was lost"),
    }
}

fn say(line: &str) {
    // The test may have ended; there is nobody left to tell.
    let _ = writeln!(std::io::stdout(), "{line}");
}
