//! What is done for one name: its request, its member, its rights and its certificates. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kruise_core::{
    api::fleet::{
        join_request::{JoinDecision, JoinRequest, JoinRequestStatus},
        keys::{self, events, reasons},
        member_cluster::{MemberCluster, MemberClusterSpec},
    },
    runtime::{
        clock::whole_seconds,
        events::Severity,
        key::{uid, version},
    },
    seal,
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{
    issue::{Recipient, issue},
    sign::sign,
    signing,
    verdict::{self, decided_by},
};
use crate::{
    members::{
        access,
        account::{Account, Credentials},
        joining::{Answer, AutoApprove, Known, Token},
        key, tokens,
    },
    names::cluster_namespace,
};

/// How long an answered request is kept.
pub const KEPT: Duration = Duration::from_secs(24 * 3600);
/// How often is looked whether a silent member has all that its agent needs, and whether a namespace is there again.
const CHECKED_EVERY: Duration = Duration::from_secs(60);

/// One look at everything that has to do with one name.
#[derive(Debug, Clone)]
pub struct Observed<'a> {
    /// The name.
    pub cluster: &'a str,
    /// UID of the hub's own `kube-system` namespace.
    pub hub_uid: &'a str,
    /// The present.
    pub now: Timestamp,
    /// By what agents are known.
    pub credentials: Credentials,
    /// Who asks for the name.
    pub request: Option<&'a JoinRequest>,
    /// Who has it.
    pub member: Option<&'a MemberCluster>,
    /// All members; only looked at until the request is answered and its member made.
    pub members: &'a [Known],
    /// The token of the request; only looked at while it is not answered.
    pub token: Option<&'a StoredToken>,
    /// The rules.
    pub rules: &'a [AutoApprove],
    /// CertificateSigningRequests that the request names, or that the agent of the name has made.
    pub signing: Vec<&'a CertificateSigningRequest>,
    /// Whom each binding of [`access::withdrawn`] is for, in the order of their names, if it is there.
    pub bound: Vec<Option<Vec<String>>>,
    /// The rules of each of [`access::means`], in their order, if it is there. Nothing at all if nobody has looked: only those
    /// of a silent member whose bindings are there are looked at.
    pub means: Vec<Option<Value>>,
    /// The ServiceAccount of the name's agent, if it is there.
    pub account: Option<Account>,
    /// Which request may be read by whom: UID and user.
    pub reader: Option<(String, String)>,
    /// Whether the cluster's own namespace is there. Only asked when something in it is not.
    pub has_namespace: bool,
}

/// A token with what it takes to change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredToken {
    /// What is known of it.
    pub token: Token,
    /// The version that was read: whoever uses it at the same moment makes this fail.
    pub version: String,
}

/// One thing to do. They are done in order, and what fails stops the rest.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Writes down who has used a token.
    UseToken {
        /// Which.
        id: String,
        /// The version that was judged.
        version: String,
        /// What is in it from now on.
        used_by: String,
    },
    /// Lets the holder of a token read the request.
    LetRead([Value; 2]),
    /// Writes a part of the request's status.
    Tell(Value),
    /// Makes what an agent needs on the hub.
    Grant(Vec<Value>),
    /// Makes the MemberCluster.
    Join(Box<MemberCluster>),
    /// Removes bindings: kind, namespace and name.
    Withdraw(Vec<(&'static str, Option<String>, String)>),
    /// Removes exactly this ServiceAccount, and with it every token of it.
    Dismiss {
        /// Its UID.
        uid: String,
    },
    /// Issues a token, seals it and hands it over.
    Issue {
        /// Where it goes.
        to: Recipient,
        /// UID of what it answers.
        answers: String,
        /// The key that it is sealed to: SubjectPublicKeyInfo, DER.
        key: Vec<u8>,
    },
    /// Answers a CertificateSigningRequest.
    Sign {
        /// Which.
        name: String,
        /// Exactly this one,
        uid: String,
        /// as it was judged.
        version: String,
        /// What is wrong with it; it is approved if nothing is.
        fault: Option<String>,
    },
    /// Writes a part of the MemberCluster's status.
    Note(Value),
    /// Deletes the request.
    Forget,
    /// Tells people.
    Event {
        /// About what.
        about: About,
        /// Whether somebody should look.
        severity: Severity,
        /// One word.
        reason: &'static str,
        /// More words.
        message: String,
    },
    /// Counts an answer.
    Count(JoinDecision),
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// The JoinRequest.
    Request,
    /// The MemberCluster of the same name.
    Member,
}

/// What is done.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// In this order.
    pub actions: Vec<Action>,
    /// When time alone brings something on.
    pub look_again_in: Option<Duration>,
}

