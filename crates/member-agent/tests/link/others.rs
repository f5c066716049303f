//! What others do to member objects: those that were there before, and those that somebody else changes.

use http::Method;
use kruise_core::{
    admission::{Version, cloneset::default},
    runtime::{gates::Gates, webhook::Operation},
};
use serde_json::{Value, json};

use crate::kit::{MEMBER, Stage, WEB, plan, play, revision, share};

/// An ordinary CloneSet that somebody has applied in the member, as the member's admission leaves it.
fn ordinary(replicas: u32) -> Value {
    let mut web = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "v1"}]},
            },
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": "25%"}},
        },
    });
    default(&mut web, None, Operation::Create, Version::V1Beta1, Gates::defaults());
    web
}

/// UIDs of the member's pods that are not on their way out, sorted.
fn pods(stage: &Stage) -> Vec<String> {
    let pods = stage.world.cluster(MEMBER).server().list("pods");
    let pods = pods.iter().map(|it| it.value()).filter(|it| it["metadata"]["deletionTimestamp"].is_null());
    let mut uids: Vec<String> = pods.map(|it| it["metadata"]["uid"].as_str().unwrap().to_owned()).collect();
    uids.sort_unstable();
    uids
}

async fn runs(stage: &Stage, replicas: u32) -> Vec<String> {
    let folder = WEB.trim_end_matches("/web");
    stage.world.write(MEMBER, Method::POST, folder, &ordinary(replicas)).unwrap();
    stage
        .until("it runs", |it| {
            let status = it.web().unwrap()["status"].clone();
            status["availableReplicas"] == replicas && status["updatedReplicas"] == replicas
        })
        .await;
    pods(stage)
}

/// Three replicas, and nothing to do: at rest no pod may be down (BUD-9).
fn resting() -> Value {
    json!({"cloneSet": {"replicas": 3, "updated": 3, "maxUnavailable": 0}})
}

/// Somebody who scales the object.
fn scale(stage: &Stage, replicas: u32) {
    let patch = json!({"spec": {"replicas": replicas}});
    let path = format!("{WEB}?fieldManager=autoscaler");
    stage.world.write(MEMBER, Method::PATCH, &path, &patch).unwrap();
}

#[test]
fn ad_1_an_ordinary_object_with_the_same_manifest_is_taken_over_and_no_pod_is_touched() {
    play(async |stage| {
        let before = runs(&stage, 3).await;
        stage.publish("v1");
        stage.assign(plan(1, "v1", resting()));
        stage.acknowledged(1).await;
        stage.pass(120).await;
        let web = stage.web().unwrap();
        let rolling = &web["spec"]["updateStrategy"]["rollingUpdate"];
        assert_eq!((&rolling["paused"], &rolling["maxSurge"]), (&json!(true), &json!(1)), "{rolling}");
        assert_eq!(web["metadata"]["annotations"]["fleet.kruise.io/adopted"], "Delete");
        assert_eq!((&stage.told()["adopted"], pods(&stage)), (&json!(true), before.clone()));
        // Its deletion was never asked for since: it is let go of.
        let mut delete = plan(2, "v1", Value::Null);
        delete["intent"] = json!("Delete");
        stage.assign(delete);
        stage.until("that is said", |it| it.told()["appliedSeq"] == 2).await;
        stage.pass(60).await;
        let annotations = stage.web().unwrap()["metadata"]["annotations"].to_string();
        assert!(!annotations.contains("fleet.kruise.io/"), "{annotations}");
        assert_eq!(pods(&stage), before);
        // It is its owner's again, who can go on with it.
        edit(&stage, "v9");
        stage.until("that is rolled out", |it| it.images() == ["v9"; 3]).await;
    });
}

