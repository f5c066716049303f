//! The link between a simulated hub and a simulated member whose CloneSet controller runs.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod door;
mod joining;
mod kit;
mod offline;
mod others;
mod plans;
mod revisions;
mod sealed;
