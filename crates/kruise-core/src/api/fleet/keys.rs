//! Words of the fleet: annotations, labels, namespaces, condition types, reasons and events.

/// Annotation on objects: the policy to use, by name.
pub const POLICY: &str = "fleet.kruise.io/policy";
/// Annotation on objects placed as a whole: `PerCluster` copies the numbers as they are.
pub const NUMBERS: &str = "fleet.kruise.io/numbers";
/// Annotation on namespaces: limit of replicas and surge over all objects in them.
pub const QUOTA_PODS: &str = "fleet.kruise.io/quota-pods";
/// Label on MemberClusters: their place inside a wave, as an integer.
pub const ORDER: &str = "fleet.kruise.io/order";
/// Annotation on objects: wait until the release of the named other object has ended.
pub const AFTER: &str = "fleet.kruise.io/after";
/// Annotation: `true` denies deletion of an object, namespace, policy or MemberCluster.
pub const DELETION_PROTECTION: &str = "fleet.kruise.io/deletion-protection";
/// Annotation on namespaces: their own name, to confirm deletion of federated objects in them.
pub const CONFIRM_DELETE: &str = "fleet.kruise.io/confirm-delete";
/// Finalizer on federated objects: members must be cleaned up first.
pub const FINALIZER: &str = "fleet.kruise.io/members";
/// Annotation on member objects: UID of the hub that manages them.
pub const HUB_UID: &str = "fleet.kruise.io/hub-uid";
/// Annotation on member objects: the highest applied plan, as `term.seq`.
pub const APPLIED_PLAN: &str = "fleet.kruise.io/applied-plan";
/// Annotation on member objects: UID of the object on the hub.
pub const OBJECT_UID: &str = "fleet.kruise.io/object-uid";
/// Annotation on member objects: the epoch of the plan that was applied last.
pub const EPOCH: &str = "fleet.kruise.io/epoch";
/// Annotation on member objects: they existed before the fleet and are orphaned rather than deleted.
pub const ADOPTED: &str = "fleet.kruise.io/adopted";
/// Annotation on JoinRequests, filled in by admission: the bootstrap token they were made with.
pub const TOKEN: &str = "fleet.kruise.io/token";
/// Annotation on JoinRequests: an administrator's answer, `Approve` or `Deny`.
pub const DECISION: &str = "fleet.kruise.io/decision";
/// Label on Secrets that hold what is known of a bootstrap token.
pub const BOOTSTRAP: &str = "fleet.kruise.io/bootstrap";
/// Annotation on the ServiceAccounts of agents: the fingerprint of the key that their tokens are sealed to.
pub const AGENT_KEY: &str = "fleet.kruise.io/agent-key";
/// Annotation on objects and policies: a move was asked for by hand; another value asks again.
pub const REBALANCE: &str = "fleet.kruise.io/rebalance";
/// Annotation on the Leases of agents: what they have told, in one word ([`told`](super::told)); empty while that is not known.
pub const TOLD: &str = "fleet.kruise.io/told";
/// Annotation on FleetBindings: after the hub was restored from an older copy, clusters whose newer plans are taken over, as
/// JSON: the number of the plan, by cluster. Any other number is not meant.
pub const RECOVER: &str = "fleet.kruise.io/recover";
/// Annotation on MemberClusters: what is done with their objects when they are deleted, `Orphan`, `Force` or `Orphan,Force`; without
/// it the cluster is drained first (DEL-6).
pub const LEAVE: &str = "fleet.kruise.io/leave";
/// Annotation on a MemberCluster, `true`: the hub believes what it sees although many clusters vanished at once (STATE-3).
pub const TRUST_VIEW: &str = "fleet.kruise.io/trust-view";
/// Finalizer on MemberClusters: the cluster is emptied before it leaves the fleet.
pub const MEMBER_FINALIZER: &str = "fleet.kruise.io/shares";
/// Annotation on federated objects that are being deleted: `true` finishes that although clusters which are not heard have not
/// answered; they are told when they are back (DEL-2).
pub const FORCE_DETACH: &str = "fleet.kruise.io/force-detach";
/// Annotation on federated objects: UID of the FleetBinding whose shares are taken back; the object stays (DEL-5). That of a later
/// binding is another one, so that an old word never withdraws anything again.
pub const WITHDRAW: &str = "fleet.kruise.io/withdraw";
/// Label on ImagePullJobs that download images ahead of an update: UID of the CloneSet (REL-11).
pub const DOWNLOADS_FOR: &str = "fleet.kruise.io/downloads-for";
/// Label on everything the hub makes: the cluster it is for, cut where it is too long. On bindings also an annotation, in full.
pub const CLUSTER: &str = "fleet.kruise.io/cluster";

