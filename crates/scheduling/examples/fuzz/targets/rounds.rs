//! Whole planning rounds, reports, steps of a release and pull slots.

use scheduling::{
    ledger::{Column, Report, Revision, Row, Share, Taken},
    moves::{PolicyMark, Rebalance, Trigger},
    names::ClusterName,
    numbers::{IntOrPercent, Percent},
    partition::Seeding,
    release::{
        self, Approval, ClusterView, Gate, OnFailure, PreDownload, PrePull, PrePullView, Release, Stage,
        View, Wave,
    },
    round::{
        self, Cluster, Ledger, Numbers, OnReturn, Population, Rules, SlotCluster, SlotPlan, SlotReach,
        SlotReport, SlotRow, Spec, UnknownCountsAs, World,
    },
    split::{Candidate, Mode, Spread, WhenShort},
};

use super::{Bytes, split};

const MOST: u32 = 1_000_000;

/// A few rounds with any reports between them.
pub(crate) fn plan_any(bytes: &mut Bytes) {
    let count = 1 + bytes.below(6);
    let mut clusters: Vec<Cluster> = (0..count).map(|it| cluster(bytes, it)).collect();
    let mut ledger = Ledger::new(Revision(1));
    ledger.rows = clusters.iter().map(|it| Row::new(it.candidate.name.clone())).collect();
    let waves = if bytes.below(2) == 0 { Vec::new() } else { waves(bytes) };
    let population = bytes.pick(&[Population::Granted, Population::Granted, Population::Matched]);
    if population == Population::Matched {
        ledger.rows.iter_mut().for_each(|it| it.counted = true);
    }
    let spread: Vec<Spread> = (0..bytes.below(3)).map(|_| split::rule(bytes)).collect();
    for _ in 0..6 {
        let spec = Spec { population, ..spec(bytes) };
        for (index, it) in clusters.iter_mut().enumerate() {
            let (rank, named) = (it.candidate.rank, it.candidate.named_for_deletion);
            let drawn = split::cluster(bytes, index as u64, spread.len() as u64);
            it.candidate = Candidate { rank, named_for_deletion: named, ..drawn };
        }
        let world = World {
            spec,
            rules: rules(bytes),
            mode: bytes.pick(&[Mode::Divided, Mode::Duplicated, Mode::Aggregated]),
            selects_none: bytes.below(20) == 0,
            when_short: bytes.pick(&[WhenShort::Hold, WhenShort::Overcommit]),
            spread: &spread,
            waves: &waves,
            after: bytes.pick(&[None, None, None, Some("another")]),
            pre_download: bytes.maybe().map(|it| PreDownload { min_updated_ready: u64::from(it) }),
            pre_pull: bytes.maybe().map(|it| PrePullView { pulled: it, nodes: bytes.number() }),
            clusters: &clusters,
            elapsed: bytes.number(),
        };
        let plan = round::plan(&world, &ledger).expect("one row per cluster");
        check_plan(&ledger, &plan, &world);
        check_order(&ledger, &plan, &world);
        ledger = plan.ledger;
        let target = ledger.target;
        for row in &mut ledger.rows {
            let report = report(bytes, row);
            row.take(report, target);
        }
    }
}

/// No sum of exposures grows beyond its limit, or none of them where every cluster has the numbers for itself, and no row
/// falls below its own grant.
fn check_plan(before: &Ledger, plan: &round::Plan, world: &World<'_>) {
    let spec = &world.spec;
    let per_cluster = spec.numbers == Numbers::PerCluster && world.mode == Mode::Duplicated;
    let held = |ledger: &Ledger, of: fn(&Row) -> Column| -> u64 {
        ledger.rows.iter().map(|it| u64::from(of(it).exposure)).sum()
    };
    let unavailable: fn(&Row) -> Column = |it| it.unavailable;
    let surge: fn(&Row) -> Column = |it| it.surge;
    for (limit, of) in [(spec.unavailable, unavailable), (spec.surge, surge)] {
        if per_cluster {
            for (row, before) in plan.ledger.rows.iter().zip(&before.rows) {
                assert!(of(row).exposure <= limit.max(of(before).exposure), "{plan:?}");
            }
        } else {
            assert!(held(&plan.ledger, of) <= u64::from(limit).max(held(before, of)), "{plan:?}");
        }
    }
    for row in &plan.ledger.rows {
        for column in [row.replicas, row.updated, row.unavailable, row.surge] {
            // A lost cluster that is known to run nothing has no exposure, whatever was written.
            assert!(row.lost || column.grant <= column.exposure, "{row:?}");
        }
        assert!(row.share.seq <= 7);
    }
    for (place, share) in &plan.writes {
        assert_eq!(plan.ledger.rows[*place].share, *share);
    }
}

