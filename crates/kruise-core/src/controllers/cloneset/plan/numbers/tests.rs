//! Every row of cloneset.md 17.1.
//!
//! `n` and `o` are new and old pods; `-` not ready, `!` marked for deletion, `~` preparing for deletion, `?` in another
//! lifecycle step; a number in front repeats.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::api::cloneset::v1beta1::CloneSetSpec;

const ON: Mode =
    Mode { is_settled: false, may_roll_back: true, excludes_preparing_delete: false, needs_no_surge: false };

fn pods(text: &str) -> Vec<Counted> {
    let mut pods = Vec::new();
    for word in text.split_whitespace() {
        let kind = word.find(['n', 'o']).unwrap();
        let (count, rest) = (word[..kind].parse().unwrap_or(1), &word[kind..]);
        let pod = Counted {
            is_new: rest.starts_with('n'),
            is_preparing_delete: rest.contains('~'),
            is_marked: rest.contains('!'),
            is_available: !rest.contains(['-', '~', '?']),
        };
        pods.extend(vec![pod; count]);
    }
    pods
}

fn limits(spec: Value) -> Limits {
    let mut whole = json!({"selector": {}, "template": {}});
    json_patch::merge(&mut whole, &spec);
    Limits::of(&serde_json::from_value::<CloneSetSpec>(whole).unwrap())
}

/// Limits from replicas, partition, maxUnavailable and maxSurge.
fn rolling(replicas: i32, partition: Value, unavailable: Value, surge: Value) -> Limits {
    limits(json!({"replicas": replicas, "updateStrategy": {"rollingUpdate": {
        "partition": partition, "maxUnavailable": unavailable, "maxSurge": surge,
    }}}))
}

fn plain(replicas: i32, unavailable: i32) -> Limits {
    rolling(replicas, json!(0), json!(unavailable), json!(0))
}

const ZERO: Numbers = Numbers {
    scale_up: 0,
    scale_up_old: 0,
    scale_up_limit: 0,
    scale_down: 0,
    scale_down_old: 0,
    delete_ready_limit: 0,
    surge: 0,
    surge_old: 0,
    update: 0,
    update_max_unavailable: 0,
};

#[track_caller]
fn gives(limits: Limits, text: &str, mode: Mode, expected: Numbers) {
    assert_eq!(numbers(&limits, pods(text), mode), expected, "{text}");
}

#[test]
fn plain_scaling() {
    gives(plain(0, 1), "", ON, ZERO);
    gives(plain(5, 1), "", ON, Numbers { scale_up: 5, scale_up_limit: 5, ..ZERO });
    gives(plain(5, 1), "5n", ON, ZERO);
}

#[test]
fn marked_pods_go_one_budget_at_a_time() {
    let one = Numbers { delete_ready_limit: 1, ..ZERO };
    gives(plain(5, 1), "n! 4n", ON, one);
    gives(plain(5, 1), "n! n! 3n", ON, one);
    gives(
        plain(5, 1),
        "n! 3n",
        ON,
        Numbers { scale_up: 1, scale_up_limit: 1, delete_ready_limit: 0, ..ZERO },
    );
    gives(plain(5, 1), "n! 3n n-", ON, ZERO);
    gives(plain(4, 1), "n-! n-! 3n", ON, Numbers { delete_ready_limit: 2, ..ZERO });
}

#[test]
fn a_marked_pod_that_is_down_uses_up_the_budget() {
    let limit = |replicas, text| {
        let pods = pods(text);
        let down = pods.iter().filter(|it| it.is_marked && !it.is_available).count();
        ready_deletions(&numbers(&plain(replicas, 1), pods, ON), down)
    };
    assert_eq!(limit(5, "n-! n! 3n"), 0, "one is down already");
    assert_eq!(limit(5, "n! n! 3n"), 1);
    assert_eq!(limit(4, "n-! n! 3n"), 1, "one is too many");
    assert_eq!(limit(4, "n-! n-! 3n"), 0);
}

#[test]
fn an_update_goes_as_far_as_the_partition() {
    let limits = rolling(5, json!(3), json!(1), json!(0));
    gives(limits, "5o", ON, Numbers { update: 2, update_max_unavailable: 1, ..ZERO });
    gives(limits, "n 4o", ON, Numbers { update: 1, update_max_unavailable: 1, ..ZERO });
    gives(limits, "2n 3o", ON, ZERO);
}

