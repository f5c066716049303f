//! What others do to member objects, and what people are told of it on the hub.

use http::Method;
use kruise_core::{
    admission::{Version, cloneset::default},
    runtime::{gates::Gates, webhook::Operation},
};
use serde_json::{Value, json};

use crate::kit::{HUB, Stage, WEB, all_pods, play, policy, rolling};

/// Reason and message of every event about the hub's object, oldest first.
fn events(stage: &Stage) -> Vec<(String, String)> {
    let events = stage.world.cluster(HUB).server().list("events");
    let about = events.iter().map(|it| it.value()).filter(|it| it["involvedObject"]["name"] == "web");
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    about.map(|it| (text(&it["reason"]), text(&it["message"]))).collect()
}

fn told(stage: &Stage, reason: &str) -> Vec<String> {
    events(stage).into_iter().filter(|it| it.0 == reason).map(|it| it.1).collect()
}

/// A condition of the binding.
fn condition(stage: &Stage, kind: &str) -> Value {
    let binding = stage.binding();
    let conditions = binding["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|it| it["type"] == kind).cloned().unwrap_or_default()
}

/// `web` with this many replicas, as somebody applied it in a member before there was a fleet.
async fn runs_alone(stage: &Stage, member: &str, replicas: u32) -> Vec<String> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    stage.world.write(member, Method::POST, "/api/v1/namespaces", &namespace).unwrap();
    let mut web = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "v1"}]},
            },
        },
    });
    default(&mut web, None, Operation::Create, Version::V1Beta1, Gates::defaults());
    stage.world.write(member, Method::POST, WEB.trim_end_matches("/web"), &web).unwrap();
    stage.until("it runs", |it| pods(it, member).len() == replicas as usize).await;
    stage.pass(30).await;
    pods(stage, member)
}

fn pods(stage: &Stage, member: &str) -> Vec<String> {
    let all = all_pods(&stage.world);
    let mut names: Vec<String> =
        all.into_iter().filter(|it| it.cluster == member && it.is_ready).map(|it| it.name).collect();
    names.sort_unstable();
    names
}

#[test]
fn ad_1_an_object_that_runs_in_a_member_is_taken_over_and_outlives_the_hubs() {
    play(async |stage| {
        let before = runs_alone(&stage, "member-1", 4).await;
        stage.place(&policy(|_| {}));
        stage.apply("v1", 12, |_| {});
        stage.rests(12, 0).await;
        assert_eq!((stage.replicas(), pods(&stage, "member-1")), (vec![4, 4, 4], before.clone()));
        let member = stage.read("member-1", WEB).unwrap();
        assert_eq!(member["metadata"]["annotations"]["fleet.kruise.io/adopted"], "Delete");
        stage.until("that is told", |it| !told(it, "Adopted").is_empty()).await;
        assert_eq!(told(&stage, "Adopted").len(), 1, "{:?}", told(&stage, "Adopted"));
        assert!(told(&stage, "Adopted")[0].contains("member-1"));
        let rows = stage.binding()["status"]["clusters"].clone();
        assert_eq!((&rows[0]["adopted"], &rows[1]["adopted"]), (&json!(true), &Value::Null), "{rows}");
        stage.world.write(HUB, Method::DELETE, WEB, &Value::Null).unwrap();
        stage.until("it is gone", |it| it.read(HUB, WEB).is_none()).await;
        assert_eq!(stage.read("member-2", WEB), None);
        stage.pass(60).await;
        assert_eq!(pods(&stage, "member-1"), before);
    });
}

