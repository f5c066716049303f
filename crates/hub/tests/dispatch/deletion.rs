//! Objects that go, and policies that go.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use http::Method;
use serde_json::{Value, json};

use crate::kit::{FLEET, HUB, MEMBERS, Stage, WEB, agent_of, all_pods, play, policy};

async fn placed(stage: &Stage, deletion: &str) {
    stage.place(&policy(|it| it["deletion"] = json!(deletion)));
    stage.apply("v1", 6, |_| {});
    stage.rests(6, 0).await;
}

fn delete(stage: &Stage) {
    stage.world.write(HUB, Method::DELETE, WEB, &Value::Null).unwrap();
}

/// Whether nothing about `web` is left on the hub.
fn is_forgotten(stage: &Stage) -> bool {
    let hub = stage.world.cluster(HUB).server().clone();
    stage.web().is_null()
        && hub.count("assignments.fleet.kruise.io") == 0
        && hub.count("fleetbindings.fleet.kruise.io") == 0
}

#[test]
fn del_1_a_deleted_object_is_deleted_in_every_member_before_it_goes() {
    play(async |stage| {
        placed(&stage, "Delete").await;
        delete(&stage);
        stage.until("the hub has forgotten it", is_forgotten).await;
        assert!(MEMBERS.iter().all(|it| stage.read(it, WEB).is_none()));
        stage.until("its pods are gone", |it| all_pods(&it.world).is_empty()).await;
        // The name can be used again.
        stage.apply("v1", 4, |_| {});
        stage.rests(4, 0).await;
    });
}

