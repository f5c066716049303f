//! A hub, clusters that ask, a signer that signs what is approved, and what can be seen of all that.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::Method;
use hub::{
    control::{self, Parts},
    measures::Measures,
    members::{access, account::Credentials, joining::AutoApprove},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use kruise_core::{
    api,
    runtime::{
        client::{self, Options},
        clock::Clock,
        events,
        throttle::Throttle,
    },
};
use rcgen::{
    CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType, Issuer, KeyPair,
    PublicKeyData,
};
use serde_json::{Value, json};
use sim::{
    World, fleet,
    world::{Process, ProcessContext},
};
use tokio_util::sync::CancellationToken;
use x509_parser::time::ASN1Time;

pub(crate) const HUB: &str = "hub";
const FLEET: &str = "/apis/fleet.kruise.io/v1alpha1";
const SIGNING: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const MAPS: &str = "/api/v1/namespaces/fleet-system/configmaps";

pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) hub: Process,
    issuer: Issuer<'static, KeyPair>,
    /// What the hub that runs now has counted.
    counted: Arc<Mutex<Measures>>,
    /// By what the hub that starts next knows agents.
    pub(crate) by: Arc<Mutex<Credentials>>,
}

/// A cluster that wants to join.
pub(crate) struct Cluster {
    /// The name that it asks for.
    pub(crate) name: &'static str,
    /// UID of its `kube-system` namespace.
    pub(crate) uid: &'static str,
    pub(crate) key: KeyPair,
}

impl Cluster {
    pub(crate) fn new(name: &'static str, uid: &'static str) -> Self {
        Self { name, uid, key: KeyPair::generate().unwrap() }
    }

    pub(crate) fn public_key(&self) -> String {
        STANDARD.encode(self.key.subject_public_key_info())
    }

    /// The user of its agent.
    pub(crate) fn user(&self) -> String {
        access::user(self.name, &self.public_key())
    }

    /// What it asks to be signed.
    pub(crate) fn pem(&self) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, self.user());
        params.serialize_request(&self.key).unwrap().pem().unwrap()
    }
}

/// Runs `test` with a hub that has these rules.
pub(crate) fn play<F: Future<Output = ()>>(rules: &[&str], test: impl FnOnce(Stage) -> F) {
    play_by(Credentials::Certificate, rules, test);
}

/// The same with a hub that knows agents by these.
pub(crate) fn play_by<F: Future<Output = ()>>(
    credentials: Credentials,
    rules: &[&str],
    test: impl FnOnce(Stage) -> F,
) {
    let rules: Vec<AutoApprove> = rules.iter().map(|it| it.parse().unwrap()).collect();
    let crds = api::crds().into_iter().map(|it| json!(it));
    crds.fold(fleet().hub().members(0), |it, crd| it.define(crd)).run(async |world| {
        for name in ["fleet-content", "fleet-system"] {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            world.write(HUB, Method::POST, "/api/v1/namespaces", &body).unwrap();
        }
        let counted = Arc::new(Mutex::new(Measures::new()));
        let shown = counted.clone();
        let by = Arc::new(Mutex::new(credentials));
        let told = by.clone();
        let hub = world.process("hub", move |process| {
            let measures = Measures::new();
            *shown.lock().unwrap() = measures.clone();
            hub(process, rules.clone(), *told.lock().unwrap(), measures)
        });
        let issuer = Issuer::new(CertificateParams::default(), KeyPair::generate().unwrap());
        let stage = Stage { world, hub, issuer, counted, by };
        let key = "/api/v1/namespaces/fleet-system/secrets/fleet-hub-key";
        stage.until("the hub works", |it| it.read(key).is_some()).await;
        test(stage).await;
    });
}

