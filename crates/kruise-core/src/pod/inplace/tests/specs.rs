//! What can change in place.

use serde_json::{Value, json};

use crate::pod::inplace::{Options, RevisionView, UpdateSpec, calculate, is_metadata_only};

const ALL: Options = Options {
    env_from_metadata: true,
    vertical_scaling: true,
    recreate_for_claims: true,
    in_place_only: false,
    grace_seconds: 0,
};

fn between(old: Value, new: Value, options: &Options) -> Option<UpdateSpec> {
    let data = |template: Value| json!({"spec": {"template": template}});
    let (old, new) = (data(old), data(new));
    calculate(
        &RevisionView { name: "old", data: &old, claims_hash: None },
        &RevisionView { name: "new", data: &new, claims_hash: None },
        options,
    )
}

fn template(image: &str, metadata: Value) -> Value {
    json!({
        "$patch": "replace", "metadata": metadata,
        "spec": {"containers": [{"name": "c1", "image": image, "resources": {}}]},
    })
}

fn reading(image: &str, path: &str, metadata: Value) -> Value {
    let mut template = template(image, metadata);
    template["spec"]["containers"][0]["env"] =
        json!([{"name": "E", "valueFrom": {"fieldRef": {"fieldPath": path}}}]);
    template
}

fn json_of(spec: Option<UpdateSpec>) -> Value {
    serde_json::to_value(spec.unwrap()).unwrap()
}

#[test]
fn a_new_image_is_updated_in_place() {
    let spec = between(template("foo1", json!({})), template("foo2", json!({})), &ALL);
    assert_eq!(json_of(spec), json!({"revision": "new", "containerImages": {"c1": "foo2"}}));
}

#[test]
fn a_spec_that_waits_is_written_exactly_as_openkruise_writes_it() {
    let options = Options { grace_seconds: 3630, ..ALL };
    let mut spec = between(template("foo1", json!({})), template("foo2", json!({})), &options).unwrap();
    spec.revision = "rev_new".into();
    assert_eq!(
        serde_json::to_string(&spec).unwrap(),
        r#"{"revision":"rev_new","containerImages":{"c1":"foo2"},"graceSeconds":3630}"#
    );
}

#[test]
fn all_members_are_written_in_the_order_of_openkruise_and_read_back() {
    let text = concat!(
        r#"{"revision":"r","containerImages":{"a":"i"},"containerRefMetadata":{"a":{"labels":{"k":"v"},"annotations":{"x":"y"}}},"#,
        r#""containerResources":{"a":{"limits":{"cpu":"1"},"requests":{"memory":"1Gi"}}},"#,
        r#""metaDataPatch":"eyJtZXRhZGF0YSI6eyJsYWJlbHMiOnsiazEiOiJ2MSJ9fX0=","updateEnvFromMetadata":true,"graceSeconds":5}"#
    );
    let spec: UpdateSpec = serde_json::from_str(text).unwrap();
    assert_eq!(spec.meta_data_patch, Some(json!({"metadata": {"labels": {"k1": "v1"}}})));
    assert_eq!(serde_json::to_string(&spec).unwrap(), text);
    // As Go writes the metadata of a container.
    let go = r#"{"revision":"r","containerRefMetadata":{"a":{"creationTimestamp":null,"labels":{"k":"v"}}}}"#;
    let spec: UpdateSpec = serde_json::from_str(go).unwrap();
    assert_eq!(spec.container_ref_metadata["a"].labels["k"], "v");
}

