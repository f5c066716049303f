//! Backing off as a group: when the API server says "too many requests", everybody who writes to it waits.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::clock::later;
use crate::backoff::Doubling;

/// The longest wait that a server is granted. It hands out seconds; more is a mistake, which must not stop all writers
/// for good.
const LONGEST_WISH: Duration = Duration::from_secs(5 * 60);

/// How long all writers to one API server have to wait. Clones share the wait.
#[derive(Debug, Clone)]
pub struct Throttle {
    policy: Doubling,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    refusals: u32,
    wait_until: Option<Instant>,
}

impl Throttle {
    /// Nobody waits; `policy` says how long a refusal costs when the server does not.
    pub fn new(policy: Doubling) -> Self {
        Self { policy, state: Arc::default() }
    }

    /// Notes a refusal at `now`. The server's own wish counts where it asks for more than we would wait, within reason.
    pub fn refused(&self, retry_after: Option<Duration>, now: Instant) {
        let mut state = self.lock();
        // Requests that were under way together are refused together: that is one refusal, not ten.
        if state.wait_until.is_none_or(|it| now >= it) {
            state.refusals = state.refusals.saturating_add(1);
        }
        let wish = retry_after.unwrap_or_default().min(LONGEST_WISH);
        let wait = self.policy.delay(state.refusals).max(wish);
        state.wait_until = state.wait_until.max(Some(later(now, wait)));
    }

    /// Notes that the server took a write again at `now`.
    pub fn accepted(&self, now: Instant) {
        let mut state = self.lock();
        if state.wait_until.is_none_or(|it| now >= it) {
            *state = State::default();
        }
    }

    /// How long to wait from `now` on, if at all.
    pub fn wait(&self, now: Instant) -> Option<Duration> {
        let wait = self.lock().wait_until?.saturating_duration_since(now);
        (wait > Duration::ZERO).then_some(wait)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Two plain numbers are never half-written, even if a holder panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Throttle {
    fn default() -> Self {
        Self::new(Doubling { first: Duration::from_secs(1), ceiling: Duration::from_secs(60) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock::Clock;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn refusals_in_one_wait_count_once_and_the_wait_doubles_after_it() {
        let (throttle, start) = (Throttle::default(), Clock::system().instant());
        assert_eq!(throttle.wait(start), None);
        throttle.refused(None, start);
        throttle.refused(None, start);
        assert_eq!(throttle.wait(start), Some(secs(1)));
        assert_eq!(throttle.wait(start + secs(1)), None);
        throttle.refused(None, start + secs(1));
        assert_eq!(throttle.wait(start + secs(1)), Some(secs(2)));
        throttle.accepted(start + secs(2));
        assert_eq!(throttle.wait(start + secs(2)), Some(secs(1)), "a straggler's success ends no wait");
        throttle.accepted(start + secs(3));
        throttle.refused(None, start + secs(9));
        assert_eq!(throttle.wait(start + secs(9)), Some(secs(1)), "a success starts over");
    }

    #[test]
    fn the_servers_wish_is_honoured_and_never_shortened() {
        let (throttle, start) = (Throttle::default(), Clock::system().instant());
        throttle.refused(Some(secs(30)), start);
        throttle.clone().refused(Some(secs(5)), start + secs(1));
        assert_eq!(throttle.wait(start + secs(1)), Some(secs(29)));
    }

    #[test]
    fn a_wish_beyond_reason_is_cut() {
        for wish in [secs(3600), secs(u64::MAX), Duration::MAX] {
            let (throttle, start) = (Throttle::default(), Clock::system().instant());
            throttle.refused(Some(wish), start);
            assert_eq!(throttle.wait(start), Some(LONGEST_WISH));
        }
    }
}
