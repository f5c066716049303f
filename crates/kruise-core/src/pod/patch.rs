//! Changes to one pod, as requests that are sent one after the other.

use serde_json::Value;

/// Which part of the pod a patch goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The pod itself: metadata and images.
    Main,
    /// `pods/status`: conditions.
    Status,
    /// `pods/resize`: cpu and memory of running containers.
    Resize,
}

/// What must still hold for a patch to be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// It is still the same pod. For changes that are right whatever else happened to the pod meanwhile.
    Uid,
    /// Nothing about the pod has changed since it was looked at (or since the patch before this one was answered). For
    /// conclusions from the pod's state, which a newer state may contradict.
    Version,
}

/// One request: a strategic merge patch.
#[derive(Debug, Clone, PartialEq)]
pub struct PodPatch {
    /// Where it goes.
    pub part: Part,
    /// What it presumes.
    pub pin: Pin,
    /// The patch, without `uid` and `resourceVersion`: the shell adds them as `pin` says.
    pub body: Value,
}
