//! Attempts against a fake runtime, and against servers on loopback.

use std::collections::BTreeMap;

use ProbeState::{Failed, Succeeded};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;
use crate::daemon::cri::{
    ContainerState,
    fake::{Asked, FakeRuntime},
};

fn key(ip: &str) -> ProbeKey {
    ProbeKey {
        namespace: "shop".into(),
        pod: "web".into(),
        uid: "u".into(),
        ip: ip.into(),
        container: "main".into(),
        probe: "m#a".into(),
    }
}

fn container() -> Container {
    Container {
        id: "abc".into(),
        sandbox_id: "box".into(),
        name: "main".into(),
        state: ContainerState::Running,
        created_at: Timestamp::UNIX_EPOCH,
        started_at: Some(Timestamp::UNIX_EPOCH),
        hash: 0,
        restart_count: 0,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    }
}

async fn attempt(runtime: &FakeRuntime, ip: &str, fields: Value) -> Result<(ProbeState, String), Error> {
    let wanted: Probe = serde_json::from_value(fields).unwrap();
    let answer = probe(runtime, &key(ip), &container(), &wanted).await?;
    Ok((answer.state, answer.message))
}

async fn exec(answer: Result<Vec<u8>, cri::Error>) -> Result<(ProbeState, String), Error> {
    let runtime = FakeRuntime::default();
    *runtime.exec_answer.lock().unwrap() = Some(answer);
    let result = attempt(&runtime, "", json!({"exec": {"command": ["check", "it"]}})).await;
    assert_eq!(runtime.asked(), [Asked::Exec("abc".into(), vec!["check".into(), "it".into()])]);
    result
}

#[tokio::test(start_paused = true)]
async fn a_command_succeeds_with_its_output_and_fails_with_its_complaint() {
    assert_eq!(exec(Ok(b"fine\n".into())).await.unwrap(), (Succeeded, "fine".into()));
    let failed = cri::Error::CommandFailed { code: 3, stderr: "no such file".into() };
    assert_eq!(exec(Err(failed)).await.unwrap(), (Failed, "no such file".into()));
    let late = cri::Error::CommandTimedOut;
    assert_eq!(exec(Err(late)).await.unwrap(), (Failed, "command timed out".into()));
    let broken = exec(Err(cri::Error::Incomplete("broken"))).await;
    assert!(matches!(broken, Err(Error::Runtime(_))), "no result: {broken:?}");
}

#[tokio::test(start_paused = true)]
async fn messages_are_cut_to_1024_characters_and_never_within_one() {
    for letter in ["x", "ü", "🚢"] {
        let (_, message) = exec(Ok(letter.repeat(2_000).into_bytes())).await.unwrap();
        assert_eq!(message, letter.repeat(1_024));
    }
    let (_, message) = exec(Ok(vec![b'x'; 1_024])).await.unwrap();
    assert_eq!(message.len(), 1_024);
    let (_, message) = exec(Ok(vec![0xff; 20_000])).await.unwrap();
    assert_eq!(message.chars().count(), 1_024, "output need not be text");
}

#[tokio::test(start_paused = true)]
async fn without_a_handler_there_is_no_result() {
    for fields in [json!({}), json!({"grpc": {"port": 80}})] {
        let error = attempt(&FakeRuntime::default(), "127.0.0.1", fields).await.unwrap_err();
        assert_eq!(error.to_string(), "missing probe handler for main");
    }
}

/// Gives each connection the next answer, the last one again and again, and counts.
async fn server(answers: &'static [&'static str]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        for place in 0.. {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
            let _ = stream.write_all(answers[place.min(answers.len() - 1)].as_bytes()).await;
        }
    });
    port
}

async fn get_from(answers: &'static [&'static str]) -> (ProbeState, String) {
    let port = server(answers).await;
    attempt(&FakeRuntime::default(), "127.0.0.1", json!({"httpGet": {"port": port, "path": "/ok"}}))
        .await
        .unwrap()
}

const WELL: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[tokio::test]
async fn answers_from_200_to_399_are_successes() {
    assert_eq!(get_from(&[WELL]).await, (Succeeded, "hello".into()));
    assert_eq!(get_from(&["HTTP/1.1 204 No Content\r\n\r\n"]).await, (Succeeded, String::new()));
    const UNCHANGED: &str = "HTTP/1.1 304 Not Modified\r\n\r\n";
    assert_eq!(get_from(&[UNCHANGED]).await, (Succeeded, "redirect (304) not followed:".into()));
    let failed = |code| (Failed, format!("HTTP probe failed with statuscode: {code}"));
    assert_eq!(get_from(&["HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"]).await, failed(400));
    assert_eq!(get_from(&["HTTP/1.1 503 Unavailable\r\nContent-Length: 0\r\n\r\n"]).await, failed(503));
}

#[tokio::test]
async fn redirects_are_followed_within_the_host_only() {
    const HERE: &str =
        "HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(get_from(&[HERE, WELL]).await, (Succeeded, "hello".into()));
    assert_eq!(get_from(&[HERE]).await, (Failed, "sent on more than 10 times".into()));
    const AWAY: &str = "HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\nContent-Length: 4\r\n\r\naway";
    assert_eq!(get_from(&[AWAY]).await, (Succeeded, "redirect (302) not followed: away".into()));
}

#[tokio::test]
async fn nobody_who_answers_is_a_failure_and_a_request_that_cannot_be_made_no_result() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let runtime = FakeRuntime::default();
    for fields in [json!({"httpGet": {"port": port}}), json!({"tcpSocket": {"port": port}})] {
        let (state, message) = attempt(&runtime, "127.0.0.1", fields).await.unwrap();
        assert_eq!(state, Failed);
        let expected = format!("cannot connect to 127.0.0.1:{port}: Connection refused");
        assert!(message.starts_with(&expected), "{message}");
    }
    for action in [json!({"port": 0}), json!({"port": 65_536}), json!({"port": 80, "path": "a%zz"})] {
        let result = attempt(&runtime, "127.0.0.1", json!({ "httpGet": action })).await;
        assert!(matches!(result, Err(Error::Request(_))), "{result:?}");
    }
    let (state, message) = attempt(&runtime, "127.0.0.1", json!({"tcpSocket": {"port": 0}})).await.unwrap();
    assert_eq!((state, message.as_str()), (Failed, "there is no port 0"));
}

#[tokio::test]
async fn a_connection_is_enough_and_a_pod_without_an_address_is_asked_for_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let runtime = FakeRuntime::default();
    let plain = json!({"tcpSocket": {"port": port}});
    assert_eq!(attempt(&runtime, "127.0.0.1", plain.clone()).await.unwrap(), (Succeeded, String::new()));
    // The fake runtime says that every sandbox is at 127.0.0.1.
    assert_eq!(attempt(&runtime, "", plain).await.unwrap().0, Succeeded);
    let named = json!({"tcpSocket": {"port": port.to_string(), "host": "localhost"}});
    assert_eq!(attempt(&runtime, "192.0.2.1", named).await.unwrap().0, Succeeded);
}

#[tokio::test(start_paused = true)]
async fn who_does_not_answer_in_time_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let fields = json!({"httpGet": {"port": port}, "timeoutSeconds": 3});
    let result = attempt(&FakeRuntime::default(), "127.0.0.1", fields).await.unwrap();
    assert_eq!(result, (Failed, "no answer within 3 s".into()));
}
