//! Owner references: what the server says to them.

use http::Method;
use serde_json::{Value, json};
use sim::{
    World, fleet,
    server::{Controllers, Settings, status::Failure},
};

use crate::kit::*;

pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

pub(crate) fn owner(kind: &str, name: &str, uid: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": kind, "name": name, "uid": uid})
}

pub(crate) fn blocking(of: &Value) -> Value {
    let mut owner = owner("ConfigMap", of["metadata"]["name"].as_str().unwrap(), &of["metadata"]["uid"]);
    owner["blockOwnerDeletion"] = json!(true);
    owner
}

fn new(name: &str, metadata: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    object["metadata"]["name"] = json!(name);
    object
}

pub(crate) fn make(world: &World, name: &str, metadata: Value) -> Value {
    write(world, Method::POST, MAPS, new(name, metadata))
}

pub(crate) fn owned(world: &World, name: &str, owners: Value) -> Value {
    make(world, name, json!({"ownerReferences": owners}))
}

fn refused(world: &World, method: Method, path: &str, body: &Value) -> Failure {
    world.write("member-1", method, path, body).unwrap_err()
}

pub(crate) fn delete(world: &World, name: &str, options: Value) -> Value {
    write(world, Method::DELETE, &format!("{MAPS}/{name}"), options)
}

pub(crate) fn set_owners(world: &World, name: &str, owners: Value) {
    write(world, Method::PATCH, &format!("{MAPS}/{name}"), json!({"metadata": {"ownerReferences": owners}}));
}

pub(crate) fn left(world: &World) -> Vec<String> {
    let maps = world.cluster("member-1").server().list("configmaps");
    maps.iter().map(|it| it.name.to_string()).collect()
}

/// A world whose API server is alone.
pub(crate) fn without_controllers<F: Future<Output = ()>>(test: impl FnOnce(World) -> F) {
    let settings = Settings { controllers: Controllers::Absent, ..Settings::default() };
    fleet().nodes(0).seed(1).settings(settings).run(test);
}

