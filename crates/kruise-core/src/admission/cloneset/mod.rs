//! CloneSets at the door: defaults, rules, and what is accepted but will do nothing.

mod claims;
mod default;
mod lifecycle;
mod reviews;
mod strategy;
mod validate;
mod warnings;

pub use default::default;
pub use reviews::{MUTATE_PATH, PodLookup, REGISTRATIONS, Setup, VALIDATE_PATH, mutated, serve, validated};
pub use validate::{Context, FindPod, PodFacts, validate, validate_delete};
pub use warnings::warnings;

#[cfg(test)]
mod tests;
