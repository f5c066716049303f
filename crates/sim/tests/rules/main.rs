//! One file for each group of rules that the simulated clusters keep.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod admission;
mod conflicts;
mod custom;
mod deletion;
mod faults;
mod kit;
mod lists;
mod nodes;
mod patches;
mod replay;
mod runtime;
mod watches;
mod webhooks;
