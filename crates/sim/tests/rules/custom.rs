//! Kinds that come at run time.

use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use sim::fleet;

use crate::kit::*;

#[test]
fn the_schema_fills_prunes_and_refuses() {
    bare(async |world| {
        world.cluster("member-1").server().define(&widget_definition()).unwrap();
        let widgets = widgets(&client(&world));
        let new = widget("a", json!({"size": "small", "unknown": 1, "template": {"any": {"thing": true}}}));
        let made = widgets.create(&PostParams::default(), &new).await.unwrap();
        let expected = json!({"size": "small", "replicas": 1, "template": {"any": {"thing": true}}});
        assert_eq!(made.data["spec"], expected);
        assert_eq!(made.metadata.generation, Some(1));

        let bad = widget("b", json!({"size": "huge", "replicas": -1}));
        let error = widgets.create(&PostParams::default(), &bad).await.unwrap_err();
        let status = status(&error);
        assert_eq!(status["code"], 422);
        let text = status["message"].as_str().unwrap();
        assert!(text.starts_with("Widget.example.com \"b\" is invalid: ["), "{text}");
        assert!(
            text.contains("spec.size: Unsupported value: \"huge\": supported values: \"small\", \"large\""),
            "{text}"
        );
        assert!(text.contains("spec.replicas in body should be greater than or equal to 0"), "{text}");
    });
}

