//! A hub and three members with their agents, in one process on virtual time.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod ahead;
mod bodies;
mod crash;
mod deletion;
mod events;
mod kit;
mod leaving;
mod moves;
mod offline;
mod others;
mod overrides;
mod pulls;
mod random;
mod release;
mod rest;
mod restored;
mod room;
mod scale;
mod secrets;
mod told;
mod twins;
