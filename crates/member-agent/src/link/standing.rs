//! What the hub thinks of us, by how it answers: while it refuses us, nothing is applied or deleted here (JOIN-5).

use std::sync::Arc;

use kruise_core::runtime::client::Error;
use tokio::sync::watch;

/// What the hub thinks of us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Standing {
    /// It has not said anything yet.
    #[default]
    Unknown,
    /// We are a member.
    Accepted,
    /// It knows us, and has taken our rights away.
    Revoked,
    /// It does not know us: our credential has expired.
    Unrecognized,
    /// The same, and the last that it said was that our rights are gone.
    Outcast,
}

impl Standing {
    /// What it is after an answer about something of our own. A hub that is away changes nothing (PROTO-6).
    pub fn after(self, answer: Result<(), Option<u16>>) -> Self {
        match answer {
            Ok(()) => Self::Accepted,
            Err(Some(403)) => Self::Revoked,
            Err(Some(401)) if self.lets_act() => Self::Unrecognized,
            Err(Some(401)) => Self::Outcast,
            Err(_) => self,
        }
    }

    /// Whether plans are carried out. Those of a hub that does not know us any more are what was planned last.
    pub fn lets_act(self) -> bool {
        !matches!(self, Self::Revoked | Self::Outcast)
    }

    /// Whether the hub does not know us any more.
    pub fn is_forgotten(self) -> bool {
        matches!(self, Self::Unrecognized | Self::Outcast)
    }
}

/// The same for everybody who asks the hub.
#[derive(Debug, Clone, Default)]
pub struct Standings(Arc<watch::Sender<Standing>>);

impl Standings {
    /// What the hub thinks of us now.
    pub fn get(&self) -> Standing {
        *self.0.borrow()
    }

    /// Takes an answer about something of our own; says what it was before, if it is another now.
    pub fn hear<T>(&self, answer: &Result<T, Error>) -> Option<Standing> {
        let before = self.get();
        self.set(before.after(answer.as_ref().map(drop).map_err(Error::code)))
    }

    /// Sets it; says what it was before, if it is another now.
    pub fn set(&self, now: Standing) -> Option<Standing> {
        let mut before = None;
        // Whoever waits for changes is woken by changes only: answers come all the time.
        self.0.send_if_modified(|it| {
            before = (*it != now).then_some(*it);
            *it = now;
            before.is_some()
        });
        before
    }

    /// Hears of changes.
    pub fn subscribe(&self) -> watch::Receiver<Standing> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn join_5_who_is_refused_is_revoked_until_it_is_accepted_again() {
        let revoked = Standing::Accepted.after(Err(Some(403)));
        assert_eq!(revoked, Standing::Revoked);
        assert!(!revoked.lets_act());
        // A hub that is away, or ill, takes nothing back.
        for unheard in [None, Some(429), Some(500), Some(404)] {
            assert_eq!(revoked.after(Err(unheard)), Standing::Revoked);
        }
        assert_eq!(revoked.after(Ok(())), Standing::Accepted);
        // Nor does a certificate that ends meanwhile.
        let outcast = revoked.after(Err(Some(401)));
        assert!(outcast == Standing::Outcast && !outcast.lets_act() && outcast.is_forgotten());
        assert_eq!(outcast.after(Err(Some(401))), Standing::Outcast);
        assert_eq!(outcast.after(Ok(())), Standing::Accepted);
    }

    #[test]
    fn proto_6_a_hub_that_is_away_or_does_not_know_us_stops_nothing() {
        assert_eq!(Standing::Accepted.after(Err(None)), Standing::Accepted);
        let expired = Standing::Accepted.after(Err(Some(401)));
        assert!(expired == Standing::Unrecognized && expired.lets_act());
    }

    #[test]
    fn only_changes_are_told() {
        let standings = Standings::default();
        let mut listener = standings.subscribe();
        assert_eq!(standings.set(Standing::Revoked), Some(Standing::Unknown));
        assert!(listener.has_changed().unwrap());
        listener.mark_unchanged();
        assert_eq!(standings.set(Standing::Revoked), None);
        assert!(!listener.has_changed().unwrap(), "the same again is no news");
        assert_eq!(standings.get(), Standing::Revoked);
    }
}
