//! Bodies that somebody deletes, or puts something else in the place of (REV-7).

use http::Method;
use hub::{control::KEY, dispatch::term::NAME as TERM};
use serde_json::{Value, json};

use crate::{
    kit::{FLEET, HUB, LATE, Stage, all_pods, play, policy, rolling},
    moves::is_told,
};

fn body(name: &str) -> String {
    format!("{FLEET}/namespaces/fleet-content/fleetrevisions/{name}")
}

/// The name of the body that the ledger has as `target` or as `stable`.
fn named(stage: &Stage, which: &str) -> String {
    stage.binding()["spec"]["ledger"][which]["name"].as_str().unwrap().to_owned()
}

fn remove(stage: &Stage, name: &str) {
    stage.world.write(HUB, Method::DELETE, &body(name), &Value::Null).unwrap();
}

fn half(spec: &mut Value) {
    rolling(spec, json!({"maxUnavailable": 2, "partition": "50%"}));
}

/// Ten pods, half of them new.
async fn half_released(stage: &Stage) {
    stage.place(&policy(|_| {}));
    stage.apply("v1", 10, half);
    stage.rests(10, 0).await;
    stage.apply("v2", 10, half);
    stage.rests(10, 5).await;
}

/// A cluster joins in mid-release and gets a share of both revisions.
async fn one_more(stage: &mut Stage) {
    stage.welcome();
    stage.until("it is Ready", |it| it.state(LATE) == "Ready").await;
    stage.apply("v2", 16, half);
    stage.until("it is given a share", |it| it.assignment(LATE).is_some()).await;
}

/// Whether sixteen pods run, half of them new, over four clusters.
fn is_spread(stage: &Stage) -> bool {
    stage.web()["status"]["readyReplicas"] == 16 && stage.web()["status"]["updatedReadyReplicas"] == 8
}

#[test]
fn rev_7_the_stable_body_that_somebody_deletes_in_mid_release_is_stored_again_for_who_needs_it() {
    play(async |mut stage| {
        half_released(&stage).await;
        remove(&stage, &named(&stage, "stable"));
        one_more(&mut stage).await;
        stage.until("old and new pods run there too", is_spread).await;
    });
}

#[test]
fn rev_7_a_stable_body_that_nobody_has_any_more_is_told_with_what_helps() {
    play(async |mut stage| {
        half_released(&stage).await;
        let (stable, target) = (named(&stage, "stable"), named(&stage, "target"));
        // Nobody is there who could have a copy.
        stage.hub.crash();
        remove(&stage, &stable);
        one_more(&mut stage).await;
        stage.until("an event tells", |it| is_told(it, "BodyLost")).await;
        assert_ne!(stable, target);
        // What the event says: the template of before once more, and then the new one.
        stage.apply("v1", 16, half);
        stage.until("the body is there again", |it| it.read(HUB, &body(&stable)).is_some()).await;
        stage.apply("v2", 16, half);
        stage.until("old and new pods run there too", is_spread).await;
    });
}

/// What goes with the hub's own namespaces: its key, the count of its leaderships, and all bodies.
fn lose_own_namespaces(stage: &Stage) {
    for path in [
        format!("/api/v1/namespaces/fleet-system/secrets/{KEY}"),
        format!("/api/v1/namespaces/fleet-system/configmaps/{TERM}"),
    ] {
        stage.world.write(HUB, Method::DELETE, &path, &Value::Null).unwrap();
    }
    for which in ["target", "stable"] {
        remove(stage, &named(stage, which));
    }
}

#[test]
fn proto_7_a_hub_that_lost_its_key_its_count_and_all_bodies_restarts_nothing_and_goes_on() {
    play(async |stage| {
        half_released(&stage).await;
        let lives = || all_pods(&stage.world).into_iter().map(|it| (it.cluster, it.name)).collect::<Vec<_>>();
        let before = lives();
        stage.hub.crash();
        lose_own_namespaces(&stage);
        stage.limits.set(10, 10, 5);
        stage.pass(300).await;
        stage.rests(10, 5).await;
        assert_eq!(lives(), before, "no pod was replaced");
        stage.limits.set(8, 10, 10);
        stage.set_partition(json!(0));
        stage.rests(10, 10).await;
    });
}

#[test]
fn rev_7_something_else_under_the_name_of_a_body_is_replaced() {
    for which in ["target", "stable"] {
        play(async |mut stage| {
            half_released(&stage).await;
            let name = named(&stage, which);
            let mut forged = stage.read(HUB, &body(&name)).unwrap();
            remove(&stage, &name);
            forged["metadata"] = json!({"name": name});
            forged["spec"]["hash"] = json!("00000000000000ff");
            forged["spec"]["body"]["spec"]["template"]["spec"]["containers"][0]["image"] = json!("forged");
            let folder = format!("{FLEET}/namespaces/fleet-content/fleetrevisions");
            stage.world.write(HUB, Method::POST, &folder, &forged).unwrap();
            one_more(&mut stage).await;
            stage.until("old and new pods run there too", is_spread).await;
            assert!(is_told(&stage, "BodyReplaced"), "{which}");
        });
    }
}
