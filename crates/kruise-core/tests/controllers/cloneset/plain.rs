//! One fixed story: in fair weather, and with the controller killed after each of its writes.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use axum::http::Method;
use kruise_core::api::common::keys;
use serde_json::json;
use sim::{
    World,
    faults::Weather,
    server::admission::{Hook, Operation, Stage, Verdict},
};

use super::{
    agent::{Agents, Flaw},
    in_parallel,
    ledger::Ledger,
    objects::{self, SETS},
    rest,
    run::{cluster, edit},
};
use crate::kit::*;

/// What is left at the end.
#[derive(Debug, PartialEq, Eq)]
struct End {
    /// The releases of the pods.
    releases: Vec<String>,
    claims: usize,
    revisions: Vec<String>,
    current: Option<String>,
}

fn end(world: &World) -> End {
    let mut releases: Vec<String> = objects::pods(world).into_iter().map(|it| it.release).collect();
    releases.sort();
    End {
        releases,
        claims: objects::claims(world).len(),
        revisions: objects::revisions(world).into_keys().collect(),
        current: objects::set(world).and_then(|it| it.current),
    }
}

fn uids(world: &World) -> BTreeSet<String> {
    objects::pods(world).into_iter().map(|it| it.uid).collect()
}

fn count(world: &World, release: &str) -> usize {
    objects::pods(world).iter().filter(|it| it.release == release).count()
}

