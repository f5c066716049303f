//! Containers start in order, whatever the network does.

use std::collections::BTreeSet;

use axum::http::Method;
use kruise_core::{
    controllers::launch_priority,
    pod::launch::{COMPLETED, priority_of_key, waiting_entry},
    runtime::clock::Clock,
};
use kube::Client;
use serde_json::{Value, json};
use sim::{
    World,
    faults::{Fate, Weather},
    fleet,
    server::request::ApiRequest,
};

use crate::kit::*;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The priorities of the containers, by position.
const PRIORITIES: [i64; 4] = [3, 5, 0, 3];

async fn release(client: Client, clock: Clock) {
    run(client, clock, launch_priority::NAME, |it| {
        launch_priority::controller(it.client, &it.pods, it.settings).run(it.token)
    })
    .await;
}

/// A pod as admission leaves it. There are no nodes: the test is its kubelet.
fn create(world: &World, name: &str) {
    let barrier = format!("{name}-barrier");
    let containers: Vec<Value> = PRIORITIES
        .iter()
        .enumerate()
        .map(|(index, it)| {
            json!({ "name": format!("c{index}"), "image": "i:1", "env": [waiting_entry(&barrier, *it)] })
        })
        .collect();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name }, "spec": { "containers": containers },
    });
    write(world, Method::POST, PODS, &pod);
}

fn released(world: &World, name: &str) -> BTreeSet<i64> {
    let Some(map) = read(world, &format!("{MAPS}/{name}-barrier")) else { return BTreeSet::new() };
    map["data"].as_object().unwrap().keys().filter_map(|it| priority_of_key(it)).collect()
}

fn pod(world: &World, name: &str) -> Value {
    read(world, &format!("{PODS}/{name}")).unwrap()
}

fn is_complete(world: &World, name: &str) -> bool {
    pod(world, name)["metadata"]["annotations"][COMPLETED] == "true"
}

/// The priorities whose containers are all ready.
fn ready(pod: &Value) -> BTreeSet<i64> {
    let is_ready = |index: usize| pod["status"]["containerStatuses"][index]["ready"] == true;
    let waiting = |it: &i64| PRIORITIES.iter().enumerate().any(|(index, p)| p == it && !is_ready(index));
    PRIORITIES.iter().filter(|it| !waiting(it)).copied().collect()
}

/// Makes the containers ready that may start, as kubelet would after a while.
fn start(world: &World, name: &str) {
    let released = released(world, name);
    let statuses: Vec<Value> = PRIORITIES
        .iter()
        .enumerate()
        .map(|(index, it)| {
            json!({
                "name": format!("c{index}"), "ready": released.contains(it), "image": "i:1", "imageID": "",
                "restartCount": 0,
            })
        })
        .collect();
    let patch = json!({ "status": { "containerStatuses": statuses } });
    write(world, Method::PATCH, &format!("{PODS}/{name}/status"), &patch);
}

/// No priority is let go before all higher ones are ready.
fn in_order(world: &World, name: &str) -> Result<(), String> {
    let Some(pod) = read(world, &format!("{PODS}/{name}")) else { return Ok(()) };
    let (released, ready) = (released(world, name), ready(&pod));
    let early = released.iter().find(|it| PRIORITIES.iter().any(|p| p > it && !ready.contains(p)));
    early.map_or(Ok(()), |it| Err(format!("{name}: {it} was let go with only {ready:?} ready")))
}

#[test]
fn containers_start_in_order_although_the_controller_keeps_dying_on_a_bad_network() {
    for seed in 0..4 {
        fleet().nodes(0).weather(Weather::rough()).seed(seed).run(async |world| {
            let names: Vec<String> = (0..5).map(|it| format!("web-{it}")).collect();
            let watched = names.clone();
            world.invariant("containers start in order", move |world| {
                watched.iter().try_for_each(|it| in_order(world, it))
            });
            let controller = start_agent(&world, release);
            names.iter().for_each(|it| create(&world, it));
            for _ in 0..8 {
                controller.crash_after_writes(2);
                world.pass(secs(60)).await;
                names.iter().for_each(|it| start(&world, it));
            }
            world.link(AGENT, CLUSTER).set_weather(Weather::calm());
            for _ in 0..4 {
                world.pass(secs(120)).await;
                names.iter().for_each(|it| start(&world, it));
            }
            for name in &names {
                assert_eq!(released(&world, name), PRIORITIES.into(), "{name}");
            }
            assert!(controller.starts() > 2, "it died often: {}", controller.starts());

            restart_at_rest(&world, &controller).await;
        });
    }
}

#[test]
fn a_pod_that_comes_back_under_its_name_starts_in_order_again() {
    fleet().nodes(0).seed(1).run(async |world| {
        let _controller = start_agent(&world, release);
        create(&world, "web");
        for _ in 0..4 {
            world.pass(secs(10)).await;
            start(&world, "web");
        }
        assert!(is_complete(&world, "web"));
        // The former barrier is still there, with all its keys, when the new pod comes.
        let former = read(&world, &format!("{MAPS}/web-barrier")).unwrap();
        let now = json!({ "gracePeriodSeconds": 0 });
        write(&world, Method::DELETE, &format!("{PODS}/web"), &now);
        create(&world, "web");
        if read(&world, &format!("{MAPS}/web-barrier")).is_none() {
            let metadata =
                json!({ "name": "web-barrier", "ownerReferences": former["metadata"]["ownerReferences"] });
            let body = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": former["data"],
            });
            write(&world, Method::POST, MAPS, &body);
        }
        world
            .eventually("only the first one may start", secs(60), |it| released(it, "web") == [5].into())
            .await;
        for _ in 0..4 {
            world.pass(secs(30)).await;
            start(&world, "web");
        }
        assert!(is_complete(&world, "web"));
    });
}

#[test]
fn the_listed_rights_are_those_that_are_used() {
    fleet().nodes(0).seed(1).run(async |world| {
        let asked = Asked::default();
        let task = tokio::spawn(release(asked.client(&world), clock(&world)));
        let completes = |it: &ApiRequest| it.path.plural == "pods" && it.method == Method::PATCH;
        world.link("controller", CLUSTER).next(completes, Fate::Refuse(409));
        create(&world, "web");
        for _ in 0..4 {
            world.pass(secs(10)).await;
            start(&world, "web");
        }
        world.eventually("it is complete", secs(60), |it| is_complete(it, "web")).await;
        task.abort();
        assert_eq!(asked.all(), listed(&launch_priority::needs()));
    });
}
