//! Controllers in simulated clusters, on a bad network.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod cloneset;
mod definitions;
mod kit;
mod launch_priority;
mod node_duties;
mod pod_readiness;
