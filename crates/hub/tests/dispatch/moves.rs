//! What moves, what does not, and what people are told of it.

use http::Method;
use serde_json::{Value, json};

use crate::kit::{FLEET, HUB, Stage, all_pods, play, policy, rolling};

fn condition(stage: &Stage, kind: &str) -> Option<Value> {
    let binding = stage.binding();
    binding["status"]["conditions"].as_array()?.iter().find(|it| it["type"] == kind).cloned()
}

/// Whether an event with this reason was written on the hub.
pub(crate) fn is_told(stage: &Stage, reason: &str) -> bool {
    let server = stage.world.cluster(HUB).server().clone();
    let events = ["events", "events.events.k8s.io"].into_iter().flat_map(|kind| server.list(kind));
    events.into_iter().any(|it| it.value()["reason"] == reason)
}

#[test]
fn cs_5_a_drain_moves_pods_with_volumes_only_if_it_is_told_to() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 9, |spec| {
            spec["volumeClaimTemplates"] = json!([{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }]);
        });
        stage.until("three pods are in each", |it| it.replicas() == [3, 3, 3]).await;
        stage.until("all run", |it| all_pods(&it.world).len() == 9).await;
        stage.change_member("member-2", &json!({"drain": true}));
        stage
            .until("the binding says why the cluster is not emptied", |it| {
                condition(it, "DrainHeld").is_some_and(|it| it["reason"] == "HasVolumes")
            })
            .await;
        stage.pass(300).await;
        assert_eq!(stage.replicas(), [3, 3, 3]);
        stage.change_member("member-2", &json!({"drain": true, "moveStateful": true}));
        stage
            .until("it is empty", |it| {
                it.replicas()[1] == 0
                    && it.replicas().iter().sum::<u64>() == 9
                    && condition(it, "DrainHeld").is_none()
            })
            .await;
    });
}

#[test]
fn move_5_a_policy_that_was_deleted_and_made_again_evens_replicas_out() {
    play(async |stage| {
        stage.place(&policy(|it| it["clusters"] = json!({"exclude": ["member-3"]})));
        stage.apply("v1", 9, |_| {});
        stage.rests(9, 0).await;
        assert_eq!(stage.replicas()[2], 0);
        let path = format!("{FLEET}/namespaces/shop/placementpolicies/all");
        stage.world.write(HUB, Method::DELETE, &path, &Value::Null).unwrap();
        stage
            .until("nobody places it", |it| {
                condition(it, "Suspended").is_some_and(|it| it["status"] == "True")
            })
            .await;
        stage.limits.set(9, 10, 0);
        stage.place(&policy(|_| {}));
        stage.until("every member has three", |it| it.replicas() == [3, 3, 3]).await;
        stage.rests(9, 0).await;
    });
}

#[test]
fn rel_7_a_release_that_fails_without_waves_is_taken_back_and_told() {
    play(async |stage| {
        stage.place(&policy(|it| it["rollout"] = json!({"onFailure": "Rollback", "progressDeadline": "2m"})));
        let fields = json!({"maxUnavailable": 2});
        stage.apply("v1", 6, |spec| rolling(spec, fields.clone()));
        stage.rests(6, 0).await;
        stage.apply("v2", 6, |spec| {
            rolling(spec, fields.clone());
            // No node has it, so no pod of it ever runs.
            spec["template"]["spec"]["nodeSelector"] = json!({"disk": "gold"});
        });
        stage
            .until("it is taken back, and the binding says so", |it| {
                condition(it, "Released")
                    .is_some_and(|it| it["status"] == "False" && it["reason"] == "RolledBack")
            })
            .await;
        stage.until("an event tells", |it| is_told(it, "RolledBack")).await;
        stage.until("all pods are of the old revision again", |it| it.ready_of("v1") == 6).await;
        let told = condition(&stage, "Released").unwrap();
        assert!(told["message"].as_str().unwrap().contains("no progress"), "{told}");
        // It is told again after a restart, in the same words.
        stage.hub.crash();
        stage.pass(120).await;
        assert_eq!(condition(&stage, "Released"), Some(told));
        stage.apply("v3", 6, |spec| rolling(spec, fields));
        stage
            .until("the next template is released", |it| {
                it.ready_of("v3") == 6 && condition(it, "Released").is_some_and(|it| it["status"] == "True")
            })
            .await;
    });
}