impl Plan {
    /// Looks again after this time at the latest.
    fn look_again(&mut self, after: Duration) {
        self.look_again_in = Some(self.look_again_in.map_or(after, |it| it.min(after)));
    }

    /// Whether somebody is turned away or let in for good, which must not be done by what was known a moment ago.
    pub fn is_for_good(&self) -> bool {
        let is_final = |it: &Action| {
            matches!(it, Action::Count(JoinDecision::Denied | JoinDecision::Approved) | Action::Join(_))
        };
        self.actions.iter().any(is_final)
    }
}

/// What is to be done for a name.
pub fn plan(observed: &Observed<'_>) -> Plan {
    let mut plan = Plan::default();
    keep_access(observed, &mut plan);
    if let Some(request) = observed.request.filter(|it| it.metadata.deletion_timestamp.is_none()) {
        answer(observed, request, &mut plan);
    }
    match observed.credentials {
        Credentials::Certificate => sign(observed, &mut plan),
        Credentials::Token => issue(observed, &mut plan),
    }
    plan
}

/// The status of a request, empty if it has none.
pub(super) fn status_of(request: &JoinRequest) -> JoinRequestStatus {
    request.status.clone().unwrap_or_default()
}

/// Whether the request was approved and its member is not yet known to be made.
fn is_being_made(request: &JoinRequest) -> bool {
    let status = status_of(request);
    status.decision == Some(JoinDecision::Approved) && status.namespace.is_empty()
}

/// Rights follow `accepted` (JOIN-5); those of a name that nobody has are taken back.
fn keep_access(observed: &Observed<'_>, plan: &mut Plan) {
    let Observed { cluster, member, bound, .. } = observed;
    let Some(member) = member else {
        if !observed.request.is_some_and(is_being_made) {
            withdraw(observed, plan);
            dismiss(observed, plan);
        }
        return;
    };
    if !member.spec.accepted {
        let is_any = withdraw(observed, plan);
        // Then the token itself: whatever else everybody may do, a revoked agent may not.
        dismiss(observed, plan);
        if is_any {
            plan.actions.push(Action::Event {
                about: About::Member,
                severity: Severity::Warning,
                reason: events::REVOKED,
                message: "its agent has no rights on the hub any more; what runs in the cluster goes on"
                    .to_owned(),
            });
        }
        return;
    }
    let user = access::user(cluster, &member.spec.public_key);
    let key = account_key(observed, &member.spec.public_key, plan);
    let holders = access::holders(cluster, &user, key.as_deref());
    let has_account = observed.account.as_ref().is_some_and(|it| Some(&it.key) == key.as_ref());
    let is_so = bound.iter().all(|it| it.as_ref() == Some(&holders)) && has_account == key.is_some();
    let granted = || access::granted_with(cluster, &user, key.as_deref());
    let missing = if is_so { missing(observed) } else { granted() };
    // A namespace that somebody has deleted while the member was accepted is not made again behind his back.
    let is_namespace_lost = !observed.has_namespace && bound.iter().any(Option::is_some);
    if !missing.is_empty() && !is_namespace_lost {
        plan.actions.push(Action::Grant(missing));
    }
    // Nobody tells when a role goes, or when a namespace is put back.
    if is_namespace_lost || !observed.means.is_empty() {
        plan.look_again(CHECKED_EVERY);
    }
}

