//! Asking to join, with the token: what to do by what is seen of our JoinRequest. Pure (JOIN-1, JOIN-2).

use std::time::Duration;

use kruise_core::api::fleet::join_request::{JoinDecision, JoinRequest};

use super::{
    held::{Credential, Offered},
    identity::Fault,
    kept::{Kept, Membership},
};

/// How long the hub may take to let us read what we have asked.
const GRANTED_WITHIN: Duration = Duration::from_secs(60);

/// What the hub shows of the JoinRequest with our name.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// We may not read it: there is none, the hub has not seen it yet, or it was made with another token.
    Closed,
    /// There is none.
    Missing,
    /// This.
    There(Box<JoinRequest>),
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// Send a CertificateSigningRequest and a JoinRequest.
    Ask,
    /// Wait, and say for what.
    Wait(Waiting),
    /// Keep this credential, to be used.
    Take {
        /// The credential.
        credential: Credential,
        /// Where the cluster belongs now.
        membership: Membership,
    },
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// The hub, to look at the request.
    Hub,
    /// A person, to decide.
    Decision(String),
    /// The hub's signature, or its token.
    Signature,
    /// A person, to take back a denial.
    Denied(String),
    /// The request of this name is another cluster's.
    NotOurs,
    /// The answer is an old one: its credential is the one that the hub does not take.
    Answered,
    /// The credential is not ours.
    Unusable(Fault),
}

/// What to do by what is seen. `asked` is how long ago this process has asked; `refused` is a credential that the hub does not
/// take any more.
pub fn next(kept: &Kept, seen: &Seen, asked: Option<Duration>, refused: Option<&Credential>) -> Move {
    let request = match seen {
        Seen::There(request) => request,
        Seen::Closed if asked.is_some_and(|it| it < GRANTED_WITHIN) => return Move::Wait(Waiting::Hub),
        Seen::Closed | Seen::Missing => return Move::Ask,
    };
    if request.spec.public_key != kept.key.public_key() {
        return Move::Wait(Waiting::NotOurs);
    }
    let Some(status) = &request.status else { return Move::Wait(Waiting::Hub) };
    let told = || format!("{}: {}", status.reason, status.message);
    match status.decision {
        None => Move::Wait(Waiting::Hub),
        Some(JoinDecision::Pending) => Move::Wait(Waiting::Decision(told())),
        Some(JoinDecision::Denied) => Move::Wait(Waiting::Denied(told())),
        Some(JoinDecision::Approved) => {
            let (namespace, hub_uid) = (status.namespace.clone(), status.hub_uid.clone());
            let (certificate, sealed) = (status.certificate.clone(), status.sealed_credential.clone());
            let offers = Offered { certificate, sealed }.read(&kept.key, &kept.cluster, &hub_uid);
            if namespace.is_empty() || hub_uid.is_empty() || offers.is_empty() {
                return Move::Wait(Waiting::Signature);
            }
            let is_old = |it: &&Credential| refused.is_some_and(|refused| refused.is_same(it));
            if let Some(credential) = offers.iter().flatten().find(|it| !is_old(it)) {
                let membership = Membership { namespace, hub_uid };
                return Move::Take { credential: credential.clone(), membership };
            }
            let fault = offers.into_iter().find_map(Result::err);
            Move::Wait(fault.map_or(Waiting::Answered, Waiting::Unusable))
        }
    }
}

impl Waiting {
    /// Whether only a person can help, so that there is no hurry to look again.
    pub fn is_stuck(&self) -> bool {
        matches!(self, Self::Denied(_) | Self::NotOurs | Self::Answered | Self::Unusable(_))
    }

    /// Whether our CertificateSigningRequest must still be there.
    pub fn needs_signing(&self) -> bool {
        matches!(self, Self::Decision(_) | Self::Signature)
    }
}

#[cfg(test)]
mod tests {
    use kruise_core::api::fleet::join_request::{JoinRequestSpec, JoinRequestStatus};

    use super::{
        super::{
            identity::{Key, Validity},
            tests::{at, certificate, kept, kept_token, key, sealed, token},
        },
        *,
    };

    fn asked(kept: &Kept, status: Option<JoinRequestStatus>) -> Seen {
        let spec = JoinRequestSpec { public_key: kept.key.public_key(), ..JoinRequestSpec::default() };
        let mut request = JoinRequest::new("eu-1", spec);
        request.status = status;
        Seen::There(Box::new(request))
    }

    fn answered(decision: JoinDecision, certificate: &str) -> Option<JoinRequestStatus> {
        Some(JoinRequestStatus {
            decision: Some(decision),
            reason: "Why".into(),
            message: "because".into(),
            namespace: "fleet-eu-1".into(),
            hub_uid: "hub".into(),
            certificate: certificate.into(),
            ..JoinRequestStatus::default()
        })
    }

