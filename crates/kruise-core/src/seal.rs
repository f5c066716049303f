//! Sealing: only the holder of one P-256 key reads what is sealed to it, and only as what it was sealed for.
//!
//! An ephemeral key agrees with the recipient's (ECDH), HKDF-SHA256 makes a key of what both know, and AES-256-GCM encrypts under
//! it. What the content is for, the cluster, the hub and both public keys go into the key and are authenticated: a text that was
//! taken from elsewhere does not open. Nothing says who has sealed it: whoever may write where it is read is believed
//! (ADR 13).

use base64::{Engine, engine::general_purpose::STANDARD};
use p256::{PublicKey, SecretKey, ecdh, elliptic_curve::sec1::ToSec1Point, pkcs8::DecodePrivateKey};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    agreement::{self, ECDH_P256, EphemeralPrivateKey, UnparsedPublicKey},
    hkdf::{HKDF_SHA256, Salt},
    rand::SystemRandom,
};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject};

/// The first byte of what is sealed this way.
const VERSION: u8 = 1;
/// What keeps these keys apart from those of anything else.
const SALT: &[u8] = b"fleet.kruise.io/seal/v1";
/// What a SubjectPublicKeyInfo of a P-256 key begins with, DER; the point follows.
const SPKI: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86,
    0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];
/// Bytes of a point that is not compressed.
const POINT: usize = 65;

/// What something is sealed for. Whoever opens it has to say the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purpose<'a> {
    /// What the content is, such as [`AGENT_TOKEN`].
    pub content: &'a str,
    /// The cluster that it is for.
    pub cluster: &'a str,
    /// UID of the hub that it comes from.
    pub hub_uid: &'a str,
}

/// The content is a token of an agent for its hub.
pub const AGENT_TOKEN: &str = "agent-token";

/// Why nothing is sealed or opened. It does not say more: whoever tries should learn nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The key of the recipient.
    #[error("the recipient's key is no P-256 key")]
    Recipient,
    /// Our own key.
    #[error("the private key is no P-256 key")]
    Key,
    /// There are no random bytes.
    #[error("there is no randomness")]
    NoRandomness,
    /// It is for somebody else or something else, or was changed on the way.
    #[error("it is not sealed to this key for this purpose")]
    Closed,
}

/// Whether something can be sealed to a key: a SubjectPublicKeyInfo, DER.
pub fn is_recipient(key: &[u8]) -> bool {
    point(key).is_some_and(|it| PublicKey::from_sec1_bytes(it).is_ok())
}

/// Seals `content` to a public key: SubjectPublicKeyInfo, DER. Gives text.
pub fn seal(recipient: &[u8], purpose: &Purpose<'_>, content: &[u8]) -> Result<String, Error> {
    let to = point(recipient).ok_or(Error::Recipient)?;
    let random = SystemRandom::new();
    let ephemeral = EphemeralPrivateKey::generate(&ECDH_P256, &random).map_err(|_| Error::NoRandomness)?;
    let from = ephemeral.compute_public_key().map_err(|_| Error::NoRandomness)?;
    let bound = bound(purpose, from.as_ref(), to);
    let their = UnparsedPublicKey::new(&ECDH_P256, to);
    let key = agreement::agree_ephemeral(ephemeral, &their, |shared| key(shared, &bound));
    let key = key.map_err(|_| Error::Recipient)?.ok_or(Error::NoRandomness)?;
    let mut sealed = content.to_vec();
    key.seal_in_place_append_tag(nonce(), Aad::from(&bound), &mut sealed).map_err(|_| Error::NoRandomness)?;
    Ok(STANDARD.encode([&[VERSION], from.as_ref(), &sealed].concat()))
}

/// Opens a text with the private key that it is sealed to: PKCS#8, PEM.
pub fn open(private: &str, purpose: &Purpose<'_>, sealed: &str) -> Result<Vec<u8>, Error> {
    let private = PrivatePkcs8KeyDer::from_pem_slice(private.as_bytes()).map_err(|_| Error::Key)?;
    let private = SecretKey::from_pkcs8_der(private.secret_pkcs8_der()).map_err(|_| Error::Key)?;
    let sealed = STANDARD.decode(sealed).map_err(|_| Error::Closed)?;
    let Some((&VERSION, rest)) = sealed.split_first() else { return Err(Error::Closed) };
    let (from, content) = rest.split_at_checked(POINT).ok_or(Error::Closed)?;
    // Points in another form would be the same key under another text.
    if from.first() != Some(&UNCOMPRESSED) {
        return Err(Error::Closed);
    }
    let ephemeral = PublicKey::from_sec1_bytes(from).map_err(|_| Error::Closed)?;
    let to = private.public_key().to_sec1_point(false);
    let shared = ecdh::diffie_hellman(private.to_nonzero_scalar(), ephemeral.as_affine());
    let bound = bound(purpose, from, to.as_bytes());
    let key = key(shared.raw_secret_bytes(), &bound).ok_or(Error::Closed)?;
    let mut content = content.to_vec();
    let opened = key.open_in_place(nonce(), Aad::from(&bound), &mut content).map_err(|_| Error::Closed)?;
    Ok(opened.to_vec())
}

/// The first byte of a point that is not compressed.
const UNCOMPRESSED: u8 = 4;

fn point(key: &[u8]) -> Option<&[u8]> {
    key.strip_prefix(&SPKI).filter(|it| it.len() == POINT && it.first() == Some(&UNCOMPRESSED))
}