#[test]
fn status_and_spec_have_a_door_each() {
    bare(async |world| {
        world.cluster("member-1").server().define(&widget_definition()).unwrap();
        let widgets = widgets(&client(&world));
        let mut new = widget("a", json!({"size": "small"}));
        new.data["status"] = json!({"phase": "Forged"});
        let made = widgets.create(&PostParams::default(), &new).await.unwrap();
        assert!(made.data.get("status").is_none(), "{:?}", made.data);

        let patch = json!({"spec": {"size": "large"}, "status": {"phase": "Up", "replicas": 1}});
        let after = widgets.patch_status("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        assert_eq!(after.data["status"]["phase"], "Up");
        assert_eq!(after.data["spec"]["size"], "small");
        assert_eq!(after.metadata.generation, Some(1), "status does not count");

        let after = widgets.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        assert_eq!(after.data["spec"]["size"], "large");
        assert_eq!(after.metadata.generation, Some(2));
    });
}

#[test]
fn what_is_said_again_is_a_write_only_if_it_moves_the_entry_of_who_says_it() {
    bare(async |world| {
        world.cluster("member-1").server().define(&widget_definition()).unwrap();
        let widgets = widgets(&client(&world));
        widgets.create(&PostParams::default(), &widget("a", json!({"size": "small"}))).await.unwrap();
        // Labels do not come through this door, but whoever sends them counts as having changed something.
        let say = async || {
            world.pass(secs(10)).await;
            let patch = json!({"metadata": {"labels": {"by": "status"}}, "status": {"phase": "Up"}});
            let after =
                widgets.patch_status("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
            after.metadata.resource_version.unwrap()
        };
        let first = say().await;
        assert_eq!(say().await, first);

        world.pass(secs(10)).await;
        let change = json!({"spec": {"size": "large"}});
        let changed = widgets.patch("a", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
        let moved = say().await;
        assert_ne!(Some(&moved), changed.metadata.resource_version.as_ref(), "it was the older entry");
        assert_eq!(say().await, moved);
    });
}

#[test]
fn scale_reads_and_writes_through_the_named_paths() {
    bare(async |world| {
        world.cluster("member-1").server().define(&widget_definition()).unwrap();
        let widgets = widgets(&client(&world));
        widgets
            .create(&PostParams::default(), &widget("a", json!({"size": "small", "replicas": 3})))
            .await
            .unwrap();
        let status = json!({"status": {"replicas": 2, "selector": "app=a"}});
        widgets.patch_status("a", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
        let scale = widgets.get_scale("a").await.unwrap();
        assert_eq!(scale.spec.unwrap().replicas, Some(3));
        assert_eq!(scale.status.as_ref().unwrap().replicas, 2);
        assert_eq!(scale.status.unwrap().selector.as_deref(), Some("app=a"));

        let wanted = Patch::Merge(json!({"spec": {"replicas": 5}}));
        widgets.patch_scale("a", &PatchParams::default(), &wanted).await.unwrap();
        assert_eq!(widgets.get("a").await.unwrap().data["spec"]["replicas"], 5);
    });
}

/// The owners of the count after a scale to zero from `before`: manager, subresource, and whether there is a time.
fn owners_after_zero(before: u32) -> Vec<(String, String, bool)> {
    fleet().nodes(0).seed(1).run(async |world| {
        world.cluster("member-1").server().define(&widget_definition()).unwrap();
        let widgets = widgets(&client(&world));
        let made = widget("a", json!({"size": "small", "replicas": before}));
        widgets.create(&PostParams::default(), &made).await.unwrap();
        let zero = Patch::Merge(json!({"spec": {"replicas": 0}}));
        widgets.patch_scale("a", &PatchParams::default(), &zero).await.unwrap();
        let entries = widgets.get("a").await.unwrap().metadata.managed_fields.unwrap().into_iter();
        let owning =
            entries.filter(|it| it.fields_v1.as_ref().unwrap().0["f:spec"].get("f:replicas").is_some());
        owning
            .map(|it| (it.manager.unwrap(), it.subresource.unwrap_or_default(), it.time.is_some()))
            .collect()
    })
}

#[test]
fn a_scale_to_zero_leaves_the_count_to_nobody_unless_it_was_zero_before() {
    assert_eq!(owners_after_zero(3), []);
    assert_eq!(owners_after_zero(0), [("test".to_owned(), String::new(), false)]);
}

#[test]
fn other_versions_show_the_same_object() {
    bare(async |world| {
        world.cluster("member-1").server().define(&widget_definition()).unwrap();
        let widgets = widgets(&client(&world));
        widgets.create(&PostParams::default(), &widget("a", json!({"size": "small"}))).await.unwrap();
        let old = read(&world, "/apis/example.com/v1alpha1/namespaces/default/widgets/a");
        assert_eq!(old["apiVersion"], "example.com/v1alpha1");
        assert_eq!(old["spec"]["size"], "small");
    });
}

#[test]
fn keyed_lists_of_a_custom_kind_have_several_owners() {
    bare(async |world| {
        world.cluster("member-1").server().define(&widget_definition()).unwrap();
        let widgets = widgets(&client(&world));
        let apply = |parts: serde_json::Value| {
            Patch::Apply(json!({
                "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"},
                "spec": {"size": "small", "parts": parts},
            }))
        };
        let parts = json!([{"name": "x", "weight": 1}, {"name": "y", "weight": 1}]);
        widgets.patch("a", &PatchParams::apply("one"), &apply(parts)).await.unwrap();
        widgets.patch("a", &PatchParams::apply("two"), &apply(json!([{"name": "z"}]))).await.unwrap();
        let last =
            widgets.patch("a", &PatchParams::apply("one"), &apply(json!([{"name": "y", "weight": 2}]))).await;
        let names = last.unwrap().data["spec"]["parts"].clone();
        assert_eq!(names, json!([{"name": "y", "weight": 2}, {"name": "z"}]));
    });
}

#[test]
fn with_its_definition_a_kind_and_its_objects_go() {
    bare(async |world| {
        world.cluster("member-1").server().define(&widget_definition()).unwrap();
        let widgets = widgets(&client(&world));
        widgets.create(&PostParams::default(), &widget("a", json!({"size": "small"}))).await.unwrap();
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
        write(&world, http::Method::DELETE, path, serde_json::Value::Null);
        let error = widgets.get("a").await.unwrap_err();
        assert_eq!(status(&error)["message"], "the server could not find the requested resource");
        assert_eq!(world.cluster("member-1").server().count("widgets.example.com"), 0);
    });
}

#[test]
fn a_fleet_with_a_policy_has_a_hub_that_knows_it_from_the_start() {
    let policy = json!({
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "all", "namespace": "shop"},
        "spec": {"size": "small"},
    });
    let fleet = sim::fleet().members(2).nodes(1).define(widget_definition()).policy(policy);
    fleet.run(async |world| {
        let kept = |cluster: &str| world.cluster(cluster).server().get("widgets.example.com", "shop", "all");
        assert_eq!(
            kept("hub").unwrap().value()["spec"]["replicas"],
            1,
            "it went through the hub's API server"
        );
        assert!(kept("member-1").is_none());
        assert_eq!(world.cluster("hub").server().count("nodes"), 0);
    });
}