#[test]
fn del_3_with_deletion_orphan_members_let_go_and_their_pods_run_on() {
    play(async |stage| {
        placed(&stage, "Orphan").await;
        stage.limits.set(6, 6, 0);
        let before: Vec<String> = all_pods(&stage.world).into_iter().map(|it| it.name).collect();
        delete(&stage);
        stage.until("the hub has forgotten it", is_forgotten).await;
        stage.pass(120).await;
        for member in MEMBERS {
            let web = stage.read(member, WEB).unwrap();
            let annotations = web["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
            assert!(!annotations.keys().any(|it| it.starts_with("fleet.kruise.io/")), "{annotations:?}");
            let managers = web["metadata"]["managedFields"].to_string();
            assert!(!managers.contains("fleet-agent"), "{managers}");
        }
        let after: Vec<String> = all_pods(&stage.world).into_iter().map(|it| it.name).collect();
        assert_eq!(after, before);
        // They are their owners' again, who can go on with them.
        stage.limits.lift();
        for member in MEMBERS {
            let mut web = stage.read(member, WEB).unwrap();
            web["spec"]["template"]["spec"]["containers"][0]["image"] = json!("v2");
            stage.world.write(member, Method::PUT, WEB, &web).unwrap();
        }
        stage
            .until("edits in members are rolled out", |it| {
                all_pods(&it.world).iter().all(|it| it.image == "v2")
            })
            .await;
    });
}

#[test]
fn del_2_a_silent_member_keeps_the_object_waiting_and_obeys_when_it_is_back() {
    play(async |stage| {
        placed(&stage, "Delete").await;
        stage.world.link(&agent_of("member-3"), HUB).cut(sim::faults::Direction::BOTH);
        stage.until("it is noticed", |it| it.state("member-3") == "Offline").await;
        delete(&stage);
        stage
            .until("the others obey", |it| {
                it.read("member-1", WEB).is_none() && it.read("member-2", WEB).is_none()
            })
            .await;
        stage.pass(120).await;
        assert!(!stage.web().is_null() && stage.read("member-3", WEB).is_some());
        assert_eq!(stage.assignment("member-3").unwrap()["spec"]["intent"], "Delete");
        stage.world.link(&agent_of("member-3"), HUB).heal();
        stage.until("the hub has forgotten it", is_forgotten).await;
        assert_eq!(stage.read("member-3", WEB), None);
    });
}

#[test]
fn del_5_without_a_policy_everything_stays_and_goes_on_when_one_is_back() {
    play(async |stage| {
        placed(&stage, "Delete").await;
        stage.limits.set(6, 6, 0);
        let path = "/apis/fleet.kruise.io/v1alpha1/namespaces/shop/placementpolicies/all";
        stage.world.write(HUB, Method::DELETE, path, &Value::Null).unwrap();
        stage.until("that is said", |it| it.binding()["status"]["summary"] == "Suspended").await;
        stage.apply("v1", 9, |_| {});
        stage.pass(120).await;
        assert_eq!(stage.replicas().iter().sum::<u64>(), 6);
        stage.limits.lift();
        stage.place(&policy(|_| {}));
        stage.rests(9, 0).await;
    });
}

#[test]
fn proto_7_assignments_that_somebody_deletes_are_written_again_and_nothing_restarts() {
    play(async |stage| {
        placed(&stage, "Delete").await;
        stage.limits.set(6, 6, 0);
        let path = "/apis/fleet.kruise.io/v1alpha1/namespaces/fleet-member-1/assignments/cloneset.shop.web";
        stage.world.write(HUB, Method::DELETE, path, &Value::Null).unwrap();
        stage.until("it is there again", |it| it.assignment("member-1").is_some()).await;
        stage.rests(6, 0).await;
    });
}

#[test]
fn proto_7_a_kind_that_is_deleted_on_the_hub_removes_nothing_from_members() {
    play(async |stage| {
        placed(&stage, "Delete").await;
        stage.limits.set(6, 6, 0);
        // As an API server does it: the definition goes first, and then takes all objects along.
        let kind = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clonesets.apps.kruise.io";
        let cleanup = json!({"metadata": {"finalizers": ["apiextensions.k8s.io/customresourcecleanup"]}});
        stage.world.write(HUB, Method::PATCH, kind, &cleanup).unwrap();
        stage.world.write(HUB, Method::DELETE, kind, &Value::Null).unwrap();
        delete(&stage);
        stage.until("that is said", |it| it.binding()["status"]["summary"] == "Suspended").await;
        stage.pass(120).await;
        assert!(MEMBERS.iter().all(|it| stage.read(it, WEB).is_some()));
        assert!(MEMBERS.iter().all(|it| stage.assignment(it).unwrap()["spec"]["intent"] == "Apply"));
        assert!(!stage.web().is_null(), "it waits for somebody to look");
    });
}

#[test]
fn del_4_a_namespace_that_goes_without_confirmation_removes_nothing_until_it_is_confirmed() {
    play(async |stage| {
        placed(&stage, "Delete").await;
        stage.limits.set(6, 6, 0);
        let namespace = "/api/v1/namespaces/shop";
        stage.world.write(HUB, Method::DELETE, namespace, &Value::Null).unwrap();
        stage.pass(120).await;
        assert!(!stage.web()["metadata"]["deletionTimestamp"].is_null());
        assert!(MEMBERS.iter().all(|it| stage.read(it, WEB).is_some()));
        stage.limits.lift();
        let confirm = json!({"metadata": {"annotations": {"fleet.kruise.io/confirm-delete": "shop"}}});
        stage.world.write(HUB, Method::PATCH, namespace, &confirm).unwrap();
        stage
            .until("members are emptied", |it| MEMBERS.iter().all(|name| it.read(name, WEB).is_none()))
            .await;
        stage.until("the namespace is gone", |it| it.read(HUB, namespace).is_none()).await;
    });
}

/// Puts an annotation on `web`.
fn annotate(stage: &Stage, key: &str, value: &str) {
    let patch = json!({"metadata": {"annotations": {key: value}}});
    stage.world.write(HUB, Method::PATCH, WEB, &patch).unwrap();
}

#[test]
fn del_2_force_detach_finishes_a_deletion_and_the_silent_member_obeys_when_it_is_back() {
    play(async |stage| {
        placed(&stage, "Delete").await;
        stage.world.link(&agent_of("member-3"), HUB).cut(sim::faults::Direction::BOTH);
        stage.until("it is noticed", |it| it.state("member-3") == "Offline").await;
        delete(&stage);
        stage
            .until("the list is on the binding", |it| {
                let status = it.binding()["status"].clone();
                let conditions = status["conditions"].to_string();
                status["summary"] == "Deleting"
                    && conditions.contains("deletion waits for member-3;")
                    && conditions.contains("--force-detach")
                    && status["clusters"].as_array().is_some_and(|it| it.len() == 1)
            })
            .await;
        annotate(&stage, "fleet.kruise.io/force-detach", "true");
        stage.until("the object is gone", |it| it.web().is_null() && it.binding().is_null()).await;
        assert_eq!(stage.assignment("member-3").unwrap()["spec"]["intent"], "Delete");
        assert!(stage.read("member-3", WEB).is_some());
        // Another object of the name keeps off the place until the tombstone is gone.
        stage.apply("v1", 4, |_| {});
        stage.until("it runs elsewhere", |it| it.replicas()[..2] == [2, 2]).await;
        stage.pass(60).await;
        assert_eq!(stage.assignment("member-3").unwrap()["spec"]["intent"], "Delete");
        stage.world.link(&agent_of("member-3"), HUB).heal();
        stage
            .until("it obeys, and the tombstone goes", |it| {
                it.read("member-3", WEB).is_none() && it.assignment("member-3").is_none()
            })
            .await;
        stage.rests(4, 0).await;
        stage.until("it is heard", |it| it.state("member-3") == "Ready").await;
        stage.apply("v1", 9, |_| {});
        stage.rests(9, 0).await;
        assert!(stage.replicas()[2] > 0, "and the place is free again: {:?}", stage.replicas());
    });
}

#[test]
fn del_5_what_is_withdrawn_goes_from_members_and_stays_on_the_hub() {
    play(async |stage| {
        placed(&stage, "Delete").await;
        let path = "/apis/fleet.kruise.io/v1alpha1/namespaces/shop/placementpolicies/all";
        stage.world.write(HUB, Method::DELETE, path, &Value::Null).unwrap();
        stage.until("that is said", |it| it.binding()["status"]["summary"] == "Suspended").await;
        // A word about another binding is no word about this one.
        annotate(&stage, "fleet.kruise.io/withdraw", "b-0");
        stage.pass(60).await;
        assert_eq!(all_pods(&stage.world).len(), 6);
        annotate(&stage, "fleet.kruise.io/withdraw", stage.binding()["metadata"]["uid"].as_str().unwrap());
        stage
            .until("members are emptied", |it| MEMBERS.iter().all(|name| it.read(name, WEB).is_none()))
            .await;
        stage
            .until("the object is inert", |it| {
                let web = it.web();
                it.binding().is_null()
                    && web["status"]["replicas"] == 0
                    && !web["metadata"]["finalizers"].to_string().contains("fleet.kruise.io")
            })
            .await;
        assert_eq!(stage.world.cluster(HUB).server().count("assignments.fleet.kruise.io"), 0);
        // A policy places it again, and the old word does nothing any more, with a policy or without.
        stage.place(&policy(|_| {}));
        stage.rests(6, 0).await;
        stage.world.write(HUB, Method::DELETE, path, &Value::Null).unwrap();
        stage.pass(120).await;
        assert_eq!(all_pods(&stage.world).len(), 6);
    });
}

#[test]
fn del_5_with_deletion_orphan_a_withdrawal_leaves_pods_running() {
    play(async |stage| {
        placed(&stage, "Orphan").await;
        stage.limits.set(6, 6, 0);
        let path = "/apis/fleet.kruise.io/v1alpha1/namespaces/shop/placementpolicies/all";
        stage.world.write(HUB, Method::DELETE, path, &Value::Null).unwrap();
        stage.until("that is said", |it| it.binding()["status"]["summary"] == "Suspended").await;
        annotate(&stage, "fleet.kruise.io/withdraw", stage.binding()["metadata"]["uid"].as_str().unwrap());
        stage.until("the object is inert", |it| it.binding().is_null()).await;
        stage.pass(60).await;
        let web = stage.read("member-1", WEB).unwrap();
        assert!(!web["metadata"]["annotations"].to_string().contains("fleet.kruise.io/"), "{web}");
    });
}

/// PROTO-7 and PROTO-11: somebody deletes what a member was told, while it gives the object up.
#[test]
fn proto_11_a_member_whose_assignment_somebody_deletes_while_it_leaves_takes_a_share_again() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 7, |_| {});
        stage.rests(7, 0).await;
        stage.place(&policy(|it| it["clusters"] = json!({"exclude": ["member-2"]})));
        let told = |it: &Stage| it.assignment("member-2").is_some_and(|it| it["spec"]["intent"] == "Delete");
        stage.until("it is told to delete", told).await;
        let path = format!("{FLEET}/namespaces/fleet-member-2/assignments/cloneset.shop.web");
        stage.world.write(HUB, Method::DELETE, &path, &Value::Null).unwrap();
        stage.pass(30).await;
        stage.place(&policy(|_| {}));
        stage.until("it has a share again", |it| it.replicas()[1] >= 2).await;
        stage.rests(7, 0).await;
    });
}

