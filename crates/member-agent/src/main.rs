//! `kruise-agent`: what runs in a workload cluster.

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use kruise_core::runtime::{logs, shutdown};
use member_agent::manager;
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
}

#[tokio::main]
async fn main() -> Result<()> {
    let Role::Manager(arguments) = Arguments::parse().role;
    // Two providers may be in the build; rustls wants to be told which.
    rustls::crypto::ring::default_provider().install_default().ok().context("another TLS provider is set")?;
    let environment = |name: &str| std::env::var(name).ok();
    let settings = manager::Settings::new(*arguments, &environment)?;
    logs::init(settings.log.format, settings.log.level, environment("RUST_LOG").as_deref())?;

    let stop = CancellationToken::new();
    let signals = tokio::spawn(shutdown::on_signals(stop.clone()));
    let ended = manager::run(settings, stop).await;
    signals.abort();
    Ok(ended?)
}
