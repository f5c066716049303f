//! CloneSet: interchangeable pods.

pub mod plan;
pub mod predownload;
pub mod status;
pub mod wake;