/// Deletes what `member-2` was told while no hub is there to write it again.
fn forget_member_2(stage: &Stage) {
    stage.hub.crash();
    let path = format!("{FLEET}/namespaces/fleet-member-2/assignments/cloneset.shop.web");
    stage.world.write(HUB, Method::DELETE, &path, &Value::Null).unwrap();
}

#[test]
fn del_1_a_member_whose_assignment_somebody_has_deleted_is_told_to_delete() {
    play(async |stage| {
        placed(&stage, "Delete").await;
        forget_member_2(&stage);
        delete(&stage);
        stage.until("nothing is left on the hub", is_forgotten).await;
        assert_eq!(stage.read("member-2", WEB), None);
        stage.until("no pod is left", |it| all_pods(&it.world).is_empty()).await;
    });
}

#[test]
fn del_3_a_member_whose_assignment_somebody_has_deleted_is_told_to_let_go() {
    play(async |stage| {
        placed(&stage, "Orphan").await;
        stage.limits.set(6, 6, 0);
        forget_member_2(&stage);
        delete(&stage);
        stage.until("nothing is left on the hub", is_forgotten).await;
        let web = stage.read("member-2", WEB).unwrap();
        assert!(!web["metadata"]["annotations"].to_string().contains("fleet.kruise.io/"), "{web}");
    });
}

