//! The garbage collector: what becomes of dependents.

use http::Method;
use serde_json::{Value, json};

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
