//! A server under test, and a caller that does what the API server does.

use std::{net::Ipv4Addr, net::SocketAddr, sync::Arc, time::Duration};

use axum::http::{Request, Uri};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::{Client, Config};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use super::fake_api::{CRDS, FakeApi, MUTATING, SECRETS, VALIDATING};
use crate::runtime::webhook::{
    Builder, Error, Event, FieldError, Handle, Host, Operation, Server, Verdict,
    certs::{Contents, DEFAULT_RENEW_BEFORE, Terms},
    registration::{ConfigurationNames, FailurePolicy, Phase, Registration, SideEffects, configurations},
};

pub(super) const NAMESPACE: &str = "kruise-system";
pub(super) const SECRET: &str = "kruise-webhook-certs";
pub(super) const DNS_NAME: &str = "kruise-webhook-service.kruise-system.svc";
pub(super) const CRD: &str = "widgets.apps.kruise.io";
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
pub(super) const MUTATE: &str = "/mutate-apps-kruise-io-widget";
pub(super) const VALIDATE: &str = "/validate-apps-kruise-io-widget";

const MUTATING_WIDGET: Registration = Registration {
    name: "mwidget.kb.io",
    phase: Phase::Mutating,
    path: MUTATE,
    operations: &[Operation::Create, Operation::Update],
    group: "apps.kruise.io",
    versions: &["v1alpha1", "v1beta1"],
    resources: &["widgets"],
    namespaces: &[],
    objects: &[],
    failure: FailurePolicy::Fail,
    side_effects: SideEffects::None,
};

pub(super) const TABLE: [Registration; 2] = [
    MUTATING_WIDGET,
    Registration { name: "vwidget.kb.io", phase: Phase::Validating, path: VALIDATE, ..MUTATING_WIDGET },
];

/// Certificates are checked by real TLS clients, which look at the real time.
#[expect(
    clippy::disallowed_methods,
    reason = "TLS clients read the wall clock, so the certificates must fit it"
)]
pub(super) fn real_now() -> Timestamp {
    Timestamp::now()
}

pub(super) fn terms(now: Timestamp) -> Terms<'static> {
    Terms {
        dns_name: DNS_NAME,
        now,
        renew_before: DEFAULT_RENEW_BEFORE,
        overlap: Duration::from_secs(24 * 60 * 60),
    }
}

pub(super) fn service() -> Host {
    Host::service(NAMESPACE, "kruise-webhook-service")
}

/// What an installation applies: configurations and a CRD that trust nobody yet.
pub(super) fn install(api: &FakeApi) {
    let manifests = configurations(&TABLE, &ConfigurationNames::default(), &service(), NAMESPACE);
    for (collection, manifest) in [(MUTATING, manifests.mutating), (VALIDATING, manifests.validating)] {
        let mut manifest = manifest.unwrap();
        manifest["webhooks"][0]["clientConfig"]["caBundle"] = json!("Cg==");
        api.put(collection, manifest);
    }
    api.put(CRDS, crd());
}

pub(super) fn crd() -> Value {
    let client_config =
        json!({ "service": { "namespace": "elsewhere", "name": "other", "path": "/convert" } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": CRD },
        "spec": {
            "group": "apps.kruise.io",
            "a-field-of-the-future": true,
            "conversion": { "strategy": "Webhook", "webhook": { "clientConfig": client_config, "conversionReviewVersions": ["v1"] } },
        },
    })
}

pub(super) fn put_secret(api: &FakeApi, contents: Contents) {
    let data: serde_json::Map<_, _> =
        contents.into_iter().map(|(key, it)| (key, json!(ByteString(it)))).collect();
    api.put(
        SECRETS,
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": SECRET }, "data": data }),
    );
}

pub(super) fn secret(api: &FakeApi) -> Option<Contents> {
    let secret = api.get(SECRETS, SECRET)?;
    let data = secret["data"].as_object().unwrap();
    Some(data.iter().map(|(key, it)| (key.clone(), decode(it))).collect())
}

pub(super) fn decode(base64: &Value) -> Vec<u8> {
    serde_json::from_value::<ByteString>(base64.clone()).unwrap().0
}

pub(super) struct Replica {
    pub(super) handle: Handle,
    pub(super) token: CancellationToken,
    pub(super) task: JoinHandle<Result<(), Error>>,
    /// Rounds of upkeep that succeeded.
    pub(super) rounds: watch::Receiver<u32>,
}

