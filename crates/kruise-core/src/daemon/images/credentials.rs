//! Which credentials fit an image: the rules of the kubelet's keyring, over the docker configurations in secrets.

use std::{collections::BTreeMap, fmt};

use base64::{
    Engine,
    alphabet::STANDARD,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use serde::Deserialize;

use crate::image::Reference;

/// Where the default registry's credentials usually are.
const DEFAULT_REGISTRY_KEY: &str = "index.docker.io";

/// Base64 with and without padding: both are found in secrets.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A text that never shows in a log.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// How to log in.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Credential {
    /// The user.
    pub username: String,
    /// The password.
    pub password: Secret,
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential(***)")
    }
}

impl Credential {
    /// `text` without any trace of this credential: for what others say about a login that failed.
    pub fn scrub(&self, text: &str) -> String {
        let secrets = [self.password.reveal(), &self.username];
        secrets
            .into_iter()
            .filter(|it| it.len() >= 3)
            .fold(text.to_owned(), |text, it| text.replace(it, "***"))
    }
}

/// A secret that cannot be used. Says nothing about its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It is of another type.
    #[error("it is of no type that carries registry credentials")]
    Type,
    /// The key that its type promises is missing.
    #[error("it lacks the key that its type promises")]
    Key,
    /// The docker configuration in it is malformed.
    #[error("the docker configuration in it is malformed")]
    Malformed,
}

/// Credentials by where they apply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keyring(BTreeMap<String, Vec<Credential>>);

#[derive(Deserialize)]
struct ConfigJson {
    #[serde(default)]
    auths: BTreeMap<String, Entry>,
}

#[derive(Deserialize)]
struct Entry {
    #[serde(default)]
    username: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    auth: String,
}

impl Keyring {
    /// Adds what a secret of type `kind` holds.
    pub fn add_secret(&mut self, kind: &str, data: &BTreeMap<String, Vec<u8>>) -> Result<(), Unusable> {
        match kind {
            "kubernetes.io/dockerconfigjson" => {
                let body = data.get(".dockerconfigjson").ok_or(Unusable::Key)?;
                self.add_config(body)
            }
            "kubernetes.io/dockercfg" => {
                let body = data.get(".dockercfg").ok_or(Unusable::Key)?;
                self.add_legacy(body)
            }
            _ => Err(Unusable::Type),
        }
    }

    /// Adds a docker configuration file: `{"auths": …}`.
    pub fn add_config(&mut self, body: &[u8]) -> Result<(), Unusable> {
        let config: ConfigJson = serde_json::from_slice(body).map_err(|_| Unusable::Malformed)?;
        self.add_entries(config.auths)
    }

    /// Adds a docker configuration of the old form, without `auths`.
    pub fn add_legacy(&mut self, body: &[u8]) -> Result<(), Unusable> {
        let entries = serde_json::from_slice(body).map_err(|_| Unusable::Malformed)?;
        self.add_entries(entries)
    }

    /// Adds one credential for what `key` matches.
    pub fn add(&mut self, key: &str, credential: Credential) {
        let list = self.0.entry(normalise(key)).or_default();
        if !list.contains(&credential) {
            list.push(credential);
        }
    }

    /// All or nothing: half a secret would hide that the other half is malformed.
    fn add_entries(&mut self, entries: BTreeMap<String, Entry>) -> Result<(), Unusable> {
        let read: Result<Vec<_>, _> =
            entries.into_iter().map(|(key, entry)| Ok((key, read_entry(entry)?))).collect();
        for (key, credential) in read? {
            self.add(&key, credential);
        }
        Ok(())
    }

    /// The credentials for an image, the most specific first.
    pub fn for_image(&self, image: &Reference) -> Vec<Credential> {
        let repository = image.repository();
        let mut found = Vec::new();
        for (key, credentials) in self.0.iter().rev() {
            if applies(key, &repository) {
                found.extend(credentials.iter().cloned());
            }
        }
        if found.is_empty() && image.registry == "docker.io" {
            found.extend(self.0.get(DEFAULT_REGISTRY_KEY).into_iter().flatten().cloned());
        }
        found
    }
}

