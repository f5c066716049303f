//! Requests of hooks and probes, against a server on loopback.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

fn action(action: serde_json::Value) -> HTTPGetAction {
    serde_json::from_value(action).unwrap()
}

fn filled(fields: serde_json::Value) -> Result<Call, Error> {
    call(HOOK, &action(fields), &[], Some("10.0.0.1"))
}

#[test]
fn host_and_port_are_filled_in_from_the_pod() {
    let ports: Vec<ContainerPort> =
        serde_json::from_value(json!([{"name": "admin", "containerPort": 8081}])).unwrap();
    let it = call(HOOK, &action(json!({"port": "admin", "path": "stop"})), &ports, Some("10.0.0.1")).unwrap();
    assert_eq!(
        (it.host.as_str(), it.port, it.path.as_str(), it.is_https),
        ("10.0.0.1", 8081, "/stop", false)
    );
    let it =
        call(HOOK, &action(json!({"port": "80", "host": "[::1]", "scheme": "HTTPS"})), &[], None).unwrap();
    assert_eq!((it.host.as_str(), it.port, it.is_https), ("::1", 80, true));
}

#[test]
fn what_cannot_be_filled_in_is_an_error() {
    assert!(call(HOOK, &action(json!({"port": 80})), &[], None).is_err(), "no address");
    for port in [json!("admin"), json!(0), json!(65_536), json!(-1)] {
        assert!(filled(json!({ "port": port })).is_err(), "{port}");
    }
    for path in ["path%notvalid", "/half%2", "/line\nbreak"] {
        assert!(filled(json!({"port": 80, "path": path})).is_err(), "{path}");
    }
}

#[test]
fn paths_are_sent_as_they_are_or_escaped() {
    let cases = [
        ("", "/"),
        ("/path", "/path"),
        ("?foo", "/?foo"),
        ("/path?bar=1&x=%20", "/path?bar=1&x=%20"),
        ("/path#foo", "/path"),
        ("/a b/ü", "/a%20b/%C3%BC"),
    ];
    for (path, sent) in cases {
        let call = filled(json!({"port": 80, "path": path})).unwrap();
        assert_eq!(call.path, sent, "{path}");
        assert!(request(&call).is_ok(), "{path}");
    }
}

fn headers(fields: &[(&str, &str)]) -> Vec<(String, String)> {
    let fields: Vec<_> = fields.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    let call =
        call(PROBE, &action(json!({"port": 80, "httpHeaders": fields})), &[], Some("fd00::1")).unwrap();
    let sent = request(&call).unwrap();
    let mut all: Vec<_> = sent
        .headers()
        .iter()
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    all.sort();
    all
}