/// The story, step by step; each ends at rest.
async fn story(world: &World, ledger: &Ledger) -> Result<(), String> {
    let rolling = json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 2, "partition": 3});
    let spec = json!({
        "volumeClaimTemplates": [objects::claim_template()], "revisionHistoryLimit": 1, "minReadySeconds": 2,
        "updateStrategy": {"rollingUpdate": rolling},
    });
    let rest = || rest::reach(world, ledger);
    write(world, Method::POST, SETS, &objects::cloneset(&spec));
    rest().await?;

    edit(world, &json!({"replicas": 5}));
    rest().await?;
    let scaled = uids(world);
    assert_eq!((scaled.len(), objects::claims(world).len()), (5, 5));

    edit(world, &json!({"template": objects::template("web:2", 1)}));
    rest().await?;
    assert_eq!(
        (count(world, "web:1 \"1\""), count(world, "web:2 \"1\"")),
        (3, 2),
        "the partition keeps three"
    );
    edit(world, &json!({"updateStrategy": {"rollingUpdate": {"partition": 0}}}));
    rest().await?;
    assert_eq!(count(world, "web:2 \"1\""), 5);
    assert_eq!(uids(world), scaled, "updated in place");

    edit(world, &json!({"template": objects::template("web:2", 2)}));
    rest().await?;
    assert_eq!(count(world, "web:2 \"2\""), 5);
    assert!(uids(world).is_disjoint(&scaled), "an environment cannot be changed in place");

    let named = objects::pods(world).swap_remove(2);
    edit(world, &json!({"replicas": 4, "scaleStrategy": {"podsToDelete": [named.name]}}));
    rest().await?;
    assert!(!uids(world).contains(&named.uid), "the named pod went");

    let marked = objects::pods(world).swap_remove(1);
    let hook = json!({"preDelete": {"labelsHandler": {objects::HOOK: "on"}}});
    let surge = json!({"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    edit(world, &json!({"lifecycle": hook, "updateStrategy": surge}));
    let mark = json!({"metadata": {"labels": {keys::SPECIFIED_DELETE: "true"}}});
    write(world, Method::PATCH, &format!("{PODS}/{}", marked.name), &mark);
    rest().await?;
    assert!(!uids(world).contains(&marked.uid), "the marked pod was replaced, after its successor was there");

    edit(world, &json!({"replicas": 2, "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1}}}));
    rest().await?;
    let lost = objects::pods(world).swap_remove(0);
    write(world, Method::DELETE, &format!("{PODS}/{}", lost.name), &json!({}));
    rest().await?;
    assert!(!uids(world).contains(&lost.uid));
    Ok(())
}

/// Runs the story; the controller is killed once, right after this many writes. Gives the writes it made, and the end.
fn tell(killed_after: Option<u64>) -> Result<(u64, End), String> {
    cluster(1, Weather::calm()).run(async |world| {
        let (agents, eyes) = Agents::start(&world, Flaw::None, 1);
        let ledger = Ledger::keep(&world, &eyes);
        if let Some(writes) = killed_after {
            agents.crash_after_writes(writes);
        }
        story(&world, &ledger).await?;
        let writes = agents.writes();
        if killed_after.is_some() && agents.starts() != 2 {
            return Err(format!("it was started {} times", agents.starts()));
        }
        if killed_after.is_none() {
            rest::stay(&world, &agents, 3_600).await?;
        }
        ledger.broken().map_or(Ok(()), Err)?;
        Ok((writes, end(&world)))
    })
}

#[test]
fn pods_follow_the_spec_and_rest_when_they_are_there() {
    let (writes, end) = tell(None).unwrap();
    assert_eq!(end.releases, ["web:2 \"2\"", "web:2 \"2\""]);
    // Two pods, their claims, and one old revision beside the live one.
    assert_eq!((end.claims, end.revisions.len()), (2, 2), "{end:?}");
    assert!(writes > 60, "{writes}");
}

#[test]
fn it_makes_no_difference_after_which_write_the_controller_is_killed() {
    let (writes, calm) = tell(None).unwrap();
    // After the last write of all there is nothing to be started again for.
    let ends = in_parallel(1..writes, |it| tell(Some(it)));
    let differing: Vec<_> = ends.iter().filter(|(_, it)| it.as_ref().map(|it| &it.1) != Ok(&calm)).collect();
    for (killed_after, it) in &differing {
        println!("killed after write {killed_after}: {it:?}");
    }
    println!("{writes} writes");
    assert!(differing.is_empty(), "{} of {writes} ended differently", differing.len());
}

/// What the controller writes from now on: the kinds, in order.
fn note_writes(world: &World) -> Arc<Mutex<Vec<String>>> {
    let noted = Arc::<Mutex<Vec<String>>>::default();
    let notes = noted.clone();
    world.cluster(CLUSTER).server().admit(Hook {
        name: "notes.test".to_owned(),
        stage: Stage::Validating,
        kinds: ["pods", "clonesets.apps.kruise.io/status"].map(str::to_owned).into(),
        operations: vec![Operation::Create, Operation::Update, Operation::Delete],
        fail_open: false,
        call: Arc::new(move |review| {
            if Agents::are(review.manager) {
                notes.lock().unwrap().push(review.resource.qualified());
            }
            Verdict::Allow
        }),
    });
    noted
}

/// Whoever sees a pod change looks at the CloneSet next, and must not be told that it is at rest.
#[test]
fn that_something_is_going_on_is_told_before_it_can_be_seen_on_pods() {
    cluster(1, Weather::calm()).run(async |world| {
        let (_agents, eyes) = Agents::start(&world, Flaw::None, 1);
        let ledger = Ledger::keep(&world, &eyes);
        write(&world, Method::POST, SETS, &objects::cloneset(&json!({"replicas": 3})));
        rest::reach(&world, &ledger).await.unwrap();
        let named = objects::pods(&world).swap_remove(0).name;
        let noted = note_writes(&world);
        for change in [
            json!({"replicas": 2, "scaleStrategy": {"podsToDelete": [named]}}),
            json!({"replicas": 4}),
            json!({"template": objects::template("web:2", 1)}),
        ] {
            noted.lock().unwrap().clear();
            edit(&world, &change);
            rest::reach(&world, &ledger).await.unwrap();
            let kinds = noted.lock().unwrap();
            assert_eq!(
                kinds.first().map(String::as_str),
                Some("clonesets.apps.kruise.io"),
                "{change}: {kinds:?}"
            );
            assert!(kinds.iter().any(|it| it == "pods"), "{change}: {kinds:?}");
        }
    });
}