/// The same round with the clusters turned round comes to the same.
fn check_order(before: &Ledger, plan: &round::Plan, world: &World<'_>) {
    let (mut clusters, mut turned) = (world.clusters.to_vec(), before.clone());
    clusters.reverse();
    turned.rows.reverse();
    let other = round::plan(&World { clusters: &clusters, ..world.clone() }, &turned);
    let mut other = other.expect("one row per cluster");
    other.ledger.rows.reverse();
    assert_eq!(other.ledger, plan.ledger);
    assert_eq!((other.decisions, other.conditions), (plan.decisions.clone(), plan.conditions.clone()));
}

/// Any report, against any row: what is refused changes nothing, and nothing raises an exposure.
pub(crate) fn take_any(bytes: &mut Bytes) {
    let name = ClusterName::from("c");
    let mut row = if bytes.below(4) == 0 { Row::counted(name) } else { Row::new(name) };
    for _ in 0..6 {
        let share = Share {
            epoch: row.epoch,
            replicas: bytes.number().min(MOST),
            updated: bytes.number().min(MOST),
            unavailable: bytes.number(),
            surge: bytes.number(),
            body: Revision(bytes.below(3)),
            stable: Revision(bytes.below(3)),
            ..Share::default()
        };
        row.write(share, Revision(1), bytes.number());
        if bytes.below(8) == 0 {
            row.lose();
        }
        let before = row.clone();
        let report = report(bytes, &row);
        let taken = row.take(report, Revision(1));
        let columns = |it: &Row| [it.replicas, it.updated, it.unavailable, it.surge];
        for (new, old) in columns(&row).iter().zip(columns(&before)) {
            assert!(new.grant == old.grant && new.exposure <= old.exposure && new.grant <= new.exposure);
        }
        match taken {
            Taken::Refused(why) => assert!(row == before && !why.to_string().is_empty()),
            Taken::NotNewer => assert_eq!(row, before),
            Taken::Noted => assert_eq!(columns(&row), columns(&before)),
            Taken::Acknowledged => assert!(!row.lost && report.seq == row.share.seq),
        }
        if row.report == Some(report) {
            let most = u64::from(before.replicas.exposure) + u64::from(before.surge.exposure);
            assert!(
                u64::from(report.pods) <= u64::from(MOST) * 11 / 10
                    || u64::from(report.pods) <= most + most / 10 + 1
            );
            assert!(report.known_epoch <= row.epoch);
        }
    }
}

/// Steps of a release with any clusters: waves only go on, nobody is admitted twice, a pause holds.
pub(crate) fn step_any(bytes: &mut Bytes) {
    let mut release = Release::begin(Revision(2), &waves(bytes));
    let names: Vec<String> = (0..bytes.below(10)).map(|it| format!("c{it}")).collect();
    for _ in 0..10 {
        let clusters: Vec<ClusterView<'_>> = names.iter().map(|it| cluster_view(bytes, it)).collect();
        let view = View {
            clusters: &clusters,
            wants_more_clusters: bytes.below(2) == 0,
            pre_pull: bytes.maybe().map(|it| PrePullView { pulled: it, nodes: bytes.number() }),
            progress_deadline: bytes.number(),
            elapsed: bytes.number(),
        };
        let step = release::next(&release, &view);
        assert!(step.release.wave >= release.wave && step.release.wave < release.waves.len());
        let mut admit = step.admit.clone();
        admit.sort_unstable();
        admit.dedup();
        assert_eq!(admit.len(), step.admit.len());
        for it in admit {
            assert!(
                !clusters[it].admitted && clusters[it].wave.min(release.waves.len() - 1) <= step.release.wave
            );
        }
        if release.paused.is_some() {
            assert!(step.admit.is_empty() && step.release == release && !step.roll_back);
        }
        assert!(!step.release.is_over() || step.release.stage == Stage::Over);
        release = step.release;
        if bytes.below(3) == 0 {
            release.resume();
        }
    }
}