/// Namespace of bindings and releases of cluster-scoped objects.
pub const SYSTEM_NAMESPACE: &str = "fleet-system";
/// Namespace of the FleetRevisions that all clusters may read.
pub const CONTENT_NAMESPACE: &str = "fleet-content";
/// Start of the name of each cluster's own namespace.
pub const CLUSTER_NAMESPACE_PREFIX: &str = "fleet-";
/// Field manager under which agents apply member objects.
pub const AGENT_FIELD_MANAGER: &str = "fleet-agent";

/// What agents can do beyond the first version of the protocol.
pub mod features {
    /// Answer how many pods there is room for.
    pub const CAPACITY: &str = "Capacity";
    /// Put other registries into the images of both revisions.
    pub const IMAGE_REGISTRIES: &str = "ImageRegistries";
    /// Bring pull secrets that travel inside an Assignment to where a job finds them.
    pub const PULL_SECRETS: &str = "PullSecrets";
    /// Carry `scaleMaxUnavailable` of a share.
    pub const SCALE_MAX_UNAVAILABLE: &str = "ScaleMaxUnavailable";
    /// Take updated pods back when a partition is raised: the cluster's gate `CloneSetPartitionRollback` is on.
    pub const PARTITION_ROLLBACK: &str = "PartitionRollback";
}

/// Condition types of FleetBindings.
pub mod conditions {
    /// Clusters were chosen.
    pub const SCHEDULED: &str = "Scheduled";
    /// Every share is written.
    pub const DISPATCHED: &str = "Dispatched";
    /// Every cluster has applied its share.
    pub const APPLIED: &str = "Applied";
    /// Enough pods are available over the fleet.
    pub const AVAILABLE: &str = "Available";
    /// A release moves on.
    pub const PROGRESSING: &str = "Progressing";
    /// The target revision is everywhere.
    pub const RELEASED: &str = "Released";
    /// A budget is used up; the message names by whom.
    pub const BUDGET_HELD: &str = "BudgetHeld";
    /// Fewer pods are updated than asked for.
    pub const PARTITION_SHORT: &str = "PartitionShort";
    /// Some replicas have no cluster.
    pub const UNPLACED: &str = "Unplaced";
    /// A cluster that cannot be reached holds more replicas than it should.
    pub const SURPLUS_FROZEN: &str = "SurplusFrozen";
    /// A spread rule cannot be met.
    pub const SPREAD_UNSATISFIED: &str = "SpreadUnsatisfied";
    /// A member object differs from what was applied.
    pub const DRIFTED: &str = "Drifted";
    /// A member object belongs to somebody else.
    pub const CONFLICT: &str = "Conflict";
    /// Some reports are old.
    pub const STALE: &str = "Stale";
    /// No policy matches any more; members run on as they are.
    pub const SUSPENDED: &str = "Suspended";
    /// A cluster cannot be drained yet.
    pub const DRAIN_HELD: &str = "DrainHeld";
    /// On the federated object itself: the fleet does what the object asks for.
    pub const FLEET_READY: &str = "FleetReady";
}

/// Condition types of MemberClusters and of the hub.
pub mod cluster_conditions {
    /// The cluster's agent reports.
    pub const READY: &str = "Ready";
    /// The hub doubts its own view, because too many clusters vanished at once.
    pub const SELF_SUSPECT: &str = "SelfSuspect";
    /// The cluster is being removed from the fleet; reason and message say what is waited for.
    pub const LEAVING: &str = "Leaving";
}

