//! Whatever the Secret looks like when the server starts, a client that trusts the bundle gets its answer.

use std::time::Duration;

use super::{
    fake_api::{FakeApi, SECRETS},
    replica::{
        PATIENCE, Replica, SECRET, TestClock, crd, install, put_secret, real_now, secret, service, terms,
    },
};
use crate::runtime::webhook::{
    Error, Host,
    certs::{
        CA_CERT, CA_KEY, CERT, Contents, Judgement, KEY, KeySet, TLS_CERT, TLS_KEY, Terms,
        issue_with_new_authority, judge,
    },
};

const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

fn good() -> KeySet {
    issue_with_new_authority(&terms(real_now())).unwrap()
}

/// Starts on `contents`, gets all answers, and returns what the Secret holds then.
async fn start_on(contents: Option<Contents>) -> Contents {
    let api = FakeApi::new();
    install(&api);
    if let Some(contents) = contents {
        put_secret(&api, contents);
    }
    let replica = Replica::start(&api, |it| it).ready().await;
    replica.answers(&api).await.unwrap();
    replica.handle.check().await.unwrap();
    replica.stop().await;

    let stored = secret(&api).unwrap();
    assert_eq!(judge(Some(&stored), &terms(real_now())), Judgement::Keep);
    stored
}

#[tokio::test]
async fn without_a_secret() {
    let stored = start_on(None).await;
    assert_eq!(stored.keys().collect::<Vec<_>>(), [CA_CERT, CA_KEY, CERT, KEY, TLS_CERT, TLS_KEY]);
}

#[tokio::test]
async fn with_an_empty_secret() {
    start_on(Some(Contents::new())).await;
}

#[tokio::test]
async fn with_a_good_secret_nothing_is_written() {
    let good = good().contents();
    assert_eq!(start_on(Some(good.clone())).await, good);
}

#[tokio::test]
async fn with_a_half_written_secret() {
    let mut half = good().contents();
    half.retain(|key, _| [CA_CERT, CA_KEY, KEY].contains(&key.as_str()));
    let stored = start_on(Some(half.clone())).await;
    assert_eq!(stored[CA_KEY], half[CA_KEY], "the authority was whole");
}

#[tokio::test]
async fn with_an_expired_certificate() {
    let expired = issue_with_new_authority(&terms(real_now() - YEAR * 11)).unwrap();
    let stored = start_on(Some(expired.contents())).await;
    assert_ne!(stored[CA_CERT], expired.ca_cert);
}

#[tokio::test]
async fn with_a_certificate_of_the_wrong_authority() {
    let (one, other) = (good(), good());
    start_on(Some(KeySet { ca_cert: other.ca_cert, ca_key: other.ca_key, ..one }.contents())).await;
}

#[tokio::test]
async fn with_a_key_that_does_not_fit() {
    start_on(Some(KeySet { key: good().key, ..good() }.contents())).await;
}

#[tokio::test]
async fn with_a_certificate_for_the_wrong_name() {
    let other = Terms { dns_name: "other.elsewhere.svc", ..terms(real_now()) };
    start_on(Some(issue_with_new_authority(&other).unwrap().contents())).await;
}

#[tokio::test]
async fn with_garbage_in_every_key() {
    let garbage = [CA_KEY, CA_CERT, KEY, TLS_KEY, CERT, TLS_CERT];
    start_on(Some(garbage.map(|it| (it.to_owned(), b"\x00\xff garbage \xfe".to_vec())).into())).await;
}

#[tokio::test]
async fn with_a_bad_secret_that_cannot_be_changed() {
    let api = FakeApi::new();
    install(&api);
    put_secret(&api, Contents::from([(CERT.to_owned(), b"garbage".to_vec())]));
    let mut locked = api.get(SECRETS, SECRET).unwrap();
    locked["immutable"] = serde_json::json!(true);
    api.put(SECRETS, locked);
    let replica = Replica::start(&api, |it| it).ready().await;
    replica.answers(&api).await.unwrap();
    replica.stop().await;
}

#[tokio::test]
async fn what_others_keep_in_the_secret_stays() {
    let api = FakeApi::new();
    install(&api);
    put_secret(&api, Contents::from([("theirs".to_owned(), b"kept".to_vec())]));
    let mut labelled = api.get(SECRETS, SECRET).unwrap();
    labelled["metadata"]["labels"] = serde_json::json!({ "helm": "yes" });
    api.put(SECRETS, labelled);
    Replica::start(&api, |it| it).ready().await.stop().await;
    assert_eq!(secret(&api).unwrap()["theirs"], b"kept");
    assert_eq!(api.get(SECRETS, SECRET).unwrap()["metadata"]["labels"]["helm"], "yes");
}

