//! Plans that arrive, change, and are taken back.

use http::Method;
use serde_json::{Value, json};

use crate::kit::{MEMBER, Stage, WEB, plan, play, share};

#[test]
fn proto_4_an_assignment_becomes_a_cloneset_and_is_acknowledged_with_its_counts() {
    play(async |stage| {
        stage.publish("v1");
        stage.assign(plan(1, "v1", share(4, 4)));
        stage.acknowledged(1).await;
        let web = stage.web().unwrap();
        assert_eq!(
            (&web["spec"]["replicas"], &web["metadata"]["annotations"]["fleet.kruise.io/applied-plan"]),
            (&json!(4), &json!("1.1"))
        );
        let rolling = &web["spec"]["updateStrategy"]["rollingUpdate"];
        assert_eq!(
            (&rolling["partition"], &rolling["maxUnavailable"], &rolling["maxSurge"]),
            (&json!(0), &json!(1), &json!(0))
        );
        stage.until("all four serve", |it| it.told()["counts"]["available"] == 4).await;
        let told = stage.told();
        assert_eq!(
            (&told["counts"]["updated"], &told["counts"]["stable"], &told["state"]),
            (&json!(4), &json!(4), &json!("Settled"))
        );
        assert_eq!(
            (&told["applied"], &told["incarnation"]),
            (&plan(1, "v1", share(4, 4))["slice"], &json!(1))
        );
    });
}

#[test]
fn proto_3_a_newer_plan_is_followed_and_an_older_one_refused() {
    play(async |stage| {
        stage.publish("v1");
        stage.assign(plan(3, "v1", share(2, 2)));
        stage.acknowledged(3).await;
        stage.assign(plan(4, "v1", share(5, 5)));
        stage.acknowledged(4).await;
        assert_eq!(stage.web().unwrap()["spec"]["replicas"], 5);
        stage.assign(plan(2, "v1", share(1, 1)));
        stage.pass(120).await;
        assert_eq!(stage.web().unwrap()["spec"]["replicas"], 5);
        assert_eq!(stage.told()["appliedSeq"], 4, "HA-5: a restored hub learns the pair");
    });
}

#[test]
fn proto_7_an_assignment_that_is_gone_removes_nothing() {
    play(async |stage| {
        stage.publish("v1");
        stage.assign(plan(1, "v1", share(3, 3)));
        stage.acknowledged(1).await;
        let before = stage.web().unwrap();
        stage.unassign();
        stage.pass(600).await;
        let after = stage.web().unwrap();
        assert_eq!(
            (&after["metadata"]["uid"], &after["spec"]),
            (&before["metadata"]["uid"], &before["spec"])
        );
        assert_eq!((stage.images().len(), stage.kept_plans()), (3, 1));
        // The hub comes to its senses: nothing restarts.
        stage.assign(plan(1, "v1", share(3, 3)));
        stage.acknowledged(1).await;
        assert_eq!(stage.web().unwrap()["metadata"]["uid"], before["metadata"]["uid"]);
    });
}

#[test]
fn del_1_and_proto_11_intent_delete_deletes_and_the_number_stays_until_the_assignment_is_gone() {
    play(async |stage| {
        stage.publish("v1");
        stage.assign(plan(1, "v1", share(3, 3)));
        stage.acknowledged(1).await;
        let mut delete = plan(2, "v1", Value::Null);
        delete["intent"] = json!("Delete");
        stage.assign(delete);
        stage.until("it is gone and that is said", |it| it.told()["appliedSeq"] == 2).await;
        assert_eq!((stage.web(), &stage.told()["state"]), (None, &json!("Deleted")));
        // A late copy of an old plan.
        stage.assign(plan(1, "v1", share(3, 3)));
        stage.pass(120).await;
        assert_eq!((stage.web(), stage.kept_plans()), (None, 1));
        stage.unassign();
        stage.until("nothing is kept any more", |it| it.kept_plans() == 0).await;
    });
}

