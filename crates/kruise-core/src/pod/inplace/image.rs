//! Names of images.

/// An image's name in full, as runtimes report it: with registry, path and tag.
pub(super) fn full_name(image: &str) -> String {
    let (registry, path) = match image.split_once('/') {
        Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest.to_owned()),
        Some(_) => ("docker.io", image.to_owned()),
        None => ("docker.io", format!("library/{image}")),
    };
    // A colon is a tag only behind the last slash: the one in `registry:5000/app` is a port.
    let has_tag = path.rsplit('/').next().is_some_and(|it| it.contains([':', '@']));
    format!("{registry}/{path}{}", if has_tag { "" } else { ":latest" })
}

#[cfg(test)]
mod tests {
    use super::full_name;

    #[test]
    fn names_are_completed_as_runtimes_do() {
        for (short, full) in [
            ("nginx", "docker.io/library/nginx:latest"),
            ("nginx:1", "docker.io/library/nginx:1"),
            ("me/app", "docker.io/me/app:latest"),
            ("registry:5000/app", "registry:5000/app:latest"),
            ("registry:5000/app:2", "registry:5000/app:2"),
            ("localhost/app:2", "localhost/app:2"),
            ("ghcr.io/a/b@sha256:1", "ghcr.io/a/b@sha256:1"),
        ] {
            assert_eq!(full_name(short), full);
        }
    }
}
