//! Images that are downloaded ahead of an update in place (REL-11).

use std::sync::atomic::Ordering;

use http::Method;
use serde_json::{Value, json};

use crate::kit::{FLEET, HUB, MEMBERS, Stage, play_images, policy, rolling};

/// More than three in each cluster, so that members would download by themselves if the CloneSet were theirs alone.
const PODS: u32 = 15;
/// Pods that are new while half of them are to stay old.
const NEW: usize = 7;

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

fn is_downloaded(stage: &Stage) -> bool {
    jobs(stage, HUB).iter().any(|it| it["status"]["completionTime"].is_string())
}

/// Downloads ahead of an update to `v2`, as far as they are over.
async fn downloaded(stage: &Stage, policy: Value) -> Value {
    stage.place(&policy);
    stage.apply("v1", PODS, half);
    stage.rests(PODS as usize, 0).await;
    stage.parallelism.limit.store(2, Ordering::Relaxed);
    stage.apply("v2", PODS, half);
    stage.until("the downloads are over", is_downloaded).await;
    let [job] = &jobs(stage, HUB)[..] else { panic!("{:?}", jobs(stage, HUB)) };
    job.clone()
}

/// The jobs of all clusters.
fn all_jobs(stage: &Stage) -> usize {
    [HUB].iter().chain(&MEMBERS).map(|it| jobs(stage, it).len()).sum()
}

/// Lets the release end; its jobs go with it, long before their time to live is over.
async fn end(stage: &Stage) {
    stage.set_partition(json!(0));
    stage.rests(PODS as usize, PODS as usize).await;
    let begun = stage.world.now();
    stage.until("the jobs are gone", |it| all_jobs(it) == 0).await;
    assert!(stage.world.now().duration_since(begun).as_secs() < 60);
}

#[test]
fn rel_11_images_are_downloaded_ahead_by_one_job_of_the_fleet_that_goes_with_the_release() {
    play_images(async |stage| {
        let job = downloaded(&stage, policy(|_| {})).await;
        assert_eq!((&job["spec"]["image"], &job["spec"]["parallelism"]), (&json!("v2"), &json!(2)));
        assert_eq!(job["metadata"]["ownerReferences"][0]["uid"], stage.web()["metadata"]["uid"]);
        let status = &job["status"];
        assert!(status["desired"].as_u64() > Some(3) && status["succeeded"] == status["desired"], "{status}");
        assert_eq!(stage.parallelism.most.load(Ordering::Relaxed), 2, "of the fleet");
        assert!(MEMBERS.iter().all(|it| jobs(&stage, it).len() == 1), "members have none of their own");
        end(&stage).await;
    });
}

#[test]
fn rel_11_no_copy_is_left_where_deleted_objects_are_let_go_and_patches_of_cloneset_do_not_matter() {
    play_images(async |stage| {
        let patch = json!({"op": "add", "path": "/spec/template/metadata/annotations", "value": {"a": "b"}});
        let overrides = json!([{"clusters": {"names": ["member-2"]}, "patches": [patch]}]);
        let policy = policy(|it| {
            it["deletion"] = json!("Orphan");
            it["overrides"] = overrides;
        });
        let job = downloaded(&stage, policy).await;
        assert_eq!(job["status"]["succeeded"], job["status"]["desired"]);
        assert!(MEMBERS.iter().all(|it| jobs(&stage, it).len() == 1));
        end(&stage).await;
    });
}

#[test]
fn rel_11_and_ha_4_a_release_that_rests_on_its_partition_downloads_once_whoever_restarts() {
    play_images(async |stage| {
        downloaded(&stage, policy(|_| {})).await;
        stage.rests(PODS as usize, NEW).await;
        stage.pass(60).await;
        let before = stage.versions();
        stage.hub.crash();
        stage.pass(300).await;
        assert_eq!((stage.hub.starts(), stage.versions()), (2, before));
        // Its time to live is ten minutes; afterwards nobody begins anew.
        stage.pass(600).await;
        stage.hub.crash();
        stage.pass(300).await;
        assert_eq!(all_jobs(&stage), 0);
    });
}

#[test]
fn rel_11_and_ha_3_a_hub_killed_after_any_write_of_a_release_downloads_all_the_same_and_tidies_up() {
    for write in 1..=6 {
        play_images(async |stage| {
            let at_once = |it: &mut Value| {
                half(it);
                let strategy = &mut it["updateStrategy"]["rollingUpdate"]["inPlaceUpdateStrategy"];
                strategy["imagePreDownloadMinUpdatedReadyPods"] = json!(0);
            };
            stage.place(&policy(|_| {}));
            stage.apply("v1", PODS, at_once);
            stage.rests(PODS as usize, 0).await;
            stage.parallelism.limit.store(2, Ordering::Relaxed);
            stage.hub.crash_after_writes(write);
            stage.apply("v2", PODS, at_once);
            stage.until("the downloads are over", is_downloaded).await;
            assert_eq!((stage.hub.starts(), jobs(&stage, HUB).len()), (2, 1), "write {write}");
            end(&stage).await;
        });
    }
}

#[test]
fn rel_11_another_template_in_mid_release_has_downloads_of_its_own() {
    play_images(async |stage| {
        let first = downloaded(&stage, policy(|_| {})).await;
        stage.apply("v3", PODS, half);
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

/// A leader that was deposed and does not know it must not end what the one after it has begun.
#[test]
fn proto_3_a_job_that_a_later_leader_made_is_left_to_it() {
    play_images(async |stage| {
        let mut job = downloaded(&stage, policy(|_| {})).await;
        job["metadata"]["name"] = json!("of-a-later-leader");
        for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields", "finalizers"] {
            job["metadata"].as_object_mut().unwrap().remove(field);
        }
        job.as_object_mut().unwrap().remove("status");
        job["metadata"]["annotations"]["fleet.kruise.io/term"] = json!("99");
        let folder = "/apis/apps.kruise.io/v1beta1/namespaces/shop/imagepulljobs";
        stage.world.write(HUB, Method::POST, folder, &job).unwrap();
        stage.set_partition(json!(0));
        stage.rests(PODS as usize, PODS as usize).await;
        stage.until("ours is gone", |it| jobs(it, HUB).len() == 1).await;
        stage.pass(60).await;
        assert_eq!(jobs(&stage, HUB)[0]["metadata"]["name"], "of-a-later-leader");
    });
}

#[test]
fn rel_11_downloads_follow_their_cloneset_to_another_policy_at_once() {
    play_images(async |stage| {
        downloaded(&stage, policy(|_| {})).await;
        stage.rests(PODS as usize, NEW).await;
        assert_eq!(jobs(&stage, "member-3").len(), 1);
        let mut narrow = policy(|it| {
            it["clusters"] = json!({"exclude": ["member-3"]});
            it["priority"] = json!(10);
        });
        narrow["metadata"]["name"] = json!("narrow");
        let folder = format!("{FLEET}/namespaces/shop/placementpolicies");
        stage.world.write(HUB, Method::POST, &folder, &narrow).unwrap();
        let of = |it: &Stage| it.binding()["spec"]["policy"]["name"].clone();
        stage.until("the other one places it", |it| of(it) == "narrow").await;
        let begun = stage.world.now();
        stage.until("the copy is gone", |it| jobs(it, "member-3").is_empty()).await;
        assert!(stage.world.now().duration_since(begun).as_secs() < 10);
    });
}
