//! Without the hub.

use http::Method;
use serde_json::{Value, json};
use sim::faults::Direction;

use crate::kit::{HUB, MEMBER, Stage, WEB, plan, play, share};

fn cut(stage: &Stage) {
    stage.world.link("agent", HUB).cut(Direction::BOTH);
}

fn kill_a_pod(stage: &Stage) -> String {
    let pods = stage.world.cluster(MEMBER).server().list("pods");
    let name = pods[0].value()["metadata"]["name"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/namespaces/shop/pods/{name}");
    stage.world.write(MEMBER, Method::DELETE, &path, &Value::Null).unwrap();
    name
}

#[test]
fn proto_6_with_the_hub_away_pods_are_replaced_and_the_plan_stands() {
    play(async |stage| {
        stage.publish("v1");
        stage.assign(plan(1, "v1", share(3, 3)));
        stage.acknowledged(1).await;
        stage.until("they run", |it| it.images().len() == 3).await;
        cut(&stage);
        kill_a_pod(&stage);
        stage.assign(plan(2, "v1", share(5, 5)));
        stage.pass(300).await;
        assert_eq!((stage.images().len(), &stage.web().unwrap()["spec"]["replicas"]), (3, &json!(3)));
        stage.world.link("agent", HUB).heal();
        stage.acknowledged(2).await;
        stage.until("the newer plan is carried out", |it| it.images().len() == 5).await;
    });
}

#[test]
fn proto_6_an_agent_that_starts_without_its_hub_goes_on_at_the_last_plan() {
    play(async |stage| {
        stage.publish("v1");
        stage.assign(plan(1, "v1", share(3, 3)));
        stage.acknowledged(1).await;
        stage.until("they run", |it| it.images().len() == 3).await;
        cut(&stage);
        stage.agent.crash();
        stage.pass(60).await;
        assert_eq!(stage.agent.starts(), 2);
        // Only an agent that knows the plan can put this right.
        let mut web = stage.web().unwrap();
        web["spec"]["replicas"] = json!(1);
        stage.world.write(MEMBER, Method::PUT, WEB, &web).unwrap();
        stage.until("it is put right", |it| it.web().unwrap()["spec"]["replicas"] == 3).await;
        // And only one that has the body can make it again.
        stage.world.write(MEMBER, Method::DELETE, WEB, &Value::Null).unwrap();
        stage.until("it is made again", |it| it.web().is_some_and(|it| it["spec"]["replicas"] == 3)).await;
        stage.until("its pods run", |it| it.images().len() == 3).await;
        stage.world.link("agent", HUB).heal();
        stage.assign(plan(2, "v1", share(4, 4)));
        stage.acknowledged(2).await;
        assert_eq!(stage.told()["incarnation"], 2, "JOIN-7");
    });
}

#[test]
fn restart_noop_an_agent_that_starts_at_rest_writes_nothing() {
    play(async |stage| {
        stage.publish("v1");
        stage.assign(plan(1, "v1", share(3, 3)));
        stage.until("it rests", |it| it.told()["state"] == "Settled").await;
        stage.pass(60).await;
        let all = |stage: &Stage| {
            let versions = |cluster: &str, kind: &str| -> Vec<String> {
                let objects = stage.world.cluster(cluster).server().list(kind);
                objects.iter().map(|it| it.value()["metadata"]["resourceVersion"].to_string()).collect()
            };
            let member = ["secrets", "pods", "clonesets.apps.kruise.io", "controllerrevisions.apps"];
            let mut all: Vec<_> = member.iter().flat_map(|it| versions(MEMBER, it)).collect();
            all.extend(versions(HUB, "assignments.fleet.kruise.io"));
            all
        };
        let before = all(&stage);
        assert!(before.len() >= 7, "{before:?}");
        stage.agent.crash();
        stage.pass(300).await;
        assert_eq!((stage.agent.starts(), all(&stage)), (2, before));
    });
}

#[test]
fn state_1_the_lease_is_renewed_about_every_ten_seconds() {
    play(async |stage| {
        let path = "/apis/coordination.k8s.io/v1/namespaces/fleet-member-1/leases/agent";
        let version = |stage: &Stage| stage.read(HUB, path).unwrap()["metadata"]["resourceVersion"].clone();
        stage.pass(20).await;
        for _ in 0..5 {
            let before = version(&stage);
            stage.pass(13).await;
            assert_ne!(version(&stage), before);
        }
    });
}
