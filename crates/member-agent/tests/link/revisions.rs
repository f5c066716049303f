//! Two revisions at once: seeding and pinning.

use serde_json::{Value, json};

use crate::kit::{Stage, images, plan, play, revision, share};

/// A plan in the middle of a release.
fn canary(seq: u64, slice: Value) -> Value {
    let mut plan = plan(seq, "v2", slice);
    plan["stable"] = revision("v1");
    plan
}

/// At no moment may more than `most` pods carry the new image.
fn never_more_than(stage: &Stage, most: usize) {
    stage.world.invariant("updated pods", move |world| {
        let updated = images(world).iter().filter(|it| *it == "v2").count();
        if updated > most { Err(format!("{updated} updated pods, {most} are allowed")) } else { Ok(()) }
    });
}

#[test]
fn rev_7_a_cluster_that_joins_during_a_canary_runs_old_pods_where_old_pods_are_due() {
    play(async |stage| {
        stage.publish("v1");
        stage.publish("v2");
        never_more_than(&stage, 1);
        stage.assign(canary(1, share(4, 1)));
        stage.until("all four are there", |it| it.images().len() == 4).await;
        stage.acknowledged(1).await;
        stage.until("they serve", |it| it.told()["counts"]["available"] == 4).await;
        assert_eq!(stage.images(), ["v1", "v1", "v1", "v2"]);
        let counts = &stage.told()["counts"];
        assert_eq!((&counts["updated"], &counts["stable"]), (&json!(1), &json!(3)));
        // The seed was nobody's; now it goes with the CloneSet.
        let web = stage.web().unwrap();
        let revisions = stage.world.cluster(crate::kit::MEMBER).server().list("controllerrevisions.apps");
        assert_eq!(revisions.len(), 2);
        for it in &revisions {
            assert_eq!(it.value()["metadata"]["ownerReferences"][0]["uid"], web["metadata"]["uid"]);
        }
    });
}

#[test]
fn rev_8_the_stable_revision_stays_until_the_hub_ends_the_release() {
    play(async |stage| {
        stage.publish("v1");
        stage.publish("v2");
        stage.assign(plan(1, "v1", share(3, 3)));
        stage.acknowledged(1).await;
        stage.until("they run", |it| it.images().len() == 3).await;
        let stable = stage.web().unwrap()["status"]["currentRevision"].clone();
        stage.assign(canary(2, share(3, 3)));
        stage.until("all are updated", |it| it.images() == ["v2", "v2", "v2"]).await;
        stage.until("that is told", |it| it.told()["counts"]["updatedAvailable"] == 3).await;
        stage.pass(60).await;
        let status = stage.web().unwrap()["status"].clone();
        assert_eq!(status["currentRevision"], stable, "the hub has not ended the release");
        assert_ne!(status["updateRevision"], stable);
        // One pod back: it must be of the old revision, which it would not be had the member ended the release itself.
        stage.assign(canary(3, share(4, 3)));
        stage.until("four serve", |it| it.told()["counts"]["available"] == 4).await;
        assert_eq!(stage.images(), ["v1", "v2", "v2", "v2"]);
        stage.assign(plan(4, "v2", share(4, 4)));
        stage
            .until("the release is over", |it| {
                let status = it.web().unwrap()["status"].clone();
                status["currentRevision"] == status["updateRevision"]
            })
            .await;
        assert_eq!(
            stage.web().unwrap()["metadata"]["annotations"].get("fleet.kruise.io/pinned-revision"),
            None
        );
    });
}

#[test]
fn rev_7_without_the_stable_body_nothing_is_applied_and_nothing_acknowledged() {
    play(async |stage| {
        stage.publish("v2");
        stage.assign(canary(1, share(4, 1)));
        stage.until("it says why", |it| it.told()["state"] == "Pending").await;
        assert_eq!((stage.web(), stage.told().get("appliedSeq").cloned()), (None, Some(json!(0))));
        stage.publish("v1");
        stage.acknowledged(1).await;
        stage.until("all four are there", |it| it.images() == ["v1", "v1", "v1", "v2"]).await;
    });
}
