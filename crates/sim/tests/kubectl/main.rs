//! The real kubectl against simulated clusters over HTTPS, on the real clock.
//!
//! `FLEET_KUBECTL` names the program; without it the one on the path is taken.

#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod desk;
mod kinds;
mod reading;
mod refusals;
mod writing;
