//! Replicas over the fleet: how they are divided, scaled and moved.

use http::Method;
use serde_json::{Value, json};
use sim::faults::Direction;

use crate::kit::{
    FLEET, HUB, MEMBERS, PodNames, Setting, Stage, WEB, agent_of, all_pods, play, play_with, policy,
};

#[test]
fn a_cloneset_of_ten_becomes_four_three_and_three_and_its_status_sums_up() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 10, |_| {});
        stage.rests(10, 0).await;
        assert_eq!(stage.sorted_replicas(), [3, 3, 4]);
        let status = stage.web()["status"].clone();
        for field in
            ["replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "expectedUpdatedReplicas"]
        {
            assert_eq!(status[field], 10, "{field}");
        }
        assert_eq!(
            (&status["updateRevision"], &status["labelSelector"]),
            (&status["currentRevision"], &json!("app=web"))
        );
        stage.until("the binding says so too", |it| it.binding()["status"]["summary"] == "Ready").await;
        let binding = stage.binding();
        assert_eq!(
            (&binding["status"]["ready"], &binding["status"]["clusterCount"]),
            (&json!(10), &json!(3))
        );
        // One body for all, and shares of a few hundred bytes.
        assert_eq!(stage.world.cluster(HUB).server().count("fleetrevisions.fleet.kruise.io"), 1);
        let share = stage.assignment("member-1").unwrap()["spec"].to_string().len();
        assert!(share < 900, "{share} bytes");
        // Each member shows what it has of it.
        stage
            .until("MemberClusters have their pods", |it| {
                let load = |name: &&str| {
                    let member = it.read(HUB, &format!("{FLEET}/memberclusters/{name}")).unwrap_or_default();
                    (member["status"]["objects"].as_u64(), member["status"]["readyPods"].as_u64())
                };
                let shares = it.replicas().into_iter().map(|it| (Some(1), Some(it)));
                MEMBERS.iter().map(load).eq(shares)
            })
            .await;
    });
}

#[test]
fn weights_divide_five_three_and_two() {
    play(async |stage| {
        let weight = |name: &str, weight: u32| json!({"clusters": {"names": [name]}, "weight": weight});
        stage.place(&policy(|it| {
            it["replicas"] =
                json!({"weights": [weight("member-1", 5), weight("member-2", 3), weight("member-3", 2)]});
        }));
        stage.apply("v1", 10, |_| {});
        stage.rests(10, 0).await;
        assert_eq!(stage.replicas(), [5, 3, 2]);
    });
}

#[test]
fn scaling_moves_as_little_as_can_be() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 10, |_| {});
        stage.rests(10, 0).await;
        let mut before = stage.replicas();
        for replicas in [11_u32, 7, 0, 10] {
            let scale = json!({"spec": {"replicas": replicas}});
            stage.world.write(HUB, Method::PATCH, WEB, &scale).unwrap();
            stage.rests(replicas as usize, 0).await;
            let now = stage.replicas();
            let moved: i64 = before.iter().zip(&now).map(|(a, b)| (*a as i64 - *b as i64).abs()).sum();
            let least = before.iter().sum::<u64>().abs_diff(u64::from(replicas));
            assert_eq!(moved as u64, least, "{before:?} -> {now:?}");
            before = now;
        }
        assert_eq!(stage.sorted_replicas(), [3, 3, 4]);
        // The first and the last are in the same words, and both are told.
        let events = stage.world.cluster(HUB).server().list("events");
        let told = events.iter().map(|it| it.value()).filter(|it| it["reason"] == "Scheduled");
        assert_eq!(told.map(|it| it["count"].as_u64().unwrap()).sum::<u64>(), 5);
    });
}

#[test]
fn the_scale_subresource_scales_the_fleet() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 4, |_| {});
        stage.rests(4, 0).await;
        let path = format!("{WEB}/scale");
        let mut scale = stage.read(HUB, &path).unwrap();
        assert_eq!(
            (&scale["status"]["replicas"], &scale["status"]["selector"]),
            (&json!(4), &json!("app=web"))
        );
        scale["spec"]["replicas"] = json!(6);
        stage.world.write(HUB, Method::PUT, &path, &scale).unwrap();
        stage.rests(6, 0).await;
    });
}

#[test]
fn a_drained_member_is_emptied_after_its_pods_run_elsewhere() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 10, |_| {});
        stage.rests(10, 0).await;
        // maxSurge of moves is 10%: one pod more at a time. Nothing available goes before it is available elsewhere.
        stage.limits.set(10, 11, u64::MAX);
        stage.change_member("member-2", &json!({"drain": true}));
        stage.until("member-2 is empty", |it| it.replicas()[1] == 0).await;
        stage.rests(10, 0).await;
        assert_eq!(
            (stage.sorted_replicas(), stage.state("member-2")),
            (vec![0, 5, 5], "Draining".to_owned())
        );
        assert!(all_pods(&stage.world).iter().all(|it| it.cluster != "member-2"));
    });
}

