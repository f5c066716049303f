//! Images that are downloaded ahead of an update in place (REL-11).

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use crate::kit::{HUB, MEMBERS, Stage, play_images, policy, rolling};

/// In place, half of it for now; two downloads at a time over the fleet, once a new pod is well.
fn half(spec: &mut Value) {
    rolling(
        spec,
        json!({
            "podUpdatePolicy": "InPlaceIfPossible", "partition": "50%", "maxUnavailable": 1,
            "inPlaceUpdateStrategy": {
                "imagePreDownloadParallelism": 2, "imagePreDownloadMinUpdatedReadyPods": 1,
            },
        }),
    );
}

/// The jobs of a cluster.
fn jobs(stage: &Stage, cluster: &str) -> Vec<Value> {
    let stored = stage.world.cluster(cluster).server().list("imagepulljobs.apps.kruise.io");
    stored.into_iter().map(|it| it.value().clone()).collect()
}

/// Downloads ahead of an update of nine pods to `v2`, as far as they are over.
async fn downloaded(stage: &Stage) -> Value {
    stage.place(&policy(|_| {}));
    stage.apply("v1", 9, half);
    stage.rests(9, 0).await;
    stage.parallelism.limit.store(2, Ordering::Relaxed);
    stage.apply("v2", 9, half);
    stage
        .until("the downloads are over", |it| {
            jobs(it, HUB).iter().any(|it| it["status"]["completionTime"].is_string())
        })
        .await;
    let [job] = &jobs(stage, HUB)[..] else { panic!("{:?}", jobs(stage, HUB)) };
    job.clone()
}

#[test]
fn rel_11_images_are_downloaded_ahead_by_one_job_of_the_fleet_that_goes_with_the_release() {
    play_images(async |stage| {
        let job = downloaded(&stage).await;
        assert_eq!((&job["spec"]["image"], &job["spec"]["parallelism"]), (&json!("v2"), &json!(2)));
        assert_eq!(job["metadata"]["ownerReferences"][0]["uid"], stage.web()["metadata"]["uid"]);
        let status = &job["status"];
        assert!(status["desired"].as_u64() > Some(3) && status["succeeded"] == status["desired"], "{status}");
        assert_eq!(stage.parallelism.most.load(Ordering::Relaxed), 2, "members have no more of their own");
        assert!(MEMBERS.iter().all(|it| jobs(&stage, it).len() == 1));

        stage.set_partition(json!(0));
        stage.rests(9, 9).await;
        let is_over = |it: &Stage| [HUB].iter().chain(&MEMBERS).all(|cluster| jobs(it, cluster).is_empty());
        stage.until("the jobs are gone", is_over).await;
    });
}

#[test]
fn rel_11_and_ha_4_a_hub_that_is_killed_in_mid_release_downloads_once() {
    play_images(async |stage| {
        let job = downloaded(&stage).await;
        stage.rests(9, 4).await;
        stage.hub.crash();
        stage.pass(300).await;
        let [again] = &jobs(&stage, HUB)[..] else { panic!("{:?}", jobs(&stage, HUB)) };
        assert_eq!(again["metadata"]["uid"], job["metadata"]["uid"]);
        // Its time to live is ten minutes; afterwards nobody begins anew.
        stage.pass(600).await;
        stage.hub.crash();
        stage.pass(300).await;
        assert_eq!(jobs(&stage, HUB), Vec::<Value>::new());
    });
}

#[test]
fn rel_11_another_template_in_mid_release_has_downloads_of_its_own() {
    play_images(async |stage| {
        let first = downloaded(&stage).await;
        stage.apply("v3", 9, half);
        stage
            .until("the other image is downloaded", |it| {
                let jobs = jobs(it, HUB);
                jobs.len() == 1
                    && jobs[0]["spec"]["image"] == "v3"
                    && jobs[0]["status"]["completionTime"].is_string()
            })
            .await;
        assert_ne!(jobs(&stage, HUB)[0]["metadata"]["name"], first["metadata"]["name"]);
    });
}
