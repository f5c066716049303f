//! Room: what does not fit, what fits where, and estimates that move.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use sim::nodes::NodeShape;

use crate::kit::{FLEET, HUB, MEMBERS, Stage, WEB, all_pods, play, policy};

/// Pods of half a node: each member has three nodes of 16 CPUs, and so room for six.
fn halves(spec: &mut Value) {
    spec["template"]["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "8"}});
}

/// A policy that says this about replicas.
fn replicas(replicas: Value) -> Value {
    policy(|it| it["replicas"] = replicas)
}

/// A pod of half a node that nobody on the hub knows of.
fn stranger(stage: &Stage, member: &str, name: &str) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    let _ = stage.world.write(member, Method::POST, "/api/v1/namespaces", &namespace);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "other"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "8"}}}]},
    });
    stage.world.write(member, Method::POST, "/api/v1/namespaces/other/pods", &pod).unwrap();
}

fn unplaced(stage: &Stage) -> Option<String> {
    let binding = stage.binding();
    let conditions = binding["status"]["conditions"].as_array()?;
    let found = conditions.iter().find(|it| it["type"] == "Unplaced" && it["status"] == "True")?;
    Some(found["message"].as_str()?.to_owned())
}

/// Pods that have no node.
fn waiting(stage: &Stage) -> usize {
    let pods = MEMBERS.iter().flat_map(|it| stage.world.cluster(it).server().list("pods"));
    pods.filter(|it| it.value()["spec"]["nodeName"].is_null()).count()
}

#[test]
fn split_2_with_hold_what_does_not_fit_is_reported_and_placed_when_room_appears() {
    play(async |stage| {
        stage.place(&replicas(json!({"whenShort": "Hold"})));
        stage.apply("v1", 20, halves);
        stage
            .until("eighteen are placed and two are not", |it| {
                it.replicas() == [6, 6, 6] && unplaced(it).is_some()
            })
            .await;
        stage.until("all of them run", |it| it.ready_of("v1") == 18).await;
        assert_eq!(waiting(&stage), 0, "nothing was placed that does not fit");
        stage.world.add_node("member-2", "another", &NodeShape::default());
        stage.until("the other two are placed where there is room", |it| it.replicas() == [6, 8, 6]).await;
        stage.until("nothing is unplaced", |it| unplaced(it).is_none()).await;
        stage.rests(20, 0).await;
    });
}

#[test]
fn split_6_aggregated_takes_the_fewest_clusters_and_leaves_the_others_alone() {
    play(async |stage| {
        stage.place(&replicas(json!({"mode": "Aggregated"})));
        stage.apply("v1", 5, halves);
        stage.rests(5, 0).await;
        assert_eq!(stage.sorted_replicas(), [0, 0, 5]);
        let holders = MEMBERS.iter().filter(|it| stage.read(it, WEB).is_some()).count();
        assert_eq!(holders, 1, "whoever is only asked gets no object");
        stage.apply("v1", 10, halves);
        stage.rests(10, 0).await;
        assert_eq!(stage.sorted_replicas(), [0, 5, 5]);
    });
}

#[test]
fn tiers_are_filled_one_after_the_other_by_what_fits() {
    play(async |stage| {
        let tier = |name: &str| json!({"name": name, "clusters": {"names": [name]}});
        stage
            .place(&policy(|it| it["tiers"] = json!([tier("member-3"), tier("member-1"), tier("member-2")])));
        stage.apply("v1", 8, halves);
        stage.rests(8, 0).await;
        assert_eq!(stage.replicas(), [2, 0, 6]);
    });
}

#[test]
fn split_7_free_capacity_divides_by_room_and_a_moving_estimate_moves_nothing() {
    play(async |stage| {
        for name in ["x", "y", "z"] {
            stranger(&stage, "member-1", name);
        }
        stage.pass(30).await;
        stage.place(&replicas(json!({"dynamic": "FreeCapacity"})));
        stage.apply("v1", 10, halves);
        stage.until("member-1 has half of what the others have", |it| it.replicas() == [2, 4, 4]).await;
        stage.until("all of them run", |it| it.ready_of("v1") == 10).await;
        stage.pass(60).await;
        let (before, ledger) = (stage.replicas(), stage.binding()["spec"].clone());
        stranger(&stage, "member-2", "x");
        stage.pass(60).await;
        stage
            .world
            .write("member-1", Method::DELETE, "/api/v1/namespaces/other/pods/x", &Value::Null)
            .unwrap();
        stage.pass(300).await;
        assert_eq!((stage.replicas(), &stage.binding()["spec"]), (before, &ledger));
    });
}

