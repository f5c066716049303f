//! What is stored, read again only where it has changed.

use std::{collections::BTreeMap, sync::Arc};

use kruise_core::api::fleet::{
    assignment::{Assignment, AssignmentSpec},
    binding::{FleetBinding, Ledger},
    keys,
};
use serde_json::Value;
use sim::{World, server::object::Stored};

use crate::kit::{HUB, Pod, pods_of, present};

/// The number of a plan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) term: u64,
    pub(super) seq: u64,
}

impl Plan {
    /// Whether `next` may follow.
    pub(super) fn allows(self, next: Self) -> bool {
        next.term >= self.term && next.seq >= self.seq
    }
}

/// A member's object.
#[derive(Debug)]
pub(super) struct Local {
    pub(super) plan: Plan,
    pub(super) generation: i64,
    pub(super) observed: i64,
    pub(super) replicas: u32,
    /// Pods that may be down on purpose, and pods that there may be beyond the replicas.
    pub(super) unavailable: u32,
    pub(super) surge: u32,
    pub(super) is_ending: bool,
}

impl Local {
    fn read(object: &Value) -> Self {
        let plan = object["metadata"]["annotations"][keys::APPLIED_PLAN].as_str().unwrap_or_default();
        let (term, seq) = plan.split_once('.').unwrap_or_default();
        let rolling = &object["spec"]["updateStrategy"]["rollingUpdate"];
        let number = |it: &Value| it.as_u64().unwrap_or(0) as u32;
        // While paused there is no surge (BUD-9).
        let surge = if rolling["paused"] == true { 0 } else { number(&rolling["maxSurge"]) };
        Self {
            plan: Plan { term: term.parse().unwrap_or(0), seq: seq.parse().unwrap_or(0) },
            generation: object["metadata"]["generation"].as_i64().unwrap_or(0),
            observed: object["status"]["observedGeneration"].as_i64().unwrap_or(0),
            replicas: number(&object["spec"]["replicas"]),
            unavailable: number(&rolling["maxUnavailable"]),
            surge,
            is_ending: !object["metadata"]["deletionTimestamp"].is_null(),
        }
    }
}

/// One member.
#[derive(Debug, Default)]
pub(super) struct Member {
    version: u64,
    pub(super) pods: Vec<Pod>,
    pub(super) copy: Option<Local>,
    copy_version: u64,
}

/// The object on the hub.
#[derive(Debug, Default)]
pub(super) struct Web {
    pub(super) generation: i64,
    pub(super) observed: i64,
    pub(super) ready: usize,
}

/// The fleet.
#[derive(Debug, Default)]
pub(super) struct Sight {
    pub(super) members: BTreeMap<&'static str, Member>,
    pub(super) web: Web,
    pub(super) ledger: Option<Ledger>,
    pub(super) assignments: BTreeMap<&'static str, AssignmentSpec>,
    /// States of members, by name.
    pub(super) states: BTreeMap<&'static str, String>,
    /// The image of the revision that is being released.
    pub(super) image_of_target: Option<String>,
    version: u64,
    versions: BTreeMap<String, u64>,
}

impl Sight {
    /// The objects of members.
    pub(super) fn copies(&self) -> impl Iterator<Item = (&'static str, &Local)> {
        self.members.iter().filter_map(|(name, it)| Some((*name, it.copy.as_ref()?)))
    }

    /// Generation of the object, and the one that is said to be everywhere.
    pub(super) fn observed(&self) -> (i64, i64) {
        (self.web.generation, self.web.observed)
    }

    pub(super) fn look(&mut self, world: &World) {
        let present = present(world);
        for &name in &present {
            let server = world.cluster(name).server().clone();
            let member = self.members.entry(name).or_default();
            if std::mem::replace(&mut member.version, server.version()) == member.version {
                continue;
            }
            member.pods = pods_of(world, name);
            let copy = server.get("clonesets.apps.kruise.io", "shop", "web");
            let version = copy.as_ref().map_or(0, |it| it.version);
            if std::mem::replace(&mut member.copy_version, version) != version {
                member.copy = copy.map(|it| Local::read(&it.value()));
            }
        }
        let server = world.cluster(HUB).server().clone();
        if std::mem::replace(&mut self.version, server.version()) == self.version {
            return;
        }
        if let Some(web) = self.changed("web", server.get("clonesets.apps.kruise.io", "shop", "web")) {
            let web = web.map(|it| it.value()).unwrap_or_default();
            let number = |it: &Value| it.as_i64().unwrap_or(0);
            self.web = Web {
                generation: number(&web["metadata"]["generation"]),
                observed: number(&web["status"]["observedGeneration"]),
                ready: number(&web["status"]["readyReplicas"]) as usize,
            };
        }
        let binding = server.get("fleetbindings.fleet.kruise.io", "shop", "cloneset.web");
        if let Some(binding) = self.changed("binding", binding) {
            self.ledger = binding.map(|it| it.read::<FleetBinding>().unwrap().spec.ledger);
            let target = self.ledger.as_ref().and_then(|it| it.target.clone());
            let body = target.and_then(|it| {
                server.get("fleetrevisions.fleet.kruise.io", keys::CONTENT_NAMESPACE, &it.name)
            });
            let image = body.and_then(|it| {
                let image = it.value().pointer("/spec/body/spec/template/spec/containers/0/image")?.clone();
                image.as_str().map(str::to_owned)
            });
            self.image_of_target = image;
        }
        for name in present {
            let stored =
                server.get("assignments.fleet.kruise.io", &format!("fleet-{name}"), "cloneset.shop.web");
            if let Some(assignment) = self.changed(&format!("assignment {name}"), stored) {
                match assignment {
                    Some(it) => drop(self.assignments.insert(name, it.read::<Assignment>().unwrap().spec)),
                    None => drop(self.assignments.remove(name)),
                }
            }
            let stored = server.get("memberclusters.fleet.kruise.io", "", name);
            if let Some(cluster) = self.changed(&format!("member {name}"), stored) {
                let cluster = cluster.map(|it| it.value()).unwrap_or_default();
                self.states.insert(name, cluster["status"]["state"].as_str().unwrap_or_default().to_owned());
            }
        }
    }

    /// An object, if it is not the one that was read last.
    fn changed(&mut self, what: &str, stored: Option<Arc<Stored>>) -> Option<Option<Arc<Stored>>> {
        let version = stored.as_ref().map_or(0, |it| it.version);
        let known = self.versions.entry(what.to_owned()).or_insert(u64::MAX);
        (std::mem::replace(known, version) != version).then_some(stored)
    }
}
