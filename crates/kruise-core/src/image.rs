//! Names of images: `registry/path:tag@digest`, read as Docker reads them.
//!
//! A NodeImage names images in their *familiar* form (`nginx`, not `docker.io/library/nginx`) with a tag or a digest
//! beside it; runtimes want and print full references. Everything that turns one into the other is here.

/// The registry that names without one mean.
const DEFAULT_REGISTRY: &str = "docker.io";

/// What comes before names of one part in the default registry.
const DEFAULT_PREFIX: &str = "library/";

/// The longest name, registry included.
const LONGEST_NAME: usize = 255;

/// A reference that is no reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid image {image:?}: {reason}")]
pub struct Malformed {
    /// What was given.
    pub image: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// A full reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The registry: `docker.io`, `registry.example.com:5000`.
    pub registry: String,
    /// The repository in it: `library/nginx`.
    pub path: String,
    /// The digest if there is one, else the tag, else `latest`.
    pub tag: String,
}

impl Reference {
    /// Reads a reference; one with a tag and a digest means the digest.
    pub fn parse(image: &str) -> Result<Self, Malformed> {
        let malformed = |reason| Malformed { image: image.to_owned(), reason };
        let (rest, digest) = match image.split_once('@') {
            Some((rest, digest)) if is_digest(digest) => (rest, Some(digest)),
            Some(_) => return Err(malformed("the digest is malformed")),
            None => (image, None),
        };
        let (name, tag) = match rest.rsplit_once(':') {
            // A colon before the last slash belongs to the registry's port.
            Some((name, tag)) if !tag.contains('/') => (name, Some(tag)),
            _ => (rest, None),
        };
        if tag.is_some_and(|it| !is_tag(it)) {
            return Err(malformed("the tag is malformed"));
        }
        let (registry, path) = split_registry(name);
        if path.is_empty() {
            return Err(malformed("it has no name"));
        }
        if path.chars().any(char::is_uppercase) {
            return Err(malformed("the repository name must be lowercase"));
        }
        if !is_registry(&registry) || !path.split('/').all(is_path_part) {
            return Err(malformed("the name is malformed"));
        }
        if registry.len() + 1 + path.len() > LONGEST_NAME {
            return Err(malformed("the name is longer than 255 characters"));
        }
        let tag = digest.or(tag).unwrap_or("latest").to_owned();
        Ok(Self { registry, path, tag })
    }

    /// The name as people write it: without the default registry and prefix.
    pub fn familiar_name(&self) -> String {
        if self.registry != DEFAULT_REGISTRY {
            return self.repository();
        }
        match self.path.strip_prefix(DEFAULT_PREFIX) {
            Some(short) if !short.contains('/') => short.to_owned(),
            _ => self.path.clone(),
        }
    }

    /// Registry and path: `docker.io/library/nginx`.
    pub fn repository(&self) -> String {
        format!("{}/{}", self.registry, self.path)
    }
}

/// The familiar name, and the digest or tag, of a reference: what NodeImages are keyed by.
pub fn split(image: &str) -> Result<(String, String), Malformed> {
    let it = Reference::parse(image)?;
    Ok((it.familiar_name(), it.tag))
}

/// One reference from a name and a tag or digest.
pub fn join(name: &str, tag: &str) -> String {
    let separator = if is_digest(tag) { '@' } else { ':' };
    format!("{name}{separator}{tag}")
}

/// Whether a tag is really a digest: `sha256:…`.
pub fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else { return false };
    let is_word = |it: &str| {
        it.starts_with(|c: char| c.is_ascii_alphabetic()) && it.chars().all(|c| c.is_ascii_alphanumeric())
    };
    algorithm.split(['+', '.', '-', '_']).all(is_word)
        && hex.len() >= 32
        && hex.chars().all(|it| it.is_ascii_hexdigit())
}

/// The registry and the path of a name, with defaults filled in.
fn split_registry(name: &str) -> (String, String) {
    let (registry, path) = match name.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        _ => (DEFAULT_REGISTRY, name),
    };
    let registry = if registry == "index.docker.io" { DEFAULT_REGISTRY } else { registry };
    let prefix = match registry {
        DEFAULT_REGISTRY if !path.is_empty() && !path.contains('/') => DEFAULT_PREFIX,
        _ => "",
    };
    (registry.to_owned(), format!("{prefix}{path}"))
}

