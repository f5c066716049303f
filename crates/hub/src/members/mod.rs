//! Which clusters are in the fleet, and what can each be used for now?
//!
//! [`tokens`] are what a stranger shows, [`key`] is what a cluster is known by, [`joining`] decides who may become a member
//! and [`access`] what that one may do on the hub, [`account`] as whom if not by a certificate; [`answer`] carries that out. [`heartbeat`] judges one cluster by its Lease, [`guard`] doubts the hub itself when many vanish at once, and [`loss`] says for one object
//! whether a silent cluster is given up. [`roster`] keeps all of that up to date. [`departure`] sees clusters off that leave the fleet.

pub mod access;
pub mod account;
pub mod answer;
pub mod departure;
pub mod guard;
pub mod heartbeat;
pub mod joining;
pub mod key;
pub mod loss;
pub mod roster;
pub mod tokens;

use std::time::Duration;

/// A moment on the hub's own monotonic clock: the time since the process started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(pub Duration);

impl Moment {
    /// So many seconds after the start.
    pub const fn seconds(seconds: u64) -> Self {
        Self(Duration::from_secs(seconds))
    }

    /// How long ago `earlier` was; nothing if it was not yet.
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// This much later.
    #[must_use]
    pub fn plus(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

/// How often an agent renews its Lease, before jitter (STATE-1).
pub const RENEW_EVERY: Duration = Duration::from_secs(10);
/// How much earlier or later than that it may, in percent.
pub const RENEW_JITTER_PERCENT: u32 = 25;
/// Without a change of its Lease for so long a cluster is Offline.
pub const OFFLINE_AFTER: Duration = Duration::from_secs(40);
/// How long after its start the hub gives no cluster up (HA-2).
pub const NO_LOSS_AFTER_START: Duration = Duration::from_secs(60);
