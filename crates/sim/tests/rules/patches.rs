//! The patch formats, and who owns which field.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::kit::*;

#[test]
fn every_patch_format_reaches_the_object() {
    bare(async |world| {
        let maps = maps(&client(&world));
        maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        let none = PatchParams::default();
        let merge = Patch::Merge(json!({"data": {"k": null, "m": "2"}}));
        maps.patch("a", &none, &merge).await.unwrap();
        let steps: json_patch::Patch = from(json!([{"op": "add", "path": "/data/j", "value": "3"}]));
        maps.patch("a", &none, &Patch::<Value>::Json(steps)).await.unwrap();
        let strategic = Patch::Strategic(json!({"metadata": {"labels": {"x": "y"}}}));
        let last = maps.patch("a", &none, &strategic).await.unwrap();
        assert_eq!(serde_json::to_value(last.data).unwrap(), json!({"j": "3", "m": "2"}));
        assert_eq!(last.metadata.labels.unwrap()["x"], "y");
    });
}

#[test]
fn a_patch_may_ask_for_a_version() {
    bare(async |world| {
        let maps = maps(&client(&world));
        maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        let patch = Patch::Merge(json!({"metadata": {"resourceVersion": "1"}, "data": {"k": "2"}}));
        let error = maps.patch("a", &PatchParams::default(), &patch).await.unwrap_err();
        assert_eq!(status(&error)["reason"], "Conflict");
    });
}

#[test]
fn conditions_of_a_pod_merge_by_type_through_its_status() {
    bare(async |world| {
        let pods = pods(&client(&world));
        pods.create(&PostParams::default(), &pod("a", "nginx:1")).await.unwrap();
        for kind in ["One", "Two", "One"] {
            let patch = json!({"status": {"conditions": [{"type": kind, "status": "True"}]}});
            pods.patch_status("a", &PatchParams::default(), &Patch::Strategic(patch)).await.unwrap();
        }
        let pod: Pod = pods.get("a").await.unwrap();
        let kinds: Vec<String> =
            pod.status.unwrap().conditions.unwrap().into_iter().map(|it| it.type_).collect();
        assert_eq!(kinds, ["Two", "One"], "a patched item that is new comes first");
    });
}

#[test]
fn an_applier_owns_what_it_names_and_another_is_told() {
    bare(async |world| {
        let maps = maps(&client(&world));
        let apply = |value: &str| {
            Patch::Apply(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": value},
            }))
        };
        let made = maps.patch("a", &PatchParams::apply("one"), &apply("1")).await.unwrap();
        let entry = &made.metadata.managed_fields.as_ref().unwrap()[0];
        assert_eq!(entry.manager.as_deref(), Some("one"));
        assert_eq!(entry.operation.as_deref(), Some("Apply"));
        assert_eq!(entry.fields_v1.as_ref().unwrap().0, json!({"f:data": {"f:k": {}}}));

        let again = maps.patch("a", &PatchParams::apply("one"), &apply("1")).await.unwrap();
        assert_eq!(again.metadata.resource_version, made.metadata.resource_version, "nothing changed");

        let error = maps.patch("a", &PatchParams::apply("two"), &apply("2")).await.unwrap_err();
        let status = status(&error);
        assert_eq!(status["reason"], "Conflict");
        assert_eq!(status["message"], "Apply failed with 1 conflict: conflict with \"one\": .data.k");
        let cause =
            json!({"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".data.k"});
        assert_eq!(status["details"]["causes"][0], cause);

        let taken = maps.patch("a", &PatchParams::apply("two").force(), &apply("2")).await.unwrap();
        assert_eq!(taken.data.unwrap()["k"], "2");
        let let_go =
            Patch::Apply(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}));
        let rest: ConfigMap = maps.patch("a", &PatchParams::apply("two"), &let_go).await.unwrap();
        assert_eq!(rest.data.unwrap_or_default().len(), 0);
    });
}

#[test]
fn only_the_image_of_a_running_pod_may_change() {
    bare(async |world| {
        let pods = pods(&client(&world));
        pods.create(&PostParams::default(), &pod("a", "nginx:1")).await.unwrap();
        let image = json!({"spec": {"containers": [{"name": "main", "image": "nginx:2"}]}});
        let changed = pods.patch("a", &PatchParams::default(), &Patch::Strategic(image)).await.unwrap();
        assert_eq!(changed.metadata.generation, Some(2));
        let command = json!({"spec": {"containers": [{"name": "main", "command": ["sh"]}]}});
        let error = pods.patch("a", &PatchParams::default(), &Patch::Strategic(command)).await.unwrap_err();
        let status = status(&error);
        assert_eq!(status["code"], 422);
        assert_eq!(status["details"]["causes"][0]["field"], "spec");
        assert_eq!(status["details"]["causes"][0]["reason"], "FieldValueForbidden");
    });
}

#[test]
fn a_client_may_take_managers_off_and_one_empty_entry_takes_all_of_them_off() {
    bare(async |world| {
        let maps = maps(&client(&world));
        let managers = async || {
            let entries = maps.get("a").await.unwrap().metadata.managed_fields.unwrap_or_default();
            let mut names: Vec<String> = entries.into_iter().filter_map(|it| it.manager).collect();
            names.sort_unstable();
            names
        };
        for (manager, key) in [("one", "k"), ("two", "m")] {
            let body = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {key: "1"},
            });
            maps.patch("a", &PatchParams::apply(manager), &Patch::Apply(body)).await.unwrap();
        }
        let set = async |managers: Value| {
            let patch = Patch::Merge(json!({"metadata": {"managedFields": managers}}));
            maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
        };
        assert_eq!(managers().await, ["one", "two"]);
        // Clients that do not know of the list send an empty one.
        set(json!([])).await;
        assert_eq!(managers().await, ["one", "two"]);
        let entries = serde_json::to_value(maps.get("a").await.unwrap().metadata.managed_fields).unwrap();
        let rest = entries.as_array().unwrap().iter().filter(|it| it["manager"] != "one").cloned().collect();
        set(rest).await;
        assert_eq!(managers().await, ["two"]);
        set(json!([{}])).await;
        assert!(managers().await.is_empty());
    });
}
