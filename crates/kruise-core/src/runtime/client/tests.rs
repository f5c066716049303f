use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::PostParams};
use serde_json::json;
use tower::service_fn;

use super::*;

fn options() -> Options {
    Options {
        user_agent: "kruise-test/1".into(),
        metrics: Metrics::default(),
        throttle: Throttle::default(),
        clock: Clock::system(),
    }
}

fn answer(code: u16, retry_after: Option<&str>) -> Response<Body> {
    let mut builder = Response::builder().status(code);
    if let Some(seconds) = retry_after {
        builder = builder.header(header::RETRY_AFTER, seconds);
    }
    builder.body(Body::from(b"Too many requests, please try again later.".to_vec())).unwrap()
}

fn refusing(options: &Options, code: u16) -> (Api<ConfigMap>, Arc<AtomicUsize>) {
    refusing_for(options, code, "7")
}

fn refusing_for(
    options: &Options,
    code: u16,
    retry_after: &'static str,
) -> (Api<ConfigMap>, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let client = over(
        service_fn(move |_: Request<Body>| {
            count.fetch_add(1, Ordering::SeqCst);
            async move { Ok::<_, BoxError>(answer(code, Some(retry_after))) }
        }),
        options,
    );
    (Api::namespaced(client, "default"), asked)
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_not_retried_behind_our_back_and_everybody_hears_of_it() {
    let options = options();
    let (api, asked) = refusing(&options, 429);
    let error = call("create config map", api.create(&PostParams::default(), &ConfigMap::default()))
        .await
        .unwrap_err();
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert_eq!(error.label(), "throttled");
    assert!(!error.leaves_doubt());
    assert_eq!(error.to_string(), "create config map failed");
    assert_eq!(options.throttle.wait(options.clock.instant()), Some(Duration::from_secs(7)));
    assert!(options.metrics.text().contains("rest_client_requests_total{method=\"POST\",code=\"429\"} 1"));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_ages_gets_minutes() {
    for ages in ["86400", "18446744073709551615"] {
        let options = options();
        let (api, _) = refusing_for(&options, 429, ages);
        api.create(&PostParams::default(), &ConfigMap::default()).await.unwrap_err();
        assert_eq!(options.throttle.wait(options.clock.instant()), Some(Duration::from_secs(300)), "{ages}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_ends_at_its_deadline_and_leaves_doubt() {
    let options = options();
    let client = over(
        service_fn(|_: Request<Body>| async {
            std::future::pending::<()>().await;
            Ok::<_, BoxError>(answer(200, None))
        }),
        &options,
    );
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let start = options.clock.instant();
    let error = call("get config map", api.get("a")).await.unwrap_err();
    assert_eq!(options.clock.since(start), CALL_TIMEOUT);
    assert_eq!((error.label(), error.leaves_doubt()), ("timeout", true));

    // A caller without a deadline of its own, such as a list inside a watcher, is freed as well.
    let error = api.get("a").await.unwrap_err();
    assert_eq!(options.clock.since(start), CALL_TIMEOUT + ANSWER_TIMEOUT);
    assert!(matches!(error, kube::Error::Service(_)), "{error:?}");
}

#[tokio::test]
async fn only_refusals_leave_no_doubt() {
    for (code, label, doubt) in [
        (400, "invalid", false),
        (403, "forbidden", false),
        (404, "not_found", false),
        (409, "conflict", false),
        (410, "expired", false),
        (422, "invalid", false),
        (418, "refused", false),
        (500, "server", true),
        (504, "server", true),
    ] {
        let (api, _) = refusing(&options(), code);
        let error = call("get", api.get("a")).await.unwrap_err();
        assert_eq!((error.code(), error.label(), error.leaves_doubt()), (Some(code), label, doubt));
    }
}

#[tokio::test]
async fn an_eviction_that_a_budget_forbids_is_no_sign_of_load() {
    let options = options();
    let (api, _) = refusing(&options, 429);
    let request = Request::post("/api/v1/namespaces/default/pods/a/eviction").body(Vec::new()).unwrap();
    api.into_client().request::<serde_json::Value>(request).await.unwrap_err();
    assert_eq!(options.throttle.wait(options.clock.instant()), None);
}

fn kubeconfig() -> Kubeconfig {
    serde_json::from_value(json!({
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u", "namespace": "n"}}],
    }))
    .unwrap()
}

#[tokio::test]
async fn a_kubeconfig_is_read_by_context_and_hardened() {
    let path = std::env::temp_dir().join(format!("kruise-client-{}.json", std::process::id()));
    std::fs::write(&path, serde_json::to_vec(&kubeconfig()).unwrap()).unwrap();
    let source =
        |context: &str| Source::Kubeconfig { path: Some(path.clone()), context: Some(context.into()) };

    let config = harden(load(&source("x")).await.unwrap(), "kruise-test/1").unwrap();
    assert!(!config.default_retry);
    assert_eq!(config.connect_timeout, Some(CONNECT_TIMEOUT));
    assert_eq!(config.default_namespace, "n");
    assert_eq!(config.headers, [(header::USER_AGENT, HeaderValue::from_static("kruise-test/1"))]);
    assert!(matches!(load(&source("missing")).await, Err(ConnectError::Kubeconfig(_))));
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(load(&source("x")).await, Err(ConnectError::Kubeconfig(_))));
    assert!(matches!(harden(config, "a\nb"), Err(ConnectError::UserAgent(_))));
}

#[tokio::test]
async fn join_4_a_client_changes_who_it_asks_as_under_those_who_hold_it() {
    let (old, new) = (refusing(&options(), 401), refusing(&options(), 403));
    let swap = Swap::new(old.0.into_client());
    let api: Api<ConfigMap> = Api::namespaced(swap.client("fleet-eu-1"), "fleet-eu-1");
    assert_eq!(call("get", api.get("a")).await.unwrap_err().code(), Some(401));
    swap.set(new.0.into_client());
    assert_eq!(call("get", api.get("a")).await.unwrap_err().code(), Some(403));
    assert_eq!((old.1.load(Ordering::SeqCst), new.1.load(Ordering::SeqCst)), (1, 1));
    assert_eq!(swap.client("fleet-eu-1").default_namespace(), "fleet-eu-1");
}

#[tokio::test]
async fn sec_3_who_asks_is_not_shown_and_nonsense_is_no_client() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let user = User::Token("abcdef.0123456789abcdef".to_owned());
    assert_eq!(format!("{user:?}"), "Token");
    let server = Server { url: "https://127.0.0.1:1".parse().unwrap(), authority: Vec::new() };
    connect_as(&server, &user, &options()).unwrap();
    let nonsense = User::Certificate { chain: "none".to_owned(), key: "none".to_owned() };
    assert_eq!(format!("{nonsense:?}"), "Certificate");
    assert!(matches!(connect_as(&server, &nonsense, &options()), Err(ConnectError::Build(_))));
}
