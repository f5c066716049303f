//! The garbage collector: what becomes of dependents.

use http::Method;
use serde_json::{Value, json};
use sim::{World, fleet};

use crate::{
    kit::*,
    owners::{MAPS, blocking, delete, left, make, owned, owner, set_owners, without_controllers},
};

const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

#[test]
fn without_a_controller_manager_nobody_collects() {
    without_controllers(async |world| {
        let one = make(&world, "one", json!({}));
        owned(&world, "child", json!([blocking(&one)]));
        delete(&world, "one", json!({"propagationPolicy": "Foreground"}));
        world.pass(secs(60)).await;
        assert_eq!(left(&world), ["child", "one"]);
    });
}

#[test]
fn a_reference_counts_as_a_whole_and_one_of_an_unknown_kind_for_nothing() {
    bare(async |world| {
        let one = make(&world, "one", json!({}));
        let uid = &one["metadata"]["uid"];
        owned(&world, "other-name", json!([owner("ConfigMap", "z", uid)]));
        owned(&world, "other-kind", json!([owner("Secret", "one", uid)]));
        owned(&world, "unknown-kind", json!([owner("Gadget", "one", &json!(NOBODY))]));
        world.pass(secs(60)).await;
        assert_eq!(left(&world), ["one", "unknown-kind"]);
    });
}

#[test]
fn a_dependent_goes_as_its_own_finalizer_says() {
    bare(async |world| {
        let one = make(&world, "one", json!({}));
        let metadata = json!({"ownerReferences": [blocking(&one)], "finalizers": ["orphan"]});
        let child = make(&world, "child", metadata);
        owned(&world, "grandchild", json!([blocking(&child)]));
        delete(&world, "one", Value::Null);
        world.pass(secs(60)).await;
        assert_eq!(left(&world), ["grandchild"]);
    });
}

#[test]
fn a_dependent_with_another_owner_does_not_hold_up_the_first() {
    bare(async |world| {
        let (one, two) = (make(&world, "one", json!({})), make(&world, "two", json!({})));
        owned(&world, "child", json!([blocking(&one), blocking(&two)]));
        delete(&world, "one", json!({"propagationPolicy": "Foreground"}));
        world.pass(secs(60)).await;
        assert_eq!(left(&world), ["child", "two"]);
        let child = read(&world, &format!("{MAPS}/child"));
        assert_eq!(child["metadata"]["ownerReferences"], json!([blocking(&two)]));
    });
}

#[test]
fn a_circle_of_owners_goes_in_the_foreground() {
    bare(async |world| {
        let one = make(&world, "one", json!({}));
        let two = owned(&world, "two", json!([blocking(&one)]));
        let three = owned(&world, "three", json!([blocking(&two)]));
        set_owners(&world, "one", json!([blocking(&three)]));
        delete(&world, "one", json!({"propagationPolicy": "Foreground"}));
        world.pass(secs(60)).await;
        assert!(left(&world).is_empty());
    });
}

/// A delete in the foreground that never ends: the dependent has a finalizer of its own.
fn wait_for_ever(world: &World, name: &str, metadata: Value) -> Value {
    let waiting = make(world, name, metadata);
    let stuck = json!({"ownerReferences": [blocking(&waiting)], "finalizers": ["example.com/stuck"]});
    make(world, &format!("{name}-stuck"), stuck);
    delete(world, name, json!({"propagationPolicy": "Foreground"}));
    waiting
}

#[test]
fn a_dependent_that_could_not_be_judged_is_judged_when_its_reference_to_an_unknown_kind_is_gone() {
    bare(async |world| {
        let one = make(&world, "one", json!({}));
        let unknown = owner("Gadget", "one", &one["metadata"]["uid"]);
        owned(&world, "child", json!([unknown, owner("ConfigMap", "two", &json!(NOBODY))]));
        world.pass(secs(60)).await;
        assert_eq!(left(&world), ["child", "one"]);
        delete(&world, "one", json!({"propagationPolicy": "Orphan"}));
        world.pass(secs(1100)).await;
        assert!(left(&world).is_empty(), "nobody touched the child but to orphan it");
    });
}

#[test]
fn a_dependent_is_judged_when_the_kind_of_its_owner_becomes_known_and_the_owner_is_not_there() {
    bare(async |world| {
        let mut owner = owner("Gadget", "one", &json!(NOBODY));
        owner["apiVersion"] = json!("example.com/v1");
        owned(&world, "child", json!([owner]));
        world.pass(secs(3600)).await;
        assert_eq!(left(&world), ["child"]);
        let names =
            json!({"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"});
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        let definition = json!({
            "metadata": {"name": "gadgets.example.com"},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": names,
                     "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]},
        });
        write(&world, Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition);
        world.pass(secs(1100)).await;
        assert!(left(&world).is_empty());
    });
}

