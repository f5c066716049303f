//! Which pod comes first: when some must go, and when some are updated.
//!
//! Every order is computed from keys that are read once per pod, so that ten thousand pods are sorted without looking
//! into labels again. Names settle ties: the answer does not depend on the order in which pods were listed. What
//! [`priority`] and [`scatter`] get is already in order, and they keep it where they have nothing to say.

mod active;
mod deletion;
pub mod priority;
pub mod scatter;
#[cfg(test)]
mod tests;

pub use active::order_for_update;
pub use deletion::{Spread, order_for_deletion};
