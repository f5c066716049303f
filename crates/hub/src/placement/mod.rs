//! Which policy wins for an object, which clusters it selects, and what of the object each of them gets.
//!
//! In the order of one planning round: [`matching`] finds the policy, [`select`] judges every cluster by it, [`round`]
//! turns policy, clusters and object into the input of `scheduling`, [`overrides`] finds what differs in one cluster,
//! and [`kinds`] knows the few things in which the federated kinds differ, such as what their numbers are and how a
//! share is written down.

pub mod kinds;
pub mod matching;
pub mod overrides;
pub mod round;
pub mod select;
