//! Why a decision came out as it did, as data. The words here are those that `explain` and the dashboard print.

use std::fmt;

use crate::{
    names::{ClusterName, TopologyKey},
    partition, split,
};

/// What keeps a cluster from having more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Limit {
    /// Nothing.
    #[default]
    None,
    /// The policy's maximum.
    Max(u32),
    /// What the cluster says it can run.
    Fit(u32),
    /// It is cordoned.
    Cordoned,
    /// It is being drained.
    Draining,
    /// It is out of reach.
    Offline,
    /// It was given up.
    Lost,
    /// It has not reported yet.
    Pending,
    /// It came back and is being reconciled.
    Returning,
    /// The policy does not select it.
    Excluded,
    /// It lacks the kind or a feature.
    Unsupported,
    /// It lacks the topology key of a spread rule.
    NoGroup,
    /// Its group is beyond the number of groups that may be used.
    GroupNotChosen,
    /// Its group has its full share.
    ShareFull,
    /// A spread rule finds too few groups.
    SpreadUnsatisfied,
    /// Fewer clusters hold everything.
    NotNeeded,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("has room"),
            Self::Max(max) => write!(f, "may have {max} at most"),
            Self::Fit(fit) => write!(f, "can run {fit}"),
            Self::Cordoned => f.write_str("is cordoned"),
            Self::Draining => f.write_str("is draining"),
            Self::Offline => f.write_str("is offline, its share stays as it is"),
            Self::Lost => f.write_str("is lost, its replicas are replaced elsewhere"),
            Self::Pending => f.write_str("has not reported yet"),
            Self::Returning => f.write_str("is returning"),
            Self::Excluded => f.write_str("is not selected by the policy"),
            Self::Unsupported => f.write_str("does not support this kind"),
            Self::NoGroup => f.write_str("lacks the topology key"),
            Self::GroupNotChosen => f.write_str("is in a group that is not used"),
            Self::ShareFull => f.write_str("is in a group that has its full share"),
            Self::SpreadUnsatisfied => f.write_str("may not grow while there are too few groups"),
            Self::NotNeeded => f.write_str("is not needed"),
        }
    }
}

/// Why a cluster loses replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shrink {
    /// It has more than it may have.
    OverLimit,
    /// Its group has more than its share.
    OverShare,
    /// The user named pods in it for deletion.
    Named,
    /// The fleet or the tier is to run fewer.
    FewerWanted,
    /// A rebalance evens clusters out.
    Rebalance,
}

impl fmt::Display for Shrink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OverLimit => "it has more than it may have",
            Self::OverShare => "its group has more than its share",
            Self::Named => "pods in it were named for deletion",
            Self::FewerWanted => "fewer are wanted",
            Self::Rebalance => "clusters are evened out",
        })
    }
}

/// What changes for a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It keeps what it has.
    Kept,
    /// It keeps what it has because nothing may be changed there.
    Frozen,
    /// It gets this many more.
    Grown(u32),
    /// It gets this many fewer.
    Shrunk(u32, Shrink),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept => f.write_str("kept"),
            Self::Frozen => f.write_str("frozen"),
            Self::Grown(by) => write!(f, "{by} more"),
            Self::Shrunk(by, cause) => write!(f, "{by} fewer because {cause}"),
        }
    }
}

/// Why a cluster has the replicas it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Why {
    /// What keeps it from having more.
    pub limit: Limit,
    /// What changes.
    pub change: Change,
    /// How much of its minimum did not fit.
    pub cut_min: u32,
}

impl fmt::Display for split::Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, replicas, ideal, floor, ceiling, why } = self;
        write!(f, "{name}: {replicas}, {}", why.change)?;
        if ideal != replicas {
            write!(f, ", ideal {ideal}")?;
        }
        if replicas >= ceiling || why.limit == Limit::ShareFull {
            write!(f, ", {}", why.limit)?;
        } else if replicas == floor && *floor > 0 {
            write!(f, ", at its minimum")?;
        }
        if why.cut_min > 0 {
            write!(f, ", minimum cut by {}", why.cut_min)?;
        }
        Ok(())
    }
}

