//! What there is to pull.
//!
//! Besides the images of our own tests there are stand-ins under the names that OpenKruise's own tests ask for, so that
//! those tests run here as they are. A stand-in behaves alike only where those tests look: web servers answer on port 80,
//! busybox is a shell, which ends at once where nobody types, and everything else waits.

use super::image::Entry;

/// Repository, tags, what its containers do. Every tag has content of its own.
pub(super) const CATALOGUE: [(&str, &[&str], Entry); 12] = [
    ("lab/pause", &["1"], Entry::Pause),
    ("lab/web", &["1", "2", "3"], Entry::Web),
    ("lab/sleep", &["1", "2", "3"], Entry::Sleep),
    ("library/nginx", &["latest", "alpine", "1.7.9", "1.14.2", "1.15.1", "1.23.1"], Entry::Web),
    ("library/busybox", &["latest", "1.32", "1.33", "1.34", "1.35"], Entry::Shell),
    ("e2e-test-images/httpd", &["2.4.38-4", "2.4.39-4"], Entry::Web),
    ("e2e-test-images/nginx", &["1.14-4", "1.15-4"], Entry::Web),
    ("e2e-test-images/busybox", &["1.36.1-1"], Entry::Shell),
    ("e2e-test-images/redis", &["5.0.5-3"], Entry::Sleep),
    // Shares pods with web servers, so it must not take their port.
    ("e2e-test-images/agnhost", &["2.53"], Entry::Sleep),
    ("openkruise/hotupgrade-sample", &["sidecarv1", "sidecarv2", "empty"], Entry::Migrating),
    ("minchou/exit", &["v1.0"], Entry::Shell),
];

/// Repository, another tag, the tag whose image it is: an update between the two changes the name and not the image.
pub(super) const ALIASES: [(&str, &str, &str); 2] =
    [("lab/web", "1-again", "1"), ("library/nginx", "mainline-alpine", "alpine")];
