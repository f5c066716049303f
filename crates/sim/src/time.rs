//! Virtual time: tokio's paused clock, read as a calendar.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Where virtual calendars start unless a world says otherwise: 2030-01-01T00:00:00Z.
pub const EPOCH_SECONDS: i64 = 1_893_456_000;

/// What a machine's clock shows. Machines share the passing of time but each may have been set wrong.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    epoch: Timestamp,
    offset_millis: AtomicI64,
}

impl Clock {
    /// A clock that shows `epoch` now.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self { started: Instant::now(), epoch, offset_millis: AtomicI64::new(0) }
    }

    /// A clock that starts at [`EPOCH_SECONDS`].
    pub fn virtual_epoch() -> Self {
        let epoch = Timestamp::from_second(EPOCH_SECONDS).expect("a constant within jiff's range");
        Self::starting_at(epoch)
    }

    /// A second clock that shows the same now and can be set on its own.
    pub fn twin(&self) -> Self {
        let offset = self.offset_millis.load(Ordering::Relaxed);
        Self { started: self.started, epoch: self.epoch, offset_millis: AtomicI64::new(offset) }
    }

    /// What the clock shows.
    pub fn now(&self) -> Timestamp {
        let offset = SignedDuration::from_millis(self.offset_millis.load(Ordering::Relaxed));
        let shown = self.epoch.checked_add(self.elapsed()).unwrap_or(Timestamp::MAX);
        shown.checked_add(offset).unwrap_or(shown)
    }

    /// Time since the world began, which no jump changes.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Sets the clock forward (or back, when negative) without time passing.
    pub fn jump(&self, by: SignedDuration) {
        self.offset_millis.fetch_add(by.as_millis() as i64, Ordering::Relaxed);
    }

    pub(crate) fn instant(&self, at: Duration) -> Instant {
        after(self.started, at)
    }
}

/// A moment to come. What is too far away to be counted is as far away as anybody will ever wait.
pub(crate) fn after(now: Instant, delay: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(100 * 366 * 86_400);
    now + delay.min(FAR)
}

/// A time as Kubernetes writes it in `metav1.Time`: whole seconds, UTC.
pub fn seconds(time: Timestamp) -> String {
    let whole = Timestamp::from_second(time.as_second()).unwrap_or(time);
    whole.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_jump_moves_the_calendar_and_not_the_passing_of_time() {
        let clock = Clock::virtual_epoch();
        tokio::time::advance(Duration::from_millis(1_500)).await;
        assert_eq!(seconds(clock.now()), "2030-01-01T00:00:01Z");

        let twin = clock.twin();
        clock.jump(SignedDuration::from_hours(-1));
        assert_eq!(seconds(clock.now()), "2029-12-31T23:00:01Z");
        assert_eq!(seconds(twin.now()), "2030-01-01T00:00:01Z");
        assert_eq!(clock.elapsed(), Duration::from_millis(1_500));
    }
}