#[test]
fn split_7_a_continuous_rebalance_follows_room_that_changed_for_good() {
    play(async |stage| {
        for name in ["x", "y", "z"] {
            stranger(&stage, "member-1", name);
        }
        stage.pass(30).await;
        stage.place(&policy(|it| {
            it["replicas"] = json!({"dynamic": "FreeCapacity"});
            it["rebalance"] = json!({"trigger": "Continuous", "tolerance": "5%"});
        }));
        stage.apply("v1", 10, halves);
        stage.until("member-1 has half of what the others have", |it| it.replicas() == [2, 4, 4]).await;
        stage.until("all of them run", |it| it.ready_of("v1") == 10).await;
        // The others leave for good: a third each would be best now, and 5% of ten is no replica at all.
        for name in ["x", "y", "z"] {
            let path = format!("/api/v1/namespaces/other/pods/{name}");
            stage.world.write("member-1", Method::DELETE, &path, &Value::Null).unwrap();
        }
        stage.until("replicas follow", |it| it.sorted_replicas() == [3, 3, 4] && it.replicas()[0] >= 3).await;
        stage.until("all of them run", |it| it.ready_of("v1") == 10 && all_pods(&it.world).len() == 10).await;
        stage.pass(600).await;
        let before = stage.versions();
        stage.pass(600).await;
        assert_eq!(stage.versions(), before, "and rest");
    });
}

/// MOVE-5 and SPLIT-7: room that changes again is followed when the interval of the moves before is over, and not earlier.
#[test]
fn split_7_a_continuous_rebalance_weighs_room_anew_when_its_interval_is_over() {
    play(async |stage| {
        for name in ["x", "y", "z"] {
            stranger(&stage, "member-1", name);
        }
        stage.pass(30).await;
        stage.place(&policy(|it| {
            it["replicas"] = json!({"dynamic": "FreeCapacity"});
            it["rebalance"] = json!({"trigger": "Continuous", "tolerance": "5%", "interval": "20m"});
        }));
        stage.apply("v1", 10, halves);
        stage.until("member-1 has half of what the others have", |it| it.replicas() == [2, 4, 4]).await;
        stage.until("all of them run", |it| it.ready_of("v1") == 10).await;
        for name in ["x", "y", "z"] {
            let path = format!("/api/v1/namespaces/other/pods/{name}");
            stage.world.write("member-1", Method::DELETE, &path, &Value::Null).unwrap();
        }
        stage.until("one replica follows", |it| it.replicas()[0] == 3).await;
        stage.until("all of them run", |it| it.ready_of("v1") == 10 && all_pods(&it.world).len() == 10).await;
        let begun = stage.world.now();
        let before = stage.replicas();
        for name in ["u", "v", "w"] {
            stranger(&stage, "member-3", name);
        }
        stage.pass(600).await;
        assert_eq!(stage.replicas(), before, "the interval is not over");
        stage
            .world
            .eventually("replicas follow", Duration::from_secs(1_800), |_| stage.replicas()[2] < before[2])
            .await;
        assert!(stage.world.now().duration_since(begun).as_secs() < 1_500, "soon after the interval");
    });
}

#[test]
fn split_7_two_objects_that_want_the_same_room_do_not_both_get_it() {
    play(async |stage| {
        stage.place(&replicas(json!({"whenShort": "Hold"})));
        stage.apply("v1", 12, halves);
        let mut second = stage.web();
        second["metadata"] = json!({"name": "api", "namespace": "shop"});
        second["spec"]["selector"]["matchLabels"] = json!({"app": "api"});
        second["spec"]["template"]["metadata"]["labels"] = json!({"app": "api"});
        second.as_object_mut().unwrap().remove("status");
        let folder = WEB.trim_end_matches("/web");
        stage.world.write(HUB, Method::POST, folder, &second).unwrap();
        stage.until("all room is used", |it| it.ready_of("v1") == 18).await;
        stage
            .until("and nobody waits for more", |it| waiting(it) == 0 && all_pods(&it.world).len() == 18)
            .await;
        // After ten minutes it is said that there are too few (ST-5).
        stage.pass(900).await;
        let before = stage.versions();
        stage.pass(600).await;
        assert_eq!(stage.versions(), before, "no thrash");
    });
}

