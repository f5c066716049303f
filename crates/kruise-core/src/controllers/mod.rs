//! One folder per controller: observe, plan, apply, status.

pub mod cloneset;
pub mod launch_priority;
pub mod pod_readiness;

mod pods;