#[test]
fn a_grown_partition_takes_pods_back_where_the_gate_is_on() {
    let limits = rolling(5, json!(4), json!(2), json!(0));
    gives(limits, "4n o", ON, Numbers { update: -3, update_max_unavailable: 2, ..ZERO });
    gives(limits, "2n 3o", ON, Numbers { update: -1, update_max_unavailable: 2, ..ZERO });
    gives(limits, "n 4o", ON, ZERO);
    gives(limits, "o 4n", Mode { may_roll_back: false, ..ON }, ZERO);
}

#[test]
fn a_marked_pod_is_replaced_first_where_only_surge_is_allowed() {
    let limits = rolling(5, json!(0), json!(0), json!(1));
    gives(limits, "n! 4n", ON, Numbers { scale_up: 1, scale_up_limit: 1, surge: 1, ..ZERO });
    gives(limits, "n! 4n n-", ON, Numbers { surge: 1, ..ZERO });
    gives(limits, "n! 5n", ON, Numbers { delete_ready_limit: 1, surge: 1, ..ZERO });
    gives(limits, "5n", ON, ZERO);
}

#[test]
fn an_update_with_surge_in_place() {
    let limits = rolling(5, json!(3), json!(1), json!(1));
    gives(
        limits,
        "5o",
        ON,
        Numbers { scale_up: 1, scale_up_limit: 1, surge: 1, update: 2, update_max_unavailable: 1, ..ZERO },
    );
    gives(limits, "5o n-", ON, Numbers { surge: 1, update: 1, update_max_unavailable: 2, ..ZERO });
    gives(limits, "4o n? n-", ON, Numbers { scale_down: 1, scale_down_old: 1, ..ZERO });
    gives(limits, "4o n n-", ON, Numbers { scale_down: 1, scale_down_old: 1, delete_ready_limit: 1, ..ZERO });
}

#[test]
fn an_update_with_surge_by_replacing() {
    let limits = rolling(5, json!(3), json!(1), json!(1));
    let expected = Numbers {
        surge: 1,
        surge_old: 1,
        delete_ready_limit: 1,
        update: 1,
        update_max_unavailable: 2,
        ..ZERO
    };
    gives(limits, "4o o! n-", ON, expected);
    let expected =
        Numbers { scale_up: 1, scale_up_limit: 1, surge: 1, update: 1, update_max_unavailable: 1, ..ZERO };
    gives(limits, "4o n-", ON, expected);
    gives(limits, "3o 2n", ON, ZERO);
}

#[test]
fn percents() {
    let up = |allowed| Numbers {
        scale_up: 1,
        scale_up_limit: 1,
        surge: 1,
        update: 1,
        update_max_unavailable: allowed,
        ..ZERO
    };
    let down = |limit| Numbers { scale_down: 1, scale_down_old: 1, delete_ready_limit: limit, ..ZERO };
    for (unavailable, surge, allowed) in
        [(json!(3), json!(2), 3), (json!("40%"), json!("30%"), 2), (json!("30%"), json!("30%"), 1)]
    {
        let limits = rolling(5, json!("99%"), unavailable, surge);
        gives(limits, "5o", ON, up(allowed));
        gives(limits, "5o n-", ON, down(allowed));
        gives(limits, "4o n-", ON, ZERO);
    }
}

#[test]
fn nothing_is_taken_back_once_current_and_update_revision_are_one() {
    let on = Mode { is_settled: true, ..ON };
    gives(rolling(5, json!(3), json!(1), json!(0)), "5n", on, ZERO);
    gives(rolling(5, json!(3), json!(1), json!(0)), "2o 3n", on, ZERO);
    let limits = rolling(5, json!(1), json!(1), json!(0));
    gives(limits, "3o 2n", on, Numbers { update: 2, update_max_unavailable: 1, ..ZERO });
    let two = rolling(5, json!(1), json!(2), json!(0));
    let expected = Numbers { scale_up: 1, scale_up_limit: 1, update: 1, update_max_unavailable: 1, ..ZERO };
    gives(two, "2o 2n", on, expected);
    let expected = Numbers {
        scale_down: 1,
        scale_down_old: 2,
        delete_ready_limit: 2,
        update: 1,
        update_max_unavailable: 2,
        ..ZERO
    };
    gives(limits, "3o 3n", on, expected);
}

