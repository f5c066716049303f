use std::sync::Mutex;

use axum::http::{Method, Request, Response, header};
use kube::client::Body;
use serde_json::json;
use tower::{BoxError, service_fn};

use super::*;
use crate::runtime::{cache::pod::PodLite, client::CALL_TIMEOUT, clock::Clock, metrics::Metrics};

/// What the server was asked: method and path.
type Asked = Arc<Mutex<Vec<(Method, String)>>>;

const ON: On<'static> = On { call: "test", owner: "owner" };

fn body(name: &str, version: u64, owner: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "n", "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": owner, "controller": true}],
        },
    })
}

fn status(code: u16) -> (u16, Value) {
    let word = if code < 300 { "Success" } else { "Failure" };
    (code, json!({"kind": "Status", "apiVersion": "v1", "status": word, "code": code}))
}

/// A writer whose server gives these answers in turn and hangs after the last, and a list of what it was asked.
fn writer(answers: Vec<(u16, Value)>) -> (Writer<PodLite>, Cache<PodLite>, Asked) {
    let asked: Asked = Arc::default();
    let (answers, notes) = (Arc::new(Mutex::new(answers.into_iter())), asked.clone());
    let client = Client::new(
        service_fn(move |request: Request<Body>| {
            notes.lock().unwrap().push((request.method().clone(), request.uri().path().to_owned()));
            let next = answers.lock().unwrap().next();
            async move {
                let Some((code, body)) = next else { return std::future::pending().await };
                Ok::<_, BoxError>(
                    Response::builder().status(code).body(Body::from(body.to_string().into_bytes()))?,
                )
            }
        }),
        "default",
    );
    let cache = Cache::new("pods", Clock::system(), Metrics::default());
    (Writer::new(client, cache.clone()), cache, asked)
}

