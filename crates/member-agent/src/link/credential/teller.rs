//! What people are told: each thing once, in the log and as an event about the Secret.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kruise_core::runtime::events::{Recorder, Severity};
use tracing::{info, warn};

use super::{joining::Waiting, kept::SECRET};

/// Reasons of events about the credential.
pub mod reasons {
    /// The cluster has a credential.
    pub const JOINED: &str = "Joined";
    /// Somebody has to decide, or to act.
    pub const JOIN_PENDING: &str = "JoinPending";
    /// The hub said no.
    pub const JOIN_DENIED: &str = "JoinDenied";
    /// The hub does not take the token.
    pub const TOKEN_REJECTED: &str = "TokenRejected";
    /// The credential was exchanged.
    pub const RENEWED: &str = "CredentialRenewed";
    /// The hub does not take the credential any more.
    pub const EXPIRED: &str = "CredentialExpired";
    /// Something that is kept, or has come, cannot be used.
    pub const UNUSABLE: &str = "CredentialUnusable";
    /// The hub has taken our rights away.
    pub const REVOKED: &str = "Revoked";
    /// It has given them back.
    pub const ACCEPTED: &str = "Accepted";
}

/// One thing to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Whether somebody should look into it.
    pub severity: Severity,
    /// One word.
    pub reason: &'static str,
    /// What it is, and what helps.
    pub message: String,
}

impl Notice {
    /// All is well.
    pub fn good(reason: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Normal, reason, message: message.into() }
    }

    /// Somebody should look into it.
    pub fn bad(reason: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, reason, message: message.into() }
    }

    /// What is waited for while `cluster` asks to join; nothing where it only takes a moment.
    pub fn waiting(cluster: &str, waiting: &Waiting) -> Option<Self> {
        let again = format!("`kubectl delete joinrequest {cluster}` on the hub lets the cluster ask again");
        Some(match waiting {
            Waiting::Hub => return None,
            Waiting::Decision(told) => Self::good(
                reasons::JOIN_PENDING,
                format!("the request to join as {cluster} is pending: {told}"),
            ),
            Waiting::Signature => Self::good(
                reasons::JOIN_PENDING,
                format!("the request to join as {cluster} is approved; the hub makes its credential"),
            ),
            Waiting::Denied(told) => {
                Self::bad(reasons::JOIN_DENIED, format!("the hub denied {cluster} to join: {told}; {again}"))
            }
            Waiting::NotOurs => Self::bad(
                reasons::JOIN_DENIED,
                format!(
                    "another cluster has asked to join as {cluster}: choose another --hub-cluster, or {again}"
                ),
            ),
            Waiting::Answered => Self::bad(
                reasons::JOIN_PENDING,
                format!("the request of {cluster} on the hub was answered before; {again}"),
            ),
            Waiting::Unusable(fault) => Self::bad(
                reasons::UNUSABLE,
                format!("the credential that the hub gave {cluster} cannot be used: {fault}; {again}"),
            ),
        })
    }

    /// A credential is in use, the first one or another.
    pub fn taken_up(cluster: &str, is_first: bool, ends: Option<Timestamp>) -> Self {
        // With the time, so that each renewal is told.
        let until = ends.map(|it| format!("; its credential ends at {it}")).unwrap_or_default();
        if is_first {
            Self::good(reasons::JOINED, format!("this cluster has joined the fleet as {cluster}{until}"))
        } else {
            Self::good(reasons::RENEWED, format!("the credential of {cluster} was renewed{until}"))
        }
    }

    /// There is a request that we may not read.
    pub fn closed(cluster: &str) -> Self {
        let help = format!(
            "if no kruise-hub runs there, start it, else `kubectl delete joinrequest {cluster}` lets the cluster ask again"
        );
        Self::bad(
            reasons::JOIN_PENDING,
            format!(
                "a request to join as {cluster} is on the hub already, and this token may not read it; {help}"
            ),
        )
    }

    /// The hub does not know the token.
    pub fn unknown_token() -> Self {
        let help =
            "make another one with `kubectl fleet token create` and put it into the file of --hub-token-file";
        Self::bad(
            reasons::TOKEN_REJECTED,
            format!("the hub does not know the bootstrap token: it has expired, or was revoked; {help}"),
        )
    }
}

/// Tells each thing once, until something else is told.
#[derive(Debug)]
pub struct Teller {
    events: Recorder,
    namespace: String,
    last: Option<Notice>,
}

impl Teller {
    /// A teller whose events are in the agent's own `namespace`.
    pub fn new(events: Recorder, namespace: &str) -> Self {
        Self { events, namespace: namespace.to_owned(), last: None }
    }

    /// Tells `notice`, unless it was the last thing that was told.
    pub fn tell(&mut self, notice: Notice) {
        if self.last.as_ref() == Some(&notice) {
            return;
        }
        let Notice { severity, reason, message } = notice.clone();
        match severity {
            Severity::Normal => info!(reason, "{message}"),
            Severity::Warning => warn!(reason, "{message}"),
        }
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Secret".to_owned()),
            namespace: Some(self.namespace.clone()),
            name: Some(SECRET.to_owned()),
            ..ObjectReference::default()
        };
        self.events.record(about, severity, reason, message);
        self.last = Some(notice);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::identity::Fault, *};

    #[test]
    fn every_refusal_says_what_helps() {
        let told = |it: Waiting| Notice::waiting("eu-1", &it);
        assert_eq!(told(Waiting::Hub), None, "it takes only a moment");
        for stuck in [
            Waiting::Denied("TokenRejected: the token is used up".into()),
            Waiting::NotOurs,
            Waiting::Answered,
            Waiting::Unusable(Fault::OtherKey),
        ] {
            assert!(stuck.is_stuck());
            let notice = told(stuck).unwrap();
            assert_eq!(notice.severity, Severity::Warning);
            assert!(notice.message.contains("kubectl delete joinrequest eu-1"), "{notice:?}");
        }
        let pending = told(Waiting::Decision("ApprovalNeeded: waits".into())).unwrap();
        assert_eq!((pending.severity, pending.reason), (Severity::Normal, reasons::JOIN_PENDING));
        assert!(pending.message.ends_with("ApprovalNeeded: waits"), "{pending:?}");
    }
}
