//! Selectors, pages and versions of lists.

use kube::api::{ListParams, PostParams};
use serde_json::Value;

use crate::kit::*;

#[test]
fn selectors_choose_by_label_and_field() {
    bare(async |world| {
        let pods = pods(&client(&world));
        for name in ["a", "b", "c"] {
            pods.create(&PostParams::default(), &pod(name, "nginx:1")).await.unwrap();
        }
        let names = async |params: ListParams| -> Vec<String> {
            let list = pods.list(&params).await.unwrap();
            list.items.into_iter().filter_map(|it| it.metadata.name).collect()
        };
        assert_eq!(names(ListParams::default().labels("app=web")).await, ["a", "b", "c"]);
        assert_eq!(names(ListParams::default().labels("app notin (web)")).await, Vec::<String>::new());
        assert_eq!(names(ListParams::default().fields("metadata.name=b")).await, ["b"]);
        assert_eq!(
            names(ListParams::default().fields("status.phase=Pending,metadata.name!=b")).await,
            ["a", "c"]
        );
        let error = pods.list(&ListParams::default().fields("spec.nonsense=1")).await.unwrap_err();
        assert_eq!(status(&error)["code"], 400);
    });
}

#[test]
fn pages_show_the_state_of_the_first_page() {
    bare(async |world| {
        let maps = maps(&client(&world));
        for name in ["a", "b", "c", "d"] {
            maps.create(&PostParams::default(), &map(name, "k", "1")).await.unwrap();
        }
        let first = maps.list(&ListParams::default().limit(2)).await.unwrap();
        assert_eq!(first.metadata.remaining_item_count, Some(2));
        maps.delete("c", &Default::default()).await.unwrap();
        maps.create(&PostParams::default(), &map("bb", "k", "1")).await.unwrap();

        let token = first.metadata.continue_.unwrap();
        let second = maps.list(&ListParams::default().limit(2).continue_token(&token)).await.unwrap();
        let names: Vec<String> = second.items.into_iter().filter_map(|it| it.metadata.name).collect();
        assert_eq!(names, ["c", "d"], "as it was when the first page was made");
        assert_eq!(second.metadata.resource_version, first.metadata.resource_version);
    });
}

#[test]
fn a_token_from_a_forgotten_past_is_told_410_with_a_way_on() {
    bare(async |world| {
        let maps = maps(&client(&world));
        for name in ["a", "b", "c"] {
            maps.create(&PostParams::default(), &map(name, "k", "1")).await.unwrap();
        }
        let token = maps.list(&ListParams::default().limit(1)).await.unwrap().metadata.continue_.unwrap();
        maps.create(&PostParams::default(), &map("d", "k", "1")).await.unwrap();
        world.compact("member-1");
        let error = maps.list(&ListParams::default().limit(1).continue_token(&token)).await.unwrap_err();
        let status = status(&error);
        assert_eq!(
            (status["code"].clone(), status["reason"].clone()),
            (Value::from(410), Value::from("Expired"))
        );
        let path = "/api/v1/namespaces/default/configmaps";
        let fresh = world.write(
            "member-1",
            http::Method::GET,
            &format!("{path}?limit=1&continue={token}"),
            &Value::Null,
        );
        let onward = fresh.unwrap_err().continue_token.unwrap();
        let rest = read(&world, &format!("{path}?limit=9&continue={onward}"));
        assert_eq!(rest["items"].as_array().unwrap().len(), 3, "b, c and the new d");
    });
}

#[test]
fn a_version_that_does_not_exist_yet_is_too_large() {
    bare(async |world| {
        let maps = maps(&client(&world));
        let params = ListParams::default().at("999999").matching(kube::api::VersionMatch::NotOlderThan);
        let error = maps.list(&params).await.unwrap_err();
        let status = status(&error);
        assert_eq!(status["code"], 504);
        assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    });
}

#[test]
fn metadata_is_all_a_client_gets_when_it_asks_for_that() {
    bare(async |world| {
        let maps = maps(&client(&world));
        maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        let list = maps.list_metadata(&ListParams::default()).await.unwrap();
        assert_eq!(list.items[0].metadata.name.as_deref(), Some("a"));
        let one = maps.get_metadata("a").await.unwrap();
        assert_eq!(one.types.unwrap().kind, "PartialObjectMetadata");
    });
}
