//! What a person sees while something takes longer than a few seconds.

use std::{
    fmt::Display,
    time::{Duration, Instant},
};

/// A task whose steps are printed with the time they took.
#[derive(Debug)]
pub struct Progress {
    started: Instant,
    last: Instant,
}

impl Progress {
    /// Starts the clock.
    pub fn start() -> Self {
        let now = now();
        Self { started: now, last: now }
    }

    /// Says what is done now.
    pub fn say(&mut self, what: impl Display) {
        eprintln!("{:>7} {what}", seconds(self.started.elapsed()));
        self.last = now();
    }

    /// Says `what`, but not more often than every `pause`; for counters.
    pub fn tick(&mut self, pause: Duration, what: impl FnOnce() -> String) {
        if self.last.elapsed() >= pause {
            self.say(what());
        }
    }

    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

#[expect(clippy::disallowed_methods, reason = "a person waits in real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

fn seconds(it: Duration) -> String {
    format!("{:.1}s", it.as_secs_f64())
}
