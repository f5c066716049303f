//! The parts that run on every replica, leader or not, and end last.

use std::{future::pending, io, net::SocketAddr};

use kruise_core::runtime::{
    events::Sink,
    health::{self, Bound, Checks},
    metrics::Metrics,
    webhook,
};
use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::{Context, Error, Settings};

const METRICS: &str = "metrics-addr";
const PROBES: &str = "health-probe-addr";

/// Addresses that are taken and not served yet.
#[derive(Debug)]
pub(super) struct Listeners {
    metrics: Option<Bound>,
    probes: Option<Bound>,
}

impl Listeners {
    pub(super) async fn bind(settings: &Settings) -> Result<Self, Error> {
        Ok(Self {
            metrics: bind(METRICS, settings.metrics).await?,
            probes: bind(PROBES, settings.probes).await?,
        })
    }
}

async fn bind(flag: &'static str, address: Option<SocketAddr>) -> Result<Option<Bound>, Error> {
    let Some(address) = address else { return Ok(None) };
    let bound = Bound::bind(address).await.map_err(|source| Error::Listen { flag, address, source })?;
    info!(flag, address = %bound.address, "listening");
    Ok(Some(bound))
}

/// What runs beside the controllers.
#[derive(Debug)]
pub(super) struct Services {
    running: JoinSet<Result<(), Error>>,
    close: CancellationToken,
}

impl Services {
    pub(super) fn new() -> Self {
        Self { running: JoinSet::new(), close: CancellationToken::new() }
    }

    pub(super) fn caches(&mut self, context: &Context) {
        for feed in context.caches.feeds(context, &self.close) {
            self.running.spawn(async {
                feed.await;
                Ok(())
            });
        }
    }

    pub(super) fn events(&mut self, sink: Sink) {
        let close = self.close.clone();
        self.running.spawn(async {
            sink.run(close).await;
            Ok(())
        });
    }

    /// Probes and metrics. The replica is not ready from the moment it is told to stop, so that it gets no new work.
    pub(super) fn endpoints(
        &mut self,
        listeners: Listeners,
        metrics: &Metrics,
        handle: &webhook::Handle,
        stop: &CancellationToken,
    ) {
        let (handle, stop) = (handle.clone(), stop.clone());
        let ready = Checks::default()
            .with("stopping", move || if stop.is_cancelled() { Err("stopping".to_owned()) } else { Ok(()) })
            .with_probe("webhook-ready", move || {
                let handle = handle.clone();
                async move { handle.check().await.map_err(|it| it.to_string()) }
            });
        let Listeners { metrics: at, probes } = listeners;
        self.serve(METRICS, at, health::metrics(metrics.clone()));
        self.serve(PROBES, probes, health::probes(Checks::default(), ready));
    }

    fn serve(&mut self, flag: &'static str, at: Option<Bound>, router: axum::Router) {
        let close = self.close.clone();
        if let Some(bound) = at {
            let failed = move |source: io::Error| Error::Serve { flag, source };
            self.running.spawn(async move { bound.serve(router, close).await.map_err(failed) });
        }
    }

    pub(super) fn webhooks(&mut self, server: webhook::Server, client: Client) {
        let close = self.close.clone();
        self.running.spawn(async { server.run(client, close).await.map_err(Error::Webhook) });
    }

    /// Ends when one of them fails. They do not end by themselves otherwise.
    pub(super) async fn broken(&mut self) -> Result<(), Error> {
        while let Some(ended) = self.running.join_next().await {
            flat(ended)?;
        }
        pending().await
    }

    /// Ends all of them in order, and tells of the first failure.
    pub(super) async fn close(mut self) -> Result<(), Error> {
        self.close.cancel();
        let mut outcome = Ok(());
        while let Some(ended) = self.running.join_next().await {
            outcome = outcome.and(flat(ended));
        }
        outcome
    }
}

fn flat(ended: Result<Result<(), Error>, tokio::task::JoinError>) -> Result<(), Error> {
    ended.map_err(|source| Error::Broken { part: "a service", source })?
}
