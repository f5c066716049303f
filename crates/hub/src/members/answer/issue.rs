//! Which tokens are issued, and where they go (JOIN-4, ADR 13). Pure.

use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kruise_core::{
    api::fleet::{
        join_request::{JoinDecision, JoinRequest},
        member_cluster::MemberCluster,
    },
    runtime::key::uid,
    seal,
};
use kube::ResourceExt;

use super::{
    plan::{Action, Observed, Plan, status_of},
    sign::{is_of_agent, renewal_fault},
    signing::{self, Said},
    verdict,
};
use crate::members::{account::Account, key};

/// Where a token goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipient {
    /// Into the JoinRequest, which the holder of its bootstrap token reads.
    Request,
    /// Into the MemberCluster, which the agent reads.
    Member,
}

/// Issues what is asked for. Nothing is written into CertificateSigningRequests: that needs the right to approve them.
pub(super) fn issue(observed: &Observed<'_>, plan: &mut Plan) {
    let Some(member) = observed.member.filter(|it| it.spec.accepted) else { return };
    let Some(key) = key::read(&member.spec.public_key).filter(|it| seal::is_recipient(it)) else { return };
    // One of another key is about to be replaced.
    let Some(account) = observed.account.as_ref().filter(|it| it.key == key::fingerprint(&key)) else {
        return;
    };
    let request = observed.request.filter(|it| it.metadata.deletion_timestamp.is_none());
    if request.is_some_and(|it| is_owed(member, it, account)) {
        let (to, answers) = (Recipient::Request, account.uid.clone());
        plan.actions.push(Action::Issue { to, answers, key: key.clone() });
    }
    let known = member.status.as_ref().map_or("", |it| it.sealed_for.as_str());
    if let Some(asked) = newest(observed, member).filter(|it| uid(*it) != known) {
        let (to, answers) = (Recipient::Member, uid(asked).to_owned());
        plan.actions.push(Action::Issue { to, answers, key });
    }
}

/// Whether a request was approved and has no token of the account that is there now: none yet, or one that died with the account
/// when the cluster was revoked.
fn is_owed(member: &MemberCluster, request: &JoinRequest, account: &Account) -> bool {
    let status = status_of(request);
    let is_made = status.decision == Some(JoinDecision::Approved) && !status.namespace.is_empty();
    is_made && verdict::is_same_cluster(member, request) && status.sealed_for != account.uid
}

/// The last thing that the agent has asked for. Those before it were answered, or given up.
fn newest<'a>(observed: &Observed<'a>, member: &MemberCluster) -> Option<&'a CertificateSigningRequest> {
    let good = observed.signing.iter().copied().filter(|it| {
        is_of_agent(it) && signing::said(it) != Said::Refused && renewal_fault(Some(member), it).is_none()
    });
    // By name where two were made in one second: always the same one, or they would be answered in turns for ever.
    good.max_by_key(|it| (it.metadata.creation_timestamp.as_ref().map(|it| it.0), it.name_any()))
}
