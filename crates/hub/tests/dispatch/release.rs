//! Releases: the partition and the budgets are the fleet's.

use serde_json::{Value, json};

use crate::kit::{MEMBERS, Stage, play, policy, rolling};

/// Ten pods of `v1` that rest.
async fn ten(stage: &Stage, fields: Value) {
    stage.place(&policy(|_| {}));
    stage.apply("v1", 10, |spec| rolling(spec, fields));
    stage.rests(10, 0).await;
}

#[test]
fn rev_2_a_partition_is_exact_over_the_fleet_and_never_overshot() {
    play(async |stage| {
        ten(&stage, json!({"maxUnavailable": 2})).await;
        let mut due = 0;
        for (partition, updated) in
            [(json!("90%"), 1), (json!("50%"), 5), (json!(5), 5), (json!(3), 7), (json!(0), 10)]
        {
            due = due.max(updated);
            stage.limits.set(8, 10, due);
            stage.apply("v2", 10, |spec| rolling(spec, json!({"maxUnavailable": 2, "partition": partition})));
            stage.rests(10, updated as usize).await;
            stage.pass(60).await;
            assert_eq!(stage.ready_of("v2") as u64, updated);
            let status = stage.web()["status"].clone();
            assert_eq!(
                (&status["updatedReplicas"], &status["expectedUpdatedReplicas"]),
                (&json!(updated), &json!(updated))
            );
            if partition == json!("90%") {
                // REV-6: clusters without a share of the release do not even know of it.
                let know = MEMBERS.iter().filter(|name| {
                    let spec = stage.assignment(name).unwrap()["spec"].clone();
                    spec["target"] != spec["stable"]
                });
                assert_eq!(know.count(), 1);
            }
        }
        stage
            .until("the release is over", |it| {
                let status = it.web()["status"].clone();
                status["currentRevision"] == status["updateRevision"]
            })
            .await;
    });
}

/// Rolls ten pods from `v1` to `v2` under limits that are checked after every write.
fn rolls_within(unavailable: Value, surge: Value, least: u64, most: u64) {
    play(async |stage| {
        let fields = json!({"maxUnavailable": unavailable, "maxSurge": surge});
        ten(&stage, fields.clone()).await;
        stage.limits.set(least, most, u64::MAX);
        stage.apply("v2", 10, |spec| rolling(spec, fields));
        stage.rests(10, 10).await;
    });
}

#[test]
fn bud_3_one_pod_down_at_a_time_over_the_whole_fleet() {
    rolls_within(json!(1), json!(0), 9, 10);
}

#[test]
fn bud_3_two_pods_down_at_a_time_over_the_whole_fleet() {
    rolls_within(json!(2), json!(0), 8, 10);
}

#[test]
fn bud_1_a_percentage_is_of_the_fleet() {
    rolls_within(json!("20%"), json!(0), 8, 10);
}

#[test]
fn bud_8_one_pod_more_at_a_time_and_none_down() {
    rolls_within(json!(0), json!(1), 10, 11);
}

#[test]
fn bud_8_surge_and_unavailability_together() {
    rolls_within(json!(1), json!("30%"), 9, 13);
}

#[test]
fn rev_10_a_release_that_is_superseded_ends_with_the_newer_one() {
    play(async |stage| {
        ten(&stage, json!({"maxUnavailable": 2})).await;
        stage.limits.set(8, 10, u64::MAX);
        stage.apply("v2", 10, |spec| rolling(spec, json!({"maxUnavailable": 2, "partition": "50%"})));
        stage.until("some pods are new", |it| it.ready_of("v2") >= 2).await;
        stage.apply("v3", 10, |spec| rolling(spec, json!({"maxUnavailable": 2})));
        stage.until("all pods are of the newest", |it| it.ready_of("v3") == 10).await;
        stage.rests(10, 0).await;
    });
}

#[test]
fn a_change_that_makes_no_revision_reaches_every_member_without_a_restart() {
    play(async |stage| {
        ten(&stage, json!({"maxUnavailable": 2})).await;
        stage.limits.set(10, 10, 0);
        stage.apply("v1", 10, |spec| {
            rolling(spec, json!({"maxUnavailable": 2}));
            spec["minReadySeconds"] = json!(3);
        });
        stage
            .until("all members have it", |it| {
                MEMBERS
                    .iter()
                    .all(|name| it.read(name, crate::kit::WEB).unwrap()["spec"]["minReadySeconds"] == 3)
            })
            .await;
        stage.rests(10, 0).await;
    });
}

#[test]
fn a_paused_release_changes_no_pod_and_goes_on_when_it_is_resumed() {
    play(async |stage| {
        ten(&stage, json!({"maxUnavailable": 1})).await;
        stage.limits.set(10, 10, 0);
        stage.apply("v2", 10, |spec| rolling(spec, json!({"maxUnavailable": 1, "paused": true})));
        stage.pass(120).await;
        assert_eq!(stage.ready_of("v2"), 0);
        stage.limits.set(9, 10, 10);
        stage.apply("v2", 10, |spec| rolling(spec, json!({"maxUnavailable": 1})));
        stage.rests(10, 10).await;
    });
}
