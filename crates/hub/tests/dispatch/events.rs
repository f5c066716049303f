//! Section 20: where people find what happened to an object.

use serde_json::{Value, json};

use crate::kit::{HUB, Stage, all_pods, play, policy};

/// Reason and message of every event about the object of this kind, with how often it was told, oldest first.
fn events(stage: &Stage, kind: &str) -> Vec<(String, String, u64)> {
    let object = if kind == "FleetBinding" { stage.binding() } else { stage.web() };
    let events = stage.world.cluster(HUB).server().list("events");
    let about = events.iter().map(|it| it.value()).filter(|it| {
        let whom = &it["involvedObject"];
        // What `kubectl describe` looks for.
        ["name", "namespace", "uid"].iter().all(|field| whom[field] == object["metadata"][field])
            && whom["kind"] == kind
    });
    let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
    let told = about.map(|it| (text(&it["reason"]), text(&it["message"]), it["count"].as_u64().unwrap_or(0)));
    told.collect()
}

fn told(stage: &Stage, kind: &str, reason: &str) -> Vec<(String, u64)> {
    let of_reason = events(stage, kind).into_iter().filter(|it| it.0 == reason);
    of_reason.map(|(_, message, count)| (message, count)).collect()
}

/// Waits until both are told of it, and checks that they are told the same.
async fn both_are_told(stage: &Stage, reason: &str) {
    stage
        .until("both are told", |it| {
            ["CloneSet", "FleetBinding"].iter().all(|kind| !told(it, kind, reason).is_empty())
        })
        .await;
    stage.pass(120).await;
    let (object, binding) = (told(stage, "CloneSet", reason), told(stage, "FleetBinding", reason));
    assert_eq!(object, binding);
    assert!(matches!(&object[..], [(_, 1)]), "{reason} is told once: {object:?}");
}

#[test]
fn section_20_what_goes_well_is_told_on_the_object_alone() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 9, |_| {});
        stage.rests(9, 0).await;
        stage.pass(120).await;
        let reasons: Vec<String> = events(&stage, "CloneSet").into_iter().map(|it| it.0).collect();
        assert_eq!(reasons, ["Scheduled"], "one event for each object that is applied, and no more");
        assert_eq!(events(&stage, "FleetBinding"), []);
    });
}

#[test]
fn section_20_replicas_without_a_place_are_told_on_the_object_and_on_its_binding() {
    play(async |stage| {
        stage.place(&policy(|it| it["replicas"] = json!({"perCluster": [{"max": 2}]})));
        // The binding is made in the same round.
        stage.apply("v1", 9, |_| {});
        both_are_told(&stage, "Unplaced").await;
    });
}

#[test]
fn section_20_a_drain_that_is_held_is_told_on_the_object_and_on_its_binding() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 9, |spec| {
            spec["volumeClaimTemplates"] = json!([{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }]);
        });
        stage.until("all run", |it| it.replicas() == [3, 3, 3] && all_pods(&it.world).len() == 9).await;
        stage.change_member("member-2", &json!({"drain": true}));
        both_are_told(&stage, "DrainHeld").await;
    });
}
