//! Where objects run, and why.

pub mod ends;
pub mod explain;
pub mod file;
pub mod named;
pub mod preview;
pub mod read;
pub mod rehearse;
pub mod status;
#[cfg(test)]
mod tests;
pub mod world;

pub use ends::{detach, withdraw};
pub use explain::explain;
pub use named::{Federated, Named};
pub use preview::plan;
pub use rehearse::{Rehearsal, rehearse};
pub use status::status;
pub use world::World;
