//! A hub whose data was restored from an older copy (HA-5).

use serde_json::{Value, json};
use sim::faults::Direction;

use crate::kit::{FLEET, HUB, MEMBERS, Stage, agent_of, play, policy, rolling};

const BINDING: &str = "/namespaces/shop/fleetbindings/cloneset.web";

fn stale(stage: &Stage) -> Value {
    let conditions = stage.binding()["status"]["conditions"].clone();
    let found = conditions.as_array().into_iter().flatten().find(|it| it["type"] == "Stale").cloned();
    found.unwrap_or_default()
}

/// What `kubectl fleet recover` writes.
fn recover(stage: &Stage) {
    let newest = |it: &&str| stage.assignment(it).unwrap()["status"]["appliedSeq"].clone();
    let newest: serde_json::Map<String, Value> =
        MEMBERS.iter().map(|it| ((*it).to_owned(), newest(it))).collect();
    let patch = json!({"metadata": {"annotations": {"fleet.kruise.io/recover": json!(newest).to_string()}}});
    stage.world.write(HUB, http::Method::PATCH, &format!("{FLEET}{BINDING}"), &patch).unwrap();
}

fn cut(stage: &Stage) {
    MEMBERS.iter().for_each(|it| stage.world.link(&agent_of(it), HUB).cut(Direction::BOTH));
}

fn heal(stage: &Stage) {
    MEMBERS.iter().for_each(|it| stage.world.link(&agent_of(it), HUB).heal());
}

/// Nine pods of `v2` run, and the hub is back at six of `v1`.
async fn go_back(stage: &Stage) {
    stage.place(&policy(|_| {}));
    stage.apply("v1", 6, |spec| rolling(spec, json!({"maxUnavailable": 2})));
    stage.rests(6, 0).await;
    stage.pass(30).await;
    let copy = stage.copy();
    stage.apply("v2", 9, |spec| rolling(spec, json!({"maxUnavailable": 2})));
    stage.rests(9, 9).await;
    stage.pass(30).await;
    // As when a machine is restored: nobody reaches the hub meanwhile.
    cut(stage);
    stage.hub.crash();
    stage.go_back(&copy);
    assert_eq!(stage.web()["spec"]["replicas"], 6, "the hub has forgotten");
}

#[test]
fn ha_5_a_restored_hub_writes_nothing_before_it_has_heard_its_members() {
    play(async |stage| {
        go_back(&stage).await;
        let before = MEMBERS.map(|it| stage.assignment(it).unwrap()["spec"].clone());
        // It would write at once: every share gets something else, and two would shrink.
        stage.apply("v1", 5, |spec| {
            rolling(spec, json!({"maxUnavailable": 2}));
            spec["minReadySeconds"] = json!(1);
        });
        stage.limits.set(9, 9, 9);
        // Long enough for a restart and some rounds, and too short for members to be Offline.
        stage.pass(30).await;
        assert!(stage.hub.starts() > 1);
        assert_eq!(MEMBERS.map(|it| stage.assignment(it).unwrap()["spec"].clone()), before);
        heal(&stage);
        stage
            .until("it says that it knows less than its members", |it| stale(it)["reason"] == "Restored")
            .await;
        stage.pass(300).await;
        assert_eq!(stage.replicas(), [3, 3, 3], "members go on as they were");
        let message = stale(&stage)["message"].as_str().unwrap().to_owned();
        assert!(
            MEMBERS.iter().all(|it| message.contains(it)) && message.contains("kubectl fleet recover"),
            "{message}"
        );
        // Less than what the members have is what the restored object asks for, by its own limits.
        stage.limits.set(3, 9, 9);
        recover(&stage);
        stage.rests(5, 0).await;
        assert_eq!(stale(&stage), Value::Null);
    });
}

#[test]
fn ha_5_members_that_are_not_heard_after_a_restore_are_frozen_and_the_others_wait_for_a_person() {
    play(async |stage| {
        go_back(&stage).await;
        stage.limits.set(9, 9, 9);
        for member in ["member-1", "member-2"] {
            stage.world.link(&agent_of(member), HUB).heal();
        }
        stage.until("the third is Offline", |it| it.state("member-3") == "Offline").await;
        stage.until("two are known to be ahead", |it| stale(it)["reason"] == "Restored").await;
        stage.pass(120).await;
        assert_eq!(stage.replicas(), [3, 3, 3]);
        heal(&stage);
        stage
            .until("all are known to be ahead", |it| {
                stale(it)["message"].as_str().is_some_and(|told| told.contains("member-3"))
            })
            .await;
        assert_eq!(stage.replicas(), [3, 3, 3]);
        stage.limits.set(4, 9, 9);
        recover(&stage);
        stage.rests(6, 0).await;
    });
}

#[test]
fn ha_5_a_confirmation_of_another_plan_is_none() {
    play(async |stage| {
        go_back(&stage).await;
        heal(&stage);
        stage.until("it knows less", |it| stale(it)["reason"] == "Restored").await;
        let said = json!({"member-1": 1, "member-2": 1, "member-3": 1}).to_string();
        let patch = json!({"metadata": {"annotations": {"fleet.kruise.io/recover": said}}});
        stage.world.write(HUB, http::Method::PATCH, &format!("{FLEET}{BINDING}"), &patch).unwrap();
        stage.pass(120).await;
        assert_eq!((stage.replicas(), stale(&stage)["reason"].clone()), (vec![3, 3, 3], json!("Restored")));
    });
}
