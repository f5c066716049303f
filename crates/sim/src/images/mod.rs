//! Images: what their names stand for, and the registries that they come from.

mod login;
mod registry;

pub use login::Login;
pub use registry::{Download, Ending, Refusal, Registry};

pub(crate) use login::of_pod;
pub(crate) use registry::Registries;

/// The full reference that a name stands for: registry, repository, and tag or digest.
pub(crate) fn full(image: &str) -> String {
    let (host, rest) = match image.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
        _ => ("docker.io", image),
    };
    let library = if host == "docker.io" && !rest.contains('/') { "library/" } else { "" };
    let is_tagged = rest.contains('@') || rest.rsplit('/').next().is_some_and(|it| it.contains(':'));
    let tag = if is_tagged { "" } else { ":latest" };
    format!("{host}/{library}{rest}{tag}")
}

/// The registry of a full reference.
pub(crate) fn host(full: &str) -> &str {
    full.split_once('/').map_or(full, |(host, _)| host)
}

/// The short form of a full reference, as people write it.
pub(crate) fn familiar(full: &str) -> &str {
    let short = full.strip_prefix("docker.io/").unwrap_or(full);
    short.strip_prefix("library/").filter(|_| short.len() < full.len()).unwrap_or(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_full_references_and_back() {
        let rows = [
            ("nginx", "docker.io/library/nginx:latest", "nginx:latest"),
            ("nginx:1", "docker.io/library/nginx:1", "nginx:1"),
            ("shop/web:1", "docker.io/shop/web:1", "shop/web:1"),
            ("r.example:5000/web", "r.example:5000/web:latest", "r.example:5000/web:latest"),
            ("localhost/library/web:2", "localhost/library/web:2", "localhost/library/web:2"),
            ("nginx@sha256:ab", "docker.io/library/nginx@sha256:ab", "nginx@sha256:ab"),
        ];
        for (name, whole, short) in rows {
            assert_eq!(full(name), whole);
            assert_eq!(full(whole), whole);
            assert_eq!(familiar(whole), short);
        }
        assert_eq!(host("r.example:5000/web:1"), "r.example:5000");
    }
}
