//! The key by which a cluster is known: the SubjectPublicKeyInfo of its agent, DER in base64, pinned when it joins (JOIN-2).

use base64::{Engine, engine::general_purpose::STANDARD};
use scheduling::rank::sha256;
use x509_parser::{prelude::FromDer, x509::SubjectPublicKeyInfo};

/// How many bytes of a key's hash are in the name of its user.
const SHOWN: usize = 8;

/// The DER of a key, if the text is exactly one.
pub fn read(text: &str) -> Option<Vec<u8>> {
    let der = STANDARD.decode(text).ok()?;
    matches!(SubjectPublicKeyInfo::from_der(&der), Ok(([], _))).then_some(der)
}

/// What tells the users of two keys apart: the first 16 digits of SHA-256 over the DER.
pub fn fingerprint(der: &[u8]) -> String {
    sha256(der).iter().take(SHOWN).map(|it| format!("{it:02x}")).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An EC key; `openssl ec -pubout -outform DER | base64` printed it.
    pub(crate) const KEY: &str = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE68a4y0eXzsy8zxxkQzLOHzjEqsBZB+cH20/WLD5LvDIfmYTvs7W6/XXEIJVGfKNrZzZX3g/ppT2SwXuU7bWyTQ==";

    #[test]
    fn join_4_the_fingerprint_is_that_of_the_whole_subject_public_key_info() {
        let der = read(KEY).unwrap();
        // base64 -d | sha256sum
        assert_eq!(fingerprint(&der), "459478683d4e388a");
    }

    #[test]
    fn what_is_no_key_is_not_taken_for_one() {
        let der = read(KEY).unwrap();
        let longer = STANDARD.encode([&der[..], &[0]].concat());
        let shorter = STANDARD.encode(&der[..der.len() - 1]);
        for wrong in ["", "none", "k", &longer, &shorter, &format!("{KEY}\n")] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
