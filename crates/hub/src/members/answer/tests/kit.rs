//! One request and everything it is judged by, as it should be. A test says what differs.

use std::sync::LazyLock;

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use kruise_core::api::fleet::{
    join_request::{JoinDecision, JoinRequest},
    member_cluster::MemberCluster,
};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PublicKeyData};
use serde_json::{Value, json};

use crate::members::{
    access,
    account::{Account, Credentials},
    answer::{
        issue::Recipient,
        plan::{Action, Observed, Plan, StoredToken, plan},
    },
    joining::{AutoApprove, Known, Token},
};

pub(super) const CLUSTER: &str = "eu-1";
pub(super) const TOKEN_USER: &str = "system:bootstrap:abcdef";
/// The CertificateSigningRequest that the request names.
pub(super) const NAMED: &str = "fleet-agent-7f3a";

static KEY: LazyLock<KeyPair> = LazyLock::new(|| KeyPair::generate().unwrap());

/// The key of the cluster that joins.
pub(super) fn key() -> &'static KeyPair {
    &KEY
}

/// A key as JoinRequests have it.
pub(super) fn public(key: &KeyPair) -> String {
    STANDARD.encode(key.subject_public_key_info())
}

/// The user of the agent.
pub(super) fn user() -> String {
    access::user(CLUSTER, &public(key()))
}

pub(super) fn now() -> Timestamp {
    "2030-01-01T12:00:00Z".parse().unwrap()
}

/// A PKCS#10 request for `user`; `change` says what is special.
pub(super) fn pem(key: &KeyPair, user: &str, change: impl FnOnce(&mut CertificateParams)) -> String {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    change(&mut params);
    params.serialize_request(key).unwrap().pem().unwrap()
}

/// What the token of the request, or whoever `creator` is, has asked to be signed.
pub(super) fn asked(name: &str, creator: &str, pem: &str) -> CertificateSigningRequest {
    let asked = json!({
        "metadata": {"name": name, "uid": format!("uid-of-{name}"), "resourceVersion": "7"},
        "spec": {
            "request": ByteString(pem.as_bytes().to_vec()), "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth", "digital signature"], "expirationSeconds": 86_400, "username": creator,
        },
    });
    serde_json::from_value(asked).unwrap()
}

/// What the agent that joins asks to be signed.
pub(super) fn first() -> CertificateSigningRequest {
    asked(NAMED, TOKEN_USER, &pem(key(), &user(), |_| {}))
}

/// The same after somebody has said something to it; `certificate` once it is signed.
pub(super) fn said(
    mut asked: CertificateSigningRequest,
    word: &str,
    certificate: &str,
) -> CertificateSigningRequest {
    let mut status = json!({"conditions": [{"type": word, "status": "True"}]});
    if !certificate.is_empty() {
        status["certificate"] = json!(ByteString(certificate.as_bytes().to_vec()));
    }
    asked.status = serde_json::from_value(status).unwrap();
    asked
}

/// A certificate that ends on this day of January 2030.
pub(super) fn certificate(day: u8) -> String {
    let mut params = CertificateParams::default();
    params.not_after = rcgen::date_time_ymd(2030, 1, day);
    params.self_signed(key()).unwrap().pem()
}

pub(super) struct Case {
    pub(super) request: Option<JoinRequest>,
    pub(super) member: Option<MemberCluster>,
    pub(super) members: Vec<Known>,
    pub(super) token: Option<StoredToken>,
    pub(super) rules: Vec<AutoApprove>,
    pub(super) signing: Vec<CertificateSigningRequest>,
    pub(super) bound: Vec<Option<Vec<String>>>,
    pub(super) means: Vec<Option<Value>>,
    pub(super) account: Option<Account>,
    pub(super) credentials: Credentials,
    pub(super) reader: Option<(String, String)>,
    pub(super) has_namespace: bool,
    pub(super) now: Timestamp,
}

impl Case {
    /// A request that a rule approves, seen for the first time.
    pub(super) fn new() -> Self {
        let request = json!({
            "metadata": {
                "name": CLUSTER, "uid": "request-1", "annotations": {"fleet.kruise.io/token": "abcdef"},
            },
            "spec": {
                "clusterUid": "cluster-1", "publicKey": public(key()), "signingRequest": NAMED,
                "labels": {"env": "prod"}, "region": "eu",
            },
        });
        let token = Token {
            id: "abcdef".to_owned(),
            pattern: "eu-*".to_owned(),
            expires: "2030-01-01T13:00:00Z".parse().unwrap(),
            uses: 1,
            used_by: [].into(),
        };
        Self {
            request: Some(serde_json::from_value(request).unwrap()),
            member: None,
            members: Vec::new(),
            token: Some(StoredToken { token, version: "41".to_owned() }),
            rules: vec!["eu-*".parse().unwrap()],
            signing: vec![first()],
            bound: vec![None; 3],
            means: Vec::new(),
            account: None,
            credentials: Credentials::Certificate,
            reader: None,
            has_namespace: true,
            now: now(),
        }
    }

