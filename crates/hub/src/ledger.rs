//! The promises of `scheduling` in the form in which a FleetBinding keeps them, and back.
//!
//! Nothing is lost on the way: a round planned from what was read plans what it would have planned from memory.

mod adopt;
mod slots;

use std::collections::BTreeMap;

use kruise_core::api::fleet::{
    assignment::RevisionRef,
    binding::{
        Ledger as Saved, LedgerColumn, LedgerReport, LedgerRow, LedgerShare, PastTarget as SavedPast, Pause,
        PauseCause, RebalanceProgress, ReleaseProgress, WaveStage,
    },
};
use scheduling::{
    ledger::{Column, PastTarget, Report, Revision, Row, Share},
    moves::{PolicyMark, RebalanceState},
    names::ClusterName,
    release::{Paused, Release, Stage},
    round::Ledger,
};

pub use adopt::{adopt, expose, take_over};
pub use slots::{read_slots, write_slots};

/// The revision that a hash stands for; 0 for text that is no hash.
pub fn revision(hash: &str) -> Revision {
    Revision(u64::from_str_radix(hash, 16).unwrap_or(0))
}

/// The hash of a revision as it is stored; none at all for revision 0.
pub fn hash(revision: Revision) -> String {
    if revision == Revision::default() { String::new() } else { revision.to_string() }
}

/// Reads the ledger for these clusters, in their order; a cluster without a row has an empty one. A release that was
/// going on goes on with `release`, which holds its waves and approvals.
pub fn read(saved: &Saved, clusters: &[ClusterName], release: Option<Release>) -> Ledger {
    let of = |it: &Option<RevisionRef>| it.as_ref().map(|it| revision(&it.hash));
    let row = |name: &ClusterName| match saved.clusters.get(name.as_str()) {
        Some(row) => read_row(name, row),
        None => Row::new(name.clone()),
    };
    Ledger {
        rows: clusters.iter().map(row).collect(),
        target: of(&saved.target).unwrap_or_default(),
        stable: of(&saved.stable).unwrap_or_default(),
        population: saved.population,
        scale_down: saved.scale_down,
        move_hole: saved.move_hole,
        rebalance: RebalanceState {
            asked: saved.rebalance.asked,
            policy: PolicyMark {
                id: revision(&saved.rebalance.policy).0,
                generation: saved.rebalance.policy_generation,
            },
            moved: saved.rebalance.moved,
            passed: saved.rebalance.passed_seconds,
        },
        release: release.zip(saved.release.as_ref()).map(|(release, progress)| Release {
            wave: progress.wave as usize,
            stage: read_stage(progress.stage),
            soaked: progress.soaked_seconds,
            pulling: progress.pulling_seconds,
            paused: progress.paused.map(read_pause),
            ..release
        }),
        rolled_back: of(&saved.rolled_back),
        pre_download: of(&saved.pre_download),
        paused: saved.paused.map(read_pause),
    }
}

/// Writes the ledger down. `name` finds the FleetRevision of a revision; `release` is the name of the Release, where
/// one is going on. What only the hub knows (term, generation, weights in use) stays as it is in `saved`.
pub fn write(
    saved: &mut Saved,
    ledger: &Ledger,
    release: Option<&str>,
    name: impl Fn(Revision) -> RevisionRef,
) {
    let Ledger {
        rows,
        target,
        stable,
        population,
        scale_down,
        move_hole,
        rebalance,
        release: going_on,
        rolled_back,
        pre_download,
        paused,
    } = ledger;
    saved.target = Some(name(*target));
    saved.stable = Some(name(*stable));
    saved.rolled_back = rolled_back.map(&name);
    saved.pre_download = pre_download.map(&name);
    (saved.population, saved.scale_down, saved.move_hole) = (*population, *scale_down, *move_hole);
    saved.rebalance = RebalanceProgress {
        asked: rebalance.asked,
        policy: hash(Revision(rebalance.policy.id)),
        policy_generation: rebalance.policy.generation,
        moved: rebalance.moved,
        passed_seconds: rebalance.passed,
    };
    saved.paused = paused.map(write_pause);
    saved.release = going_on.as_ref().map(|it| ReleaseProgress {
        name: release.unwrap_or_default().to_owned(),
        wave: it.wave as u32,
        stage: write_stage(it.stage),
        soaked_seconds: it.soaked,
        pulling_seconds: it.pulling,
        paused: it.paused.map(write_pause),
    });
    keep_only(saved, rows.iter().map(|it| &it.cluster));
    for row in rows {
        let kept = saved.clusters.entry(row.cluster.to_string()).or_default();
        *kept = LedgerRow { parallelism: kept.parallelism, ..write_row(row) };
    }
}

fn keep_only<'a>(saved: &mut Saved, clusters: impl Iterator<Item = &'a ClusterName>) {
    let known: BTreeMap<&str, ()> = clusters.map(|it| (it.as_str(), ())).collect();
    saved.clusters.retain(|name, _| known.contains_key(name.as_str()));
}

