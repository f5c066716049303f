//! How replicas get from what is granted to what the split would like, without a dip and without a flood.
//!
//! A move grows the receiver, waits until its pods are available, then shrinks the giver (or the other way round where
//! the policy allows no extra pods). Only settled replicas, those the hub has seen available, are counted on.

mod grow;
mod rebalance;
mod shrink;

pub use grow::{GrowRoom, Growth};
pub use rebalance::{Held, Imbalance, PolicyMark, Rebalance, RebalanceState, Trigger};
pub use shrink::{Giver, ShrinkRoom, Shrunk};
