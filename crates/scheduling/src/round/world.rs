use crate::{
    ledger::{Revision, Row},
    moves::{Rebalance, RebalanceState},
    partition::Seeding,
    release::{Gate, Paused, PreDownload, PrePullView, Release, Wave},
    split::{Candidate, Mode, Spread, State, WhenShort},
};

/// Everything one planning round looks at besides the ledger, taken at one moment.
#[derive(Debug, Clone)]
pub struct World<'a> {
    /// The object's numbers, percentages already resolved on the fleet's N.
    pub spec: Spec,
    /// The policy's numbers.
    pub rules: Rules,
    /// How replicas are divided.
    pub mode: Mode,
    /// Whether the policy selects no cluster at all, whatever state those listed are in: then nothing is changed.
    pub selects_none: bool,
    /// What to do when they do not fit.
    pub when_short: WhenShort,
    /// Rules about groups of clusters.
    pub spread: &'a [Spread],
    /// The waves of the policy; empty for order Proportional.
    pub waves: &'a [Wave],
    /// The object this one comes after, while that one's release is going on (`fleet.kruise.io/after`, SC-5).
    pub after: Option<&'a str>,
    /// The object's own wish to have images pulled ahead, where there are no waves (REL-11).
    pub pre_download: Option<PreDownload>,
    /// How far the images of the next wave are pulled.
    pub pre_pull: Option<PrePullView>,
    /// The clusters, in the order of the ledger's rows.
    pub clusters: &'a [Cluster],
    /// Seconds since the last round of this object; 0 after a restart of the hub.
    pub elapsed: u32,
}

/// The object's own numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// N: replicas over the fleet, or of every cluster where they are duplicated.
    pub replicas: u32,
    /// P: pods to keep at the stable revision.
    pub partition: u64,
    /// U: pods that may be down on purpose.
    pub unavailable: u32,
    /// S: pods above N for an update.
    pub surge: u32,
    /// K: pods that may be starting at a time by scaling, where the object limits it.
    pub scale_unavailable: Option<u32>,
    /// Whether updates are paused.
    pub paused: bool,
    /// The revision of the object's template.
    pub target: Revision,
    /// Whether pods are only ever updated in place, so that members can carry no maxSurge.
    pub in_place_only: bool,
    /// Whether pods have volumes of their own, which stay behind when a pod moves to another cluster (CS-5).
    pub stateful: bool,
    /// What the pods of the fleet belong to.
    pub population: Population,
    /// Whether partition and budgets are about the fleet or about each cluster.
    pub numbers: Numbers,
}

/// The annotation `fleet.kruise.io/numbers` of an object whose replicas are duplicated (SPLIT-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Numbers {
    /// They are over the whole fleet.
    #[default]
    Global,
    /// Every cluster gets them as they are, resolved on its own replicas. Only where each has all N of them.
    PerCluster,
}

/// Who makes the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Population {
    /// The members make as many as they are granted: CloneSet.
    #[default]
    Granted,
    /// They are there already, and are counted: SidecarSet.
    Matched,
}

/// The policy's numbers, resolved on N.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// M: pods above N for moves.
    pub move_surge: u32,
    /// B: pods that may be missing for moves.
    pub move_unavailable: u32,
    /// How pods of a cluster that is not heard count.
    pub unknown: UnknownCountsAs,
    /// Percent of a lost cluster's pods that may be replaced while they possibly still run.
    pub max_overlap: u32,
    /// How many clusters may be treated as lost at a time.
    pub max_lost: u32,
    /// Seconds after which growth or a share that brings nothing is given up.
    pub progress_deadline: u32,
    /// When replicas are brought to the ideal split, rather than moved least.
    pub rebalance: Rebalance,
    /// What happens to replacements when a lost cluster returns.
    pub on_return: OnReturn,
    /// Whether raising the partition takes updated pods back.
    pub partition_rollback: bool,
    /// When a release without waves counts as failed; those with waves have a gate each (REL-7).
    pub gate: Gate,
}

/// `unknownCountsAs` of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnknownCountsAs {
    /// Pods of an Offline cluster count as unavailable.
    #[default]
    Unavailable,
    /// They count as the last report showed them.
    LastReported,
}

/// `failover.onReturn` of the policy (FO-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnReturn {
    /// Replacements stay where they are.
    #[default]
    Keep,
    /// Replicas move back to the ideal split.
    Failback,
}

/// One cluster as this round sees it.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// The cluster as the split sees it; what is granted to it is taken from the ledger.
    pub candidate: Candidate,
    /// The wave it belongs to.
    pub wave: usize,
    /// Its place inside the wave.
    pub order: i64,
    /// Whether its agent can store the stable revision before it writes the target.
    pub seeding: Seeding,
    /// Fingerprint of the names of its pods named for deletion; 0 with none.
    pub names: u64,
    /// The plan number of the Assignment that is stored for it; 0 with none.
    pub dispatched: u64,
    /// Whether a lost cluster is known to run nothing any more: fenced, or declared stopped.
    pub stopped: bool,
    /// Whether a drain of it takes pods with volumes of their own as well (CS-5).
    pub moves_stateful: bool,
}

impl Cluster {
    /// Whether plans reach it.
    pub fn is_heard(&self) -> bool {
        matches!(
            self.candidate.state,
            State::Ready
                | State::Unconfirmed
                | State::Cordoned
                | State::Draining
                | State::Excluded
                | State::Returning
        )
    }
}

/// All that must be saved of one object's plans.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    /// One line per cluster.
    pub rows: Vec<Row>,
    /// The revision being released, or resting.
    pub target: Revision,
    /// The last revision that was released fully.
    pub stable: Revision,
    /// N of the last round.
    pub population: u64,
    /// Replicas the user took away that are still granted.
    pub scale_down: u64,
    /// h_B: the part of the hole made by shrink-first moves.
    pub move_hole: u64,
    /// How far a rebalance has come.
    pub rebalance: RebalanceState,
    /// The release with waves, while there is one.
    pub release: Option<Release>,
    /// The target that was given up for the stable revision, until the template is edited again.
    pub rolled_back: Option<Revision>,
    /// The target whose images are to be pulled ahead by one ImagePullJob, once that is due (REL-11). Whoever makes the
    /// job looks here in every round: a crash between saving and making it must not lose it.
    pub pre_download: Option<Revision>,
    /// Why a release without waves stands still, if it does; one with waves keeps this itself.
    pub paused: Option<Paused>,
}

impl Ledger {
    /// A ledger for an object that was never planned.
    pub fn new(revision: Revision) -> Self {
        Self { target: revision, stable: revision, ..Self::default() }
    }

    /// Why the release stands still, if it does, with waves or without.
    pub fn paused(&self) -> Option<Paused> {
        self.release.as_ref().map_or(self.paused, |it| it.paused)
    }

    /// Lets a paused release go on, by the operator's word.
    pub fn resume(&mut self) {
        self.paused = None;
        if let Some(release) = &mut self.release {
            release.resume();
        }
    }

    /// Whether a release is going on.
    pub fn is_releasing(&self) -> bool {
        self.target != self.stable
    }
}
