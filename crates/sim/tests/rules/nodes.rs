//! Scheduler and kubelets.

use std::collections::BTreeMap;

use http::Method;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sim::{
    World, fleet,
    nodes::{Behaviour, ImageBehaviour, NodeShape},
};

use crate::kit::*;

fn get_pod(world: &World, name: &str) -> Value {
    read(world, &format!("/api/v1/namespaces/default/pods/{name}"))
}

fn condition<'a>(pod: &'a Value, kind: &str) -> &'a Value {
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|it| it["type"] == kind).unwrap_or(&Value::Null)
}

#[test]
fn a_pod_is_placed_pulled_started_and_ready() {
    with_nodes(1, async |world| {
        world.create_pod("member-1", "a", "nginx:1.25");
        world.all_ready("member-1", secs(30)).await;
        let pod = get_pod(&world, "a");
        assert_eq!(pod["status"]["phase"], "Running");
        let container = &pod["status"]["containerStatuses"][0];
        assert_eq!(container["image"], "nginx:1.25");
        assert!(container["imageID"].as_str().unwrap().starts_with("nginx@sha256:"));
        assert!(container["containerID"].as_str().unwrap().starts_with("containerd://"));
        assert_eq!(container["restartCount"], 0);
        assert!(pod["status"]["podIP"].as_str().unwrap().starts_with("10."));
        assert_eq!(condition(&pod, "PodScheduled")["status"], "True");
    });
}

#[test]
fn pods_spread_by_room_and_wait_when_there_is_none() {
    let shape = NodeShape { cpu: "2".to_owned(), ..NodeShape::default() };
    fleet().nodes(2).node_shape(shape).run(async |world| {
        for index in 0..5 {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{index}")},
                "spec": {"containers": [
                    {"name": "main", "image": "nginx:1", "resources": {"requests": {"cpu": "1"}}},
                ]},
            });
            write(&world, Method::POST, "/api/v1/namespaces/default/pods", pod);
        }
        world.pass(secs(30)).await;
        assert_eq!(world.ready_pods("member-1"), 4);
        let waiting: Vec<Value> = (0..5).map(|it| get_pod(&world, &format!("p{it}"))).collect();
        let waiting: Vec<&Value> = waiting.iter().filter(|it| it["spec"]["nodeName"].is_null()).collect();
        assert_eq!(waiting.len(), 1);
        assert_eq!(condition(waiting[0], "PodScheduled")["reason"], "Unschedulable");

        let placed = if waiting[0]["metadata"]["name"] == "p0" { "p1" } else { "p0" };
        write(&world, Method::DELETE, &format!("/api/v1/namespaces/default/pods/{placed}"), Value::Null);
        world.pass(secs(40)).await;
        assert_eq!(world.ready_pods("member-1"), 4, "the room that became free is used");
    });
}

#[test]
fn selectors_affinity_and_taints_are_kept() {
    fleet().nodes(2).run(async |world| {
        let labels = BTreeMap::from([("disk".to_owned(), "ssd".to_owned())]);
        world.add_node("member-1", "special", &NodeShape { labels, ..NodeShape::default() });
        let taint = json!({"spec": {"taints": [{"key": "only", "value": "x", "effect": "NoSchedule"}]}});
        write(&world, Method::PATCH, "/api/v1/nodes/special", taint);
        let tolerate = json!([{"key": "only", "operator": "Equal", "value": "x", "effect": "NoSchedule"}]);
        let create = |name: &str, spec: Value| {
            let mut pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
            });
            for (key, value) in spec.as_object().unwrap() {
                pod["spec"][key] = value.clone();
            }
            write(&world, Method::POST, "/api/v1/namespaces/default/pods", pod);
        };
        create("needs-ssd", json!({"nodeSelector": {"disk": "ssd"}, "tolerations": tolerate}));
        create("untolerating", json!({"nodeSelector": {"disk": "ssd"}}));
        let by_name = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-2"]}]}],
        }}});
        create("by-name", json!({"affinity": by_name}));
        world.pass(secs(5)).await;
        assert_eq!(get_pod(&world, "needs-ssd")["spec"]["nodeName"], "special");
        assert!(get_pod(&world, "untolerating")["spec"]["nodeName"].is_null());
        assert_eq!(get_pod(&world, "by-name")["spec"]["nodeName"], "node-2");
    });
}

