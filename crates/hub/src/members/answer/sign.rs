//! Which CertificateSigningRequests of one name are approved, and where their certificates go. Pure.

use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kruise_core::{
    api::fleet::{
        join_request::{JoinDecision, JoinRequest},
        keys::events,
        member_cluster::MemberCluster,
    },
    runtime::{clock::whole_seconds, events::Severity, webhook::certs},
};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{
    plan::{About, Action, Observed, Plan, signed, status_of},
    signing::{self, Expected, Said},
    verdict,
};
use crate::members::{access, account, key};

/// Answers what is asked, and hands over what is signed.
pub(super) fn sign(observed: &Observed<'_>, plan: &mut Plan) {
    let (own, others): (Vec<_>, Vec<_>) = observed.signing.iter().partition(|it| is_of_agent(it));
    for asked in others {
        if let Some(request) = observed.request.filter(|it| names(it, asked)) {
            first(observed, request, asked, plan);
        }
    }
    for asked in &own {
        if signing::said(asked) == Said::Nothing {
            let fault = renewal_fault(observed.member, asked);
            refuse_or_approve(asked, fault, About::Member, plan);
        }
    }
    if let Some(member) = observed.member {
        hand_over(member, &own, plan);
    }
}

/// Whether an agent made it: then it is a renewal, whoever names it.
pub(super) fn is_of_agent(asked: &CertificateSigningRequest) -> bool {
    let creator = asked.spec.username.as_deref().unwrap_or_default();
    access::cluster_of(creator).is_some() || account::namespace_of(creator).is_some()
}

fn names(request: &JoinRequest, asked: &CertificateSigningRequest) -> bool {
    request.spec.signing_request.is_some() && request.spec.signing_request == asked.metadata.name
}

/// The first certificate of a cluster, which the request brings.
fn first(observed: &Observed<'_>, request: &JoinRequest, asked: &CertificateSigningRequest, plan: &mut Plan) {
    let status = status_of(request);
    let is_made = !status.namespace.is_empty();
    let is_ours = asked.name_any().starts_with(signing::PREFIX);
    let fault = first_fault(observed, request, asked);
    match (status.decision, signing::said(asked)) {
        (Some(JoinDecision::Denied), Said::Nothing) if is_ours => {
            let fault = fault.unwrap_or_else(|| "the cluster may not join".to_owned());
            plan.actions.push(signed(asked, Some(fault)));
        }
        (Some(JoinDecision::Approved), Said::Nothing) if is_ours && is_made => {
            refuse_or_approve(asked, fault, About::Request, plan);
        }
        (Some(JoinDecision::Approved), Said::Approved) if is_made && fault.is_none() => {
            let Some(certificate) = signing::certificate(asked) else { return };
            if let Some(expiry) = certs::expiry(certificate.as_bytes()) {
                plan.actions.push(Action::Note(json!({ "credentialExpiresAt": whole_seconds(expiry) })));
            }
            // Last: with the certificate the request is done with.
            plan.actions.push(Action::Tell(json!({ "certificate": certificate })));
        }
        _ => {}
    }
}

/// What is wrong with the CertificateSigningRequest of an answered request.
fn first_fault(
    observed: &Observed<'_>,
    request: &JoinRequest,
    asked: &CertificateSigningRequest,
) -> Option<String> {
    if let Some(fault) = verdict::signing_fault(observed, request, asked) {
        return Some(fault.to_string());
    }
    let member = observed.member.filter(|it| it.spec.accepted && verdict::is_same_cluster(it, request));
    if member.is_none() {
        return Some("the cluster is no accepted member".to_owned());
    }
    // One request, one certificate: the next is asked for with the first.
    (!status_of(request).certificate.is_empty()).then(|| "the cluster has its certificate".to_owned())
}

/// What is wrong with what an agent asks for.
pub(super) fn renewal_fault(
    member: Option<&MemberCluster>,
    asked: &CertificateSigningRequest,
) -> Option<String> {
    let Some(member) = member.filter(|it| it.spec.accepted) else {
        return Some("the cluster is no accepted member".to_owned());
    };
    let Some(key) = key::read(&member.spec.public_key) else {
        return Some("the cluster joined by hand and has no pinned key".to_owned());
    };
    let user = access::user(&member.name_any(), &member.spec.public_key);
    // Whichever credential it has at the moment.
    let account = account::user(&member.name_any());
    let expected = Expected { creators: &[&user, &account], user: &user, key: &key };
    signing::fault(asked, &expected).map(|it| it.to_string())
}

fn refuse_or_approve(
    asked: &CertificateSigningRequest,
    fault: Option<String>,
    about: About,
    plan: &mut Plan,
) {
    plan.actions.push(signed(asked, fault.clone()));
    if let Some(fault) = fault {
        plan.actions.push(Action::Event {
            about,
            severity: Severity::Warning,
            reason: events::SIGNING_REFUSED,
            message: format!("the CertificateSigningRequest {} is refused: {fault}", asked.name_any()),
        });
    }
}

/// Hands the newest renewed certificate over, in the MemberCluster.
fn hand_over(member: &MemberCluster, asked: &[&CertificateSigningRequest], plan: &mut Plan) {
    let good = asked
        .iter()
        .filter(|it| signing::said(it) == Said::Approved && renewal_fault(Some(member), it).is_none());
    let dated = good.filter_map(|it| {
        let certificate = signing::certificate(it)?;
        Some((certs::expiry(certificate.as_bytes())?, certificate))
    });
    let Some((expiry, certificate)) = dated.max() else { return };
    let status = member.status.as_ref();
    let known = status.map_or("", |it| it.certificate.as_str());
    // What is there may be newer than what is still kept of requests.
    if certs::expiry(known.as_bytes()).is_none_or(|it: Timestamp| it < expiry) {
        let expires = whole_seconds(expiry);
        let mut note = json!({ "certificate": certificate, "credentialExpiresAt": expires });
        if status.is_some_and(|it| !it.sealed_for.is_empty()) {
            // The token of before is not offered beside it.
            note["sealedCredential"] = Value::Null;
            note["sealedFor"] = Value::Null;
        }
        plan.actions.push(Action::Note(note));
    }
}
