//! Clusters that leave the fleet (DEL-6).

use http::Method;
use hub::members::access;
use serde_json::{Value, json};
use sim::faults::Direction;

use crate::kit::{FLEET, HUB, Stage, WEB, agent_of, all_pods, play, policy, rolling};

const LEAVER: &str = "member-3";

fn path() -> String {
    format!("{FLEET}/memberclusters/{LEAVER}")
}

fn member(stage: &Stage) -> Option<Value> {
    stage.read(HUB, &path())
}

/// Says how it is to leave.
fn say(stage: &Stage, words: &str) {
    let note = json!({"metadata": {"annotations": {"fleet.kruise.io/leave": words}}});
    stage.world.write(HUB, Method::PATCH, &path(), &note).unwrap();
}

fn remove(stage: &Stage) {
    stage.world.write(HUB, Method::DELETE, &path(), &Value::Null).unwrap();
}

/// Why it is still there.
fn reason(stage: &Stage) -> String {
    let status = member(stage).unwrap_or_default()["status"].clone();
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let leaving = conditions.iter().find(|it| it["type"] == "Leaving").cloned().unwrap_or_default();
    leaving["reason"].as_str().unwrap_or_default().to_owned()
}

/// How many bindings give its agent rights.
fn rights(stage: &Stage) -> usize {
    let bindings = access::withdrawn(LEAVER).into_iter().filter(|(kind, namespace, name)| {
        let place = namespace.as_ref().map_or_else(String::new, |it| format!("/namespaces/{it}"));
        let path = format!("/apis/rbac.authorization.k8s.io/v1{place}/{}s/{name}", kind.to_lowercase());
        stage.read(HUB, &path).is_some()
    });
    bindings.count()
}

fn row(stage: &Stage) -> Value {
    stage.binding()["spec"]["ledger"]["clusters"][LEAVER].clone()
}

async fn placed(stage: &Stage, replicas: u32) {
    stage.place(&policy(|_| {}));
    stage.apply("v1", replicas, |spec| rolling(spec, json!({"maxUnavailable": 1})));
    stage.rests(replicas as usize, 0).await;
}

/// Removes a member that is heard, and waits until it is gone.
async fn leaves(stage: &Stage) {
    remove(stage);
    stage
        .until("it has left, its rights last", |it| {
            let is_gone = member(it).is_none();
            assert!(is_gone || rights(it) == 3, "rights go after the member");
            is_gone && rights(it) == 0
        })
        .await;
    stage.rests(6, 0).await;
    assert_eq!(stage.replicas(), [3, 3, 0]);
    assert!(stage.assignment(LEAVER).is_none() && row(stage).is_null());
    assert_eq!(stage.read(LEAVER, WEB), None);
}

#[test]
fn del_6_a_member_that_is_removed_is_drained_first_and_its_rights_go_last() {
    play(async |stage| {
        placed(&stage, 6).await;
        let finalizers = member(&stage).unwrap()["metadata"]["finalizers"].clone();
        assert_eq!(finalizers, json!(["fleet.kruise.io/shares"]), "it is there before anybody removes it");
        // N - max(U, B), and N + M.
        stage.limits.set(5, 7, 0);
        leaves(&stage).await;
        // And what is left can end.
        stage.limits.lift();
        stage.world.write(HUB, Method::DELETE, WEB, &Value::Null).unwrap();
        stage.until("nobody is waited for", |it| it.web().is_null()).await;
    });
}

/// Removes a member with the hub killed right after its `k`-th write since then. Says whether it was killed.
fn killed_after(k: u64) -> bool {
    let mut was_killed = false;
    let seen = &mut was_killed;
    play(async |stage| {
        placed(&stage, 6).await;
        let starts = stage.hub.starts();
        stage.limits.set(5, 7, 0);
        stage.hub.crash_after_writes(k);
        leaves(&stage).await;
        *seen = stage.hub.starts() > starts;
    });
    was_killed
}

/// Kills after every second write in turn, until a removal ends before it is the turn. Says how many were cut short.
fn kill_from(first: u64) -> usize {
    (first..400).step_by(2).take_while(|it| killed_after(*it)).count()
}

// Two tests, so that they run side by side; together they kill after every single write.

#[test]
fn del_6_a_hub_killed_after_write_1_3_5_and_so_on_of_a_removal_ends_in_the_same_state() {
    assert!((5..199).contains(&kill_from(1)));
}

#[test]
fn del_6_a_hub_killed_after_write_2_4_6_and_so_on_of_a_removal_ends_in_the_same_state() {
    assert!((5..199).contains(&kill_from(2)));
}

#[test]
fn del_6_an_orphaned_member_keeps_its_pods_and_others_take_over() {
    play(async |stage| {
        placed(&stage, 6).await;
        // No pod goes at any time.
        stage.limits.set(6, 8, 0);
        let pods = |stage: &Stage| -> Vec<String> {
            let pods = all_pods(&stage.world).into_iter().filter(|it| it.cluster == LEAVER);
            pods.map(|it| it.name).collect()
        };
        let before = pods(&stage);
        say(&stage, "Orphan");
        remove(&stage);
        stage.until("it has left", |it| member(it).is_none() && rights(it) == 0).await;
        stage.until("others take over", |it| it.replicas() == [3, 3, 2]).await;
        stage.pass(60).await;
        assert_eq!((pods(&stage), all_pods(&stage.world).len()), (before, 8));
        let web = stage.read(LEAVER, WEB).unwrap();
        assert!(!web["metadata"]["annotations"].to_string().contains("fleet.kruise.io/"), "{web}");
        assert!(stage.assignment(LEAVER).is_none() && row(&stage).is_null());
    });
}

