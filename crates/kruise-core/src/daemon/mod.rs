//! What the daemon on each node does.
//!
//! In reading order: [`cri`] is the runtime, [`images`] the downloads, [`metrics`] what it counts.

pub mod cri;
pub mod images;
pub mod metrics;