/// What is gone, or not as it was made, of the roles and the Lease that an agent needs (JOIN-3).
fn missing(observed: &Observed<'_>) -> Vec<Value> {
    let all = access::means(observed.cluster).into_iter().zip(&observed.means);
    // A Lease has no rules, here and there.
    all.filter(|(object, found)| found.as_ref() != Some(&object["rules"])).map(|it| it.0).collect()
}

/// The fingerprint for which there has to be a ServiceAccount: where agents have tokens, and, so that those who still have one
/// are not locked out, where they had. One of another key goes first: its tokens are a former agent's.
fn account_key(observed: &Observed<'_>, public_key: &str, plan: &mut Plan) -> Option<String> {
    let key = key::read(public_key).filter(|it| seal::is_recipient(it)).map(|it| key::fingerprint(&it));
    let is_there = observed.account.as_ref().is_some_and(|it| Some(&it.key) == key.as_ref());
    if !is_there {
        dismiss(observed, plan);
    }
    key.filter(|_| is_there || observed.credentials == Credentials::Token)
}

fn dismiss(observed: &Observed<'_>, plan: &mut Plan) {
    plan.actions.extend(observed.account.iter().map(|it| Action::Dismiss { uid: it.uid.clone() }));
}

/// Whether there is anything to withdraw.
fn withdraw(observed: &Observed<'_>, plan: &mut Plan) -> bool {
    let all = access::withdrawn(observed.cluster).into_iter().zip(&observed.bound);
    let there: Vec<_> = all.filter(|(_, bound)| bound.is_some()).map(|(it, _)| it).collect();
    let is_any = !there.is_empty();
    if is_any {
        plan.actions.push(Action::Withdraw(there));
    }
    is_any
}

fn answer(observed: &Observed<'_>, request: &JoinRequest, plan: &mut Plan) {
    if let Some(token) = request.annotations().get(keys::TOKEN) {
        let user = signing::bootstrap_user(token);
        if observed.reader.as_ref().is_none_or(|it| (it.0.as_str(), &it.1) != (uid(request), &user)) {
            let reader = access::reader(&request.name_any(), uid(request), token);
            plan.actions.push(Action::LetRead(reader));
        }
    }
    let status = status_of(request);
    match status.decision {
        None | Some(JoinDecision::Pending) => judge(observed, request, &status, plan),
        Some(JoinDecision::Approved | JoinDecision::Denied) => {
            if !forget(observed, &status, plan) && is_being_made(request) {
                make(observed, request, plan);
            }
        }
    }
}

/// Judges a request that is not answered.
fn judge(observed: &Observed<'_>, request: &JoinRequest, status: &JoinRequestStatus, plan: &mut Plan) {
    let answer = verdict::of(observed, request);
    let used = observed.token.filter(|it| answer.uses.as_ref() == Some(&it.token.id));
    if let Some(StoredToken { token, version }) = used {
        // Before anything is approved: of two requests that use the same token at once one fails here.
        if !token.used_by.contains(uid(request)) {
            plan.actions.push(Action::UseToken {
                id: token.id.clone(),
                version: version.clone(),
                used_by: tokens::used_by(token, uid(request)),
            });
        }
        if answer.decision == JoinDecision::Pending {
            plan.look_again(until(token.expires, observed.now));
        }
    }
    let is_told = status.decision == Some(answer.decision)
        && (status.reason.as_str(), &status.message) == (answer.reason, &answer.message);
    if !is_told {
        tell(observed, answer, plan);
    }
}

