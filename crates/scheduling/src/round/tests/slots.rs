use crate::{
    names::ClusterName,
    round::{Mismatch, Pulls, SlotCluster, SlotPlan, SlotReach, SlotReport, SlotRow, Why, plan_slots},
};

fn rows(count: usize) -> Vec<SlotRow> {
    (0..count).map(|it| SlotRow::new(ClusterName::from(format!("c{it}")))).collect()
}

fn clusters(nodes: &[u32]) -> Vec<SlotCluster> {
    let cluster =
        |(it, nodes): (usize, &u32)| SlotCluster { rank: it as u64, reach: SlotReach::Heard, nodes: *nodes };
    nodes.iter().enumerate().map(cluster).collect()
}

fn planned(parallelism: u32, clusters: &[SlotCluster], rows: &[SlotRow]) -> (Vec<SlotRow>, Vec<usize>) {
    let SlotPlan { rows, written, .. } = plan_slots(parallelism, clusters, rows).unwrap();
    (rows, written)
}

fn report(row: &SlotRow, number: u64, active: u32, left: u32) -> SlotReport {
    SlotReport { incarnation: 1, number, seq: row.seq, observed: true, active, left }
}

#[test]
fn slots_go_round_as_clusters_finish_as_ipj_1_says() {
    let clusters = clusters(&[4, 4, 4]);
    let (mut rows, written) = planned(2, &clusters, &rows(3));
    assert_eq!(rows.iter().map(|it| it.slots.grant).collect::<Vec<_>>(), [1, 1, 0]);
    assert_eq!(written, [2, 0, 1]);
    let done = report(&rows[0], 1, 0, 0);
    rows[0].take(done);
    let (mut rows, _) = planned(2, &clusters, &rows);
    assert_eq!(rows.iter().map(|it| it.slots.grant).collect::<Vec<_>>(), [0, 1, 0]);
    let stopped = report(&rows[0], 2, 0, 0);
    rows[0].take(stopped);
    let (rows, _) = planned(2, &clusters, &rows);
    assert_eq!(rows.iter().map(|it| it.slots.grant).collect::<Vec<_>>(), [0, 1, 1]);
}

#[test]
fn pulls_still_running_hold_their_slots_as_ipj_1_says() {
    let clusters = clusters(&[4, 4]);
    let (mut rows, _) = planned(2, &clusters, &rows(2));
    // The job is paused by the user while a pull runs.
    (rows, _) = planned(0, &clusters, &rows);
    assert_eq!(rows.iter().map(|it| it.slots.grant).collect::<Vec<_>>(), [0, 0]);
    let running = report(&rows[0], 1, 1, 4);
    rows[0].take(running);
    let (rows, _) = planned(1, &clusters, &rows);
    let exposed: u32 = rows.iter().map(|it| it.slots.exposure).sum();
    assert_eq!((exposed, rows[1].slots.grant), (2, 0));
}

#[test]
fn a_slot_of_an_offline_cluster_stays_held_until_it_is_lost_as_ipj_1_says() {
    let mut clusters = clusters(&[4, 4]);
    let (rows, _) = planned(1, &clusters, &rows(2));
    clusters[0].reach = SlotReach::Offline;
    let (rows, _) = planned(1, &clusters, &rows);
    assert_eq!(rows[1].slots.grant, 0);
    clusters[0].reach = SlotReach::Lost;
    let (rows, _) = planned(1, &clusters, &rows);
    assert_eq!(rows[1].slots.grant, 1);
}

#[test]
fn a_report_of_more_nodes_than_there_are_draws_no_slots() {
    let clusters = clusters(&[2, 2]);
    let (mut rows, _) = planned(2, &clusters, &rows(2));
    let boast = report(&rows[0], 1, 1, u32::MAX);
    rows[0].take(boast);
    let (rows, _) = planned(4, &clusters, &rows);
    assert_eq!(rows.iter().map(|it| it.slots.grant).collect::<Vec<_>>(), [2, 2]);
}

#[test]
fn every_change_of_slots_says_why() {
    let mut clusters = clusters(&[4, 4, 4]);
    let plan = plan_slots(2, &clusters, &rows(3)).unwrap();
    let words = |plan: &SlotPlan| plan.decisions.iter().map(|it| format!("{}; ", it.why)).collect::<String>();
    assert_eq!(words(&plan), "1 pulls at a time; 1 pulls at a time; ");
    clusters[0].reach = SlotReach::Offline;
    let plan = plan_slots(1, &clusters, &plan.rows).unwrap();
    assert_eq!(plan.decisions[0].why, Why::Pulls(Pulls::Held(1)));
    assert_eq!(plan.decisions[1].why, Why::Pulls(Pulls::Lowered(0)));
    clusters[0].reach = SlotReach::Lost;
    let plan = plan_slots(1, &clusters, &plan.rows).unwrap();
    assert_eq!(words(&plan), "1 pulls at a time; ");
    let mut plan = plan_slots(2, &clusters[1..], &rows(2)).unwrap();
    clusters.truncate(3);
    plan.rows.push(SlotRow::new(ClusterName::from("c2")));
    let done = report(&plan.rows[0], 1, 0, 0);
    plan.rows[0].take(done);
    clusters[0].reach = SlotReach::Heard;
    let plan = plan_slots(2, &clusters, &plan.rows).unwrap();
    let said = |it: &Pulls| plan.decisions.iter().any(|other| other.why == Why::Pulls(*it));
    assert!(said(&Pulls::Lowered(0)) && said(&Pulls::Wait(1)), "{:?}", plan.decisions);
}

#[test]
fn rows_that_are_not_of_the_clusters_are_refused() {
    assert_eq!(plan_slots(1, &clusters(&[1]), &rows(2)), Err(Mismatch { place: 1 }));
    assert_eq!(plan_slots(1, &clusters(&[1, 1]), &rows(1)), Err(Mismatch { place: 1 }));
}