/// Somebody who gives the object another image.
fn edit(stage: &Stage, image: &str) {
    let mut web = stage.web().unwrap();
    web["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image);
    stage.world.write(MEMBER, Method::PUT, &format!("{WEB}?fieldManager=owner"), &web).unwrap();
}

#[test]
fn del_3_what_is_let_go_of_at_rest_rolls_out_later_edits_and_restarts_nothing_before() {
    play(async |stage| {
        stage.publish("v1");
        stage.assign(plan(1, "v1", resting()));
        stage.until("they run", |it| it.told()["counts"]["available"] == 3).await;
        let before = pods(&stage);
        assert_eq!(stage.web().unwrap()["spec"]["updateStrategy"]["rollingUpdate"]["paused"], true);
        let mut orphan = plan(2, "v1", Value::Null);
        orphan["intent"] = json!("Orphan");
        stage.assign(orphan);
        stage.until("that is said", |it| it.told()["state"] == "Orphaned").await;
        stage.pass(120).await;
        assert_eq!(pods(&stage), before);
        edit(&stage, "v2");
        stage.until("that is rolled out", |it| it.images() == ["v2"; 3]).await;
    });
}

#[test]
fn del_3_what_is_let_go_of_in_a_release_stays_where_it_is() {
    play(async |stage| {
        stage.publish("v1");
        stage.publish("v2");
        stage.assign(plan(1, "v1", resting()));
        stage.until("they run", |it| it.told()["counts"]["available"] == 3).await;
        let mut release =
            plan(2, "v2", json!({"cloneSet": {"replicas": 3, "updated": 1, "maxUnavailable": 1}}));
        release["stable"] = revision("v1");
        stage.assign(release.clone());
        stage.until("one is updated", |it| it.told()["counts"]["updatedAvailable"] == 1).await;
        (release["seq"], release["slice"]["cloneSet"]["maxUnavailable"]) = (json!(3), json!(0));
        stage.assign(release);
        stage.acknowledged(3).await;
        let before = pods(&stage);
        let mut orphan = plan(4, "v2", Value::Null);
        orphan["intent"] = json!("Orphan");
        stage.assign(orphan);
        stage.until("that is said", |it| it.told()["state"] == "Orphaned").await;
        stage.pass(300).await;
        assert_eq!((pods(&stage), stage.images()), (before, ["v1", "v1", "v2"].map(str::to_owned).to_vec()));
        let patch = json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}});
        stage.world.write(MEMBER, Method::PATCH, WEB, &patch).unwrap();
        stage.until("its owner ends the release", |it| it.images() == ["v2"; 3]).await;
    });
}

#[test]
fn ad_1_an_adopted_object_whose_marks_were_replaced_away_is_not_deleted() {
    play(async |stage| {
        let before = runs(&stage, 3).await;
        stage.publish("v1");
        stage.assign(plan(1, "v1", resting()));
        stage.acknowledged(1).await;
        // What `kubectl replace` does with a manifest of the owner's.
        let mut web = stage.web().unwrap();
        web["metadata"]["annotations"] = json!({});
        stage.world.write(MEMBER, Method::PUT, &format!("{WEB}?fieldManager=owner"), &web).unwrap();
        let mark = |it: &Stage, name: &str| it.web().unwrap()["metadata"]["annotations"][name].clone();
        stage.until("it is ours again", |it| mark(it, "fleet.kruise.io/hub-uid") == "the-hub").await;
        assert_eq!(mark(&stage, "fleet.kruise.io/adopted"), "Delete");
        let mut delete = plan(2, "v1", Value::Null);
        delete["intent"] = json!("Delete");
        stage.assign(delete);
        stage.until("that is said", |it| it.told()["appliedSeq"] == 2).await;
        stage.pass(60).await;
        assert_eq!(pods(&stage), before);
    });
}

/// The object with a number that does not fit into its type.
fn garble(stage: &Stage) {
    let mut web = stage.web().unwrap();
    web["spec"]["minReadySeconds"] = json!(3_000_000_000_u64);
    stage.world.put_back(MEMBER, "clonesets.apps.kruise.io", web);
}

#[test]
fn del_1_an_object_that_cannot_be_read_is_deleted_before_that_is_said() {
    play(async |stage| {
        stage.publish("v1");
        stage.assign(plan(1, "v1", share(3, 3)));
        stage.acknowledged(1).await;
        garble(&stage);
        stage.until("that is told", |it| it.told()["state"] == "Failed").await;
        let condition = stage.told()["conditions"][0].clone();
        assert_eq!(condition["reason"], "Unreadable", "{condition}");
        let mut delete = plan(2, "v1", Value::Null);
        delete["intent"] = json!("Delete");
        stage.assign(delete);
        stage.until("that is said", |it| it.told()["appliedSeq"] == 2).await;
        assert_eq!(stage.web(), None);
    });
}

