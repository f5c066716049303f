//! Properties of the partition split.

use proptest::prelude::*;
use scheduling::{
    numbers::{self, IntOrPercent, Pace, Percent},
    partition::{Admission, Answer, Body, Cluster, Link, Request, Rollback, Room, Seeding, plan},
    reason::Condition,
    split,
};

use crate::{
    cases,
    fleets::{any_clusters, reachable},
};

fn value(most: u32) -> impl Strategy<Value = IntOrPercent> {
    prop_oneof![
        (0..=most).prop_map(IntOrPercent::Int),
        (0..=100u32).prop_map(|it| IntOrPercent::Percent(Percent::whole(it))),
        (0..=1000u32).prop_map(|it| {
            IntOrPercent::Percent(Percent::parse(&format!("{}.{}%", it / 10, it % 10)).expect("a percent"))
        }),
    ]
}

fn population(clusters: &[Cluster]) -> u64 {
    clusters.iter().map(|it| u64::from(it.replicas)).sum()
}

fn request(clusters: Vec<Cluster>, partition: IntOrPercent) -> Request {
    Request { population: population(&clusters), partition: Some(partition), clusters, ..Request::default() }
}

fn updated(answer: &Answer) -> u64 {
    answer.rows.iter().map(|it| u64::from(it.updated)).sum()
}

fn floor(it: &Cluster) -> u32 {
    it.updated.saturating_sub(it.previous.saturating_sub(it.replicas)).min(it.replicas)
}

