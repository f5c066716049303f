//! One folder per controller: observe, plan, apply, status.

pub mod cloneset;
pub mod container_recreate_request;
pub mod image_list_pull_job;
pub mod image_pull_job;
pub mod launch_priority;
pub mod node_image;
pub mod pod_readiness;
pub mod sidecar_terminator;

mod pods;
