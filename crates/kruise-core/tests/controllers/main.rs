//! Controllers in simulated clusters, on a bad network.

mod kit;
mod launch_priority;
mod pod_readiness;
