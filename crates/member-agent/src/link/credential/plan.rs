//! What to do next about the credential, by what is kept and what the hub last said. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ring::digest::{SHA256, digest};

use super::{
    held::{Credential, Held},
    kept::Kept,
};
use crate::link::standing::Standing;

/// The part of its life after which a credential is renewed, in percent (JOIN-4).
const RENEW_AT_PERCENT: i32 = 60;
/// How much earlier that may be, in percent of its life, so that a fleet that joined at once does not renew at once.
const JITTER_PERCENT: i32 = 10;
/// However far away the next renewal is, it is looked at as often as this: clocks jump.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);
/// Nothing is renewed more often than this, whatever is asked for.
const RENEW_AFTER_AT_LEAST: Duration = Duration::from_secs(1);
/// How long a credential lives at most, as it is asked for (JOIN-4). Its end is by the hub's clock and its beginning by ours: with a
/// clock that is behind it would seem to live longer.
const LONGEST_LIFE: SignedDuration = SignedDuration::from_hours(24);
/// How far clocks of one machine may go back without anybody having set them.
const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_mins(1);
/// What is left of the shortest life that signers give, less the jitter. With a clock that is ahead a new credential seems to
/// have ended already, and would be renewed without a pause.
const SHORTEST_REST: SignedDuration = SignedDuration::from_mins(5);

/// What there is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Make a key and keep it, before anything is sent.
    MakeKey,
    /// Ask for another name than the one that was asked for before.
    Rename,
    /// A person has to say what is meant: the cluster has joined under another name.
    Refuse,
    /// Use the credential that has come.
    Prove,
    /// Ask to join, with the token.
    Join,
    /// Ask for a newer credential, as ourselves.
    Renew,
    /// Nothing for so long, unless the hub says something else.
    Rest(Duration),
}

/// What is to be done for `cluster` with what is kept.
pub fn next(
    kept: Option<&Kept>,
    cluster: &str,
    standing: Standing,
    renew_after: Option<Duration>,
    now: Timestamp,
) -> Step {
    let Some(kept) = kept else { return Step::MakeKey };
    let is_member = kept.held.is_some() || kept.next.is_some();
    match (kept.cluster == cluster, is_member) {
        (false, true) => return Step::Refuse,
        (false, false) => return Step::Rename,
        (true, _) => {}
    }
    if kept.next.is_some() {
        return Step::Prove;
    }
    let Some(held) = kept.held.as_ref().filter(|_| kept.membership.is_some()) else {
        return Step::Join;
    };
    match standing {
        // With the same key: where a person has approved the cluster once, that is all that is needed again.
        Standing::Unrecognized | Standing::Outcast => return Step::Join,
        // Without rights nothing can be asked for.
        Standing::Revoked => return Step::Rest(LOOK_AGAIN),
        Standing::Unknown | Standing::Accepted => {}
    }
    let left = due(held, renew_after).duration_since(now);
    // What was taken up in the future was taken up by a clock that was put right since: nobody knows how old it is.
    let is_dated_ahead = held.since.duration_since(now) > CLOCK_TOLERANCE;
    if left <= SignedDuration::ZERO || is_dated_ahead {
        return Step::Renew;
    }
    Step::Rest(Duration::try_from(left).unwrap_or(LOOK_AGAIN).min(LOOK_AGAIN))
}

/// When a credential is to be renewed. Its own bytes are the chance by which a fleet is spread (JOIN-4).
pub fn due(held: &Held, renew_after: Option<Duration>) -> Timestamp {
    let after = match renew_after {
        Some(after) => {
            SignedDuration::try_from(after.max(RENEW_AFTER_AT_LEAST)).unwrap_or(SignedDuration::MAX)
        }
        None => {
            // From when it was taken up: signers date certificates back.
            let ends = held.credential.ends();
            let life = ends.map_or(SignedDuration::ZERO, |it| it.duration_since(held.since));
            let percent = life.clamp(SignedDuration::ZERO, LONGEST_LIFE) / 100;
            let digest = digest(&SHA256, held.credential.bytes());
            let draw = digest.as_ref().iter().take(4).fold(0_u32, |sum, it| sum << 8 | u32::from(*it));
            let permille = i32::try_from(draw % 1_000).unwrap_or(0);
            let (latest, spread) = (percent * RENEW_AT_PERCENT, percent * JITTER_PERCENT);
            (latest - spread / 1_000 * permille).max(SHORTEST_REST)
        }
    };
    held.since.saturating_add(after).unwrap_or(Timestamp::MAX)
}