proptest! {
    #![proptest_config(cases())]

    /// REV-3, REV-4: the sum is exact whenever what is updated already does not exceed it.
    #[test]
    fn partition_exact(clusters in reachable(3), value in value(200)) {
        let floors: u64 = clusters.iter().map(|it| u64::from(floor(it))).sum();
        let request = request(clusters, value);
        let answer = plan(&request).unwrap();
        prop_assert_eq!(answer.kept, numbers::partition(Some(value), request.population));
        let due = request.population - answer.kept;
        prop_assert_eq!(updated(&answer), due.max(floors));
        let over: Vec<Condition> =
            if floors > due { vec![Condition::PartitionOver(floors - due)] } else { Vec::new() };
        prop_assert_eq!(&answer.conditions, &over);
        for (row, it) in answer.rows.iter().zip(&request.clusters) {
            prop_assert!(floor(it) <= row.updated && row.updated <= it.replicas);
        }
    }

    /// REV-4, REV-9: with clusters out of reach and waves to come the sum is the nearest there is, and what is missing
    /// is said.
    #[test]
    fn partition_is_the_nearest_value_and_says_what_is_missing(clusters in any_clusters(), value in value(200)) {
        let request = request(clusters, value);
        let answer = plan(&request).unwrap();
        let due = answer.due;
        let mut most = 0;
        for (row, it) in answer.rows.iter().zip(&request.clusters) {
            let is_whole = it.seeding == Seeding::Unable && !it.has_target;
            let top = match (it.link, it.admission) {
                (Link::Frozen { exposure }, _) => {
                    prop_assert_eq!(row.updated, exposure);
                    exposure
                }
                (_, Admission::ToCome) if it.seeding == Seeding::Unable && it.has_target => it.replicas,
                (_, Admission::ToCome) => floor(it),
                _ if is_whole => {
                    prop_assert!(row.updated == 0 || row.updated == it.replicas);
                    row.updated
                }
                _ => it.replicas,
            };
            prop_assert!(row.updated <= top);
            most += u64::from(top);
        }
        if updated(&answer) < due {
            prop_assert_eq!(updated(&answer), most);
        }
        let to_come: u64 = answer.rows.iter().zip(&request.clusters)
            .filter(|it| it.1.admission == Admission::ToCome)
            .map(|it| u64::from(it.1.replicas.saturating_sub(it.0.updated)))
            .sum();
        let missing = due.saturating_sub(updated(&answer)).saturating_sub(to_come);
        let said = answer.conditions.iter().find_map(|it| match it {
            Condition::PartitionShort { missing, .. } => Some(*missing),
            _ => None,
        });
        prop_assert_eq!(said.unwrap_or(0), missing);
    }

    /// REV-5: lowering the partition never lowers any u.
    #[test]
    fn partition_monotone(clusters in any_clusters(), a in 0..2_000u32, b in 0..2_000u32) {
        let (low, high) = (a.min(b), a.max(b));
        let of = |value| plan(&request(clusters.clone(), IntOrPercent::Int(value))).unwrap();
        for (more, less) in of(low).rows.iter().zip(&of(high).rows) {
            prop_assert!(more.updated >= less.updated, "{more:?} {less:?}");
        }
    }

    /// REV-5: with rollback enabled, raising the partition takes updated pods back exactly.
    #[test]
    fn partition_rolls_back_exactly_where_that_is_enabled(clusters in reachable(3), value in value(200)) {
        let request = Request { rollback: Rollback::On, ..request(clusters, value) };
        let answer = plan(&request).unwrap();
        prop_assert_eq!(updated(&answer), request.population - answer.kept);
    }

    /// A member is given an integer, and reads exactly that integer.
    #[test]
    fn partition_never_percent(clusters in any_clusters(), value in value(200)) {
        let request = request(clusters, value);
        for (row, it) in plan(&request).unwrap().rows.iter().zip(&request.clusters) {
            prop_assert!(row.member_partition <= it.replicas);
            let read = numbers::partition(Some(IntOrPercent::Int(row.member_partition)), u64::from(it.replicas));
            prop_assert_eq!(read, u64::from(row.member_partition));
            if row.body == Body::Target && row.updated <= it.replicas {
                prop_assert_eq!(row.member_partition + row.updated, it.replicas);
            }
        }
    }

    /// REV-3: no cluster of a wave gets anything before the waves before it are full.
    #[test]
    fn partition_wave_prefix(clusters in reachable(4), value in value(200)) {
        let request = request(clusters, value);
        let answer = plan(&request).unwrap();
        let rows = || answer.rows.iter().zip(&request.clusters);
        let first_open = rows().filter(|it| it.0.updated < it.1.replicas).map(|it| it.1.wave).min();
        for (row, it) in rows() {
            if first_open.is_some_and(|wave| it.wave > wave) {
                prop_assert_eq!(row.updated, floor(it));
            }
        }
    }

    /// REV-6: a cluster without a share that was never given the target does not get it, and one that was keeps it.
    #[test]
    fn a_target_is_withheld_until_there_is_a_share(clusters in any_clusters(), value in value(200)) {
        let request = request(clusters, value);
        for (row, it) in plan(&request).unwrap().rows.iter().zip(&request.clusters) {
            prop_assert_eq!(row.body == Body::Stable, row.updated == 0 && !it.has_target);
            if row.body == Body::Stable {
                prop_assert_eq!(row.member_partition, it.leftovers.min(it.replicas));
            }
        }
    }

    /// REV-15: mending first changes where the updated pods are, not how many.
    #[test]
    fn mending_broken_pods_first_keeps_the_sum(clusters in any_clusters(), value in value(200)) {
        let clusters: Vec<Cluster> =
            clusters.into_iter().map(|it| Cluster { seeding: Seeding::Able, ..it }).collect();
        let free = request(clusters, value);
        let held = Request { room: Room::Held, ..free.clone() };
        let (free, answer) = (plan(&free).unwrap(), plan(&held).unwrap());
        prop_assert_eq!(updated(&free), updated(&answer));
        // No unit goes anywhere but to broken pods while one of those could have it.
        let rows = || answer.rows.iter().zip(&held.clusters).filter(|it| it.1.link == Link::Reachable);
        let is_waiting = rows().any(|(row, it)| {
            let top = if it.admission == Admission::ToCome { floor(it) } else { it.replicas };
            row.updated < top.min(floor(it) + it.broken_old)
        });
        if is_waiting {
            for (row, it) in rows() {
                prop_assert!(row.updated <= floor(it) + it.broken_old);
            }
        }
    }

    /// CS-2: while paused only added pods may be new.
    #[test]
    fn a_pause_lets_only_added_pods_be_new(clusters in any_clusters(), value in value(200)) {
        let request = Request { pace: Pace::Paused, ..request(clusters, value) };
        for (row, it) in plan(&request).unwrap().rows.iter().zip(&request.clusters) {
            if it.link == Link::Reachable && !(it.seeding == Seeding::Unable && it.has_target) {
                let added = it.replicas.saturating_sub(it.previous);
                prop_assert!(row.updated <= floor(it).max(it.granted + added));
            }
        }
    }

    /// REV-7, FO-8: a cluster that joins, or takes over what another had, never changes how many pods are updated at
    /// rest; it gets old pods where old pods are due.
    #[test]
    fn seed_new_cluster(
        sizes in prop::collection::vec(0..40u32, 2..8),
        value in value(200),
        lost in 0..8usize,
        is_lost in any::<bool>(),
    ) {
        let replicas: u32 = sizes.iter().sum();
        let divide = |current: &[u32], state: &dyn Fn(usize) -> split::State, goal| {
            let candidate = |(index, current): (usize, &u32)| split::Candidate {
                current: *current,
                state: state(index),
                ..split::Candidate::new(format!("c{index}"), index as u64)
            };
            let clusters = current.iter().enumerate().map(candidate).collect();
            split::plan(&split::Request { replicas, clusters, goal, ..Default::default() }).unwrap()
        };
        let shares = |before: &[u32], after: &[u32], updated: &[u32]| {
            let cluster = |index: usize| Cluster {
                previous: before[index],
                updated: updated[index],
                has_target: updated[index] > 0,
                ..Cluster::new(format!("c{index}"), index as u64, after[index])
            };
            plan(&request((0..after.len()).map(cluster).collect(), value)).unwrap()
        };
        // At rest in the middle of a release.
        let rest = shares(&sizes, &sizes, &vec![0; sizes.len()]);
        let mut before = sizes.clone();
        let mut updated_there: Vec<u32> = rest.rows.iter().map(|it| it.updated).collect();
        // A cluster joins and takes its part, or one is lost (and known to be stopped) and the rest takes it over.
        let (goal, gone) = if is_lost {
            (split::Goal::LeastMovement, Some(lost % sizes.len()))
        } else {
            before.push(0);
            updated_there.push(0);
            (split::Goal::Rebalance, None)
        };
        let state = |it| if gone == Some(it) { split::State::Lost } else { split::State::Ready };
        let answer = divide(&before, &state, goal);
        let after: Vec<u32> = answer.rows.iter().map(|it| it.replicas).collect();
        if let Some(gone) = gone {
            updated_there[gone] = 0;
        }
        let later = shares(&before, &after, &updated_there);
        prop_assert_eq!(updated(&later), updated(&rest));
    }
}

