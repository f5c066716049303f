//! Whole Kubernetes clusters in one process. The question this crate answers: what would a real cluster have done?
//!
//! An API server ([`server`]), its garbage collector, a scheduler and kubelets run on tokio's paused clock, and a
//! network with faults lies between them and every client. A run is a function of its seed.

pub mod world;

pub mod server;

pub mod faults;
pub mod images;
pub mod nodes;

pub mod serve;

pub mod conformance;

pub mod log;
pub mod seed;
pub mod time;

mod agenda;
mod collect;

pub use world::{World, fleet, run};
