use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
const NAME: &str = "kruise-webhook-service.kruise-system.svc";

fn start() -> Timestamp {
    "2026-06-01T00:00:00Z".parse().unwrap()
}

fn terms(now: Timestamp) -> Terms<'static> {
    Terms { dns_name: NAME, now, renew_before: DEFAULT_RENEW_BEFORE, overlap: DAY }
}

fn fresh() -> KeySet {
    issue_with_new_authority(&terms(start())).unwrap()
}

fn upstream() -> Contents {
    let file = |name: &str| match name {
        CA_KEY => include_bytes!("../tests/upstream-secret/ca-key.pem").to_vec(),
        CA_CERT => include_bytes!("../tests/upstream-secret/ca-cert.pem").to_vec(),
        KEY | TLS_KEY => include_bytes!("../tests/upstream-secret/key.pem").to_vec(),
        _ => include_bytes!("../tests/upstream-secret/cert.pem").to_vec(),
    };
    [CA_KEY, CA_CERT, KEY, TLS_KEY, CERT, TLS_CERT].map(|it| (it.to_owned(), file(it))).into()
}

fn judged(contents: &Contents) -> Judgement {
    judge(Some(contents), &terms(start()))
}

fn reissue(authority: Authority, fault: Fault) -> Judgement {
    Judgement::Reissue { authority, fault }
}

fn written(decision: Decision) -> (KeySet, Reason) {
    match decision {
        Decision::Write { keys, reason } => (keys, reason),
        Decision::Keep(keys) => panic!("kept {keys:?}"),
    }
}

#[test]
fn what_was_issued_is_kept() {
    let keys = fresh();
    assert_eq!(judged(&keys.contents()), Judgement::Keep);
    assert_eq!(KeySet::read(&keys.contents()).unwrap(), keys);
    assert_eq!(still_serves(&keys, &terms(start())), Ok(()));
}

#[test]
fn nothing_means_everything_is_made() {
    assert_eq!(judge(None, &terms(start())), reissue(Authority::Replace, Fault::Absent));
    assert_eq!(judged(&Contents::new()), reissue(Authority::Replace, Fault::Missing(CA_KEY)));
}

#[test]
fn a_half_written_set_is_completed_by_the_same_authority_if_that_is_whole() {
    for missing in [KEY, TLS_KEY, CERT, TLS_CERT] {
        let mut contents = fresh().contents();
        contents.remove(missing);
        assert_eq!(judged(&contents), reissue(Authority::Reuse, Fault::Missing(missing)));
        contents.insert(missing.to_owned(), Vec::new());
        assert_eq!(judged(&contents), reissue(Authority::Reuse, Fault::Missing(missing)));
    }
    for missing in [CA_KEY, CA_CERT] {
        let mut contents = fresh().contents();
        contents.remove(missing);
        assert_eq!(judged(&contents), reissue(Authority::Replace, Fault::Missing(missing)));
    }
    let mut contents = fresh().contents();
    contents.insert(TLS_CERT.to_owned(), fresh().cert);
    assert_eq!(judged(&contents), reissue(Authority::Reuse, Fault::CopyDiffers(TLS_CERT)));
}

#[test]
fn garbage_is_never_believed() {
    let garbage: [&[u8]; 4] = [
        b"\x00\xff\xfe garbage",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        b"-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n",
        b"-----BEGIN CERTIFICATE-----\n!!!!",
    ];
    for bytes in garbage {
        for (name, copy, authority) in [
            (KEY, TLS_KEY, Authority::Reuse),
            (CERT, TLS_CERT, Authority::Reuse),
            (CA_CERT, CA_CERT, Authority::Replace),
        ] {
            let mut contents = fresh().contents();
            contents.insert(name.to_owned(), bytes.to_vec());
            contents.insert(copy.to_owned(), bytes.to_vec());
            assert_eq!(judged(&contents), reissue(authority, Fault::Unreadable(name)));
        }
    }
}

#[test]
fn an_unreadable_authority_key_is_of_no_concern_until_something_must_be_signed() {
    let mut contents = fresh().contents();
    contents.insert(CA_KEY.to_owned(), b"garbage".to_vec());
    assert_eq!(judged(&contents), Judgement::Keep);
    contents.remove(TLS_CERT);
    assert_eq!(judged(&contents), reissue(Authority::Replace, Fault::Missing(TLS_CERT)));
}

#[test]
fn a_key_of_another_certificate_is_noticed() {
    let (one, other) = (fresh(), fresh());
    let mixed = KeySet { key: other.key, ..one };
    assert_eq!(judged(&mixed.contents()), reissue(Authority::Reuse, Fault::KeyMismatch));
}

#[test]
fn a_certificate_of_another_authority_is_noticed() {
    let (one, other) = (fresh(), fresh());
    let mixed = KeySet { key: one.key, cert: one.cert, ..other };
    assert_eq!(judged(&mixed.contents()), reissue(Authority::Reuse, Fault::WrongAuthority));
    // A key that is not the authority's makes it useless for signing as well.
    let mixed = KeySet { ca_key: fresh().ca_key, ..mixed };
    assert_eq!(judged(&mixed.contents()), reissue(Authority::Replace, Fault::WrongAuthority));
}

