//! Watches: from a version, with bookmarks, with initial events, and told 410 in both forms.

use futures::{StreamExt, TryStreamExt};
use kube::api::{Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;
use sim::{
    fleet,
    server::{ExpiredWatch, Settings},
};

use crate::kit::*;

#[test]
fn a_watch_tells_every_write_after_its_version_in_order() {
    bare(async |world| {
        let maps = maps(&client(&world));
        let first = maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        let version = first.metadata.resource_version.unwrap();
        let patch = Patch::Merge(json!({"data": {"k": "2"}}));
        maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
        let mut events = maps.watch(&WatchParams::default(), &version).await.unwrap().boxed();
        maps.create(&PostParams::default(), &map("b", "k", "1")).await.unwrap();
        maps.delete("a", &Default::default()).await.unwrap();

        let mut seen = Vec::new();
        while seen.len() < 3 {
            let name = |it: k8s_openapi::api::core::v1::ConfigMap| it.metadata.name.unwrap();
            seen.push(match events.try_next().await.unwrap().unwrap() {
                WatchEvent::Added(it) => format!("added {}", name(it)),
                WatchEvent::Modified(it) => format!("modified {}", name(it)),
                WatchEvent::Deleted(it) => format!("deleted {}", name(it)),
                other => format!("{other:?}"),
            });
        }
        assert_eq!(seen, ["modified a", "added b", "deleted a"]);
    });
}

#[test]
fn objects_enter_and_leave_a_filtered_watch() {
    bare(async |world| {
        let maps = maps(&client(&world));
        maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        let version = world.cluster("member-1").server().version().to_string();
        let mut events =
            maps.watch(&WatchParams::default().labels("on=yes"), &version).await.unwrap().boxed();
        for labels in [json!({"on": "yes"}), json!({"other": "x"}), json!({"on": null})] {
            let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
            maps.patch("a", &PatchParams::default(), &patch).await.unwrap();
        }
        let mut kinds = Vec::new();
        for _ in 0..3 {
            kinds.push(match events.try_next().await.unwrap().unwrap() {
                WatchEvent::Added(_) => "ADDED",
                WatchEvent::Modified(_) => "MODIFIED",
                WatchEvent::Deleted(it) => {
                    let on = it.metadata.labels.unwrap();
                    assert_eq!(on["on"], "yes", "what left is shown as it was inside");
                    "DELETED"
                }
                _ => "OTHER",
            });
        }
        assert_eq!(kinds, ["ADDED", "MODIFIED", "DELETED"]);
    });
}

#[test]
fn a_quiet_watch_sends_bookmarks_and_ends_at_its_timeout() {
    bare(async |world| {
        let maps = maps(&client(&world));
        let version = world.cluster("member-1").server().version().to_string();
        let params = WatchParams::default().timeout(150);
        let mut events = maps.watch(&params, &version).await.unwrap().boxed();
        let pods = pods(&client(&world));
        pods.create(&PostParams::default(), &pod("elsewhere", "nginx:1")).await.unwrap();
        let newest = world.cluster("member-1").server().version().to_string();

        let started = world.now();
        let mut bookmarks = Vec::new();
        while let Some(event) = events.try_next().await.unwrap() {
            match event {
                WatchEvent::Bookmark(it) => bookmarks.push(it.metadata.resource_version),
                other => panic!("unexpected {other:?}"),
            }
        }
        let lasted = world.now().duration_since(started).as_secs();
        assert!((149..152).contains(&lasted), "{lasted}");
        assert!(bookmarks.len() >= 2);
        assert!(
            bookmarks.iter().all(|it| *it == newest),
            "bookmarks move with the whole store: {bookmarks:?}"
        );
    });
}

#[test]
fn initial_events_end_with_a_marked_bookmark() {
    bare(async |world| {
        let maps = maps(&client(&world));
        maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        let params = WatchParams::default().initial_events();
        let mut events = maps.watch(&params, "").await.unwrap().boxed();
        assert!(matches!(events.try_next().await.unwrap(), Some(WatchEvent::Added(_))));
        let Some(WatchEvent::Bookmark(mark)) = events.try_next().await.unwrap() else {
            panic!("no bookmark")
        };
        assert_eq!(mark.metadata.annotations["k8s.io/initial-events-end"], "true");
    });
}

#[test]
fn a_forgotten_version_is_told_410_as_an_event() {
    bare(async |world| {
        let maps = maps(&client(&world));
        maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        world.compact("member-1");
        let mut events = maps.watch(&WatchParams::default(), "2").await.unwrap().boxed();
        let Some(WatchEvent::Error(status)) = events.try_next().await.unwrap() else { panic!("no error") };
        assert_eq!((status.code, status.reason.as_str()), (410, "Expired"));
        assert!(status.message.starts_with("too old resource version: 2 ("), "{}", status.message);
        assert!(events.try_next().await.unwrap().is_none(), "the stream ends after it");
    });
}

#[test]
fn a_forgotten_version_is_told_410_as_a_code_where_set_so() {
    let settings = Settings { expired_watch: ExpiredWatch::Code, ..Settings::default() };
    fleet().nodes(0).settings(settings).run(async |world| {
        let maps = maps(&client(&world));
        maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        world.compact("member-1");
        let error = match maps.watch(&WatchParams::default(), "2").await {
            Err(error) => error,
            Ok(_) => panic!("the watch was granted"),
        };
        assert_eq!(status(&error)["code"], 410);
    });
}

#[test]
fn a_restart_of_the_server_ends_watches_and_loses_nothing() {
    bare(async |world| {
        let maps = maps(&client(&world));
        let version = world.cluster("member-1").server().version().to_string();
        let mut events = maps.watch(&WatchParams::default(), &version).await.unwrap().boxed();
        world.pass(secs(1)).await;
        world.restart_server("member-1");
        assert!(events.try_next().await.unwrap().is_none());
        maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        let mut events = maps.watch(&WatchParams::default(), &version).await.unwrap().boxed();
        assert!(matches!(events.try_next().await.unwrap(), Some(WatchEvent::Added(_))));
    });
}
