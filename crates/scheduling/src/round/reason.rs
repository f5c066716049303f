use std::fmt;

use crate::{ledger::Revision, moves, names::ClusterName, numbers, partition, reason, release, split};

/// Something a round decided, and for which cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The cluster; `None` for the fleet as a whole.
    pub cluster: Option<ClusterName>,
    /// What, and why.
    pub why: Why,
}

/// What was decided, with the rule's reason in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// Replicas were added: the split places them here.
    Grown(u32),
    /// Replicas should be added, but so many pods may be alive already.
    GrowthHeldByPods(u32),
    /// Replicas should be added, but so many are starting already (scaleStrategy.maxUnavailable).
    GrowthHeldByStarting(u32),
    /// Replicas should be added, but the cluster has not been heard since the hub restarted (HA-2).
    GrowthHeldUntilHeard(u32),
    /// Growth that never became available was taken back.
    TakenBack(u32),
    /// The user's scale-down.
    ScaledDown(u32),
    /// Replicas were given up here because they are available elsewhere.
    MovedAway(u32),
    /// Replicas should leave, but would be missing.
    ShrinkHeld(u32),
    /// The cluster was given up; others take its replicas.
    Lost,
    /// The cluster is back and was granted what it runs.
    Returned {
        /// Replicas granted.
        replicas: u32,
    },
    /// Why the split gives it what it gives.
    Placed(reason::Why),
    /// Why so many of its pods are to be new.
    Updated(reason::Share),
    /// The cluster is given the target.
    Given(Revision),
    /// More pods of the target are due than may be granted before others are acknowledged.
    UpdatedHeld {
        /// Due.
        due: u32,
        /// Granted.
        granted: u32,
    },
    /// Its share of unavailable pods was taken back because pods are down elsewhere.
    ShareWithdrawn(u32),
    /// Its share of unavailable pods and of pods above its replicas changed.
    Budget {
        /// Pods that may be down from now on.
        unavailable: u32,
        /// Pods above the replicas from now on.
        surge: u32,
        /// What for, or why not.
        to: BudgetUse,
    },
    /// Its pulls at a time changed, or should have (IPJ-1).
    Pulls(Pulls),
    /// The release stands still, and so does this cluster.
    Stopped,
    /// Images of the target are to be pulled ahead over the fleet (REL-11).
    PreDownload(Revision),
    /// The stable revision became what was the target.
    Released(Revision),
    /// A new target replaced one that was not finished.
    Superseded(Revision),
    /// A step of the release.
    Release(release::Decision),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grown(by) => write!(f, "{by} replicas are placed here"),
            Self::GrowthHeldByPods(by) => {
                write!(f, "{by} replicas wait until surplus pods elsewhere are gone")
            }
            Self::GrowthHeldByStarting(by) => {
                write!(f, "{by} replicas wait until starting pods are available")
            }
            Self::GrowthHeldUntilHeard(by) => {
                write!(f, "{by} replicas wait until the cluster is heard again")
            }
            Self::TakenBack(by) => write!(f, "{by} replicas that never became available are taken back"),
            Self::ScaledDown(by) => write!(f, "{by} replicas go by the scale-down"),
            Self::MovedAway(by) => write!(f, "{by} replicas are available elsewhere now"),
            Self::ShrinkHeld(by) => write!(f, "{by} replicas stay until they are available elsewhere"),
            Self::Lost => f.write_str("the cluster is given up, others take its replicas"),
            Self::Returned { replicas } => write!(f, "the cluster is back with {replicas} replicas"),
            Self::Placed(why) => write!(f, "{}", why.change),
            Self::Updated(why) => why.fmt(f),
            Self::Given(revision) => write!(f, "revision {revision} is given to the cluster"),
            Self::UpdatedHeld { due, granted } => {
                write!(f, "{granted} of {due} updated pods are granted until others are acknowledged")
            }
            Self::ShareWithdrawn(by) => {
                write!(f, "{by} of its unavailable pods are withdrawn, pods are down elsewhere")
            }
            Self::Budget { unavailable, surge, to } => {
                write!(f, "{unavailable} pods may be down and {surge} extra: {to}")
            }
            Self::Pulls(why) => why.fmt(f),
            Self::Stopped => f.write_str("the release is paused, no more pods are updated here"),
            Self::PreDownload(revision) => write!(f, "images of revision {revision} are pulled ahead"),
            Self::Released(revision) => write!(f, "revision {revision} is released"),
            Self::Superseded(revision) => write!(f, "the release of {revision} is superseded"),
            Self::Release(decision) => decision.fmt(f),
        }
    }
}