#[test]
fn del_6_a_silent_member_stays_until_it_is_forced_out_and_then_its_replicas_are_replaced() {
    play(async |stage| {
        placed(&stage, 6).await;
        stage.world.link(&agent_of(LEAVER), HUB).cut(Direction::BOTH);
        stage.until("it is noticed", |it| it.state(LEAVER) == "Offline").await;
        remove(&stage);
        stage.until("that is said", |it| reason(it) == "Unreachable").await;
        stage.limits.set(6, 6, 0);
        stage.pass(120).await;
        assert_eq!(stage.replicas(), [2, 2, 2], "STATE-4: nothing moves by itself");
        // A hub that begins anew knows no better.
        stage.hub.crash();
        stage.pass(120).await;
        assert!(member(&stage).is_some() && rights(&stage) == 3);
        stage.limits.lift();
        say(&stage, "Force");
        stage.until("it is gone", |it| member(it).is_none() && rights(it) == 0).await;
        stage.until("its replicas are replaced", |it| it.replicas() == [3, 3, 2]).await;
        assert!(row(&stage).is_null());
        assert_eq!(stage.assignment(LEAVER).unwrap()["spec"]["intent"], "Delete", "a tombstone");
        // An object does not wait for who is gone.
        stage.world.write(HUB, Method::DELETE, WEB, &Value::Null).unwrap();
        stage.until("the object is gone", |it| it.web().is_null() && it.binding().is_null()).await;
        // Let in again under its name, it obeys, and the tombstone goes.
        let again = json!({
            "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "MemberCluster", "metadata": {"name": LEAVER},
            "spec": {"clusterUid": format!("uid-of-{LEAVER}"), "publicKey": "", "accepted": true},
        });
        stage.world.write(HUB, Method::POST, &format!("{FLEET}/memberclusters"), &again).unwrap();
        stage.world.link(&agent_of(LEAVER), HUB).heal();
        stage.until("it obeys", |it| it.read(LEAVER, WEB).is_none() && it.assignment(LEAVER).is_none()).await;
    });
}

#[test]
fn del_6_a_removal_that_nobody_can_drain_says_so_and_force_ends_it() {
    play(async |stage| {
        stage.place(&policy(|it| it["clusters"] = json!({"names": [LEAVER]})));
        stage.apply("v1", 3, |spec| rolling(spec, json!({"maxUnavailable": 1})));
        stage.rests(3, 0).await;
        stage.limits.set(3, 3, 0);
        remove(&stage);
        stage.until("that is said", |it| reason(it) == "DrainHeld").await;
        stage.pass(120).await;
        assert!(member(&stage).is_some(), "N - U would be broken");
        stage.limits.lift();
        say(&stage, "Force");
        stage.until("it has left", |it| member(it).is_none()).await;
        assert_eq!(stage.read(LEAVER, WEB), None);
    });
}

#[test]
fn del_6_a_member_with_an_object_that_no_policy_places_stays_until_somebody_says_what_becomes_of_it() {
    play(async |stage| {
        placed(&stage, 6).await;
        let all = format!("{FLEET}/namespaces/shop/placementpolicies/all");
        stage.world.write(HUB, Method::DELETE, &all, &Value::Null).unwrap();
        stage.limits.set(6, 6, 0);
        remove(&stage);
        stage.until("that is said", |it| reason(it) == "NotPlanned").await;
        say(&stage, "Orphan");
        stage.until("it has left", |it| member(it).is_none()).await;
        stage.pass(60).await;
        assert!(row(&stage).is_null() && stage.assignment(LEAVER).is_none());
        assert_eq!(stage.replicas(), [2, 2, 2], "members run on as they are");
    });
}

/// PROTO-3: without a policy nobody plans, and the numbers of who leaves must not be forgotten all the same.
#[test]
fn proto_3_a_member_that_is_let_in_again_takes_an_object_that_it_was_told_to_let_go_of() {
    play(async |stage| {
        placed(&stage, 6).await;
        let all = format!("{FLEET}/namespaces/shop/placementpolicies/all");
        stage.world.write(HUB, Method::DELETE, &all, &Value::Null).unwrap();
        stage.until("nobody plans it", |it| it.binding()["status"]["summary"] == "Suspended").await;
        let known = row(&stage)["share"]["seq"].as_u64().unwrap();
        remove(&stage);
        say(&stage, "Force");
        stage.until("it has left", |it| member(it).is_none()).await;
        assert!(stage.binding()["spec"]["ledger"]["lastSeq"].as_u64() > Some(known), "{}", stage.binding());
        let again = json!({
            "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "MemberCluster", "metadata": {"name": LEAVER},
            "spec": {"clusterUid": format!("uid-of-{LEAVER}"), "publicKey": "", "accepted": true},
        });
        stage.world.write(HUB, Method::POST, &format!("{FLEET}/memberclusters"), &again).unwrap();
        stage.place(&policy(|_| {}));
        stage.until("it is back", |it| it.state(LEAVER) == "Ready").await;
        stage.apply("v1", 9, |spec| rolling(spec, json!({"maxUnavailable": 1})));
        stage.rests(9, 0).await;
        assert!(stage.replicas()[2] > 0, "{:?}", stage.replicas());
    });
}
