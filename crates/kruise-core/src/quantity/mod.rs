//! Quantities such as `500m` or `1Gi`: how much they are, and how Kubernetes writes them.

mod amount;
mod canonical;

pub use amount::{milli, nano, round_up_to_milli};
pub use canonical::canonical;
