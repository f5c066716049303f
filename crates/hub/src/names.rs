//! Names of what the hub creates. A name that would be too long is cut and hashed; that is never an error.

use kruise_core::{
    api::{
        APPS_GROUP,
        fleet::{
            FederatedObject,
            keys::{CLUSTER_NAMESPACE_PREFIX, SYSTEM_NAMESPACE},
        },
    },
    revision::data::RevisionData,
};
use ring::hmac;
use scheduling::rank::sha256;
use serde_json::Value;

/// The longest derived name.
pub const LONGEST: usize = 63;
/// Digits of the hash in a name that was cut.
const DIGITS: usize = 16;
/// Names of clusters whose namespace would be one that the fleet keeps for itself.
pub const RESERVED_CLUSTERS: [&str; 2] = ["system", "content"];

/// The namespace on the hub that belongs to one cluster alone.
pub fn cluster_namespace(cluster: &str) -> String {
    let plain = format!("{CLUSTER_NAMESPACE_PREFIX}{cluster}");
    // A namespace has no dots; without the hash `a.b` and `a-b` would share one.
    if plain.contains('.') { hashed(&plain.replace('.', "-"), &plain) } else { fitted(&plain) }
}

/// The FleetBinding of an object. It is in the object's namespace, or in the fleet's own for cluster-scoped ones.
pub fn binding(object: &FederatedObject) -> (String, String) {
    let namespace = object.namespace.clone().unwrap_or_else(|| SYSTEM_NAMESPACE.to_owned());
    (namespace, of_kind(object, &[&object.name]))
}

/// The Assignment of an object, in a cluster's namespace: objects of all namespaces meet there.
pub fn assignment(object: &FederatedObject) -> String {
    match &object.namespace {
        // Neither a kind nor a namespace has dots, so two objects never share a name.
        Some(namespace) => of_kind(object, &[namespace, &object.name]),
        None => of_kind(object, &[&object.name]),
    }
}

/// The hub's secret, from which names of FleetRevisions are made: an agent may read any that it can name (SEC-1).
#[derive(Clone)]
pub struct RevisionKey(hmac::Key);

impl RevisionKey {
    /// How many bytes a secret has.
    pub const BYTES: usize = 32;

    /// The key of a secret.
    pub fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// The FleetRevision of a body: the same for the same body of the same object, and not to be guessed.
    pub fn revision(&self, uid: &str, body: &Value) -> String {
        // In one form, so that the order of keys does not matter.
        let body = RevisionData::of_json(body);
        let tag = hmac::sign(&self.0, format!("{uid}\n{}", body.as_str()).as_bytes());
        let digits: String = tag.as_ref().iter().take(DIGITS).map(|it| format!("{it:02x}")).collect();
        format!("frv-{digits}")
    }
}

impl std::fmt::Debug for RevisionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("RevisionKey")
    }
}

/// The text itself if it is short enough and does not pass for one with a hash, else its beginning and a hash.
pub fn fitted(text: &str) -> String {
    if text.len() <= LONGEST && !looks_hashed(text) { text.to_owned() } else { hashed(text, text) }
}

/// Whether a text ends like those that [`hashed`] makes. If it were used as it is, whoever may choose a name could choose
/// the one that was made for another.
fn looks_hashed(text: &str) -> bool {
    let digits = text.rsplit('-').next().unwrap_or_default();
    digits.len() == DIGITS && digits.bytes().all(|it| it.is_ascii_hexdigit())
}

fn of_kind(object: &FederatedObject, rest: &[&str]) -> String {
    let group = object.api_version.split_once('/').map_or("", |it| it.0);
    let kind = object.kind.to_lowercase();
    let plain = format!("{kind}.{}", rest.join("."));
    // Kinds of other groups may have the same name.
    if group == APPS_GROUP { fitted(&plain) } else { hashed(&plain, &format!("{group}/{plain}")) }
}

fn hashed(shown: &str, whole: &str) -> String {
    let hash: String =
        sha256(whole.as_bytes()).iter().take(DIGITS / 2).map(|it| format!("{it:02x}")).collect();
    let most = LONGEST - DIGITS - 1;
    let cut = shown.char_indices().map(|(at, it)| at + it.len_utf8()).take_while(|it| *it <= most).last();
    let start = shown[..cut.unwrap_or(0)].trim_end_matches(['-', '.']);
    if start.is_empty() { hash } else { format!("{start}-{hash}") }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn object(namespace: Option<&str>, name: &str) -> FederatedObject {
        FederatedObject {
            api_version: "apps.kruise.io/v1beta1".to_owned(),
            kind: "CloneSet".to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            uid: "u".to_owned(),
        }
    }

    #[test]
    fn short_names_are_readable() {
        assert_eq!(cluster_namespace("eu-1"), "fleet-eu-1");
        assert_eq!(binding(&object(Some("shop"), "web")), ("shop".to_owned(), "cloneset.web".to_owned()));
        assert_eq!(binding(&object(None, "web")).0, "fleet-system");
        assert_eq!(assignment(&object(Some("shop"), "web")), "cloneset.shop.web");
    }

    #[test]
    fn bad_input_8_names_that_would_be_too_long_are_hashed_and_stay_apart() {
        let (a, b) = ("a".repeat(60), format!("{}b", "a".repeat(59)));
        for name in
            [cluster_namespace(&a), assignment(&object(Some(&a), &b)), binding(&object(Some("n"), &a)).1]
        {
            assert!(name.len() <= LONGEST, "{name}");
        }
        assert_ne!(cluster_namespace(&a), cluster_namespace(&b));
        assert_ne!(cluster_namespace("a.b"), cluster_namespace("a-b"));
        // Nor can anybody choose a name so that it becomes what was made for another.
        for other in [a.as_str(), "a.b"] {
            let made = cluster_namespace(other);
            let chosen = made.strip_prefix(CLUSTER_NAMESPACE_PREFIX).unwrap();
            assert_ne!(cluster_namespace(chosen), made);
        }
        assert!(!cluster_namespace("a.b").contains('.'));
        let other = FederatedObject { api_version: "example.org/v1".to_owned(), ..object(Some("n"), "w") };
        assert_ne!(assignment(&other), assignment(&object(Some("n"), "w")));
    }

    #[test]
    fn sec_1_names_of_bodies_need_the_hubs_secret() {
        let (body, key) = (serde_json::json!({"spec": {"b": 1, "a": 2}}), RevisionKey::new(&[7; 32]));
        let name = key.revision("u", &body);
        assert_eq!((name.len(), &name), (36, &key.revision("u", &body)));
        assert_ne!(name, key.revision("v", &body));
        assert_ne!(name, RevisionKey::new(&[8; 32]).revision("u", &body));
    }

    proptest! {
        #[test]
        fn every_name_makes_a_valid_one(name in "[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?") {
            let namespace = cluster_namespace(&name);
            prop_assert!(namespace.len() <= LONGEST && !namespace.ends_with('-') && !namespace.contains('.'));
            let assignment = assignment(&object(Some("shop"), &name));
            prop_assert!(assignment.len() <= LONGEST && !assignment.ends_with(['-', '.']));
        }
    }
}