    /// Nobody asks.
    pub(super) fn quiet() -> Self {
        Self { request: None, signing: Vec::new(), ..Self::new() }
    }

    /// The request was approved, and everything was made for it.
    pub(super) fn joined() -> Self {
        let mut case = Self { bound: bound_to(&[&user()]), ..Self::new() };
        case.reader = Some(("request-1".to_owned(), TOKEN_USER.to_owned()));
        case.member = Some(member(true));
        case.answered(JoinDecision::Approved, "fleet-eu-1");
        case
    }

    pub(super) fn request(&mut self) -> &mut JoinRequest {
        self.request.as_mut().unwrap()
    }

    pub(super) fn token(&mut self) -> &mut Token {
        &mut self.token.as_mut().unwrap().token
    }

    pub(super) fn member(&mut self) -> &mut MemberCluster {
        self.member.as_mut().unwrap()
    }

    /// The request has been answered.
    pub(super) fn answered(&mut self, decision: JoinDecision, namespace: &str) {
        let status =
            json!({"decision": decision, "namespace": namespace, "decidedAt": "2030-01-01T12:00:00Z"});
        self.request().status = serde_json::from_value(status).unwrap();
    }

    pub(super) fn annotate(&mut self, key: &str, value: &str) {
        let annotations = self.request().metadata.annotations.as_mut().unwrap();
        annotations.insert(format!("fleet.kruise.io/{key}"), value.to_owned());
    }

    pub(super) fn plan(&self) -> Plan {
        plan(&Observed {
            cluster: CLUSTER,
            hub_uid: "hub",
            now: self.now,
            request: self.request.as_ref(),
            member: self.member.as_ref(),
            members: &self.members,
            token: self.token.as_ref(),
            rules: &self.rules,
            signing: self.signing.iter().collect(),
            bound: self.bound.clone(),
            means: self.means.clone(),
            account: self.account.clone(),
            credentials: self.credentials,
            reader: self.reader.clone(),
            has_namespace: self.has_namespace,
        })
    }

    /// One word for each thing that is done, in order. Events and counts are left out.
    pub(super) fn done(&self) -> Vec<&'static str> {
        let actions = self.plan().actions;
        let word = |it: &Action| match it {
            Action::UseToken { .. } => Some("use token"),
            Action::LetRead(_) => Some("let read"),
            Action::Tell(_) => Some("tell"),
            Action::Grant(_) => Some("grant"),
            Action::Join(_) => Some("join"),
            Action::Withdraw(_) => Some("withdraw"),
            Action::Dismiss { .. } => Some("dismiss"),
            Action::Issue { to: Recipient::Request, .. } => Some("issue to the request"),
            Action::Issue { to: Recipient::Member, .. } => Some("issue to the member"),
            Action::Sign { fault: None, .. } => Some("approve"),
            Action::Sign { fault: Some(_), .. } => Some("refuse"),
            Action::Note(_) => Some("note"),
            Action::Forget => Some("forget"),
            Action::Event { .. } | Action::Count(_) => None,
        };
        actions.iter().filter_map(word).collect()
    }

    /// What the request is told.
    pub(super) fn told(&self) -> Value {
        let told = |it: Action| if let Action::Tell(status) = it { Some(status) } else { None };
        self.plan().actions.into_iter().find_map(told).unwrap_or_default()
    }

    /// Decision and reason that the request is told.
    pub(super) fn answer(&self) -> (Value, Value) {
        let told = self.told();
        (told["decision"].clone(), told["reason"].clone())
    }

    /// Why a CertificateSigningRequest is refused.
    pub(super) fn refusal(&self) -> Option<String> {
        let fault = |it: Action| if let Action::Sign { fault, .. } = it { Some(fault) } else { None };
        self.plan().actions.into_iter().find_map(fault).flatten()
    }

    /// Reasons of the events, with what they are about.
    pub(super) fn events(&self) -> Vec<String> {
        let told = |it: Action| match it {
            Action::Event { about, severity, reason, .. } => Some(format!("{about:?} {severity:?} {reason}")),
            _ => None,
        };
        self.plan().actions.into_iter().filter_map(told).collect()
    }
}

/// Every binding is for these.
pub(super) fn bound_to(holders: &[&str]) -> Vec<Option<Vec<String>>> {
    vec![Some(holders.iter().map(|it| (*it).to_owned()).collect()); 3]
}

/// The member that the request leads to.
pub(super) fn member(accepted: bool) -> MemberCluster {
    let member = json!({
        "metadata": {"name": CLUSTER, "uid": "member-1"},
        "spec": {"clusterUid": "cluster-1", "publicKey": public(key()), "accepted": accepted},
    });
    serde_json::from_value(member).unwrap()
}

/// What a hub knows of it.
pub(super) fn known() -> Known {
    Known {
        name: CLUSTER.to_owned(),
        cluster_uid: "cluster-1".to_owned(),
        public_key: public(key()),
        is_accepted: true,
    }
}
