//! Sidecars of finished jobs.

use std::time::Duration;

use axum::http::Method;
use kruise_core::{
    controllers::sidecar_terminator as terminator,
    runtime::{clock::Clock, events::Sink, metrics::Metrics},
};
use kube::Client;
use serde_json::{Value, json};
use sim::{
    World,
    faults::Weather,
    nodes::{Behaviour, ImageBehaviour},
};
use tokio_util::sync::CancellationToken;

use super::{cache, cluster, feed, settings};
use crate::kit::*;

const REQUESTS: &str = "/apis/apps.kruise.io/v1beta1/namespaces/default/containerrecreaterequests";

async fn see_to_sidecars(client: Client, clock: Clock) {
    let caches = terminator::Caches {
        pods: cache("pods", &clock),
        nodes: cache("nodes", &clock),
        requests: cache("requests", &clock),
    };
    let sink = Sink::new(client.clone(), clock.clone(), Metrics::default());
    let settings = settings(terminator::NAME, &clock);
    let controller =
        terminator::controller(client.clone(), &caches, sink.recorder(terminator::NAME), settings);
    let token = CancellationToken::new();
    tokio::join!(
        feed(&caches.pods, &client),
        feed(&caches.nodes, &client),
        feed(&caches.requests, &client),
        sink.run(token.clone()),
        controller.run(token.clone())
    );
}

/// Images of work that ends well and of work that fails.
fn jobs() -> Behaviour {
    let ends = |code| ImageBehaviour { exit: Some((secs(5), code)), ..ImageBehaviour::default() };
    Behaviour::default().image("good:1", ends(0)).image("bad:1", ends(3))
}

fn sidecar(name: &str, more: &[&str]) -> Value {
    let names = ["KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT"].iter().chain(more);
    let env: Vec<Value> = names.map(|it| json!({"name": it, "value": "true"})).collect();
    json!({"name": name, "image": "sidecar:1", "env": env})
}

fn create(world: &World, name: &str, policy: &str, work: &str, sidecars: &[Value]) {
    let mut containers = vec![json!({"name": "work", "image": work})];
    containers.extend_from_slice(sidecars);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"restartPolicy": policy, "containers": containers},
    });
    write(world, Method::POST, PODS, &pod);
}

fn pod(world: &World, name: &str) -> Value {
    read(world, &format!("{PODS}/{name}")).unwrap_or_default()
}

/// Does what the nodes' daemons would: a sidecar that is told to stop ends with 143.
fn stop_as_asked(world: &World) {
    for request in read(world, REQUESTS).unwrap()["items"].as_array().unwrap() {
        let pod = request["spec"]["podName"].as_str().unwrap();
        for container in request["spec"]["containers"].as_array().unwrap() {
            world.exit_container(CLUSTER, pod, container["name"].as_str().unwrap(), 143);
        }
    }
}

/// The names of requests for a pod, without its UID.
fn requests(world: &World, pod: &Value) -> Vec<String> {
    let uid = pod["metadata"]["uid"].as_str().unwrap();
    let all = read(world, REQUESTS).unwrap();
    let names = all["items"].as_array().unwrap().iter().filter_map(|it| it["metadata"]["name"].as_str());
    names.filter(|it| it.contains(uid)).map(|it| it.replace(uid, "UID")).collect()
}

const IGNORED: &[&str] = &["KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE"];