#[test]
fn proto_9_a_missing_namespace_is_made_with_a_label_and_never_deleted() {
    play(async |stage| {
        let namespace = |it: &Stage| it.read(MEMBER, "/api/v1/namespaces/new");
        let of_new = |seq: u64, slice: Value| {
            let mut plan = plan(seq, "v1", slice);
            plan["object"]["namespace"] = json!("new");
            plan
        };
        stage.publish("v1");
        assert_eq!(namespace(&stage), None);
        stage.assign(of_new(1, share(2, 2)));
        stage.acknowledged(1).await;
        let path = WEB.replace("/shop/", "/new/");
        assert_eq!(stage.read(MEMBER, &path).unwrap()["spec"]["replicas"], 2);
        let made = namespace(&stage).unwrap();
        assert_eq!(made["metadata"]["labels"]["fleet.kruise.io/made-for-fleet"], "true");
        let mut delete = of_new(2, Value::Null);
        delete["intent"] = json!("Delete");
        stage.assign(delete);
        stage.until("the object is gone", |it| it.told()["appliedSeq"] == 2).await;
        stage.unassign();
        stage.pass(120).await;
        assert_eq!(stage.read(MEMBER, &path), None);
        assert_eq!(namespace(&stage).unwrap()["metadata"]["uid"], made["metadata"]["uid"]);
    });
}

#[test]
fn cf_1_an_object_of_another_hub_is_never_touched() {
    play(async |stage| {
        stage.publish("v1");
        let theirs = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
            "metadata": {"name": "web", "annotations": {"fleet.kruise.io/hub-uid": "another"}},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "v0"}]}},
            },
        });
        stage.world.write(MEMBER, Method::POST, WEB.trim_end_matches("/web"), &theirs).unwrap();
        stage.assign(plan(1, "v1", share(4, 4)));
        stage.until("the conflict is told", |it| it.told()["state"] == "Conflict").await;
        let mut delete = plan(2, "v1", Value::Null);
        delete["intent"] = json!("Delete");
        stage.assign(delete);
        stage.until("nothing of ours is there", |it| it.told()["appliedSeq"] == 2).await;
        assert_eq!(stage.web().unwrap()["spec"]["replicas"], 1);
    });
}

#[test]
fn dr_1_what_somebody_else_changes_is_put_right() {
    play(async |stage| {
        stage.publish("v1");
        stage.assign(plan(1, "v1", share(3, 3)));
        stage.acknowledged(1).await;
        let mut web = stage.web().unwrap();
        web["spec"]["replicas"] = json!(7);
        stage.world.write(MEMBER, Method::PUT, WEB, &web).unwrap();
        stage.until("three again", |it| it.web().unwrap()["spec"]["replicas"] == 3).await;
        stage.until("three pods again", |it| it.images().len() == 3).await;
    });
}

#[test]
fn del_3_intent_orphan_takes_our_marks_and_our_claim_off_and_leaves_the_object_running() {
    play(async |stage| {
        stage.publish("v1");
        stage.assign(plan(1, "v1", share(3, 3)));
        stage.acknowledged(1).await;
        stage.until("they run", |it| it.told()["counts"]["available"] == 3).await;
        let before = stage.web().unwrap();
        assert!(before["metadata"]["managedFields"].to_string().contains("fleet-agent"));
        let mut orphan = plan(2, "v1", Value::Null);
        orphan["intent"] = json!("Orphan");
        stage.assign(orphan);
        stage.until("that is said", |it| it.told()["appliedSeq"] == 2).await;
        assert_eq!(stage.told()["state"], "Orphaned");
        stage.pass(120).await;
        let after = stage.web().unwrap();
        let own = |it: &Value| {
            [&it["metadata"]["uid"], &it["spec"]["replicas"], &it["spec"]["template"]].map(Clone::clone)
        };
        assert_eq!(own(&after), own(&before));
        let managers = after["metadata"]["managedFields"].to_string();
        assert!(!managers.contains("fleet-agent"), "{managers}");
        let annotations = after["metadata"]["annotations"].to_string();
        assert!(!annotations.contains("fleet.kruise.io/"), "{annotations}");
        assert_eq!(stage.images().len(), 3);
        // Whoever changes it now is not put right any more.
        let mut web = after;
        web["spec"]["replicas"] = json!(4);
        stage.world.write(MEMBER, Method::PUT, WEB, &web).unwrap();
        stage.until("four run", |it| it.images().len() == 4).await;
        stage.unassign();
        stage.until("nothing is kept any more", |it| it.kept_plans() == 0).await;
        assert_eq!(stage.web().unwrap()["spec"]["replicas"], 4);
    });
}
