//! Members that are not heard.

use http::Method;
use serde_json::{Value, json};
use sim::{
    faults::{Direction, Fate},
    server::request::ApiRequest,
};

use crate::kit::{FLEET, HUB, Stage, WEB, agent_of, play, pods_of, policy, rolling};

#[test]
fn state_4_a_silent_member_is_left_alone_and_the_status_says_what_is_not_known() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 10, |spec| rolling(spec, json!({"maxUnavailable": 2})));
        stage.rests(10, 0).await;
        let before = stage.replicas();
        stage.world.link(&agent_of("member-2"), HUB).cut(Direction::BOTH);
        stage.until("it is noticed", |it| it.state("member-2") == "Offline").await;
        stage
            .until("its pods are not shown as ready", |it| {
                let status = it.web()["status"].clone();
                status["readyReplicas"] == 10 - before[1] && status["replicas"] == 10
            })
            .await;
        stage
            .until("they are shown as unknown", |it| it.binding()["status"]["unknownReplicas"] == before[1])
            .await;
        let heard = |it: &Stage| {
            let member = it.read(HUB, &format!("{FLEET}/memberclusters/member-2")).unwrap_or_default();
            member["status"]["lastReportTime"].as_str().map(str::to_owned)
        };
        let since = heard(&stage);
        assert!(since.is_some(), "it is said when it was last heard");
        // A scale-out lands elsewhere.
        let seq = stage.assignment("member-2").unwrap()["spec"]["seq"].clone();
        stage.apply("v1", 13, |spec| rolling(spec, json!({"maxUnavailable": 2})));
        stage.until("three more run", |it| it.replicas().iter().sum::<u64>() == 13).await;
        assert_eq!(
            (stage.replicas()[1], &stage.assignment("member-2").unwrap()["spec"]["seq"]),
            (before[1], &seq)
        );
        // And back: it ends exact.
        stage.world.link(&agent_of("member-2"), HUB).heal();
        stage.rests(13, 0).await;
        assert_eq!(stage.replicas()[1], before[1]);
        stage.until("it is heard", |it| it.state("member-2") == "Ready" && heard(it).is_none()).await;
    });
}

#[test]
fn bud_6_a_link_that_is_cut_during_a_release_holds_its_budget_and_ends_exact() {
    play(async |stage| {
        stage.place(&policy(|it| it["rollout"] = json!({"unknownCountsAs": "LastReported"})));
        stage.apply("v1", 10, |spec| rolling(spec, json!({"maxUnavailable": 3})));
        stage.rests(10, 0).await;
        stage.limits.set(7, 10, 10);
        stage.apply("v2", 10, |spec| rolling(spec, json!({"maxUnavailable": 3})));
        stage.until("it has begun", |it| it.ready_of("v2") >= 1).await;
        stage.world.link(&agent_of("member-1"), HUB).cut(Direction::BOTH);
        stage.until("it is noticed", |it| it.state("member-1") == "Offline").await;
        stage.apply("v2", 10, |spec| rolling(spec, json!({"maxUnavailable": 2})));
        stage.pass(300).await;
        assert_ne!(
            stage.web()["status"]["observedGeneration"],
            stage.web()["metadata"]["generation"],
            "ST-2"
        );
        stage.world.link(&agent_of("member-1"), HUB).heal();
        stage.rests(10, 10).await;
    });
}

#[test]
fn st_1_the_status_of_an_object_that_nobody_plans_follows_its_clusters_all_the_same() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 9, |_| {});
        stage.rests(9, 0).await;
        let path = format!("{FLEET}/namespaces/shop/placementpolicies/all");
        stage.world.write(HUB, Method::DELETE, &path, &Value::Null).unwrap();
        stage.until("that is said", |it| it.binding()["status"]["summary"] == "Suspended").await;
        let told = stage.web()["status"].clone();
        stage.world.link(&agent_of("member-2"), HUB).cut(Direction::BOTH);
        stage.until("it is noticed", |it| it.state("member-2") == "Offline").await;
        stage
            .until("its pods are not shown as ready", |it| {
                it.web()["status"]["readyReplicas"] == 6 && it.binding()["status"]["unknownReplicas"] == 3
            })
            .await;
        let now = stage.web()["status"].clone();
        for field in
            ["replicas", "updateRevision", "currentRevision", "expectedUpdatedReplicas", "observedGeneration"]
        {
            assert_eq!(now[field], told[field], "{field}");
        }
        stage.world.link(&agent_of("member-2"), HUB).heal();
        stage.until("they are ready again", |it| it.web()["status"]["readyReplicas"] == 9).await;
    });
}