/// What one CloneSet does: `cloneset.md` 7.2, written down once more, with floats as upstream has them.
fn single_cluster(value: IntOrPercent, replicas: u32) -> u32 {
    let (kept, text) = match value {
        IntOrPercent::Int(number) => (f64::from(number), None),
        IntOrPercent::Percent(_) => {
            let text = value.to_string();
            let percent: f64 = text.trim_end_matches('%').parse().expect("digits");
            ((percent * f64::from(replicas) / 100.0).ceil(), Some(text))
        }
    };
    let mut kept = kept as u32;
    if replicas > 1 && kept == replicas && text.is_some_and(|it| it != "100%") {
        kept = replicas - 1;
    }
    kept.min(replicas)
}

/// REV-2: with one member everything is as in one cluster.
#[test]
fn partition_one_cluster_equals_upstream() {
    for replicas in 0..=200 {
        let ints = (0..=replicas + 5).map(IntOrPercent::Int);
        let percents = (0..=100).map(|it| IntOrPercent::Percent(Percent::whole(it)));
        let parsed = (0..=100).map(|it| IntOrPercent::parse("partition", &format!("{it}%")).unwrap());
        for value in ints.chain(percents).chain(parsed) {
            let kept = single_cluster(value, replicas);
            let answer = plan(&request(vec![Cluster::new("only", 7, replicas)], value)).unwrap();
            let row = &answer.rows[0];
            assert_eq!(row.updated, replicas - kept, "partition {value} of {replicas}");
            assert_eq!(answer.conditions, []);
            if row.body == Body::Target {
                assert_eq!(row.member_partition, kept);
            }
        }
    }
}