fn is_registry(text: &str) -> bool {
    // An address in brackets is an IPv6 address; its parts are not looked at.
    if let Some(rest) = text.strip_prefix('[') {
        return rest
            .split_once(']')
            .is_some_and(|(address, port)| !address.is_empty() && is_port_or_nothing(port));
    }
    let (host, port) = text.find(':').map_or((text, ""), |at| text.split_at(at));
    let is_label = |it: &str| {
        !it.is_empty()
            && !it.starts_with('-')
            && !it.ends_with('-')
            && it.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    };
    host.split('.').all(is_label) && is_port_or_nothing(port)
}

fn is_port_or_nothing(text: &str) -> bool {
    match text.strip_prefix(':') {
        Some(port) => !port.is_empty() && port.chars().all(|it| it.is_ascii_digit()),
        None => text.is_empty(),
    }
}

/// Letters and digits, joined by one dot, one or two underscores, or any number of dashes.
fn is_path_part(text: &str) -> bool {
    let is_word = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit();
    if !text.starts_with(is_word) || !text.ends_with(is_word) {
        return false;
    }
    text.split(is_word).all(|it| matches!(it, "" | "." | "_" | "__") || it.chars().all(|c| c == '-'))
}

fn is_tag(text: &str) -> bool {
    let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_';
    text.len() <= 128
        && text.starts_with(is_word)
        && text.chars().all(|it| is_word(it) || it == '.' || it == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn references_are_split_into_familiar_name_and_tag() {
        let digest = format!("ubuntu:20.04@{DIGEST}");
        for (image, name, tag) in [
            ("ubuntu", "ubuntu", "latest"),
            ("docker.io/library/ubuntu:latest", "ubuntu", "latest"),
            ("index.docker.io/library/ubuntu:1", "ubuntu", "1"),
            ("myregistry:5000/my/image:v1", "myregistry:5000/my/image", "v1"),
            ("localhost/a__b/c-d.e:v1_2.3-x", "localhost/a__b/c-d.e", "v1_2.3-x"),
            ("test/nginx:1.0", "test/nginx", "1.0"),
            (&digest, "ubuntu", DIGEST),
            ("127.0.0.1:5000/lab/web", "127.0.0.1:5000/lab/web", "latest"),
            ("[::1]:5000/lab/web:2", "[::1]:5000/lab/web", "2"),
        ] {
            assert_eq!(split(image), Ok((name.to_owned(), tag.to_owned())), "{image}");
        }
    }

    #[test]
    fn what_is_no_reference_is_refused() {
        let long = format!("a/{}", "b".repeat(255));
        for image in [
            "",
            ":1",
            "INVALID_IMAGE_REF",
            "UPPERCASE/image",
            "a//b",
            "a/b:",
            "a b",
            "a@sha256:12",
            "-a/b",
            "a/_b",
            "a.b:x/c",
            "nginx:..",
            &long,
            "a___b",
        ] {
            assert!(split(image).is_err(), "{image:?}");
        }
    }

    #[test]
    fn full_names_and_registries_are_told() {
        let full = |it: &str| Reference::parse(it).unwrap().repository();
        assert_eq!(full("nginx:v1"), "docker.io/library/nginx");
        assert_eq!(full("a/b"), "docker.io/a/b");
        assert_eq!(Reference::parse("ubuntu").unwrap().registry, "docker.io");
        assert_eq!(
            Reference::parse("myregistry.com:5000/user/image").unwrap().registry,
            "myregistry.com:5000"
        );
    }

    #[test]
    fn digests_are_joined_with_an_at_sign() {
        assert_eq!(join("nginx", "1.25"), "nginx:1.25");
        assert_eq!(join("nginx", DIGEST), format!("nginx@{DIGEST}"));
        let (name, tag) = split(&join("nginx", DIGEST)).unwrap();
        assert_eq!((name.as_str(), tag.as_str()), ("nginx", DIGEST));
    }
}
