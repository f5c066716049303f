//! Who comes later: a fourth member, and another leader of the hub.

use std::sync::{Arc, Mutex};

use hub::measures::Measures;
use kruise_core::api;
use serde_json::json;
use sim::{World, nodes::NodeShape, world::Process};

use super::{Duties, MEMBERS, Stage, agent, agent_of, hub, join};

/// A member that is not there from the beginning.
pub(crate) const LATE: &str = "member-4";

/// Starts a leader that asks nobody whether it is one.
pub(super) fn lead(world: &World, name: &str, shown: Arc<Mutex<Measures>>) -> Process {
    world.process(name, move |process| {
        let measures = Measures::new();
        *shown.lock().unwrap() = measures.clone();
        hub(process, measures)
    })
}

/// Has a cluster join, and starts its agent. Names of its pods are drawn from `first`.
pub(super) fn enlist(world: &World, member: &str, first: u64, duties: Duties) -> Process {
    join(world, member);
    let name = member.to_owned();
    world.process(&agent_of(member), move |process| agent(process, name.clone(), first, duties))
}

impl Stage {
    /// The members that have joined.
    pub(crate) fn members(&self) -> Vec<&'static str> {
        self.agents.keys().copied().collect()
    }

    /// A fourth cluster joins.
    pub(crate) fn welcome(&mut self) {
        let cluster = self.world.add_cluster(LATE);
        for crd in api::crds() {
            cluster.server().define(&json!(crd)).unwrap();
        }
        for node in ["node-1", "node-2", "node-3"] {
            self.world.add_node(LATE, node, &NodeShape::default());
        }
        let first = (MEMBERS.len() as u64) << 32;
        self.agents.insert(LATE, enlist(&self.world, LATE, first, Duties::Pods));
    }

    /// Another leader begins, and the one before does not know: it is handed back with its name, and runs.
    pub(crate) fn take_over(&mut self) -> (Process, String) {
        let name = format!("hub-{}", self.world.now().as_millisecond());
        let process = lead(&self.world, &name, self.counted.clone());
        (std::mem::replace(&mut self.hub, process), std::mem::replace(&mut self.leader, name))
    }
}
