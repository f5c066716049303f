//! Holding the simulation to the real thing: the same random requests go to both, and the answers must agree.
//!
//! A sequence is a function of its seed. It is run against any `kube::Client`, in a namespace of its own, and what
//! comes back is normalised: uids become ordinals, times and versions go. Accepted differences are listed by name
//! in `docs/simulation.md` and taken out by [`accepted`].

mod accepted;
mod collected;
mod generate;
mod observe;
mod owners;
mod trial;

pub use accepted::accepted;
pub use collected::{await_collector, hold_collected};
pub use generate::{Step, prepare, sequence};
pub use observe::{Observation, observe};
pub use owners::family;
pub use trial::{hold, install};

use serde_json::Value;

/// One place where two servers differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// The step's number, and what was asked.
    pub step: String,
    /// The path inside the answer.
    pub at: String,
    /// What one server said.
    pub left: Value,
    /// What the other said.
    pub right: Value,
}

/// Every difference between two runs of one sequence that is not accepted.
pub fn compare(left: &[Observation], right: &[Observation]) -> Vec<Difference> {
    let mut differences = Vec::new();
    for (left, right) in left.iter().zip(right) {
        let mut found = Vec::new();
        walk(&left.answer, &right.answer, String::new(), &mut found);
        if left.code != right.code {
            found.push((".code".to_owned(), left.code.into(), right.code.into()));
        }
        for (at, one, other) in found {
            let difference = Difference { step: left.step.clone(), at, left: one, right: other };
            if !accepted(&difference) {
                differences.push(difference);
            }
        }
    }
    differences
}

fn walk(left: &Value, right: &Value, at: String, found: &mut Vec<(String, Value, Value)>) {
    match (left, right) {
        (Value::Object(one), Value::Object(other)) => {
            let names = one.keys().chain(other.keys().filter(|it| !one.contains_key(*it)));
            for name in names {
                walk(&left[name], &right[name], format!("{at}.{name}"), found);
            }
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            for (index, (one, other)) in one.iter().zip(other).enumerate() {
                walk(one, other, format!("{at}[{index}]"), found);
            }
        }
        (one, other) if one != other => found.push((at, one.clone(), other.clone())),
        _ => {}
    }
}
