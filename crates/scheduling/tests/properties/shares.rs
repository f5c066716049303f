//! Properties of the other things that are divided or added up over a fleet.

use std::collections::BTreeSet;

use proptest::prelude::*;
use scheduling::{
    distribution::{LISTED, Reached, total},
    numbers::{self, IntOrPercent, Percent},
    partition::{
        Cluster,
        sidecar::{Matched, member_partition, needs_replan, plan_sidecar},
    },
    pulls::{Puller, Slots, share},
};

use crate::cases;

fn partition() -> impl Strategy<Value = IntOrPercent> {
    prop_oneof![
        (0..300u32).prop_map(IntOrPercent::Int),
        (0..=100u32).prop_map(|it| IntOrPercent::Percent(Percent::whole(it))),
    ]
}

fn pullers() -> impl Strategy<Value = Vec<Puller>> {
    let puller = (0..4u64, 0..40u32, 0..10u32, prop::option::weighted(0.2, 0..6u32));
    prop::collection::vec(puller, 0..20).prop_map(|pullers| {
        let puller =
            |(index, (rank, nodes_left, granted, held)): (usize, (u64, u32, u32, Option<u32>))| Puller {
                name: format!("c{index:02}").into(),
                rank,
                nodes_left,
                granted,
                slots: held.map_or(Slots::Free, Slots::Held),
            };
        pullers.into_iter().enumerate().map(puller).collect()
    })
}

proptest! {
    #![proptest_config(cases())]

    /// IPJ-1: the slots given never exceed the cap, and none lies idle while a node waits for one. Slots held out of
    /// reach stay held.
    #[test]
    fn ipj_parallelism_cap(clusters in pullers(), parallelism in 0..60u32) {
        let shares = share(parallelism, &clusters);
        let mut held = 0;
        let mut free = 0;
        let mut could_use = 0;
        for (it, share) in clusters.iter().zip(&shares) {
            match it.slots {
                Slots::Held(slots) => {
                    prop_assert_eq!(*share, slots);
                    held += slots;
                }
                Slots::Free => {
                    prop_assert!(*share <= it.nodes_left);
                    free += share;
                    could_use += it.nodes_left;
                }
            }
        }
        prop_assert_eq!(free, could_use.min(parallelism.saturating_sub(held)));
        // A slot goes on to another cluster only when its own has no node for it, or the cap came down.
        let granted: u32 = clusters
            .iter()
            .map(|it| match it.slots { Slots::Held(slots) => slots, Slots::Free => it.granted.min(it.nodes_left) })
            .sum();
        if granted <= parallelism {
            for (it, share) in clusters.iter().zip(&shares).filter(|it| it.0.slots == Slots::Free) {
                prop_assert!(*share >= it.granted.min(it.nodes_left));
            }
        }
    }

    /// SC-1, SC-2, SC-6: at rest exactly M - P pods are updated, also after pods came and went.
    #[test]
    fn sidecar_exact_at_rest(
        value in partition(),
        counts in prop::collection::vec((0..60u32, 0..60u32), 1..12),
    ) {
        let at = |counts: Vec<(u32, u32)>| -> Vec<Matched> {
            let matched = |(index, (matched, updated)): (usize, (u32, u32))| Matched {
                cluster: Cluster { updated, ..Cluster::new(format!("c{index}"), index as u64, matched) },
                matched,
            };
            counts.into_iter().enumerate().map(matched).collect()
        };
        let now: Vec<u32> = counts.iter().map(|it| it.0).collect();
        let later: Vec<u32> = counts.iter().map(|it| it.1).collect();
        let first = plan_sidecar(Some(value), at(now.iter().map(|it| (*it, 0)).collect())).unwrap();
        let population: u64 = now.iter().map(|it| u64::from(*it)).sum();
        let due = population - numbers::partition(Some(value), population);
        // What an agent makes of its share: the member updates all but its partition.
        let updated: Vec<u32> =
            now.iter().zip(&first.rows).map(|(now, it)| now - member_partition(*now, it.updated)).collect();
        prop_assert_eq!(updated.iter().map(|it| u64::from(*it)).sum::<u64>(), due);

        // Pods came and went. A pod that went may have been an updated one; one that came is kept old.
        let still: Vec<u32> = updated.iter().zip(&now).zip(&later)
            .map(|((updated, now), later)| updated.saturating_sub(now.saturating_sub(*later)).min(*later)).collect();
        let second = plan_sidecar(Some(value), at(later.iter().copied().zip(still.iter().copied()).collect())).unwrap();
        let population: u64 = later.iter().map(|it| u64::from(*it)).sum();
        let due = population - numbers::partition(Some(value), population);
        let updated: u64 = second.rows.iter().map(|it| u64::from(it.updated)).sum();
        // What is updated stays so; above that the sum is exact.
        prop_assert_eq!(updated, due.max(still.iter().map(|it| u64::from(*it)).sum()));
    }

    /// RD-1: counts are sums, and every failed namespace is either listed or counted.
    #[test]
    fn rd_namespace_counts(
        clusters in prop::collection::vec((0..1000u32, prop::collection::vec((0..40u8, 0..3u8), 0..12)), 0..12),
    ) {
        let report = |(index, (succeeded, failed)): (usize, (u32, Vec<(u8, u8)>))| {
            let failed: BTreeSet<(u8, u8)> = failed.into_iter().collect();
            let failed: Vec<(String, String)> =
                failed.into_iter().map(|(name, kind)| (format!("ns-{name}-{kind}"), format!("Kind{kind}"))).collect();
            let desired = succeeded + failed.len() as u32;
            Reached { cluster: format!("c{index:02}").into(), desired, succeeded, failed }
        };
        let mut reports: Vec<Reached> = clusters.into_iter().enumerate().map(report).collect();
        let totals = total(&reports);
        prop_assert_eq!(totals.desired, totals.succeeded + totals.failed);
        let listed: usize = totals.listed.values().map(Vec::len).sum();
        prop_assert!(listed <= LISTED);
        prop_assert_eq!(listed as u64 + totals.unlisted, totals.failed);
        prop_assert_eq!(totals.unlisted > 0, totals.failed > LISTED as u64);
        for (kind, names) in &totals.listed {
            for name in names {
                let (cluster, namespace) = name.split_once('/').unwrap();
                let report = reports.iter().find(|it| it.cluster.as_str() == cluster).unwrap();
                prop_assert!(report.failed.contains(&(namespace.to_owned(), kind.clone())));
            }
        }
        reports.reverse();
        prop_assert_eq!(total(&reports), totals);
    }
}

/// SC-2
#[test]
fn a_sidecar_split_is_made_anew_beyond_one_pod_and_two_percent() {
    assert!(!needs_replan(10, 11));
    assert!(needs_replan(10, 12));
    assert!(!needs_replan(200, 204));
    assert!(needs_replan(200, 205));
    assert!(needs_replan(0, 2));
}

/// SC-7: numbers over matched pods, division over selected ones.
#[test]
fn a_selector_limits_where_sidecars_are_updated_and_not_how_many() {
    let cluster = |name: &str, rank, selected, matched| Matched {
        cluster: Cluster::new(name, rank, selected),
        matched,
    };
    let clusters = vec![cluster("a", 0, 1, 40), cluster("b", 1, 3, 30), cluster("c", 2, 0, 30)];
    let answer = plan_sidecar(Some(IntOrPercent::Int(97)), clusters).unwrap();
    assert_eq!(answer.rows.iter().map(|it| it.updated).collect::<Vec<_>>(), [1, 2, 0]);
}