#[test]
fn a_second_controller_is_refused_in_the_words_of_the_server() {
    bare(async |world| {
        let mut owners = [owner("Pod", "a", &json!("1")), owner("Pod", "b", &json!("2"))];
        for it in &mut owners {
            it["controller"] = json!(true);
        }
        let failure = refused(&world, Method::POST, MAPS, &new("x", json!({"ownerReferences": owners})));
        let one = |name: &str, uid: u8| {
            format!(r#"{{"apiVersion":"v1","kind":"Pod","name":"{name}","uid":"{uid}","controller":true}}"#)
        };
        let expected = format!(
            "ConfigMap \"x\" is invalid: metadata.ownerReferences: Invalid value: [{},{}]: Only one reference can have \
             Controller set to true. Found \"true\" in references for Pod/a and Pod/b",
            one("a", 1),
            one("b", 2)
        );
        assert_eq!(failure.message, expected);
    });
}

#[test]
fn an_owner_needs_a_version_and_is_no_event() {
    bare(async |world| {
        let mut owners = [owner("Pod", "a", &json!("1")), owner("Event", "b", &json!("2"))];
        owners[0]["apiVersion"] = json!("example.com/");
        let failure = refused(&world, Method::POST, MAPS, &new("x", json!({"ownerReferences": owners})));
        let causes = failure.details["causes"].as_array().unwrap();
        assert_eq!(causes[0]["field"], "metadata.ownerReferences.apiVersion");
        assert_eq!(causes[0]["message"], "Invalid value: \"example.com/\": version must not be empty");
        let message = causes[1]["message"].as_str().unwrap();
        assert!(message.ends_with(": /v1, Kind=Event is disallowed from being an owner"), "{message}");
    });
}

#[test]
fn what_is_said_twice_of_an_owner_counts_once_but_cannot_be_applied() {
    without_controllers(async |world| {
        let twice = json!([owner("Pod", "a", &json!("1")), owner("Pod", "a", &json!("1"))]);
        let made = owned(&world, "x", twice.clone());
        assert_eq!(made["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);

        let maps = maps(&client(&world));
        let patch = kube::api::Patch::Apply(new("y", json!({"ownerReferences": twice})));
        let error = maps.patch("y", &kube::api::PatchParams::apply("test"), &patch).await.unwrap_err();
        let expected = "failed to create typed patch object (/y; /v1, Kind=ConfigMap): .metadata.ownerReferences: \
                        duplicate entries for key [uid=\"1\"]";
        assert_eq!(
            (status(&error)["code"].as_u64(), status(&error)["message"].as_str()),
            (Some(500), Some(expected))
        );
    });
}

#[test]
fn who_names_an_owner_twice_takes_it_from_others_and_who_applies_it_once_takes_it_back() {
    without_controllers(async |world| {
        let maps = maps(&client(&world));
        let once = owner("Pod", "a", &json!("1"));
        let mut again = once.clone();
        again["controller"] = json!(false);
        let apply = async |params: kube::api::PatchParams| {
            let patch = kube::api::Patch::Apply(new("x", json!({"ownerReferences": [once]})));
            maps.patch("x", &params, &patch).await
        };
        let fields = |object: &Value, manager: &str| {
            let entries = object["metadata"]["managedFields"].as_array().unwrap();
            let entry = entries.iter().find(|it| it["manager"] == manager);
            entry.map(|it| it["fieldsV1"]["f:metadata"]["f:ownerReferences"].clone())
        };

        let params = kube::api::PatchParams::apply("one");
        apply(params.clone()).await.unwrap();
        set_owners(&world, "x", json!([once, again]));
        let object = read(&world, &format!("{MAPS}/x"));
        assert_eq!(fields(&object, "one"), None);
        assert_eq!(fields(&object, "cluster"), Some(json!({"k:{\"uid\":\"1\"}": {}})));

        assert_eq!(status(&apply(params.clone()).await.unwrap_err())["code"], 409);
        apply(params.force()).await.unwrap();
        let object = read(&world, &format!("{MAPS}/x"));
        assert_eq!(fields(&object, "one"), Some(json!({"k:{\"uid\":\"1\"}": {}})));
        assert_eq!(fields(&object, "cluster"), None);
        assert_eq!(object["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    });
}

#[test]
fn the_finalizers_of_both_ways_to_delete_exclude_each_other() {
    without_controllers(async |world| {
        let both = json!({"finalizers": ["orphan", "foregroundDeletion"]});
        let failure = refused(&world, Method::POST, MAPS, &new("x", both.clone()));
        assert!(failure.message.ends_with("finalizer orphan and foregroundDeletion cannot be both set"));
        make(&world, "x", json!({"finalizers": ["orphan"]}));
        let failure = refused(&world, Method::PATCH, &format!("{MAPS}/x"), &json!({"metadata": both}));
        assert_eq!(failure.code, 422, "later as well");
    });
}

#[test]
fn leases_may_have_finalizers_that_other_built_in_kinds_may_not() {
    bare(async |world| {
        let plain = json!({"name": "x", "finalizers": ["example.com/one", "plain"]});
        let failure = refused(&world, Method::POST, MAPS, &json!({"metadata": plain}));
        assert_eq!(failure.details["causes"][0]["field"], "metadata.finalizers[1]");
        write(&world, Method::POST, LEASES, json!({"metadata": plain, "spec": {}}));
    });
}

#[test]
fn a_delete_says_what_becomes_of_dependents_in_one_place_and_one_way() {
    without_controllers(async |world| {
        let both = json!({"propagationPolicy": "Orphan", "orphanDependents": true});
        let failure = refused(&world, Method::DELETE, &format!("{MAPS}/missing"), &both);
        assert_eq!(failure.code, 422, "options are read before the object is looked for");
        assert!(failure.message.ends_with("orphanDependents and deletionPropagation cannot be both set"));

        make(&world, "x", json!({}));
        let grace = json!({"gracePeriodSeconds": 0});
        write(&world, Method::DELETE, &format!("{MAPS}/x?propagationPolicy=Orphan"), grace);
        assert!(left(&world).is_empty(), "where there is a body the query does not count");
    });
}

#[test]
fn finalizers_that_are_there_already_keep_their_order() {
    without_controllers(async |world| {
        let finalizers = json!(["foregroundDeletion", "example.com/one"]);
        make(&world, "x", json!({"finalizers": finalizers}));
        let held = delete(&world, "x", json!({"propagationPolicy": "Foreground"}));
        assert_eq!(held["metadata"]["finalizers"], finalizers);
        let held = delete(&world, "x", json!({"propagationPolicy": "Orphan"}));
        assert_eq!(held["metadata"]["finalizers"], json!(["example.com/one", "orphan"]));
    });
}

#[test]
fn a_delete_that_takes_the_last_finalizer_off_knows_no_version() {
    without_controllers(async |world| {
        let made = make(&world, "x", json!({"finalizers": ["orphan"]}));
        let version = &made["metadata"]["resourceVersion"];
        let options =
            json!({"propagationPolicy": "Background", "preconditions": {"resourceVersion": version}});
        let failure = refused(&world, Method::DELETE, &format!("{MAPS}/x"), &options);
        assert_eq!(failure.code, 409);
        assert!(
            failure.message.contains("ResourceVersion in precondition: , ResourceVersion in object meta: ")
        );
        delete(&world, "x", json!({"propagationPolicy": "Background"}));
        assert!(left(&world).is_empty());
    });
}

#[test]
fn a_finalizer_that_nobody_applied_goes_with_the_last_one_that_somebody_did() {
    without_controllers(async |world| {
        let maps = maps(&client(&world));
        let apply = async |metadata: Value| {
            let patch = kube::api::Patch::Apply(new("x", metadata));
            maps.patch("x", &kube::api::PatchParams::apply("test"), &patch).await.unwrap()
        };
        apply(json!({"finalizers": ["example.com/one"]})).await;
        let held = delete(&world, "x", json!({"propagationPolicy": "Foreground"}));
        assert_eq!(held["metadata"]["finalizers"], json!(["example.com/one", "foregroundDeletion"]));
        apply(json!({})).await;
        assert!(left(&world).is_empty());
    });
}