#[tokio::test]
async fn with_the_secret_that_openkruise_left_behind() {
    let upstream: Contents = [
        (CA_KEY, include_str!("upstream-secret/ca-key.pem")),
        (CA_CERT, include_str!("upstream-secret/ca-cert.pem")),
        (KEY, include_str!("upstream-secret/key.pem")),
        (TLS_KEY, include_str!("upstream-secret/key.pem")),
        (CERT, include_str!("upstream-secret/cert.pem")),
        (TLS_CERT, include_str!("upstream-secret/cert.pem")),
    ]
    .map(|(key, it)| (key.to_owned(), it.as_bytes().to_vec()))
    .into();
    assert_eq!(start_on(Some(upstream.clone())).await, upstream);
}

#[tokio::test]
async fn without_a_secret_or_configurations_when_reached_by_url() {
    let api = FakeApi::new();
    api.put(super::fake_api::CRDS, crd());
    let replica = Replica::start(&api, |it| it.host(Host::url("127.0.0.1"))).ready().await;
    replica.answers(&api).await.unwrap();
    replica.handle.check().await.unwrap();
    let (client_config, _) = super::replica::client_config(&api, super::fake_api::VALIDATING);
    let port = replica.handle.address().port();
    let expected = format!("https://127.0.0.1:{port}/validate-apps-kruise-io-widget");
    assert_eq!(client_config["url"], expected);
    assert!(client_config.get("service").is_none());
    replica.stop().await;
}

#[tokio::test]
async fn with_files_in_place_of_a_secret() {
    let path = std::env::temp_dir().join(format!("kruise-webhook-start-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    std::fs::write(path.join(TLS_CERT), b"half-written").unwrap();
    for _ in 0..2 {
        let api = FakeApi::new();
        install(&api);
        let replica = Replica::start(&api, |it| it.directory(&path)).ready().await;
        replica.answers(&api).await.unwrap();
        replica.stop().await;
        assert!(secret(&api).is_none());
    }
    std::fs::remove_dir_all(&path).unwrap();
}

#[tokio::test]
async fn an_external_certificate_is_served_once_everything_trusts_it_and_never_written() {
    let api = FakeApi::new();
    install(&api);
    let KeySet { ca_cert, key, cert, .. } = good();
    let contents = [("ca.crt", ca_cert.clone()), (TLS_KEY, key), (TLS_CERT, cert)];
    put_secret(&api, contents.map(|(key, it)| (key.to_owned(), it)).into());
    let replica = Replica::start(&api, |it| it.external("kruise-system", SECRET));

    let bundle = serde_json::json!(k8s_openapi::ByteString(ca_cert));
    for collection in [super::fake_api::MUTATING, super::fake_api::VALIDATING] {
        assert!(!replica.handle.is_ready());
        let (_, mut configuration) = super::replica::client_config(&api, collection);
        configuration["webhooks"][0]["clientConfig"]["caBundle"] = bundle.clone();
        api.put(collection, configuration);
    }
    let mut trusting = crd();
    trusting["spec"]["conversion"]["webhook"]["clientConfig"] = serde_json::json!({
        "caBundle": bundle,
        "service": { "namespace": "kruise-system", "name": "kruise-webhook-service", "path": "/convert" },
    });
    api.put(super::fake_api::CRDS, trusting);
    let replica = replica.ready().await;
    replica.answers(&api).await.unwrap();
    replica.stop().await;
    assert_eq!(api.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_set_up_in_time_says_why() {
    let api = FakeApi::new();
    let replica = Replica::start(&api, |it| it.host(service()).initialize_within(Duration::from_secs(60)));
    let error = tokio::time::timeout(PATIENCE * 2, replica.task).await.unwrap().unwrap().unwrap_err();
    let Error::NotInitialized { source: Some(source), .. } = error else {
        panic!("{error:?}");
    };
    assert!(matches!(*source, Error::NoConfiguration(_)), "{source:?}");
    assert!(api.get(SECRETS, SECRET).is_some(), "the certificate does not wait for the rest");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_stopped_before_it_is_set_up_ends_quietly() {
    let api = FakeApi::new();
    let clock = TestClock::at(real_now());
    let replica = Replica::start(&api, |it| it.clock(move || clock.now()));
    api.wait_until(|it| it.get(SECRETS, SECRET).is_some()).await;
    replica.stop().await;
}
