//! Ring 3: what the hub lets in, and who may join it, on real API servers.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod bad_input;
mod crowd;
mod doors;
mod kit;
mod members;
mod reach;
mod sealed;
mod tenants;
mod wire;
