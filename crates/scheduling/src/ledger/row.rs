use super::{Column, Order, Report, ReportRefused, Revision, Taken};
use crate::{names::ClusterName, numbers::MAX_REPLICAS};

/// One cluster's share as it is written into its Assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// Number of the plan; only grows.
    pub seq: u64,
    /// The cluster's epoch under which the plan holds.
    pub epoch: u64,
    /// Replicas of the member object.
    pub replicas: u32,
    /// How many of them may carry the body's revision; the member's partition is the rest.
    pub updated: u32,
    /// The member's maxUnavailable; with `surge` 0 as well it is written as BUD-9 says.
    pub unavailable: u32,
    /// The member's maxSurge.
    pub surge: u32,
    /// The member's scaleStrategy.maxUnavailable, where the object has one.
    pub scale_unavailable: Option<u32>,
    /// Whether the member is paused.
    pub paused: bool,
    /// The revision written into the member's template.
    pub body: Revision,
    /// The revision the rest of the pods have, or get.
    pub stable: Revision,
    /// Fingerprint of the pods of this cluster named for deletion; 0 with none.
    pub named: u64,
}

impl Share {
    /// Whether the member may run no pod down and no pod extra: written paused, maxUnavailable 0, maxSurge 1 (BUD-9).
    pub fn is_still(&self) -> bool {
        self.unavailable == 0 && self.surge == 0
    }

    /// Whether both ask the same of the member.
    pub fn asks_the_same(&self, other: &Self) -> bool {
        Self { seq: 0, ..*self } == Self { seq: 0, ..*other }
    }
}

/// Pods of a superseded target that may still be in a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastTarget {
    /// The superseded target.
    pub revision: Revision,
    /// How many pods of it there may be.
    pub exposure: u32,
}

/// The ledger's line for one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The cluster.
    pub cluster: ClusterName,
    /// What was written last.
    pub share: Share,
    /// The cluster's present epoch; raised when it is lost.
    pub epoch: u64,
    /// Replicas.
    pub replicas: Column,
    /// Pods of the target revision.
    pub updated: Column,
    /// Pods that may be down on purpose.
    pub unavailable: Column,
    /// Pods above the replicas.
    pub surge: Column,
    /// Replicas granted by growth and not yet reported available.
    pub moving: u32,
    /// Exposures to earlier targets, in case one of them becomes the target again.
    pub past: Vec<PastTarget>,
    /// Pods of the target due here when it was last worked out for this target.
    pub due: Option<u32>,
    /// Whether the release lets this cluster have the target.
    pub admitted: bool,
    /// Seconds for which it has been admitted and not done.
    pub busy_for: u32,
    /// Whether the cluster was given up and has not returned.
    pub lost: bool,
    /// Whether its pods are counted, not granted: a SidecarSet's.
    pub counted: bool,
    /// Whether the member can carry no maxSurge: without a share it is written with maxUnavailable 1 (BUD-9).
    pub in_place_only: bool,
    /// The last report taken.
    pub report: Option<Report>,
    /// Whether that report acknowledges the newest plan.
    pub acknowledged: bool,
    /// Seconds for which growth has been starting without any of it becoming available.
    pub moving_for: u32,
    /// Seconds for which the share of unavailability was held and not used.
    pub unused_for: u32,
}

impl Row {
    /// The line of a cluster that was never given anything.
    pub fn new(cluster: ClusterName) -> Self {
        Self {
            cluster,
            share: Share::default(),
            epoch: 0,
            replicas: Column::default(),
            updated: Column::default(),
            unavailable: Column::default(),
            surge: Column::default(),
            moving: 0,
            past: Vec::new(),
            due: None,
            admitted: false,
            busy_for: 0,
            lost: false,
            counted: false,
            in_place_only: false,
            report: None,
            acknowledged: false,
            moving_for: 0,
            unused_for: 0,
        }
    }

    /// The line of a cluster whose pods are there already: it is only told which of them may be updated.
    pub fn counted(cluster: ClusterName) -> Self {
        Self { counted: true, ..Self::new(cluster) }
    }

    /// Whether the cluster's body is `target`: it has been given the target.
    pub fn was_given(&self, target: Revision) -> bool {
        self.share.seq > 0 && self.share.body == target
    }

    /// Pods of `target` the last report shows. A lost cluster cannot claim more than it was ever granted.
    pub fn reported_updated(&self, target: Revision) -> u32 {
        let reported = self.report.map_or(0, |it| if it.body == target { it.updated } else { 0 });
        if self.lost {
            reported.min(self.replicas.exposure.saturating_add(self.surge.exposure))
        } else {
            reported
        }
    }

    /// Replicas the last report shows to be missing: never more than there may be.
    pub fn reported_unavailable(&self) -> u32 {
        self.report.map_or(0, |it| it.unavailable().min(self.replicas.exposure))
    }

    /// Replicas granted that the hub has seen available at some time.
    pub fn settled(&self) -> u32 {
        self.replicas.grant.saturating_sub(self.moving)
    }

