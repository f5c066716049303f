//! `explain`: which policy wins, which clusters it selects, what each gets and why, and what holds the object up.

use std::fmt::Write;

use ::hub::{dispatch::status::Trouble, placement::select::Selection};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kruise_core::api::fleet::keys::conditions;
use serde_json::{Value, json};

use super::{
    Named,
    read::{self, Fleet},
    world::{Judged, World},
};
use crate::{
    Answer, Error,
    connection::Hub,
    table::{or_dash, table},
};

/// Conditions that are good news; all others are bad news while they hold.
const GOOD: [&str; 6] = [
    conditions::SCHEDULED,
    conditions::DISPATCHED,
    conditions::APPLIED,
    conditions::AVAILABLE,
    conditions::PROGRESSING,
    conditions::RELEASED,
];

/// `explain KIND/NAME`
pub async fn explain(hub: &Hub, named: &Named) -> Result<Answer, Error> {
    let Named { kind, name } = named;
    let missing = || Error::NotFound(format!("there is no {} {name} in {}", kind.kind, hub.namespace));
    let object = read::object(hub, kind, &hub.namespace, name).await?.ok_or_else(missing)?;
    let fleet = Fleet::read(hub, &hub.namespace).await?;
    let world = fleet.world(hub, kind, &hub.namespace, object).await?;
    let explanation = Explanation::of(&world);
    Ok(Answer::done(explanation.text(), explanation.value()))
}

/// Why an object runs where it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    object: String,
    policies: Vec<Judged>,
    clusters: Vec<Explained>,
    held: Vec<Condition>,
    trouble: Option<String>,
    budget: String,
}

/// Why a cluster has what it has.
#[derive(Debug, Clone, PartialEq)]
struct Explained {
    cluster: String,
    state: String,
    judged: String,
    replicas: Option<u32>,
    updated: Option<u32>,
    why: String,
}

impl Explanation {
    /// From one round of the hub's planner over what is there.
    pub fn of(world: &World) -> Self {
        let (policies, winner) = world.judge();
        let round = world.round(winner.as_ref(), 0);
        let selections = winner.as_ref().map(|it| world.selections(&it.placement)).unwrap_or_default();
        let status = &round.standing.binding;
        let explained = world.clusters.iter().map(|cluster| {
            let name = &cluster.facts.name;
            let row = status.clusters.iter().find(|it| it.cluster == *name);
            let slice =
                round.writes.iter().find(|it| it.cluster == *name).and_then(|it| it.spec.slice.clone());
            let slice = slice.or_else(|| row.and_then(|it| it.slice.clone()));
            let numbers = match slice {
                Some(kruise_core::api::fleet::Slice::CloneSet(it)) => Some((it.replicas, it.updated)),
                _ => None,
            };
            let judged = selections.iter().find(|it| it.0 == *name).map(|it| &it.1);
            Explained {
                cluster: name.clone(),
                state: format!("{:?}", cluster.shown),
                judged: judged.map_or_else(|| "-".to_owned(), Selection::to_string),
                replicas: numbers.map(|it| it.0),
                updated: numbers.map(|it| it.1),
                why: row.map(|it| it.reason.clone()).unwrap_or_default(),
            }
        });
        let clusters = explained.collect();
        let trouble = round.standing.trouble.as_ref().map(|it| told(it, &policies));
        let place = world.reference.namespace.as_ref().map_or_else(String::new, |it| format!("{it}/"));
        Self {
            object: format!("{} {place}{}", world.reference.kind, world.reference.name),
            clusters,
            held: status.conditions.iter().filter(|it| is_news(it)).cloned().collect(),
            trouble,
            budget: status.budget.clone(),
            policies,
        }
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.object);
        if let Some(trouble) = &self.trouble {
            let _ = writeln!(text, "It is not planned: {trouble}\n");
        }
        if self.policies.is_empty() {
            text.push_str("There is no policy that could match it.\n\n");
        } else {
            let row = |it: &Judged| vec![it.policy.clone(), it.outcome.to_string()];
            let rows: Vec<Vec<String>> = self.policies.iter().map(row).collect();
            let _ = writeln!(text, "{}\n", table(&["POLICY", "OUTCOME"], &rows));
        }
        let number = |it: Option<u32>| it.map_or_else(|| "-".to_owned(), |it| it.to_string());
        let row = |it: &Explained| {
            let Explained { cluster, state, judged, replicas, updated, why } = it;
            vec![
                cluster.clone(),
                state.clone(),
                judged.clone(),
                number(*replicas),
                number(*updated),
                or_dash(why),
            ]
        };
        let rows: Vec<Vec<String>> = self.clusters.iter().map(row).collect();
        text.push_str(&table(&["CLUSTER", "STATE", "POLICY-SAYS", "R", "U", "WHY"], &rows));
        if !self.budget.is_empty() {
            let _ = write!(text, "\n\nunavailable: {} (used/limit)", self.budget);
        }
        for it in &self.held {
            let _ = write!(text, "\n{}={} {}: {}", it.type_, it.status, it.reason, it.message);
        }
        text
    }

    /// For programs.
    pub fn value(&self) -> Value {
        let policies: Vec<Value> = self
            .policies
            .iter()
            .map(|it| json!({ "policy": it.policy, "outcome": it.outcome.to_string() }))
            .collect();
        let clusters: Vec<Value> = self
            .clusters
            .iter()
            .map(|it| {
                json!({
                    "cluster": it.cluster, "state": it.state, "policySays": it.judged, "replicas": it.replicas,
                    "updated": it.updated, "why": it.why,
                })
            })
            .collect();
        json!({
            "object": self.object, "notPlanned": self.trouble, "policies": policies, "clusters": clusters,
            "budget": self.budget, "conditions": self.held,
        })
    }
}

/// Why an object is not planned, and what helps.
pub fn told(trouble: &Trouble, policies: &[Judged]) -> String {
    match trouble {
        Trouble::Suspended if policies.is_empty() => {
            "there is no policy; make a PlacementPolicy whose targets name it".to_owned()
        }
        Trouble::Suspended => "no policy matches; see below why each does not".to_owned(),
        Trouble::SweptAlong(why) => why.clone(),
        Trouble::Ending { waiting, .. } if waiting.is_empty() => "it goes from its clusters".to_owned(),
        Trouble::Ending { waiting, .. } => {
            format!("it goes from its clusters; not answered yet: {}", waiting.join(", "))
        }
        Trouble::BadNumbers(fault) | Trouble::NotSupported(fault) => fault.clone(),
    }
}

fn is_news(condition: &Condition) -> bool {
    let is_good = GOOD.contains(&condition.type_.as_str());
    if is_good { condition.status == "False" } else { condition.status == "True" }
}
