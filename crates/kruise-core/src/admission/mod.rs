//! What is let in: defaults that are filled in and rules that objects must keep, as functions over JSON.
//!
//! Objects stay JSON trees, so that fields this build does not know survive and nothing is added that nobody asked for.
//! The same functions run in every cluster and on the hub. [`metadata`], [`numbers`] and [`template`] are what kinds
//! share; each kind has a folder of its own, which also says which requests it wants to see. [`pod`] is the chain that
//! every new pod passes.

pub mod cloneset;
pub mod container_recreate_request;
pub mod image_pull_job;
pub mod metadata;
pub mod node_image;
pub mod numbers;
pub mod pod;
pub mod template;
pub(crate) mod tree;

use crate::{
    api::APPS_GROUP,
    runtime::webhook::{
        Operation, Registration,
        registration::{FailurePolicy, Phase, SideEffects},
    },
};

/// The row of the webhook table for one of OpenKruise's own kinds: asked about everything that is created or changed, in
/// either version, and failing closed, which harms nobody but the kind itself.
pub const fn of_our_kind(
    name: &'static str,
    phase: Phase,
    path: &'static str,
    resources: &'static [&'static str],
) -> Registration {
    Registration {
        name,
        phase,
        path,
        operations: &[Operation::Create, Operation::Update],
        group: APPS_GROUP,
        versions: &["v1alpha1", "v1beta1"],
        resources,
        namespaces: &[],
        objects: &[],
        failure: FailurePolicy::Fail,
        side_effects: SideEffects::None,
    }
}

/// The versions in which OpenKruise's kinds are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// The older one.
    V1Alpha1,
    /// The stored one.
    V1Beta1,
}

impl Version {
    /// Reads the version of an admission request, such as `v1beta1`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "v1alpha1" => Some(Self::V1Alpha1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }
}