#[test]
fn a_new_image_restarts_the_container_in_place() {
    with_nodes(3, async |world| {
        world.create_pod("member-1", "a", "nginx:1");
        world.all_ready("member-1", secs(30)).await;
        let before = get_pod(&world, "a");
        let pods = pods(&client(&world));
        let patch = json!({"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}});
        pods.patch("a", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
        world
            .eventually("the new image runs", secs(30), |world| {
                get_pod(world, "a")["status"]["containerStatuses"][0]["restartCount"] == 1
            })
            .await;
        world.all_ready("member-1", secs(30)).await;
        let after = get_pod(&world, "a");
        let status = |pod: &Value, member: &str| pod["status"]["containerStatuses"][0][member].clone();
        assert_eq!(status(&after, "image"), "nginx:2");
        for member in ["imageID", "containerID"] {
            assert_ne!(status(&after, member), status(&before, member), "{member}");
        }
        assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
        assert_eq!(after["spec"]["nodeName"], before["spec"]["nodeName"]);
        assert!(!status(&after, "lastState")["terminated"].is_null());
        assert_eq!(after["status"]["phase"], "Running");
    });
}

#[test]
fn two_tags_of_one_content_have_one_image_id() {
    let twin = ImageBehaviour { same_as: Some("nginx:1".to_owned()), ..ImageBehaviour::default() };
    let behaviour = Behaviour::default().image("nginx:2", twin);
    fleet().nodes(1).behaviour(behaviour).run(async |world| {
        world.create_pod("member-1", "a", "nginx:1");
        world.create_pod("member-1", "b", "nginx:2");
        world.all_ready("member-1", secs(30)).await;
        let id = |name: &str| get_pod(&world, name)["status"]["containerStatuses"][0]["imageID"].clone();
        assert_eq!(id("a"), id("b"));
    });
}

#[test]
fn a_readiness_gate_keeps_a_pod_unready_until_it_is_true() {
    with_nodes(4, async |world| {
        let body = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "main", "image": "nginx:1"}],
                     "readinessGates": [{"conditionType": "InPlaceUpdateReady"}]},
        });
        write(&world, Method::POST, "/api/v1/namespaces/default/pods", body);
        world.pass(secs(30)).await;
        let pod = get_pod(&world, "a");
        assert_eq!(condition(&pod, "ContainersReady")["status"], "True");
        assert_eq!(condition(&pod, "Ready")["reason"], "ReadinessGatesNotReady");

        let pods = pods(&client(&world));
        let open = json!({"status": {"conditions": [{"type": "InPlaceUpdateReady", "status": "True"}]}});
        pods.patch_status("a", &PatchParams::default(), &Patch::Strategic(open)).await.unwrap();
        world.all_ready("member-1", secs(5)).await;
        assert_eq!(condition(&get_pod(&world, "a"), "InPlaceUpdateReady")["status"], "True");
    });
}

#[test]
fn a_deleted_pod_stops_within_its_grace_and_then_goes() {
    let slow = ImageBehaviour { stop: Some(secs(100)), ..ImageBehaviour::default() };
    let behaviour = Behaviour::default().image("slow:1", slow);
    fleet().nodes(1).behaviour(behaviour).run(async |world| {
        world.create_pod("member-1", "a", "slow:1");
        world.all_ready("member-1", secs(30)).await;
        let pods = pods(&client(&world));
        let answer = pods.delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
        assert_eq!(answer.metadata.deletion_grace_period_seconds, Some(30));
        world.pass(secs(28)).await;
        assert!(pods.get_opt("a").await.unwrap().is_some(), "it has thirty seconds");
        world.pass(secs(4)).await;
        assert!(pods.get_opt("a").await.unwrap().is_none());
    });
}

#[test]
fn a_second_delete_may_shorten_the_grace() {
    let slow = ImageBehaviour { stop: Some(secs(100)), ..ImageBehaviour::default() };
    let behaviour = Behaviour::default().image("slow:1", slow);
    fleet().nodes(1).behaviour(behaviour).run(async |world| {
        world.create_pod("member-1", "a", "slow:1");
        world.all_ready("member-1", secs(30)).await;
        let pods = pods(&client(&world));
        pods.delete("a", &DeleteParams::default()).await.unwrap();
        world.pass(secs(1)).await;
        pods.delete("a", &DeleteParams { grace_period_seconds: Some(3), ..Default::default() })
            .await
            .unwrap();
        world.pass(secs(5)).await;
        assert!(pods.get_opt("a").await.unwrap().is_none());
    });
}

#[test]
fn a_container_that_keeps_exiting_waits_longer_each_time() {
    let crash = ImageBehaviour { exit: Some((secs(2), 1)), ..ImageBehaviour::default() };
    let behaviour = Behaviour::default().image("crash:1", crash);
    fleet().nodes(1).behaviour(behaviour).run(async |world| {
        world.create_pod("member-1", "a", "crash:1");
        let restarts = |world: &World| {
            get_pod(world, "a")["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap_or(0)
        };
        world.pass(secs(60)).await;
        let first = restarts(&world);
        assert!((2..=4).contains(&first), "{first}");
        world.pass(secs(600)).await;
        assert!(restarts(&world) - first <= 5, "waits double: {}", restarts(&world));
    });
}

#[test]
fn a_pod_that_is_not_restarted_ends_with_its_exit_code() {
    let done = ImageBehaviour { exit: Some((secs(2), 0)), ..ImageBehaviour::default() };
    let failed = ImageBehaviour { exit: Some((secs(2), 3)), ..ImageBehaviour::default() };
    let behaviour = Behaviour::default().image("done:1", done).image("failed:1", failed);
    fleet().nodes(1).behaviour(behaviour).run(async |world| {
        for (name, image) in [("a", "done:1"), ("b", "failed:1")] {
            let body = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": image}]},
            });
            write(&world, Method::POST, "/api/v1/namespaces/default/pods", body);
        }
        world.pass(secs(30)).await;
        assert_eq!(get_pod(&world, "a")["status"]["phase"], "Succeeded");
        let failed = get_pod(&world, "b");
        assert_eq!(failed["status"]["phase"], "Failed");
        assert_eq!(failed["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"], 3);
    });
}