#[test]
fn ad_1_an_object_with_more_replicas_than_the_plan_grants_is_left_alone() {
    play(async |stage| {
        let before = runs(&stage, 5).await;
        stage.publish("v1");
        stage.assign(plan(1, "v1", resting()));
        stage.until("the conflict is told", |it| it.told()["state"] == "Conflict").await;
        let condition = stage.told()["conditions"][0].clone();
        assert_eq!(condition["reason"], "WouldDelete", "{condition}");
        stage.pass(120).await;
        assert_eq!((pods(&stage), stage.web().unwrap()["spec"]["replicas"].clone()), (before, json!(5)));
        // Somebody makes room for it.
        let mut more = resting();
        (more["cloneSet"]["replicas"], more["cloneSet"]["updated"]) = (json!(5), json!(5));
        stage.assign(plan(2, "v1", more));
        stage.acknowledged(2).await;
    });
}

#[test]
fn ad_1_an_object_with_another_manifest_is_left_alone() {
    play(async |stage| {
        let before = runs(&stage, 3).await;
        stage.publish("v2");
        stage.assign(plan(1, "v2", resting()));
        stage.until("the conflict is told", |it| it.told()["state"] == "Conflict").await;
        let condition = stage.told()["conditions"][0].clone();
        assert_eq!(condition["reason"], "Differs", "{condition}");
        assert!(condition["message"].as_str().unwrap().contains("/spec/template/"), "{condition}");
        stage.pass(60).await;
        assert_eq!(pods(&stage), before);
    });
}

#[test]
fn dr_1_what_was_put_right_is_told_to_the_hub_once_a_minute() {
    play(async |stage| {
        stage.publish("v1");
        stage.assign(plan(1, "v1", share(3, 3)));
        stage.acknowledged(1).await;
        stage.pass(60).await;
        let change = |limit: u32| {
            let patch = json!({"spec": {"updateStrategy": {"rollingUpdate": {"maxUnavailable": limit}}}});
            stage
                .world
                .write(MEMBER, Method::PATCH, &format!("{WEB}?fieldManager=somebody"), &patch)
                .unwrap();
        };
        change(7);
        stage.until("that is told", |it| it.told()["corrected"]["count"] == 1).await;
        let told = stage.told();
        assert_eq!(told["corrected"]["paths"], json!(["/spec/updateStrategy/rollingUpdate/maxUnavailable"]));
        assert_eq!(told["corrected"]["by"], json!(["somebody"]));
        assert_eq!(told["drift"], Value::Null, "it is put right");
        change(8);
        stage.pass(30).await;
        assert_eq!(stage.told()["corrected"]["count"], 1, "not yet");
        stage.until("the next one is told", |it| it.told()["corrected"]["count"] == 2).await;
        // A start of the agent forgets nothing that the hub knows, and says nothing new.
        stage.pass(700).await;
        let before = stage.told();
        stage.agent.crash();
        stage.pass(200).await;
        assert_eq!(stage.told(), before);
    });
}

/// Somebody who keeps fewer revisions than the hub says.
fn keep_five(stage: &Stage) {
    let patch = json!({"spec": {"revisionHistoryLimit": 5}});
    stage.world.write(MEMBER, Method::PATCH, &format!("{WEB}?fieldManager=somebody"), &patch).unwrap();
}

fn revisions_kept(stage: &Stage) -> Value {
    stage.web().unwrap()["spec"]["revisionHistoryLimit"].clone()
}

/// A plan with this policy about changes by others.
fn under(drift: &Value, mut plan: Value) -> Value {
    plan["drift"] = drift.clone();
    plan
}