#[test]
fn out_of_capacity_pods_that_lost_their_room_go_where_there_is_some_and_come_to_rest() {
    play(async |stage| {
        stage.place(&replicas(json!({"whenShort": "Hold"})));
        stage.apply("v1", 9, halves);
        stage.rests(9, 0).await;
        assert_eq!(stage.replicas(), [3, 3, 3]);
        // All but one node of member-1 go, and with them what runs there.
        let nodes = stage.world.cluster("member-1").server().list("nodes");
        let names: Vec<String> =
            nodes.iter().map(|it| it.value()["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        for name in &names[1..] {
            stage
                .world
                .write("member-1", Method::DELETE, &format!("/api/v1/nodes/{name}"), &Value::Null)
                .unwrap();
            for pod in stage.world.cluster("member-1").server().list("pods") {
                let pod = pod.value();
                if pod["spec"]["nodeName"] == name.as_str() {
                    let path =
                        format!("/api/v1/namespaces/shop/pods/{}", pod["metadata"]["name"].as_str().unwrap());
                    let now = json!({"gracePeriodSeconds": 0});
                    stage.world.write("member-1", Method::DELETE, &path, &now).unwrap();
                }
            }
        }
        stage.rests(9, 0).await;
        assert!(stage.replicas()[0] <= 2 && waiting(&stage) == 0, "{:?}", stage.replicas());
        stage.pass(120).await;
        let before = stage.versions();
        stage.pass(600).await;
        assert_eq!(stage.versions(), before);
    });
}

#[test]
fn ha_4_with_room_asked_for_a_hub_and_agents_that_restart_at_rest_write_nothing() {
    play(async |stage| {
        stage.place(&replicas(json!({"whenShort": "Hold", "dynamic": "FreeCapacity"})));
        stage.apply("v1", 10, halves);
        stage.rests(10, 0).await;
        stage.pass(120).await;
        let before = stage.versions();
        stage.pass(600).await;
        stage.hub.crash();
        stage.agents.values().for_each(sim::world::Process::crash);
        stage.pass(300).await;
        assert_eq!((stage.hub.starts(), stage.versions()), (2, before));
    });
}

#[test]
fn del_1_an_object_goes_with_its_questions() {
    play(async |stage| {
        stage.place(&replicas(json!({"mode": "Aggregated"})));
        stage.apply("v1", 2, halves);
        stage.rests(2, 0).await;
        assert!(MEMBERS.iter().all(|it| stage.assignment(it).is_some()));
        stage.world.write(HUB, Method::DELETE, WEB, &Value::Null).unwrap();
        stage
            .until("object, shares and questions are gone", |it| {
                it.web().is_null() && MEMBERS.iter().all(|name| it.assignment(name).is_none())
            })
            .await;
    });
}

#[test]
fn proto_8_an_object_that_rested_for_long_asks_again_before_it_grows() {
    play(async |stage| {
        stage.place(&replicas(json!({"whenShort": "Hold"})));
        stage.apply("v1", 6, halves);
        stage.rests(6, 0).await;
        stage.pass(600).await;
        // Room for twice as many is another question; until it is answered there are no more pods than there is room for.
        stage.limits.set(u64::MAX, 18, u64::MAX);
        stage.apply("v1", 30, halves);
        stage
            .until("all room is used and the rest is told not to be placed", |it| {
                it.replicas() == [6, 6, 6] && it.ready_of("v1") == 18 && unplaced(it).is_some()
            })
            .await;
        assert_eq!(waiting(&stage), 0);
    });
}

#[test]
fn split_9_the_object_of_higher_priority_gets_the_room_and_the_other_one_what_is_left() {
    play(async |stage| {
        let of = |name: &str, priority: i32| {
            let mut policy = replicas(json!({"whenShort": "Hold"}));
            policy["metadata"]["name"] = json!(name);
            policy["spec"]["priority"] = json!(priority);
            policy["spec"]["targets"] = json!([{"kind": "CloneSet", "name": name}]);
            policy
        };
        let folder = format!("{FLEET}/namespaces/shop/placementpolicies");
        for policy in [of("web", 1), of("api", 10)] {
            stage.world.write(HUB, Method::POST, &folder, &policy).unwrap();
        }
        // The one that is less important has been there for longer, and wants more than there is.
        stage.apply("v1", 6, halves);
        stage.rests(6, 0).await;
        let mut second = stage.web();
        second["metadata"] = json!({"name": "api", "namespace": "shop"});
        second["spec"]["selector"]["matchLabels"] = json!({"app": "api"});
        second["spec"]["template"]["metadata"]["labels"] = json!({"app": "api"});
        second["spec"]["template"]["spec"]["containers"][0]["image"] = json!("v2");
        second["spec"]["replicas"] = json!(9);
        second.as_object_mut().unwrap().remove("status");
        stage.apply("v1", 18, halves);
        stage.world.write(HUB, Method::POST, WEB.trim_end_matches("/web"), &second).unwrap();
        stage.until("all room is used", |it| it.ready_of("v1") + it.ready_of("v2") == 18).await;
        assert_eq!((stage.ready_of("v2"), waiting(&stage)), (9, 0), "the important one has all it wants");
        stage.pass(120).await;
        let before = stage.versions();
        stage.pass(300).await;
        assert_eq!(stage.versions(), before, "and both rest");
        // Room that appears goes to whoever is short: the important one first.
        second = stage.read(HUB, &WEB.replace("/web", "/api")).unwrap();
        second["spec"]["replicas"] = json!(11);
        stage.world.write(HUB, Method::PUT, &WEB.replace("/web", "/api"), &second).unwrap();
        stage.pass(60).await;
        stage.world.add_node("member-2", "another", &NodeShape::default());
        stage.until("it has the new room", |it| it.ready_of("v2") == 11).await;
        assert_eq!(stage.ready_of("v1"), 9);
    });
}
