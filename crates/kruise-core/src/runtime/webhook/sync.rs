//! Upkeep for as long as the server runs.

use std::{future::pending, time::Duration};

use futures::{FutureExt, StreamExt};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{
    Error,
    certs::{KeySet, still_serves},
    keeper::Keeper,
    presenter::Presenter,
    routes::{Event, Observer},
};
use crate::{
    backoff::Doubling,
    runtime::clock::{Clock, later},
};

/// How long a good state is left alone without any sign of a change.
const RESYNC: Duration = Duration::from_secs(60);
/// Changes come in groups, our own writes among them: one round answers a whole group. It also bounds what a quarrel with
/// another writer (a replica of another version, during an upgrade) can cost.
const GATHER: Duration = Duration::from_millis(500);
const RETRY: Doubling = Doubling { first: Duration::from_millis(50), ceiling: Duration::from_secs(30) };

/// When things must have happened.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// The first round must succeed within this.
    pub(super) initialize_within: Duration,
    /// How long the API servers get to learn of a new bundle before a certificate that needs it is presented.
    pub(super) settle: Duration,
}

/// Keeps everything in order until `token` is cancelled. Ends with an error only if the first round never succeeds.
pub(super) async fn run(
    mut keeper: Keeper,
    presenter: &Presenter,
    pace: Pace,
    observer: &Observer,
    token: &CancellationToken,
) -> Result<(), Error> {
    let mut upkeep = Upkeep { presenter, settle: pace.settle, waiting: None };
    let mut last = None;
    let first = timeout(pace.initialize_within, initialize(&mut keeper, &mut upkeep, observer, &mut last));
    let within = tokio::select! {
        biased;
        first = first => first,
        () = token.cancelled() => return Ok(()),
    };
    if within.is_err() {
        let source = last.map(Box::new);
        return Err(Error::NotInitialized { within: pace.initialize_within, source });
    }
    presenter.set_ready();

    let mut triggers = keeper.triggers();
    let mut failures = 0;
    loop {
        // After a failure the wait is served in full: a state that keeps changing must not make us hammer the API.
        let calm = if failures > 0 { RETRY.delay(failures) } else { RESYNC };
        let sign = async {
            if failures > 0 {
                pending().await
            }
            tokio::select! {
                biased;
                _ = triggers.next() => sleep(GATHER).await,
                () = upkeep.due() => {}
            }
        };
        tokio::select! {
            biased;
            () = token.cancelled() => return Ok(()),
            () = sleep(calm) => {}
            () = sign => {}
        }
        while triggers.next().now_or_never().flatten().is_some() {}

        let round = tokio::select! {
            biased;
            round = upkeep.round(&mut keeper) => round,
            () = token.cancelled() => return Ok(()),
        };
        report(&round, observer);
        failures = if round.is_ok() { 0 } else { failures.saturating_add(1) };
    }
}

/// Rounds until one succeeds. Meant to be cut off by a deadline, which is why the last failure is left outside.
async fn initialize(
    keeper: &mut Keeper,
    upkeep: &mut Upkeep<'_>,
    observer: &Observer,
    last: &mut Option<Error>,
) {
    for failures in 1.. {
        let round = upkeep.round(keeper).await;
        report(&round, observer);
        match round {
            Ok(()) => return,
            Err(error) => *last = Some(error),
        }
        sleep(RETRY.delay(failures)).await;
    }
}

/// Tells the log and the metrics how a round ended.
fn report(round: &Result<(), Error>, observer: &Observer) {
    match round {
        Ok(()) => observer(&Event::Synced),
        Err(error) => {
            warn!(error = error as &dyn std::error::Error, label = error.label(), "webhook upkeep failed");
            observer(&Event::SyncFailed { label: error.label() });
        }
    }
}

/// What upkeep remembers between rounds.
struct Upkeep<'a> {
    presenter: &'a Presenter,
    settle: Duration,
    /// A certificate that is presented once every API server has surely learnt to trust it.
    waiting: Option<(KeySet, Instant)>,
}

impl Upkeep<'_> {
    /// One round. The order is what makes a change of authority invisible: the store first, so that all replicas
    /// agree; then the bundles, which trust the old authority and the new one; the certificate itself last.
    async fn round(&mut self, keeper: &mut Keeper) -> Result<(), Error> {
        let serving = self.presenter.serving();
        let keys = keeper.settle(serving.as_deref()).await?;
        // A server with nothing to present has nothing to lose by presenting this before it is trusted.
        let lost = |it: &KeySet| keeper.with_terms(|terms| still_serves(it, terms)).is_err();
        if serving.as_deref().is_none_or(|it| it.serves_like(&keys) || lost(it)) {
            self.presenter.adopt(&keys)?;
        }

        keeper.publish(&keys.trust_bundle()).await?;

        if self.presenter.serving().is_some_and(|it| it.serves_like(&keys)) {
            self.waiting = None;
            return Ok(());
        }
        let now = Clock::system().instant();
        match &self.waiting {
            Some((waiting, due)) if waiting.serves_like(&keys) => {
                if *due <= now {
                    self.presenter.adopt(&keys)?;
                    self.waiting = None;
                }
            }
            _ => self.waiting = Some((keys, later(now, self.settle))),
        }
        Ok(())
    }

    /// Waits until the waiting certificate may be presented.
    async fn due(&self) {
        match &self.waiting {
            Some((_, due)) => sleep_until(*due).await,
            None => pending().await,
        }
    }
}