#[test]
fn dr_1_what_is_left_to_others_stays_through_the_plans_that_follow() {
    let ignored = json!({"mode": "Correct", "ignorePaths": ["/spec/revisionHistoryLimit"]});
    for drift in [json!({"mode": "Report"}), json!({"mode": "Ignore"}), ignored] {
        play(async |stage| {
            stage.publish("v1");
            stage.publish("v2");
            stage.assign(under(&drift, plan(1, "v1", share(3, 3))));
            stage.acknowledged(1).await;
            keep_five(&stage);
            let is_told = drift["mode"] == "Report";
            let told = if is_told { json!(["/spec/revisionHistoryLimit"]) } else { Value::Null };
            stage.assign(under(&drift, plan(2, "v1", share(4, 4))));
            stage.acknowledged(2).await;
            assert_eq!(stage.web().unwrap()["spec"]["replicas"], 4);
            assert_eq!((revisions_kept(&stage), &stage.told()["drift"]), (json!(5), &told), "{drift}");
            // An agent that begins anew knows as well what was the hub's.
            stage.agent.crash();
            let mut release = under(&drift, plan(3, "v2", share(4, 4)));
            release["stable"] = revision("v1");
            stage.assign(release);
            stage.until("that is rolled out", |it| it.images() == ["v2"; 4]).await;
            stage.acknowledged(3).await;
            assert_eq!((revisions_kept(&stage), &stage.told()["drift"]), (json!(5), &told), "{drift}");
        });
    }
}

#[test]
fn dr_1_what_the_hub_changes_is_followed_also_where_somebody_else_has_changed_it() {
    play(async |stage| {
        let report = json!({"mode": "Report"});
        stage.publish("v1");
        stage.assign(under(&report, plan(1, "v1", share(3, 3))));
        stage.acknowledged(1).await;
        keep_five(&stage);
        stage.until("that is told", |it| !it.told()["drift"].is_null()).await;
        let mut changed = under(&report, plan(2, "v1", share(3, 3)));
        changed["overrides"] = json!([{"op": "replace", "path": "/spec/revisionHistoryLimit", "value": 7}]);
        stage.assign(changed);
        stage.acknowledged(2).await;
        assert_eq!((revisions_kept(&stage), &stage.told()["drift"]), (json!(7), &Value::Null));
    });
}

#[test]
fn dr_1_putting_one_thing_right_leaves_what_is_ignored() {
    play(async |stage| {
        let ignored = json!({"mode": "Correct", "ignorePaths": ["/spec/revisionHistoryLimit"]});
        stage.publish("v1");
        stage.assign(under(&ignored, plan(1, "v1", share(3, 3))));
        stage.acknowledged(1).await;
        keep_five(&stage);
        scale(&stage, 7);
        stage.until("three again", |it| it.web().unwrap()["spec"]["replicas"] == 3).await;
        assert_eq!(revisions_kept(&stage), 5);
    });
}

#[test]
fn cs_3_an_autoscaler_in_the_member_is_named_also_where_changes_by_others_are_ignored() {
    play(async |stage| {
        let ignore = json!({"mode": "Ignore"});
        stage.publish("v1");
        stage.assign(under(&ignore, plan(1, "v1", share(3, 3))));
        stage.acknowledged(1).await;
        keep_five(&stage);
        scale(&stage, 7);
        stage.until("that is told", |it| it.told()["drift"] == json!(["/spec/replicas"])).await;
        let told = stage.told();
        assert_eq!(told["driftedBy"], json!(["autoscaler"]), "{told}");
        assert_eq!(stage.web().unwrap()["spec"]["replicas"], 7, "it is not undone");
        stage.assign(under(&ignore, plan(2, "v1", share(4, 4))));
        stage.until("the next plan has its own number", |it| it.told()["drift"].is_null()).await;
        let spec = stage.web().unwrap()["spec"].clone();
        assert_eq!((&spec["replicas"], &spec["revisionHistoryLimit"]), (&json!(4), &json!(5)));
    });
}

#[test]
fn cs_3_an_autoscaler_in_the_member_is_named_and_undone_and_its_number_never_stands_for_long() {
    play(async |stage| {
        stage.publish("v1");
        stage.assign(plan(1, "v1", share(3, 3)));
        stage.acknowledged(1).await;
        stage.pass(60).await;
        for _ in 0..12 {
            scale(&stage, 7);
            stage.pass(11).await;
            assert_eq!(stage.web().unwrap()["spec"]["replicas"], 3);
            stage.pass(4).await;
        }
        stage.until("the fight is told", |it| it.told()["drift"] == json!(["/spec/replicas"])).await;
        let told = stage.told();
        assert_eq!(told["driftedBy"], json!(["autoscaler"]), "{told}");
        assert!(told["corrected"]["count"].as_u64() >= Some(3), "{told}");
        // Ten minutes of peace end it.
        stage.until("nobody fights", |it| it.told()["drift"].is_null()).await;
    });
}
