//! The door of a simulated hub, at which an agent has to say who it is; and a hand that does what a hub does when clusters join.

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{Method, Request, Response};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use kruise_core::{
    api::fleet::agent_token::AgentToken,
    runtime::client::{self, Options, User},
};
use kube::client::Body;
use member_agent::link::credential::{Open, Settings, Wish};
use rcgen::{CertificateParams, CertificateSigningRequestParams, Issuer, KeyPair};
use serde_json::{Value, json};
use sim::world::ProcessContext;
use tower::{BoxError, service_fn};

use crate::kit::{HUB, MEMBER, NAMESPACE, Stage};

pub(crate) const TOKEN: &str = "abcdef.0123456789abcdef";
const REQUEST: &str = "/apis/fleet.kruise.io/v1alpha1/joinrequests/member-1";
const SIGNING: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const CLUSTER: &str = "/apis/fleet.kruise.io/v1alpha1/memberclusters/member-1";

/// Who is let in.
#[derive(Debug, Default)]
pub(crate) struct Book {
    /// Certificates that are taken.
    pub(crate) certificates: BTreeSet<String>,
    /// Bootstrap tokens that are.
    pub(crate) tokens: BTreeSet<String>,
    /// Tokens of the agent's account that are.
    pub(crate) issued: BTreeSet<String>,
    /// How long those last that are issued from now on; a day if nothing else is said.
    pub(crate) life: Option<SignedDuration>,
    /// Whether tokens may read the request.
    pub(crate) may_read: bool,
    /// Whether the agent has lost its rights.
    pub(crate) is_revoked: bool,
    /// The certificate or the token of the last request that was let in.
    pub(crate) last: Option<String>,
    /// Requests that were made with a token: method and path.
    pub(crate) with_token: Vec<(Method, String)>,
}

/// A door.
pub(crate) struct Door {
    pub(crate) settings: Settings,
    book: Mutex<Book>,
    file: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Door {
    /// A door that knows [`TOKEN`], for an agent that has it in its file.
    pub(crate) fn new(name: &str, renew_after: Option<Duration>) -> Arc<Self> {
        let file = std::env::temp_dir().join(format!("link-{name}-{}.token", std::process::id()));
        std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
        let wish = Wish { cluster: MEMBER.into(), region: Some("eu".into()), ..Wish::default() };
        Arc::new(Self {
            settings: Settings { wish, token: Some(file.clone()), renew_after },
            book: Mutex::new(Book { tokens: [TOKEN.to_owned()].into(), ..Book::default() }),
            file,
            issuer: Issuer::new(CertificateParams::default(), KeyPair::generate().unwrap()),
        })
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    /// Puts another token into the agent's file.
    pub(crate) fn hand_out(&self, token: &str) {
        std::fs::write(&self.file, token).unwrap();
    }

    pub(crate) fn opener(self: &Arc<Self>, process: &ProcessContext, options: &Options) -> Open {
        let (door, process, options) = (self.clone(), process.clone(), options.clone());
        Arc::new(move |user: &User| {
            let (door, hub, user) = (door.clone(), process.client(HUB), user.clone());
            let service = service_fn(move |request: Request<Body>| {
                let refusal = door.judge(&user, &request);
                let hub = hub.clone();
                async move {
                    match refusal {
                        Some(code) => Ok(refused(code)),
                        None => hub.send(request).await.map_err(BoxError::from),
                    }
                }
            });
            Ok(client::over(service, &options))
        })
    }

    /// As the API server would: 401 for those it does not know, 403 for what is not theirs.
    fn judge(&self, user: &User, request: &Request<Body>) -> Option<u16> {
        let mut book = self.book();
        let path = request.uri().path().to_owned();
        match user {
            User::Token(token) if book.issued.contains(token) => {
                book.last = Some(token.clone());
                book.is_revoked.then_some(403)
            }
            User::Token(token) if !book.tokens.contains(token) => Some(401),
            User::Token(_) => {
                book.with_token.push((request.method().clone(), path.clone()));
                let is_asking = request.method() == Method::POST
                    && (path == SIGNING || path == REQUEST.trim_end_matches("/member-1"));
                let is_reading = request.method() == Method::GET && path == REQUEST && book.may_read;
                (!is_asking && !is_reading).then_some(403)
            }
            User::Certificate { chain, .. } if !book.certificates.contains(chain) => Some(401),
            User::Certificate { chain, .. } => {
                book.last = Some(chain.clone());
                book.is_revoked.then_some(403)
            }
        }
    }

    /// Signs what a CertificateSigningRequest asks for, as long as `life`.
    fn sign(&self, request: &Value, now: Timestamp, life: SignedDuration) -> String {
        let pem: ByteString = serde_json::from_value(request["spec"]["request"].clone()).unwrap();
        let mut asked =
            CertificateSigningRequestParams::from_pem(std::str::from_utf8(&pem.0).unwrap()).unwrap();
        let moment = |it: Timestamp| x509_parser::time::ASN1Time::from_timestamp(it.as_second()).unwrap();
        asked.params.not_before = moment(now - SignedDuration::from_mins(5)).to_datetime();
        asked.params.not_after = moment(now + life).to_datetime();
        let pem = asked.signed_by(&self.issuer).unwrap().pem();
        self.book().certificates.insert(pem.clone());
        pem
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.file);
    }
}

fn refused(code: u16) -> Response<Body> {
    let reason = if code == 401 { "Unauthorized" } else { "Forbidden" };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason, "code": code,
        "message": reason,
    });
    Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap()
}

