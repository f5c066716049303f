//! Recreate requests.

use std::sync::{Arc, Mutex};

use axum::http::Method;
use kruise_core::{
    controllers::container_recreate_request as requests,
    runtime::{clock::Clock, events::Sink, metrics::Metrics},
};
use kube::Client;
use serde_json::{Value, json};
use sim::{
    World,
    faults::{Fate, Weather},
    seed::Chance,
};
use tokio_util::sync::CancellationToken;

use super::{cache, cluster, feed, settings};
use crate::kit::*;

const REQUESTS: &str = "/apis/apps.kruise.io/v1beta1/namespaces/default/containerrecreaterequests";

async fn see_to_requests(client: Client, clock: Clock) {
    let (known, pods) = (cache("requests", &clock), cache("pods", &clock));
    let sink = Sink::new(client.clone(), clock.clone(), Metrics::default());
    let settings = settings(requests::NAME, &clock);
    let controller =
        requests::controller(client.clone(), &known, &pods, sink.recorder(requests::NAME), settings);
    let token = CancellationToken::new();
    tokio::join!(
        feed(&known, &client),
        feed(&pods, &client),
        sink.run(token.clone()),
        controller.run(token.clone())
    );
}

/// A pod that runs, and a request for it as admission and the node's daemon leave it.
async fn begin(world: &World, more: Value) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {
            "readinessGates": [{"conditionType": "KruisePodReady"}],
            "containers": [{"name": "app", "image": "app:1"}, {"name": "log", "image": "log:1"}],
        },
    });
    let uid = write(world, Method::POST, PODS, &pod)["metadata"]["uid"].clone();
    world.pass(secs(30)).await;
    let mut request = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest",
        "metadata": {"name": "r", "labels": {
            "crr.apps.kruise.io/pod-uid": uid, "crr.apps.kruise.io/node-name": "n", "crr.apps.kruise.io/active": "true",
        }},
        "spec": {"podName": "web", "containers": [{"name": "app"}, {"name": "log"}]},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        request["spec"][field] = value.clone();
    }
    write(world, Method::POST, REQUESTS, &request);
    let begun = json!({"status": {"phase": "Recreating"}});
    write(world, Method::PATCH, &format!("{REQUESTS}/r/status"), &begun);
}

fn request(world: &World) -> Value {
    read(world, &format!("{REQUESTS}/r")).unwrap_or_default()
}

fn moment(world: &World) -> Option<String> {
    let conditions = request(world)["status"]["conditions"].as_array().cloned()?;
    let found = conditions.into_iter().find(|it| it["type"] == "PreRecreateGrace")?;
    found["lastTransitionTime"].as_str().map(str::to_owned)
}

fn gate(world: &World) -> Value {
    let pod = read(world, &format!("{PODS}/web")).unwrap_or_default();
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|it| it["type"] == "KruisePodReady").unwrap_or_default()
}

/// images-and-recreate.md 4.3, step 8: the node counts from that moment, so it never moves.
#[test]
fn the_moment_a_pod_left_rotation_stays_although_the_answer_is_lost_and_the_watch_late() {
    for seed in 0..8 {
        // Later than the controller's patience with a silent server, and sooner than it asks for another watch.
        let late = Weather { late_watch: (Chance::percent(100), secs(50)), ..Weather::calm() };
        cluster(seed, late).run(async |world| {
            let seen: Arc<Mutex<Option<String>>> = Arc::default();
            world.invariant("the moment never moves", move |world| {
                let now = moment(world);
                let mut seen = seen.lock().unwrap();
                if seen.is_some() && now.is_some() && *seen != now {
                    return Err(format!("from {seen:?} to {now:?}"));
                }
                if seen.is_none() {
                    *seen = now;
                }
                Ok(())
            });
            let _agent = start_agent(&world, see_to_requests);
            for fate in [Fate::SilenceAfter, Fate::LoseAnswer] {
                world.link(AGENT, CLUSTER).next(
                    |it| {
                        it.method == Method::PATCH
                            && String::from_utf8_lossy(&it.body).contains("PreRecreateGrace")
                    },
                    fate,
                );
            }
            begin(&world, json!({"strategy": {"unreadyGracePeriodSeconds": 300}})).await;
            world.eventually("the moment is written", secs(600), |it| moment(it).is_some()).await;
            world.pass(secs(600)).await;
            assert_eq!(gate(&world)["status"], "False");

            // However it ends, the pod returns.
            write(&world, Method::DELETE, &format!("{REQUESTS}/r"), &json!({}));
            world.eventually("the request is gone", secs(900), |it| request(it).is_null()).await;
            assert_eq!(
                (gate(&world)["status"].as_str(), gate(&world)["message"].as_str()),
                (Some("True"), Some("[]"))
            );
        });
    }
}

/// CRR-03: whoever looks at the request learns which containers were not recreated. Their states are the node's.
#[test]
fn a_deadline_names_the_containers_that_were_not_recreated() {
    cluster(1, Weather::calm()).run(async |world| {
        let _agent = start_agent(&world, see_to_requests);
        begin(&world, json!({"activeDeadlineSeconds": 60})).await;
        let states = json!([{"name": "app", "phase": "Succeeded", "isKilled": true}, {"name": "log", "phase": "Pending"}]);
        let status = json!({"status": {"containerRecreateStates": states}});
        write(&world, Method::PATCH, &format!("{REQUESTS}/r/status"), &status);
        world
            .eventually("it is over", secs(120), |it| request(it)["status"]["phase"] == "Completed")
            .await;
        let status = request(&world)["status"].clone();
        assert_eq!(status["message"], "recreating has exceeded the activeDeadlineSeconds");
        assert_eq!(status["containerRecreateStates"], states, "as the node left them");
        world.pass(secs(10)).await;
        let events = read(&world, "/api/v1/namespaces/default/events").unwrap();
        let told: Vec<_> = events["items"].as_array().unwrap().iter().filter(|it| it["reason"] == "RecreateFailed").collect();
        assert_eq!(told.len(), 1, "{told:?}");
        let expected = "container log was not recreated: recreating has exceeded the activeDeadlineSeconds";
        assert_eq!((&told[0]["message"], &told[0]["involvedObject"]["name"]), (&json!(expected), &json!("r")));
    });
}
