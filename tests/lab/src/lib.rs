//! How do real Kubernetes clusters run on one machine, and leave nothing behind?
//!
//! A cluster belongs to one *keeper* process ([`keeper`]). The keeper starts a control plane ([`control_plane`]), real
//! nodes ([`node`]), fake nodes ([`fakenode`]), a registry ([`registry`]) and storage ([`storage`]), and ends all of them when it is told to,
//! when the process that asked for the cluster is gone, or when it is killed itself: every child carries a parent
//! death signal, and everything a real node starts or mounts lives in namespaces that end with it.
//! Simulated clusters have the process that simulates them for a keeper ([`simulated`]).
//! What a keeper cannot take with it when it is killed (bridges, cgroups) is written down first, and [`cluster::down`]
//! or the next start removes it.

pub mod binaries;
pub mod cargo;
pub mod cluster;
pub mod control_plane;
pub mod fakenode;
pub mod home;
pub mod join;
pub mod keeper;
pub mod node;
pub mod pki;
pub mod ports;
pub mod process;
pub mod progress;
pub mod registry;
pub mod simulated;
pub mod storage;
