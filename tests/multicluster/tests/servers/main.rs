//! Ring 3: real API servers.

mod conversion;
mod crds;
mod leader;
mod policies;