#[test]
fn a_serving_certificate_is_no_authority() {
    let keys = fresh();
    let crooked = KeySet { ca_cert: keys.cert.clone(), ca_key: keys.key.clone(), ..keys };
    assert_eq!(judged(&crooked.contents()), reissue(Authority::Replace, Fault::NotAnAuthority));
}

#[test]
fn a_certificate_for_another_name_is_noticed() {
    let other = Terms { dns_name: "other.kruise-system.svc", ..terms(start()) };
    let keys = issue_with_new_authority(&other).unwrap();
    assert_eq!(judged(&keys.contents()), reissue(Authority::Reuse, Fault::WrongName));
    let by_address = Terms { dns_name: "10.1.2.3", ..terms(start()) };
    assert_eq!(judge(Some(&keys.contents()), &by_address), reissue(Authority::Reuse, Fault::WrongName));
}

#[test]
fn addresses_and_localhost_are_named_too() {
    for name in ["127.0.0.1", "::1", NAME] {
        let terms = Terms { dns_name: name, ..terms(start()) };
        let keys = issue_with_new_authority(&terms).unwrap();
        for name in [name, "localhost"] {
            assert_eq!(judge(Some(&keys.contents()), &Terms { dns_name: name, ..terms }), Judgement::Keep);
        }
    }
}

#[test]
fn a_very_long_name_still_gets_a_certificate() {
    let name = format!("{}.{}.svc", "a".repeat(63), "b".repeat(63));
    let terms = Terms { dns_name: &name, ..terms(start()) };
    let keys = issue_with_new_authority(&terms).unwrap();
    assert_eq!(judge(Some(&keys.contents()), &terms), Judgement::Keep);
}

#[test]
fn a_certificate_is_replaced_before_it_ends_and_by_a_new_authority_when_that_ends_as_well() {
    let contents = fresh().contents();
    let at = |days: u32| judge(Some(&contents), &terms(judge::later(start(), DAY * days)));
    assert_eq!(at(3650 - 181), Judgement::Keep);
    assert_eq!(at(3650 - 179), reissue(Authority::Replace, Fault::DueForRenewal));
    assert_eq!(at(3651), reissue(Authority::Replace, Fault::Expired));
    assert_eq!(
        judge(Some(&contents), &terms(start() - YEAR)),
        reissue(Authority::Replace, Fault::NotYetValid)
    );
}

#[test]
fn the_boundaries_of_renewal_are_exact() {
    let keys = fresh();
    let end = expiry(&keys.cert).unwrap();
    let last = end - DEFAULT_RENEW_BEFORE;
    let second = Duration::from_secs(1);
    assert_eq!(judge(Some(&keys.contents()), &terms(last)), Judgement::Keep);
    let due = judge(Some(&keys.contents()), &terms(last + second));
    assert_eq!(due, reissue(Authority::Replace, Fault::DueForRenewal));
    assert_eq!(still_serves(&keys, &terms(end)), Ok(()));
    assert_eq!(still_serves(&keys, &terms(end + second)), Err(Fault::Expired));
}

#[test]
fn what_openkruise_left_behind_is_kept_as_it_is() {
    let contents = upstream();
    let Decision::Keep(keys) = decide(Some(&contents), None, &terms(start())).unwrap() else {
        panic!("not kept");
    };
    assert_eq!(keys.contents(), contents);
    assert_eq!(keys.trust_bundle(), contents[CA_CERT]);
}

#[test]
fn openkruises_authority_signs_our_certificate_when_its_own_does_not_fit() {
    let other = Terms { dns_name: "127.0.0.1", ..terms(start()) };
    let (keys, reason) = written(decide(Some(&upstream()), None, &other).unwrap());
    assert_eq!(reason, Reason::Reissued(Fault::WrongName));
    assert_eq!(judge(Some(&keys.contents()), &other), Judgement::Keep);
    assert_eq!(keys.ca_key, upstream()[CA_KEY]);
    assert!(is_within(&keys.ca_cert, &upstream()[CA_CERT]));
    assert_eq!(keys.retired, None, "the authority is the same");
}

#[test]
fn every_fault_is_repaired_in_one_step() {
    let (one, other) = (fresh(), fresh());
    let broken = [
        Contents::new(),
        KeySet { key: other.key.clone(), ..one.clone() }.contents(),
        KeySet { ca_cert: other.ca_cert.clone(), ..one.clone() }.contents(),
        KeySet { ca_cert: b"garbage".to_vec(), ..one.clone() }.contents(),
        KeySet { ca_key: b"garbage".to_vec(), cert: b"garbage".to_vec(), ..one.clone() }.contents(),
        issue_with_new_authority(&terms(start() - YEAR * 11)).unwrap().contents(),
    ];
    for contents in broken {
        let (keys, _) = written(decide(Some(&contents), None, &terms(start())).unwrap());
        let again = decide(Some(&keys.contents()), None, &terms(start())).unwrap();
        assert_eq!(again, Decision::Keep(keys));
    }
}

