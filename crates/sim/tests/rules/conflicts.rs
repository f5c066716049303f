//! Creating, replacing, and who wins.

use kube::api::{ObjectMeta, PostParams};
use serde_json::json;

use crate::kit::*;

#[test]
fn a_new_object_gets_uid_version_time_and_a_generated_name() {
    bare(async |world| {
        let maps = maps(&client(&world));
        let mut new = map("", "a", "1");
        new.metadata = ObjectMeta { generate_name: Some("run-".to_owned()), ..ObjectMeta::default() };
        let one = maps.create(&PostParams::default(), &new).await.unwrap();
        let two = maps.create(&PostParams::default(), &new).await.unwrap();
        let name = one.metadata.name.clone().unwrap();
        assert!(name.starts_with("run-") && name.len() == 9, "{name}");
        assert_ne!(one.metadata.name, two.metadata.name);
        assert_ne!(one.metadata.uid, two.metadata.uid);
        assert!(one.metadata.resource_version.unwrap().parse::<u64>().unwrap() > 0);
        assert!(one.metadata.creation_timestamp.unwrap().0.to_string().starts_with("2030-01-01T00:00:00"));
        assert_eq!(one.metadata.generation, None, "config maps count no generations");
    });
}

#[test]
fn a_taken_name_is_refused_with_the_words_of_the_real_server() {
    bare(async |world| {
        let maps = maps(&client(&world));
        maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        let error = maps.create(&PostParams::default(), &map("a", "k", "2")).await.unwrap_err();
        let status = status(&error);
        assert_eq!(status["code"], 409);
        assert_eq!(status["reason"], "AlreadyExists");
        assert_eq!(status["message"], "configmaps \"a\" already exists");
        assert_eq!(status["details"]["name"], "a");
        assert_eq!(status["details"]["kind"], "configmaps");
    });
}

#[test]
fn an_update_of_an_old_version_is_a_conflict() {
    bare(async |world| {
        let maps = maps(&client(&world));
        let first = maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        let mut second = first.clone();
        second.data = Some([("k".to_owned(), "2".to_owned())].into());
        maps.replace("a", &PostParams::default(), &second).await.unwrap();
        let error = maps.replace("a", &PostParams::default(), &first).await.unwrap_err();
        let status = status(&error);
        assert_eq!(status["reason"], "Conflict");
        let words = "Operation cannot be fulfilled on configmaps \"a\": the object has been modified; please apply \
                     your changes to the latest version and try again";
        assert_eq!(status["message"], words);
    });
}

#[test]
fn an_update_without_a_version_overwrites_where_kubernetes_allows_it() {
    bare(async |world| {
        world.cluster("member-1").server().define(&widget_definition()).unwrap();
        let client = client(&world);
        let maps = maps(&client);
        maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        maps.replace("a", &PostParams::default(), &map("a", "k", "2")).await.unwrap();

        let widgets = widgets(&client);
        let new = widget("w", json!({"size": "small"}));
        widgets.create(&PostParams::default(), &new).await.unwrap();
        let error = widgets.replace("w", &PostParams::default(), &new).await.unwrap_err();
        assert_eq!(status(&error)["code"], 422);
    });
}

#[test]
fn an_update_that_changes_nothing_writes_nothing() {
    bare(async |world| {
        let maps = maps(&client(&world));
        let first = maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        let before = world.cluster("member-1").server().version();
        let again = maps.replace("a", &PostParams::default(), &first).await.unwrap();
        assert_eq!(again.metadata.resource_version, first.metadata.resource_version);
        assert_eq!(world.cluster("member-1").server().version(), before);
    });
}

#[test]
fn dry_run_stores_nothing() {
    bare(async |world| {
        let maps = maps(&client(&world));
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        let made = maps.create(&dry, &map("a", "k", "1")).await.unwrap();
        assert!(made.metadata.uid.is_some());
        assert!(maps.get_opt("a").await.unwrap().is_none());
    });
}

#[test]
fn nothing_is_created_in_a_missing_namespace() {
    bare(async |world| {
        let missing: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
            kube::Api::namespaced(client(&world), "nowhere");
        let error = missing.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap_err();
        let status = status(&error);
        assert_eq!(status["code"], 404);
        assert_eq!(status["message"], "namespaces \"nowhere\" not found");
    });
}

#[test]
fn a_bad_name_is_refused_before_anything_else() {
    bare(async |world| {
        let maps = maps(&client(&world));
        let error = maps.create(&PostParams::default(), &map("Not_OK", "k", "1")).await.unwrap_err();
        let status = status(&error);
        assert_eq!(status["code"], 422);
        assert_eq!(status["details"]["causes"][0]["field"], "metadata.name");
    });
}
