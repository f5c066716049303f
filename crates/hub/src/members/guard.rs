//! When many clusters vanish at once, the hub doubts itself first (STATE-3).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use scheduling::names::ClusterName;

use super::{Moment, heartbeat::Contact};

/// Clusters that were Ready within this time count.
pub const RECENTLY: Duration = Duration::from_secs(600);
/// For so long the count must be below the limit before the hub trusts itself again.
pub const CALM_FOR: Duration = Duration::from_secs(60);
/// The part of those clusters that may be Offline, in percent.
const TOLERATED_PERCENT: usize = 30;

/// Whether the hub trusts what it sees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Guard {
    /// When each cluster was last seen Ready.
    ready: BTreeMap<ClusterName, Moment>,
    suspicion: Option<Suspicion>,
}

/// Why the hub doubts itself.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Suspicion {
    /// The clusters that counted. They go on counting: time alone must not turn a mass loss into many losses.
    counted: BTreeSet<ClusterName>,
    /// Since when fewer are Offline than the limit allows.
    calm_since: Option<Moment>,
}

/// What the guard found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// Whether the hub doubts itself: no cluster is given up, nothing fails over.
    pub is_suspect: bool,
    /// Whether that has just changed.
    pub has_changed: bool,
    /// Clusters that count.
    pub counted: usize,
    /// How many of them are Offline.
    pub offline: usize,
    /// How many may be.
    pub limit: usize,
}

/// Whether an operator has told the hub to trust itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Override {
    /// No.
    #[default]
    None,
    /// Yes: what is Offline is to be taken for lost.
    TrustYourself,
}

impl Guard {
    /// A guard after a restart of the hub: what was Ready or Offline before may have been Ready just now.
    pub fn restored(members: impl IntoIterator<Item = ClusterName>, now: Moment) -> Self {
        Self { ready: members.into_iter().map(|it| (it, now)).collect(), suspicion: None }
    }

    /// Looks at all clusters once more. Clusters that are not named any more are forgotten.
    pub fn observe(
        &mut self,
        contacts: &BTreeMap<ClusterName, Contact>,
        order: Override,
        now: Moment,
    ) -> Finding {
        self.ready.retain(|it, _| contacts.contains_key(it));
        for (cluster, contact) in contacts {
            if *contact == Contact::Ready {
                self.ready.insert(cluster.clone(), now);
            }
        }
        let was_suspect = self.suspicion.is_some();
        let counted = self.counted(now);
        let is_offline = |it: &&ClusterName| matches!(contacts.get(*it), Some(Contact::Offline(_)));
        let offline = counted.iter().filter(is_offline).count();
        let limit = limit(counted.len());
        let finding = Finding {
            is_suspect: self.judge(offline > limit, &counted, order, now),
            has_changed: false,
            counted: counted.len(),
            offline,
            limit,
        };
        Finding { has_changed: finding.is_suspect != was_suspect, ..finding }
    }

    fn counted(&self, now: Moment) -> BTreeSet<ClusterName> {
        let recent = self.ready.iter().filter(|(_, it)| now.since(**it) < RECENTLY);
        let mut counted: BTreeSet<_> = recent.map(|(name, _)| name.clone()).collect();
        if let Some(suspicion) = &self.suspicion {
            counted.extend(suspicion.counted.iter().filter(|it| self.ready.contains_key(*it)).cloned());
        }
        counted
    }

    fn judge(
        &mut self,
        too_many: bool,
        counted: &BTreeSet<ClusterName>,
        order: Override,
        now: Moment,
    ) -> bool {
        if order == Override::TrustYourself {
            self.suspicion = None;
            return false;
        }
        match &mut self.suspicion {
            None if too_many => {
                self.suspicion = Some(Suspicion { counted: counted.clone(), calm_since: None });
            }
            None => {}
            Some(suspicion) if too_many => suspicion.calm_since = None,
            Some(suspicion) => {
                let since = *suspicion.calm_since.get_or_insert(now);
                if now.since(since) >= CALM_FOR {
                    self.suspicion = None;
                }
            }
        }
        self.suspicion.is_some()
    }
}

