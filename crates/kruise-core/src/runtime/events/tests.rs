use std::sync::{Arc, Mutex};

use axum::http::{Method, Request, Response};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::client::Body;
use tower::{BoxError, service_fn};

use super::*;

fn pod(name: &str) -> ObjectReference {
    let pod: Pod =
        serde_json::from_value(serde_json::json!({"metadata": {"namespace": "n", "name": name, "uid": "u"}}))
            .unwrap();
    about(&pod)
}

fn note(name: &str, reason: &'static str, message: &str) -> Note {
    Note { about: pod(name), component: "test", severity: Severity::Normal, reason, message: message.into() }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn count(write: &Option<Write>) -> (bool, i32) {
    match write.as_ref().unwrap() {
        Write::Create(event) => (true, event.count.unwrap()),
        Write::Count(event) => (false, event.count.unwrap()),
    }
}

#[test]
fn a_repeat_is_counted_and_an_old_one_is_written_anew() {
    let mut combiner = Combiner::default();
    assert_eq!(count(&combiner.take_in(note("a", "FailedCreate", "quota"), at(0))), (true, 1));
    assert_eq!(count(&combiner.take_in(note("a", "FailedCreate", "quota"), at(1))), (false, 2));
    assert_eq!(count(&combiner.take_in(note("a", "FailedCreate", "webhook"), at(2))), (true, 1));
    assert_eq!(count(&combiner.take_in(note("b", "FailedCreate", "quota"), at(2))), (true, 1));
    assert_eq!(count(&combiner.take_in(note("a", "FailedCreate", "quota"), at(1_000))), (true, 1));
}

#[test]
fn many_similar_messages_become_one_event() {
    let mut combiner = Combiner::default();
    for it in 0..10 {
        let write = combiner.take_in(note("a", "SuccessfulCreate", &format!("pod {it}")), at(0));
        assert_eq!(count(&write), (true, 1));
    }
    assert_eq!(count(&combiner.take_in(note("a", "SuccessfulCreate", "pod 10"), at(1))), (true, 1));
    let Some(Write::Count(event)) = combiner.take_in(note("a", "SuccessfulCreate", "pod 11"), at(1)) else {
        panic!()
    };
    assert_eq!(event.message.as_deref(), Some("(combined from similar events): pod 11"));
    assert_eq!(event.count, Some(2));
    assert_eq!(
        count(&combiner.take_in(note("a", "SuccessfulCreate", "pod 3"), at(1))),
        (false, 2),
        "a known one"
    );
}

#[test]
fn a_flood_about_one_object_is_dropped_and_allowed_again_slowly() {
    let mut combiner = Combiner::default();
    let written = |combiner: &mut Combiner, seconds| {
        (0..100).filter(|_| combiner.take_in(note("a", "Killing", "x"), at(seconds)).is_some()).count()
    };
    assert_eq!(written(&mut combiner, 0), 25);
    assert_eq!(written(&mut combiner, 299), 0);
    assert_eq!(written(&mut combiner, 600), 2);
    assert!(combiner.take_in(note("b", "Killing", "x"), at(600)).is_some());
}

#[test]
fn memory_stays_bounded_and_messages_short() {
    let mut combiner = Combiner::default();
    for it in 0..20_000 {
        combiner.take_in(note(&format!("pod-{it}"), "Killing", "x"), at(0)).unwrap();
    }
    let long = "ä".repeat(2_000);
    let Some(Write::Create(event)) = combiner.take_in(note(&"p".repeat(253), "Killing", &long), at(0)) else {
        panic!()
    };
    assert!(event.message.unwrap().len() <= 1_024);
    assert!(event.metadata.name.unwrap().len() <= 253);
}

/// A server that notes what it is asked for and answers 404 to patches.
fn server(asked: &Arc<Mutex<Vec<(Method, serde_json::Value)>>>) -> Client {
    let asked = asked.clone();
    Client::new(
        service_fn(move |request: Request<Body>| {
            let asked = asked.clone();
            async move {
                let method = request.method().clone();
                let body = request.into_body().collect_bytes().await?;
                asked.lock().unwrap().push((method.clone(), serde_json::from_slice(&body)?));
                let code = if method == Method::PATCH { 404 } else { 201 };
                let body = if code == 404 {
                    br#"{"kind": "Status", "status": "Failure", "code": 404}"#.to_vec()
                } else {
                    body.to_vec()
                };
                Ok::<_, BoxError>(Response::builder().status(code).body(Body::from(body))?)
            }
        }),
        "default",
    )
}

#[tokio::test(start_paused = true)]
async fn events_are_written_as_kubectl_describe_reads_them() {
    let asked = Arc::default();
    let clock = Clock::following(at(0));
    let sink = Sink::new(server(&asked), clock, Metrics::default());
    let recorder = sink.recorder("cloneset-controller");
    recorder.record(pod("a"), Severity::Warning, "FailedCreate", "quota");
    recorder.record(pod("a"), Severity::Warning, "FailedCreate", "quota");
    let token = CancellationToken::new();
    let running = tokio::spawn(sink.run(token.clone()));
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    recorder.record(pod("b"), Severity::Normal, "SuccessfulCreate", "at the very end");
    token.cancel();
    running.await.unwrap();

    let asked = asked.lock().unwrap();
    let methods: Vec<_> = asked.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(
        methods,
        ["POST", "PATCH", "POST", "POST"],
        "an event that the server forgot is created again"
    );
    let event = &asked[0].1;
    assert_eq!(event["involvedObject"]["kind"], "Pod");
    assert_eq!(event["involvedObject"]["uid"], "u");
    assert_eq!(event["source"]["component"], "cloneset-controller");
    assert_eq!(
        (&event["type"], &event["reason"], &event["count"]),
        (&"Warning".into(), &"FailedCreate".into(), &1.into())
    );
    assert_eq!(asked[1].1["count"], 2);
    assert_eq!(asked[2].1["count"], 2);
    assert_eq!(asked[3].1["message"], "at the very end");
}

#[tokio::test(start_paused = true)]
async fn a_full_channel_drops_events_counts_them_and_never_waits() {
    let metrics = Metrics::default();
    let sink = Sink::new(server(&Arc::default()), Clock::system(), metrics.clone());
    let recorder = sink.recorder("test");
    for _ in 0..CAPACITY + 7 {
        recorder.record(pod("a"), Severity::Normal, "Killing", "x");
    }
    assert_eq!(metrics.events_dropped(), 7);
}
