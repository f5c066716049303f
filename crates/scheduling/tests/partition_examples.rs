//! The worked examples of the partition split, and one example per rule.

use scheduling::{
    numbers::{IntOrPercent, Pace},
    partition::{
        Admission, Answer, Body, Cluster, Error, Link, Release, Request, Rollback, Room, Seeding, plan,
    },
    reason::{Condition, Share},
};

/// Clusters a, b, c, ... in order of rank.
fn clusters(replicas: &[u32]) -> Vec<Cluster> {
    let cluster = |(rank, replicas): (usize, &u32)| {
        Cluster::new(char::from(b'a' + rank as u8).to_string(), rank as u64, *replicas)
    };
    replicas.iter().enumerate().map(cluster).collect()
}

fn request(partition: &str, clusters: Vec<Cluster>) -> Request {
    let partition = match partition.parse() {
        Ok(number) => IntOrPercent::Int(number),
        Err(_) => IntOrPercent::parse("partition", partition).expect("a percent"),
    };
    let population = clusters.iter().map(|it| u64::from(it.replicas)).sum();
    Request { population, partition: Some(partition), clusters, ..Request::default() }
}

fn updated(answer: &Answer) -> Vec<u32> {
    answer.rows.iter().map(|it| it.updated).collect()
}

fn split(request: &Request) -> Vec<u32> {
    updated(&plan(request).expect("a request that makes sense"))
}

fn partitions(answer: &Answer) -> Vec<u32> {
    answer.rows.iter().map(|it| it.member_partition).collect()
}

#[test]
fn rev_3_and_rev_6_ninety_percent_of_ten_updates_one_pod_and_two_clusters_never_see_the_target() {
    let answer = plan(&request("90%", clusters(&[4, 3, 3]))).unwrap();
    assert_eq!(updated(&answer), [1, 0, 0]);
    let bodies: Vec<Body> = answer.rows.iter().map(|it| it.body).collect();
    assert_eq!(bodies, [Body::Target, Body::Stable, Body::Stable]);
    assert_eq!(answer.rows[0].to_string(), "a: 1 updated, partition 3, its part");
    assert_eq!(answer.rows[1].to_string(), "b: keeps the stable revision, nothing is due here yet");
}

#[test]
fn rev_3_half_of_ten_is_2_2_1_in_percent_and_in_pods() {
    for half in ["50%", "5"] {
        let answer = plan(&request(half, clusters(&[4, 3, 3]))).unwrap();
        assert_eq!(updated(&answer), [2, 2, 1]);
        assert_eq!(partitions(&answer), [2, 1, 2]);
    }
    assert_eq!(split(&request("0", clusters(&[4, 3, 3]))), [4, 3, 3]);
}

#[test]
fn rev_3_waves_are_filled_in_order() {
    let mut clusters = clusters(&[4, 3, 3]);
    (clusters[0].wave, clusters[1].wave) = (1, 1);
    assert_eq!(split(&request("50%", clusters)), [1, 1, 3]);
}

#[test]
fn rev_3_floors_of_later_waves_are_reserved() {
    let mut clusters = clusters(&[4, 3, 3]);
    (clusters[0].wave, clusters[1].wave, clusters[0].updated) = (1, 1, 3);
    // Five in all, three of which a has already: two are left for the first wave.
    assert_eq!(split(&request("50%", clusters)), [3, 0, 2]);
}

#[test]
fn rev_3_pods_a_shrink_takes_may_be_the_updated_ones() {
    let mut clusters = clusters(&[4, 3, 3]);
    (clusters[0].previous, clusters[0].updated) = (6, 3);
    assert_eq!(split(&request("9", clusters)), [1, 0, 0]);
}