    fn new() -> Kept {
        Kept::new("eu-1", key())
    }

    fn signed(key: &Key, user: &str) -> String {
        let life = Validity { from: at("2026-01-01T00:00:00Z"), to: at("2026-01-02T00:00:00Z") };
        certificate(key, user, life)
    }

    #[test]
    fn join_2_it_asks_once_and_then_waits_to_be_let_read() {
        assert_eq!(next(&new(), &Seen::Closed, None, None), Move::Ask);
        assert_eq!(next(&new(), &Seen::Missing, Some(Duration::ZERO), None), Move::Ask);
        let soon = Some(Duration::from_secs(5));
        assert_eq!(next(&new(), &Seen::Closed, soon, None), Move::Wait(Waiting::Hub));
        // A request that was deleted takes the right to read it with it.
        assert_eq!(next(&new(), &Seen::Closed, Some(GRANTED_WITHIN), None), Move::Ask);
    }

    #[test]
    fn join_2_every_answer_is_told_with_its_reason() {
        let kept = new();
        let wait = |status| match next(&kept, &asked(&kept, status), None, None) {
            Move::Wait(it) => it,
            other => panic!("{other:?}"),
        };
        assert_eq!(wait(None), Waiting::Hub);
        assert_eq!(wait(Some(JoinRequestStatus::default())), Waiting::Hub);
        let pending = wait(answered(JoinDecision::Pending, ""));
        assert_eq!(pending, Waiting::Decision("Why: because".into()));
        assert!(pending.needs_signing() && !pending.is_stuck());
        let denied = wait(answered(JoinDecision::Denied, ""));
        assert_eq!(denied, Waiting::Denied("Why: because".into()));
        assert!(denied.is_stuck() && !denied.needs_signing());
        assert_eq!(wait(answered(JoinDecision::Approved, "")), Waiting::Signature);
    }

    #[test]
    fn join_6_a_request_of_another_key_is_not_ours() {
        let kept = new();
        let seen = asked(&Kept::new("eu-1", Key::generate().unwrap()), answered(JoinDecision::Approved, "x"));
        assert_eq!(next(&kept, &seen, None, None), Move::Wait(Waiting::NotOurs));
    }

    #[test]
    fn join_4_a_certificate_is_taken_if_it_is_for_our_key_and_name() {
        let kept = new();
        let pem = signed(&kept.key, &kept.key.user("eu-1"));
        let seen = asked(&kept, answered(JoinDecision::Approved, &pem));
        let Move::Take { credential, membership } = next(&kept, &seen, None, None) else {
            panic!("{seen:?}")
        };
        assert_eq!((credential, membership.namespace.as_str()), (Credential::Certificate(pem), "fleet-eu-1"));
        for (pem, fault) in [
            (signed(&kept.key, "system:masters"), Fault::OtherName),
            (signed(&Key::generate().unwrap(), &kept.key.user("eu-1")), Fault::OtherKey),
            ("none".to_owned(), Fault::Unreadable),
        ] {
            let seen = asked(&kept, answered(JoinDecision::Approved, &pem));
            assert_eq!(next(&kept, &seen, None, None), Move::Wait(Waiting::Unusable(fault)));
        }
    }

    #[test]
    fn an_old_answer_is_no_answer_to_a_certificate_that_has_expired() {
        let kept = kept();
        let old = signed(&kept.key, &kept.key.user("eu-1"));
        let seen = asked(&kept, answered(JoinDecision::Approved, &old));
        let refused = Credential::Certificate(old);
        assert_eq!(next(&kept, &seen, None, Some(&refused)), Move::Wait(Waiting::Answered));
        assert!(matches!(next(&kept, &seen, None, None), Move::Take { .. }));
    }

    #[test]
    fn join_4_a_sealed_token_is_taken_if_only_our_key_opens_it() {
        let kept = kept_token();
        let offered = |key: &Key, hub: &str, ends: &str| {
            let mut status = answered(JoinDecision::Approved, "").unwrap();
            status.sealed_credential = sealed(key, "eu-1", hub, &token(ends));
            asked(&kept, Some(status))
        };
        let (old, new) = ("2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z");
        let refused = kept.held.as_ref().map(|it| &it.credential);
        let seen = offered(&kept.key, "hub", old);
        assert_eq!(next(&kept, &seen, None, refused), Move::Wait(Waiting::Answered), "it was taken back");
        let seen = offered(&kept.key, "hub", new);
        let Move::Take { credential, .. } = next(&kept, &seen, None, refused) else { panic!("{seen:?}") };
        assert_eq!(credential, Credential::Token(token(new)));
        for (key, hub) in [(&Key::generate().unwrap(), "hub"), (&kept.key, "another")] {
            let seen = offered(key, hub, new);
            assert_eq!(next(&kept, &seen, None, None), Move::Wait(Waiting::Unusable(Fault::Sealed)));
        }
    }
}
