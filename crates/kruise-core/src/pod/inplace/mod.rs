//! Changing a running pod in place.
//!
//! [`spec`] says whether two revisions differ only in what can change under a running pod, and in what exactly.
//! [`update()`] begins the change, [`refresh()`] carries it on (grace period, one batch of containers after the other)
//! and puts the pod back into rotation, [`is_complete`] says when it is done. In between everything stands in
//! annotations of the pod ([`state`]), in the form that OpenKruise writes, so either can finish what the other began.
//!
//! Each step is at most three patches, in an order in which a crash between two of them loses nothing: the pod leaves
//! rotation first, then containers are resized, and only the last one, which changes images and labels, also records
//! the step. All are bound to the version of the pod that was looked at. A cache that lags behind can therefore neither
//! skip the drain (kruise#2276) nor declare a pod ready that has just begun its next update (kruise#2274): its patches
//! are refused, and the next look is at a newer pod.

pub mod hashes;
pub mod refresh;
pub mod resize;
pub mod spec;
pub mod state;
pub mod update;

mod batches;
mod body;
mod complete;
mod diff;
mod env;
mod grace;
mod image;
mod metadata;

use jiff::Timestamp;

pub use self::{
    complete::{is_complete, is_consistent},
    grace::is_in_grace,
    refresh::{Hold, Refresh, is_in_rotation, refresh},
    resize::server_resizes,
    spec::{Options, RevisionView, UpdateSpec, calculate, is_metadata_only},
    state::UpdateState,
    update::{Start, needs_unready, update},
};
use crate::{pod::lifecycle::State, runtime::cache::pod::PodLite};

/// What the engine must know besides the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// The time.
    pub now: Timestamp,
    /// Gate `InPlaceWorkloadVerticalScaling`: cpu and memory change in place.
    pub vertical_scaling: bool,
    /// Whether the API server has `pods/resize`; see [`server_resizes`].
    pub server_resizes: bool,
}

/// Whether a pod may begin an update: not when it is about to be deleted, and not during the grace period of an earlier
/// update, unless that one is over.
pub fn may_update(pod: &PodLite) -> bool {
    match State::of(pod) {
        Some(State::PreparingDelete) => false,
        Some(State::Updated) => true,
        _ => !is_in_grace(pod),
    }
}

#[cfg(test)]
mod tests;
