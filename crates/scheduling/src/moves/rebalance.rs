use std::fmt;

/// `rebalance` of the policy, resolved on N.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rebalance {
    /// What starts it.
    pub trigger: Trigger,
    /// Clusters may be so many replicas off their ideal share before a continuous rebalance acts.
    pub tolerance: u32,
    /// Replicas moved at most in one interval.
    pub max_moves: u32,
    /// Seconds of an interval.
    pub interval: u32,
    /// The policy as it is; another one, or another state of it, asks for a rebalance.
    pub policy: PolicyMark,
}

/// Which policy, and in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PolicyMark {
    /// What tells it from others, those of the same name before it included; 0 if that is not known.
    pub id: u64,
    /// Its generation; 0 if there was none yet.
    pub generation: u64,
}

impl PolicyMark {
    /// Whether `now` is certainly another policy, or this one after an edit.
    fn has_changed(self, now: Self) -> bool {
        let was_known = self.generation != 0;
        was_known && (self.generation != now.generation || (self.id != 0 && self.id != now.id))
    }
}

/// `rebalance.trigger` of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trigger {
    /// Only if asked.
    Never,
    /// When the policy changes.
    #[default]
    OnPolicyChange,
    /// Whenever clusters are off their ideal share.
    Continuous,
}

/// How far a rebalance has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RebalanceState {
    /// Whether one was asked for and is not finished.
    pub asked: bool,
    /// The policy that was seen last.
    pub policy: PolicyMark,
    /// Replicas moved in this interval.
    pub moved: u64,
    /// Seconds of this interval that have passed.
    pub passed: u32,
}

/// Moves that did not become available within the deadline before a rebalance stops (MOVE-5).
const FAILED_MOVES: u64 = 3;

/// What a rebalance looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Imbalance {
    /// The largest distance of a cluster from its ideal share.
    pub largest: u32,
    /// Replicas that were granted by growth longer ago than the deadline and are not available.
    pub overdue: u64,
    /// Whether a wave has an open gate (MOVE-4).
    pub gate_is_open: bool,
    /// Whether every cluster that is not lost is heard, so that the ideal share is known of all.
    pub all_are_heard: bool,
}

impl RebalanceState {
    /// Asks for a rebalance.
    pub fn ask(&mut self) {
        self.asked = true;
    }

    /// Notes that so many moves have begun.
    pub fn count(&mut self, moves: u64) {
        self.moved = self.moved.saturating_add(moves);
    }

    /// How many moves may begin now (MOVE-4, MOVE-5), or why none may though some are due.
    pub fn allowance(&mut self, rules: &Rebalance, seen: &Imbalance, elapsed: u32) -> Result<u64, Held> {
        if self.policy != rules.policy {
            self.asked |= rules.trigger != Trigger::Never && self.policy.has_changed(rules.policy);
            self.policy = rules.policy;
        }
        if seen.largest == 0 && seen.all_are_heard {
            self.asked = false;
        }
        if self.moved > 0 {
            self.passed = self.passed.saturating_add(elapsed);
            if self.passed >= rules.interval {
                (self.passed, self.moved) = (0, 0);
            }
        }
        let due = self.asked || (rules.trigger == Trigger::Continuous && seen.largest > rules.tolerance);
        match u64::from(rules.max_moves).saturating_sub(self.moved) {
            _ if !due || seen.largest == 0 => Ok(0),
            _ if seen.gate_is_open => Err(Held::Gate),
            _ if seen.overdue >= FAILED_MOVES => Err(Held::Overdue(seen.overdue)),
            0 => Err(Held::Interval { seconds: rules.interval.saturating_sub(self.passed) }),
            moves => Ok(moves),
        }
    }
}