#[test]
fn ad_1_an_adopted_object_goes_with_the_hubs_if_that_was_asked_for_after_the_adoption() {
    play(async |stage| {
        runs_alone(&stage, "member-1", 4).await;
        stage.place(&policy(|it| it["deletion"] = json!("Orphan")));
        stage.apply("v1", 12, |_| {});
        stage.rests(12, 0).await;
        stage.place(&policy(|it| it["deletion"] = json!("Delete")));
        stage
            .until("it is written", |it| it.assignment("member-1").unwrap()["spec"]["deletion"] == "Delete")
            .await;
        stage.pass(30).await;
        stage.world.write(HUB, Method::DELETE, WEB, &Value::Null).unwrap();
        stage.until("it is gone", |it| it.read(HUB, WEB).is_none()).await;
        assert_eq!(stage.read("member-1", WEB), None);
    });
}

#[test]
fn ad_1_an_object_with_more_pods_than_its_share_is_left_alone_and_the_hub_says_so() {
    play(async |stage| {
        let before = runs_alone(&stage, "member-1", 5).await;
        stage.place(&policy(|_| {}));
        stage.apply("v1", 6, |_| {});
        stage.until("the conflict is told", |it| condition(it, "Conflict")["status"] == "True").await;
        let rows = stage.binding()["status"]["clusters"].clone();
        let reason = rows[0]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("with 5 replicas, and 2 are granted"), "{reason}");
        stage.pass(300).await;
        assert_eq!(pods(&stage, "member-1"), before);
    });
}

#[test]
fn dr_1_and_cs_3_what_was_put_right_in_a_member_is_told_and_counted_on_the_hub() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 9, |_| {});
        stage.rests(9, 0).await;
        stage.pass(120).await;
        let change = |patch: Value| {
            let path = format!("{WEB}?fieldManager=autoscaler");
            stage.world.write("member-2", Method::PATCH, &path, &patch).unwrap();
        };
        change(json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": 3}}}}));
        stage.until("it is told", |it| told(it, "DriftCorrected").len() == 1).await;
        let message = told(&stage, "DriftCorrected")[0].clone();
        assert!(
            message.contains(
                "in member-2: /spec/updateStrategy/rollingUpdate/maxUnavailable changed by autoscaler"
            ),
            "{message}"
        );
        stage.until("it is counted", |it| it.measure("drift_total") == Some(1.0)).await;
        for round in 0..8 {
            change(json!({"spec": {"replicas": 7 + round}}));
            stage.pass(15).await;
        }
        stage.until("the fight is told", |it| condition(it, "Drifted")["status"] == "True").await;
        let drifted = condition(&stage, "Drifted");
        assert_eq!(drifted["reason"], "ScaleConflict", "{drifted}");
        assert!(drifted["message"].as_str().unwrap().contains("autoscaler"), "{drifted}");
        stage.until("all are counted", |it| it.measure("drift_total") >= Some(8.0)).await;
        assert!(!told(&stage, "ScaleConflict").is_empty());
        let all = told(&stage, "ScaleConflict").len() + told(&stage, "DriftCorrected").len();
        assert!(all <= 6, "{:?}", events(&stage));
        stage.until("nobody fights", |it| condition(it, "Drifted").is_null()).await;
        // A hub that restarts tells nothing twice, and counts nothing twice.
        stage.pass(120).await;
        let (before, versions) = (events(&stage).len(), stage.versions());
        stage.hub.crash();
        stage.pass(120).await;
        assert_eq!((events(&stage).len(), stage.versions()), (before, versions));
        assert_eq!(stage.measure("drift_total"), Some(0.0));
    });
}