#[test]
fn headers_of_the_handler_win_and_an_empty_accept_removes_it() {
    let owned = |it: &[(&str, &str)]| -> Vec<_> {
        it.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let plain = [("accept", "*/*"), ("host", "[fd00::1]:80"), ("user-agent", "kube-probe")];
    assert_eq!(headers(&[]), owned(&plain));
    let given = [("Accept", ""), ("Host", "shop.example"), ("User-Agent", "me"), ("X-A", "1"), ("X-A", "2")];
    let sent = [("host", "shop.example"), ("user-agent", "me"), ("x-a", "1"), ("x-a", "2")];
    assert_eq!(headers(&given), owned(&sent));
    assert_eq!(headers(&[("Accept", "text/html")])[0].1, "text/html");
}

#[test]
fn redirects_to_the_same_host_are_taken_and_others_are_not() {
    let call = filled(json!({"port": 8080, "path": "/a/b?c"})).unwrap();
    let to = |location: &str| call.redirected(location).map(|it| (it.is_https, it.port, it.path));
    assert_eq!(to("/x?y"), Some((false, 8080, "/x?y".into())));
    assert_eq!(to("x"), Some((false, 8080, "/a/x".into())));
    assert_eq!(to("http://10.0.0.1:9090/x"), Some((false, 9090, "/x".into())));
    assert_eq!(to("https://10.0.0.1/x"), Some((true, 443, "/x".into())));
    assert_eq!(to("http://10.0.0.2:8080/x"), None);
    assert_eq!(to("http://[not a host"), None);
}

#[test]
fn a_redirect_names_a_host_only_at_its_beginning_and_in_any_case() {
    let mut call = filled(json!({"port": 8080, "path": "/a/b", "host": "shop.example"})).unwrap();
    let to =
        |call: &Call, location: &str| call.redirected(location).map(|it| (it.is_https, it.port, it.path));
    let login = "/login?next=https://x/";
    assert_eq!(to(&call, login), Some((false, 8080, login.into())));
    assert_eq!(to(&call, "login?next=https://x/"), Some((false, 8080, "/a/login?next=https://x/".into())));
    assert_eq!(to(&call, "HTTPS://Shop.Example:8443/x"), Some((true, 8443, "/x".into())));
    assert_eq!(to(&call, "//shop.example:81/x"), Some((false, 81, "/x".into())));
    assert_eq!(to(&call, "//other.example/x"), None);
    call.is_https = true;
    assert_eq!(to(&call, "//shop.example/x"), Some((true, 443, "/x".into())));
}

/// Answers every connection in plain text and gives the first request that made sense.
async fn server(answer: &'static str) -> (u16, tokio::task::JoinHandle<String>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let task = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut buffer = vec![0; 4096];
            let count = stream.read(&mut buffer).await.unwrap();
            let _ = stream.write_all(answer.as_bytes()).await;
            let request = String::from_utf8_lossy(&buffer[..count]).into_owned();
            if request.starts_with("GET") {
                return request;
            }
        }
    });
    (port, task)
}

fn local(port: u16, is_https: bool) -> Call {
    let headers = vec![("x-hook".to_owned(), "yes".to_owned())];
    Call { agent: HOOK, is_https, host: "127.0.0.1".into(), port, path: "/stop".into(), headers }
}

#[tokio::test]
async fn a_request_of_a_hook_arrives_also_where_tls_was_expected_and_is_not_spoken() {
    for is_https in [false, true] {
        let (port, task) = server("HTTP/1.1 204 No Content\r\n\r\n").await;
        assert_eq!(get(&local(port, is_https)).await.unwrap(), 204);
        let request = task.await.unwrap().to_lowercase();
        assert!(request.starts_with("get /stop http/1.1") && request.contains("x-hook: yes"), "{request}");
    }
}

#[tokio::test]
async fn a_probe_speaks_tls_or_nothing() {
    let (port, _task) = server("HTTP/1.1 204 No Content\r\n\r\n").await;
    assert!(matches!(fetch(&local(port, true), 0).await, Err(Error::Tls(..))));
}

#[tokio::test]
async fn as_much_of_a_body_is_read_as_was_asked_for() {
    let with_length = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nLocation: /x\r\n\r\n0123456789";
    let until_the_end = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n0123456789";
    for answer in [with_length, until_the_end] {
        for (limit, body) in [(0, ""), (4, "0123"), (10, "0123456789"), (99, "0123456789")] {
            let (port, _task) = server(answer).await;
            let it = fetch(&local(port, false), limit).await.unwrap();
            assert_eq!((it.status, it.body.as_slice()), (200, body.as_bytes()));
            assert_eq!(it.location.is_some(), answer == with_length);
        }
    }
}

#[tokio::test]
async fn a_complete_answer_counts_whatever_follows_it_and_an_incomplete_one_does_not() {
    // Which of the two is noticed first is a matter of luck.
    for _ in 0..20 {
        let (port, _task) = server("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\n").await;
        let it = fetch(&local(port, false), 99).await.unwrap();
        assert_eq!((it.status, it.body.as_slice()), (200, b"ok".as_slice()));
        let (port, _task) = server("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok").await;
        assert!(matches!(fetch(&local(port, false), 99).await, Err(Error::Http(_))));
    }
}