/// One life of the hub, without an election: it is alone.
async fn hub(process: ProcessContext, rules: Vec<AutoApprove>, credentials: Credentials, measures: Measures) {
    let clock = Clock::following(process.world().now());
    let options = Options {
        user_agent: "hub".into(),
        metrics: measures.metrics.clone(),
        throttle: Throttle::default(),
        clock: clock.clone(),
    };
    // Events are told by a client of their own: they are no writes of the hub that a crash could fall between.
    let teller = process.world().client("hub-events", HUB);
    let sink = events::Sink::new(teller, clock.clone(), measures.metrics.clone());
    let parts = Parts {
        client: client::over(process.service(HUB), &options),
        namespace: "fleet-system".into(),
        events: sink.recorder("kruise-hub"),
        measures,
        clock,
        rules,
        credentials,
    };
    let stop = CancellationToken::new();
    let (ended, ()) = tokio::join!(control::run(parts, stop.clone()), sink.run(stop));
    ended.unwrap();
}

impl Stage {
    pub(crate) fn read(&self, path: &str) -> Option<Value> {
        self.world.write(HUB, Method::GET, path, &Value::Null).ok()
    }

    /// The value of a metric of the hub that runs now.
    pub(crate) fn measure(&self, name: &str) -> Option<f64> {
        let text = self.counted.lock().unwrap().metrics.text();
        let line = text
            .lines()
            .find_map(|it| it.strip_prefix("kruise_fleet_")?.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|it| it.parse().ok())
    }

    fn create(&self, path: &str, object: &Value) {
        self.world.write(HUB, Method::POST, path, object).unwrap();
    }

    pub(crate) fn delete(&self, path: &str) {
        self.world.write(HUB, Method::DELETE, path, &Value::Null).unwrap();
    }

