//! The member's side of the link to a hub: plans in, reports out.
//!
//! Decisions are values, made by pure functions: [`judge`] which plan counts and what it asks for, [`render`] what the member
//! object looks like, [`seed`] which revision has to be known before, [`report`] what the hub is told and when. [`store`] is what
//! outlives a restart.

pub mod judge;
pub mod marks;
pub mod render;
pub mod report;
pub mod seed;
pub mod store;

use kruise_core::api::fleet::GROUP;

/// Whether an annotation is one of the fleet's own.
pub(crate) fn is_ours(key: &str) -> bool {
    key.split_once('/').is_some_and(|it| it.0 == GROUP)
}