#[test]
fn del_1_an_object_that_is_deleted_right_after_any_write_of_its_first_round_leaves_nothing_behind() {
    for k in 1..8 {
        play(async |stage| {
            stage.place(&policy(|_| {}));
            stage.hub.crash_after_writes(k);
            let starts = stage.hub.starts();
            stage.apply("v1", 6, |_| {});
            stage.until("it is dead", |it| it.hub.starts() > starts || it.web()["status"].is_object()).await;
            delete(&stage);
            stage.until("nothing is left on the hub", is_forgotten).await;
            stage.until("no pod is left", |it| all_pods(&it.world).is_empty()).await;
        });
    }
}

/// Begins to delete a kind on the hub, as an API server does it: the definition stays until nothing of it is left.
fn delete_kind(stage: &Stage, name: &str) {
    let kind = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    let cleanup = json!({"metadata": {"finalizers": ["apiextensions.k8s.io/customresourcecleanup"]}});
    stage.world.write(HUB, Method::PATCH, &kind, &cleanup).unwrap();
    stage.world.write(HUB, Method::DELETE, &kind, &Value::Null).unwrap();
}

/// Every Assignment goes, as when somebody deletes their kind.
fn delete_assignments(stage: &Stage) {
    for member in MEMBERS {
        let path = format!("{FLEET}/namespaces/fleet-{member}/assignments/cloneset.shop.web");
        stage.world.write(HUB, Method::DELETE, &path, &Value::Null).unwrap();
    }
}

#[test]
fn proto_7_the_kinds_of_objects_and_assignments_that_go_together_remove_nothing_from_members() {
    for restarts in [false, true] {
        play(async |stage| {
            placed(&stage, "Delete").await;
            stage.limits.set(6, 6, 0);
            delete_kind(&stage, "assignments.fleet.kruise.io");
            delete_kind(&stage, "clonesets.apps.kruise.io");
            delete_assignments(&stage);
            delete(&stage);
            if restarts {
                stage.hub.crash();
            }
            stage.until("that is said", |it| it.binding()["status"]["summary"] == "Suspended").await;
            stage.pass(300).await;
            assert!(MEMBERS.iter().all(|it| stage.read(it, WEB).is_some()));
            assert!(!stage.web().is_null(), "it waits for somebody to look");
            assert_eq!(stage.world.cluster(HUB).server().count("assignments.fleet.kruise.io"), 0);
        });
    }
}