fn names(cache: &Cache<PodLite>) -> Vec<String> {
    cache.owned_by("owner").iter().map(|it| Key::of(&**it).to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn what_was_created_is_in_the_cache_before_the_call_returns() {
    let (writer, cache, asked) = writer(vec![(201, body("a", 5, "owner"))]);
    writer.create(ON, &Key::new("n", "a"), &body("a", 0, "owner")).await.unwrap();
    assert_eq!(names(&cache), ["n/a"]);
    assert_eq!(*asked.lock().unwrap(), [(Method::POST, "/api/v1/namespaces/n/pods".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_create_without_an_answer_is_in_doubt_and_its_repeat_finds_what_it_did() {
    let (first, cache, _) = writer(Vec::new());
    let key = Key::new("n", "a");
    let error = first.create(ON, &key, &body("a", 0, "owner")).await.unwrap_err();
    assert_eq!(error.to_string(), format!("test did not answer within {CALL_TIMEOUT:?}"));
    assert_eq!(
        cache.doubts_of("owner"),
        [Doubt { key: key.clone(), uid: None, owner: Some("owner".into()), intent: Intent::Create }]
    );

    let (second, _, asked) = writer(vec![status(409), (200, body("a", 5, "owner"))]);
    let second = Writer::new(second.client, cache.clone());
    second.create(ON, &key, &body("a", 0, "owner")).await.unwrap();
    assert_eq!((names(&cache), cache.doubts_of("owner").len()), (vec!["n/a".to_owned()], 0));
    assert_eq!(asked.lock().unwrap()[1], (Method::GET, "/api/v1/namespaces/n/pods/a".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_belongs_to_a_stranger_is_an_error() {
    let (writer, cache, _) = writer(vec![status(409), (200, body("a", 5, "stranger"))]);
    let error = writer.create(ON, &Key::new("n", "a"), &body("a", 0, "owner")).await.unwrap_err();
    assert_eq!((error.label(), cache.all().len()), ("conflict", 0));
}

#[tokio::test(start_paused = true)]
async fn a_namesake_on_its_way_out_or_gone_again_is_no_answer_to_a_create() {
    let mut leaving = body("a", 5, "owner");
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    for found in [(200, leaving), status(404)] {
        let (writer, cache, _) = writer(vec![status(409), found.clone()]);
        let error = writer.create(ON, &Key::new("n", "a"), &body("a", 0, "owner")).await.unwrap_err();
        assert_eq!((error.code(), error.label()), (Some(409), "conflict"), "{found:?}");
        assert_eq!((cache.all().len(), cache.doubts_of("owner").len()), (0, 0), "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_taken_name_whose_owner_cannot_be_asked_for_is_in_doubt() {
    for (found, doubts) in [(status(500), 1), (status(429), 1), (status(403), 0)] {
        let (writer, cache, _) = writer(vec![status(409), found.clone()]);
        let error = writer.create(ON, &Key::new("n", "a"), &body("a", 0, "owner")).await.unwrap_err();
        assert_eq!(error.code(), Some(found.0));
        let intents: Vec<_> = cache.doubts_of("owner").into_iter().map(|it| it.intent).collect();
        assert_eq!(intents, vec![Intent::Create; doubts], "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_create_leaves_nothing_behind() {
    let (writer, cache, _) = writer(vec![status(403)]);
    writer.create(ON, &Key::new("n", "a"), &body("a", 0, "owner")).await.unwrap_err();
    assert_eq!((cache.unseen_writes(), cache.doubts_of("owner").len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn deletions_are_told_apart_by_what_the_server_answers() {
    let going = |grace: i64, finalizers: &[&str]| {
        let mut pod = body("a", 7, "owner");
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        pod["metadata"]["deletionGracePeriodSeconds"] = grace.into();
        pod["metadata"]["finalizers"] = json!(finalizers);
        (200, pod)
    };
    for (answer, is_left) in [
        (going(30, &[]), true),
        (going(0, &["keep"]), true),
        (going(0, &[]), false),
        ((200, body("a", 7, "owner")), false),
        (status(200), false),
        (status(404), false),
        (status(409), false),
    ] {
        let mut namesake = body("a", 9, "owner");
        namesake["metadata"]["uid"] = "another".into();
        let (writer, cache, _) = writer(vec![answer.clone(), (200, namesake)]);
        let pod = cache.wrote(serde_json::from_value(body("a", 5, "owner")).unwrap());
        writer.delete(ON, &pod, DeleteParams::default()).await.unwrap();
        let left = cache.owned_by("owner");
        assert_eq!(left.iter().filter(|it| it.is_terminating()).count(), usize::from(is_left), "{answer:?}");
        assert_eq!(left.len(), usize::from(is_left), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_on_an_object_that_is_still_there_is_an_error() {
    let (writer, cache, _) = writer(vec![status(409), (200, body("a", 6, "owner"))]);
    let pod = cache.wrote(serde_json::from_value(body("a", 5, "owner")).unwrap());
    let error = writer.delete(ON, &pod, DeleteParams::default()).await.unwrap_err();
    assert_eq!((error.label(), cache.owned_by("owner").len()), ("conflict", 1));
    let known = cache.owned_by("owner")[0].metadata.resource_version.clone();
    assert_eq!(known.as_deref(), Some("6"), "a late watch does not let us be refused again");
}

#[tokio::test(start_paused = true)]
async fn a_look_after_a_conflict_settles_no_change_without_an_answer() {
    let (writer, cache, _) = writer(vec![status(500), status(409), (200, body("a", 6, "owner"))]);
    let pod = cache.wrote(serde_json::from_value(body("a", 5, "owner")).unwrap());
    let patch = Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
    writer.patch(ON, &pod, None, &patch, &PatchParams::default()).await.unwrap_err();
    writer.delete_as_seen(ON, &pod, DeleteParams::default()).await.unwrap_err();
    assert_eq!(cache.doubts_of("owner")[0].intent, Intent::Update);
}

#[tokio::test(start_paused = true)]
async fn patches_are_laid_over_the_cache_and_a_missing_object_is_taken_out() {
    let (writer, cache, asked) = writer(vec![(200, body("a", 7, "owner")), status(500), status(404)]);
    let pod = cache.wrote(serde_json::from_value(body("a", 5, "owner")).unwrap());
    let patch = Patch::Merge(json!({"metadata": {"labels": {"x": "y"}}}));
    let params = PatchParams::default();
    let patched = writer.patch(ON, &pod, Some("status"), &patch, &params).await.unwrap();
    assert_eq!(patched.metadata.resource_version.as_deref(), Some("7"));
    assert_eq!(asked.lock().unwrap()[0], (Method::PATCH, "/api/v1/namespaces/n/pods/a/status".to_owned()));
    writer.patch(ON, &pod, None, &patch, &params).await.unwrap_err();
    assert_eq!(cache.doubts_of("owner")[0].intent, Intent::Update);
    writer.patch(ON, &pod, None, &patch, &params).await.unwrap_err();
    assert_eq!((cache.owned_by("owner").len(), cache.doubts_of("owner").len()), (0, 0));
}

/// A writer to a server with one pod or none, which treats the UID in a patch as the API server does.
fn writer_to(pod: Option<Value>) -> (Writer<PodLite>, Cache<PodLite>, Arc<Mutex<Option<Value>>>) {
    let held = Arc::new(Mutex::new(pod));
    let server = held.clone();
    let client = Client::new(
        service_fn(move |request: Request<Body>| {
            let held = server.clone();
            async move {
                let kind = request.headers().get(header::CONTENT_TYPE);
                let is_apply = kind.is_some_and(|it| it == "application/apply-patch+yaml");
                let (parts, sent) = request.into_parts();
                let sent = sent.collect_bytes().await?;
                let (code, answer) = match parts.method {
                    Method::GET => held.lock().unwrap().clone().map_or(status(404), |it| (200, it)),
                    _ => patched(&mut held.lock().unwrap(), serde_json::from_slice(&sent)?, is_apply),
                };
                Ok::<_, BoxError>(
                    Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()))?,
                )
            }
        }),
        "default",
    );
    let cache = Cache::new("pods", Clock::system(), Metrics::default());
    (Writer::new(client, cache.clone()), cache, held)
}

/// Applies `sent` to `held` and answers.
fn patched(held: &mut Option<Value>, sent: Value, is_apply: bool) -> (u16, Value) {
    let wished = sent["metadata"]["uid"].as_str();
    let Some(pod) = held else {
        return match wished {
            _ if !is_apply => status(404),
            Some(_) => status(409),
            None => (201, held.insert(body("a", 9, "owner")).clone()),
        };
    };
    if sent.is_array() {
        let steps: json_patch::Patch = serde_json::from_value(sent).unwrap();
        return match json_patch::patch(pod, &steps) {
            Ok(()) => (200, pod.clone()),
            Err(_) => status(422),
        };
    }
    if wished.is_some_and(|it| pod["metadata"]["uid"] != it) {
        return status(409);
    }
    json_patch::merge(pod, &sent);
    (200, pod.clone())
}

fn every_patch() -> [Patch<Value>; 4] {
    let change = json!({"metadata": {"labels": {"x": "y"}}});
    let steps = json!([{"op": "add", "path": "/metadata/labels", "value": {"x": "y"}}]);
    [
        Patch::Merge(change.clone()),
        Patch::Strategic(change.clone()),
        Patch::Apply(change),
        Patch::Json(serde_json::from_value(steps).unwrap()),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_patch_never_lands_on_a_namesake_and_what_it_was_for_is_taken_out() {
    let mut namesake = body("a", 9, "owner");
    namesake["metadata"]["uid"] = "another".into();
    for patch in every_patch() {
        for subresource in [None, Some("status")] {
            let (writer, cache, held) = writer_to(Some(namesake.clone()));
            let pod = cache.wrote(serde_json::from_value(body("a", 5, "owner")).unwrap());
            let params = PatchParams { field_manager: Some("test".into()), ..PatchParams::default() };
            let error = writer.patch(ON, &pod, subresource, &patch, &params).await.unwrap_err();
            assert!(matches!(error.label(), "conflict" | "invalid"), "{error:?}");
            assert_eq!(held.lock().unwrap().as_ref(), Some(&namesake), "{patch:?}");
            assert_eq!(cache.owned_by("owner").len(), 0, "{patch:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_patch_to_an_absent_object_creates_nothing() {
    for patch in every_patch() {
        let (writer, cache, held) = writer_to(None);
        let pod = cache.wrote(serde_json::from_value(body("a", 5, "owner")).unwrap());
        let params = PatchParams { field_manager: Some("test".into()), ..PatchParams::default() };
        writer.patch(ON, &pod, None, &patch, &params).await.unwrap_err();
        assert_eq!((held.lock().unwrap().as_ref(), cache.owned_by("owner").len()), (None, 0), "{patch:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_patch_to_the_object_that_is_meant_is_taken() {
    for patch in every_patch() {
        let (writer, cache, _) = writer_to(Some(body("a", 9, "owner")));
        let pod = cache.wrote(serde_json::from_value(body("a", 5, "owner")).unwrap());
        let params = PatchParams { field_manager: Some("test".into()), ..PatchParams::default() };
        let patched = writer.patch(ON, &pod, None, &patch, &params).await.unwrap();
        assert_eq!(patched.metadata.labels.as_ref().unwrap()["x"], "y", "{patch:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_subresource_says_nothing_about_the_object() {
    let patch = Patch::Merge(json!({"spec": {}}));
    let mut namesake = body("a", 9, "owner");
    namesake["metadata"]["uid"] = "another".into();
    for (found, left) in [
        ((200, body("a", 6, "owner")), 1),
        (status(500), 1),
        (status(403), 1),
        ((200, namesake), 0),
        (status(404), 0),
    ] {
        let (writer, cache, asked) = writer(vec![status(404), found.clone()]);
        let pod = cache.wrote(serde_json::from_value(body("a", 5, "owner")).unwrap());
        let params = PatchParams::default();
        let error = writer.patch(ON, &pod, Some("resize"), &patch, &params).await.unwrap_err();
        assert_eq!(error.label(), "not_found");
        assert_eq!(asked.lock().unwrap()[1], (Method::GET, "/api/v1/namespaces/n/pods/a".to_owned()));
        assert_eq!((cache.owned_by("owner").len(), cache.doubts_of("owner").len()), (left, 0), "{found:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_conflicts_for_another_reason_leaves_the_object_in_the_cache() {
    for code in [409, 422] {
        let (writer, cache, _) = writer(vec![status(code), (200, body("a", 6, "owner"))]);
        let pod = cache.wrote(serde_json::from_value(body("a", 5, "owner")).unwrap());
        let patch = Patch::Merge(json!({"spec": {}}));
        let error = writer.patch(ON, &pod, None, &patch, &PatchParams::default()).await.unwrap_err();
        assert_eq!((error.code(), cache.owned_by("owner").len()), (Some(code), 1));
    }
}
