//! The only place that reads a clock or draws chance. Everything else is handed a [`Clock`] or a [`Seed`].

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::time::Instant;

/// Nobody waits longer than this: thirty years.
const FAR: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Where the time comes from.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone, Copy)]
enum Source {
    System,
    /// Moves with tokio's clock, so that a paused runtime decides what time it is.
    Following {
        start: Timestamp,
        origin: Instant,
    },
}

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that shows `start` now and moves with tokio's: in tests on a paused runtime, simulated time.
    pub fn following(start: Timestamp) -> Self {
        Self(Source::Following { start, origin: instant() })
    }

    /// The wall-clock time.
    #[expect(clippy::disallowed_methods, reason = "this is the place that may")]
    pub fn now(&self) -> Timestamp {
        match self.0 {
            Source::System => Timestamp::now(),
            Source::Following { start, origin } => {
                let passed = instant().saturating_duration_since(origin);
                start.checked_add(passed).unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// The time for measuring waits; it never goes back.
    pub fn instant(&self) -> Instant {
        instant()
    }

    /// How long ago `earlier` was.
    pub fn since(&self, earlier: Instant) -> Duration {
        instant().saturating_duration_since(earlier)
    }
}

/// `from + delay`, or a moment too far away to matter where that cannot be told: `+` panics there, and delays come from
/// servers and users.
pub fn later(from: Instant, delay: Duration) -> Instant {
    from.checked_add(delay.min(FAR)).unwrap_or(from)
}

/// A moment as Kubernetes writes it down: without fractions of a second.
pub fn whole_seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

fn instant() -> Instant {
    Instant::now()
}

/// A stream of numbers that look random. The same seed gives the same numbers in the same order.
///
/// For name suffixes and spreading load, not for secrets. Clones draw from the same stream.
#[derive(Debug, Clone)]
pub struct Seed(Arc<AtomicU64>);

impl Seed {
    /// A stream that can be replayed.
    pub fn from_number(seed: u64) -> Self {
        Self(Arc::new(AtomicU64::new(seed)))
    }

    /// A stream nobody can foretell, from the operating system's randomness.
    pub fn from_system() -> Self {
        // The standard library seeds its hasher from the operating system.
        Self::from_number(RandomState::new().hash_one(0_u8))
    }

    /// The next number: what a plan takes as its seed.
    pub fn draw(&self) -> u64 {
        // SplitMix64: each step adds the golden ratio, the output is a mix of the sum.
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let state = self.0.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^ (state >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_following_clock_moves_only_with_the_runtime() {
        let start: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        let clock = Clock::following(start);
        let before = clock.instant();
        assert_eq!(clock.now(), start);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(clock.now().to_string(), "2026-01-02T04:04:05Z");
        assert_eq!(clock.since(before), Duration::from_secs(3600));
    }

    #[test]
    fn what_is_written_down_has_whole_seconds() {
        let now: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        let written = serde_json::to_value(whole_seconds(now)).unwrap();
        assert_eq!(written, "2026-01-02T03:04:05Z");
    }

    #[test]
    fn a_moment_that_cannot_be_told_is_far_away_and_no_panic() {
        let now = Clock::system().instant();
        assert_eq!(later(now, Duration::from_secs(5)), now + Duration::from_secs(5));
        assert_eq!(later(now, Duration::MAX), now + FAR);
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_clones_share_the_stream() {
        let (a, b) = (Seed::from_number(7), Seed::from_number(7));
        let shared = b.clone();
        let first: Vec<_> = (0..4).map(|_| a.draw()).collect();
        let second = [b.draw(), shared.draw(), b.draw(), shared.draw()];
        assert_eq!(first, second);
        // The published first output of SplitMix64 for the seed 0.
        assert_eq!(Seed::from_number(0).draw(), 0xe220_a839_7b1d_cdaf);
    }
}