#[test]
fn st_5_too_few_pods_for_longer_than_the_deadline_are_unhealthy_and_a_restart_of_the_hub_does_not_matter() {
    play(async |stage| {
        stage.place(&policy(|it| it["rollout"] = json!({"progressDeadline": "5m"})));
        stage.apply("v1", 9, |spec| rolling(spec, json!({"maxUnavailable": 1})));
        stage.rests(9, 0).await;
        stage.until("it is available", |it| condition(it, "Available")["status"] == "True").await;
        assert_eq!(condition(&stage, "Progressing")["reason"], "CloneSetAvailable");
        // A silent cluster has pods that nobody knows to serve.
        let link = stage.world.link(&crate::kit::agent_of("member-2"), HUB);
        link.cut(sim::faults::Direction::BOTH);
        stage.until("too few are known", |it| condition(it, "Available")["reason"] == "Recovering").await;
        stage.pass(120).await;
        assert_eq!(condition(&stage, "Available")["status"], "True");
        let since = stage.binding()["status"]["shortSince"].clone();
        stage.hub.crash();
        stage.pass(120).await;
        assert_eq!(stage.binding()["status"]["shortSince"], since, "it goes on counting");
        assert_eq!(condition(&stage, "Available")["status"], "True");
        stage.pass(120).await;
        let available = condition(&stage, "Available");
        assert_eq!((&available["status"], &available["reason"]), (&json!("False"), &json!("TooFew")));
        link.heal();
        stage.until("it is available again", |it| condition(it, "Available")["reason"] == "Enough").await;
        assert_eq!(stage.binding()["status"]["shortSince"], Value::Null);
    });
}

#[test]
fn st_5_a_release_that_rests_on_its_partition_is_healthy_and_one_that_stands_still_is_not_progressing() {
    play(async |stage| {
        stage.place(&policy(|it| it["rollout"] = json!({"progressDeadline": "5m"})));
        stage.apply("v1", 9, |spec| rolling(spec, json!({"maxUnavailable": 1})));
        stage.rests(9, 0).await;
        stage.apply("v2", 9, |spec| rolling(spec, json!({"maxUnavailable": 1, "partition": 5})));
        stage.until("it moves on", |it| condition(it, "Progressing")["reason"] == "CloneSetUpdated").await;
        stage.rests(9, 4).await;
        stage.pass(900).await;
        let progressing = condition(&stage, "Progressing");
        assert_eq!(
            (&progressing["status"], &progressing["reason"]),
            (&json!("True"), &json!("ProgressPartitionAvailable"))
        );
        assert_eq!(condition(&stage, "Available")["status"], "True");
    });
}

#[test]
fn rescheduled_says_why() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 9, |_| {});
        stage.rests(9, 0).await;
        stage.change_member("member-1", &json!({"drain": true}));
        stage.until("it is empty", |it| it.replicas()[0] == 0).await;
        let all = told(&stage, "Rescheduled");
        assert!(
            !all.is_empty() && all.iter().all(|it| it.ends_with(": member-1 is being drained")),
            "{all:?}"
        );
    });
}

#[test]
fn bodies_that_nobody_names_any_more_are_removed_and_a_release_can_go_back_to_one() {
    play(async |stage| {
        let bodies =
            |stage: &Stage| stage.world.cluster(HUB).server().list("fleetrevisions.fleet.kruise.io").len();
        let fast = |spec: &mut Value| rolling(spec, json!({"maxUnavailable": 3}));
        stage.place(&policy(|_| {}));
        stage.apply("v1", 6, fast);
        stage.rests(6, 0).await;
        // A silent cluster is still to be given the first one, or may be carrying it out: its Assignment names it.
        let link = stage.world.link(&crate::kit::agent_of("member-3"), HUB);
        link.cut(sim::faults::Direction::BOTH);
        stage.until("it is not heard", |it| it.state("member-3") == "Offline").await;
        stage.apply("v2", 6, fast);
        stage.until("the others have it", |it| it.ready_of("v2") == 4).await;
        stage.pass(4_500).await;
        assert_eq!(bodies(&stage), 2);
        link.heal();
        stage.rests(6, 6).await;
        stage
            .until("the release is over", |it| {
                let status = it.web()["status"].clone();
                status["currentRevision"] == status["updateRevision"]
            })
            .await;
        stage.pass(900).await;
        assert_eq!(bodies(&stage), 1);
        stage.apply("v1", 6, fast);
        stage.rests(6, 0).await;
        assert_eq!(bodies(&stage), 2);
    });
}
