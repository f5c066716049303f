//! The results that are to be reported. Time is an argument.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};

use super::plan::ProbeKey;
use crate::api::node_pod_probe::ProbeState;

/// A result that does not change is recorded again after this long, so that others see that it is probed at all.
const AGAIN_AFTER: SignedDuration = SignedDuration::from_secs(600);

/// One result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// What was probed.
    pub of: Arc<ProbeKey>,
    /// How it stands.
    pub state: ProbeState,
    /// What the probe said.
    pub message: String,
    /// When it was recorded.
    pub at: Timestamp,
}

/// The newest result of each probe, by the runtime's id of the container and the probe's name: two probes of one
/// container have a result each, and a container that was replaced leaves none behind.
#[derive(Debug, Default)]
pub struct Results(BTreeMap<(String, String), Outcome>);

impl Results {
    /// Takes a result in, and says whether it is worth a report.
    pub fn record(
        &mut self,
        container: &str,
        of: &Arc<ProbeKey>,
        new: (ProbeState, &str),
        now: Timestamp,
    ) -> bool {
        let (state, message) = new;
        let key = (container.to_owned(), of.probe.clone());
        let is_old_news = |it: &Outcome| {
            it.state == state && it.message == message && now.duration_since(it.at) < AGAIN_AFTER
        };
        if self.0.get(&key).is_some_and(is_old_news) {
            return false;
        }
        let outcome = Outcome { of: of.clone(), state, message: message.to_owned(), at: now };
        self.0.insert(key, outcome);
        true
    }

    /// Forgets what is known of a probe, whatever container it was about.
    pub fn forget(&mut self, of: &ProbeKey) {
        self.0.retain(|_, it| *it.of != *of);
    }

    /// Everything that is known, always in the same order.
    pub fn all(&self) -> Vec<Outcome> {
        self.0.values().cloned().collect()
    }

    /// How many results there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use ProbeState::{Failed, Succeeded};

    use super::*;

    fn key(probe: &str) -> Arc<ProbeKey> {
        Arc::new(ProbeKey {
            namespace: "shop".into(),
            pod: "web".into(),
            uid: "u".into(),
            ip: "10.0.0.1".into(),
            container: "main".into(),
            probe: probe.into(),
        })
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_result_is_recorded_when_it_is_new_when_it_changes_and_after_ten_minutes() {
        let (mut results, of) = (Results::default(), key("m#a"));
        let steps = [
            (0, Succeeded, "ok", true),
            (10, Succeeded, "ok", false),
            (20, Failed, "ok", true),
            (30, Failed, "no", true),
            (40, Failed, "no", false),
            // 599 and 600 seconds after it was recorded.
            (629, Failed, "no", false),
            (630, Failed, "no", true),
            (640, Failed, "no", false),
        ];
        for (now, state, message, is_recorded) in steps {
            assert_eq!(results.record("c1", &of, (state, message), at(now)), is_recorded, "after {now} s");
        }
        assert_eq!(results.all()[0].at, at(630));
    }

    #[test]
    fn two_probes_of_one_container_do_not_overwrite_each_other() {
        let (mut results, a, b) = (Results::default(), key("m#a"), key("m#b"));
        assert!(results.record("c1", &a, (Succeeded, "a"), at(0)));
        assert!(results.record("c1", &b, (Failed, "b"), at(0)));
        assert!(!results.record("c1", &a, (Succeeded, "a"), at(1)));
        let states: Vec<_> = results.all().into_iter().map(|it| (it.of.probe.clone(), it.state)).collect();
        assert_eq!(states, [("m#a".to_owned(), Succeeded), ("m#b".to_owned(), Failed)]);
    }

    #[test]
    fn a_probe_that_is_forgotten_leaves_nothing_behind() {
        let mut results = Results::default();
        for number in 0..1_000 {
            results.record(&format!("c{number}"), &key(&format!("m#{number}")), (Succeeded, ""), at(0));
        }
        results.record("again", &key("m#7"), (Succeeded, ""), at(0));
        results.forget(&key("m#7"));
        assert_eq!(results.len(), 999);
        (0..1_000).for_each(|it| results.forget(&key(&format!("m#{it}"))));
        assert!(results.is_empty());
    }
}