#[test]
fn rev_2_the_fleet_examples_hold() {
    assert_eq!(split(&request("2", clusters(&[2, 1, 1]))), [1, 1, 0]);
    let hundred = |partition| split(&request(partition, clusters(&[34, 33, 33])));
    assert_eq!(hundred("80"), [7, 7, 6]);
    assert_eq!(hundred("60"), [14, 13, 13]);
    assert_eq!(hundred("40"), [20, 20, 20]);
    assert_eq!(hundred("20"), [27, 27, 26]);
    assert_eq!(hundred("0"), [34, 33, 33]);
    // A percent below 100 never keeps all pods old, exactly 100% does.
    assert_eq!(split(&request("99%", clusters(&[2, 1, 1]))), [1, 0, 0]);
    assert_eq!(split(&request("100%", clusters(&[2, 1, 1]))), [0, 0, 0]);
    assert_eq!(split(&request("99%", clusters(&[1]))), [0]);
}

#[test]
fn sc_1_the_sidecar_examples_hold() {
    let of = |partition| split(&request(partition, clusters(&[40, 30, 30])));
    assert_eq!(of("40"), [24, 18, 18]);
    assert_eq!(of("50"), [20, 15, 15]);
    assert_eq!(of("80"), [8, 6, 6]);
    assert_eq!(split(&request("11", clusters(&[4, 4, 4]))), [1, 0, 0]);
}

#[test]
fn rev_4_what_cannot_be_updated_is_said() {
    let mut clusters = clusters(&[4, 3, 3]);
    clusters[0].link = Link::Frozen { exposure: 1 };
    let answer = plan(&request("2", clusters)).unwrap();
    assert_eq!(updated(&answer), [1, 3, 3]);
    assert_eq!(answer.conditions, [Condition::PartitionShort { missing: 1, held: 1 }]);
}

#[test]
fn rev_5_raising_the_partition_takes_nothing_back_unless_rollback_is_enabled() {
    let mut clusters = clusters(&[4, 3, 3]);
    for (it, updated) in clusters.iter_mut().zip([4, 2, 2]) {
        (it.updated, it.has_target) = (updated, true);
    }
    let raised = request("6", clusters);
    let answer = plan(&raised).unwrap();
    assert_eq!(updated(&answer), [4, 2, 2]);
    assert_eq!(answer.conditions, [Condition::PartitionOver(4)]);
    assert_eq!(split(&Request { rollback: Rollback::On, ..raised }), [2, 1, 1]);
}

#[test]
fn rev_6_a_cluster_that_has_the_target_keeps_it_without_a_share() {
    let mut clusters = clusters(&[4, 3, 3]);
    clusters[1].has_target = true;
    let answer = plan(&request("90%", clusters)).unwrap();
    assert_eq!((answer.rows[1].body, answer.rows[1].member_partition), (Body::Target, 3));
}

#[test]
fn rev_7_a_cluster_that_cannot_run_old_pods_gets_all_or_nothing() {
    let mut clusters = clusters(&[4, 3, 3]);
    clusters[0].seeding = Seeding::Unable;
    // One canary pod is not turned into four.
    assert_eq!(split(&request("9", clusters.clone())), [0, 1, 0]);
    let answer = plan(&request("1", clusters.clone())).unwrap();
    assert_eq!(updated(&answer), [0, 3, 3]);
    assert_eq!(answer.conditions, [Condition::PartitionShort { missing: 3, held: 0 }]);
    assert_eq!(split(&request("0", clusters.clone())), [4, 3, 3]);
    // With the target in hand every pod it makes is new.
    clusters[0].has_target = true;
    let answer = plan(&request("5", clusters)).unwrap();
    assert_eq!(updated(&answer), [4, 1, 0]);
    assert_eq!(answer.rows[0].why, Share::CannotSeed);
}

/// With the partition at 8 the second wave is updated; at 3 it still is, although there are enough for the first.
#[test]
fn rev_5_a_cluster_that_takes_all_or_nothing_takes_nothing_from_later_waves() {
    let mut clusters = clusters(&[10, 5]);
    clusters[0].seeding = Seeding::Unable;
    clusters[1].wave = 1;
    assert_eq!(split(&request("8", clusters.clone())), [0, 5]);
    assert_eq!(split(&request("3", clusters.clone())), [0, 5]);
    assert_eq!(split(&request("0", clusters)), [10, 5]);
}

