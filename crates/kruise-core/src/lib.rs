//! What does one cluster need to run OpenKruise's workloads?
//!
//! This crate answers with the kinds themselves, the decisions about them as plain functions, and a thin shell over
//! kube that reads the world, asks a decision, and carries it out.

pub mod api;
pub mod backoff;
pub mod runtime;
