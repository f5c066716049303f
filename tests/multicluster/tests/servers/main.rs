//! Ring 3: real API servers.

mod crds;