    /// Notes that `share` is about to be written; `grown` of its replicas are new, `moving` of the old ones start still.
    pub fn write(&mut self, share: Share, target: Revision, moving: u32) {
        self.replicas.write(share.replicas);
        self.unavailable.write(share.unavailable);
        self.surge.write(share.surge);
        self.updated.write(if share.body == target { share.updated } else { 0 });
        self.share = Share { seq: self.share.seq + 1, ..share };
        self.moving = moving;
        self.acknowledged = false;
    }

    /// Takes a report (PROTO-4, PROTO-10). `target` is the fleet's present target.
    pub fn take(&mut self, report: Report, target: Revision) -> Taken {
        let last = self.report.map(|it| (it.incarnation, it.number));
        match Order::of(last, (report.incarnation, report.number)) {
            Order::Newer => {}
            Order::NotNewer => return Taken::NotNewer,
            Order::Absurd => return Taken::Refused(ReportRefused::AbsurdNumber),
        }
        if let Err(why) = self.check(&report) {
            return Taken::Refused(why);
        }
        self.report = Some(report);
        // A cluster that was given up first has to be taken back (FO-6).
        self.acknowledged = !self.lost
            && report.seq == self.share.seq
            && report.observed
            && report.epoch >= self.epoch.max(report.known_epoch);
        if !self.acknowledged {
            return Taken::Noted;
        }
        self.acknowledge(&report, target);
        Taken::Acknowledged
    }

    /// Whether a report can be true (SEC-5).
    pub fn check(&self, report: &Report) -> Result<(), ReportRefused> {
        // The epoch is the hub's to raise.
        if report.known_epoch > self.epoch || report.epoch > self.epoch {
            return Err(ReportRefused::UnknownEpoch);
        }
        // A lost cluster may have been declared stopped before its last words of the old epoch arrived; counted pods
        // are nobody's grant. Only what any cluster may have bounds those.
        let free = self.lost || self.counted || report.epoch < self.epoch;
        if free && report.pods.max(report.replicas) > MAX_REPLICAS {
            return Err(ReportRefused::TooManyPods);
        }
        let granted = u64::from(self.replicas.exposure) + u64::from(self.surge.exposure);
        let (pods, replicas) =
            if free { (u64::from(MAX_REPLICAS), MAX_REPLICAS) } else { (granted, self.replicas.exposure) };
        report.check(pods, replicas, &self.share)
    }

    fn acknowledge(&mut self, report: &Report, target: Revision) {
        // Such a member may take one pod down whenever it has pods to delete, share or not.
        let may_delete = self.in_place_only && (report.pods > self.replicas.grant || report.marked > 0);
        self.unavailable.acknowledge(report.unavailable().max(u32::from(may_delete)));
        self.surge.acknowledge(report.pods.saturating_sub(self.replicas.grant));
        self.replicas.acknowledge(report.pods.saturating_sub(self.surge.grant));
        // A target that came back may have left pods here that a withheld body does not name.
        self.updated.acknowledge(report.most_of(target));
        let moving = self.moving.min(self.replicas.grant.saturating_sub(report.available));
        if moving < self.moving {
            self.moving_for = 0;
        }
        self.moving = moving;
        // Pods of an earlier target are now among the echoed revisions or among those of neither.
        for past in &mut self.past {
            past.exposure = past.exposure.min(report.most_of(past.revision));
        }
        self.past.retain(|it| it.exposure > 0);
    }

    /// Starts to count for `new` instead of `old` (REV-10). A target that comes back finds its exposure again.
    pub fn retarget(&mut self, old: Revision, new: Revision) {
        if self.updated.exposure > 0 {
            self.past.retain(|it| it.revision != old);
            self.past.push(PastTarget { revision: old, exposure: self.updated.exposure });
        }
        let kept = self.past.iter().find(|it| it.revision == new).map_or(0, |it| it.exposure);
        self.past.retain(|it| it.revision != new);
        self.updated = Column { grant: 0, exposure: kept };
        if self.was_given(new) {
            self.updated.write(self.share.updated);
        }
        self.due = None;
        self.admitted = false;
        self.busy_for = 0;
    }

    /// Lets `seconds` pass.
    pub fn age(&mut self, seconds: u32) {
        self.moving_for = if self.moving > 0 { self.moving_for.saturating_add(seconds) } else { 0 };
        self.busy_for = if self.admitted { self.busy_for.saturating_add(seconds) } else { 0 };
        let used = self.report.map_or(0, |it| it.unavailable());
        if self.unavailable.grant > used {
            self.unused_for = self.unused_for.saturating_add(seconds);
        } else if used > 0 {
            self.unused_for = 0;
        }
    }

    /// The cluster is judged lost: its share of unavailability is free at once, the rest stays held (FO-9).
    pub fn lose(&mut self) {
        self.lost = true;
        self.epoch += 1;
        self.moving = 0;
        self.unavailable = Column::default();
        self.acknowledged = false;
    }
}
