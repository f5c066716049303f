//! A running server: bad questions, changes from outside, and the end.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Request, StatusCode},
};
use serde_json::{Value, json};
use tokio::{sync::Notify, time::timeout};
use tower::Service;

use super::{
    fake_api::{CRDS, FakeApi, MUTATING, VALIDATING},
    replica::{CRD, PATIENCE, Replica, VALIDATE, ask, client_config, conversion, crd, install, review},
};
use crate::runtime::{
    health::{Checks, probes},
    webhook::{Error, Event, Host, Server, Verdict, routes::Routes},
};

/// The paths of a server without its sockets.
fn routes(review: impl Fn() -> Verdict + Send + Sync + 'static) -> Router {
    let reviewer = move |_| {
        let verdict = review();
        Box::pin(async move { verdict }) as futures::future::BoxFuture<'static, Verdict>
    };
    Routes {
        reviews: [(VALIDATE.to_owned(), Arc::new(reviewer) as _)].into(),
        converter: Some(Arc::new(|_, _| panic!("conversions are broken"))),
        observer: Arc::new(|_| {}),
    }
    .router()
}

async fn post(router: &mut Router, path: &str, body: impl Into<Body>) -> (StatusCode, Value) {
    let response = router.call(Request::post(path).body(body.into()).unwrap()).await.unwrap();
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn what_cannot_be_read_is_answered_with_400_and_what_is_too_large_with_413() {
    let mut router = routes(Verdict::allow);
    for path in [VALIDATE, "/convert"] {
        for body in ["", "{", "[]", "{\"kind\":\"AdmissionReview\"}"] {
            assert_eq!(post(&mut router, path, body).await.0, StatusCode::BAD_REQUEST, "{path} {body}");
        }
    }
    let large = format!("{{\"pad\":\"{}\"}}", "x".repeat(8 << 20));
    assert_eq!(post(&mut router, VALIDATE, large).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(post(&mut router, "/validate-unknown", "{}").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_panic_is_an_answer_that_names_the_object() {
    let mut router = routes(|| panic!("reviews are broken"));
    for _ in 0..3 {
        let (status, answer) = post(&mut router, VALIDATE, review(1).to_string()).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(answer["response"]["uid"], "u1");
        assert_eq!(answer["response"]["status"]["code"], 500);
        let message = answer["response"]["status"]["message"].as_str().unwrap();
        assert_eq!(message, "the review of Widget default/w failed unexpectedly");
        let (status, answer) = post(&mut router, "/convert", conversion().to_string()).await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(answer["response"]["result"]["status"], "Failure");
    }
}

#[tokio::test]
async fn a_patch_without_an_object_is_a_failure_of_ours() {
    let mut router = routes(|| Verdict::patched(json!({})));
    let mut deleting = review(1);
    deleting["request"]["operation"] = json!("DELETE");
    deleting["request"]["oldObject"] = deleting["request"]["object"].take();
    let (_, answer) = post(&mut router, VALIDATE, deleting.to_string()).await;
    assert_eq!(answer["response"]["status"]["code"], 500);
}

#[tokio::test(start_paused = true)]
async fn a_review_that_hangs_is_answered_before_the_api_server_gives_up() {
    let hanging = |_| Box::pin(std::future::pending()) as futures::future::BoxFuture<'static, Verdict>;
    let (outcomes, mut seen) = tokio::sync::mpsc::unbounded_channel();
    let observer = move |event: &Event<'_>| {
        if let Event::Answered { path, outcome, elapsed } = event {
            outcomes.send(((*path).to_owned(), *outcome, *elapsed)).unwrap();
        }
    };
    let mut router = Routes {
        reviews: [(VALIDATE.to_owned(), Arc::new(hanging) as _)].into(),
        converter: None,
        observer: Arc::new(observer),
    }
    .router();
    let (_, answer) = post(&mut router, VALIDATE, review(1).to_string()).await;
    assert_eq!(answer["response"]["status"]["code"], 500);
    let (path, outcome, elapsed) = seen.recv().await.unwrap();
    assert_eq!((path.as_str(), outcome), (VALIDATE, "failed"));
    assert!(elapsed < Duration::from_secs(10));
}

#[tokio::test]
async fn fields_at_fault_reach_the_api_server() {
    let api = FakeApi::new();
    install(&api);
    let replica = Replica::start(&api, |it| it).ready().await;
    let (client_config, _) = client_config(&api, VALIDATING);
    let answer = ask(&client_config, replica.handle.address(), VALIDATE, &review(-1)).await.unwrap();
    assert_eq!(answer["response"]["allowed"], false);
    assert_eq!(answer["response"]["status"]["details"]["causes"][0]["field"], "spec.replicas");
    replica.stop().await;
}

#[tokio::test]
async fn at_rest_nothing_is_written() {
    let api = FakeApi::new();
    install(&api);
    let mut replica = Replica::start(&api, |it| it).ready().await;
    let settled = api.writes();
    assert_eq!(settled.len(), 4, "the Secret, two configurations and a CRD: {settled:?}");
    replica.another_round().await; // The watches have started.
    for _ in 0..3 {
        let (_, mut configuration) = client_config(&api, MUTATING);
        configuration["metadata"]["labels"] = json!({ "touched": "true" });
        api.put(MUTATING, configuration);
        replica.another_round().await;
    }
    assert_eq!(api.writes(), settled);
    replica.stop().await;

    let again = Replica::start(&api, |it| it).ready().await;
    assert_eq!(api.writes(), settled, "a restart at rest writes nothing");
    again.stop().await;
}

#[tokio::test]
async fn manifests_that_are_applied_again_are_repaired_at_once() {
    let api = FakeApi::new();
    install(&api);
    let replica = Replica::start(&api, |it| it).ready().await;
    let trusted = client_config(&api, VALIDATING).0;
    let converted = api.get(CRDS, CRD).unwrap()["spec"].clone();

    install(&api);
    assert_ne!(client_config(&api, VALIDATING).0, trusted);
    let repaired = api.wait_until(|it| {
        client_config(it, VALIDATING).0 == trusted && it.get(CRDS, CRD).unwrap()["spec"] == converted
    });
    timeout(PATIENCE, repaired).await.unwrap();
    replica.answers(&api).await.unwrap();
    replica.stop().await;
}

#[tokio::test]
async fn a_kind_that_is_installed_later_is_converted_then() {
    let api = FakeApi::new();
    install(&api);
    api.delete(CRDS, CRD);
    let replica = Replica::start(&api, |it| it).ready().await;
    api.put(CRDS, crd());
    let bundle = |it: &FakeApi| {
        it.get(CRDS, CRD).unwrap()["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"].clone()
    };
    timeout(PATIENCE, api.wait_until(|it| !bundle(it).is_null())).await.unwrap();
    replica.answers(&api).await.unwrap();
    replica.stop().await;
}

#[tokio::test]
async fn a_request_in_flight_is_answered_before_the_server_ends() {
    let api = FakeApi::new();
    install(&api);
    let (asked, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let reviewing = (Arc::clone(&asked), Arc::clone(&go_on));
    let replica = Replica::start(&api, |it| {
        it.review_async(VALIDATE, move |_| {
            let (asked, go_on) = reviewing.clone();
            async move {
                asked.notify_one();
                go_on.notified().await;
                Verdict::allow()
            }
        })
    });
    let replica = replica.ready().await;
    let (client_config, address) = (client_config(&api, VALIDATING).0, replica.handle.address());
    let call = tokio::spawn(async move { ask(&client_config, address, VALIDATE, &review(1)).await });
    timeout(PATIENCE, asked.notified()).await.unwrap();
    replica.token.cancel();
    go_on.notify_one();
    assert_eq!(timeout(PATIENCE, call).await.unwrap().unwrap().unwrap()["response"]["allowed"], true);
    timeout(PATIENCE, replica.task).await.unwrap().unwrap().unwrap();
}

#[test]
fn a_server_that_was_told_too_little_does_not_start() {
    let missing = |it: Result<Server, Error>| match it.unwrap_err() {
        Error::Incomplete(what) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(missing(Server::builder().bind()), "a host");
    let no_name = Server::builder().host(Host::url("not a name")).bind();
    assert_eq!(missing(no_name), "a host that is a DNS name or an address");
    let with_host = || Server::builder().host(Host::url("localhost"));
    assert_eq!(missing(with_host().bind()), "a place for its certificate");
    assert_eq!(missing(with_host().directory("certs").bind()), "its own namespace");
    assert_eq!(missing(with_host().secret("ns", "name").bind()), "a clock");
}

#[tokio::test]
async fn readiness_follows_the_server_as_a_probe_sees_it() {
    let api = FakeApi::new();
    install(&api);
    let replica = Replica::start(&api, |it| it);
    let handle = replica.handle.clone();
    let ready = Checks::default().with_probe("webhook-ready", move || {
        let handle = handle.clone();
        async move { handle.check().await.map_err(|it| it.to_string()) }
    });
    let mut router = probes(Checks::default(), ready);
    let mut readyz = async || {
        let answer = router.call(Request::get("/readyz").body(Body::empty()).unwrap()).await.unwrap();
        let (code, text) = (answer.status(), to_bytes(answer.into_body(), usize::MAX).await.unwrap());
        (code, String::from_utf8(text.to_vec()).unwrap())
    };

    let (code, text) = readyz().await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR, "{text}");
    assert!(text.contains("[-] webhook-ready failed: the webhook server is not ready yet"), "{text}");
    let replica = replica.ready().await;
    let (code, text) = readyz().await;
    assert_eq!((code, text.as_str()), (StatusCode::OK, "[+] ping ok\n[+] webhook-ready ok\nok\n"));
    replica.stop().await;
    let (code, text) = readyz().await;
    assert_eq!(code, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(text.contains("[-] webhook-ready failed: the webhook server does not answer"), "{text}");
}
