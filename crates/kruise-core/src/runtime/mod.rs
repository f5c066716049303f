//! The thin shell over kube: everything between a decision and the API server.
//!
//! Nothing in here knows a workload.

pub mod clock;
pub mod gates;
pub mod client;
pub mod throttle;
pub mod cache;
pub mod key;
pub mod overlay;
pub mod writes;
pub mod controller;
pub mod events;
pub mod executor;
mod queue;
pub mod health;
pub mod logs;
pub mod metrics;
pub mod shutdown;

pub mod webhook;