#[test]
fn a_new_authority_is_trusted_together_with_the_old_one_until_the_overlap_is_over() {
    let old = fresh();
    let now = expiry(&old.cert).unwrap() - DAY;
    let (keys, reason) = written(decide(Some(&old.contents()), Some(&old), &terms(now)).unwrap());
    assert_eq!(reason, Reason::Reissued(Fault::DueForRenewal));
    assert!(!is_within(&keys.ca_cert, &old.ca_cert));
    assert!(is_within(&old.ca_cert, &keys.trust_bundle()), "replicas still serve under it");
    assert!(is_within(&keys.ca_cert, &keys.trust_bundle()));

    let stored = keys.contents();
    let still = decide(Some(&stored), Some(&keys), &terms(now + DAY - Duration::from_secs(1))).unwrap();
    assert_eq!(still, Decision::Keep(keys.clone()));
    let (trimmed, reason) = written(decide(Some(&stored), Some(&keys), &terms(now + DAY)).unwrap());
    assert_eq!(reason, Reason::RetiredDropped);
    assert_eq!(trimmed, KeySet { retired: None, ..keys });
}

#[test]
fn the_authority_in_use_stays_trusted_when_the_secret_is_deleted_or_replaced() {
    let serving = fresh();
    let (made, _) = written(decide(None, Some(&serving), &terms(start())).unwrap());
    assert!(is_within(&serving.ca_cert, &made.trust_bundle()));

    let replaced = fresh();
    let (kept, reason) =
        written(decide(Some(&replaced.contents()), Some(&serving), &terms(start())).unwrap());
    assert_eq!(reason, Reason::Retired);
    assert!(kept.serves_like(&replaced));
    assert!(is_within(&serving.ca_cert, &kept.trust_bundle()));
    // The other replica, which serves under the same old authority, finds nothing left to do.
    let other = decide(Some(&kept.contents()), Some(&serving), &terms(start())).unwrap();
    assert_eq!(other, Decision::Keep(kept));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn what_was_written_is_kept_however_early_renewal_is_asked_for(days in 0u32..20_000, age in 0u32..4_000) {
        let stored = fresh().contents();
        let now = judge::later(start(), DAY * age);
        let terms = Terms { renew_before: DAY * days, ..terms(now) };
        let decision = decide(Some(&stored), None, &terms).unwrap();
        if let Decision::Write { keys, .. } = decision {
            prop_assert_eq!(decide(Some(&keys.contents()), None, &terms).unwrap(), Decision::Keep(keys));
        }
    }
}

#[test]
fn a_certificate_that_could_not_be_accepted_is_not_written() {
    for name in ["", "not a name", "*.*"] {
        let terms = Terms { dns_name: name, ..terms(start()) };
        assert!(decide(None, None, &terms).is_err(), "{name:?}");
    }
}

#[test]
fn authorities_do_not_pile_up() {
    let mut serving = fresh();
    for _ in 0..10 {
        let (made, _) = written(decide(None, Some(&serving), &terms(start())).unwrap());
        serving = KeySet { retired: None, ..made };
    }
    let mut stored = fresh().contents();
    for _ in 0..10 {
        let (kept, _) = written(decide(Some(&stored), Some(&fresh()), &terms(start())).unwrap());
        stored = kept.contents();
    }
    let trusted = pem::certificates(&KeySet::read(&stored).unwrap().trust_bundle()).unwrap();
    assert_eq!(trusted.len(), 4);
}

#[test]
fn a_half_written_retirement_is_dropped() {
    let mut contents = fresh().contents();
    contents.insert(RETIRED_CERTS.to_owned(), fresh().ca_cert);
    contents.insert(RETIRED_AT.to_owned(), b"some day".to_vec());
    assert_eq!(judged(&contents), Judgement::DropRetired);
}

#[test]
fn private_keys_are_not_printed() {
    let keys = fresh();
    let printed = format!("{keys:?}");
    assert!(!printed.contains("PRIVATE") && printed.len() < 200, "{printed}");
}

#[tokio::test]
async fn a_directory_is_replaced_as_a_whole() {
    let path = std::env::temp_dir().join(format!("kruise-webhook-certs-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&path);
    let directory = Directory::new(&path);
    assert_eq!(directory.read().await.unwrap(), None);

    let old = fresh();
    let (new, _) = written(decide(None, Some(&old), &terms(start())).unwrap());
    for keys in [&old, &new, &old, &new, &old] {
        directory.write(keys.contents()).await.unwrap();
        assert_eq!(directory.read().await.unwrap(), Some(keys.contents()));
    }
    // Files of somebody who knows nothing of links are replaced like any others.
    std::fs::remove_file(path.join(TLS_CERT)).unwrap();
    std::fs::write(path.join(TLS_CERT), b"garbage").unwrap();
    assert_ne!(directory.read().await.unwrap(), Some(old.contents()));
    directory.write(new.contents()).await.unwrap();
    assert_eq!(directory.read().await.unwrap(), Some(new.contents()));
    std::fs::remove_dir_all(&path).unwrap();
}
