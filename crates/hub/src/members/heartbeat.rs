//! One cluster's state by its Lease (STATE-1, 2, 4, 5 and HA-2).
//!
//! Only changes of the Lease count, measured on the hub's own clock: what time the member writes into it is never
//! looked at, so a clock that jumps on either side changes nothing.

use std::{collections::VecDeque, time::Duration};

use kruise_core::api::fleet::member_cluster::ClusterState;
use scheduling::split::State;

use super::{Moment, OFFLINE_AFTER};

/// For how long the Lease must have been changing before a cluster is Ready.
pub const STEADY_FOR: Duration = Duration::from_secs(30);
/// The longest that a cluster which comes and goes has to be steady.
pub const STEADY_FOR_AT_MOST: Duration = Duration::from_secs(600);
/// For how long a loss of contact is remembered.
pub const FLAPS_REMEMBERED: Duration = Duration::from_secs(3600);

/// What the hub sees of one cluster at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen<'a> {
    /// Anything that differs whenever the Lease was renewed, such as its resource version; none without a Lease.
    pub lease: Option<&'a str>,
    /// The epoch of the last full report.
    pub reported_epoch: Option<u64>,
    /// The epoch that the cluster is in.
    pub epoch: u64,
    /// Whether an operator says that the cluster is lost, or some object has given it up.
    pub lost: bool,
}

/// What is known of one cluster's contact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    contact: Contact,
    lease: Option<String>,
    /// When the Lease was last seen to change, or the hub started.
    changed: Moment,
    /// Since when it has been changing without a gap.
    steady_since: Option<Moment>,
    /// Whether the Lease was seen to change since the hub started.
    confirmed: bool,
    /// When contact was lost, the last hour.
    flaps: VecDeque<Moment>,
}

/// Whether a cluster is heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contact {
    /// It has not reported yet.
    Pending,
    /// It is.
    Ready,
    /// It is not, since this moment.
    Offline(Moment),
    /// It was given up and renews its Lease again.
    Returning,
}

/// A change of contact, for events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transition {
    /// The cluster may be used.
    BecameReady,
    /// The cluster does not report any more.
    WentOffline,
    /// The cluster was given up and is back.
    Returned,
}

/// What an administrator wants with a cluster, on top of its contact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// Whether it takes part at all.
    pub accepted: bool,
    /// Whether it gets nothing new.
    pub unschedulable: bool,
    /// Whether it is to be emptied.
    pub drain: bool,
}

impl Heartbeat {
    /// A cluster that has just been accepted.
    pub fn new(now: Moment) -> Self {
        Self {
            contact: Contact::Pending,
            lease: None,
            changed: now,
            steady_since: None,
            confirmed: false,
            flaps: VecDeque::new(),
        }
    }

    /// A cluster as its status says it was before the hub restarted. Nothing that was measured before is trusted but
    /// the state itself: a cluster goes Offline only after it was silent for the whole time again, and takes nothing
    /// new before its Lease was seen to change (HA-1, HA-2).
    pub fn restored(state: ClusterState, flaps: u32, now: Moment) -> Self {
        let contact = match state {
            ClusterState::Ready | ClusterState::Cordoned | ClusterState::Draining => Contact::Ready,
            ClusterState::Offline | ClusterState::Lost => Contact::Offline(now),
            ClusterState::Returning => Contact::Returning,
            ClusterState::Pending | ClusterState::Revoked => Contact::Pending,
        };
        Self { contact, flaps: (0..flaps.min(16)).map(|_| now).collect(), ..Self::new(now) }
    }

    /// Looks at the cluster once more. `now` never goes back.
    pub fn observe(&mut self, seen: &Seen<'_>, now: Moment) -> Option<Transition> {
        self.flaps.retain(|it| now.since(*it) < FLAPS_REMEMBERED);
        self.note_lease(seen.lease, now);
        let silent = now.since(self.changed) >= OFFLINE_AFTER;
        match self.contact {
            Contact::Pending if silent => self.steady_since = None,
            Contact::Ready | Contact::Returning if silent => return Some(self.go_offline(now)),
            Contact::Ready => {}
            // A Lease that only just began to change again may stop again.
            Contact::Offline(_) if silent => self.steady_since = None,
            Contact::Offline(_) if seen.lost && self.steady_since.is_some() => {
                self.contact = Contact::Returning;
                return Some(Transition::Returned);
            }
            Contact::Returning if seen.lost => {}
            Contact::Pending | Contact::Offline(_) | Contact::Returning => {
                if self.is_steady() && seen.reported_epoch == Some(seen.epoch) {
                    self.contact = Contact::Ready;
                    return Some(Transition::BecameReady);
                }
            }
        }
        None
    }

    /// Whether the cluster is heard.
    pub fn contact(&self) -> Contact {
        self.contact
    }

    /// Whether its Lease was seen to change since this process started.
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// How often contact was lost within the last hour.
    pub fn flaps(&self) -> u32 {
        self.flaps.len() as u32
    }

    /// For how long the cluster has been Offline; nothing if it is not.
    pub fn offline_for(&self, now: Moment) -> Option<Duration> {
        match self.contact {
            Contact::Offline(since) => Some(now.since(since)),
            _ => None,
        }
    }

