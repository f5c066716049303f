//! The rules of history.

use serde_json::{Value, json};

use super::{
    super::history::{
        Choice, Clash, NewRevision, choose, current, history, next_number, refresh_patch, seed, truncate,
    },
    stored, template, wanted,
};
use crate::{api::common::keys::REVISION_HASH, runtime::cache::revision::RevisionLite};

fn created(choice: Choice) -> NewRevision {
    match choice {
        Choice::Create(it) => *it,
        other => panic!("{other:?}"),
    }
}

fn annotated(mut revision: RevisionLite, claims: &str) -> RevisionLite {
    revision.metadata.annotations = Some([("claims".to_owned(), claims.to_owned())].into());
    revision
}

#[test]
fn the_first_revision_has_number_one() {
    let new = created(choose(&[], &wanted(&template("a")), 0));
    assert_eq!((new.revision, new.collision_count), (1, 0));
}

#[test]
fn a_new_revision_carries_labels_annotations_and_owner() {
    let new = created(choose(&[], &wanted(&template("sh -c 'a && b'")), 0));
    let body: Value = serde_json::from_str(&new.body()).unwrap();
    let hash = new.labels[REVISION_HASH].clone();
    assert_eq!(new.name, format!("web-{hash}"));
    assert_eq!(
        body["metadata"],
        json!({
            "name": new.name, "namespace": "shop",
            "labels": {"app": "web", REVISION_HASH: hash},
            "annotations": {"note": "hello", "claims": "42"},
            "ownerReferences": [{
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": "uid-1",
                "controller": true, "blockOwnerDeletion": true,
            }],
        })
    );
    assert_eq!(
        (body["apiVersion"].as_str(), body["kind"].as_str()),
        (Some("apps/v1"), Some("ControllerRevision"))
    );
    assert_eq!(body["revision"], 1);
    assert!(new.body().contains(&format!(r#""data":{}"#, new.data.as_str())));
    assert!(new.body().contains(r"a \u0026\u0026 b"));
    let read: RevisionLite = serde_json::from_str(&new.body()).unwrap();
    assert_eq!(read.data, new.data);
}

#[test]
fn the_newest_revision_is_used_as_it_is() {
    let (old, new) =
        (stored("web-1", 1, &template("a")), annotated(stored("web-2", 2, &template("b")), "stale"));
    assert_eq!(choose(&[&old, &new], &wanted(&template("b")), 0), Choice::Use { name: "web-2".into() });
}

#[test]
fn a_rollback_makes_the_older_revision_the_newest() {
    let refresh = |annotations: &[(&str, &str)]| Choice::Refresh {
        name: "web-1".into(),
        revision: 3,
        annotations: annotations.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect(),
        forgotten: Vec::new(),
    };
    let other = stored("web-2", 2, &template("b"));
    let wanted = wanted(&template("a"));
    let without = stored("web-1", 1, &template("a"));
    assert_eq!(choose(&[&without, &other], &wanted, 0), refresh(&[("claims", "42")]));
    let wrong = annotated(without.clone(), "41");
    assert_eq!(choose(&[&wrong, &other], &wanted, 0), refresh(&[("claims", "42")]));
    let right = annotated(without, "42");
    assert_eq!(choose(&[&right, &other], &wanted, 0), refresh(&[]));
}

#[test]
fn a_refresh_touches_the_number_and_what_is_stale() {
    assert_eq!(refresh_patch(3, &[].into(), &[]), json!({"revision": 3}));
    assert_eq!(
        refresh_patch(3, &[("claims".to_owned(), "42".to_owned())].into(), &["released"]),
        json!({"metadata": {"annotations": {"claims": "42"}, "labels": {"released": null}}, "revision": 3})
    );
}

#[test]
fn a_rollback_forgets_the_last_release() {
    let other = stored("web-2", 2, &template("b"));
    let mut released = stored("web-1", 1, &template("a"));
    released.metadata.labels.as_mut().unwrap().insert("released".into(), "true".into());
    let Choice::Refresh { forgotten, .. } = choose(&[&released, &other], &wanted(&template("a")), 0) else {
        panic!()
    };
    assert_eq!(forgotten, ["released"]);
    // The newest revision is in its release still, and keeps its labels.
    assert!(matches!(choose(&[&other, &released], &wanted(&template("a")), 0), Choice::Use { .. }));
}

#[test]
fn of_several_equal_ones_the_newest_is_taken() {
    let revisions = [
        stored("web-1", 1, &template("a")),
        stored("web-2", 2, &template("a")),
        stored("web-3", 3, &template("b")),
    ];
    let listed: Vec<_> = revisions.iter().collect();
    assert!(
        matches!(choose(&listed, &wanted(&template("a")), 0), Choice::Refresh { name, revision: 4, .. } if name == "web-2")
    );
}

#[test]
fn other_data_is_a_new_revision_with_the_next_number() {
    let (one, two) = (stored("web-1", 1, &template("a")), stored("web-2", 7, &template("b")));
    let new = created(choose(&[&one, &two], &wanted(&template("c")), 2));
    assert_eq!((new.revision, new.collision_count), (8, 2));
}

#[test]
fn a_hash_label_that_differs_does_not_make_equal_data_differ() {
    let mut revision = stored("web-1", 1, &template("a"));
    revision.metadata.labels.as_mut().unwrap().insert(REVISION_HASH.into(), "b5c9f".into());
    assert_eq!(choose(&[&revision], &wanted(&template("a")), 0), Choice::Use { name: "web-1".into() });
}

#[test]
fn a_taken_name_is_the_same_revision_or_a_collision() {
    let new = created(choose(&[], &wanted(&template("a")), 0));
    let mut foreign = stored(&new.name, 1, &template("a"));
    foreign.metadata.owner_references = None;
    assert_eq!(new.clash(&foreign), Clash::Same);

    let Clash::Collision(next) = new.clash(&stored(&new.name, 1, &template("b"))) else { panic!() };
    assert_eq!(next.collision_count, 1);
    assert_ne!(next.name, new.name);
    assert_eq!(next.labels, new.labels, "the label keeps the first hash");
    // Once the count is in the status, the same name comes out at once.
    assert_eq!(created(choose(&[], &wanted(&template("a")), 1)).name, next.name);
    // The count of the status may be anything.
    let last = created(choose(&[], &wanted(&template("a")), i32::MAX));
    assert!(
        matches!(last.clash(&stored("x", 1, &template("b"))), Clash::Collision(it) if it.collision_count == i32::MIN)
    );
}

#[test]
fn history_is_what_matches_and_belongs_to_us_or_to_nobody() {
    let mut foreign = stored("foreign", 1, &template("a"));
    foreign.metadata.owner_references.as_mut().unwrap()[0].uid = "uid-2".into();
    let mut orphan = stored("orphan", 2, &template("a"));
    orphan.metadata.owner_references = None;
    let mut unlabelled = stored("unlabelled", 3, &template("a"));
    unlabelled.metadata.labels = None;
    let ours = stored("ours", 4, &template("a"));
    let listed: Vec<_> = [ours, foreign, unlabelled, orphan].into_iter().map(std::sync::Arc::new).collect();
    let found = history(&listed, "uid-1", |labels| labels.get("app").is_some_and(|it| it == "web"));
    assert_eq!(found.iter().map(|it| it.name()).collect::<Vec<_>>(), ["orphan", "ours"]);
}

#[test]
fn history_is_sorted_by_number_then_age_then_name() {
    let at = |name: &str, revision: i64, time: &str| {
        let mut it = stored(name, revision, &template("a"));
        it.metadata.creation_timestamp = serde_json::from_value(json!(time)).unwrap();
        std::sync::Arc::new(it)
    };
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    let listed =
        [at("d", 10, early), at("a", 2, late), at("c", 2, early), at("b", 2, early), at("e", 1, late)];
    let found = history(&listed, "uid-1", |_| true);
    assert_eq!(found.iter().map(|it| it.name()).collect::<Vec<_>>(), ["e", "b", "c", "a", "d"]);
    assert_eq!(next_number(&found), 11);
    assert_eq!(next_number(&[]), 1);
    assert_eq!(next_number(&[&stored("x", i64::MAX, &template("a"))]), i64::MAX);
}

#[test]
fn the_current_revision_is_found_by_name() {
    let (one, two) = (stored("web-1", 1, &template("a")), stored("web-2", 2, &template("b")));
    assert_eq!(current(&[&one, &two], "web-1").unwrap().name(), "web-1");
    assert!(current(&[&one, &two], "web-9").is_none());
    assert!(current(&[&one, &two], "").is_none());
}

#[test]
fn the_oldest_unused_revisions_go() {
    let revisions: Vec<_> = (1..=6).map(|it| stored(&format!("web-{it}"), it, &template("a"))).collect();
    let listed: Vec<_> = revisions.iter().collect();
    // In use: the update and the current revision, and what pods carry, by name or by short hash.
    let live = ["web-6", "web-1", "web-3", "4"];
    assert_eq!(truncate(&listed, live, 10), Vec::<String>::new());
    assert_eq!(truncate(&listed, live, 2), Vec::<String>::new());
    assert_eq!(truncate(&listed, live, 1), ["web-2"]);
    assert_eq!(truncate(&listed, live, 0), ["web-2", "web-5"]);
    assert_eq!(truncate(&listed, live, -1), Vec::<String>::new());
    assert_eq!(truncate(&[], [], 0), Vec::<String>::new());
}

#[test]
fn a_revision_put_into_a_changed_object_yields_the_same_data_again() {
    let data = wanted(&template("a")).data;
    let mut again = wanted(&data.template().unwrap());
    again.annotations.insert("added".into(), "since".into());
    let new = created(choose(&[], &again, 0));
    assert_eq!(new.data, data);
    assert_eq!(new.annotations["added"], "since");
}

#[test]
fn rev_7_a_seed_is_below_the_newest_revision_and_written_once() {
    let (old, new) = (stored("web-old", 4, &template("old")), stored("web-new", 9, &template("new")));
    let history = [&old, &new];
    let sown = seed(&history, &wanted(&template("stable")), 0).unwrap();
    assert_eq!((sown.revision, sown.data.as_str()), (8, wanted(&template("stable")).data.as_str()));
    assert_eq!(seed(&history, &wanted(&template("old")), 0), None);
    assert_eq!(seed(&[], &wanted(&template("stable")), 0).unwrap().revision, 1);
    // What the live object asks for next is above it, and what it asked for before stays the newest.
    let sown = stored(&sown.name, sown.revision, &template("stable"));
    let history = [&old, &sown, &new];
    assert_eq!(choose(&history, &wanted(&template("new")), 0), Choice::Use { name: "web-new".into() });
    assert_eq!(created(choose(&history, &wanted(&template("target")), 0)).revision, 10);
}

#[test]
fn rev_7_a_seed_without_an_owner_belongs_to_the_history_of_whoever_comes() {
    let mut early = wanted(&template("stable"));
    early.owner.uid.clear();
    let sown = seed(&[], &early, 0).unwrap();
    let read: RevisionLite = serde_json::from_str(&sown.body()).unwrap();
    assert_eq!(read.metadata.owner_references, None);
    let listed = [read];
    assert_eq!(history(&listed, "uid-9", |_| true).len(), 1);
}