#[test]
fn proto_7_a_member_whose_namespace_is_gone_keeps_everything_until_it_can_be_told() {
    play(async |stage| {
        placed(&stage, "Delete").await;
        stage.limits.set(6, 6, 0);
        let namespace = "/api/v1/namespaces/fleet-member-2";
        stage.world.write(HUB, Method::DELETE, namespace, &Value::Null).unwrap();
        stage.until("it is gone", |it| it.read(HUB, namespace).is_none()).await;
        stage.pass(300).await;
        assert!(MEMBERS.iter().all(|it| stage.read(it, WEB).is_some()));
        assert_eq!(all_pods(&stage.world).len(), 6, "nothing moves either");
        stage.limits.lift();
        delete(&stage);
        stage
            .until("the others obey", |it| it.read("member-1", WEB).or(it.read("member-3", WEB)).is_none())
            .await;
        let says = |it: &Stage| it.binding()["status"]["conditions"].to_string();
        stage.until("that is said", |it| says(it).contains("kubectl create namespace fleet-member-2")).await;
        stage.pass(120).await;
        assert!(stage.read("member-2", WEB).is_some() && !stage.web().is_null());
        // What it says is enough: the rest of what the agent needs comes back by itself.
        let put_back =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet-member-2"}});
        stage.world.write(HUB, Method::POST, "/api/v1/namespaces", &put_back).unwrap();
        stage.until("the deletion ends", |it| it.web().is_null()).await;
        assert!(stage.read("member-2", WEB).is_none());
    });
}

#[test]
fn st_1_a_member_whose_namespace_is_gone_holds_up_neither_the_others_nor_the_status() {
    play(async |stage| {
        placed(&stage, "Delete").await;
        let theirs = stage.read("member-2", WEB).unwrap()["spec"]["replicas"].as_u64().unwrap();
        let namespace = "/api/v1/namespaces/fleet-member-2";
        stage.world.write(HUB, Method::DELETE, namespace, &Value::Null).unwrap();
        stage.until("it is gone", |it| it.read(HUB, namespace).is_none()).await;
        stage.until("it is noticed", |it| it.state("member-2") == "Offline").await;
        stage.limits.set(6, 9, 0);
        stage.apply("v1", 9, |_| {});
        stage.until("the others grow", |it| all_pods(&it.world).len() == 9).await;
        stage
            .until("its pods are not told as ready", |it| {
                it.binding()["status"]["unknownReplicas"] == theirs
                    && it.web()["status"]["readyReplicas"].as_u64() == Some(9 - theirs)
            })
            .await;
        assert_eq!(stage.read("member-2", WEB).unwrap()["spec"]["replicas"], theirs, "STATE-4");
    });
}

/// PROTO-3 and PROTO-11: the numbers of a withdrawn object are forgotten with its binding, and a member that has not seen its
/// Assignment go still knows them.
#[test]
fn proto_3_a_member_that_missed_the_end_of_a_withdrawal_takes_the_object_again() {
    play(async |stage| {
        placed(&stage, "Delete").await;
        // So that there are numbers to forget.
        stage.apply("v1", 9, |_| {});
        stage.rests(9, 0).await;
        let path = format!("{FLEET}/namespaces/shop/placementpolicies/all");
        stage.world.write(HUB, Method::DELETE, &path, &Value::Null).unwrap();
        stage.until("that is said", |it| it.binding()["status"]["summary"] == "Suspended").await;
        let was_cut = Arc::new(AtomicBool::new(false));
        let done = was_cut.clone();
        stage.world.invariant("who has obeyed hears no more", move |world| {
            let stored = world.cluster(HUB).server().get(
                "assignments.fleet.kruise.io",
                "fleet-member-2",
                "cloneset.shop.web",
            );
            let told = stored.map(|it| it.value()).unwrap_or_default();
            let is_over =
                told["spec"]["intent"] == "Delete" && told["status"]["appliedSeq"] == told["spec"]["seq"];
            if is_over && !done.swap(true, Ordering::Relaxed) {
                world.link(&agent_of("member-2"), HUB).cut(sim::faults::Direction::BOTH);
            }
            Ok(())
        });
        annotate(&stage, "fleet.kruise.io/withdraw", stage.binding()["metadata"]["uid"].as_str().unwrap());
        stage.until("the object is inert", |it| it.binding().is_null()).await;
        assert!(was_cut.load(Ordering::Relaxed));
        let link = stage.world.link(&agent_of("member-2"), HUB);
        stage.place(&policy(|_| {}));
        stage.until("it is given a share", |it| it.assignment("member-2").is_some()).await;
        link.heal();
        stage.rests(9, 0).await;
        assert_eq!(stage.replicas(), [3, 3, 3]);
    });
}
