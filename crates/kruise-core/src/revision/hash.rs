//! Names of revisions, and the hashes in them.

use std::fmt::Write;

use serde_json::Value;

use super::{
    data::RevisionData,
    gojson::write_text,
    shape::SHAPES,
    typed::{Order, write_struct},
};

/// How much of the owner's name goes into the name of a revision.
const MAX_PREFIX: usize = 223;

/// The hash of `data`, as it stands in names. `collision_count` tells different data of equal hashes apart.
pub fn revision_hash(data: &RevisionData, collision_count: i32) -> String {
    let hash = fnv1(data.as_str().bytes().chain(collision_count.to_string().bytes()));
    hash.to_string().bytes().map(letter).collect()
}

/// The name of the revision of `owner` with this hash.
pub fn revision_name(owner: &str, hash: &str) -> String {
    format!("{}-{hash}", &owner[..owner.floor_char_boundary(MAX_PREFIX)])
}

/// The short hash in the name of a revision: what follows its last `-`. A short hash is its own.
pub fn short_hash(revision: &str) -> &str {
    revision.rsplit('-').next().unwrap_or(revision)
}

/// Whether a pod whose revision label is `label` is at `revision`. Either may be a full name or a short hash, so
/// changing the form of the label moves no pod.
pub fn is_at_revision(label: &str, revision: &str) -> bool {
    !label.is_empty() && short_hash(label) == short_hash(revision)
}

/// The hash of claim templates: empty if there are none. Only names and specs count, and not their order.
pub fn claims_hash(claim_templates: &[Value]) -> String {
    if claim_templates.is_empty() {
        return String::new();
    }
    let name = |claim: &Value| {
        claim.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let mut claims: Vec<_> =
        claim_templates.iter().map(|it| (name(it), it.get("spec").unwrap_or(&Value::Null))).collect();
    claims.sort_by(|a, b| a.0.cmp(&b.0));

    let mut text = String::from("[");
    for (index, (name, spec)) in claims.into_iter().enumerate() {
        text.push_str(if index > 0 { ",{\"metadata\":{" } else { "{\"metadata\":{" });
        if !name.is_empty() {
            text.push_str("\"name\":");
            write_text(&mut text, &name);
            text.push(',');
        }
        text.push_str("\"creationTimestamp\":null},\"spec\":");
        write_struct(&mut text, SHAPES.claim_spec, spec, Order::Declared, None);
        text.push_str(",\"status\":{}}");
    }
    text.push(']');
    fnv1a(dumped(&text).bytes()).to_string()
}

/// OpenKruise does not hash the text of the claims but a debugging dump of it: its bytes as decimal numbers.
fn dumped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 4 + 16);
    out.push_str("([]uint8)[");
    for (index, byte) in text.bytes().enumerate() {
        let space = if index > 0 { " " } else { "" };
        write!(out, "{space}{byte}").expect("writing to a String cannot fail");
    }
    out.push(']');
    out
}

const FNV_OFFSET: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;

fn fnv1(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(FNV_OFFSET, |hash, it| hash.wrapping_mul(FNV_PRIME) ^ u32::from(it))
}

fn fnv1a(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(FNV_OFFSET, |hash, it| (hash ^ u32::from(it)).wrapping_mul(FNV_PRIME))
}

/// Kubernetes keeps vowels and look-alikes out of generated names, so that no words come out.
fn letter(byte: u8) -> char {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    char::from(LETTERS[usize::from(byte) % LETTERS.len()])
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_hash_is_fnv_1_in_letters_that_spell_no_words() {
        let data = RevisionData::of_json(&json!({"spec": {"template": {"$patch": "replace"}}}));
        assert_eq!(fnv1(format!("{}0", data.as_str()).bytes()), 1_459_418_616);
        assert_eq!(revision_hash(&data, 0), "589f85db5b");
        assert_ne!(revision_hash(&data, 1), revision_hash(&data, 0));
        assert_eq!("0123456789".bytes().map(letter).collect::<String>(), "456789bcdf");
    }

    #[test]
    fn names_stay_within_the_limit_of_kubernetes() {
        assert_eq!(revision_name("web", "589f85db5b"), "web-589f85db5b");
        assert_eq!(revision_name(&"a".repeat(300), "h"), format!("{}-h", "a".repeat(223)));
        assert_eq!(revision_name(&"é".repeat(150), "h"), format!("{}-h", "é".repeat(111)));
    }

    #[test]
    fn a_pod_is_at_a_revision_by_full_name_or_short_hash() {
        assert_eq!(short_hash("my-web-589f85db5b"), "589f85db5b");
        assert_eq!(short_hash("589f85db5b"), "589f85db5b");
        for label in ["my-web-589f85db5b", "589f85db5b"] {
            assert!(is_at_revision(label, "my-web-589f85db5b"));
            assert!(is_at_revision(label, "589f85db5b"));
            assert!(!is_at_revision(label, "my-web-other"));
        }
        assert!(!is_at_revision("", "my-web-589f85db5b"));
    }

    #[derive(Deserialize)]
    struct Vector {
        r#in: Vec<Value>,
        hash: String,
    }

    /// Claim templates and their hashes, made by OpenKruise's own code.
    #[test]
    fn claim_hashes_are_those_of_openkruise() {
        let vectors: Vec<Vector> = serde_json::from_str(include_str!("vectors/claims.json")).unwrap();
        assert!(vectors.len() >= 30);
        for it in vectors {
            assert_eq!(claims_hash(&it.r#in), it.hash, "{:?}", it.r#in);
        }
    }

    #[test]
    fn only_names_and_specs_of_claims_count() {
        let claim = |name: &str, size: &str| json!({"metadata": {"name": name}, "spec": {"resources": {"requests": {"storage": size}}}});
        let labelled = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": claim("a", "1Gi")["spec"], "status": {"phase": "Pending"}});
        let one = claims_hash(&[claim("a", "1Gi"), claim("b", "1Gi")]);
        assert_eq!(claims_hash(&[claim("b", "1Gi"), labelled]), one);
        assert_eq!(claims_hash(&[claim("b", "1024Mi"), claim("a", "1Gi")]), one);
        assert_ne!(claims_hash(&[claim("a", "1Gi"), claim("b", "2Gi")]), one);
        assert_eq!(claims_hash(&[]), "");
    }
}
