//! The ledger: all that must outlive a crash of the hub.
//!
//! It has the form of `scheduling`'s ledger, so that a round that is planned from a stored ledger comes out as if the
//! hub had never stopped. Zeros and absent values are left out: most rows of a fleet at rest are short.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{common::is_default, fleet::assignment::RevisionRef};

/// What was promised for one object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Ledger {
    /// Leadership term in which the ledger was last written.
    #[serde(default)]
    pub term: u64,
    /// Generation of the object that the last plan is for.
    #[serde(default)]
    pub generation: i64,
    /// N: replicas over the fleet at the last plan.
    #[serde(default)]
    pub population: u64,
    /// Replicas that the user took away and that are still granted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scale_down: u64,
    /// Names of pods to delete that several clusters had. They delete nothing while they are asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ambiguous_pods: Vec<String>,
    /// The part of the missing replicas that was made by moves which shrink first.
    #[serde(default, skip_serializing_if = "is_default")]
    pub move_hole: u64,
    /// The revision being released, or resting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<RevisionRef>,
    /// The revision last released everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stable: Option<RevisionRef>,
    /// The revision that was taken back automatically; a new template ends that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back: Option<RevisionRef>,
    /// The revision whose images are to be downloaded ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pre_download: Option<RevisionRef>,
    /// Why a release without waves stands still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    /// How far a release with waves has come. Its waves and approvals are in the Release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<ReleaseProgress>,
    /// Whether the ledger was made anew for an object that had one: clusters that have not answered yet may know plans that it
    /// has forgotten.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rebuilt: bool,
    /// How far a rebalance has come.
    #[serde(default, skip_serializing_if = "is_default")]
    pub rebalance: RebalanceProgress,
    /// When a job began and ended over the fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobTimes>,
    /// The highest number of a plan for a cluster that has no row any more. What a cluster is given next has a higher one (PROTO-3).
    #[serde(default, skip_serializing_if = "is_default")]
    pub last_seq: u64,
    /// The weights in use where they come from free room, by cluster; a moving estimate alone does not change them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<String, u32>,
    /// What was promised to each cluster, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clusters: BTreeMap<String, LedgerRow>,
}

/// When a job began and ended over the fleet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobTimes {
    /// When the first cluster was given a share of it. Its deadline runs from here.
    pub start_time: Time,
    /// When every cluster had said its last word. Its time to live runs from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
}

/// Why a release stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pause {
    /// What stopped it.
    pub cause: PauseCause,
    /// How many clusters or pods failed; 0 if an operator stopped it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub count: u32,
}

/// What stopped a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PauseCause {
    /// An operator.
    ByOperator,
    /// Too many clusters made no progress.
    ClustersFailed,
    /// Too many updated pods fail.
    PodsFailing,
}

/// How far a release with waves has come.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseProgress {
    /// Name of the Release.
    pub name: String,
    /// The wave at work, counted from 0.
    #[serde(default, skip_serializing_if = "is_default")]
    pub wave: u32,
    /// Where that wave is.
    #[serde(default)]
    pub stage: WaveStage,
    /// Seconds of its soak that have passed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub soaked_seconds: u32,
    /// Seconds for which its images have been downloaded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pulling_seconds: u32,
    /// Why it stands still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
}

/// Where a wave is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum WaveStage {
    /// Not begun: waits for an approval or for images.
    #[default]
    Waiting,
    /// Its clusters are updated.
    Rolling,
    /// All of them are done; time passes.
    Soaking,
    /// All of it is over, approvals included.
    Over,
}

/// How far a rebalance has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RebalanceProgress {
    /// Whether one was asked for and is not finished.
    #[serde(default, skip_serializing_if = "is_default")]
    pub asked: bool,
    /// The policy that was seen last: the first bytes of a hash of its UID. One of the same name may be another one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub policy: String,
    /// Generation of the policy that was seen last.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy_generation: u64,
    /// Replicas moved in this interval.
    #[serde(default, skip_serializing_if = "is_default")]
    pub moved: u64,
    /// Seconds of this interval that have passed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub passed_seconds: u32,
}