#[test]
fn unavailable_pods_brake_scaling_out() {
    let limits =
        |replicas: i32| limits(json!({"replicas": replicas, "scaleStrategy": {"maxUnavailable": 2}}));
    gives(limits(5), "", ON, Numbers { scale_up: 5, scale_up_limit: 2, ..ZERO });
    gives(limits(6), "2n n-", ON, Numbers { scale_up: 3, scale_up_limit: 1, ..ZERO });
    gives(limits(6), "n 2n-", ON, Numbers { scale_up: 3, scale_up_limit: 0, ..ZERO });
}

#[test]
fn pods_that_prepare_for_deletion_count_as_replicas_or_not() {
    let exclude = Mode { excludes_preparing_delete: true, ..ON };
    let up = Numbers { scale_up: 1, scale_up_limit: 1, ..ZERO };
    gives(plain(3, 1), "2n n!", ON, Numbers { delete_ready_limit: 1, ..ZERO });
    gives(plain(3, 1), "2n n~!", ON, ZERO);
    gives(plain(3, 1), "2n", ON, up);
    gives(plain(3, 1), "2n n~!", exclude, up);
    gives(plain(3, 1), "2n n~! n-", exclude, ZERO);
    gives(plain(3, 1), "3n n-", exclude, Numbers { scale_down: 1, delete_ready_limit: 1, ..ZERO });
    gives(plain(2, 1), "2n n!", exclude, Numbers { delete_ready_limit: 2, ..ZERO });
    gives(plain(2, 1), "2n n~!", exclude, ZERO);
    gives(plain(3, 1), "2n n~!", exclude, up);
}

#[test]
fn a_pod_that_prepares_its_update_can_count_as_new() {
    // Whether it does is the gate PreparingUpdateAsUpdate, which the caller has answered.
    let up = |old| Numbers { scale_up: 1, scale_up_old: old, scale_up_limit: 1, ..ZERO };
    let percent = rolling(4, json!("90%"), json!(1), json!(0));
    gives(percent, "n? 2o", Mode { is_settled: false, ..ON }, up(1));
    gives(rolling(4, json!(2), json!(1), json!(0)), "n? 2o", ON, up(0));
}

#[test]
fn paused_without_any_unavailability() {
    let spec = |replicas: i32, partition: i32| {
        limits(json!({"replicas": replicas, "updateStrategy": {"rollingUpdate": {
            "partition": partition, "maxUnavailable": 0, "maxSurge": 3, "paused": true,
        }}}))
    };
    let expected = Numbers { scale_up: 2, scale_up_limit: 2, update: 3, update_max_unavailable: -2, ..ZERO };
    gives(spec(5, 0), "3o", ON, expected);
    let expected = Numbers {
        scale_down: 2,
        scale_down_old: 5,
        delete_ready_limit: 2,
        update: 3,
        update_max_unavailable: 2,
        ..ZERO
    };
    gives(spec(3, 0), "5o", ON, expected);
    let expected = Numbers { scale_down: 3, scale_down_old: 5, update: 2, update_max_unavailable: 3, ..ZERO };
    gives(spec(5, 0), "5o 3n-", ON, expected);
    let with_partition = numbers(&spec(5, 2), pods("5o 3n-"), ON);
    assert_eq!((with_partition.scale_down, with_partition.scale_down_old), (3, 3));
}

#[test]
fn no_pod_is_added_for_changes_that_need_no_restart_as_kruise_2369_asks() {
    let limits = rolling(5, json!(0), json!(1), json!(1));
    let quiet = numbers(&limits, pods("5o"), Mode { needs_no_surge: true, ..ON });
    assert_eq!((quiet.surge, quiet.scale_up, quiet.update), (0, 0, 5));
    let stuck = rolling(5, json!(0), json!(0), json!(1));
    assert_eq!(
        numbers(&stuck, pods("5o"), Mode { needs_no_surge: true, ..ON }).surge,
        1,
        "the only way to go on"
    );
    let marked = numbers(&limits, pods("4o o! o-"), Mode { needs_no_surge: true, ..ON });
    assert_eq!(marked.surge, 1, "a marked pod is replaced all the same");
}

#[test]
fn a_partition_that_cannot_be_read_leaves_every_pod_as_it_is() {
    let limits = rolling(5, json!("many"), json!(1), json!(1));
    assert_eq!(limits.partition, Partition::Unreadable);
    gives(limits, "3o 2n", ON, ZERO);
    gives(limits, "3o n", ON, Numbers { scale_up: 1, scale_up_old: 2, scale_up_limit: 1, ..ZERO });
}

