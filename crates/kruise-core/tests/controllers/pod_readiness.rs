//! Readiness gates are opened, whatever the network does.

use axum::http::Method;
use kruise_core::{controllers::pod_readiness, runtime::clock::Clock};
use kube::Client;
use serde_json::{Value, json};
use sim::{
    World,
    faults::{Fate, Weather},
    fleet,
};

use crate::kit::*;

async fn open_gates(client: Client, clock: Clock) {
    run(client, clock, pod_readiness::NAME, |it| {
        pod_readiness::controller(it.client, &it.pods, it.settings).run(it.token)
    })
    .await;
}

fn create(world: &World, name: &str) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": {
            "readinessGates": [{ "conditionType": "KruisePodReady" }],
            "containers": [{ "name": "main", "image": "nginx:1" }],
        },
    });
    write(world, Method::POST, PODS, &pod);
}

fn gate(world: &World, name: &str) -> Option<Value> {
    let pod = read(world, &format!("{PODS}/{name}"))?;
    let conditions = pod["status"]["conditions"].as_array()?.clone();
    conditions.into_iter().find(|it| it["type"] == "KruisePodReady")
}

#[test]
fn pods_become_ready_although_the_controller_keeps_dying_on_a_bad_network() {
    for seed in 0..4 {
        fleet().nodes(3).weather(Weather::rough()).seed(seed).run(async |world| {
            let controller = start_agent(&world, open_gates);
            for round in 0..6_u64 {
                controller.crash_after_writes(2);
                for index in 0..4 {
                    create(&world, &format!("pod-{round}-{index}"));
                }
                world.pass(secs(40)).await;
            }
            world.link(AGENT, CLUSTER).set_weather(Weather::calm());
            world.all_ready(CLUSTER, secs(900)).await;
            assert!(controller.starts() > 3, "it died often: {}", controller.starts());

            restart_at_rest(&world, &controller).await;
        });
    }
}

#[test]
fn a_gate_that_somebody_closed_stays_closed() {
    fleet().nodes(1).seed(1).run(async |world| {
        create(&world, "held");
        let closed = json!({ "status": { "conditions": [{ "type": "KruisePodReady", "status": "False" }] } });
        write(&world, Method::PATCH, &format!("{PODS}/held/status"), &closed);
        let _controller = start_agent(&world, open_gates);
        create(&world, "free");
        world
            .eventually("the other gate is open", secs(60), |it| {
                gate(it, "free").is_some_and(|it| it["status"] == "True")
            })
            .await;
        world.pass(secs(60)).await;
        assert_eq!(gate(&world, "held").unwrap()["status"], "False");
    });
}

#[test]
fn the_listed_rights_are_those_that_are_used() {
    fleet().nodes(1).seed(1).run(async |world| {
        let asked = Asked::default();
        let task = tokio::spawn(open_gates(asked.client(&world), clock(&world)));
        create(&world, "a");
        world.eventually("the gate is open", secs(60), |it| gate(it, "a").is_some()).await;
        // A pod that is replaced while its condition is on the way: the answer is looked into.
        world.link("controller", CLUSTER).next(|it| it.path.subresource == "status", Fate::Refuse(409));
        create(&world, "b");
        world.eventually("the gate is open", secs(60), |it| gate(it, "b").is_some()).await;
        world.pass(secs(120)).await;
        task.abort();
        assert_eq!(asked.all(), listed(&pod_readiness::needs()));
    });
}
