use super::{Decision, Mismatch, Why, reason::Pulls};
use crate::{
    ledger::{Column, Order, ReportRefused, Taken},
    names::ClusterName,
    pulls::{self, Puller, Slots},
};

/// The ledger's line of an ImagePullJob for one cluster: parallelism as a column like the others (IPJ-1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotRow {
    /// The cluster.
    pub cluster: ClusterName,
    /// Number of the plan; only grows.
    pub seq: u64,
    /// Pulls at a time.
    pub slots: Column,
    /// The last report taken.
    pub report: Option<SlotReport>,
    /// Whether that report acknowledges the newest plan.
    pub acknowledged: bool,
}

/// What a member says about its copy of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlotReport {
    /// Which start of the agent wrote this; only grows.
    pub incarnation: u64,
    /// Number of the report within its incarnation; only grows.
    pub number: u64,
    /// The plan that was applied when the counts were read.
    pub seq: u64,
    /// Whether the local controller had observed it.
    pub observed: bool,
    /// Pulls running.
    pub active: u32,
    /// Nodes that have not finished, running ones included.
    pub left: u32,
}

/// One cluster as the round sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotCluster {
    /// Settles ties.
    pub rank: u64,
    /// Whether it is heard.
    pub reach: SlotReach,
    /// Nodes there are to serve; a report may only tell of fewer.
    pub nodes: u32,
}

/// Whether a cluster's slots can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotReach {
    /// It is heard.
    Heard,
    /// It is not: the slots it may be using stay held.
    Offline,
    /// It is lost, or the job's deadline is over: what it holds is free.
    Lost,
}

impl SlotRow {
    /// The line of a cluster that was never given anything.
    pub fn new(cluster: ClusterName) -> Self {
        Self { cluster, seq: 0, slots: Column::default(), report: None, acknowledged: false }
    }

    /// Takes a report, unless it is not newer than the last one or cannot be true (PROTO-10).
    pub fn take(&mut self, report: SlotReport) -> Taken {
        let last = self.report.map(|it| (it.incarnation, it.number));
        match Order::of(last, (report.incarnation, report.number)) {
            Order::Newer => {}
            Order::NotNewer => return Taken::NotNewer,
            Order::Absurd => return Taken::Refused(ReportRefused::AbsurdNumber),
        }
        if report.seq > self.seq {
            return Taken::Refused(ReportRefused::UnknownPlan);
        }
        self.report = Some(report);
        self.acknowledged = report.seq == self.seq && report.observed;
        if !self.acknowledged {
            return Taken::Noted;
        }
        self.slots.acknowledge(report.active);
        Taken::Acknowledged
    }
}

/// What one round of pulls comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotPlan {
    /// The rows, to be saved before any slots are written.
    pub rows: Vec<SlotRow>,
    /// Places of those whose slots changed, shrinking ones first.
    pub written: Vec<usize>,
    /// What was decided, by rank.
    pub decisions: Vec<Decision>,
}

/// Plans one round of pulls. There must be one row per cluster, in the same order.
///
/// Pulls still running count until a report shows them over, so the sum over the fleet never passes `parallelism`.
pub fn plan_slots(
    parallelism: u32,
    clusters: &[SlotCluster],
    rows: &[SlotRow],
) -> Result<SlotPlan, Mismatch> {
    if clusters.len() != rows.len() {
        return Err(Mismatch { place: clusters.len().min(rows.len()) });
    }
    let pullers: Vec<Puller> = clusters.iter().zip(rows).map(|(cluster, row)| puller(cluster, row)).collect();
    let goals = pulls::share(parallelism, &pullers);
    let mut rows = rows.to_vec();
    let exposed: i64 = clusters
        .iter()
        .zip(&rows)
        .filter(|(cluster, _)| cluster.reach != SlotReach::Lost)
        .map(|(_, row)| i64::from(row.slots.exposure))
        .sum();
    let mut spare = i64::from(parallelism) - exposed;
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_unstable_by_key(|it| (clusters[*it].rank, &rows[*it].cluster));
    let (mut shrinking, mut growing, mut decisions) = (Vec::new(), Vec::new(), Vec::new());
    for place in order {
        let row = &mut rows[place];
        let mut decide = |why: Pulls| {
            decisions.push(Decision { cluster: Some(row.cluster.clone()), why: Why::Pulls(why) })
        };
        match clusters[place].reach {
            SlotReach::Heard => {}
            SlotReach::Offline if row.slots.exposure > 0 => {
                decide(Pulls::Held(row.slots.exposure));
                continue;
            }
            SlotReach::Offline | SlotReach::Lost => continue,
        }
        let covered = i64::from(row.slots.exposure);
        let most = (covered + spare).max(i64::from(row.slots.grant));
        let slots = i64::from(goals[place]).min(most) as u32;
        if slots < goals[place] {
            decide(Pulls::Wait(goals[place] - slots));
        }
        if slots == row.slots.grant && row.seq > 0 {
            continue;
        }
        spare -= (i64::from(slots) - covered).max(0);
        if slots > row.slots.grant {
            decide(Pulls::Granted(slots));
            growing.push(place)
        } else {
            if slots < row.slots.grant {
                decide(Pulls::Lowered(slots));
            }
            shrinking.push(place)
        }
        row.slots.write(slots);
        row.seq += 1;
        row.acknowledged = false;
    }
    shrinking.append(&mut growing);
    Ok(SlotPlan { rows, written: shrinking, decisions })
}

fn puller(cluster: &SlotCluster, row: &SlotRow) -> Puller {
    Puller {
        name: row.cluster.clone(),
        rank: cluster.rank,
        // A report cannot draw slots for nodes that are not there.
        nodes_left: row.report.map_or(cluster.nodes, |it| it.left.min(cluster.nodes)),
        granted: row.slots.grant,
        slots: match cluster.reach {
            SlotReach::Heard => Slots::Free,
            SlotReach::Offline => Slots::Held(row.slots.exposure),
            SlotReach::Lost => Slots::Held(0),
        },
    }
}
