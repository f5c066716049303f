//! The kinds of OpenKruise and of the fleet, as the API server sees them.
//!
//! One folder per kind, with one file per version. `v1beta1` is what is stored and what controllers work on;
//! `v1alpha1` is served through [`convert()`], and stored only of kinds without another version. Doc comments of fields
//! become the descriptions that `kubectl explain` prints. Pod templates, claim templates, containers and volumes stay
//! JSON, so that a field newer than this build survives every round trip.

pub mod cloneset;
mod columns;
pub mod common;
pub mod container_recreate_request;
pub mod convert;
pub mod crds;
pub mod fleet;
pub mod image_list_pull_job;
pub mod image_pull_job;
pub mod node_image;
pub mod node_pod_probe;
pub mod resource_distribution;
mod schema;
pub mod sidecarset;

pub use convert::convert;
pub use crds::{converted_crds, crds, fleet_crds, member_crds};

#[cfg(test)]
mod tests;

/// API group of the kinds that OpenKruise defines.
pub const APPS_GROUP: &str = "apps.kruise.io";
/// The stored version of [`APPS_GROUP`].
pub const APPS_V1BETA1: &str = "apps.kruise.io/v1beta1";
/// The older served version of [`APPS_GROUP`].
pub const APPS_V1ALPHA1: &str = "apps.kruise.io/v1alpha1";
