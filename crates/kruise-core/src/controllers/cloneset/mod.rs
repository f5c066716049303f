//! CloneSet: interchangeable pods.

pub mod plan;
pub mod status;