/// Reasons of conditions.
pub mod reasons {
    /// The policy selects no cluster.
    pub const NO_CLUSTER: &str = "NoCluster";
    /// Clusters have not said yet how much room they have.
    pub const ASKING_FOR_ROOM: &str = "AskingForRoom";
    /// Secrets for the registry that a job names cannot be brought to clusters.
    pub const PULL_SECRETS: &str = "PullSecretsNotBrought";
    /// The cluster lacks the kind, version or feature.
    pub const API_NOT_SUPPORTED: &str = "APINotSupported";
    /// The hub does not have the body that a plan names.
    pub const BODY_MISSING: &str = "BodyMissing";
    /// The cluster is the hub's own.
    pub const HUB_CANNOT_BE_MEMBER: &str = "HubCannotBeMember";
    /// The name is one that the fleet keeps for itself.
    pub const NAME_RESERVED: &str = "NameReserved";
    /// The bootstrap token is unknown, used up, expired, or for another name.
    pub const TOKEN_REJECTED: &str = "TokenRejected";
    /// Somebody has to decide.
    pub const APPROVAL_NEEDED: &str = "ApprovalNeeded";
    /// A rule approved it.
    pub const APPROVED_BY_RULE: &str = "ApprovedByRule";
    /// An administrator approved it.
    pub const APPROVED_BY_HAND: &str = "ApprovedByHand";
    /// An administrator denied it.
    pub const DENIED_BY_HAND: &str = "DeniedByHand";
    /// The request cannot be read: its key is no key, or its labels are none that a MemberCluster can have.
    pub const INVALID_REQUEST: &str = "InvalidRequest";
    /// The CertificateSigningRequest that the request names is not there yet.
    pub const SIGNING_REQUEST_MISSING: &str = "SigningRequestMissing";
    /// The CertificateSigningRequest that the request names is none that the hub would approve.
    pub const SIGNING_REFUSED: &str = "SigningRefused";
    /// The cluster is a member that is not accepted any more.
    pub const REVOKED: &str = "Revoked";
    /// The fleet has as many clusters as it may have.
    pub const TOO_MANY_CLUSTERS: &str = "TooManyClusters";
    /// The name belongs to another cluster, or the key is not the pinned one.
    pub const IDENTITY_MISMATCH: &str = "IdentityMismatch";
    /// Another controller scales the member object.
    pub const SCALE_CONFLICT: &str = "ScaleConflict";
}

/// Reasons of events on objects, bindings and clusters.
pub mod events {
    /// Clusters were chosen.
    pub const SCHEDULED: &str = "Scheduled";
    /// A report cannot be true.
    pub const REPORT_REFUSED: &str = "ReportRefused";
    /// Clusters carry out newer plans than the hub knows.
    pub const RESTORED: &str = "Restored";
    /// Replicas moved from one cluster to another.
    pub const RESCHEDULED: &str = "Rescheduled";
    /// A wave began.
    pub const WAVE_STARTED: &str = "WaveStarted";
    /// A wave is updated and being watched.
    pub const WAVE_SOAKING: &str = "WaveSoaking";
    /// A wave is over.
    pub const WAVE_DONE: &str = "WaveDone";
    /// Somebody has to approve a wave.
    pub const APPROVAL_NEEDED: &str = "ApprovalNeeded";
    /// A release was paused.
    pub const RELEASE_PAUSED: &str = "ReleasePaused";
    /// A release was taken back.
    pub const ROLLED_BACK: &str = "RolledBack";
    /// A budget is used up.
    pub const BUDGET_HELD: &str = "BudgetHeld";
    /// Fewer pods are updated than asked for.
    pub const PARTITION_SHORT: &str = "PartitionShort";
    /// A cluster that is drained keeps some pods.
    pub const DRAIN_HELD: &str = "DrainHeld";
    /// Some replicas have no cluster.
    pub const UNPLACED: &str = "Unplaced";
    /// Secrets for the registry that a job names cannot be brought to clusters.
    pub const PULL_SECRETS: &str = "PullSecretsNotBrought";
    /// A cluster does not report any more.
    pub const CLUSTER_OFFLINE: &str = "ClusterOffline";
    /// A cluster was given up.
    pub const CLUSTER_LOST: &str = "ClusterLost";
    /// A cluster is back.
    pub const CLUSTER_RETURNED: &str = "ClusterReturned";
    /// Too many clusters vanished at once.
    pub const SELF_SUSPECT: &str = "SelfSuspect";
    /// A cluster stopped its own pods.
    pub const FENCED: &str = "Fenced";
    /// A pod to delete is named like pods of several clusters.
    pub const AMBIGUOUS_POD: &str = "AmbiguousPod";
    /// A member object was put right.
    pub const DRIFT_CORRECTED: &str = "DriftCorrected";
    /// Somebody keeps changing a member object.
    pub const DRIFT_FIGHT: &str = "DriftFight";
    /// Somebody else scales a member object.
    pub const SCALE_CONFLICT: &str = "ScaleConflict";
    /// A member object that was there before was taken over.
    pub const ADOPTED: &str = "Adopted";
    /// A member object belongs to somebody else.
    pub const CONFLICT: &str = "Conflict";
    /// A cluster is not the one it says it is.
    pub const IDENTITY_MISMATCH: &str = "IdentityMismatch";
    /// A bootstrap token was refused.
    pub const TOKEN_REJECTED: &str = "TokenRejected";
    /// A cluster has lost its rights on the hub.
    pub const REVOKED: &str = "Revoked";
    /// A cluster is being removed from the fleet.
    pub const CLUSTER_LEAVING: &str = "ClusterLeaving";
    /// A cluster has left the fleet.
    pub const CLUSTER_LEFT: &str = "ClusterLeft";
    /// A CertificateSigningRequest was refused.
    pub const SIGNING_REFUSED: &str = "SigningRefused";
}
