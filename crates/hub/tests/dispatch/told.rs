//! What the hub writes about an object, and what of it is not the hub's to write.

use http::Method;
use serde_json::{Value, json};
use sim::faults::Direction;

use crate::kit::{FLEET, HUB, MEMBERS, Stage, WEB, agent_of, play, policy, rolling};

/// Conditions of a binding that there may be.
const TYPES: [&str; 16] = [
    "Scheduled",
    "Dispatched",
    "Applied",
    "Available",
    "Progressing",
    "Released",
    "BudgetHeld",
    "PartitionShort",
    "Unplaced",
    "SurplusFrozen",
    "SpreadUnsatisfied",
    "Drifted",
    "Conflict",
    "Stale",
    "Suspended",
    "DrainHeld",
];

/// A release of ten pods that stands on its partition.
async fn half_released(stage: &Stage) {
    stage.place(&policy(|_| {}));
    stage.apply("v1", 10, |spec| rolling(spec, json!({"maxUnavailable": 2})));
    stage.rests(10, 0).await;
    stage.apply("v2", 10, |spec| rolling(spec, json!({"maxUnavailable": 2, "partition": "50%"})));
    stage.rests(10, 5).await;
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

#[test]
fn api_4_of_the_users_object_the_hub_writes_status_a_finalizer_and_annotations_and_never_the_spec() {
    play(async |stage| {
        half_released(&stage).await;
        stage.change_member("member-2", &json!({"drain": true}));
        stage.until("member-2 is empty", |it| it.replicas()[1] == 0).await;
        stage.rests(10, 5).await;
        stage.until("that is told", |it| it.web()["status"]["updatedReplicas"] == 5).await;
        let web = stage.web();
        let meta = &web["metadata"];
        assert_eq!(meta["generation"], 2, "the spec was written by the user twice, and by nobody else");
        assert_eq!(meta["finalizers"], json!(["fleet.kruise.io/members"]));
        assert!(meta["labels"].is_null() && meta["ownerReferences"].is_null(), "{meta}");
        let annotations = meta["annotations"].as_object().cloned().unwrap_or_default();
        assert!(annotations.keys().all(|it| it.starts_with("fleet.kruise.io/")), "{annotations:?}");
    });
}

#[test]
fn api_5_an_object_has_one_binding_beside_it_which_it_owns() {
    play(async |stage| {
        half_released(&stage).await;
        let server = stage.world.cluster(HUB).server().clone();
        assert_eq!(server.count("fleetbindings.fleet.kruise.io"), 1, "and nobody asked for it");
        let (web, binding) = (stage.web(), stage.binding());
        let owners = list(&binding["metadata"]["ownerReferences"]);
        let owner = |it: &Value| (it["kind"].clone(), it["name"].clone(), it["uid"].clone());
        let wanted = (json!("CloneSet"), json!("web"), web["metadata"]["uid"].clone());
        assert_eq!(owners.iter().map(owner).collect::<Vec<_>>(), [wanted]);
        let ledger = binding["spec"]["ledger"]["clusters"].as_object().unwrap();
        assert_eq!(ledger.keys().collect::<Vec<_>>(), MEMBERS);
        assert_eq!(list(&binding["status"]["clusters"]).len(), MEMBERS.len());
    });
}

#[test]
fn st_4_conditions_are_of_known_kinds_and_say_of_which_generation_and_why() {
    play(async |stage| {
        half_released(&stage).await;
        stage.world.link(&agent_of("member-3"), HUB).cut(Direction::BOTH);
        stage.until("that is told", |it| it.binding()["status"]["summary"] == "Stale").await;
        let (web, conditions) = (stage.web(), list(&stage.binding()["status"]["conditions"]));
        let of = |kind: &str| conditions.iter().find(|it| it["type"] == kind).cloned().unwrap_or_default();
        for it in &conditions {
            assert!(TYPES.iter().any(|kind| it["type"] == *kind), "{it}");
            assert_eq!(it["observedGeneration"], web["metadata"]["generation"], "{it}");
            let reason = it["reason"].as_str().unwrap();
            assert!(
                reason.starts_with(char::is_uppercase) && reason.chars().all(char::is_alphanumeric),
                "{it}"
            );
        }
        assert_eq!(
            (&of("Scheduled")["status"], &of("Released")["status"]),
            (&json!("True"), &json!("False"))
        );
        let stale = of("Stale");
        assert_eq!((&stale["status"], &stale["reason"]), (&json!("True"), &json!("Offline")));
        assert!(stale["message"].as_str().unwrap().contains("member-3"), "{stale}");
        // The user's own object has none that its kind does not have.
        let upstream = ["FailedScale", "FailedUpdate", "FleetReady"];
        assert!(
            list(&web["status"]["conditions"])
                .iter()
                .all(|it| upstream.iter().any(|kind| it["type"] == *kind))
        );
    });
}

#[test]
fn st_6_every_cluster_has_a_row_with_its_share_counts_and_plan_until_its_removal_is_acknowledged() {
    play(async |stage| {
        half_released(&stage).await;
        let rows = |it: &Stage| list(&it.binding()["status"]["clusters"]);
        let is_complete = |row: &Value| {
            let (given, counts) = (&row["slice"]["cloneSet"], &row["counts"]);
            row["state"] == "Ready"
                && row["seq"] == row["appliedSeq"]
                && row["reportedAt"].is_string()
                && counts["replicas"] == given["replicas"]
                && counts["available"] == given["replicas"]
                && counts["updated"].as_u64().unwrap_or(0) == given["updated"].as_u64().unwrap_or(0)
        };
        stage.until("rows are complete", |it| rows(it).iter().all(is_complete)).await;
        let sum = |field: &str| {
            let shares =
                rows(&stage).into_iter().map(|it| it["slice"]["cloneSet"][field].as_u64().unwrap_or(0));
            shares.sum::<u64>()
        };
        assert_eq!((rows(&stage).len(), sum("replicas"), sum("updated")), (3, 10, 5));

        let link = stage.world.link(&agent_of("member-3"), HUB);
        link.cut(Direction::BOTH);
        stage.place(&policy(|it| it["clusters"] = json!({"exclude": ["member-3"]})));
        stage.pass(300).await;
        let row = |it: &Stage| rows(it).into_iter().find(|it| it["cluster"] == "member-3");
        assert_eq!(row(&stage).map(|it| it["state"].clone()), Some(json!("Offline")));
        link.heal();
        stage
            .until("the row goes with the share", |it| {
                row(it).is_none() && it.assignment("member-3").is_none()
            })
            .await;
    });
}

/// What acts in each cluster by itself comes there as the user wrote it.
#[test]
fn cs_4_readiness_hooks_priorities_and_the_way_to_update_are_copied_unchanged() {
    play(async |stage| {
        let fields = [
            ("/minReadySeconds", json!(3)),
            ("/lifecycle", json!({"preDelete": {"labelsHandler": {"drained": "true"}}})),
            (
                "/updateStrategy/rollingUpdate",
                json!({
                    "podUpdatePolicy": "InPlaceIfPossible",
                    "inPlaceUpdateStrategy": {"gracePeriodSeconds": 4},
                    "priorityStrategy": {"weightPriority": [{
                        "weight": 50, "matchSelector": {"matchLabels": {"tier": "front"}},
                    }]},
                    "scatterStrategy": [{"key": "tier", "value": "front"}],
                }),
            ),
        ];
        stage.place(&policy(|_| {}));
        stage.apply("v1", 9, |spec| {
            for (path, value) in &fields {
                match path.strip_prefix("/updateStrategy/") {
                    Some(name) => spec["updateStrategy"][name] = value.clone(),
                    None => spec[&path[1..]] = value.clone(),
                }
            }
        });
        stage.rests(9, 0).await;
        for member in MEMBERS {
            let spec = stage.read(member, WEB).unwrap_or_default()["spec"].clone();
            for (path, value) in &fields {
                let there = spec.pointer(path).cloned().unwrap_or_default();
                let Some(wanted) = value.as_object().filter(|_| path.starts_with("/updateStrategy")) else {
                    assert_eq!(there, *value, "{path} in {member}");
                    continue;
                };
                // Beside the numbers, which are the fleet's.
                for (name, value) in wanted {
                    assert_eq!(there[name], *value, "{path}/{name} in {member}");
                }
            }
        }
    });
}

#[test]
fn st_8_what_a_silent_cluster_holds_of_the_updated_pods_is_shown_and_not_hidden() {
    play(async |stage| {
        stage.place(&policy(|spec| spec["rollout"] = json!({"unknownCountsAs": "LastReported"})));
        stage.apply("v1", 9, |spec| rolling(spec, json!({"maxUnavailable": 3})));
        stage.rests(9, 0).await;
        let link = stage.world.link(&agent_of("member-2"), HUB);
        link.cut(Direction::BOTH);
        stage.until("it is noticed", |it| it.state("member-2") == "Offline").await;
        stage.apply("v2", 9, |spec| rolling(spec, json!({"maxUnavailable": 3})));
        stage.until("the rest is updated", |it| it.ready_of("v2") == 6).await;
        stage
            .until("that is told", |it| {
                let status = it.binding()["status"].clone();
                let short = list(&status["conditions"]).into_iter().find(|it| it["type"] == "PartitionShort");
                short.is_some_and(|it| {
                    it["status"] == "True" && it["message"].as_str().unwrap().starts_with("3 pods")
                }) && it.web()["status"]["updatedReplicas"] == 6
                    && it.web()["status"]["expectedUpdatedReplicas"] == 9
            })
            .await;
        link.heal();
        stage.rests(9, 9).await;
        stage
            .until("nothing is short", |it| {
                let conditions = list(&it.binding()["status"]["conditions"]);
                !conditions.iter().any(|it| it["type"] == "PartitionShort" && it["status"] == "True")
            })
            .await;
    });
}

/// A leader that was deposed may be the last who writes a status, by what it has seen (story 903).
#[test]
fn st_1_a_status_that_another_leader_wrote_last_does_not_stand() {
    play(async |stage| {
        half_released(&stage).await;
        stage.pass(60).await;
        let before = stage.binding()["status"].clone();
        let mut wrong = before.clone();
        (wrong["summary"], wrong["ready"]) = (json!("Stale"), json!(0));
        let path = format!("{FLEET}/namespaces/shop/fleetbindings/cloneset.web/status");
        stage.world.write(HUB, Method::PATCH, &path, &json!({"status": wrong})).unwrap();
        assert_eq!(stage.binding()["status"]["summary"], "Stale");
        stage.until("it is told as it is", |it| it.binding()["status"] == before).await;
    });
}

/// Section 20. A partition says how many pods stay old while others are new: where all are of one revision none is too many.
#[test]
fn rev_12_partition_error_is_0_at_rest_whatever_the_partition_and_after_a_rollback() {
    play(async |stage| {
        stage.place(&policy(|it| it["rollout"] = json!({"onFailure": "Rollback", "progressDeadline": "2m"})));
        let half = json!({"maxUnavailable": 2, "partition": "50%"});
        stage.apply("v1", 6, |spec| rolling(spec, half.clone()));
        stage.rests(6, 0).await;
        stage.pass(60).await;
        assert_eq!(stage.measure("partition_error"), Some(0.0), "it is new, and nothing is released");
        stage.apply("v2", 6, |spec| {
            rolling(spec, half.clone());
            // No node has it, so no pod of it ever runs.
            spec["template"]["spec"]["nodeSelector"] = json!({"disk": "gold"});
        });
        stage.until("pods are due", |it| it.measure("partition_error") > Some(0.0)).await;
        stage
            .until("it is taken back", |it| {
                let conditions = list(&it.binding()["status"]["conditions"]);
                conditions.iter().any(|it| it["type"] == "Released" && it["reason"] == "RolledBack")
            })
            .await;
        stage.until("all pods are of the old revision again", |it| it.ready_of("v1") == 6).await;
        stage.pass(60).await;
        assert_eq!(stage.measure("partition_error"), Some(0.0), "the partition is not applied");
        let status = stage.web()["status"].clone();
        assert_eq!(
            (&status["updatedReplicas"], &status["expectedUpdatedReplicas"]),
            (&json!(6), &json!(6)),
            "REL-7: G = N"
        );
    });
}