/// How many of so many clusters may be Offline: 30%, and one in any case.
pub fn limit(clusters: usize) -> usize {
    (clusters * TOLERATED_PERCENT / 100).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fleet(ready: usize, offline: usize, since: u64) -> BTreeMap<ClusterName, Contact> {
        let name = |it: usize| ClusterName::from(format!("c{it:03}"));
        let ready_ones = (offline..offline + ready).map(|it| (name(it), Contact::Ready));
        let away = (0..offline).map(|it| (name(it), Contact::Offline(Moment::seconds(since))));
        ready_ones.chain(away).collect()
    }

    fn at(guard: &mut Guard, contacts: &BTreeMap<ClusterName, Contact>, second: u64) -> Finding {
        guard.observe(contacts, Override::None, Moment::seconds(second))
    }

    #[test]
    fn state_3_more_than_a_third_or_so_of_the_fleet_away_makes_the_hub_doubt_itself() {
        let mut guard = Guard::default();
        assert!(!at(&mut guard, &fleet(10, 0, 0), 0).is_suspect);
        assert!(!at(&mut guard, &fleet(7, 3, 60), 60).is_suspect);
        let found = at(&mut guard, &fleet(6, 4, 61), 61);
        assert_eq!(found, Finding { is_suspect: true, has_changed: true, counted: 10, offline: 4, limit: 3 });
        assert!(!at(&mut guard, &fleet(6, 4, 61), 62).has_changed);
    }

    #[test]
    fn state_3_one_cluster_of_a_small_fleet_may_go_and_two_may_not() {
        let mut guard = Guard::default();
        at(&mut guard, &fleet(2, 0, 0), 0);
        assert!(!at(&mut guard, &fleet(1, 1, 50), 50).is_suspect);
        assert!(at(&mut guard, &fleet(0, 2, 51), 51).is_suspect);
    }

    #[test]
    fn state_3_the_doubt_ends_after_a_minute_below_the_limit_and_not_by_waiting() {
        let mut guard = Guard::default();
        at(&mut guard, &fleet(10, 0, 0), 0);
        assert!(at(&mut guard, &fleet(5, 5, 50), 50).is_suspect);
        // Ten minutes later those five are no longer recent, and still count.
        assert!(at(&mut guard, &fleet(5, 5, 50), 5_000).is_suspect);
        assert!(at(&mut guard, &fleet(8, 2, 50), 5_010).is_suspect);
        // A relapse starts the minute again.
        assert!(at(&mut guard, &fleet(5, 5, 50), 5_050).is_suspect);
        assert!(at(&mut guard, &fleet(8, 2, 50), 5_060).is_suspect);
        assert!(at(&mut guard, &fleet(8, 2, 50), 5_119).is_suspect);
        let found = at(&mut guard, &fleet(8, 2, 50), 5_120);
        assert!(!found.is_suspect && found.has_changed);
    }

    #[test]
    fn state_3_an_operator_may_overrule_the_doubt() {
        let mut guard = Guard::default();
        at(&mut guard, &fleet(10, 0, 0), 0);
        assert!(at(&mut guard, &fleet(5, 5, 50), 50).is_suspect);
        let found = guard.observe(&fleet(5, 5, 50), Override::TrustYourself, Moment::seconds(51));
        assert!(!found.is_suspect && found.has_changed);
    }

    #[test]
    fn clusters_that_left_the_fleet_do_not_count() {
        let mut guard = Guard::default();
        at(&mut guard, &fleet(10, 0, 0), 0);
        let found = at(&mut guard, &fleet(6, 0, 0), 1);
        assert_eq!((found.counted, found.offline), (6, 0));
    }

    #[test]
    fn state_3_a_removal_that_lowers_the_limit_begins_the_doubt() {
        let mut guard = Guard::default();
        at(&mut guard, &fleet(7, 0, 0), 0);
        assert!(!at(&mut guard, &fleet(5, 2, 50), 50).is_suspect);
        let found = at(&mut guard, &fleet(4, 2, 50), 51);
        assert_eq!(found, Finding { is_suspect: true, has_changed: true, counted: 6, offline: 2, limit: 1 });
    }

    #[test]
    fn a_restarted_hub_counts_what_was_offline_before_as_gone_just_now() {
        let contacts = fleet(5, 5, 0);
        let mut guard = Guard::restored(contacts.keys().cloned(), Moment::default());
        assert!(at(&mut guard, &contacts, 1).is_suspect);
    }

    proptest! {
        #[test]
        fn the_hub_doubts_itself_exactly_above_the_limit(ready in 0usize..200, offline in 0usize..200) {
            let mut guard = Guard::default();
            at(&mut guard, &fleet(ready + offline, 0, 0), 0);
            let found = at(&mut guard, &fleet(ready, offline, 1), 1);
            prop_assert_eq!(found.is_suspect, offline > 1 && offline * 10 > (ready + offline) * 3);
        }
    }
}