/// What the first use of a credential has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The hub knows who we are.
    Good,
    /// It does not take it.
    Bad,
    /// It was not heard.
    Unknown,
}

/// What an answer says of the credential it was asked with. To be refused, the hub has to know who asks.
pub fn proof(answer: Result<(), Option<u16>>) -> Proof {
    match answer {
        Ok(()) | Err(Some(403 | 404)) => Proof::Good,
        Err(Some(401)) => Proof::Bad,
        Err(_) => Proof::Unknown,
    }
}

/// What it means that the hub does not know us: a token that has not ended yet was taken back, and with it our rights (JOIN-5). A
/// certificate cannot be, so that whoever is not known by one has only waited too long.
pub fn meant(kept: &Kept, standing: Standing, now: Timestamp) -> Standing {
    match (standing, kept.held.as_ref().map(|it| &it.credential)) {
        (Standing::Unrecognized, Some(Credential::Token(token))) if now < token.expires => Standing::Outcast,
        _ => standing,
    }
}

#[cfg(test)]
mod tests {
    use kruise_core::api::fleet::agent_token::AgentToken;
    use proptest::prelude::*;

    use super::{
        super::{
            identity::Validity,
            tests::{at, certificate, kept, kept_token, key},
        },
        *,
    };

    fn step(kept: Option<&Kept>, standing: Standing, now: &str) -> Step {
        next(kept, "eu-1", standing, None, at(now))
    }

    #[test]
    fn join_2_the_key_is_kept_before_anything_is_sent() {
        assert_eq!(step(None, Standing::Unknown, "2026-01-01T00:00:00Z"), Step::MakeKey);
        let new = Kept::new("eu-1", key());
        assert_eq!(step(Some(&new), Standing::Unknown, "2026-01-01T00:00:00Z"), Step::Join);
    }

    #[test]
    fn join_4_a_certificate_is_used_before_the_one_before_it_is_forgotten() {
        let mut kept = kept();
        let next = Credential::Certificate("next".into());
        kept.next = Some(next.clone());
        assert_eq!(step(Some(&kept), Standing::Accepted, "2026-01-01T00:00:00Z"), Step::Prove);
        let taken = kept.taken_up(at("2026-01-01T10:00:00Z"));
        assert_eq!((taken.held.unwrap().credential, taken.next, taken.request), (next, None, None));
        assert_eq!(proof(Ok(())), Proof::Good);
        assert_eq!(proof(Err(Some(403))), Proof::Good, "who is refused is known");
        assert_eq!(proof(Err(Some(401))), Proof::Bad);
        for unheard in [None, Some(500), Some(429)] {
            assert_eq!(proof(Err(unheard)), Proof::Unknown);
        }
    }

    #[test]
    fn join_4_it_is_renewed_in_time_and_by_itself() {
        // Taken up at 00:00, ends at 24:00.
        for kept in [kept(), kept_token()] {
            renews_in_time(&kept);
        }
    }

    fn renews_in_time(kept: &Kept) {
        let early = step(Some(kept), Standing::Accepted, "2026-01-01T11:59:00Z");
        assert!(matches!(early, Step::Rest(_)), "{early:?}");
        assert_eq!(step(Some(kept), Standing::Accepted, "2026-01-01T14:25:00Z"), Step::Renew);
        // The hub may be away: nobody has said anything about us yet.
        assert_eq!(step(Some(kept), Standing::Unknown, "2026-01-01T14:25:00Z"), Step::Renew);
        let soon = |now| next(Some(kept), "eu-1", Standing::Accepted, Some(Duration::from_secs(5)), at(now));
        assert_eq!(soon("2026-01-01T00:00:02Z"), Step::Rest(Duration::from_secs(3)));
        assert_eq!(soon("2026-01-01T00:00:05Z"), Step::Renew);
    }

    #[test]
    fn expired_while_offline_it_asks_again_with_the_same_key_but_only_once_the_hub_says_so() {
        let kept = kept();
        // By our clock it is long over; the hub is asked all the same, as a clock may have jumped.
        assert_eq!(step(Some(&kept), Standing::Unknown, "2026-02-01T00:00:00Z"), Step::Renew);
        assert_eq!(step(Some(&kept), Standing::Unrecognized, "2026-02-01T00:00:00Z"), Step::Join);
        assert_eq!(step(Some(&kept), Standing::Unrecognized, "2026-01-01T00:00:01Z"), Step::Join);
    }

