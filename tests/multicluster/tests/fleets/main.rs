//! Ring 3: a hub and three members on real API servers, by the rules that the tests are named after.
//!
//! The hub and the agents are processes of their own with the rights of the generated manifests. Tests that only use them run side
//! by side in namespaces of their own; one that kills, cuts or drains has what it disturbs to itself.
//!
//! `FLEET_CASES=N` makes the kills of a kind N, as far as there are so many; in CI they are a few.

mod adoption;
mod ahead;
mod bad_input;
mod budgets;
mod commands;
mod faults;
mod in_place;
mod kit;
mod leaving;
mod losses;
mod moves;
mod partition;
mod pods_to_delete;
mod quota;
mod room;
mod scale;
mod secrets;

/// How many cases of a kind are tried, of those there are.
fn cases(usual: usize, all: usize) -> usize {
    let asked = std::env::var("FLEET_CASES").ok().and_then(|it| it.parse().ok());
    asked.map_or(usual, |it: usize| it.clamp(usual, all))
}
