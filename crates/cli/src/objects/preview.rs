//! `plan -f`: where objects would run if a file were applied. Nothing is written.

use std::{collections::BTreeMap, io::Read};

use ::hub::placement::select::ClusterFacts;
use kruise_core::api::fleet::CloneSetSlice;
use serde_json::{Value, json};

use super::{
    explain::told,
    file::{self, Contents},
    named::Federated,
    read::{self, Fleet},
    rehearse::{Rehearsal, rehearse},
    world::World,
};
use crate::{Answer, Error, Exit, connection::Hub, table::table};

/// `plan -f FILE`
pub async fn plan(hub: &Hub, path: &str) -> Result<Answer, Error> {
    let text = text(path)?;
    let members = Fleet::read(hub, &hub.namespace).await?.members;
    let facts: Vec<ClusterFacts> = members.iter().map(ClusterFacts::from).collect();
    let contents = Contents::read(&text, &hub.namespace, &facts)?;
    let mut previews = Vec::new();
    for (kind, namespace, object) in subjects(hub, &contents).await? {
        let there = Fleet::read(hub, &namespace).await?;
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let stored = read::object(hub, &kind, &namespace, name).await?;
        let object = file::stored(object, stored.as_ref());
        let world = contents.over(there).world(hub, &kind, &namespace, object).await?;
        previews.push(Preview::of(world, stored.is_none()));
    }
    Ok(answer(&previews, &contents.warnings))
}

/// The objects to plan: those of the file, and where it changes policies or clusters, all that are on the hub.
async fn subjects(hub: &Hub, contents: &Contents) -> Result<Vec<(Federated, String, Value)>, Error> {
    let mut subjects = contents.objects.clone();
    if !contents.concerns_others() {
        return Ok(subjects);
    }
    let kind = Federated::of_kind("CloneSet")
        .ok_or_else(|| Error::NotFound("there is no kind CloneSet".to_owned()))?;
    for object in read::objects(hub, &kind).await? {
        let text = |field: &str| {
            object.pointer(&format!("/metadata/{field}")).and_then(Value::as_str).unwrap_or_default()
        };
        let (namespace, name) = (text("namespace").to_owned(), text("name").to_owned());
        let is_there = |(of, place, it): &(Federated, String, Value)| {
            *of == kind
                && *place == namespace
                && it.pointer("/metadata/name").and_then(Value::as_str) == Some(&name)
        };
        if !subjects.iter().any(is_there) {
            subjects.push((kind.clone(), namespace, object));
        }
    }
    Ok(subjects)
}

/// What would come of one object.
#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    object: String,
    is_new: bool,
    policy: Option<String>,
    trouble: Option<String>,
    states: BTreeMap<String, String>,
    rehearsal: Rehearsal,
}

impl Preview {
    /// Plans an object to its end.
    pub fn of(world: World, is_new: bool) -> Self {
        let (policies, winner) = world.judge();
        let place = world.reference.namespace.as_ref().map_or_else(String::new, |it| format!("{it}/"));
        let object = format!("{} {place}{}", world.reference.kind, world.reference.name);
        let states =
            world.clusters.iter().map(|it| (it.facts.name.clone(), format!("{:?}", it.shown))).collect();
        let rehearsal = rehearse(world, winner.as_ref());
        Self {
            object,
            is_new,
            policy: winner.map(|it| format!("{}/{}", it.reference.kind, it.reference.name)),
            trouble: rehearsal.trouble().map(|it| told(it, &policies)),
            states,
            rehearsal,
        }
    }

    /// Pods that would leave one cluster for another.
    pub fn moved(&self) -> u32 {
        self.rehearsal.moved()
    }

    /// Whether any cluster would have other pods. Shares of budgets come and go with every round.
    fn changes(&self) -> bool {
        let Rehearsal { before, after, .. } = &self.rehearsal;
        let pods = |shares: &BTreeMap<String, CloneSetSlice>, name: &String| {
            shares.get(name).map_or((0, 0), |it| (it.replicas, it.updated))
        };
        self.rehearsal.names().iter().any(|it| pods(before, it) != pods(after, it))
    }

    fn text(&self) -> String {
        let mut text = self.object.clone();
        if let Some(policy) = &self.policy {
            text = format!("{text}, by {policy}");
        }
        if let Some(trouble) = &self.trouble {
            return format!("{text}\nnot planned: {trouble}");
        }
        if self.is_new {
            text += "\nnew: which of equal clusters gets one more is settled when it is made";
        }
        let number = |slice: Option<u32>| slice.map_or_else(|| "-".to_owned(), |it| it.to_string());
        let row = |name: &String| {
            let (before, after) = (self.rehearsal.before.get(name), self.rehearsal.after.get(name));
            let (old, new) = (before.map_or(0, |it| it.replicas), after.map_or(0, |it| it.replicas));
            let change = i64::from(new) - i64::from(old);
            vec![
                name.clone(),
                self.states.get(name).cloned().unwrap_or_default(),
                number(before.map(|it| it.replicas)),
                number(after.map(|it| it.replicas)),
                if change == 0 { String::new() } else { format!("{change:+}") },
                number(after.map(|it| it.updated)),
            ]
        };
        let rows: Vec<Vec<String>> = self.rehearsal.names().iter().map(row).collect();
        let what = table(&["CLUSTER", "STATE", "R-NOW", "R-PLANNED", "CHANGE", "U-PLANNED"], &rows);
        let unplaced = self.rehearsal.standing.binding.conditions.iter();
        let unplaced: String = unplaced
            .filter(|it| it.type_ == "Unplaced" && it.status == "True")
            .map(|it| format!("\n{}", it.message))
            .collect();
        format!(
            "{text}\n{what}\npods that move: {}, rounds: {}{unplaced}",
            self.moved(),
            self.rehearsal.rounds
        )
    }

    fn value(&self) -> Value {
        let row = |name: &String| {
            json!({
                "cluster": name, "state": self.states.get(name),
                "now": self.rehearsal.before.get(name), "planned": self.rehearsal.after.get(name),
            })
        };
        json!({
            "object": self.object, "new": self.is_new, "policy": self.policy, "notPlanned": self.trouble,
            "moved": self.moved(), "rounds": self.rehearsal.rounds,
            "clusters": self.rehearsal.names().iter().map(row).collect::<Vec<_>>(),
        })
    }
}

/// All of them; pods that would move are a change that is pending.
pub fn answer(previews: &[Preview], warnings: &[String]) -> Answer {
    let shown = previews.iter().filter(|it| it.changes() || it.is_new || it.trouble.is_some());
    let mut parts: Vec<String> = warnings.iter().map(|it| format!("warning: {it}")).collect();
    parts.extend(shown.map(Preview::text));
    if parts.is_empty() {
        parts.push("nothing would change".to_owned());
    }
    let moved: u32 = previews.iter().map(Preview::moved).sum();
    let objects: Vec<Value> = previews.iter().map(Preview::value).collect();
    Answer {
        text: parts.join("\n\n"),
        value: json!({ "objects": objects, "moved": moved, "warnings": warnings }),
        exit: if moved > 0 { Exit::Pending } else { Exit::Done },
    }
}

fn text(path: &str) -> Result<String, Error> {
    let failed = |source| Error::File { path: path.to_owned(), source };
    if path != "-" {
        return std::fs::read_to_string(path).map_err(failed);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}