/// Reports that could not be sent wait ever longer; a hub that is heard again is told before it takes the member for Ready.
#[test]
fn st_1_a_member_that_returns_is_never_counted_by_what_it_said_before_it_was_cut_off() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 9, |_| {});
        stage.rests(9, 0).await;
        let link = stage.world.link(&agent_of("member-2"), HUB);
        link.cut(Direction::BOTH);
        stage.until("it is noticed", |it| it.state("member-2") == "Offline").await;
        // No pod that takes the place of another finds a node.
        for node in ["node-1", "node-2", "node-3"] {
            let path = format!("/api/v1/nodes/{node}");
            let mut stored = stage.read("member-2", &path).unwrap();
            stored["spec"]["unschedulable"] = true.into();
            stage.world.write("member-2", Method::PUT, &path, &stored).unwrap();
        }
        for pod in pods_of(&stage.world, "member-2") {
            let path = format!("/api/v1/namespaces/shop/pods/{}", pod.name);
            stage.world.write("member-2", Method::DELETE, &path, &Value::Null).unwrap();
        }
        // Long enough for many attempts to have failed.
        stage.pass(1_500).await;
        let ready = pods_of(&stage.world, "member-2").iter().filter(|it| it.is_ready).count() as u64;
        assert_eq!(ready, 0);
        stage.world.invariant("what is told of it", |world| {
            let web = world.cluster(HUB).server().list("clonesets.apps.kruise.io")[0].value();
            let told = web["status"]["readyReplicas"].as_u64().unwrap_or_default();
            if told <= 6 { Ok(()) } else { Err(format!("{told} pods are said to be ready, and 6 are")) }
        });
        link.heal();
        stage.until("it is heard", |it| it.state("member-2") == "Ready").await;
        stage.pass(120).await;
    });
}

/// A conflict that is none of the name: somebody's quota was changed in between, for example.
#[test]
fn rev_7_a_body_that_could_not_be_stored_is_not_taken_for_stored() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 6, |_| {});
        stage.rests(6, 0).await;
        let is_body = |it: &ApiRequest| it.method == Method::POST && it.path.plural == "fleetrevisions";
        stage.world.link(&stage.leader, HUB).next(is_body, Fate::Refuse(409));
        stage.apply("v2", 6, |_| {});
        stage.rests(6, 6).await;
    });
}

#[test]
fn rev_7_a_body_that_somebody_deletes_is_stored_again_for_the_cluster_that_needs_it() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 6, |_| {});
        stage.rests(6, 0).await;
        let link = stage.world.link(&agent_of("member-2"), HUB);
        link.cut(Direction::BOTH);
        stage.apply("v2", 6, |_| {});
        stage.until("the others have it", |it| it.ready_of("v2") >= 1).await;
        let folder = format!("{FLEET}/namespaces/fleet-content/fleetrevisions");
        for body in stage.read(HUB, &folder).unwrap()["items"].as_array().unwrap() {
            let path = format!("{folder}/{}", body["metadata"]["name"].as_str().unwrap());
            stage.world.write(HUB, Method::DELETE, &path, &Value::Null).unwrap();
        }
        link.heal();
        stage.rests(6, 6).await;
    });
}

#[test]
fn st_1_pods_of_a_silent_member_are_not_shown_ready_while_their_object_is_being_deleted() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 9, |_| {});
        stage.rests(9, 0).await;
        stage.world.link(&agent_of("member-2"), HUB).cut(Direction::BOTH);
        stage.world.write(HUB, Method::DELETE, WEB, &Value::Null).unwrap();
        stage
            .until("the others obey", |it| it.read("member-1", WEB).or(it.read("member-3", WEB)).is_none())
            .await;
        stage.until("it is noticed", |it| it.state("member-2") == "Offline").await;
        stage
            .until("its pods are not shown as ready", |it| {
                let (web, binding) = (it.web()["status"].clone(), it.binding()["status"].clone());
                web["readyReplicas"].as_u64().unwrap_or(0) == 0
                    && web["availableReplicas"].as_u64().unwrap_or(0) == 0
                    && web["replicas"] == 3
                    && binding["unknownReplicas"] == 3
            })
            .await;
    });
}

#[test]
fn st_1_pods_of_a_silent_member_are_not_shown_ready_while_their_object_is_swept_along() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 9, |_| {});
        stage.rests(9, 0).await;
        stage.world.write(HUB, Method::DELETE, "/api/v1/namespaces/shop", &Value::Null).unwrap();
        stage.until("it is to go", |it| !it.web()["metadata"]["deletionTimestamp"].is_null()).await;
        stage.world.link(&agent_of("member-2"), HUB).cut(Direction::BOTH);
        stage.until("it is noticed", |it| it.state("member-2") == "Offline").await;
        stage
            .until("its pods are not shown as ready", |it| {
                let web = it.web()["status"].clone();
                web["readyReplicas"] == 6 && web["availableReplicas"] == 6 && web["replicas"] == 9
            })
            .await;
    });
}
