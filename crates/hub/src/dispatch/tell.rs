//! Telling people: events about an object, each as often as somebody wants to read it.

use std::time::Duration;

use kruise_core::runtime::{
    cache::Cached,
    events::{Severity, about},
    key::Key,
};
use kube::Resource;
use tokio::time::Instant;

use super::{
    Dispatcher,
    observe::Seen,
    raw::Raw,
    status::{self, Note},
};

/// How often people are told of what happens again and again (DR-1).
const TELL_EVERY: Duration = Duration::from_secs(60);

/// What is told of something that happens again and again.
#[derive(Debug, Clone, Default)]
pub(super) struct Rarely {
    /// What was told last, and when.
    told: Option<(Instant, String)>,
    /// What waits to be told.
    waiting: Option<Note>,
}

impl Rarely {
    /// What to tell now, or how long what there is has to wait. The newest word stands for those before it.
    fn take(&mut self, new: Option<&Note>, now: Instant) -> (Option<Note>, Option<Duration>) {
        let is_told = |it: &&Note| self.told.as_ref().is_some_and(|told| told.1 == it.message);
        if let Some(new) = new.filter(|it| !is_told(it)) {
            self.waiting = Some(new.clone());
        }
        let since = self.told.as_ref().map_or(TELL_EVERY, |it| now.saturating_duration_since(it.0));
        let rest = TELL_EVERY.saturating_sub(since);
        if !rest.is_zero() {
            return (None, self.waiting.as_ref().map(|_| rest));
        }
        let due = self.waiting.take();
        if let Some(note) = &due {
            self.told = Some((now, note.message.clone()));
        }
        (due, None)
    }
}

impl<K> Dispatcher<K>
where
    K: Resource<DynamicType = ()> + 'static,
    Raw<K>: Cached,
{
    /// Tells people, unless it is what they were told last. Says whether it was news.
    pub(super) fn tell_once(
        &self,
        key: &Key,
        seen: &Seen<K>,
        severity: Severity,
        reason: &'static str,
        message: &str,
    ) -> bool {
        let told = format!("{reason}: {message}");
        let mut memory = self.memory();
        let known = &mut memory.entry(key.clone()).or_default().told;
        if known.contains(&told) {
            return false;
        }
        // The last few: what was told an hour ago may be told again.
        known.push(told);
        if known.len() > 16 {
            known.remove(0);
        }
        drop(memory);
        self.record(seen, severity, reason, message);
        true
    }

    /// Tells people of what happens again and again, at most once a minute. Says how long that has to wait, if it has to.
    pub(super) fn tell_rarely(&self, key: &Key, seen: &Seen<K>, new: Option<&Note>) -> Option<Duration> {
        let now = self.shared.clock.instant();
        let (due, later) = self.memory().entry(key.clone()).or_default().rarely.take(new, now);
        if let Some(Note { severity, reason, message, .. }) = due {
            self.record(seen, severity, reason, &message);
        }
        later
    }

    /// Tells people where they look for it: on the object, and some of it on its binding too (section 20).
    pub(super) fn record(&self, seen: &Seen<K>, severity: Severity, reason: &'static str, message: &str) {
        let events = &self.shared.events;
        events.record(about(&*seen.object), severity, reason, message);
        if !status::is_told_twice(severity) {
            return;
        }
        // Asked for anew: it may have been made in this round.
        if let Ok(Some(stored)) = self.binding(&seen.reference)
            && let Ok(binding) = &stored.0
        {
            events.record(about(binding), severity, reason, message);
        }
    }
}

#[cfg(test)]
mod tests {
    use kruise_core::{api::fleet::keys, runtime::clock::Clock};

    use super::*;
    use crate::dispatch::status::Told;

    #[test]
    fn dr_1_what_happens_again_and_again_is_told_once_a_minute_and_nothing_is_lost() {
        let start = Clock::system().instant();
        let at = |seconds| start + Duration::from_secs(seconds);
        let note = |message: &str| Note {
            told: Told::Rarely,
            severity: Severity::Normal,
            reason: keys::events::DRIFT_CORRECTED,
            message: message.to_owned(),
        };
        let mut rarely = Rarely::default();
        let (one, two, three) = (note("1"), note("2"), note("3"));
        assert_eq!(rarely.take(None, at(0)), (None, None));
        assert_eq!(rarely.take(Some(&one), at(0)), (Some(one.clone()), None));
        // Found again before it is stored.
        assert_eq!(rarely.take(Some(&one), at(1)), (None, None));
        assert_eq!(rarely.take(Some(&two), at(10)), (None, Some(Duration::from_secs(50))));
        assert_eq!(rarely.take(Some(&three), at(20)), (None, Some(Duration::from_secs(40))));
        assert_eq!(rarely.take(None, at(60)), (Some(three), None));
        assert_eq!(rarely.take(None, at(120)), (None, None));
    }
}
