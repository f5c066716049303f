//! `kruise-hub`: what runs in the management cluster.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use hub::process::{self, Arguments, Settings};
use kruise_core::runtime::{client, flags::Log, logs, shutdown};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    // Two providers may be in the build; rustls wants to be told which.
    client::tls_1_3().install_default().ok().context("another TLS provider is set")?;
    let settings = Settings::new(arguments, &|name| std::env::var(name).ok())?;
    let Log { format, level } = settings.log;
    logs::init(format, level, std::env::var("RUST_LOG").ok().as_deref())?;
    let stop = CancellationToken::new();
    let signals = tokio::spawn(shutdown::on_signals(stop.clone()));
    let ended = process::run(settings, stop).await;
    signals.abort();
    match ended {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) => {
            let code = error.exit_code();
            eprintln!("Error: {:?}", anyhow::Error::from(error));
            Ok(ExitCode::from(code))
        }
    }
}