/// Writes an answer into the request's status, and tells people.
fn tell(observed: &Observed<'_>, answer: Answer, plan: &mut Plan) {
    let Answer { decision, reason, message, .. } = answer;
    let mut status = json!({ "decision": decision, "reason": reason, "message": message });
    if decision != JoinDecision::Pending {
        status["decidedBy"] = json!(decided_by(reason));
        status["decidedAt"] = json!(whole_seconds(observed.now));
    }
    plan.actions.push(Action::Tell(status));
    let is_refused = decision == JoinDecision::Denied && reason != reasons::DENIED_BY_HAND;
    let severity = if is_refused { Severity::Warning } else { Severity::Normal };
    if reason == reasons::IDENTITY_MISMATCH && observed.member.is_some() {
        let message = format!("a JoinRequest for this name was denied: {message}");
        plan.actions.push(Action::Event { about: About::Member, severity, reason, message });
    }
    plan.actions.push(Action::Event { about: About::Request, severity, reason, message });
    if decision != JoinDecision::Pending {
        plan.actions.push(Action::Count(decision));
    }
}

/// Makes the member of an approved request (JOIN-3). That its namespace is in the status says that this was done: a member that
/// is removed later does not come back by itself.
fn make(observed: &Observed<'_>, request: &JoinRequest, plan: &mut Plan) {
    let cluster = observed.cluster;
    let is_elsewhere =
        observed.members.iter().any(|it| it.cluster_uid == request.spec.cluster_uid && it.name != cluster);
    match observed.member {
        // Somebody else was made a member since this was approved.
        Some(member) if !verdict::is_same_cluster(member, request) => {
            return tell(observed, verdict::taken(cluster), plan);
        }
        None if is_elsewhere => return tell(observed, verdict::is_member_already(), plan),
        Some(_) => {}
        None => {
            let user = access::user(cluster, &request.spec.public_key);
            let key = account_key(observed, &request.spec.public_key, plan);
            plan.actions.push(Action::Grant(access::granted_with(cluster, &user, key.as_deref())));
            plan.actions.push(Action::Join(Box::new(member_of(request))));
        }
    }
    let told = json!({ "namespace": cluster_namespace(cluster), "hubUid": observed.hub_uid });
    plan.actions.push(Action::Tell(told));
}

fn member_of(request: &JoinRequest) -> MemberCluster {
    let asked = &request.spec;
    let spec = MemberClusterSpec {
        cluster_uid: asked.cluster_uid.clone(),
        public_key: asked.public_key.clone(),
        accepted: true,
        region: asked.region.clone(),
        zone: asked.zone.clone(),
        provider: asked.provider.clone(),
        ..MemberClusterSpec::default()
    };
    let mut member = MemberCluster::new(&request.name_any(), spec);
    member.labels_mut().extend(asked.labels.clone());
    // From the beginning: it is never removed behind the back of what is placed there (DEL-6).
    member.finalizers_mut().push(keys::MEMBER_FINALIZER.to_owned());
    member
}

/// Deletes a request a day after its answer. Says whether it is time.
fn forget(observed: &Observed<'_>, status: &JoinRequestStatus, plan: &mut Plan) -> bool {
    let decided = status.decided_at.as_ref().map_or(observed.now, |it| it.0);
    let ends = decided.checked_add(KEPT).unwrap_or(Timestamp::MAX);
    let is_over = ends <= observed.now;
    if is_over {
        plan.actions.push(Action::Forget);
    } else {
        plan.look_again(until(ends, observed.now));
    }
    is_over
}

/// How long it is until then; a moment more, so that it is over by then.
fn until(then: Timestamp, now: Timestamp) -> Duration {
    let rest = Duration::try_from(then.duration_since(now)).unwrap_or_default();
    rest.saturating_add(Duration::from_secs(1))
}

/// The answer to a CertificateSigningRequest.
pub(super) fn signed(request: &CertificateSigningRequest, fault: Option<String>) -> Action {
    Action::Sign {
        name: request.name_any(),
        uid: uid(request).to_owned(),
        version: version(request).to_owned(),
        fault,
    }
}
