//! What the hub writes about an object, and what of it is not the hub's to write.

use serde_json::{Value, json};
use sim::faults::Direction;

use crate::kit::{HUB, MEMBERS, Stage, agent_of, play, policy, rolling};

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
