//! What differs in some clusters: releases stay as exact there as elsewhere.

use http::Method;
use serde_json::json;

use crate::kit::{MEMBERS, Stage, all_pods, play, policy, rolling};

/// How many pods of each image are ready.
fn ready(stage: &Stage, images: [&str; 2]) -> [usize; 2] {
    images.map(|it| stage.ready_of(it))
}

async fn is_over(stage: &Stage) {
    stage
        .until("the release is over", |it| {
            let web = it.web();
            web["status"]["currentRevision"] == web["status"]["updateRevision"]
                && web["status"]["observedGeneration"] == web["metadata"]["generation"]
        })
        .await;
}

#[test]
fn rev_6_and_7_a_registry_of_the_cluster_leaves_old_pods_old() {
    play(async |stage| {
        let mirror = json!([{"imageRegistries": [{"from": "docker.io", "to": "mirror"}]}]);
        stage.place(&policy(|spec| spec["overrides"] = mirror));
        stage.apply("docker.io/v1", 10, |spec| rolling(spec, json!({"maxUnavailable": 2})));
        let images = ["mirror/v1", "mirror/v2"];
        stage.until("ten old pods", |it| ready(it, images) == [10, 0]).await;
        stage.apply("docker.io/v2", 10, |spec| {
            rolling(spec, json!({"maxUnavailable": 2, "partition": "90%"}));
        });
        stage.until("one is new", |it| ready(it, images) == [9, 1]).await;
        // Whatever is lost comes back as it was, in the cluster with the new one and in those that do not know of it.
        for member in MEMBERS {
            let pods = all_pods(&stage.world);
            let old = pods.iter().find(|it| it.cluster == member && it.image == images[0]).unwrap();
            let path = format!("/api/v1/namespaces/shop/pods/{}", old.name);
            stage.world.write(member, Method::DELETE, &path, &json!({})).unwrap();
        }
        stage.pass(60).await;
        stage.until("nine are old again", |it| ready(it, images) == [9, 1]).await;
        assert_eq!(all_pods(&stage.world).len(), 10);
        stage.apply("docker.io/v2", 10, |spec| rolling(spec, json!({"maxUnavailable": 2})));
        stage.until("all are new", |it| ready(it, images) == [0, 10]).await;
        is_over(&stage).await;
    });
}

#[test]
fn rev_13_a_release_that_an_override_undoes_in_one_cluster_ends_there_too() {
    play(async |stage| {
        let image =
            json!({"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "own"});
        let pinned = json!([{"clusters": {"names": [MEMBERS[1]]}, "patches": [image]}]);
        stage.place(&policy(|spec| spec["overrides"] = pinned));
        stage.apply("v1", 12, |spec| rolling(spec, json!({"maxUnavailable": 2})));
        stage
            .until("four of each", |it| stage.ready_of("own") == 4 && ready(it, ["v1", "v2"]) == [8, 0])
            .await;
        let names = |stage: &Stage| -> Vec<String> {
            let pods = all_pods(&stage.world);
            pods.into_iter().filter(|it| it.image == "own").map(|it| it.name).collect()
        };
        let before = names(&stage);
        stage.apply("v2", 12, |spec| rolling(spec, json!({"maxUnavailable": 2, "partition": "50%"})));
        stage
            .until("half of the pods are told to be new", |it| {
                let web = it.web();
                web["status"]["updatedReplicas"] == 6
                    && web["status"]["observedGeneration"] == web["metadata"]["generation"]
            })
            .await;
        stage.apply("v2", 12, |spec| rolling(spec, json!({"maxUnavailable": 2})));
        stage.until("the others are new", |it| ready(it, ["v1", "v2"]) == [0, 8]).await;
        is_over(&stage).await;
        assert_eq!(names(&stage), before, "nothing changed there");
    });
}
