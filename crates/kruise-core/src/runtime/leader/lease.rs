//! The lease itself: what to do about it, and the requests for that.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams},
};
use tokio::time::Instant;
use tracing::debug;

use super::Timings;
use crate::runtime::{
    client::{Error, call_within},
    clock::Clock,
};

/// What a candidate has seen of a lease that is not its own.
#[derive(Debug, Default)]
pub(super) struct Follower {
    seen: Option<(LeaseSpec, Instant)>,
}

/// What a candidate does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Write our name into the lease.
    Take,
    /// Look again after this long.
    Wait(Duration),
}

impl Follower {
    /// Decides on the lease as it was read just before `now`.
    pub(super) fn step(&mut self, spec: &LeaseSpec, identity: &str, timings: &Timings, now: Instant) -> Step {
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        // An empty name is a lease given back. Our own is a write whose answer we missed.
        if holder.is_empty() || holder == identity {
            return Step::Take;
        }
        // The holder's own setting counts: it may run with other times than we do.
        let lasts = match spec.lease_duration_seconds.and_then(|it| u64::try_from(it).ok()) {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds),
            _ => timings.lease,
        };
        match &self.seen {
            Some((seen, since)) if seen == spec => {
                let left = lasts.saturating_sub(now.saturating_duration_since(*since));
                if left.is_zero() { Step::Take } else { Step::Wait(left.min(timings.retry)) }
            }
            _ => {
                self.seen = Some((spec.clone(), now));
                Step::Wait(lasts.min(timings.retry))
            }
        }
    }
}

/// What an attempt to get the lease came to.
#[derive(Debug)]
pub(super) enum Attempt {
    /// It is ours; the moment is from before the request was sent.
    Got(Box<Lease>, Instant),
    /// Somebody else has it.
    Wait(Duration),
}

/// Requests about one lease on behalf of one candidate.
#[derive(Clone)]
pub(super) struct Leases {
    api: Api<Lease>,
    name: String,
    identity: String,
    seconds: i32,
    timings: Timings,
    clock: Clock,
}

impl Leases {
    pub(super) fn new(
        client: Client,
        (namespace, name): (&str, &str),
        identity: &str,
        seconds: i32,
        timings: Timings,
        clock: Clock,
    ) -> Self {
        let api = Api::namespaced(client, namespace);
        Self { api, name: name.to_owned(), identity: identity.to_owned(), seconds, timings, clock }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// Tries once to get the lease.
    pub(super) async fn try_acquire(&self, follower: &mut Follower) -> Result<Attempt, Error> {
        let found = self.call("get lease", self.api.get_opt(&self.name)).await?;
        let wait = Attempt::Wait(self.timings.retry);
        let begun = self.clock.instant();
        let written = match found {
            None => {
                let lease = Lease {
                    metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
                    spec: Some(self.taken(&LeaseSpec::default())),
                };
                self.call("create lease", self.api.create(&PostParams::default(), &lease)).await
            }
            Some(mut lease) => {
                let spec = lease.spec.take().unwrap_or_default();
                if let Step::Wait(wait) = follower.step(&spec, &self.identity, &self.timings, begun) {
                    return Ok(Attempt::Wait(wait));
                }
                lease.spec = Some(self.taken(&spec));
                self.replace(&lease).await
            }
        };
        match written {
            Ok(lease) => Ok(Attempt::Got(Box::new(lease), begun)),
            // Somebody was faster.
            Err(error) if error.code() == Some(409) => Ok(wait),
            Err(error) => Err(error),
        }
    }

    /// Renews `lease` once; nothing if it is not ours any more.
    pub(super) async fn renew(&self, lease: &Lease) -> Result<Option<Lease>, Error> {
        let mut lease = lease.clone();
        lease.spec = Some(self.renewed(&lease.spec.unwrap_or_default()));
        match self.replace(&lease).await {
            Ok(renewed) => return Ok(Some(renewed)),
            // Deleted: anybody may create it anew and lead.
            Err(error) if error.code() == Some(404) => return Ok(None),
            // Changed: by an earlier renewal of ours whose answer we missed, or by another who leads now.
            Err(error) if error.code() == Some(409) => {}
            Err(error) => return Err(error),
        }
        let found = self.call("get lease", self.api.get_opt(&self.name)).await?;
        let Some(mut found) = found.filter(|it| self.is_ours(it)) else { return Ok(None) };
        found.spec = Some(self.renewed(&found.spec.unwrap_or_default()));
        match self.replace(&found).await {
            Ok(renewed) => Ok(Some(renewed)),
            Err(error) if error.code() == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Gives the lease back if it is ours. Best effort: it runs out by itself.
    pub(super) async fn release(&self) {
        let give_back = async {
            let found = self.call("get lease", self.api.get_opt(&self.name)).await?;
            if let Some(mut lease) = found.filter(|it| self.is_ours(it)) {
                let spec = lease.spec.get_or_insert_default();
                spec.holder_identity = Some(String::new());
                spec.renew_time = Some(MicroTime(self.clock.now()));
                self.replace(&lease).await?;
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = give_back.await {
            debug!(
                error = &error as &dyn std::error::Error,
                "the lease was not given back; it runs out by itself"
            );
        }
    }

    fn is_ours(&self, lease: &Lease) -> bool {
        lease.spec.as_ref().is_some_and(|it| it.holder_identity.as_deref() == Some(&self.identity))
    }

    /// A whole-object replace, so that the version check decides between two that write at once.
    async fn replace(&self, lease: &Lease) -> Result<Lease, Error> {
        self.call("replace lease", self.api.replace(&self.name, &PostParams::default(), lease)).await
    }

    /// One request may take a third of the time there is: a hanging connection leaves time for another try.
    async fn call<T>(
        &self,
        name: &'static str,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Error> {
        call_within(self.timings.retry.max(self.timings.renew / 3), name, request).await
    }

    fn taken(&self, old: &LeaseSpec) -> LeaseSpec {
        let now = self.clock.now();
        let changes_hands = old.holder_identity.as_deref() != Some(&self.identity);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            acquire_time: Some(MicroTime(now)),
            lease_transitions: Some(
                old.lease_transitions.map_or(0, |it| it.saturating_add(changes_hands.into())),
            ),
            ..self.renewed_at(old, now)
        }
    }

    fn renewed(&self, old: &LeaseSpec) -> LeaseSpec {
        self.renewed_at(old, self.clock.now())
    }

    fn renewed_at(&self, old: &LeaseSpec, now: Timestamp) -> LeaseSpec {
        LeaseSpec {
            renew_time: Some(MicroTime(now)),
            lease_duration_seconds: Some(self.seconds),
            ..old.clone()
        }
    }
}
