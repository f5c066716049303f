//! Every check of a CertificateSigningRequest, one by one.

use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose, PublicKeyData};

use super::kit::{NAMED, TOKEN_USER, asked, first, key, pem, user};
use crate::members::answer::signing::{Expected, Fault, Said, fault, said};

fn judge(request: &CertificateSigningRequest) -> Option<Fault> {
    let key = key().subject_public_key_info();
    fault(request, &Expected { creators: &[TOKEN_USER], user: &user(), key: &key })
}

fn with(change: impl FnOnce(&mut CertificateSigningRequest)) -> Option<Fault> {
    let mut request = first();
    change(&mut request);
    judge(&request)
}

fn with_params(change: impl FnOnce(&mut CertificateParams)) -> Option<Fault> {
    judge(&asked(NAMED, TOKEN_USER, &pem(key(), &user(), change)))
}

fn with_text(text: &str) -> Option<Fault> {
    with(|it| it.spec.request = ByteString(text.as_bytes().to_vec()))
}

#[test]
fn what_an_agent_has_to_ask_for_has_no_fault() {
    assert_eq!(with(|_| {}), None);
    // It may say the same twice.
    assert_eq!(with_params(|it| it.key_usages = vec![KeyUsagePurpose::DigitalSignature]), None);
    assert_eq!(with(|it| it.spec.usages = Some(vec!["client auth".into()])), None);
    assert_eq!(with(|it| it.spec.expiration_seconds = Some(600)), None);
}

#[test]
fn signing_names_are_those_of_agents() {
    assert_eq!(with(|it| it.metadata.name = Some("alice".into())), Some(Fault::Name));
}

#[test]
fn signing_is_for_one_signer() {
    let kubelets = "kubernetes.io/kube-apiserver-client-kubelet";
    assert_eq!(with(|it| it.spec.signer_name = kubelets.into()), Some(Fault::Signer));
}

#[test]
fn signing_is_asked_for_by_the_token_of_the_request_and_nobody_else() {
    for creator in
        [None, Some("alice"), Some("system:bootstrap:zyxwvu"), Some("system:bootstrap:abcdef2"), Some("")]
    {
        assert_eq!(
            with(|it| it.spec.username = creator.map(str::to_owned)),
            Some(Fault::Creator),
            "{creator:?}"
        );
    }
}

#[test]
fn signing_is_for_clients_only() {
    for usages in [&["client auth", "server auth"][..], &["digital signature"], &["any"], &[]] {
        let usages = usages.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(with(|it| it.spec.usages = Some(usages)), Some(Fault::Usages));
    }
    assert_eq!(with(|it| it.spec.usages = None), Some(Fault::Usages));
}

#[test]
fn signing_is_for_a_day_at_most() {
    for seconds in [None, Some(86_401), Some(-1)] {
        assert_eq!(with(|it| it.spec.expiration_seconds = seconds), Some(Fault::Life), "{seconds:?}");
    }
}

#[test]
fn signing_reads_one_block_and_nothing_beside_it() {
    let good = pem(key(), &user(), |_| {});
    let other = pem(key(), "system:admin", |_| {});
    let body = good.lines().filter(|it| !it.starts_with('-')).collect::<String>();
    let mut longer = STANDARD.decode(&body).unwrap();
    longer.push(0);
    let wrap = |body: &str| {
        format!("-----BEGIN CERTIFICATE REQUEST-----\n{body}\n-----END CERTIFICATE REQUEST-----\n")
    };
    assert_eq!(with_text(&wrap(&body)), None);
    for text in [
        String::new(),
        body.clone(),
        format!("{other}{good}"),
        format!("{good}{other}"),
        format!("words\n{good}"),
        good.replacen("REQUEST-----\n", "REQUEST-----\nProc-Type: 4,ENCRYPTED\n\n", 1),
        good.replace("CERTIFICATE REQUEST", "CERTIFICATE"),
        wrap(&STANDARD.encode(&longer)),
        wrap(&body[..body.len() / 8 * 4]),
        wrap("AAAA"),
        wrap("not base64"),
    ] {
        assert_eq!(with_text(&text), Some(Fault::Unreadable), "{text}");
    }
    assert_eq!(with(|it| it.spec.request = ByteString(vec![0xff; 40])), Some(Fault::Unreadable));
}