#[test]
fn a_cordoned_member_keeps_what_it_has_and_gets_no_more() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 3, |_| {});
        stage.rests(3, 0).await;
        stage.change_member("member-1", &json!({"unschedulable": true}));
        // Two objects change, and nobody promises which of them the hub sees first.
        stage.until("member-1 is cordoned", |it| it.state("member-1") == "Cordoned").await;
        stage.apply("v1", 9, |_| {});
        stage.rests(9, 0).await;
        assert_eq!(stage.replicas(), [1, 4, 4]);
    });
}

#[test]
fn del_5_a_member_that_the_policy_drops_is_emptied_and_then_forgotten() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 6, |_| {});
        stage.rests(6, 0).await;
        stage.limits.set(6, 7, u64::MAX);
        stage.place(&policy(|it| it["clusters"] = json!({"exclude": ["member-3"]})));
        stage
            .until("member-3 has neither object nor share", |it| {
                it.read("member-3", WEB).is_none() && it.assignment("member-3").is_none()
            })
            .await;
        stage.rests(6, 0).await;
        assert_eq!(stage.replicas(), [3, 3, 0]);
        assert_eq!(stage.binding()["spec"]["ledger"]["clusters"].as_object().unwrap().len(), 2);
    });
}

#[test]
fn cs_6_without_replicas_objects_stay_and_one_leaves_only_when_that_is_acknowledged() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 6, |_| {});
        stage.rests(6, 0).await;
        let replicas = |name: &str| stage.read(name, WEB).map(|it| it["spec"]["replicas"].clone());
        stage.apply("v1", 0, |_| {});
        stage.rests(0, 0).await;
        assert!(MEMBERS.iter().all(|it| replicas(it) == Some(json!(0))));
        let link = stage.world.link(&agent_of("member-3"), HUB);
        link.cut(Direction::BOTH);
        stage.place(&policy(|it| it["clusters"] = json!({"exclude": ["member-3"]})));
        stage.pass(300).await;
        assert_eq!((replicas("member-3"), stage.assignment("member-3").is_some()), (Some(json!(0)), true));
        link.heal();
        let is_gone = |it: &Stage| it.read("member-3", WEB).is_none() && it.assignment("member-3").is_none();
        stage.until("it has neither object nor share", is_gone).await;
        assert_eq!(replicas("member-1"), Some(json!(0)));
    });
}

#[test]
fn cs_1_a_name_that_several_clusters_have_deletes_nothing_and_uses_up_nothing() {
    play_with(Setting { pods: PodNames::Alike, seed: 0 }, async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 6, |_| {});
        stage.rests(6, 0).await;
        let described = |it: &Stage| -> Vec<String> {
            let mut pods: Vec<String> =
                all_pods(&it.world).iter().map(|it| format!("{}/{}", it.cluster, it.name)).collect();
            pods.sort_unstable();
            pods
        };
        let (before, pods) = (described(&stage), all_pods(&stage.world));
        let name = &pods[0].name;
        assert!(pods.iter().filter(|it| it.name == *name).count() > 1, "{before:?}");
        stage.apply("v1", 4, |spec| spec["scaleStrategy"] = json!({"podsToDelete": [name]}));
        stage.rests(4, 0).await;
        let after = described(&stage);
        assert!(after.iter().all(|it| before.contains(it)), "only two go: of {before:?} there are {after:?}");
        // A scale-down may have taken all but one pod of that name. That one was not meant any more than the others.
        stage.apply("v1", 3, |spec| spec["scaleStrategy"] = json!({"podsToDelete": [name]}));
        stage.rests(3, 0).await;
        stage.pass(120).await;
        let after = described(&stage);
        assert!(after.iter().all(|it| before.contains(it)), "three go: of {before:?} there are {after:?}");
        // Said in full it goes.
        let full = after[0].clone();
        stage.apply("v1", 2, |spec| spec["scaleStrategy"] = json!({"podsToDelete": [full]}));
        stage.rests(2, 0).await;
        assert_eq!(described(&stage), after[1..]);
    });
}

#[test]
fn cs_1_pods_named_for_deletion_are_found_in_their_cluster() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 6, |_| {});
        stage.rests(6, 0).await;
        let pods = all_pods(&stage.world);
        let (bare, full) = (&pods[0], pods.iter().find(|it| it.cluster != pods[0].cluster).unwrap());
        let names = json!([bare.name, format!("{}/{}", full.cluster, full.name)]);
        stage.apply("v1", 4, |spec| spec["scaleStrategy"] = json!({"podsToDelete": names}));
        stage.rests(4, 0).await;
        let mut left: Vec<String> = all_pods(&stage.world).into_iter().map(|it| it.name).collect();
        let others = pods.iter().filter(|it| it.name != bare.name && it.name != full.name);
        let mut others: Vec<String> = others.map(|it| it.name.clone()).collect();
        left.sort_unstable();
        others.sort_unstable();
        assert_eq!(left, others, "SPLIT-8: they go, and nobody in their place");
        stage
            .until("nobody is told to delete them any more", |it| {
                MEMBERS.iter().all(|name| {
                    it.assignment(name)
                        .is_none_or(|it| it["spec"]["slice"]["cloneSet"]["podsToDelete"] == Value::Null)
                })
            })
            .await;
    });
}

