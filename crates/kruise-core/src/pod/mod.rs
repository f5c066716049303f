//! What all kinds share about pods. Pure functions over [`PodLite`](crate::runtime::cache::pod::PodLite); nothing in
//! here knows a workload kind.
//!
//! [`state`] asks what a pod is, [`rank`] which pod comes first, [`build`] makes a pod from a template, [`claims`] the
//! volume claims it needs, [`launch`] in which order its containers start. [`lifecycle`], [`readiness`] and [`inplace`] decide how a running pod changes; what they
//! decide are [`patch`]es.

pub mod build;
pub mod claims;
pub mod inplace;
pub mod launch;
pub mod lifecycle;
pub mod patch;
pub mod rank;
pub mod readiness;
pub mod state;

#[cfg(test)]
pub(crate) mod sample;