#[test]
fn a_member_of_a_circle_may_stay_when_the_owner_that_waited_for_it_is_held_by_something_else() {
    let mut ends = Vec::new();
    for seed in 0..20 {
        fleet().nodes(0).seed(seed).run(async |world| {
            let one = make(&world, "one", json!({"finalizers": ["example.com/one"]}));
            let two = owned(&world, "two", json!([blocking(&one)]));
            set_owners(&world, "one", json!([blocking(&two)]));
            delete(&world, "one", json!({"propagationPolicy": "Foreground"}));
            world.pass(secs(60)).await;
            let one = read(&world, &format!("{MAPS}/one"));
            assert_eq!(one["metadata"]["finalizers"], json!(["example.com/one"]), "it waits for nobody");
            let two = read(&world, &format!("{MAPS}/two"));
            assert_eq!(two["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], false);
            ends.push(two["metadata"]["deletionTimestamp"].is_null());
        });
    }
    // It holds up nobody any more, and is judged again: before its owner has stopped waiting, or when that is one like any other.
    assert!(ends.contains(&true) && ends.contains(&false));
}

#[test]
fn a_dependent_that_holds_up_nobody_may_stay_when_its_owner_is_held_by_something_else() {
    let mut ends = Vec::new();
    for seed in 0..20 {
        fleet().nodes(0).seed(seed).run(async |world| {
            let one = make(&world, "one", json!({"finalizers": ["example.com/one"]}));
            owned(&world, "two", json!([owner("ConfigMap", "one", &one["metadata"]["uid"])]));
            delete(&world, "one", json!({"propagationPolicy": "Foreground"}));
            world.pass(secs(60)).await;
            ends.push(left(&world).len());
        });
    }
    // The owner waits for nobody: whether it still does when its dependent is judged is a matter of who is first.
    assert!(ends.contains(&1) && ends.contains(&2));
}

#[test]
fn an_owner_is_not_judged_because_one_of_its_dependents_is_gone() {
    bare(async |world| {
        let waiting = wait_for_ever(&world, "waiting", json!({}));
        let middle = make(&world, "middle", json!({}));
        world.pass(secs(60)).await;
        // Nobody looks at a reference that is right, though its owner is on its way out.
        set_owners(&world, "middle", json!([blocking(&waiting)]));
        owned(&world, "child", json!([blocking(&middle)]));
        delete(&world, "child", Value::Null);
        world.pass(secs(60)).await;
        assert_eq!(left(&world), ["middle", "waiting", "waiting-stuck"]);
    });
}

#[test]
fn an_object_that_has_waited_for_dependents_once_counts_as_a_sign_of_a_circle() {
    bare(async |world| {
        let finalizers = json!({"finalizers": ["example.com/one"]});
        let root = make(&world, "root", json!({}));
        let held = json!({"ownerReferences": [blocking(&root)], "finalizers": ["example.com/one"]});
        let middle = make(&world, "middle", held);
        wait_for_ever(&world, "leaf", finalizers.clone());
        world.pass(secs(60)).await;
        write(&world, Method::PATCH, &format!("{MAPS}/leaf"), json!({"metadata": finalizers}));
        set_owners(&world, "leaf", json!([blocking(&middle)]));
        delete(&world, "root", json!({"propagationPolicy": "Foreground"}));
        world.pass(secs(60)).await;
        let middle = read(&world, &format!("{MAPS}/middle"));
        assert_eq!(middle["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], false);
        assert_eq!(left(&world), ["leaf", "leaf-stuck", "middle"]);
    });
}

#[test]
fn an_object_without_a_namespace_is_not_judged_by_owners_that_are_in_one() {
    bare(async |world| {
        let owners = json!([owner("ConfigMap", "one", &json!(NOBODY))]);
        let metadata = json!({"name": "cluster-wide", "ownerReferences": owners});
        write(&world, Method::POST, "/api/v1/namespaces", json!({"metadata": metadata}));
        world.pass(secs(1100)).await;
        let namespace = read(&world, "/api/v1/namespaces/cluster-wide");
        assert!(namespace["metadata"]["deletionTimestamp"].is_null());
    });
}