#[test]
fn a_new_label_of_the_template_is_patched() {
    let spec = between(
        template("foo1", json!({"labels": {"k": "v"}})),
        template("foo2", json!({"labels": {"k": "v", "k1": "v1"}})),
        &ALL,
    )
    .unwrap();
    assert_eq!(spec.meta_data_patch.unwrap().to_string(), r#"{"metadata":{"labels":{"k1":"v1"}}}"#);
    assert!(!spec.update_env_from_metadata);
}

#[test]
fn a_label_in_the_environment_goes_with_its_container() {
    let old = reading("foo1", "metadata.labels['k']", json!({"labels": {"k": "v"}}));
    let new = reading("foo2", "metadata.labels['k']", json!({"labels": {"k": "v2", "k1": "v1"}}));
    let spec = between(old.clone(), new.clone(), &ALL).unwrap();
    assert_eq!(spec.meta_data_patch.as_ref().unwrap().to_string(), r#"{"metadata":{"labels":{"k1":"v1"}}}"#);
    assert_eq!(
        serde_json::to_value(&spec.container_ref_metadata).unwrap(),
        json!({"c1": {"labels": {"k": "v2"}}})
    );
    assert!(spec.update_env_from_metadata);

    let off = between(old, new, &Options { env_from_metadata: false, ..ALL }).unwrap();
    assert!(off.container_ref_metadata.is_empty() && !off.update_env_from_metadata);
    assert_eq!(off.meta_data_patch.unwrap(), json!({"metadata": {"labels": {"k": "v2", "k1": "v1"}}}));
}

#[test]
fn keys_with_slashes_and_tildes_are_found_in_the_environment() {
    let path = "metadata.annotations['a.b/c~d']";
    let old = reading("foo", path, json!({"annotations": {"a.b/c~d": "1"}}));
    let new = reading("foo", path, json!({"annotations": {"a.b/c~d": "2"}}));
    let spec = between(old, new, &ALL).unwrap();
    assert_eq!(spec.container_ref_metadata["c1"].annotations["a.b/c~d"], "2");
    assert_eq!(spec.meta_data_patch, None);
}

#[test]
fn annotations_where_there_were_none_restart_the_containers_that_read_them() {
    // Upstream sees one new map and misses the keys in it: the value lands, the container does not restart.
    for before in [json!({}), json!({"annotations": null}), json!({"annotations": {}})] {
        let old = reading("foo", "metadata.annotations['k']", before);
        let new = reading("foo", "metadata.annotations['k']", json!({"annotations": {"k": "1", "l": "2"}}));
        let spec = between(old, new, &ALL).unwrap();
        assert_eq!(spec.container_ref_metadata["c1"].annotations["k"], "1");
        assert_eq!(spec.meta_data_patch, Some(json!({"metadata": {"annotations": {"l": "2"}}})));
        assert!(spec.update_env_from_metadata);
    }
}

#[test]
fn removed_labels_and_finalizers_are_removed_by_name() {
    let spec = between(
        template("foo1", json!({"labels": {"k": "v", "k2": "v2"}, "finalizers": ["fz1", "fz2"]})),
        template("foo2", json!({"labels": {"k": "v", "k1": "v1"}, "finalizers": ["fz2"]})),
        &ALL,
    )
    .unwrap();
    assert_eq!(
        spec.meta_data_patch.unwrap().to_string(),
        concat!(
            r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["fz1"],"$setElementOrder/finalizers":["fz2"],"#,
            r#""labels":{"k1":"v1","k2":null}}}"#
        )
    );
}

#[test]
fn a_template_that_loses_all_annotations_and_finalizers_takes_none_of_others() {
    // Upstream sends `null` for the whole field then, and wipes what others have put on the pod.
    let spec = between(
        template("foo", json!({"annotations": {"a": "1"}, "finalizers": ["fz"]})),
        template("foo", json!({})),
        &ALL,
    )
    .unwrap();
    assert_eq!(
        spec.meta_data_patch,
        Some(
            json!({"metadata": {"annotations": {"a": null}, "$deleteFromPrimitiveList/finalizers": ["fz"]}})
        )
    );
}

#[test]
fn metadata_alone_is_in_place_and_known_to_disturb_nobody_kruise_2369() {
    let metadata_only = |old, new| is_metadata_only(&between(old, new, &ALL).unwrap());
    let annotated = |value: &str| json!({"annotations": {"k": value}});
    assert!(metadata_only(template("foo", annotated("1")), template("foo", annotated("2"))));
    assert!(!metadata_only(template("foo1", annotated("1")), template("foo2", annotated("2"))));
    let path = "metadata.annotations['k']";
    assert!(!metadata_only(reading("foo", path, annotated("1")), reading("foo", path, annotated("2"))));
}

#[test]
fn everything_else_needs_another_pod() {
    let old = template("foo1", json!({}));
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut new = old.clone();
        change(&mut new);
        between(old.clone(), new, &ALL)
    };
    let changes: [&dyn Fn(&mut Value); 11] = [
        &|it| it["spec"]["containers"][0]["env"] = json!([{"name": "k", "value": "v"}]),
        &|it| it["spec"]["containers"][0]["name"] = json!("c2"),
        &|it| it["spec"]["containers"][0]["image"] = Value::Null,
        &|it| it["spec"]["containers"][0]["image"] = json!(7),
        &|it| it["spec"]["containers"].as_array_mut().unwrap().push(json!({"name": "c2", "image": "x"})),
        &|it| it["spec"]["containers"] = json!([]),
        &|it| it["spec"]["initContainers"] = json!([{"name": "i", "image": "x"}]),
        &|it| it["spec"]["nodeSelector"] = json!({"a": "b"}),
        &|it| it["spec"] = Value::Null,
        &|it| *it = Value::Null,
        &|it| it["metadata"] = json!({"labels": {"k": 5}}),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        assert_eq!(changed(change), None, "change {index}");
    }
}

#[test]
fn containers_that_swap_places_need_another_pod() {
    let two = |first: &str, second: &str| json!({"spec": {"containers": [{"name": first, "image": "i"}, {"name": second, "image": "i"}]}});
    assert_eq!(between(two("a", "b"), two("b", "a"), &ALL), None);
}

#[test]
fn numbers_that_are_the_same_are_no_difference() {
    let with = |number: Value| json!({"spec": {"terminationGracePeriodSeconds": number, "containers": []}});
    assert!(between(with(json!(1)), with(json!(1.0)), &ALL).is_some());
    assert!(between(with(json!(1)), with(json!(2)), &ALL).is_none());
}

#[test]
fn other_claim_templates_need_other_pods_where_the_gate_says_so() {
    let (old_data, new_data) = (
        json!({"spec": {"template": template("foo1", json!({}))}}),
        json!({"spec": {"template": template("foo2", json!({}))}}),
    );
    let possible = |old, new, options: &Options| {
        calculate(
            &RevisionView { name: "old", data: &old_data, claims_hash: old },
            &RevisionView { name: "new", data: &new_data, claims_hash: new },
            options,
        )
        .is_some()
    };
    assert!(!possible(Some("1"), Some("2"), &ALL));
    assert!(!possible(Some(""), Some("2"), &ALL));
    assert!(possible(Some("1"), Some("1"), &ALL));
    assert!(possible(Some(""), Some(""), &ALL));
    assert!(possible(None, Some("2"), &ALL));
    assert!(possible(Some("1"), None, &ALL));
    assert!(possible(Some("1"), Some("2"), &Options { in_place_only: true, ..ALL }));
    assert!(possible(Some("1"), Some("2"), &Options { recreate_for_claims: false, ..ALL }));
}
