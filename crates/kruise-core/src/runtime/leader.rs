//! Leader election: of all replicas, at most one acts.
//!
//! The protocol is client-go's: a Lease that the leader renews, and that others may take once they have seen it
//! unchanged for its whole duration *on their own clock*, so clocks need not agree. Every write carries the
//! resourceVersion it is based on, so of two that take it one fails.
//!
//! The leader counts from before it *sent* its last successful renewal. Others start counting later, when they see it,
//! and wait longer (`lease`) than the leader goes on without success (`renew`). So a leader that is cut off stops before
//! another one starts. Stopping is a matter of time, not of an answer: [`Leadership::may_act`] turns false by itself,
//! even in a process that was frozen in between.
//!
//! Why not the `LeaderElection` of the k8s-controller crate: it measures with the standard library's clock, so the
//! cut-off cannot be tested on tokio's paused one; its requests before leadership have no deadline and hang with the
//! connection; and when the answer that grants the lease takes longer than the lease, it starts to act all the same.

mod lease;

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::Duration,
};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{info, warn};

use super::{
    access::{self, Right},
    clock::Clock,
    metrics::Metrics,
};
use lease::{Attempt, Follower, Leases};

/// The lease that OpenKruise's managers use, so that the two never act at the same time.
pub const LEASE_NAME: &str = "kruise-manager";

/// How long things take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timings {
    /// How long others leave an unchanged lease alone.
    pub lease: Duration,
    /// How long the leader goes on without a successful renewal.
    pub renew: Duration,
    /// How often to renew, or to look whether the lease is free.
    pub retry: Duration,
}

impl Default for Timings {
    fn default() -> Self {
        Self { lease: Duration::from_secs(15), renew: Duration::from_secs(10), retry: Duration::from_secs(2) }
    }
}

/// Settings with which the election would not be safe.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The times do not fit together.
    #[error("leader election needs retry < renew < lease, whole seconds for the lease")]
    Timings,
    /// Two processes of one identity would take each other's renewals for their own.
    #[error("leader election needs an identity")]
    Identity,
}

/// One candidate for one lease.
#[derive(Clone)]
pub struct Election {
    leases: Leases,
    timings: Timings,
    clock: Clock,
    metrics: Metrics,
}

/// How leadership ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended<T> {
    /// The work came to its end and the lease was given back.
    Finished(T),
    /// The lease was lost; the work was dropped where it stood. Exit the process: what the work spawned may still run.
    Lost,
    /// The token was cancelled before this process became leader.
    Stopped,
}

/// Held by the work: whether this process is still the leader.
#[derive(Debug, Clone)]
pub struct Leadership {
    lost: CancellationToken,
    until: Arc<Mutex<Instant>>,
    clock: Clock,
}

impl Leadership {
    /// Whether a write may be sent now. Worth asking before each: a process can be frozen for any time anywhere.
    pub fn may_act(&self) -> bool {
        !self.lost.is_cancelled() && self.clock.instant() < *self.until()
    }

    /// Cancelled when leadership is lost: for tasks that the work has spawned.
    pub fn lost(&self) -> CancellationToken {
        self.lost.clone()
    }

    /// Ends when leadership does. The clock is read whenever this is polled: in a process that wakes up from a freeze,
    /// timers and other tasks may have their turn too late.
    async fn over(&self) {
        let mut lost = pin!(self.lost.cancelled());
        while self.may_act() {
            let mut timer = pin!(tokio::time::sleep_until(*self.until()));
            poll_fn(|cx| match self.may_act() && lost.as_mut().poll(cx).is_pending() {
                true => timer.as_mut().poll(cx),
                false => Poll::Ready(()),
            })
            .await;
        }
    }

    fn until(&self) -> std::sync::MutexGuard<'_, Instant> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Election {
    /// A candidate for the lease `name` in `namespace`. `identity` must be unique among processes, not only among pods:
    /// see [`identity`].
    pub fn new(
        client: Client,
        (namespace, name): (&str, &str),
        identity: &str,
        timings: Timings,
        clock: Clock,
        metrics: Metrics,
    ) -> Result<Self, Error> {
        let Timings { lease, renew, retry } = timings;
        let seconds = i32::try_from(lease.as_secs()).map_err(|_| Error::Timings)?;
        if lease.subsec_nanos() != 0 || renew >= lease || retry >= renew || retry.is_zero() {
            return Err(Error::Timings);
        }
        if identity.is_empty() {
            return Err(Error::Identity);
        }
        let leases = Leases::new(client, (namespace, name), identity, seconds, timings, clock.clone());
        Ok(Self { leases, timings, clock, metrics })
    }