/// What a hub does.
impl Stage {
    /// The request to join.
    pub(crate) fn asked(&self) -> Option<Value> {
        self.read(HUB, REQUEST)
    }

    /// The names of all CertificateSigningRequests.
    pub(crate) fn signing_requests(&self) -> Vec<String> {
        let all = self.world.cluster(HUB).server().list("certificatesigningrequests.certificates.k8s.io");
        all.iter().map(|it| it.value()["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Answers the request to join.
    pub(crate) fn answer(&self, status: Value) {
        let mut request = self.asked().unwrap();
        request["status"] = status;
        self.world.write(HUB, Method::PUT, &format!("{REQUEST}/status"), &request).unwrap();
    }

    pub(crate) fn forget_request(&self, door: &Door) {
        self.world.write(HUB, Method::DELETE, REQUEST, &Value::Null).unwrap();
        door.book().may_read = false;
    }

    /// Lets the cluster in, with a certificate that lasts for a day.
    pub(crate) fn approve(&self, door: &Door) {
        let name = self.asked().unwrap()["spec"]["signingRequest"].as_str().unwrap().to_owned();
        self.let_in("certificate", &self.signed(door, &name));
    }

    /// The same with a sealed token.
    pub(crate) fn approve_sealed(&self, door: &Door) -> AgentToken {
        let (token, sealed) = self.issued(door);
        self.let_in("sealedCredential", &sealed);
        token
    }

    fn let_in(&self, field: &str, credential: &str) {
        let cluster = json!({
            "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "MemberCluster", "metadata": {"name": MEMBER},
            "spec": {"clusterUid": "u", "publicKey": "k", "accepted": true},
        });
        // There already where a member joins again.
        let _ = self.world.write(HUB, Method::POST, CLUSTER.trim_end_matches("/member-1"), &cluster);
        self.answer(json!({
            "decision": "Approved", "reason": "ApprovedByHand", "namespace": NAMESPACE, "hubUid": "the-hub",
            (field): credential,
        }));
    }

    /// A token for a day, and what the hub writes down of it.
    pub(crate) fn issued(&self, door: &Door) -> (AgentToken, String) {
        let number = door.book().issued.len();
        let life = door.book().life.unwrap_or(SignedDuration::from_hours(24));
        let expires = self.world.now() + life;
        let token = AgentToken { token: format!("of-the-account-{number}-{expires}"), expires };
        door.book().issued.insert(token.token.clone());
        let key = self.asked().unwrap()["spec"]["publicKey"].as_str().unwrap().to_owned();
        let sealed = token.seal(&STANDARD.decode(key).unwrap(), MEMBER, "the-hub").unwrap();
        (token, sealed)
    }

    /// Signs a CertificateSigningRequest.
    pub(crate) fn signed(&self, door: &Door, name: &str) -> String {
        let request = self.read(HUB, &format!("{SIGNING}/{name}")).unwrap();
        door.sign(&request, self.world.now(), SignedDuration::from_hours(24))
    }

    /// Puts a renewed certificate where the agent looks for it.
    pub(crate) fn offer(&self, certificate: &str) {
        self.offer_as("certificate", certificate);
    }

    /// Puts a renewed credential into this field of what the agent looks at.
    pub(crate) fn offer_as(&self, field: &str, credential: &str) {
        let mut cluster = self.read(HUB, CLUSTER).unwrap();
        cluster["status"][field] = json!(credential);
        self.world.write(HUB, Method::PUT, &format!("{CLUSTER}/status"), &cluster).unwrap();
    }

    /// A field of the Secret with the credential, as text.
    pub(crate) fn kept(&self, field: &str) -> Option<String> {
        let secret = self.read(MEMBER, "/api/v1/namespaces/kruise-system/secrets/fleet-hub-credential")?;
        let bytes: ByteString = serde_json::from_value(secret["data"].get(field)?.clone()).unwrap();
        Some(String::from_utf8(bytes.0).unwrap())
    }

    /// Whether something was told in the member.
    pub(crate) fn has_event(&self, reason: &str) -> bool {
        let events = self.world.cluster(MEMBER).server().list("events");
        events.iter().any(|it| it.value()["reason"] == reason)
    }
}
