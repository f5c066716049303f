//! CloneSet: interchangeable pods.

pub mod plan;
pub mod status;
pub mod wake;
