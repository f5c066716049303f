//! How many replicas does each cluster run, which of them carry the new revision, and how much of the fleet may be
//! down meanwhile?
//!
//! Everything here is a function over plain values: no client, no clock, no randomness, no floating point. The same
//! input gives the same output on every machine and in every order of the input, and every answer carries its reasons
//! as data. Rule ids (SPLIT-3, REV-2, ...) are those of the federation specification; `docs/proofs.md` says why they
//! hold together.
//!
//! Counts of one cluster are `u32`, sums over clusters are `u64`: 5,000 clusters with 1,000,000 replicas each do not
//! fit into 32 bits.

pub mod distribution;
pub mod ledger;
pub mod moves;
pub mod names;
pub mod numbers;
pub mod partition;
pub mod pulls;
pub mod rank;
pub mod reason;
pub mod release;
pub mod round;
pub mod split;
pub mod webster;