/// Three clusters with all four replicas each, two of which stay old and two of which may be down.
#[test]
fn split_6_numbers_per_cluster_add_up_in_the_status_and_an_object_that_rests_on_them_is_healthy() {
    play(async |stage| {
        stage.place(&policy(|it| {
            it["replicas"] = json!({"mode": "Duplicated"});
            it["rollout"] = json!({"progressDeadline": "5m"});
        }));
        stage.apply("v1", 4, |spec| crate::kit::rolling(spec, json!({"maxUnavailable": 2})));
        let own = json!({"metadata": {"annotations": {"fleet.kruise.io/numbers": "PerCluster"}}});
        stage.world.write(HUB, Method::PATCH, WEB, &own).unwrap();
        stage.rests(12, 0).await;
        let half = json!({"maxUnavailable": 2, "partition": 2});
        stage.apply("v2", 4, |spec| crate::kit::rolling(spec, half));
        stage.rests(12, 6).await;
        stage.pass(900).await;
        let status = stage.web()["status"].clone();
        assert_eq!((&status["updatedReplicas"], &status["expectedUpdatedReplicas"]), (&json!(6), &json!(6)));
        let condition = |kind: &str| {
            let conditions = stage.binding()["status"]["conditions"].clone();
            let found = conditions.as_array().unwrap().iter().find(|it| it["type"] == kind).cloned();
            found.unwrap_or_default()
        };
        let progressing = condition("Progressing");
        assert_eq!(
            (&progressing["status"], &progressing["reason"]),
            (&json!("True"), &json!("ProgressPartitionAvailable")),
            "{progressing}"
        );
        assert_eq!(stage.measure("partition_error"), Some(0.0));
        assert_eq!(stage.binding()["status"]["budget"], "6/6", "two in each, held by itself");
        assert_eq!(stage.measure("budget_limit{type=\"unavailable\"}"), Some(6.0));
        // Four pods that nobody knows of are fewer than the six that may be down.
        stage.world.link(&agent_of("member-2"), HUB).cut(Direction::BOTH);
        stage.until("it is noticed", |it| it.state("member-2") == "Offline").await;
        stage.pass(400).await;
        let available = condition("Available");
        assert_eq!((&available["status"], &available["reason"]), (&json!("True"), &json!("Enough")));
    });
}

#[test]
fn move_5_a_rebalance_that_stopped_because_moved_pods_are_not_available_says_so() {
    play(async |stage| {
        // There a pod is available after a day.
        let slow = json!([{
            "clusters": {"names": ["member-3"]},
            "patches": [{"op": "add", "path": "/spec/minReadySeconds", "value": 86_400}],
        }]);
        let evening = |it: &mut Value| {
            it["rebalance"] = json!({"trigger": "Continuous", "maxMoves": 3, "maxSurge": 3});
            it["rollout"] = json!({"progressDeadline": "2m"});
        };
        stage.place(&policy(|it| {
            evening(it);
            it["clusters"] = json!({"exclude": ["member-3"]});
        }));
        stage.apply("v1", 9, |_| {});
        stage.rests(9, 0).await;
        let progressing = |stage: &Stage| {
            let conditions = stage.binding()["status"]["conditions"].clone();
            let found = conditions.as_array().unwrap().iter().find(|it| it["type"] == "Progressing").cloned();
            found.unwrap_or_default()
        };
        assert_eq!(progressing(&stage)["status"], "True");
        stage.place(&policy(|it| {
            evening(it);
            it["overrides"] = slow;
        }));
        stage
            .until("it is told why nothing moves any more", |it| {
                let told = progressing(it);
                let message = told["message"].as_str().unwrap_or_default();
                told["status"] == "False"
                    && told["reason"] == "ProgressDeadlineExceeded"
                    && message.ends_with("3 that were moved are not available yet")
            })
            .await;
        assert_eq!(stage.replicas().iter().sum::<u64>(), 12, "nobody gives away what is not available yet");
        stage.place(&policy(evening));
        stage.until("every member has three", |it| it.replicas() == [3, 3, 3]).await;
        stage.rests(9, 0).await;
        stage.until("nothing stands still", |it| progressing(it)["reason"] == "CloneSetAvailable").await;
    });
}
