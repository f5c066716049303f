//! What to do about the pods of one CloneSet.

pub mod limits;
pub mod numbers;