#[test]
fn a_lost_node_turns_its_pods_unready_and_later_evicts_them() {
    fleet().nodes(1).run(async |world| {
        world.create_pod("member-1", "a", "nginx:1");
        world.all_ready("member-1", secs(30)).await;
        world.lose_node("member-1", "node-1");
        world.pass(secs(60)).await;
        assert_eq!(world.ready_pods("member-1"), 0);
        world.pass(secs(300)).await;
        let pod = get_pod(&world, "a");
        assert!(!pod["metadata"]["deletionTimestamp"].is_null(), "evicted, and stuck while the node is away");
        world.return_node("member-1", "node-1");
        world.pass(secs(60)).await;
        assert_eq!(world.cluster("member-1").server().count("pods"), 0);
        let node = read(&world, "/api/v1/nodes/node-1");
        assert_eq!(node["status"]["conditions"][0]["status"], "True");
    });
}

#[test]
fn a_disruption_budget_refuses_evictions_with_429() {
    with_nodes(5, async |world| {
        let pods = pods(&client(&world));
        for name in ["a", "b"] {
            pods.create(&PostParams::default(), &pod(name, "nginx:1")).await.unwrap();
        }
        world.all_ready("member-1", secs(30)).await;
        let budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        });
        write(&world, Method::POST, "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget);
        pods.evict("a", &EvictParams::default()).await.unwrap();
        world.pass(secs(40)).await;
        let error = pods.evict("b", &EvictParams::default()).await.unwrap_err();
        let status = status(&error);
        assert_eq!(status["code"], 429);
        assert_eq!(status["details"]["causes"][0]["reason"], "DisruptionBudget");
    });
}

#[test]
fn a_resize_changes_resources_without_a_restart() {
    with_nodes(6, async |world| {
        world.create_pod("member-1", "a", "nginx:1");
        world.all_ready("member-1", secs(30)).await;
        let resize =
            json!({"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}]}});
        let pods = pods(&client(&world));
        pods.patch_subresource("resize", "a", &PatchParams::default(), &Patch::Strategic(resize))
            .await
            .unwrap();
        world.pass(secs(5)).await;
        let status = get_pod(&world, "a")["status"]["containerStatuses"][0].clone();
        assert_eq!(status["resources"]["requests"]["cpu"], "500m");
        assert_eq!(status["restartCount"], 0);
    });
}

fn create_spread(world: &World, name: &str, when: &str, key: &str) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {
            "containers": [{"name": "main", "image": "nginx:1"}],
            "topologySpreadConstraints": [{
                "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when,
                "labelSelector": {"matchLabels": {"app": "web"}},
            }],
        },
    });
    write(world, Method::POST, "/api/v1/namespaces/default/pods", pod);
}

#[test]
fn pods_are_spread_as_they_ask() {
    fleet().nodes(2).seed(21).run(async |world| {
        let shape = |zone: &str| NodeShape {
            labels: [("zone".to_owned(), zone.to_owned())].into(),
            ..NodeShape::default()
        };
        for (node, zone) in [("east-1", "east"), ("east-2", "east"), ("west-1", "west")] {
            world.add_node("member-1", node, &shape(zone));
        }
        for index in 0..6 {
            create_spread(&world, &format!("p{index}"), "DoNotSchedule", "zone");
        }
        world.all_ready("member-1", secs(60)).await;
        let on = |zone: &str| {
            let pods = world.cluster("member-1").server().list("pods");
            let nodes =
                pods.iter().map(|it| it.value()["spec"]["nodeName"].as_str().unwrap_or("").to_owned());
            nodes.filter(|it| it.starts_with(zone)).count()
        };
        assert_eq!((on("east"), on("west")), (3, 3));

        // With the only node of a zone closed, the other takes one more and no second.
        let west = json!({"spec": {"unschedulable": true}});
        write(&world, Method::PATCH, "/api/v1/nodes/west-1", west);
        create_spread(&world, "p6", "DoNotSchedule", "zone");
        create_spread(&world, "p7", "DoNotSchedule", "zone");
        world.pass(secs(60)).await;
        assert_eq!((on("east"), on("west")), (4, 3));
        let waiting = world.cluster("member-1").server().list("pods");
        let waiting =
            waiting.iter().map(|it| it.value()).find(|it| it["spec"]["nodeName"].is_null()).unwrap();
        let message = waiting["status"]["conditions"][0]["message"].as_str().unwrap();
        assert!(message.contains("node(s) didn't match pod topology spread constraints"), "{message}");
        let open = json!({"spec": {"unschedulable": null}});
        write(&world, Method::PATCH, "/api/v1/nodes/west-1", open);
        world.all_ready("member-1", secs(60)).await;
        assert_eq!((on("east"), on("west")), (4, 4));
    });
}