    /// Makes a token that ends in so many seconds.
    pub(crate) fn token(&self, id: &str, pattern: &str, uses: u32, ends_in: i64) {
        let ends = self.world.now() + SignedDuration::from_secs(ends_in);
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("fleet-token-{id}"), "labels": {"fleet.kruise.io/bootstrap": "true"}},
            "data": {"for": pattern, "expires": ends.to_string(), "uses": uses.to_string()},
        });
        self.create(MAPS, &map);
    }

    /// Who has used a token.
    pub(crate) fn used_by(&self, id: &str) -> Vec<String> {
        let map = self.read(&format!("{MAPS}/fleet-token-{id}")).unwrap();
        map["data"]["used-by"].as_str().unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Asks `creator`'s way for something to be signed.
    pub(crate) fn sign(&self, name: &str, creator: &str, pem: &str) {
        let request = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name},
            "spec": {
                "request": ByteString(pem.as_bytes().to_vec()), "signerName": "kubernetes.io/kube-apiserver-client",
                "usages": ["client auth", "digital signature"], "expirationSeconds": 86_400, "username": creator,
            },
        });
        self.create(SIGNING, &request);
    }

    /// Sends only the JoinRequest of a cluster, as admission leaves it.
    pub(crate) fn request(&self, cluster: &Cluster, token: &str, signing: &str) {
        let request = json!({
            "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "JoinRequest",
            "metadata": {"name": cluster.name, "annotations": {"fleet.kruise.io/token": token}},
            "spec": {"clusterUid": cluster.uid, "publicKey": cluster.public_key(), "signingRequest": signing},
        });
        self.create(&format!("{FLEET}/joinrequests"), &request);
    }

    /// Asks as an agent does: both requests.
    pub(crate) fn ask(&self, cluster: &Cluster, token: &str) {
        let name = format!("fleet-agent-{token}-{}", cluster.name);
        self.sign(&name, &format!("system:bootstrap:{token}"), &cluster.pem());
        self.request(cluster, token, &name);
    }

    pub(crate) fn status(&self, cluster: &str) -> Value {
        self.read(&format!("{FLEET}/joinrequests/{cluster}")).unwrap_or_default()["status"].clone()
    }

    /// Decision and reason, in one text.
    pub(crate) fn answer(&self, cluster: &str) -> String {
        let status = self.status(cluster);
        let word = |name: &str| status[name].as_str().unwrap_or("-").to_owned();
        format!("{} {}", word("decision"), word("reason"))
    }

    pub(crate) fn member(&self, cluster: &str) -> Option<Value> {
        self.read(&format!("{FLEET}/memberclusters/{cluster}"))
    }

    pub(crate) fn change(&self, path: &str, patch: &Value) {
        self.world.write(HUB, Method::PATCH, &format!("{FLEET}/{path}"), patch).unwrap();
    }

    pub(crate) fn forget(&self, path: &str) {
        self.delete(&format!("{FLEET}/{path}"));
    }

    /// What was said to a CertificateSigningRequest: its conditions, and whether it is signed.
    pub(crate) fn said(&self, name: &str) -> (Vec<String>, bool) {
        let request = self.read(&format!("{SIGNING}/{name}")).unwrap_or_default();
        let conditions = request["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let kinds = conditions.iter().map(|it| it["type"].as_str().unwrap().to_owned()).collect();
        (kinds, request["status"]["certificate"].is_string())
    }

    /// Whom the bindings of a cluster's agent are for.
    pub(crate) fn bound(&self, cluster: &str) -> Vec<String> {
        let bindings = access::withdrawn(cluster).into_iter().filter_map(|(kind, namespace, name)| {
            let place = namespace.map_or_else(String::new, |it| format!("/namespaces/{it}"));
            self.read(&format!("/apis/rbac.authorization.k8s.io/v1{place}/{}s/{name}", kind.to_lowercase()))
        });
        bindings
            .flat_map(|it| it["subjects"].as_array().cloned().unwrap())
            .filter(|it| it["kind"] == "User")
            .map(|it| text(&it["name"]))
            .collect()
    }

    /// Reasons of all events about objects of this kind.
    pub(crate) fn events(&self, kind: &str) -> Vec<String> {
        let events = self.world.cluster(HUB).server().list("events");
        let about = events.iter().map(|it| it.value()).filter(|it| it["involvedObject"]["kind"] == kind);
        about.map(|it| text(&it["reason"])).collect()
    }

    /// Signs what is approved and not signed, as a controller manager does.
    fn sign_approved(&self) {
        for request in self.world.cluster(HUB).server().list("certificatesigningrequests.certificates.k8s.io")
        {
            let request = request.value();
            let (said, is_signed) = self.said(request["metadata"]["name"].as_str().unwrap());
            if said != ["Approved"] || is_signed {
                continue;
            }
            let pem: ByteString = serde_json::from_value(request["spec"]["request"].clone()).unwrap();
            let mut asked =
                CertificateSigningRequestParams::from_pem(std::str::from_utf8(&pem.0).unwrap()).unwrap();
            let moment = |it: Timestamp| ASN1Time::from_timestamp(it.as_second()).unwrap().to_datetime();
            asked.params.not_before = moment(self.world.now());
            asked.params.not_after = moment(self.world.now() + SignedDuration::from_hours(24));
            let signed = asked.signed_by(&self.issuer).unwrap().pem();
            let path = format!("{SIGNING}/{}/status", request["metadata"]["name"].as_str().unwrap());
            let status = json!({"status": {"certificate": ByteString(signed.into_bytes())}});
            self.world.write(HUB, Method::PATCH, &path, &status).unwrap();
        }
    }

    /// Lets time pass until something holds; the signer works meanwhile.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..600 {
            self.sign_approved();
            if holds(self) {
                return;
            }
            self.world.pass(Duration::from_millis(500)).await;
        }
        let requests = self.world.cluster(HUB).server().list("joinrequests.fleet.kruise.io");
        let seen: Vec<_> = requests.iter().map(|it| it.value()["status"].to_string()).collect();
        panic!("never: {what}; requests: {seen:?}");
    }

    /// Lets time pass; the signer works meanwhile.
    pub(crate) async fn pass(&self, seconds: u64) {
        for _ in 0..seconds.min(120) {
            self.sign_approved();
            self.world.pass(Duration::from_secs(1)).await;
        }
        self.world.pass(Duration::from_secs(seconds.saturating_sub(120))).await;
    }

    pub(crate) async fn answered(&self, cluster: &str, answer: &str) {
        self.until(&format!("{cluster} is {answer}"), |it| it.answer(cluster) == answer).await;
    }

    /// Waits until a cluster has everything that it asked for.
    pub(crate) async fn joined(&self, cluster: &Cluster) {
        self.until(&format!("{} has joined", cluster.name), |it| {
            it.status(cluster.name)["certificate"].is_string()
                && it.bound(cluster.name) == vec![cluster.user(); 3]
        })
        .await;
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
