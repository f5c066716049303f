//! Where container runtimes listen.

use std::path::{Path, PathBuf};

/// Where the host's `/var/run` is mounted in the daemon's pod.
pub const HOST_RUN: &str = "/hostvarrun";

/// Sockets below the host's run directory, in the order in which they are tried.
const KNOWN: [&str; 8] = [
    "containerd.sock",
    "containerd/containerd.sock",
    "crio.sock",
    "crio/crio.sock",
    "cri-dockerd.sock",
    "cri-dockerd/cri-dockerd.sock",
    // k3s and rke2 bring their own containerd.
    "k3s/containerd/containerd.sock",
    "rke2/containerd/containerd.sock",
];

/// The sockets to try, in order. A socket that is named is the only one; an absolute name is taken as it is.
pub fn candidates(host_run: &Path, named: Option<&str>, exists: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let all = match named.filter(|it| !it.is_empty()) {
        // Joining an absolute path gives that path.
        Some(named) => vec![host_run.join(named)],
        None => KNOWN.iter().map(|it| host_run.join(it)).collect(),
    };
    all.into_iter().filter(|it| exists(it)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(named: Option<&str>, there: &[&str]) -> Vec<String> {
        let exists = |it: &Path| there.iter().any(|other| it == Path::new(other));
        let found = candidates(Path::new(HOST_RUN), named, exists);
        found.into_iter().map(|it| it.display().to_string()).collect()
    }

    #[test]
    fn each_known_socket_alone_is_the_only_candidate() {
        for known in KNOWN {
            let path = format!("/hostvarrun/{known}");
            assert_eq!(found(None, &[&path]), std::slice::from_ref(&path));
        }
    }

    #[test]
    fn several_sockets_come_in_order() {
        let there = ["/hostvarrun/crio/crio.sock", "/hostvarrun/containerd/containerd.sock"];
        assert_eq!(found(None, &there), [there[1], there[0]]);
    }

    #[test]
    fn a_named_socket_is_the_only_candidate_and_has_no_fallback() {
        let there = ["/hostvarrun/crio.sock", "/hostvarrun/containerd.sock"];
        assert_eq!(found(Some("crio.sock"), &there), ["/hostvarrun/crio.sock"]);
        assert!(found(Some("non-existent"), &there).is_empty());
        assert_eq!(found(Some(""), &there).len(), 2);
    }

    #[test]
    fn an_absolute_name_is_taken_as_it_is() {
        assert_eq!(found(Some("/run/other.sock"), &["/run/other.sock"]), ["/run/other.sock"]);
    }
}
