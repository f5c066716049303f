//! Is a silent cluster given up for one object? (section 4, Lost; FO-1, FO-4)
//!
//! Offline alone never moves, deletes or rescales anything (STATE-4): what is Offline is planned as frozen, and only
//! what this module calls lost is replaced.

use std::time::Duration;

use kruise_core::api::fleet::{
    member_cluster::LostDeclaration,
    policy::{Failover, Fencing},
};

use super::{Moment, NO_LOSS_AFTER_START};

/// What is known about a silent cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Silence<'a> {
    /// For how long it has been Offline; nothing if it is heard.
    pub offline_for: Option<Duration>,
    /// An operator's word.
    pub declared: Option<&'a LostDeclaration>,
    /// Whether its last report showed that every node would stop the object's pods by itself.
    pub fence_covered: bool,
    /// Whether the hub doubts its own view.
    pub is_suspect: bool,
}

/// Whether a cluster is given up for one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// It is heard.
    Heard,
    /// Its share is frozen, for this reason.
    Frozen(Why),
    /// It is: others take over.
    Lost {
        /// Whether it is certain that nothing runs there any more.
        stopped: bool,
    },
}

/// Why a silent cluster is not given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The policy does not ask for failover.
    FailoverOff,
    /// It has not been silent for long enough; so much is missing.
    NotYet(Duration),
    /// The hub has just started (HA-2).
    JustStarted,
    /// The hub doubts its own view (STATE-3).
    SelfSuspect,
    /// An operator has to say that everything is stopped there (FO-4, Manual).
    NeedsConfirmation,
    /// Some of its nodes would not stop the pods by themselves (FO-4, SelfFence).
    NotFenced,
}

/// Judges one cluster for one object.
pub fn judge(failover: &Failover, silence: &Silence<'_>, now: Moment) -> Loss {
    let confirmed = silence.declared.is_some_and(|it| it.confirmed_stopped);
    if silence.declared.is_some() {
        // The operator speaks for the whole cluster. Manual fencing wants more than that.
        let held = failover.enabled && failover.fencing == Fencing::Manual && !confirmed;
        return if held { Loss::Frozen(Why::NeedsConfirmation) } else { Loss::Lost { stopped: confirmed } };
    }
    let Some(offline_for) = silence.offline_for else { return Loss::Heard };
    let after: Duration = failover.after.into();
    let why = match failover.fencing {
        _ if !failover.enabled => Why::FailoverOff,
        _ if silence.is_suspect => Why::SelfSuspect,
        _ if now.since(Moment::default()) < NO_LOSS_AFTER_START => Why::JustStarted,
        Fencing::Manual => Why::NeedsConfirmation,
        Fencing::SelfFence if !silence.fence_covered => Why::NotFenced,
        _ if offline_for < after => Why::NotYet(after - offline_for),
        fencing => return Loss::Lost { stopped: fencing == Fencing::SelfFence },
    };
    Loss::Frozen(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATER: Moment = Moment::seconds(10_000);

    fn failover(fencing: Fencing) -> Failover {
        Failover { enabled: true, fencing, ..Failover::default() }
    }

    fn silent(seconds: u64) -> Silence<'static> {
        Silence { offline_for: Some(Duration::from_secs(seconds)), fence_covered: true, ..Silence::default() }
    }

    #[test]
    fn state_4_offline_alone_is_never_lost() {
        let off = Failover::default();
        assert_eq!(judge(&off, &silent(1_000_000), LATER), Loss::Frozen(Why::FailoverOff));
        assert_eq!(judge(&off, &Silence::default(), LATER), Loss::Heard);
    }

    #[test]
    fn a_cluster_is_lost_after_the_time_its_policy_names() {
        let on = failover(Fencing::None);
        let missing = Loss::Frozen(Why::NotYet(Duration::from_secs(1)));
        assert_eq!(judge(&on, &silent(299), LATER), missing);
        assert_eq!(judge(&on, &silent(300), LATER), Loss::Lost { stopped: false });
    }

    #[test]
    fn state_3_nothing_is_lost_while_the_hub_doubts_itself() {
        let doubt = Silence { is_suspect: true, ..silent(1_000) };
        assert_eq!(judge(&failover(Fencing::None), &doubt, LATER), Loss::Frozen(Why::SelfSuspect));
    }

    #[test]
    fn ha_2_nothing_is_lost_in_the_first_minute_of_the_hub() {
        let on = failover(Fencing::None);
        assert_eq!(judge(&on, &silent(1_000), Moment::seconds(59)), Loss::Frozen(Why::JustStarted));
        assert_eq!(judge(&on, &silent(1_000), Moment::seconds(60)), Loss::Lost { stopped: false });
    }

    #[test]
    fn fo_4_fencing_says_what_else_is_needed() {
        assert_eq!(
            judge(&failover(Fencing::Manual), &silent(1_000), LATER),
            Loss::Frozen(Why::NeedsConfirmation)
        );
        let fence = failover(Fencing::SelfFence);
        assert_eq!(judge(&fence, &silent(1_000), LATER), Loss::Lost { stopped: true });
        let open = Silence { fence_covered: false, ..silent(1_000) };
        assert_eq!(judge(&fence, &open, LATER), Loss::Frozen(Why::NotFenced));
    }

    #[test]
    fn an_operator_may_declare_a_whole_cluster_lost() {
        let words =
            [LostDeclaration { confirmed_stopped: false }, LostDeclaration { confirmed_stopped: true }];
        let declared = words.each_ref().map(|it| Silence { declared: Some(it), ..silent(1) });
        let off = Failover::default();
        assert_eq!(judge(&off, &declared[0], LATER), Loss::Lost { stopped: false });
        assert_eq!(judge(&off, &declared[1], LATER), Loss::Lost { stopped: true });
        let manual = failover(Fencing::Manual);
        assert_eq!(judge(&manual, &declared[0], LATER), Loss::Frozen(Why::NeedsConfirmation));
        assert_eq!(judge(&manual, &declared[1], LATER), Loss::Lost { stopped: true });
    }
}
