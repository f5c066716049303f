//! `kruise-agent`: what runs in a workload cluster.

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use kruise_core::runtime::{client, logs, shutdown};
use member_agent::{daemon, flags::Log, manager};
use tokio_util::sync::CancellationToken;

#[derive(Debug, Parser)]
#[command(name = "kruise-agent", version, about = "OpenKruise's workloads in one cluster")]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// The controllers and the admission server of one cluster; several replicas elect one leader
    Manager(Box<manager::Arguments>),
    /// The duties of one node: image pulls, container recreate, container meta; one for each node
    Daemon(Box<daemon::Arguments>),
}

#[tokio::main]
async fn main() -> Result<()> {
    let role = Arguments::parse().role;
    // Two providers may be in the build; rustls wants to be told which.
    let provider = match role {
        Role::Manager(_) => client::tls_1_3(),
        // Probes and hooks ask containers, which may be older than that.
        Role::Daemon(_) => rustls::crypto::ring::default_provider(),
    };
    provider.install_default().ok().context("another TLS provider is set")?;
    let environment = |name: &str| std::env::var(name).ok();
    let stop = CancellationToken::new();
    let signals = tokio::spawn(shutdown::on_signals(stop.clone()));
    let ended = match role {
        Role::Manager(arguments) => {
            let settings = manager::Settings::new(*arguments, &environment)?;
            log(settings.log)?;
            manager::run(settings, stop).await.map_err(Into::into)
        }
        Role::Daemon(arguments) => {
            let settings = daemon::Settings::new(*arguments, &environment)?;
            log(settings.log)?;
            daemon::run(settings, stop).await.map_err(Into::into)
        }
    };
    signals.abort();
    ended
}

fn log(Log { format, level }: Log) -> Result<()> {
    Ok(logs::init(format, level, std::env::var("RUST_LOG").ok().as_deref())?)
}
