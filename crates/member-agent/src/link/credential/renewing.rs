//! Asking for a newer credential as ourselves: what to do by what the hub has written for us. Pure (JOIN-4).

use jiff::{SignedDuration, Timestamp};

use super::{held::Credential, kept::Kept};

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
    /// Keep this credential, to be used.
    Take(Credential),
    /// Wait for the hub.
    Wait,
}

/// What to do by the credentials that the hub `offers`. `sent` is the request that this process has sent; `refused` a
/// credential that the hub does not take.
pub fn next(
    kept: &Kept,
    offers: &[Credential],
    sent: Option<&str>,
    refused: Option<&Credential>,
    now: Timestamp,
) -> Move {
    let is_refused = |it: &Credential| refused.is_some_and(|refused| refused.is_same(it));
    if let Some(offered) = offers.iter().find(|it| is_newer(kept, it) && !is_refused(it)) {
        return Move::Take(offered.clone());
    }
    match kept.request_by(None) {
        None => Move::Ask,
        Some(request) if now.duration_since(request.since) >= ANSWERED_WITHIN => Move::Ask,
        Some(request) if sent != Some(request.name.as_str()) => Move::Send(request.name.clone()),
        Some(_) => Move::Wait,
    }
}

/// Whether what is offered is another one than we have that ends no earlier.
fn is_newer(kept: &Kept, offered: &Credential) -> bool {
    let Some(held) = &kept.held else { return true };
    let ends = held.credential.ends();
    !held.credential.is_same(offered) && ends.is_none_or(|it| offered.ends().is_some_and(|new| new >= it))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            held::Offered,
            identity::{Key, Validity},
            kept::Signing,
            tests::{at, certificate, kept, kept_token, sealed, token},
        },
        *,
    };

    const NOW: &str = "2026-01-01T14:00:00Z";

    fn until(key: &Key, user: &str, to: &str) -> Credential {
        let pem = certificate(key, user, Validity { from: at("2026-01-01T00:00:00Z"), to: at(to) });
        Credential::Certificate(pem)
    }

    fn ours(since: &str) -> Signing {
        Signing { name: "fleet-agent-1".into(), since: at(since), by: None }
    }

    #[test]
    fn join_4_it_asks_waits_and_takes_what_is_newer() {
        let mut kept = kept();
        assert_eq!(next(&kept, &[], None, None, at(NOW)), Move::Ask);
        kept.request = Some(ours(NOW));
        assert_eq!(next(&kept, &[], None, None, at(NOW)), Move::Send("fleet-agent-1".into()));
        let sent = Some("fleet-agent-1");
        let held = kept.held.clone().unwrap().credential;
        assert_eq!(next(&kept, &[held], sent, None, at(NOW)), Move::Wait, "what we have is nothing new");
        let user = kept.key.user("eu-1");
        let new = until(&kept.key, &user, "2026-01-02T14:00:00Z");
        let offers = [new.clone()];
        assert_eq!(next(&kept, &offers, sent, None, at(NOW)), Move::Take(new.clone()));
        assert_eq!(next(&kept, &offers, sent, Some(&new), at(NOW)), Move::Wait, "the hub does not take it");
        let old = until(&kept.key, &user, "2026-01-01T14:00:00Z");
        assert_eq!(next(&kept, &[old], sent, None, at(NOW)), Move::Wait, "it ends before ours");
    }

    #[test]
    fn join_4_a_newer_token_is_taken_whatever_we_have_now() {
        let new = Credential::Token(token("2026-01-02T14:00:00Z"));
        for mut kept in [kept(), kept_token()] {
            kept.request = Some(ours(NOW));
            let offers = [new.clone()];
            assert_eq!(next(&kept, &offers, Some("fleet-agent-1"), None, at(NOW)), Move::Take(new.clone()));
            assert_eq!(next(&kept, &offers, Some("fleet-agent-1"), Some(&new), at(NOW)), Move::Wait);
            let old = [Credential::Token(token("2026-01-01T23:00:00Z"))];
            assert_eq!(
                next(&kept, &old, Some("fleet-agent-1"), None, at(NOW)),
                Move::Wait,
                "it ends before ours"
            );
        }
        let mut kept = kept_token();
        kept.request = Some(ours(NOW));
        let back = until(&kept.key, &kept.key.user("eu-1"), "2026-01-02T14:00:00Z");
        assert_eq!(
            next(&kept, std::slice::from_ref(&back), Some("fleet-agent-1"), None, at(NOW)),
            Move::Take(back)
        );
    }

    #[test]
    fn a_request_that_nobody_answers_is_made_anew_after_an_hour() {
        let mut kept = kept();
        kept.request = Some(ours("2026-01-01T13:00:00Z"));
        assert_eq!(next(&kept, &[], Some("fleet-agent-1"), None, at(NOW)), Move::Ask);
        // Nor does one count that was made with a token: only what we make ourselves is signed now.
        kept.request = Some(Signing { by: Some("abcdef".into()), ..ours(NOW) });
        assert_eq!(next(&kept, &[], Some("fleet-agent-1"), None, at(NOW)), Move::Ask);
    }

    #[test]
    fn credentials_of_others_are_not_offered_to_us() {
        let kept = kept();
        let other = Key::generate().unwrap();
        let to = "2026-01-03T00:00:00Z";
        let pem = |it: Credential| String::from_utf8(it.bytes().to_vec()).unwrap();
        for certificate in [
            pem(until(&other, &other.user("eu-1"), to)),
            pem(until(&kept.key, "fleet:agent:eu-1", to)),
            pem(until(&kept.key, &kept.key.user("eu-2"), to)),
            "none".to_owned(),
        ] {
            for sealed in [sealed(&other, "eu-1", "hub", &token(to)), "none".to_owned()] {
                let offered = Offered { certificate: certificate.clone(), sealed };
                assert!(offered.read(&kept.key, "eu-1", "hub").iter().all(Result::is_err));
            }
        }
    }
}