/// Pull slots under any reports: the sum of exposures never grows beyond the parallelism.
pub(crate) fn slots_any(bytes: &mut Bytes) {
    let count = bytes.below(8);
    let mut rows: Vec<SlotRow> =
        (0..count).map(|it| SlotRow::new(ClusterName::from(format!("c{it}")))).collect();
    for number in 1..8 {
        let parallelism = bytes.number();
        let clusters: Vec<SlotCluster> = (0..count)
            .map(|_| SlotCluster {
                rank: bytes.below(3),
                reach: bytes.pick(&[
                    SlotReach::Heard,
                    SlotReach::Heard,
                    SlotReach::Heard,
                    SlotReach::Offline,
                    SlotReach::Lost,
                ]),
                nodes: bytes.number().min(MOST),
            })
            .collect();
        // What a lost cluster held is free.
        let exposed = |rows: &[SlotRow]| {
            let live = rows.iter().zip(&clusters).filter(|it| it.1.reach != SlotReach::Lost);
            live.map(|it| u64::from(it.0.slots.exposure)).sum::<u64>()
        };
        let before = exposed(&rows);
        let SlotPlan { rows: planned, written: changed, .. } =
            round::plan_slots(parallelism, &clusters, &rows).expect("one row per cluster");
        assert!(exposed(&planned) <= before.max(u64::from(parallelism)));
        for (place, row) in planned.iter().enumerate() {
            assert!(row.slots.grant <= row.slots.exposure);
            assert_eq!(changed.contains(&place), row.seq > rows[place].seq);
        }
        rows = planned;
        for row in &mut rows {
            let (seq, observed) = (row.seq - bytes.below(2).min(row.seq), bytes.below(3) > 0);
            let (active, left) = (bytes.number(), bytes.number());
            let report = SlotReport { incarnation: 1, number, seq, observed, active, left };
            let taken = row.take(report);
            assert!(matches!(taken, Taken::Acknowledged | Taken::Noted));
        }
    }
}

fn cluster(bytes: &mut Bytes, index: u64) -> Cluster {
    let mut candidate = Candidate::new(format!("c{index}"), bytes.below(3));
    candidate.named_for_deletion = bytes.below(3) as u32;
    let wave = bytes.below(4) as usize;
    Cluster {
        candidate,
        wave,
        order: 0,
        seeding: bytes.pick(&[Seeding::Able, Seeding::Able, Seeding::Unable]),
        names: bytes.below(2),
        dispatched: bytes.below(3),
        stopped: bytes.below(8) == 0,
        moves_stateful: bytes.below(2) == 0,
    }
}

fn spec(bytes: &mut Bytes) -> Spec {
    Spec {
        replicas: bytes.number(),
        partition: if bytes.below(8) == 0 { bytes.word() } else { u64::from(bytes.number()) },
        unavailable: bytes.number(),
        surge: bytes.number(),
        scale_unavailable: bytes.maybe(),
        paused: bytes.below(5) == 0,
        target: Revision(1 + bytes.below(3)),
        in_place_only: bytes.below(5) == 0,
        stateful: bytes.below(5) == 0,
        population: Population::Granted,
        numbers: bytes.pick(&[Numbers::Global, Numbers::PerCluster]),
    }
}