    /// Waits until this process is the leader, then runs `work` for as long as it is.
    ///
    /// Cancelling `token` ends the wait. While `work` runs it is up to `work` to heed the token; the lease is renewed
    /// until `work` has come to its end, and is then given back so that another process can take over at once.
    pub async fn lead<T, W>(&self, token: &CancellationToken, work: impl FnOnce(Leadership) -> W) -> Ended<T>
    where
        W: Future<Output = T>,
    {
        let Some((lease, since)) = token.run_until_cancelled(self.acquire()).await else {
            // The request that was under way may have got us the lease.
            self.leases.release().await;
            return Ended::Stopped;
        };
        info!(lease = self.leases.name(), identity = self.leases.identity(), "leading");
        self.metrics.leading(true);
        let leadership = Leadership {
            lost: CancellationToken::new(),
            until: Arc::new(Mutex::new(since + self.timings.renew)),
            clock: self.clock.clone(),
        };
        // In a task of its own, so that work which keeps its thread busy does not keep the lease from being renewed.
        let renewing = AbortOnDropHandle::new(tokio::spawn(self.clone().hold(lease, leadership.clone())));
        let ended = tokio::select! {
            biased;
            () = leadership.over() => Ended::Lost,
            output = work(leadership.clone()) => Ended::Finished(output),
        };
        self.metrics.leading(false);
        leadership.lost.cancel();
        renewing.abort();
        // Whether it was aborted or had ended before is all the same.
        let _ = renewing.await;
        match &ended {
            Ended::Finished(_) => self.leases.release().await,
            _ => warn!(lease = self.leases.name(), "leadership is lost"),
        }
        ended
    }

    /// Waits for the lease. Returns it with the moment before the request that got it was sent.
    async fn acquire(&self) -> (Lease, Instant) {
        let mut follower = Follower::default();
        loop {
            let wait = match self.leases.try_acquire(&mut follower).await {
                // An answer that took longer than the leader may go without one is worth nothing: others may have
                // taken the lease since. Ask again.
                Ok(Attempt::Got(lease, since)) if self.clock.since(since) < self.timings.renew => {
                    return (*lease, since);
                }
                Ok(Attempt::Got(..)) => Duration::ZERO,
                Ok(Attempt::Wait(wait)) => wait,
                Err(error) => {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        label = error.label(),
                        "the lease cannot be had"
                    );
                    self.timings.retry
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Renews the lease until it is lost, and says so in every way out of here.
    async fn hold(self, mut lease: Lease, leadership: Leadership) {
        let _cancelled_at_the_end = leadership.lost().drop_guard();
        let mut next = self.clock.instant() + self.timings.retry;
        loop {
            let deadline = *leadership.until();
            tokio::time::sleep_until(next.min(deadline)).await;
            let begun = self.clock.instant();
            if begun >= deadline {
                warn!("the lease was not renewed in time");
                return;
            }
            next = begun + self.timings.retry;
            match tokio::time::timeout_at(deadline, self.leases.renew(&lease)).await {
                Ok(Ok(Some(renewed))) => {
                    lease = renewed;
                    *leadership.until() = begun + self.timings.renew;
                }
                Ok(Ok(None)) => {
                    warn!("the lease was taken or deleted");
                    return;
                }
                Ok(Err(error)) => {
                    warn!(
                        error = &error as &dyn std::error::Error,
                        label = error.label(),
                        "the lease was not renewed"
                    );
                }
                Err(_) => {
                    warn!("the lease was not renewed in time");
                    return;
                }
            }
        }
    }
}

impl std::fmt::Debug for Election {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Election")
            .field("lease", &self.leases.name())
            .field("timings", &self.timings)
            .finish()
    }
}

/// The rights to the lease `name`.
pub fn needs(name: &str) -> Vec<Right> {
    let group = "coordination.k8s.io";
    vec![
        access::own_namespace(group, "leases", &["create"]),
        access::own_namespace(group, "leases", &["get", "update"]).named([name]),
    ]
}

/// An identity for this process: a container that restarts in the same pod is another candidate.
pub fn identity(host: &str, seed: &super::clock::Seed) -> String {
    format!("{host}_{:016x}", seed.draw())
}

#[cfg(test)]
mod tests;