    /// How long the Lease must have been changing before the cluster is Ready: twice as long after each loss of
    /// contact within the hour (STATE-2).
    pub fn steady_needed(&self) -> Duration {
        let doublings = self.flaps().saturating_sub(1).min(8);
        (STEADY_FOR * 2u32.pow(doublings)).min(STEADY_FOR_AT_MOST)
    }

    /// The state to show (STATE-5): contact first, then Draining, then Cordoned.
    pub fn state(&self, flags: Flags, lost: bool) -> ClusterState {
        match self.contact {
            _ if !flags.accepted => ClusterState::Revoked,
            Contact::Pending => ClusterState::Pending,
            Contact::Returning => ClusterState::Returning,
            Contact::Offline(_) if lost => ClusterState::Lost,
            Contact::Offline(_) => ClusterState::Offline,
            Contact::Ready if flags.drain => ClusterState::Draining,
            Contact::Ready if flags.unschedulable => ClusterState::Cordoned,
            Contact::Ready => ClusterState::Ready,
        }
    }

    /// The state to plan with. A cluster whose Lease has not changed since the hub started takes nothing new
    /// yet; what is due to it waits for it, as it is neither gone nor full (HA-2).
    pub fn planning_state(&self, flags: Flags, lost: bool) -> State {
        match self.state(flags, lost) {
            ClusterState::Ready if !self.confirmed => State::Unconfirmed,
            ClusterState::Ready => State::Ready,
            ClusterState::Cordoned => State::Cordoned,
            ClusterState::Draining => State::Draining,
            ClusterState::Pending => State::Pending,
            ClusterState::Returning => State::Returning,
            ClusterState::Lost => State::Lost,
            // Its agent has no rights any more: what it runs goes on as it is (JOIN-5).
            ClusterState::Offline | ClusterState::Revoked => State::Offline,
        }
    }

    /// How long its Lease has not been seen to change.
    pub fn silent_for(&self, now: Moment) -> Duration {
        now.since(self.changed)
    }

    fn note_lease(&mut self, lease: Option<&str>, now: Moment) {
        if lease.is_none() || lease == self.lease.as_deref() {
            return;
        }
        // The first sight of a Lease is no change: it may be as old as the hub's absence.
        let changed = self.lease.is_some();
        self.lease = lease.map(str::to_owned);
        if changed {
            self.changed = now;
            self.confirmed = true;
            self.steady_since.get_or_insert(now);
        }
    }

    fn go_offline(&mut self, now: Moment) -> Transition {
        self.contact = Contact::Offline(now);
        self.steady_since = None;
        self.flaps.push_back(now);
        Transition::WentOffline
    }