/// Why a rebalance that is due does not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// A wave is at work, or soaks (MOVE-4).
    Gate,
    /// So many replicas that were moved did not become available within the deadline (MOVE-5).
    Overdue(u64),
    /// As many were moved in this interval as may be.
    Interval {
        /// Until the next one.
        seconds: u32,
    },
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gate => f.write_str("no replicas are evened out while a wave of the release is open"),
            Self::Overdue(count) => {
                write!(f, "no replicas are evened out, {count} that were moved are not available yet")
            }
            Self::Interval { seconds } => {
                write!(f, "as many replicas were moved as may be, the next follow in {seconds} s")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: PolicyMark = PolicyMark { id: 7, generation: 1 };
    const RULES: Rebalance =
        Rebalance { trigger: Trigger::Continuous, tolerance: 2, max_moves: 3, interval: 300, policy: POLICY };
    const OFF: Imbalance = Imbalance { largest: 5, overdue: 0, gate_is_open: false, all_are_heard: true };

    #[test]
    fn a_continuous_rebalance_keeps_to_tolerance_and_moves_per_interval_as_move_5_says() {
        let mut state = RebalanceState::default();
        assert_eq!(state.allowance(&RULES, &Imbalance { largest: 2, ..OFF }, 0), Ok(0));
        assert_eq!(state.allowance(&RULES, &OFF, 0), Ok(3));
        state.count(3);
        assert_eq!(state.allowance(&RULES, &OFF, 299), Err(Held::Interval { seconds: 1 }));
        assert_eq!(state.allowance(&RULES, &OFF, 1), Ok(3));
        assert_eq!(state.allowance(&RULES, &Imbalance { overdue: 3, ..OFF }, 0), Err(Held::Overdue(3)));
    }

    #[test]
    fn no_move_starts_while_a_gate_is_open_as_move_4_says() {
        let mut state = RebalanceState::default();
        assert_eq!(state.allowance(&RULES, &Imbalance { gate_is_open: true, ..OFF }, 0), Err(Held::Gate));
    }

    #[test]
    fn a_policy_change_asks_once_and_is_done_at_the_ideal_split() {
        let rules = Rebalance { trigger: Trigger::OnPolicyChange, ..RULES };
        let mut state = RebalanceState::default();
        assert_eq!(state.allowance(&rules, &OFF, 0), Ok(0));
        let changed = Rebalance { policy: PolicyMark { generation: 2, ..POLICY }, ..rules };
        assert_eq!(state.allowance(&changed, &OFF, 0), Ok(3));
        assert_eq!(state.allowance(&changed, &Imbalance { largest: 1, ..OFF }, 0), Ok(3));
        assert_eq!(state.allowance(&changed, &Imbalance { largest: 0, ..OFF }, 0), Ok(0));
        assert_eq!(state.allowance(&changed, &OFF, 0), Ok(0));
        let next = PolicyMark { generation: 3, ..POLICY };
        assert_eq!(
            state.allowance(&Rebalance { trigger: Trigger::Never, policy: next, ..rules }, &OFF, 0),
            Ok(0)
        );
    }

    #[test]
    fn move_5_another_policy_of_the_same_generation_asks_too() {
        let rules = Rebalance { trigger: Trigger::OnPolicyChange, ..RULES };
        let mut state = RebalanceState::default();
        assert_eq!(state.allowance(&rules, &OFF, 0), Ok(0), "the first policy of an object asks for nothing");
        let other = Rebalance { policy: PolicyMark { id: 8, ..POLICY }, ..rules };
        assert_eq!(state.allowance(&other, &OFF, 0), Ok(3));
    }

    #[test]
    fn move_5_a_ledger_that_knows_no_more_than_the_generation_asks_for_nothing_by_that() {
        let rules = Rebalance { trigger: Trigger::OnPolicyChange, ..RULES };
        let known = PolicyMark { id: 0, generation: 1 };
        let mut state = RebalanceState { policy: known, ..RebalanceState::default() };
        assert_eq!(state.allowance(&rules, &OFF, 0), Ok(0));
        assert_eq!(state.policy, POLICY);
    }
}