#[test]
fn jobs_end_although_the_controller_keeps_dying_on_a_bad_network() {
    for seed in 0..6 {
        cluster(seed, Weather::rough()).behaviour(jobs()).run(async |world| {
            let agent = start_agent(&world, see_to_sidecars);
            let (plain, ignored) = (sidecar("log", &[]), sidecar("mesh", IGNORED));
            for round in 0..3 {
                agent.crash_after_writes(2);
                let name = |kind: &str| format!("{kind}-{round}");
                create(&world, &name("plain"), "Never", "good:1", std::slice::from_ref(&plain));
                create(&world, &name("ignored"), "Never", "good:1", std::slice::from_ref(&ignored));
                create(&world, &name("failed"), "Never", "bad:1", std::slice::from_ref(&ignored));
                create(&world, &name("both"), "Never", "good:1", &[plain.clone(), ignored.clone()]);
                create(&world, &name("service"), "Always", "good:1", std::slice::from_ref(&plain));
                for _ in 0..12 {
                    world.pass(Duration::from_secs(10)).await;
                    stop_as_asked(&world);
                }
            }
            world.link(AGENT, CLUSTER).set_weather(Weather::calm());
            for _ in 0..90 {
                world.pass(Duration::from_secs(10)).await;
                stop_as_asked(&world);
            }
            for round in 0..3 {
                let of = |kind: &str| pod(&world, &format!("{kind}-{round}"));
                // Killed with 143, a sidecar that counts fails the pod: that is Kubernetes' rule.
                for (kind, phase) in [
                    ("plain", "Failed"),
                    ("ignored", "Succeeded"),
                    ("failed", "Failed"),
                    ("both", "Succeeded"),
                ] {
                    assert_eq!(of(kind)["status"]["phase"], phase, "{kind}-{round}");
                }
                assert_eq!(requests(&world, &of("plain")), ["sidecar-termination-UID"]);
                assert_eq!(of("service")["status"]["phase"], "Running");
                assert!(requests(&world, &of("service")).is_empty());
                // Its work ends and starts again for ever, which would be no rest.
                write(&world, Method::DELETE, &format!("{PODS}/service-{round}"), &json!({}));
            }
            assert!(agent.starts() > 2, "it died often: {}", agent.starts());

            world.pass(secs(60)).await;
            restart_at_rest(&world, &agent).await;
        });
    }
}

#[test]
fn sidecars_that_do_not_count_are_stopped_after_the_others() {
    cluster(1, Weather::calm()).behaviour(jobs()).run(async |world| {
        let _agent = start_agent(&world, see_to_sidecars);
        create(&world, "job", "Never", "good:1", &[sidecar("log", &[]), sidecar("mesh", IGNORED)]);
        world
            .eventually("the first is asked for", secs(60), |it| !requests(it, &pod(it, "job")).is_empty())
            .await;
        world.pass(secs(30)).await;
        let before = pod(&world, "job");
        assert_eq!(requests(&world, &before), ["sidecar-termination-UID"]);
        assert_eq!(before["status"]["phase"], "Running");
        world.exit_container(CLUSTER, "job", "log", 143);
        world
            .eventually("the job has ended", secs(60), |it| pod(it, "job")["status"]["phase"] == "Succeeded")
            .await;
        world.pass(secs(30)).await;
        let after = pod(&world, "job");
        assert_eq!(requests(&world, &after), ["sidecar-termination-UID", "sidecar-termination-UID-ignored"]);
        let conditions = after["status"]["conditions"].as_array().unwrap();
        let told = conditions.iter().find(|it| it["type"] == "SidecarTerminated").unwrap();
        assert_eq!(
            (&told["status"], &told["message"]),
            (&json!("True"), &json!("Terminated by Sidecar Terminator"))
        );
        let events = read(&world, "/api/v1/namespaces/default/events").unwrap();
        let events: Vec<_> = events["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|it| it["reason"] == "SidecarTerminator")
            .collect();
        assert_eq!(events.len(), 2, "{events:?}");
    });
}

/// The pod is quiet meanwhile: nothing but the deletion says that there is something to do.
#[test]
fn a_request_that_somebody_deletes_is_made_again() {
    cluster(2, Weather::calm()).behaviour(jobs()).run(async |world| {
        let _agent = start_agent(&world, see_to_sidecars);
        create(&world, "job", "Never", "good:1", &[sidecar("log", &[])]);
        let is_asked = |it: &World| !requests(it, &pod(it, "job")).is_empty();
        world.eventually("it is asked for", secs(60), is_asked).await;
        world.pass(secs(60)).await;
        let uid = pod(&world, "job")["metadata"]["uid"].as_str().unwrap().to_owned();
        write(&world, Method::DELETE, &format!("{REQUESTS}/sidecar-termination-{uid}"), &json!({}));
        assert!(!is_asked(&world));
        world.eventually("it is asked for again", secs(60), is_asked).await;
    });
}