/// Why a cluster has the number of updated pods it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// Its part of what is to be updated.
    Due,
    /// All of its pods: its wave is filled, or everything is to be updated.
    Full,
    /// Nothing is due here yet.
    NotDue,
    /// It has more than is due, and what is updated stays so.
    AlreadyUpdated,
    /// It is out of reach: what was granted counts.
    Frozen,
    /// Its wave is still to come.
    WaveToCome,
    /// It cannot run old pods beside new ones.
    CannotSeed,
    /// Broken old pods in it are mended first.
    Mends(u32),
    /// The update is paused: only added pods may be new.
    Paused,
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Due => f.write_str("its part"),
            Self::Full => f.write_str("all of it"),
            Self::NotDue => f.write_str("nothing is due here yet"),
            Self::AlreadyUpdated => f.write_str("already updated, and not taken back"),
            Self::Frozen => f.write_str("frozen, what was granted counts"),
            Self::WaveToCome => f.write_str("its wave is still to come"),
            Self::CannotSeed => f.write_str("cannot run old pods beside new ones"),
            Self::Mends(count) => write!(f, "{count} broken old pods are mended first"),
            Self::Paused => f.write_str("paused, only added pods are new"),
        }
    }
}

impl fmt::Display for partition::Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, updated, member_partition, body, why } = self;
        match body {
            partition::Body::Target => {
                write!(f, "{name}: {updated} updated, partition {member_partition}, {why}")
            }
            partition::Body::Stable => write!(f, "{name}: keeps the stable revision, {why}"),
        }
    }
}

/// What the user should know about a plan as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// The policy selects no cluster; nothing is changed.
    NoCluster,
    /// So many replicas found no place.
    Unplaced(u64),
    /// Clusters out of reach hold so many more than are wanted.
    SurplusFrozen(u64),
    /// A spread rule finds fewer groups than it asks for.
    SpreadUnsatisfied {
        /// The rule's key.
        key: TopologyKey,
        /// Groups there are.
        found: u32,
        /// Groups asked for.
        wanted: u32,
    },
    /// Groups of this key hold more than the share wished for.
    ShareExceeded(TopologyKey),
    /// Minimums were lowered by so much in all.
    MinsCut(u64),
    /// Pods that should be updated cannot be.
    PartitionShort {
        /// How many.
        missing: u64,
        /// How much of what may be updated is held by clusters out of reach.
        held: u64,
    },
    /// So many pods more are updated than asked, and are not taken back.
    PartitionOver(u64),
}

impl Condition {
    /// The name it has in a status.
    pub fn label(&self) -> &'static str {
        match self {
            Self::NoCluster => "NoCluster",
            Self::Unplaced(_) => "Unplaced",
            Self::SurplusFrozen(_) => "SurplusFrozen",
            Self::SpreadUnsatisfied { .. } => "SpreadUnsatisfied",
            Self::ShareExceeded(_) => "ShareExceeded",
            Self::MinsCut(_) => "MinsCut",
            Self::PartitionShort { .. } => "PartitionShort",
            Self::PartitionOver(_) => "PartitionOver",
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCluster => f.write_str("the policy selects no cluster"),
            Self::Unplaced(count) => write!(f, "{count} replicas found no place"),
            Self::SurplusFrozen(count) => write!(f, "offline clusters hold {count} more than wanted"),
            Self::SpreadUnsatisfied { key, found, wanted } => {
                write!(f, "{wanted} groups of {key} are needed and {found} can be used")
            }
            Self::ShareExceeded(key) => write!(f, "a group of {key} has more than the share wished for"),
            Self::MinsCut(count) => write!(f, "minimums were cut by {count}"),
            Self::PartitionShort { missing, held: 0 } => {
                write!(f, "{missing} pods that should be updated cannot be")
            }
            Self::PartitionShort { missing, held } => {
                write!(
                    f,
                    "{missing} pods that should be updated cannot be, clusters out of reach hold {held}"
                )
            }
            Self::PartitionOver(count) => write!(f, "{count} pods more than asked are updated"),
        }
    }
}

/// At most five names and a count of the rest, as conditions list clusters.
pub fn list(names: &[ClusterName]) -> String {
    let shown: Vec<&str> = names.iter().take(5).map(|it| it.as_str()).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