/// Everything that a text is bound to, each part with its length before it: no two lists of parts are the same bytes.
fn bound(purpose: &Purpose<'_>, from: &[u8], to: &[u8]) -> Vec<u8> {
    let Purpose { content, cluster, hub_uid } = purpose;
    let parts = [content.as_bytes(), cluster.as_bytes(), hub_uid.as_bytes(), from, to];
    parts
        .into_iter()
        .flat_map(|it| (it.len() as u64).to_be_bytes().into_iter().chain(it.iter().copied()))
        .collect()
}

fn key(shared: &[u8], bound: &[u8]) -> Option<LessSafeKey> {
    let secret = Salt::new(HKDF_SHA256, SALT).extract(shared);
    let expanded = secret.expand(&[bound], &AES_256_GCM).ok().map(UnboundKey::from);
    expanded.map(LessSafeKey::new)
}

/// Each key encrypts one text only, because each text has an ephemeral key of its own.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, PublicKeyData};

    use super::*;

    fn purpose() -> Purpose<'static> {
        Purpose { content: AGENT_TOKEN, cluster: "eu-1", hub_uid: "hub" }
    }

    fn pair() -> (String, Vec<u8>) {
        let pair = KeyPair::generate().unwrap();
        (pair.serialize_pem(), pair.subject_public_key_info())
    }

    #[test]
    fn join_4_no_two_sealed_texts_are_the_same() {
        let (_, public) = pair();
        let seal = || seal(&public, &purpose(), b"token").unwrap();
        assert_ne!(seal(), seal());
    }

    #[test]
    fn join_4_only_p_256_keys_are_sealed_to() {
        let (_, public) = pair();
        assert!(is_recipient(&public));
        let other = |it| KeyPair::generate_for(it).unwrap();
        let mut off_the_curve = public.clone();
        off_the_curve[POINT] ^= 1;
        for wrong in [
            other(&PKCS_ED25519).subject_public_key_info(),
            other(&PKCS_ECDSA_P384_SHA384).subject_public_key_info(),
            public[..90].to_vec(),
            [&public[..], &[0]].concat(),
            off_the_curve,
            Vec::new(),
        ] {
            assert!(!is_recipient(&wrong));
            assert_eq!(seal(&wrong, &purpose(), b"token"), Err(Error::Recipient));
        }
        let sealed = seal(&public, &purpose(), b"token").unwrap();
        for key in [other(&PKCS_ED25519).serialize_pem(), String::new(), "none".to_owned()] {
            assert_eq!(open(&key, &purpose(), &sealed), Err(Error::Key));
        }
    }

    #[test]
    fn a_text_that_another_program_has_sealed_opens() {
        // Made with Python's `cryptography` from this description alone: what is stored has to be read by versions to come.
        let key = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQga3J1aXNlIGZsZWV0OiBhIGtleSBvZiBvbmUgdGVzdC6hRANCAARxtRLcxG7iB2fp7Et44v9j3QzktgNZdPhfqIwZfJJNEZM3QDulyebvEdA4eev2CKfQ3VqfRjum2EqxZTyvZ+d/";
        let sealed = "AQTS7UGmv5UgnIfcv0za4fktqg3BMi2oUDytJ7ipEcdNqXfH94Zx9/il8smC1JAlKf48ifWYp51FiYe3rUYy/k0obyFtWvcTLkpk3dMV8j7drphKH310AW4=";
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----\n");
        assert_eq!(open(&pem, &purpose(), sealed).as_deref(), Ok(&b"a token"[..]));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn sealed_roundtrip(
            content in prop::collection::vec(any::<u8>(), 0..2_000),
            cluster in "[a-z][a-z0-9.-]{0,60}",
            hub in "[a-f0-9-]{0,36}",
            at in any::<prop::sample::Index>(),
            bit in 0_u8..8,
        ) {
            let ((private, public), (stranger, _)) = (pair(), pair());
            let purpose = Purpose { content: AGENT_TOKEN, cluster: &cluster, hub_uid: &hub };
            let sealed = seal(&public, &purpose, &content).unwrap();
            prop_assert_eq!(open(&private, &purpose, &sealed), Ok(content));
            prop_assert_eq!(open(&stranger, &purpose, &sealed), Err(Error::Closed));
            let (longer, moved) = (format!("{cluster}a"), format!("{hub}{cluster}"));
            for other in [
                Purpose { content: "body", ..purpose },
                Purpose { cluster: &longer, ..purpose },
                Purpose { hub_uid: &moved, ..purpose },
                Purpose { cluster: &hub, hub_uid: &cluster, ..purpose },
            ] {
                prop_assert_eq!(open(&private, &other, &sealed), Err(Error::Closed));
            }
            let mut bytes = STANDARD.decode(&sealed).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert_eq!(open(&private, &purpose, &STANDARD.encode(&bytes)), Err(Error::Closed));
            bytes[at] ^= 1 << bit;
            bytes.truncate(at);
            prop_assert_eq!(open(&private, &purpose, &STANDARD.encode(&bytes)), Err(Error::Closed));
        }

        #[test]
        fn no_text_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in ".{0,200}") {
            let (private, public) = pair();
            prop_assert_eq!(open(&private, &purpose(), &text), Err(Error::Closed));
            let framed = [&[VERSION], &bytes[..]].concat();
            prop_assert_eq!(open(&private, &purpose(), &STANDARD.encode(framed)), Err(Error::Closed));
            let _ = (open(&text, &purpose(), &text), seal(&bytes, &purpose(), &public));
        }
    }
}