fn rules(bytes: &mut Bytes) -> Rules {
    Rules {
        move_surge: bytes.number(),
        move_unavailable: bytes.number(),
        unknown: bytes.pick(&[UnknownCountsAs::Unavailable, UnknownCountsAs::LastReported]),
        max_overlap: bytes.number(),
        max_lost: bytes.number(),
        progress_deadline: bytes.number(),
        rebalance: Rebalance {
            trigger: bytes.pick(&[Trigger::Never, Trigger::Continuous]),
            tolerance: bytes.number(),
            max_moves: bytes.number(),
            interval: bytes.number(),
            policy: PolicyMark { id: bytes.below(3), generation: bytes.below(3) },
        },
        on_return: bytes.pick(&[OnReturn::Keep, OnReturn::Failback]),
        partition_rollback: bytes.below(2) == 0,
        gate: gate(bytes),
    }
}

fn waves(bytes: &mut Bytes) -> Vec<Wave> {
    let wave = |bytes: &mut Bytes, it: u64| Wave {
        soak: bytes.number(),
        approval: bytes.pick(&[Approval::None, Approval::None, Approval::Before, Approval::After]),
        gate: gate(bytes),
        pre_pull: bytes.maybe().map(|it| PrePull { threshold: it, timeout: bytes.number() }),
        max_concurrency: bytes.maybe().map(|it| match it % 2 {
            0 => IntOrPercent::Int(it),
            _ => IntOrPercent::Percent(Percent::whole(it)),
        }),
        ..Wave::named(&format!("w{it}"))
    };
    (0..1 + bytes.below(3)).map(|it| wave(bytes, it)).collect()
}

fn gate(bytes: &mut Bytes) -> Gate {
    Gate {
        max_failed: bytes.number(),
        max_failing_pods: bytes.number(),
        on_failure: bytes.pick(&[OnFailure::Pause, OnFailure::Rollback]),
    }
}

fn cluster_view<'a>(bytes: &mut Bytes, name: &'a str) -> ClusterView<'a> {
    ClusterView {
        name,
        wave: bytes.below(4) as usize,
        order: bytes.below(3) as i64,
        admitted: bytes.below(2) == 0,
        busy_for: bytes.number(),
        heard: bytes.below(4) > 0,
        may_be_passed_over: bytes.below(2) == 0,
        due: bytes.maybe(),
        granted: bytes.number(),
        added: bytes.pick(&[0, 0, 1, u32::MAX]),
        is_empty: bytes.below(5) == 0,
        updated_available: bytes.maybe(),
        failing: bytes.pick(&[0, 0, 1, u32::MAX]),
    }
}

/// A report that is about the row now and then, and makes sense now and then.
fn report(bytes: &mut Bytes, row: &Row) -> Report {
    let near = |bytes: &mut Bytes, it: u32| if bytes.below(12) == 0 { bytes.number() } else { it };
    let last = row.report.map_or((1, 0), |it| (it.incarnation, it.number));
    let asked = if row.counted { bytes.below(9) as u32 } else { row.share.replicas };
    let pods = near(bytes, asked);
    let down = bytes.below(2).min(u64::from(pods)) as u32;
    let available = near(bytes, pods - down);
    let updated = near(bytes, row.share.updated.min(pods));
    Report {
        incarnation: last.0,
        number: if bytes.below(20) == 0 { bytes.word() } else { last.1.saturating_add(1) },
        seq: row.share.seq.saturating_sub(bytes.below(4) / 3),
        epoch: row.share.epoch,
        known_epoch: if bytes.below(20) == 0 { bytes.word() } else { row.epoch },
        observed: bytes.below(4) > 0,
        replicas: near(bytes, asked),
        body: row.share.body,
        stable: row.share.stable,
        pods,
        available,
        updated,
        updated_available: near(bytes, updated.min(available)),
        at_stable: near(bytes, pods.saturating_sub(updated)),
        neither_unavailable: near(bytes, 0),
        marked: near(bytes, 0),
        failing: near(bytes, 0),
        unselected: near(bytes, 0),
        unselected_updated: near(bytes, 0),
    }
}