impl Replica {
    /// Starts a server that answers for widgets; `adjust` says what differs.
    pub(super) fn start(api: &FakeApi, adjust: impl FnOnce(Builder) -> Builder) -> Self {
        let (counter, rounds) = watch::channel(0);
        let builder = Server::builder()
            .listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .host(service())
            .secret(NAMESPACE, SECRET)
            .registrations(&TABLE)
            .review(MUTATE, |request| {
                let mut object = request.object.clone().unwrap();
                object["metadata"]["labels"] = json!({ "seen": "true" });
                Verdict::patched(object)
            })
            .review(VALIDATE, |request| match &request.object.as_ref().unwrap()["spec"]["replicas"] {
                it if it.as_i64() < Some(0) => {
                    let error = FieldError::invalid("spec.replicas", it.clone(), "must not be negative");
                    Verdict::invalid(vec![error])
                }
                _ => Verdict::allow().warn("widgets are for tests"),
            })
            .conversion([CRD], |mut object, to| {
                object["apiVersion"] = json!(to);
                Ok(object)
            })
            .clock(real_now)
            .settle(Duration::from_millis(300))
            .initialize_within(PATIENCE)
            .observer(move |event| {
                if *event == Event::Synced {
                    counter.send_modify(|it| *it += 1);
                }
            });
        let server = adjust(builder).bind().unwrap();
        let handle = server.handle();
        let token = CancellationToken::new();
        let task = tokio::spawn(server.run(api.client(), token.clone()));
        Self { handle, token, task, rounds }
    }

    pub(super) async fn ready(mut self) -> Self {
        timeout(PATIENCE, self.handle.wait_until_ready()).await.unwrap();
        self
    }

    /// Waits for a round that began after this call.
    pub(super) async fn another_round(&mut self) {
        let seen = *self.rounds.borrow_and_update();
        timeout(PATIENCE, self.rounds.wait_for(|it| *it > seen)).await.unwrap().unwrap();
    }

    pub(super) async fn stop(self) {
        self.token.cancel();
        timeout(PATIENCE, self.task).await.unwrap().unwrap().unwrap();
    }

    /// Asks this replica all it serves, trusting what the API server would trust.
    pub(super) async fn answers(&self, api: &FakeApi) -> Result<(), kube::Error> {
        let address = self.handle.address();
        for (collection, path) in [(MUTATING, MUTATE), (VALIDATING, VALIDATE)] {
            let (client_config, _) = client_config(api, collection);
            let answer = ask(&client_config, address, path, &review(1)).await?;
            assert_eq!(answer["response"]["allowed"], true, "{answer}");
            assert_eq!(answer["response"]["uid"], "u1");
        }
        let converting = &api.get(CRDS, CRD).unwrap()["spec"]["conversion"]["webhook"]["clientConfig"];
        let answer = ask(converting, address, "/convert", &conversion()).await?;
        assert_eq!(answer["response"]["convertedObjects"][0]["apiVersion"], "apps.kruise.io/v1beta1");
        Ok(())
    }
}

/// The client configuration of the only webhook in a configuration, and the whole configuration.
pub(super) fn client_config(api: &FakeApi, collection: &str) -> (Value, Value) {
    let names = ConfigurationNames::default();
    let name = if collection == MUTATING { names.mutating } else { names.validating };
    let configuration = api.get(collection, &name).unwrap();
    (configuration["webhooks"][0]["clientConfig"].clone(), configuration)
}

/// Asks as the API server does: over a new connection, with nothing trusted but the bundle. A Service leads to `address`.
pub(super) async fn ask(
    client_config: &Value,
    address: SocketAddr,
    path: &str,
    body: &Value,
) -> Result<Value, kube::Error> {
    let (base, server_name) = match client_config["url"].as_str() {
        Some(url) => (url.strip_suffix(path).unwrap().to_owned(), None),
        None => {
            let service = &client_config["service"];
            assert_eq!(service["path"], path);
            let text = |key: &str| service[key].as_str().unwrap().to_owned();
            (format!("https://{address}"), Some(format!("{}.{}.svc", text("name"), text("namespace"))))
        }
    };
    let bundle = decode(&client_config["caBundle"]);
    let mut config = Config::new(base.parse::<Uri>().unwrap());
    config.root_cert = Some(CertificateDer::pem_slice_iter(&bundle).map(|it| it.unwrap().to_vec()).collect());
    config.tls_server_name = server_name;
    config.default_retry = false;
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(serde_json::to_vec(body).unwrap()).unwrap();
    let answer = timeout(PATIENCE, Client::try_from(config)?.request_text(request)).await.unwrap()?;
    Ok(serde_json::from_str(&answer).unwrap())
}

pub(super) fn review(replicas: i64) -> Value {
    json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "u1",
            "kind": { "group": "apps.kruise.io", "version": "v1beta1", "kind": "Widget" },
            "resource": { "group": "apps.kruise.io", "version": "v1beta1", "resource": "widgets" },
            "operation": "CREATE",
            "name": "w",
            "namespace": "default",
            "object": { "metadata": { "name": "w" }, "spec": { "replicas": replicas, "future": [1, { "a": null }] } },
        },
    })
}

pub(super) fn conversion() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {
            "uid": "c1",
            "desiredAPIVersion": "apps.kruise.io/v1beta1",
            "objects": [{ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "Widget", "metadata": { "name": "w" } }],
        },
    })
}

/// A clock that tests move.
#[derive(Clone)]
pub(super) struct TestClock(Arc<std::sync::Mutex<Timestamp>>);

impl TestClock {
    pub(super) fn at(now: Timestamp) -> Self {
        Self(Arc::new(std::sync::Mutex::new(now)))
    }

    pub(super) fn now(&self) -> Timestamp {
        *self.0.lock().unwrap()
    }

    pub(super) fn set(&self, now: Timestamp) {
        *self.0.lock().unwrap() = now;
    }
}
