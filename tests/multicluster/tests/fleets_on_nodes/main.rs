//! Ring 4: a hub and two members with a real node each, whose daemons run.

mod ahead;
#[path = "../fleets/in_place.rs"]
mod in_place;
#[expect(dead_code, reason = "more is shared than is of use here")]
#[path = "../fleets/kit/mod.rs"]
mod kit;