fn read_row(name: &ClusterName, saved: &LedgerRow) -> Row {
    let LedgerShare { body, stable, named, .. } = &saved.share;
    Row {
        cluster: name.clone(),
        share: Share {
            seq: saved.share.seq,
            epoch: saved.share.epoch,
            replicas: saved.share.replicas,
            updated: saved.share.updated,
            unavailable: saved.share.unavailable,
            surge: saved.share.surge,
            scale_unavailable: saved.share.scale_unavailable,
            paused: saved.share.paused,
            body: revision(body),
            stable: revision(stable),
            named: revision(named).0,
        },
        epoch: saved.epoch,
        replicas: read_column(saved.replicas),
        updated: read_column(saved.updated),
        unavailable: read_column(saved.unavailable),
        surge: read_column(saved.surge),
        moving: saved.moving,
        past: saved
            .past
            .iter()
            .map(|it| PastTarget { revision: revision(&it.revision), exposure: it.exposure })
            .collect(),
        due: saved.due,
        admitted: saved.admitted,
        busy_for: saved.busy_seconds,
        lost: saved.lost,
        counted: saved.counted,
        in_place_only: saved.in_place_only,
        report: saved.report.as_ref().map(read_report),
        acknowledged: saved.acknowledged,
        moving_for: saved.moving_seconds,
        unused_for: saved.unused_seconds,
    }
}

fn write_row(row: &Row) -> LedgerRow {
    let Row {
        cluster: _,
        share,
        epoch,
        replicas,
        updated,
        unavailable,
        surge,
        moving,
        past,
        due,
        admitted,
        busy_for,
        lost,
        counted,
        in_place_only,
        report,
        acknowledged,
        moving_for,
        unused_for,
    } = row;
    LedgerRow {
        share: write_share(share),
        epoch: *epoch,
        replicas: write_column(*replicas),
        updated: write_column(*updated),
        unavailable: write_column(*unavailable),
        surge: write_column(*surge),
        parallelism: LedgerColumn::default(),
        late_seconds: 0,
        moving: *moving,
        moving_seconds: *moving_for,
        unused_seconds: *unused_for,
        past: past
            .iter()
            .map(|it| SavedPast { revision: hash(it.revision), exposure: it.exposure })
            .collect(),
        due: *due,
        admitted: *admitted,
        busy_seconds: *busy_for,
        lost: *lost,
        counted: *counted,
        in_place_only: *in_place_only,
        report: report.as_ref().map(write_report),
        acknowledged: *acknowledged,
    }
}

fn write_share(share: &Share) -> LedgerShare {
    let Share {
        seq,
        epoch,
        replicas,
        updated,
        unavailable,
        surge,
        scale_unavailable,
        paused,
        body,
        stable,
        named,
    } = *share;
    LedgerShare {
        seq,
        epoch,
        replicas,
        updated,
        unavailable,
        surge,
        scale_unavailable,
        paused,
        body: hash(body),
        stable: hash(stable),
        named: hash(Revision(named)),
    }
}

fn read_report(saved: &LedgerReport) -> Report {
    Report {
        incarnation: saved.incarnation,
        number: saved.number,
        seq: saved.seq,
        epoch: saved.epoch,
        known_epoch: saved.known_epoch,
        observed: saved.observed,
        replicas: saved.replicas,
        body: revision(&saved.body),
        stable: revision(&saved.stable),
        pods: saved.pods,
        available: saved.available,
        updated: saved.updated,
        updated_available: saved.updated_available,
        at_stable: saved.at_stable,
        neither_unavailable: saved.neither_unavailable,
        marked: saved.marked,
        failing: saved.failing,
        unselected: saved.unselected,
        unselected_updated: saved.unselected_updated,
    }
}

fn write_report(report: &Report) -> LedgerReport {
    let Report {
        incarnation,
        number,
        seq,
        epoch,
        known_epoch,
        observed,
        replicas,
        body,
        stable,
        pods,
        available,
        updated,
        updated_available,
        at_stable,
        neither_unavailable,
        marked,
        failing,
        unselected,
        unselected_updated,
    } = *report;
    LedgerReport {
        incarnation,
        number,
        seq,
        epoch,
        known_epoch,
        observed,
        replicas,
        body: hash(body),
        stable: hash(stable),
        pods,
        available,
        updated,
        updated_available,
        at_stable,
        neither_unavailable,
        marked,
        failing,
        unselected,
        unselected_updated,
        active: 0,
        nodes_left: 0,
    }
}

fn read_column(LedgerColumn { grant, exposure }: LedgerColumn) -> Column {
    Column { grant, exposure }
}

fn write_column(Column { grant, exposure }: Column) -> LedgerColumn {
    LedgerColumn { grant, exposure }
}

fn read_pause(pause: Pause) -> Paused {
    match pause.cause {
        PauseCause::ByOperator => Paused::ByOperator,
        PauseCause::ClustersFailed => Paused::ClustersFailed { failed: pause.count },
        PauseCause::PodsFailing => Paused::PodsFailing { failing: pause.count },
    }
}

fn write_pause(paused: Paused) -> Pause {
    let (cause, count) = match paused {
        Paused::ByOperator => (PauseCause::ByOperator, 0),
        Paused::ClustersFailed { failed } => (PauseCause::ClustersFailed, failed),
        Paused::PodsFailing { failing } => (PauseCause::PodsFailing, failing),
    };
    Pause { cause, count }
}

fn read_stage(stage: WaveStage) -> Stage {
    match stage {
        WaveStage::Waiting => Stage::Waiting,
        WaveStage::Rolling => Stage::Rolling,
        WaveStage::Soaking => Stage::Soaking,
        WaveStage::Over => Stage::Over,
    }
}

fn write_stage(stage: Stage) -> WaveStage {
    match stage {
        Stage::Waiting => WaveStage::Waiting,
        Stage::Rolling => WaveStage::Rolling,
        Stage::Soaking => WaveStage::Soaking,
        Stage::Over => WaveStage::Over,
    }
}

#[cfg(test)]
mod tests;
