//! NodeImages, which come and go with nodes.

use axum::http::Method;
use kruise_core::{
    controllers::node_image,
    runtime::{clock::Clock, events::Sink, metrics::Metrics},
};
use kube::Client;
use sim::{
    faults::{Fate, Weather},
    server::request::ApiRequest,
};
use tokio_util::sync::CancellationToken;

use super::{cache, feed, knowing, settings};
use crate::kit::*;

async fn see_to_nodes(client: Client, clock: Clock) {
    let caches = node_image::Caches {
        nodes: cache("nodes", &clock),
        node_images: cache("nodeimages", &clock),
        jobs: cache("jobs", &clock),
        secrets: cache("secrets", &clock),
        jobs_in: None,
        secrets_in: None,
    };
    let sink = Sink::new(client.clone(), clock.clone(), Metrics::default());
    let (recorder, delay) = (sink.recorder(node_image::NAME), node_image::CREATION_DELAY);
    let settings = settings(node_image::NAME, &clock);
    let controller = node_image::controller(client.clone(), &caches, recorder, delay, settings);
    let token = CancellationToken::new();
    tokio::join!(
        feed(&caches.nodes, &client),
        feed(&caches.node_images, &client),
        feed(&caches.jobs, &client),
        feed(&caches.secrets, &client),
        sink.run(token.clone()),
        controller.run(token.clone())
    );
}

/// A create can be refused with 409 although nothing of that name is there: the server was in conflict with itself.
#[test]
fn a_node_gets_its_node_image_although_the_server_refused_it_with_a_conflict() {
    knowing(&["imagepulljobs", "nodeimages"], 1, Weather::calm()).nodes(3).run(async |world| {
        let creates = |it: &ApiRequest| it.method == Method::POST && it.path.plural == "nodeimages";
        for _ in 0..2 {
            world.link(AGENT, CLUSTER).next(creates, Fate::Refuse(409));
        }
        let _agent = start_agent(&world, see_to_nodes);
        world
            .eventually("every node has its NodeImage", secs(300), |it| {
                let all = read(it, "/apis/apps.kruise.io/v1beta1/nodeimages").unwrap_or_default();
                all["items"].as_array().is_some_and(|it| it.len() == 3)
            })
            .await;
    });
}
