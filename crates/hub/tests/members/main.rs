//! A hub that clusters ask to join, on a simulated API server and virtual time. The tests play the clusters, the signer and the
//! administrator; what admission writes into requests, they write themselves.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod crash;
mod identity;
mod kit;
mod policies;
mod rights;
mod sealed;
mod silence;
mod tokens;