#[test]
fn signing_is_for_the_agent_of_the_cluster_and_no_group() {
    let plain = user().rsplit_once(':').unwrap().0.to_owned();
    for name in ["system:admin", "fleet:agent:eu-2:0000000000000000", "", &plain] {
        let request = asked(NAMED, TOKEN_USER, &pem(key(), name, |_| {}));
        assert_eq!(judge(&request), Some(Fault::Subject), "{name}");
    }
    let masters =
        |it: &mut CertificateParams| it.distinguished_name.push(DnType::OrganizationName, "system:masters");
    assert_eq!(with_params(masters), Some(Fault::Subject));
    let unit = |it: &mut CertificateParams| it.distinguished_name.push(DnType::OrganizationalUnitName, "a");
    assert_eq!(with_params(unit), Some(Fault::Subject));
    assert_eq!(
        with_params(|it| it.distinguished_name = rcgen::DistinguishedName::new()),
        Some(Fault::Subject)
    );
    // The same letters as another kind of text.
    let wide = rcgen::string::BmpString::try_from(user().as_str()).unwrap();
    let wide = rcgen::DnValue::BmpString(wide);
    let other = |it: &mut CertificateParams| it.distinguished_name.push(DnType::CommonName, wide);
    assert_eq!(with_params(other), Some(Fault::Subject));
}

#[test]
fn signing_gives_no_other_names() {
    let names = vec!["hub.example".to_owned(), "10.0.0.1".to_owned()];
    let with_names = CertificateParams::new(names).unwrap().subject_alt_names;
    assert_eq!(with_params(|it| it.subject_alt_names = with_names), Some(Fault::Extensions));
    let authority = |it: &mut CertificateParams| it.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    assert_eq!(with_params(authority), Some(Fault::Extensions));
}

#[test]
fn signing_is_for_the_pinned_key() {
    let other = KeyPair::generate().unwrap();
    let request = asked(NAMED, TOKEN_USER, &pem(&other, &user(), |_| {}));
    assert_eq!(judge(&request), Some(Fault::Key));
}

#[test]
fn a_refusal_counts_more_than_an_approval() {
    assert_eq!(said(&first()), Said::Nothing);
    let mut both = super::kit::said(first(), "Approved", "");
    assert_eq!(said(&both), Said::Approved);
    let denied = super::kit::said(first(), "Denied", "").status.unwrap().conditions.unwrap();
    both.status.as_mut().unwrap().conditions.as_mut().unwrap().extend(denied);
    assert_eq!(said(&both), Said::Refused);
}

proptest! {
    #[test]
    fn no_bytes_panic_and_a_changed_request_is_never_for_somebody_else(at in 0usize..400, to in any::<u8>()) {
        let good = pem(key(), &user(), |_| {});
        let body = good.lines().filter(|it| !it.starts_with('-')).collect::<String>();
        let mut der = STANDARD.decode(&body).unwrap();
        let at = at % der.len();
        der[at] = to;
        let text = format!(
            "-----BEGIN CERTIFICATE REQUEST-----\n{}\n-----END CERTIFICATE REQUEST-----", STANDARD.encode(&der)
        );
        // Whatever is let pass still has the user and the key.
        if with_text(&text).is_none() {
            let has = |part: &[u8]| der.windows(part.len()).any(|it| it == part);
            prop_assert!(has(user().as_bytes()) && has(&key().subject_public_key_info()));
        }
    }

    #[test]
    fn no_text_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(with(|it| it.spec.request = ByteString(bytes)).is_some());
    }
}
