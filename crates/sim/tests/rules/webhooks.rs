//! Webhooks outside of the process: who is asked, and what an answer does.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, header::CONTENT_TYPE};
use serde_json::{Value, json};
use sim::{
    seed::Seed,
    server::{
        Answer, Cluster, Settings,
        request::ApiRequest,
        webhooks::{Hearing, Question, Said},
    },
    time::Clock,
};

const GROUP: &str = "admissionregistration.k8s.io";

fn cluster() -> Cluster {
    Cluster::new("a", Seed::new(1), Clock::virtual_epoch(), Settings::default())
}

fn webhook(name: &str) -> Value {
    json!({
        "name": name, "clientConfig": {"url": "https://127.0.0.1:1/x", "caBundle": "YQ=="},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
    })
}

fn configure(cluster: &Cluster, kind: &str, webhook: Value) {
    let path = format!("/apis/{GROUP}/v1/{}s", kind.to_lowercase());
    let body = json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": "ours"}, "webhooks": [webhook]});
    cluster.write(Method::POST, &path, &body).unwrap();
}

fn request(hearing: Option<Hearing>) -> ApiRequest {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"k": "1"}});
    let uri = "/api/v1/namespaces/default/configmaps".parse().unwrap();
    let read =
        ApiRequest::read(&Method::POST, &uri, &headers, Bytes::from(body.to_string())).unwrap().unwrap();
    ApiRequest { hearing, ..read }
}

/// Sends a request until nobody is asked any more; who was asked, and the last code and body.
fn told(cluster: &Cluster, mut say: impl FnMut(&Question) -> Said) -> (Vec<String>, u16, Value) {
    let (mut hearing, mut asked) = (Hearing::default(), Vec::new());
    loop {
        match cluster.handle(&request(Some(hearing.clone()))) {
            Answer::Ask(question) => {
                asked.push(question.name.clone());
                let said = say(&question);
                hearing.hear(*question, said);
            }
            Answer::Body { code, body } => return (asked, code, serde_json::from_slice(&body).unwrap()),
            Answer::Object { .. } | Answer::Watch(_) => panic!("a write is answered with text"),
        }
    }
}

fn allowed() -> Said {
    Said::Response(json!({"allowed": true}))
}

#[tokio::test(start_paused = true)]
async fn a_write_without_a_hearing_is_reviewed_by_nobody() {
    let cluster = cluster();
    configure(&cluster, "ValidatingWebhookConfiguration", webhook("v.example.com"));
    assert_eq!(cluster.handle(&request(None)).code(), 201);
}

#[tokio::test(start_paused = true)]
async fn a_patch_changes_what_is_stored_and_what_validators_see() {
    let cluster = cluster();
    configure(&cluster, "MutatingWebhookConfiguration", webhook("m.example.com"));
    configure(&cluster, "ValidatingWebhookConfiguration", webhook("v.example.com"));
    let patch = BASE64_STANDARD.encode(r#"[{"op": "add", "path": "/data/k", "value": "2"}]"#);
    let (asked, code, made) = told(&cluster, |question| match question.name.as_str() {
        "m.example.com" => {
            assert_eq!(
                (question.url.as_deref(), &question.authorities[..]),
                (Some("https://127.0.0.1:1/x"), &b"a"[..])
            );
            Said::Response(json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
        }
        _ => {
            assert_eq!(question.request["object"]["data"]["k"], "2");
            allowed()
        }
    });
    assert_eq!((asked.join(" "), code), ("m.example.com v.example.com".to_owned(), 201));
    assert_eq!(made["data"]["k"], "2");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_has_the_webhooks_code_and_name_and_nothing_is_stored() {
    let cluster = cluster();
    configure(&cluster, "ValidatingWebhookConfiguration", webhook("v.example.com"));
    let said = json!({"allowed": false, "status": {"code": 422, "reason": "Invalid", "message": "no"}});
    let (_, code, status) = told(&cluster, |_| Said::Response(said.clone()));
    assert_eq!((code, &status["reason"]), (422, &json!("Invalid")));
    assert_eq!(status["message"], "admission webhook \"v.example.com\" denied the request: no");
    assert_eq!(cluster.count("configmaps"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_does_not_answer_fails_closed_or_open_as_it_says() {
    for (policy, wanted) in [("Fail", 500), ("Ignore", 201)] {
        let cluster = cluster();
        let mut webhook = webhook("v.example.com");
        webhook["failurePolicy"] = json!(policy);
        configure(&cluster, "ValidatingWebhookConfiguration", webhook);
        assert_eq!(told(&cluster, |_| Said::Nothing("no route".into())).1, wanted);
    }
}

#[tokio::test(start_paused = true)]
async fn selectors_and_rules_say_who_is_not_asked() {
    let elsewhere = json!({"matchExpressions": [
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["default"]},
    ]});
    let labelled = json!({"matchLabels": {"app": "web"}});
    let only = |field: &str, value: Value| {
        let mut webhook = webhook("v.example.com");
        webhook[field] = value;
        webhook
    };
    let of_parts =
        json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/status"]}]);
    for webhook in
        [only("namespaceSelector", elsewhere), only("objectSelector", labelled), only("rules", of_parts)]
    {
        let cluster = cluster();
        configure(&cluster, "ValidatingWebhookConfiguration", webhook);
        assert_eq!(told(&cluster, |_| allowed()).0, Vec::<String>::new());
    }
}