#[test]
fn what_cannot_be_read_is_taken_as_the_careful_value() {
    let limits = limits(json!({
        "replicas": 10,
        "scaleStrategy": {"maxUnavailable": "x"},
        "updateStrategy": {"rollingUpdate": {"maxUnavailable": "5", "maxSurge": "-3%"}},
    }));
    assert_eq!((limits.max_unavailable, limits.max_surge, limits.scale_max_unavailable), (0, 0, 0));
}

#[test]
fn percents_round_as_in_the_documents() {
    let unavailable =
        |replicas, value: &str| rolling(replicas, json!(0), json!(value), json!(0)).max_unavailable;
    assert_eq!(unavailable(10, "33.3%"), 4, "a fraction of a percent is no error (kruise#2111)");
    assert_eq!(unavailable(3, "20%"), 1);
    assert_eq!(rolling(3, json!(0), json!("20%"), json!(1)).max_unavailable, 0, "rounds down beside surge");
    assert_eq!(limits(json!({"replicas": 4, "updateStrategy": {"type": "OnDelete"}})).max_unavailable, 1);
    let kept = |replicas, value: Value| rolling(replicas, value, json!(1), json!(0)).partition;
    let rows = [
        (0, json!("99%"), 0),
        (9, json!("99%"), 8),
        (10, json!("90%"), 9),
        (10, json!("1%"), 1),
        (99, json!("99%"), 98),
        (99, json!("100%"), 99),
        (99, json!("0%"), 0),
        (1, json!("1%"), 1),
        (9, json!("0.01%"), 1),
        (999, json!("99.99%"), 998),
        (5, json!("100.0%"), 4),
        (5, json!(7), 5),
        (10, Value::Null, 0),
    ];
    for (replicas, value, expected) in rows {
        assert_eq!(kept(replicas, value.clone()), Partition::Keep(expected), "{value} of {replicas}");
    }
}

fn any_pod() -> impl Strategy<Value = Counted> {
    (any::<bool>(), prop::bool::weighted(0.1), prop::bool::weighted(0.2), any::<bool>()).prop_map(
        |(is_new, is_preparing_delete, is_marked, is_available)| Counted {
            is_new,
            is_preparing_delete,
            is_marked,
            is_available: is_available && !is_preparing_delete,
        },
    )
}

fn any_limits() -> impl Strategy<Value = Limits> {
    (0..12_i64, 0..14_i64, 0..4_i64, 0..4_i64, 1..20_i64).prop_map(
        |(replicas, partition, max_surge, max_unavailable, scale_max_unavailable)| Limits {
            replicas,
            partition: Partition::Keep(partition.min(replicas)),
            max_surge,
            max_unavailable,
            scale_max_unavailable,
            min_ready_seconds: 0,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn no_more_than_replicas_and_surge_are_ever_wanted(
        limits in any_limits(), pods in prop::collection::vec(any_pod(), 0..16), exclude: bool, back: bool,
    ) {
        let mode = Mode { excludes_preparing_delete: exclude, may_roll_back: back, ..ON };
        let it = numbers(&limits, pods.clone(), mode);
        prop_assert!(it.surge <= limits.max_surge && it.surge_old <= it.surge);
        prop_assert!(it.scale_up_limit <= it.scale_up);
        prop_assert!(it.scale_up == 0 || it.scale_down == 0);
        let preparing = pods.iter().filter(|it| it.is_preparing_delete).count() as i64;
        let counted = pods.len() as i64 - if exclude { preparing } else { 0 };
        prop_assert!(it.scale_up == 0 || counted + it.scale_up <= limits.replicas + limits.max_surge);
        // Whatever is removed, the replicas stay.
        let marked = pods.iter().filter(|it| it.is_marked && !it.is_preparing_delete).count() as i64;
        prop_assert!(it.scale_down == 0 || counted - marked - it.scale_down >= limits.replicas);
    }

    #[test]
    fn deleting_what_is_allowed_takes_no_more_down_than_allowed(
        limits in any_limits(), pods in prop::collection::vec(any_pod(), 0..16),
    ) {
        let it = numbers(&limits, pods.clone(), ON);
        let marked_down = pods.iter().filter(|it| it.is_marked && !it.is_preparing_delete && !it.is_available).count();
        let available = pods.iter().filter(|it| it.is_available).count() as i64;
        let after = available - ready_deletions(&it, marked_down);
        // Either nothing ready may go, or enough stays available.
        prop_assert!(after == available || after >= limits.replicas - limits.max_unavailable, "{after} of {it:?}");
    }
}
