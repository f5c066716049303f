//! Lists of images.

use std::sync::Arc;

use axum::http::Method;
use kruise_core::{
    controllers::image_list_pull_job as lists,
    runtime::{clock::Clock, events::Sink, executor::Executor, metrics::Metrics, throttle::Throttle},
};
use kube::Client;
use serde_json::{Value, json};
use sim::{
    World,
    faults::{Fate, Weather},
    server::admission::{Hook, Operation, Stage, Verdict},
};
use tokio_util::sync::CancellationToken;

use super::{cache, cluster, feed, settings};
use crate::kit::*;

const GROUP: &str = "/apis/apps.kruise.io/v1beta1/namespaces/default";

async fn see_to_lists(client: Client, clock: Clock) {
    let (known, jobs) = (cache("lists", &clock), cache("jobs", &clock));
    let sink = Sink::new(client.clone(), clock.clone(), Metrics::default());
    let executor =
        Executor { limit: 8.try_into().unwrap(), throttle: Throttle::default(), clock: clock.clone() };
    let recorder = sink.recorder(lists::NAME);
    let controller =
        lists::controller(client.clone(), &known, &jobs, recorder, executor, settings(lists::NAME, &clock));
    let token = CancellationToken::new();
    tokio::join!(
        feed(&known, &client),
        feed(&jobs, &client),
        sink.run(token.clone()),
        controller.run(token.clone())
    );
}

fn make(world: &World, images: &[&str]) {
    let list = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImageListPullJob", "metadata": {"name": "l"},
        "spec": {"images": images, "completionPolicy": {"type": "Always"}},
    });
    write(world, Method::POST, &format!("{GROUP}/imagelistpulljobs"), &list);
}

fn images(world: &World) -> Vec<String> {
    let all = read(world, &format!("{GROUP}/imagepulljobs")).unwrap();
    let image = |it: &Value| it["spec"]["image"].as_str().unwrap().to_owned();
    let mut images: Vec<_> = all["items"].as_array().unwrap().iter().map(image).collect();
    images.sort();
    images
}

fn desired(world: &World) -> Value {
    read(world, &format!("{GROUP}/imagelistpulljobs/l")).unwrap()["status"]["desired"].clone()
}

/// Jobs for images with `bad` in their name are refused, as by a policy of the cluster.
fn refuse_bad(world: &World) {
    world.cluster(CLUSTER).server().admit(Hook {
        name: "policy.test".to_owned(),
        stage: Stage::Validating,
        kinds: vec!["imagepulljobs.apps.kruise.io".to_owned()],
        operations: vec![Operation::Create],
        fail_open: false,
        call: Arc::new(|review| match review.object["spec"]["image"].as_str() {
            Some(image) if image.contains("bad") => Verdict::Deny(format!("{image} is not allowed here")),
            _ => Verdict::Allow,
        }),
    });
}

#[test]
fn an_image_that_is_refused_does_not_hold_up_the_others() {
    cluster(1, Weather::calm()).run(async |world| {
        refuse_bad(&world);
        let _agent = start_agent(&world, see_to_lists);
        make(&world, &["a/bad:1", "b:1", "c:1", "d/bad:1", "e:1"]);
        world.pass(secs(30)).await;
        assert_eq!(images(&world), ["b:1", "c:1", "e:1"]);
        assert_eq!(desired(&world), 5, "the status is written all the same");
        let events = read(&world, "/api/v1/namespaces/default/events").unwrap();
        let mut told: Vec<_> = events["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|it| it["reason"] == "Failed create ImagePullJob")
            .map(|it| it["message"].as_str().unwrap().split_once(':').unwrap().0.to_owned())
            .collect();
        told.sort();
        assert_eq!(told, ["a/bad", "d/bad"], "{events}");

        // What is not wanted any more goes, although the refusals go on.
        let shorter = json!({"spec": {"images": ["a/bad:1", "b:1"]}});
        write(&world, Method::PATCH, &format!("{GROUP}/imagelistpulljobs/l"), &shorter);
        world.pass(secs(400)).await;
        assert_eq!(images(&world), ["b:1"]);
        assert_eq!(desired(&world), 2);
    });
}

#[test]
fn a_busy_server_is_asked_again_by_itself() {
    cluster(1, Weather::calm()).run(async |world| {
        let creates = |it: &sim::server::request::ApiRequest| {
            it.method == Method::POST && it.path.plural == "imagepulljobs"
        };
        world.link(AGENT, CLUSTER).next(creates, Fate::Refuse(429));
        let _agent = start_agent(&world, see_to_lists);
        make(&world, &["a:1", "b:1"]);
        world.pass(secs(60)).await;
        assert_eq!(images(&world), ["a:1", "b:1"]);
    });
}
