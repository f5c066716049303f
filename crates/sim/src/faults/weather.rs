//! How bad a link is.

use std::time::Duration;

use crate::{
    seed::{Chance, Seed},
    server::request::ApiRequest,
};

/// Chances for each request and each watch, and how long things take.
#[derive(Debug, Clone, PartialEq)]
pub struct Weather {
    /// Shortest and longest way in one direction.
    pub latency: (Duration, Duration),
    /// A request never arrives, and the client sees its connection break.
    pub lose_request: Chance,
    /// A request is carried out, and the client sees its connection break.
    pub lose_answer: Chance,
    /// A request never arrives, and the client hears nothing at all.
    pub silence: Chance,
    /// A request arrives twice (as a proxy's retry would make it).
    pub duplicate: Chance,
    /// A write is refused with 409 without cause.
    pub conflict: Chance,
    /// 429 with `Retry-After`.
    pub throttle: Chance,
    /// 500 before anything happened.
    pub fail: Chance,
    /// 504 after the request was carried out.
    pub fail_after: Chance,
    /// A read that may be old (`resourceVersion=0`) is old, by up to this much.
    pub stale: (Chance, Duration),
    /// A watch breaks when it has something to say.
    pub break_watch: Chance,
    /// A watch is late by up to this much when it has something to say.
    pub late_watch: (Chance, Duration),
    /// Beyond what Kubernetes does: neighbouring events of different objects are swapped, or an event is repeated.
    pub disorder: Chance,
}

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is carried out and answered.
    Pass,
    /// It never arrives; the connection breaks.
    LoseRequest,
    /// It is carried out; the connection breaks.
    LoseAnswer,
    /// It never arrives; nothing is heard.
    Silence,
    /// It is carried out; nothing is heard.
    SilenceAfter,
    /// It arrives twice; the second answer counts.
    Duplicate,
    /// It is answered with this code and nothing happens.
    Refuse(u16),
    /// It is carried out and answered with this code.
    RefuseAfter(u16),
    /// A read is answered from this far in the past.
    Stale(Duration),
}

impl Weather {
    /// Nothing goes wrong; a way takes 1 to 3 ms.
    pub fn calm() -> Self {
        Self {
            latency: (Duration::from_millis(1), Duration::from_millis(3)),
            lose_request: Chance::NEVER,
            lose_answer: Chance::NEVER,
            silence: Chance::NEVER,
            duplicate: Chance::NEVER,
            conflict: Chance::NEVER,
            throttle: Chance::NEVER,
            fail: Chance::NEVER,
            fail_after: Chance::NEVER,
            stale: (Chance::NEVER, Duration::ZERO),
            break_watch: Chance::NEVER,
            late_watch: (Chance::NEVER, Duration::ZERO),
            disorder: Chance::NEVER,
        }
    }

    /// A bad day: one request in eight fails somehow, watches are late and break. Nothing is silent for ever.
    pub fn rough() -> Self {
        Self {
            latency: (Duration::from_millis(1), Duration::from_millis(250)),
            lose_request: Chance::percent(2),
            lose_answer: Chance::percent(2),
            conflict: Chance::percent(2),
            throttle: Chance::percent(2),
            fail: Chance::percent(2),
            fail_after: Chance::percent(2),
            duplicate: Chance::percent(1),
            stale: (Chance::percent(30), Duration::from_secs(20)),
            break_watch: Chance::percent(2),
            late_watch: (Chance::percent(10), Duration::from_secs(30)),
            ..Self::calm()
        }
    }

    /// What becomes of a request, drawn from `seed`.
    pub fn fate(&self, request: &ApiRequest, seed: Seed) -> Fate {
        let write = request.is_write();
        let rows = [
            (self.lose_request, Fate::LoseRequest),
            (self.lose_answer, Fate::LoseAnswer),
            (self.silence, Fate::Silence),
            (self.throttle, Fate::Refuse(429)),
            (self.fail, Fate::Refuse(500)),
            (if write { self.conflict } else { Chance::NEVER }, Fate::Refuse(409)),
            (self.fail_after, Fate::RefuseAfter(504)),
            (if write { self.duplicate } else { Chance::NEVER }, Fate::Duplicate),
        ];
        for (index, (chance, fate)) in rows.into_iter().enumerate() {
            if seed.of("fate").at(index as u64).happens(chance) {
                return fate;
            }
        }
        let may_be_old = !write && request.query.resource_version.as_deref() == Some("0");
        if may_be_old && seed.of("stale").happens(self.stale.0) {
            return Fate::Stale(seed.of("stale-by").between(Duration::ZERO, self.stale.1));
        }
        Fate::Pass
    }
}