    /// Between the first and the last change: the silence after that proves nothing.
    fn is_steady(&self) -> bool {
        self.steady_since.is_some_and(|it| self.changed.since(it) >= self.steady_needed())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ACCEPTED: Flags = Flags { accepted: true, unschedulable: false, drain: false };

    /// A cluster whose Lease is renewed every ten seconds while the link is up.
    struct Script {
        beat: Heartbeat,
        now: u64,
        renewals: u64,
        lost: bool,
        transitions: Vec<(u64, Transition)>,
    }

    impl Script {
        fn new() -> Self {
            let beat = Heartbeat::new(Moment::default());
            Self { beat, now: 0, renewals: 0, lost: false, transitions: Vec::new() }
        }

        fn pass(mut self, seconds: u64, up: bool) -> Self {
            for _ in 0..seconds {
                self.now += 1;
                self.renewals += u64::from(up && self.now.is_multiple_of(10));
                let lease = self.renewals.to_string();
                let seen = Seen { lease: Some(&lease), reported_epoch: Some(0), epoch: 0, lost: self.lost };
                let change = self.beat.observe(&seen, Moment::seconds(self.now));
                self.transitions.extend(change.map(|it| (self.now, it)));
            }
            self
        }

        fn ready() -> Self {
            let script = Self::new().pass(60, true);
            assert_eq!(script.beat.contact(), Contact::Ready);
            script
        }
    }

    #[test]
    fn state_1_a_cluster_is_ready_after_half_a_minute_of_changes_and_offline_after_forty_seconds_without() {
        let script = Script::new().pass(60, true).pass(100, false);
        // Seen first at 1, first change at 10, steady at 40; last change at 60, silent at 100.
        assert_eq!(script.transitions, [(40, Transition::BecameReady), (100, Transition::WentOffline)]);
    }

    #[test]
    fn state_1_a_lease_that_never_changes_is_no_sign_of_life() {
        let script = Script::new().pass(300, false);
        assert_eq!(script.beat.state(ACCEPTED, false), ClusterState::Pending);
        assert!(script.transitions.is_empty());
    }

    #[test]
    fn ready_needs_a_full_report_of_the_present_epoch() {
        let mut beat = Heartbeat::new(Moment::default());
        for second in 0..120u64 {
            let lease = (second / 10).to_string();
            let seen = Seen { lease: Some(&lease), reported_epoch: Some(1), epoch: 2, lost: false };
            assert_eq!(beat.observe(&seen, Moment::seconds(second)), None);
        }
        assert_eq!(beat.contact(), Contact::Pending);
    }

    #[test]
    fn a_gap_shorter_than_forty_seconds_is_not_seen_at_all() {
        let script = Script::ready().pass(30, false).pass(30, true);
        assert_eq!(script.transitions.len(), 1);
    }

    #[test]
    fn state_2_each_loss_of_contact_doubles_the_time_to_be_ready_up_to_ten_minutes() {
        let mut script = Script::ready();
        let mut waits = Vec::new();
        for _ in 0..7 {
            script = script.pass(60, false);
            waits.push(script.beat.steady_needed().as_secs());
            script = script.pass(20, true);
        }
        assert_eq!(waits[0], 30);
        // It was never steady for long enough to be Ready again, so this was one loss.
        assert_eq!(waits, [30; 7]);
        let mut waits = Vec::new();
        let mut script = Script::ready();
        for _ in 0..6 {
            script = script.pass(60, false);
            waits.push(script.beat.steady_needed().as_secs());
            script = script.pass(620, true);
        }
        assert_eq!(waits[..4], [30, 60, 120, 240]);
        assert!(waits.iter().all(|it| *it <= 600));
    }

    #[test]
    fn state_2_losses_are_forgotten_after_an_hour() {
        let script = Script::ready().pass(60, false).pass(60, true);
        assert_eq!(script.beat.flaps(), 1);
        assert_eq!(script.pass(3600, true).beat.flaps(), 0);
    }

    #[test]
    fn state_5_offline_wins_over_draining_and_draining_over_cordoned() {
        let both = Flags { unschedulable: true, drain: true, ..ACCEPTED };
        let script = Script::ready();
        assert_eq!(script.beat.state(both, false), ClusterState::Draining);
        assert_eq!(script.beat.state(Flags { drain: false, ..both }, false), ClusterState::Cordoned);
        let script = script.pass(60, false);
        assert_eq!(script.beat.state(both, false), ClusterState::Offline);
        assert_eq!(script.beat.planning_state(both, false), State::Offline);
        // Back again it goes on draining.
        assert_eq!(script.pass(60, true).beat.state(both, false), ClusterState::Draining);
    }

    #[test]
    fn a_lost_cluster_that_renews_is_returning_until_it_is_taken_back() {
        let mut script = Script::ready().pass(60, false);
        script.lost = true;
        assert_eq!(script.beat.state(ACCEPTED, true), ClusterState::Lost);
        script = script.pass(60, true);
        assert_eq!(script.beat.state(ACCEPTED, true), ClusterState::Returning);
        script.lost = false;
        script = script.pass(60, true);
        assert_eq!(script.beat.contact(), Contact::Ready);
    }

    #[test]
    fn ha_2_after_a_restart_nothing_grows_before_the_lease_was_seen_to_change() {
        let mut beat = Heartbeat::restored(ClusterState::Ready, 0, Moment::default());
        let mut look = |lease, second| {
            let seen = Seen { lease: Some(lease), reported_epoch: Some(0), epoch: 0, lost: false };
            let change = beat.observe(&seen, Moment::seconds(second));
            (change, beat.state(ACCEPTED, false), beat.planning_state(ACCEPTED, false))
        };
        assert_eq!(look("7", 1), (None, ClusterState::Ready, State::Unconfirmed));
        assert_eq!(look("8", 9), (None, ClusterState::Ready, State::Ready));
    }

    #[test]
    fn ha_2_after_a_restart_a_silent_cluster_goes_offline_only_after_the_whole_time() {
        let mut beat = Heartbeat::restored(ClusterState::Ready, 0, Moment::default());
        let seen = Seen { lease: Some("7"), reported_epoch: Some(0), epoch: 0, lost: false };
        assert_eq!(beat.observe(&seen, Moment::seconds(39)), None);
        assert_eq!(beat.observe(&seen, Moment::seconds(40)), Some(Transition::WentOffline));
    }

    #[test]
    fn join_5_a_cluster_that_is_not_accepted_is_revoked_and_frozen() {
        let script = Script::ready();
        assert_eq!(script.beat.state(Flags::default(), false), ClusterState::Revoked);
        assert_eq!(script.beat.planning_state(Flags::default(), false), State::Offline);
    }

    proptest! {
        #[test]
        fn contact_follows_the_link_whatever_it_does(links in prop::collection::vec((1u64..200, any::<bool>()), 1..20)) {
            let mut script = Script::new();
            for (seconds, up) in links {
                script = script.pass(seconds, up);
                let silent_for = Moment::seconds(script.now).since(script.beat.changed);
                if silent_for >= OFFLINE_AFTER {
                    prop_assert!(!matches!(script.beat.contact(), Contact::Ready | Contact::Returning));
                }
                if let Contact::Offline(since) = script.beat.contact() {
                    prop_assert!(since <= Moment::seconds(script.now));
                }
            }
            // After an hour and more of a good link every cluster is Ready.
            let script = script.pass(4_300, true);
            prop_assert_eq!(script.beat.contact(), Contact::Ready);
        }
    }
}
