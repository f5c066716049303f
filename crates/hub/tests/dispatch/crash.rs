//! A hub that is killed after each of its writes in turn.

use http::Method;
use serde_json::json;

use crate::kit::{FLEET, HUB, Stage, play, policy, rolling};

/// Rolls with the hub killed right after its `k`-th write since the release began. Says whether it was killed.
fn killed_after(k: u64) -> bool {
    let mut was_killed = false;
    let seen = &mut was_killed;
    play(async |stage| {
        stage.place(&policy(|_| {}));
        let fields = |partition: &str| json!({"maxUnavailable": 2, "maxSurge": 1, "partition": partition});
        stage.apply("v1", 6, |spec| rolling(spec, fields("0%")));
        stage.rests(6, 0).await;
        let starts = stage.hub.starts();
        stage.limits.set(4, 7, 3);
        stage.hub.crash_after_writes(k);
        stage.apply("v2", 6, |spec| rolling(spec, fields("50%")));
        stage.rests(6, 3).await;
        stage.limits.set(4, 7, 6);
        stage.set_partition(json!(0));
        stage.rests(6, 6).await;
        *seen = stage.hub.starts() > starts;
    });
    was_killed
}

/// Kills after every fourth write in turn, until a release ends before it is the turn. Says how many were cut short.
fn kill_from(first: u64) -> usize {
    (first..400).step_by(4).take_while(|it| killed_after(*it)).count()
}

// Four tests, so that they run side by side; together they kill after every single write.

#[test]
fn ha_3_a_hub_killed_after_write_1_5_9_and_so_on_exceeds_nothing_and_ends_exact() {
    assert!((5..99).contains(&kill_from(1)));
}

#[test]
fn ha_3_a_hub_killed_after_write_2_6_10_and_so_on_exceeds_nothing_and_ends_exact() {
    assert!((5..99).contains(&kill_from(2)));
}

#[test]
fn ha_3_a_hub_killed_after_write_3_7_11_and_so_on_exceeds_nothing_and_ends_exact() {
    assert!((5..99).contains(&kill_from(3)));
}

#[test]
fn ha_3_a_hub_killed_after_write_4_8_12_and_so_on_exceeds_nothing_and_ends_exact() {
    assert!((5..99).contains(&kill_from(4)));
}

#[test]
fn ha_3_a_first_placement_survives_a_crash_after_any_write() {
    for k in 1..=8 {
        play(async |stage| {
            stage.limits.set(u64::MAX, 10, 0);
            stage.hub.crash_after_writes(k);
            stage.place(&policy(|_| {}));
            stage.apply("v1", 10, |_| {});
            stage.rests(10, 0).await;
            assert_eq!(stage.sorted_replicas(), [3, 3, 4], "killed after write {k}");
        });
    }
}

#[test]
fn a_binding_that_somebody_deletes_is_made_again_and_no_pod_restarts() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 10, |spec| rolling(spec, json!({"maxUnavailable": 2, "partition": "50%"})));
        stage.rests(10, 0).await;
        stage.apply("v2", 10, |spec| rolling(spec, json!({"maxUnavailable": 2, "partition": "50%"})));
        stage.rests(10, 5).await;
        stage.limits.set(10, 10, 5);
        let path = "/apis/fleet.kruise.io/v1alpha1/namespaces/shop/fleetbindings/cloneset.web";
        stage.world.write(HUB, http::Method::DELETE, path, &serde_json::Value::Null).unwrap();
        stage
            .until("it is there again", |it| {
                it.binding()["spec"]["ledger"]["clusters"].as_object().is_some_and(|it| it.len() == 3)
            })
            .await;
        stage.pass(120).await;
        stage.rests(10, 5).await;
    });
}

#[test]
fn proto_3_a_leader_that_a_deposed_one_has_overtaken_begins_anew_and_goes_on() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 6, |_| {});
        stage.rests(6, 0).await;
        // One that woke up late has saved a plan under a number of its own, and noticed then that it leads no more.
        let path = format!("{FLEET}/namespaces/shop/fleetbindings/cloneset.web");
        let term = |stage: &Stage| stage.binding()["spec"]["ledger"]["term"].as_u64().unwrap();
        let overtaken = term(&stage) + 5;
        let patch = json!({"spec": {"ledger": {"term": overtaken}}});
        stage.world.write(HUB, Method::PATCH, &path, &patch).unwrap();
        stage.apply("v1", 9, |_| {});
        stage.rests(9, 0).await;
        assert!(term(&stage) > overtaken, "the next plans are of a later leadership");
        assert_eq!(stage.hub.starts(), 2);
    });
}

/// The same where it came no further than to one member.
#[test]
fn proto_3_a_leader_that_was_overtaken_in_one_member_begins_anew_and_goes_on() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 6, |_| {});
        stage.rests(6, 0).await;
        let path = format!("{FLEET}/namespaces/fleet-member-2/assignments/cloneset.shop.web");
        let term = |stage: &Stage| stage.assignment("member-2").unwrap()["spec"]["term"].as_u64().unwrap();
        let overtaken = term(&stage) + 5;
        stage.world.write(HUB, Method::PATCH, &path, &json!({"spec": {"term": overtaken}})).unwrap();
        stage.apply("v1", 9, |_| {});
        stage.rests(9, 0).await;
        assert!(term(&stage) > overtaken, "the next plans are of a later leadership");
        assert_eq!(stage.hub.starts(), 2);
    });
}
