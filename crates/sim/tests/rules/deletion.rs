//! Finalizers, grace, propagation, owners and namespaces.

use http::Method;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use serde_json::{Value, json};

use crate::kit::*;

fn owned(name: &str, owner: &Value, block: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "blockOwnerDeletion": block,
        }]},
    })
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn make(world: &sim::World, name: &str) -> Value {
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    write(world, Method::POST, MAPS, body)
}

fn exists(world: &sim::World, name: &str) -> bool {
    world.cluster("member-1").server().get("configmaps", "default", name).is_some()
}

#[test]
fn a_finalizer_holds_an_object_until_it_is_taken_off() {
    bare(async |world| {
        let maps = maps(&client(&world));
        let mut new = map("a", "k", "1");
        new.metadata.finalizers = Some(vec!["example.com/hold".to_owned()]);
        maps.create(&PostParams::default(), &new).await.unwrap();
        let answer = maps.delete("a", &DeleteParams::default()).await.unwrap();
        let held = answer.left().unwrap();
        assert!(held.metadata.deletion_timestamp.is_some());

        let more = Patch::Merge(json!({"metadata": {"finalizers": ["example.com/hold", "example.com/new"]}}));
        let error = maps.patch("a", &PatchParams::default(), &more).await.unwrap_err();
        assert_eq!(status(&error)["code"], 422, "no finalizer can be added any more");

        let none = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        maps.patch("a", &PatchParams::default(), &none).await.unwrap();
        assert!(maps.get_opt("a").await.unwrap().is_none());
    });
}

#[test]
fn a_finished_delete_answers_with_a_status_that_has_the_uid() {
    bare(async |world| {
        let maps = maps(&client(&world));
        let made = maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        let status = maps.delete("a", &DeleteParams::default()).await.unwrap().right().unwrap();
        let details = status.details.unwrap();
        assert_eq!((details.name.as_str(), details.kind.as_str()), ("a", "configmaps"));
        assert_eq!(Some(details.uid), made.metadata.uid);
    });
}

#[test]
fn preconditions_protect_a_successor_of_the_same_name() {
    bare(async |world| {
        let maps = maps(&client(&world));
        maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some("other".to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        let error = maps.delete("a", &params).await.unwrap_err();
        assert_eq!(status(&error)["reason"], "Conflict");
        assert!(maps.get_opt("a").await.unwrap().is_some());
    });
}

#[test]
fn a_collection_is_deleted_by_selector() {
    bare(async |world| {
        let pods = pods(&client(&world));
        for name in ["a", "b"] {
            pods.create(&PostParams::default(), &pod(name, "nginx:1")).await.unwrap();
        }
        let mut other = pod("c", "nginx:1");
        other.metadata.labels = None;
        pods.create(&PostParams::default(), &other).await.unwrap();
        pods.delete_collection(&DeleteParams::default(), &ListParams::default().labels("app=web"))
            .await
            .unwrap();
        let left = pods.list(&ListParams::default()).await.unwrap();
        assert_eq!(left.items.len(), 1, "pods without a node go at once");
    });
}

#[test]
fn dependents_go_with_their_owner_in_the_background() {
    bare(async |world| {
        let owner = make(&world, "owner");
        write(&world, Method::POST, MAPS, owned("child", &owner, false));
        write(&world, Method::DELETE, &format!("{MAPS}/owner"), Value::Null);
        assert!(exists(&world, "child"), "the collector needs a moment");
        world.eventually("the child is gone", secs(5), |world| !exists(world, "child")).await;
    });
}

#[test]
fn in_the_foreground_the_owner_goes_last() {
    bare(async |world| {
        let owner = make(&world, "owner");
        let mut child = owned("child", &owner, true);
        child["metadata"]["finalizers"] = json!(["example.com/hold"]);
        write(&world, Method::POST, MAPS, child);
        let maps = maps(&client(&world));
        let params =
            DeleteParams { propagation_policy: Some(PropagationPolicy::Foreground), ..Default::default() };
        let held = maps.delete("owner", &params).await.unwrap().left().unwrap();
        assert_eq!(held.metadata.finalizers.unwrap(), ["foregroundDeletion"]);
        world.pass(secs(10)).await;
        assert!(exists(&world, "owner"), "its child is held");
        let none = json!({"metadata": {"finalizers": null}});
        write(&world, Method::PATCH, &format!("{MAPS}/child"), none);
        world
            .eventually("both are gone", secs(5), |world| !exists(world, "owner") && !exists(world, "child"))
            .await;
    });
}

#[test]
fn orphans_stay_and_forget_their_owner() {
    bare(async |world| {
        let owner = make(&world, "owner");
        write(&world, Method::POST, MAPS, owned("child", &owner, true));
        let body = json!({"propagationPolicy": "Orphan"});
        write(&world, Method::DELETE, &format!("{MAPS}/owner"), body);
        world.eventually("the owner is gone", secs(5), |world| !exists(world, "owner")).await;
        world.pass(secs(5)).await;
        let child = read(&world, &format!("{MAPS}/child"));
        assert!(child["metadata"]["ownerReferences"].is_null());
    });
}

#[test]
fn a_child_of_two_outlives_the_first_and_one_of_nobody_is_collected() {
    bare(async |world| {
        let (one, two) = (make(&world, "one"), make(&world, "two"));
        let mut child = owned("child", &one, false);
        let second = owned("x", &two, false)["metadata"]["ownerReferences"][0].clone();
        child["metadata"]["ownerReferences"].as_array_mut().unwrap().push(second);
        write(&world, Method::POST, MAPS, child);
        let mut stray = owned("stray", &one, false);
        stray["metadata"]["ownerReferences"][0]["uid"] = json!("00000000-0000-4000-8000-000000000000");
        write(&world, Method::POST, MAPS, stray);
        write(&world, Method::DELETE, &format!("{MAPS}/one"), Value::Null);
        world.pass(secs(5)).await;
        let child = read(&world, &format!("{MAPS}/child"));
        assert_eq!(child["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
        assert!(!exists(&world, "stray"));
    });
}

#[test]
fn a_namespace_takes_its_content_along_and_accepts_nothing_new() {
    bare(async |world| {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
        write(&world, Method::POST, "/api/v1/namespaces", body);
        let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        write(&world, Method::POST, "/api/v1/namespaces/team/configmaps", body.clone());
        let answer = write(&world, Method::DELETE, "/api/v1/namespaces/team", Value::Null);
        assert_eq!(answer["status"]["phase"], "Terminating");
        let failure = world.write(
            "member-1",
            Method::POST,
            "/api/v1/namespaces/team/secrets",
            &json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "late"},
            }),
        );
        let failure = failure.unwrap_err();
        assert_eq!((failure.code, failure.reason), (403, "Forbidden"));
        assert_eq!(failure.details["causes"][0]["reason"], "NamespaceTerminating");
        world
            .eventually("the namespace is gone", secs(10), |world| {
                world.cluster("member-1").server().get("namespaces", "", "team").is_none()
            })
            .await;
        assert_eq!(world.cluster("member-1").server().list("configmaps").len(), 0);
    });
}