    #[test]
    fn join_5_an_agent_that_was_revoked_asks_for_nothing() {
        let rest = step(Some(&kept()), Standing::Revoked, "2026-01-01T23:00:00Z");
        assert_eq!(rest, Step::Rest(LOOK_AGAIN));
    }

    #[test]
    fn join_5_a_token_that_was_taken_back_before_its_end_is_a_revocation() {
        let (before, after) = (at("2026-01-01T23:59:00Z"), at("2026-01-02T00:00:00Z"));
        let taken_back = meant(&kept_token(), Standing::Unrecognized, before);
        assert!(taken_back == Standing::Outcast && !taken_back.lets_act());
        assert_eq!(
            meant(&kept_token(), Standing::Unrecognized, after),
            Standing::Unrecognized,
            "it has ended"
        );
        assert_eq!(meant(&kept(), Standing::Unrecognized, before), Standing::Unrecognized, "a certificate");
        for other in [Standing::Unknown, Standing::Accepted, Standing::Revoked, Standing::Outcast] {
            assert_eq!(meant(&kept_token(), other, before), other);
        }
        let new = Kept::new("eu-1", key());
        assert_eq!(meant(&new, Standing::Unrecognized, before), Standing::Unrecognized);
    }

    #[test]
    fn a_cluster_that_has_joined_is_not_renamed_by_a_flag() {
        let now = at("2026-01-01T00:00:00Z");
        assert_eq!(next(Some(&kept()), "eu-2", Standing::Accepted, None, now), Step::Refuse);
        let new = Kept::new("eu-1", key());
        assert_eq!(next(Some(&new), "eu-2", Standing::Unknown, None, now), Step::Rename);
    }

    /// Section 26: a clock that is a day off changes nothing but when it is renewed.
    #[test]
    fn join_4_with_a_wrong_clock_it_is_renewed_neither_without_a_pause_nor_too_late() {
        let after = |off: i64| {
            let since = at("2026-01-05T00:00:00Z");
            // Given now, by a hub whose clock is right, for a day.
            let expires = since - SignedDuration::from_hours(off) + SignedDuration::from_hours(24);
            let credential = Credential::Token(AgentToken { token: "t".into(), expires });
            due(&Held { credential, since }, None).duration_since(since)
        };
        for ahead in [24, 25, 1_000] {
            assert_eq!(after(ahead), SHORTEST_REST, "{ahead} hours ahead");
        }
        // Put right again, it does not wait until then.
        let late = step(Some(&kept()), Standing::Accepted, "2025-12-31T00:00:00Z");
        assert_eq!(late, Step::Renew);
        for behind in [1, 16, 24, 1_000] {
            assert!(after(-behind) <= SignedDuration::from_hours(24) * 60 / 100, "{behind} hours behind");
        }
    }

    proptest! {
        #[test]
        fn join_4_renewal_is_at_three_fifths_of_life_or_up_to_a_tenth_earlier(hours in 1_i64..=24) {
            let key = key();
            let since = at("2026-01-01T00:00:00Z");
            let to = since + SignedDuration::from_hours(hours);
            let from = since - SignedDuration::from_mins(5);
            let certificate = certificate(&key, &key.user("a"), Validity { from, to });
            let token = AgentToken { token: hours.to_string(), expires: to };
            for credential in [Credential::Certificate(certificate), Credential::Token(token)] {
                let after = due(&Held { credential, since }, None).duration_since(since).as_secs();
                let life = hours * 3_600;
                prop_assert!(after <= life * 60 / 100 + 1 && after >= life * 50 / 100 - 1, "{after} of {life}");
            }
        }

        #[test]
        fn no_state_of_things_makes_it_panic(days in -100_000_i64..100_000, renew in any::<Option<u64>>()) {
            let now = Timestamp::UNIX_EPOCH.saturating_add(SignedDuration::from_hours(days * 24)).unwrap();
            for standing in [Standing::Unknown, Standing::Accepted, Standing::Revoked, Standing::Unrecognized, Standing::Outcast] {
                next(Some(&kept()), "eu-1", standing, renew.map(Duration::from_secs), now);
            }
        }
    }
}