fn read_entry(entry: Entry) -> Result<Credential, Unusable> {
    let Entry { username, password, auth } = entry;
    if auth.is_empty() {
        return Ok(Credential { username, password: Secret::new(password) });
    }
    let decoded = BASE64.decode(auth.trim()).map_err(|_| Unusable::Malformed)?;
    let decoded = String::from_utf8(decoded).map_err(|_| Unusable::Malformed)?;
    let (username, password) = decoded.split_once(':').ok_or(Unusable::Malformed)?;
    // Docker pads some of its passwords with zero bytes.
    let password = Secret::new(password.trim_end_matches('\0'));
    Ok(Credential { username: username.to_owned(), password })
}

/// A key without scheme and API version: `https://index.docker.io/v1/` is `index.docker.io`.
fn normalise(key: &str) -> String {
    let rest = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let (host, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let path = match path.strip_prefix("/v1/").or_else(|| path.strip_prefix("/v2/")) {
        Some(rest) => format!("/{rest}"),
        None => path.to_owned(),
    };
    if path == "/" { host.to_owned() } else { format!("{host}{path}") }
}

/// Whether `key` applies to `repository`: same port, host parts match one by one, and the path is a prefix.
pub(super) fn applies(key: &str, repository: &str) -> bool {
    let split = |it: &str| {
        let (host, path) = it.find('/').map_or((it, ""), |at| it.split_at(at));
        let (host, port) = host.rsplit_once(':').unwrap_or((host, ""));
        (host.to_owned(), port.to_owned(), path.to_owned())
    };
    let ((key_host, key_port, key_path), (host, port, path)) = (split(key), split(repository));
    let (key_parts, parts): (Vec<_>, Vec<_>) = (key_host.split('.').collect(), host.split('.').collect());
    key_port == port
        && key_parts.len() == parts.len()
        && key_parts.iter().zip(&parts).all(|(pattern, text)| is_glob_match(pattern, text))
        && path.starts_with(&key_path)
}

/// `*` stands for any text, `?` for any character.
fn is_glob_match(pattern: &str, text: &str) -> bool {
    let mut characters = pattern.chars();
    match characters.next() {
        None => text.is_empty(),
        Some('*') => {
            let rest = characters.as_str();
            text.char_indices().map(|it| it.0).chain([text.len()]).any(|at| is_glob_match(rest, &text[at..]))
        }
        Some(wanted) => {
            let mut text = text.chars();
            text.next().is_some_and(|it| wanted == '?' || wanted == it)
                && is_glob_match(characters.as_str(), text.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn keyring(auths: serde_json::Value) -> Keyring {
        let mut it = Keyring::default();
        it.add_config(json!({"auths": auths}).to_string().as_bytes()).unwrap();
        it
    }

    fn users(keyring: &Keyring, image: &str) -> Vec<String> {
        let found = keyring.for_image(&Reference::parse(image).unwrap());
        found.into_iter().map(|it| it.username).collect()
    }

    fn with_key(key: &str) -> Keyring {
        keyring(json!({key: {"username": "u", "password": "p"}}))
    }

    #[test]
    fn a_key_applies_to_its_registry_and_below_its_path() {
        let digest = format!("registry.private.com/app/echoserver@sha256:{}", "a".repeat(64));
        for image in ["registry.private.com/app/echoserver:v1", &digest] {
            assert_eq!(users(&with_key("registry.private.com"), image), ["u"], "{image}");
            assert_eq!(users(&with_key("registry.private.com/app"), image), ["u"], "{image}");
            assert!(users(&with_key("registry.private.com/nginx"), image).is_empty(), "{image}");
        }
        assert_eq!(users(&with_key("docker.io/library/nginx"), "nginx:v1"), ["u"]);
    }

    #[test]
    fn schemes_and_api_versions_in_keys_do_not_matter() {
        for key in ["https://r.io/v1/", "http://r.io", "r.io/v2/", "https://r.io/"] {
            assert_eq!(users(&with_key(key), "r.io/a/b"), ["u"], "{key}");
        }
        assert!(users(&with_key("https://r.io/v2/other"), "r.io/a/b").is_empty());
    }

    #[test]
    fn hosts_match_part_by_part_and_ports_exactly() {
        assert_eq!(users(&with_key("*.example.com"), "eu.example.com/a"), ["u"]);
        assert_eq!(users(&with_key("r?.example.com"), "r1.example.com/a"), ["u"]);
        for (key, image) in [
            ("*.example.com", "a.b.example.com/x"),
            ("example.com", "example.com:5000/x"),
            ("example.com:5001", "example.com:5000/x"),
        ] {
            assert!(users(&with_key(key), image).is_empty(), "{key} {image}");
        }
        assert_eq!(users(&with_key("example.com:5000"), "example.com:5000/x"), ["u"]);
    }

    #[test]
    fn the_most_specific_key_comes_first_and_all_are_kept() {
        let ring = keyring(json!({
            "r.io": {"username": "wide"}, "r.io/app": {"username": "narrow"}, "other.io": {"username": "other"},
        }));
        assert_eq!(users(&ring, "r.io/app/x"), ["narrow", "wide"]);
    }

    #[test]
    fn the_default_registry_falls_back_to_its_old_name() {
        assert_eq!(users(&with_key("https://index.docker.io/v1/"), "nginx"), ["u"]);
        assert!(users(&with_key("https://index.docker.io/v1/"), "r.io/nginx").is_empty());
    }

    #[test]
    fn both_formats_and_the_combined_field_are_read() {
        let mut ring = Keyring::default();
        let auth = BASE64.encode("someone:pass:word");
        let config = json!({"auths": {"a.io": {"auth": auth}}}).to_string();
        let data = BTreeMap::from([(".dockerconfigjson".to_owned(), config.into_bytes())]);
        ring.add_secret("kubernetes.io/dockerconfigjson", &data).unwrap();
        let config = json!({"b.io": {"username": "b", "password": "x"}}).to_string();
        let data = BTreeMap::from([(".dockercfg".to_owned(), config.into_bytes())]);
        ring.add_secret("kubernetes.io/dockercfg", &data).unwrap();
        let found = ring.for_image(&Reference::parse("a.io/x").unwrap());
        assert_eq!((found[0].username.as_str(), found[0].password.reveal()), ("someone", "pass:word"));
        assert_eq!(users(&ring, "b.io/x"), ["b"]);
    }

    #[test]
    fn secrets_of_no_use_are_told_apart_and_change_nothing() {
        let mut ring = Keyring::default();
        let data = |key: &str, body: &str| BTreeMap::from([(key.to_owned(), body.as_bytes().to_vec())]);
        assert_eq!(ring.add_secret("Opaque", &data("a", "")), Err(Unusable::Type));
        assert_eq!(ring.add_secret("kubernetes.io/dockercfg", &data("a", "")), Err(Unusable::Key));
        let half = r#"{"auths":{"a.io":{"username":"u"},"b.io":{"auth":"!!!"}}}"#;
        for body in ["{", half] {
            let read = ring.add_secret("kubernetes.io/dockerconfigjson", &data(".dockerconfigjson", body));
            assert_eq!(read, Err(Unusable::Malformed));
        }
        assert_eq!(ring, Keyring::default());
    }

    #[test]
    fn an_old_secret_in_the_new_form_harms_nobody() {
        // A `.dockercfg` whose body wrongly has the wrapper: it names a registry called "auths".
        let mut ring = Keyring::default();
        let body = json!({"auths": {"a.io": {"username": "u"}}}).to_string().into_bytes();
        let data = BTreeMap::from([(".dockercfg".to_owned(), body)]);
        let _ = ring.add_secret("kubernetes.io/dockercfg", &data);
        assert!(users(&ring, "nginx").is_empty());
    }

    #[test]
    fn nothing_of_a_credential_is_ever_printed() {
        let ring = keyring(json!({"a.io": {"username": "someone", "password": "topsecret"}}));
        let credential = ring.for_image(&Reference::parse("a.io/x").unwrap()).remove(0);
        for text in [format!("{ring:?}"), format!("{credential:?}"), format!("{:?}", credential.password)] {
            assert!(!text.contains("topsecret") && !text.contains("someone"), "{text}");
        }
        assert_eq!(credential.scrub("401 for someone with topsecret"), "401 for *** with ***");
    }
}
