//! Section 25, item 15: nobody is told that more pods are ready than there are.
//!
//! What is told is old by the way it took. So the sum may be what was true of each member at some time of the last minutes, and a
//! member that the hub itself calls Offline is not in it for long.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};

use super::sight::Sight;

/// How old what is told may be: a hub that died, one that took over and waited for its members, and bad weather.
const WINDOW: Duration = Duration::from_secs(300);
/// For how long a member that is Offline may still be counted, for the same reasons.
const GRACE: Duration = Duration::from_secs(100);

#[derive(Debug, Default)]
pub(super) struct Honest {
    members: BTreeMap<&'static str, Lately>,
}

#[derive(Debug, Default)]
struct Lately {
    /// How many pods were ready, and since when.
    ready: VecDeque<(Timestamp, usize)>,
    offline_since: Option<Timestamp>,
}

impl Honest {
    pub(super) fn check(&mut self, sight: &Sight, now: Timestamp) -> Result<(), String> {
        let ago = |it: Duration| now - SignedDuration::try_from(it).unwrap_or_default();
        for (&name, member) in &sight.members {
            let lately = self.members.entry(name).or_default();
            let ready = member.pods.iter().filter(|it| it.is_ready).count();
            if lately.ready.back().is_none_or(|it| it.1 != ready) {
                lately.ready.push_back((now, ready));
            }
            // The first stands for what was true at the beginning of the window.
            while lately.ready.get(1).is_some_and(|it| it.0 <= ago(WINDOW)) {
                lately.ready.pop_front();
            }
            let is_offline = sight.states.get(name).is_some_and(|it| it == "Offline");
            lately.offline_since = is_offline.then(|| lately.offline_since.unwrap_or(now));
        }
        let counted = self.members.values().filter(|it| it.offline_since.is_none_or(|it| it > ago(GRACE)));
        let most: usize = counted.map(|it| it.ready.iter().map(|it| it.1).max().unwrap_or(0)).sum();
        let told = sight.web.ready;
        if told > most {
            return Err(format!("{told} pods are said to be ready, and {most} were: {:?}", self.members));
        }
        Ok(())
    }
}