/// What a share of the budgets is for (BUD-7), or why it is not larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetUse {
    /// Every cluster has the object's own numbers (SPLIT-6).
    Own,
    /// Pods named for deletion or being replaced.
    Replaced(u32),
    /// Pods left to update.
    ToUpdate(u32),
    /// A shrink that could not finish without.
    Shrink,
    /// It has nothing left to use it for.
    NothingLeft,
    /// It was not used within the deadline, and others wait.
    Unused,
    /// The update is paused.
    Paused,
    /// The budget is smaller now, or others need it more.
    Smaller,
}

impl fmt::Display for BudgetUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => f.write_str("every cluster has the object's own numbers"),
            Self::Replaced(count) => write!(f, "{count} pods are to be replaced"),
            Self::ToUpdate(count) => write!(f, "{count} pods are to be updated"),
            Self::Shrink => f.write_str("pods that leave are not available"),
            Self::NothingLeft => f.write_str("nothing is left to do here"),
            Self::Unused => f.write_str("the share was not used within the deadline"),
            Self::Paused => f.write_str("the update is paused"),
            Self::Smaller => f.write_str("the budget of the fleet is used elsewhere or smaller now"),
        }
    }
}

/// What becomes of a cluster's pulls at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pulls {
    /// It may run more of them.
    Granted(u32),
    /// It may run fewer: fewer nodes are left there, or parallelism is smaller.
    Lowered(u32),
    /// It should run more, but others are still running.
    Wait(u32),
    /// It is not heard, and may be running so many.
    Held(u32),
}

impl fmt::Display for Pulls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Granted(slots) => write!(f, "{slots} pulls at a time"),
            Self::Lowered(slots) => write!(f, "{slots} pulls at a time, no more are needed or allowed"),
            Self::Wait(slots) => write!(f, "{slots} pulls wait until others are over"),
            Self::Held(slots) => write!(f, "the cluster is not heard and may be pulling on {slots} nodes"),
        }
    }
}

/// Who holds how much of a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The cluster.
    pub cluster: ClusterName,
    /// Pods.
    pub pods: u32,
}

/// What is the matter with the object as a whole (ST-4).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// Pods wait to be updated, and the budget is used up.
    BudgetHeld {
        /// U.
        limit: u32,
        /// Pods down or granted to be.
        used: u64,
        /// Replicas that are not there because they are between clusters.
        hole: u64,
        /// By whom, largest first.
        holders: Vec<Holder>,
    },
    /// Something about the division of replicas or of updated pods.
    Division(reason::Condition),
    /// The request makes no sense: everything stays as it is.
    Refused(split::Error),
    /// The updated pods cannot be divided: they stay as they are.
    PartitionRefused(partition::Error),
    /// Both budgets are 0: no pod is updated.
    BudgetsRefused(numbers::Error),
    /// A cluster cannot be emptied yet.
    DrainHeld {
        /// The cluster.
        cluster: ClusterName,
        /// Replicas it keeps.
        replicas: u32,
    },
    /// A cluster is not emptied, because pods with volumes of their own do not move by themselves (CS-5).
    VolumesHeld {
        /// The cluster.
        cluster: ClusterName,
        /// Replicas it keeps.
        replicas: u32,
    },
    /// Replicas should be evened out, and are not now.
    RebalanceHeld(moves::Held),
    /// The release waits.
    ReleaseHeld(release::Held),
    /// The new template waits for the release of the object named.
    WaitsFor(String),
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BudgetHeld { limit, used, hole, holders } => {
                write!(f, "{} of {limit} unavailable pods are held", used + hole)?;
                for (place, holder) in holders.iter().take(5).enumerate() {
                    write!(
                        f,
                        "{} {} by {}",
                        if place == 0 { ":" } else { "," },
                        holder.pods,
                        holder.cluster
                    )?;
                }
                match holders.len().saturating_sub(5) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            Self::Division(condition) => condition.fmt(f),
            Self::Refused(error) => error.fmt(f),
            Self::PartitionRefused(error) => error.fmt(f),
            Self::BudgetsRefused(error) => error.fmt(f),
            Self::DrainHeld { cluster, replicas } => {
                write!(f, "{cluster} keeps {replicas} replicas until they are available elsewhere")
            }
            Self::VolumesHeld { cluster, replicas } => write!(
                f,
                "{cluster} keeps {replicas} replicas that have volumes of their own: a drain leaves them unless it is told to move them \
                 and leave the volumes (`kubectl fleet drain {cluster} --move-stateful`)"
            ),
            Self::RebalanceHeld(held) => held.fmt(f),
            Self::ReleaseHeld(held) => held.fmt(f),
            Self::WaitsFor(other) => write!(f, "the new template waits until the release of {other} is over"),
        }
    }
}
