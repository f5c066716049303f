//! One file for each group of rules that the simulated clusters keep.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod accounts;
mod admission;
mod collector;
mod conflicts;
mod containers;
mod custom;
mod deletion;
mod events;
mod faults;
mod kit;
mod lists;
mod malformed;
mod nodes;
mod owners;
mod panics;
mod patches;
mod promises;
mod replay;
mod runtime;
mod watches;
mod webhooks;