#[test]
fn rev_9_a_frozen_cluster_holds_what_it_may_have_been_granted() {
    let mut clusters = clusters(&[4, 3, 3]);
    clusters[1].link = Link::Frozen { exposure: 3 };
    assert_eq!(split(&request("50%", clusters)), [1, 3, 1]);
}

#[test]
fn rev_10_leftovers_of_a_superseded_target_stay_where_the_new_one_is_withheld() {
    let mut clusters = clusters(&[4, 3, 3]);
    clusters[2].leftovers = 2;
    let answer = plan(&request("90%", clusters)).unwrap();
    assert_eq!((answer.rows[2].body, answer.rows[2].member_partition), (Body::Stable, 2));
}

#[test]
fn rev_12_with_nothing_kept_old_every_admitted_cluster_is_updated_whole() {
    // A move has begun: eleven replicas are granted for ten.
    let clusters = clusters(&[5, 3, 3]);
    assert_eq!(split(&Request { population: 10, ..request("0", clusters.clone()) }), [5, 3, 3]);
    let over = Request { release: Release::Over, ..request("3", clusters) };
    let answer = plan(&over).unwrap();
    assert_eq!((updated(&answer), partitions(&answer)), (vec![5, 3, 3], vec![0, 0, 0]));
}

#[test]
fn rev_15_broken_old_pods_come_first_while_the_budget_is_used_up() {
    let mut clusters = clusters(&[4, 3, 3]);
    clusters[2].broken_old = 2;
    let free = request("8", clusters);
    assert_eq!(split(&free), [1, 1, 0]);
    let answer = plan(&Request { room: Room::Held, ..free }).unwrap();
    assert_eq!(updated(&answer), [0, 0, 2]);
    assert_eq!(answer.rows[2].to_string(), "c: 2 updated, partition 1, 2 broken old pods are mended first");
}

#[test]
fn rev_15_mends_on_top_of_what_is_updated_also_with_partition_rollback() {
    let mut clusters = clusters(&[4, 3, 3]);
    (clusters[2].updated, clusters[2].broken_old) = (1, 1);
    let request = Request { room: Room::Held, rollback: Rollback::On, ..request("8", clusters) };
    let answer = plan(&request).unwrap();
    assert_eq!(updated(&answer), [0, 0, 2]);
    assert_eq!(answer.rows[2].why, Share::Mends(1));
}

#[test]
fn rel_2_waves_to_come_hold_their_part_back_and_nothing_is_missing() {
    let mut clusters = clusters(&[4, 3, 3]);
    for it in &mut clusters[1..] {
        (it.wave, it.admission) = (1, Admission::ToCome);
    }
    let answer = plan(&request("0", clusters)).unwrap();
    assert_eq!((updated(&answer), answer.conditions), (vec![4, 0, 0], vec![]));
}

#[test]
fn cs_2_pods_added_during_a_pause_follow_the_partition() {
    let mut clusters = clusters(&[5, 5, 4]);
    for (it, (previous, updated)) in clusters.iter_mut().zip([(4, 2), (3, 2), (3, 1)]) {
        (it.previous, it.updated, it.granted, it.has_target) = (previous, updated, updated, true);
    }
    let paused = Request { pace: Pace::Paused, ..request("5", clusters) };
    // Nine of fourteen are due, five are new already; each cluster may add only its added pods.
    assert_eq!(split(&paused), [3, 4, 2]);
}

#[test]
fn hostile_numbers_are_refused_or_answered() {
    let too_many = clusters(&[1_000_001]);
    assert_eq!(plan(&request("0", too_many)).unwrap_err(), Error::TooManyReplicas("a".into()));
    let many = |count: u32| (0..count).map(|it| Cluster::new(format!("c{it}"), 0, 1_000_000)).collect();
    assert_eq!(plan(&request("0", many(5_001))).unwrap_err(), Error::TooManyClusters(5_001));
    // The population does not fit into 32 bits.
    let answer = plan(&request("50%", many(5_000))).unwrap();
    assert_eq!(answer.rows.iter().map(|it| u64::from(it.updated)).sum::<u64>(), 2_500_000_000);
    assert_eq!(split(&request("50%", Vec::new())), [0u32; 0]);
}
