//! Asking for a newer certificate as ourselves: what to do by what the hub has written for us. Pure (JOIN-4).

use jiff::{SignedDuration, Timestamp};

use super::{
    identity::{Validity, is_same},
    kept::Kept,
};

/// How long a CertificateSigningRequest may go unanswered before another one is made. The API server forgets those that were
/// answered after an hour.
const ANSWERED_WITHIN: SignedDuration = SignedDuration::from_hours(1);

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// Send a CertificateSigningRequest under a new name.
    Ask,
    /// Send the one that is kept, in case it was never sent.
    Send(String),
    /// Keep this certificate, to be used.
    Take(String),
    /// Wait for the hub.
    Wait,
}

/// What to do by the certificate that the hub `offers`. `sent` is the request that this process has sent; `refused` a
/// certificate that the hub does not take.
pub fn next(kept: &Kept, offered: &str, sent: Option<&str>, refused: Option<&str>, now: Timestamp) -> Move {
    if is_newer(kept, offered) && !refused.is_some_and(|it| is_same(it, offered)) {
        return Move::Take(offered.to_owned());
    }
    match kept.request_by(None) {
        None => Move::Ask,
        Some(request) if now.duration_since(request.since) >= ANSWERED_WITHIN => Move::Ask,
        Some(request) if sent != Some(request.name.as_str()) => Move::Send(request.name.clone()),
        Some(_) => Move::Wait,
    }
}

/// Whether what is offered is ours, and another one than we have that ends no earlier.
fn is_newer(kept: &Kept, offered: &str) -> bool {
    let Ok(new) = kept.key.check(offered, &kept.cluster) else { return false };
    let Some(held) = &kept.certificate else { return true };
    let ends = Validity::of(&held.pem).map(|it| it.to);
    !is_same(&held.pem, offered) && ends.is_none_or(|it| new.to >= it)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            identity::Key,
            kept::Signing,
            tests::{at, certificate, kept},
        },
        *,
    };

    const NOW: &str = "2026-01-01T14:00:00Z";

    fn until(key: &Key, user: &str, to: &str) -> String {
        certificate(key, user, Validity { from: at("2026-01-01T00:00:00Z"), to: at(to) })
    }

    fn ours(since: &str) -> Signing {
        Signing { name: "fleet-agent-1".into(), since: at(since), by: None }
    }

    #[test]
    fn join_4_it_asks_waits_and_takes_what_is_newer() {
        let mut kept = kept();
        assert_eq!(next(&kept, "", None, None, at(NOW)), Move::Ask);
        kept.request = Some(ours(NOW));
        assert_eq!(next(&kept, "", None, None, at(NOW)), Move::Send("fleet-agent-1".into()));
        let sent = Some("fleet-agent-1");
        let held = kept.certificate.clone().unwrap().pem;
        assert_eq!(next(&kept, &held, sent, None, at(NOW)), Move::Wait, "what we have is nothing new");
        let user = kept.key.user("eu-1");
        let new = until(&kept.key, &user, "2026-01-02T14:00:00Z");
        assert_eq!(next(&kept, &new, sent, None, at(NOW)), Move::Take(new.clone()));
        assert_eq!(next(&kept, &new, sent, Some(&new), at(NOW)), Move::Wait, "the hub does not take it");
        let old = until(&kept.key, &user, "2026-01-01T14:00:00Z");
        assert_eq!(next(&kept, &old, sent, None, at(NOW)), Move::Wait, "it ends before ours");
    }

    #[test]
    fn a_request_that_nobody_answers_is_made_anew_after_an_hour() {
        let mut kept = kept();
        kept.request = Some(ours("2026-01-01T13:00:00Z"));
        assert_eq!(next(&kept, "", Some("fleet-agent-1"), None, at(NOW)), Move::Ask);
        // Nor does one count that was made with a token: only what we make ourselves is signed now.
        kept.request = Some(Signing { by: Some("abcdef".into()), ..ours(NOW) });
        assert_eq!(next(&kept, "", Some("fleet-agent-1"), None, at(NOW)), Move::Ask);
    }

    #[test]
    fn certificates_of_others_are_not_taken() {
        let mut kept = kept();
        kept.request = Some(ours(NOW));
        let other = Key::generate().unwrap();
        let to = "2026-01-03T00:00:00Z";
        for pem in [
            until(&other, &other.user("eu-1"), to),
            until(&kept.key, "fleet:agent:eu-1", to),
            until(&kept.key, &kept.key.user("eu-2"), to),
            "none".to_owned(),
        ] {
            assert_eq!(next(&kept, &pem, Some("fleet-agent-1"), None, at(NOW)), Move::Wait);
        }
    }
}
