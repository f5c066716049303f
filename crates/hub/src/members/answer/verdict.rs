//! The answer to one request: what [`joining::decide`] says, and whether its words and its CertificateSigningRequest can be used. Pure.

use kruise_core::{
    admission::metadata,
    api::fleet::{
        GROUP,
        join_request::{JoinDecision, JoinRequest},
        keys::{self, reasons},
        member_cluster::MemberCluster,
    },
    runtime::key::uid,
    seal,
};
use kube::ResourceExt;

use super::{
    plan::Observed,
    signing::{self, Expected},
};
use crate::members::{
    access,
    account::Credentials,
    joining::{self, Answer, Asked, ByHand, Fleet},
    key,
};

/// Judges the request of `observed`.
pub(super) fn of(observed: &Observed<'_>, request: &JoinRequest) -> Answer {
    if let Some(fault) = fault_in(request, observed.credentials) {
        return refused(reasons::INVALID_REQUEST, fault);
    }
    let tokens: Vec<_> = observed.token.iter().map(|it| it.token.clone()).collect();
    let (name, annotations) = (request.name_any(), request.annotations());
    let asked = Asked {
        name: &name,
        uid: uid(request),
        spec: &request.spec,
        token: annotations.get(keys::TOKEN).map(String::as_str),
        by_hand: match annotations.get(keys::DECISION).map(String::as_str) {
            Some("Approve") => Some(ByHand::Approve),
            Some("Deny") => Some(ByHand::Deny),
            _ => None,
        },
    };
    let fleet = Fleet {
        hub_uid: observed.hub_uid,
        members: observed.members,
        tokens: &tokens,
        rules: observed.rules,
    };
    let answer = joining::decide(&asked, &fleet, observed.now);
    if answer.decision != JoinDecision::Approved {
        return answer;
    }
    with_signing(observed, request, answer)
}

/// A request is approved only together with the CertificateSigningRequest that it names: a member that cannot get a credential
/// is of no use.
fn with_signing(observed: &Observed<'_>, request: &JoinRequest, answer: Answer) -> Answer {
    let Some(named) = request.spec.signing_request.as_deref() else {
        return refused(reasons::SIGNING_REFUSED, "it names no CertificateSigningRequest");
    };
    let found = observed.signing.iter().find(|it| it.metadata.name.as_deref() == Some(named));
    match found.map(|it| (signing_fault(observed, request, it), signing::said(it))) {
        None => Answer {
            decision: JoinDecision::Pending,
            reason: reasons::SIGNING_REQUEST_MISSING,
            message: format!("waits for the CertificateSigningRequest {named}"),
            ..answer
        },
        Some((Some(fault), _)) => refused(
            reasons::SIGNING_REFUSED,
            format!("the CertificateSigningRequest {named} is refused: {fault}"),
        ),
        Some((None, signing::Said::Refused)) => refused(
            reasons::SIGNING_REFUSED,
            format!("somebody has refused the CertificateSigningRequest {named}"),
        ),
        Some((None, _)) => answer,
    }
}

/// What is wrong with the CertificateSigningRequest of a request.
pub(super) fn signing_fault(
    observed: &Observed<'_>,
    request: &JoinRequest,
    signing: &k8s_openapi::api::certificates::v1::CertificateSigningRequest,
) -> Option<signing::Fault> {
    let token = request.annotations().get(keys::TOKEN).map(String::as_str).unwrap_or_default();
    let key = key::read(&request.spec.public_key).unwrap_or_default();
    let expected = Expected {
        creators: &[&signing::bootstrap_user(token)],
        user: &access::user(observed.cluster, &request.spec.public_key),
        key: &key,
    };
    signing::fault(signing, &expected)
}

/// What cannot be used in a request, whoever made it.
fn fault_in(request: &JoinRequest, credentials: Credentials) -> Option<String> {
    let Some(key) = key::read(&request.spec.public_key) else {
        return Some("its public key is no SubjectPublicKeyInfo, DER in base64".to_owned());
    };
    if credentials == Credentials::Token && !seal::is_recipient(&key) {
        return Some("its public key is no P-256 key, and this hub seals tokens to no other".to_owned());
    }
    request.spec.labels.iter().find_map(|(key, value)| {
        if key.split_once('/').is_some_and(|(prefix, _)| prefix == GROUP) {
            return Some(format!("the label {key} is not for clusters to choose"));
        }
        let fault = metadata::key_fault(key).or_else(|| metadata::label_value_fault(value))?;
        Some(format!("the label {key}: {fault}"))
    })
}

/// Whether a member is the cluster that asks.
pub(super) fn is_same_cluster(member: &MemberCluster, request: &JoinRequest) -> bool {
    let (known, asked) = (&member.spec, &request.spec);
    known.cluster_uid == asked.cluster_uid && known.public_key == asked.public_key
}

/// Somebody else has got the name since it was approved.
pub(super) fn taken(cluster: &str) -> Answer {
    refused(reasons::IDENTITY_MISMATCH, format!("the name {cluster} belongs to another cluster"))
}

/// The cluster has become a member under another name since it was approved.
pub(super) fn is_member_already() -> Answer {
    refused(reasons::IDENTITY_MISMATCH, "the cluster is a member already, under another name")
}

/// Who gives answers for this reason.
pub(super) fn decided_by(reason: &str) -> &'static str {
    match reason {
        reasons::APPROVED_BY_HAND | reasons::DENIED_BY_HAND => "administrator",
        reasons::APPROVED_BY_RULE => "rule",
        _ => "kruise-hub",
    }
}

fn refused(reason: &'static str, message: impl Into<String>) -> Answer {
    Answer { decision: JoinDecision::Denied, reason, message: message.into(), uses: None }
}
