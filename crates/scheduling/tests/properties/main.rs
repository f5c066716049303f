//! What must hold for every input: the properties of the federation specification, under its names.
//!
//! `FLEET_CASES` asks for more random cases than the 10,000 each property gets at least.

mod fleets;
mod naive;
mod partition;
mod shares;
mod split;
mod webster;

use proptest::test_runner::Config;

/// The number of cases of every property here.
fn cases() -> Config {
    let asked = std::env::var("FLEET_CASES").ok().and_then(|it| it.parse().ok());
    Config { cases: asked.map_or(10_000, |it: u32| it.max(10_000)), ..Config::default() }
}