/// What was promised to one cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerRow {
    /// What was last written into the cluster's Assignment, or is about to be.
    #[serde(default, skip_serializing_if = "is_default")]
    pub share: LedgerShare,
    /// The cluster's epoch as this object sees it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub epoch: u64,
    /// r: replicas.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replicas: LedgerColumn,
    /// u: pods of the target revision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub updated: LedgerColumn,
    /// U: pods that may be down on purpose.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unavailable: LedgerColumn,
    /// S: pods above the replicas.
    #[serde(default, skip_serializing_if = "is_default")]
    pub surge: LedgerColumn,
    /// Downloads at the same time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub parallelism: LedgerColumn,
    /// Seconds of a job's time that had passed when the cluster was given its share.
    #[serde(default, skip_serializing_if = "is_default")]
    pub late_seconds: u32,
    /// Replicas granted by growth and not yet reported available.
    #[serde(default, skip_serializing_if = "is_default")]
    pub moving: u32,
    /// Seconds for which growth has been starting without any of it becoming available.
    #[serde(default, skip_serializing_if = "is_default")]
    pub moving_seconds: u32,
    /// Seconds for which the share of unavailable pods was held and not used.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unused_seconds: u32,
    /// Pods of earlier targets that may still be there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub past: Vec<PastTarget>,
    /// Pods of the target that were due here when it was last worked out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<u32>,
    /// Whether the release lets the cluster have the target.
    #[serde(default, skip_serializing_if = "is_default")]
    pub admitted: bool,
    /// Seconds for which it has been admitted and not done.
    #[serde(default, skip_serializing_if = "is_default")]
    pub busy_seconds: u32,
    /// Whether the cluster was given up and has not returned.
    #[serde(default, skip_serializing_if = "is_default")]
    pub lost: bool,
    /// Whether its pods are counted and not granted.
    #[serde(default, skip_serializing_if = "is_default")]
    pub counted: bool,
    /// Whether its pods are only ever updated in place.
    #[serde(default, skip_serializing_if = "is_default")]
    pub in_place_only: bool,
    /// The last report that was taken into account; older ones are dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<LedgerReport>,
    /// Whether that report acknowledges the newest plan.
    #[serde(default, skip_serializing_if = "is_default")]
    pub acknowledged: bool,
}

/// One number handed out to one cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LedgerColumn {
    /// The value last written.
    #[serde(default, skip_serializing_if = "is_default")]
    pub grant: u32,
    /// The largest value the cluster could still be acting on, or whose effect is still there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub exposure: u32,
}

/// What was last written for one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerShare {
    /// Number of the plan.
    #[serde(default, skip_serializing_if = "is_default")]
    pub seq: u64,
    /// Epoch that the plan holds in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub epoch: u64,
    /// r: replicas.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replicas: u32,
    /// u: pods that may carry the body's revision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub updated: u32,
    /// U: pods that may be down on purpose.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unavailable: u32,
    /// S: pods above the replicas.
    #[serde(default, skip_serializing_if = "is_default")]
    pub surge: u32,
    /// Limit of unavailable pods while pods are added, where the object has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_unavailable: Option<u32>,
    /// Whether existing pods are left as they are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
    /// Hash of the revision that the cluster was given.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Hash of the revision that the rest of its pods have.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stable: String,
    /// Fingerprint of the names of its pods to delete.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub named: String,
}

/// Pods of an earlier target.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PastTarget {
    /// Hash of the revision.
    pub revision: String,
    /// How many pods of it there may be.
    pub exposure: u32,
}

/// The last report of a cluster that was taken into account.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LedgerReport {
    /// Which start of the agent it came from.
    #[serde(default, skip_serializing_if = "is_default")]
    pub incarnation: u64,
    /// Its number.
    #[serde(default, skip_serializing_if = "is_default")]
    pub number: u64,
    /// The plan that was applied.
    #[serde(default, skip_serializing_if = "is_default")]
    pub seq: u64,
    /// Epoch of that plan.
    #[serde(default, skip_serializing_if = "is_default")]
    pub epoch: u64,
    /// The newest epoch that the agent knew.
    #[serde(default, skip_serializing_if = "is_default")]
    pub known_epoch: u64,
    /// Whether the member's controller had observed the plan.
    #[serde(default, skip_serializing_if = "is_default")]
    pub observed: bool,
    /// Echo of the applied replicas.
    #[serde(default, skip_serializing_if = "is_default")]
    pub replicas: u32,
    /// Hash of the applied body.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Hash of the applied stable revision.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stable: String,
    /// Pods there were.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pods: u32,
    /// Pods that were available.
    #[serde(default, skip_serializing_if = "is_default")]
    pub available: u32,
    /// Pods of the body's revision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub updated: u32,
    /// Pods of the body's revision that were available.
    #[serde(default, skip_serializing_if = "is_default")]
    pub updated_available: u32,
    /// Pods of the stable revision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub at_stable: u32,
    /// Pods of neither revision that were not available.
    #[serde(default, skip_serializing_if = "is_default")]
    pub neither_unavailable: u32,
    /// Pods marked for deletion.
    #[serde(default, skip_serializing_if = "is_default")]
    pub marked: u32,
    /// Pods of the body's revision that were failing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failing: u32,
    /// Matched pods that the update's selector leaves out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unselected: u32,
    /// How many of those are of the body's revision all the same.
    #[serde(default, skip_serializing_if = "is_default")]
    pub unselected_updated: u32,
    /// Downloads that were running.
    #[serde(default, skip_serializing_if = "is_default")]
    pub active: u32,
    /// Nodes that had not finished, running ones included.
    #[serde(default, skip_serializing_if = "is_default")]
    pub nodes_left: u32,
}
