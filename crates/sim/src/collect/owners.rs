//! The garbage collector: dependents go with their owners, in the background, in the foreground, or not at all.
//!
//! It follows kube-controller-manager's `garbagecollector`: the same reasons to look at an object, the same decisions, and the same
//! retries. Where that one keeps a graph, this one reads the store, and keeps what the store does not say in its [`Memory`].
//!
//! [`Memory`]: super::memory::Memory

use std::{sync::Arc, time::Duration};

use http::Method;
use serde_json::{Value, json};

use super::verdict::{
    Dependents, FOREGROUND, ORPHAN, Standing, Verdict, blocks, judge, names, starts, unblocked, unblocking,
    waits,
};
use crate::{
    seed::Seed,
    server::{
        State,
        object::{Key, finalizers, is_deleting, meta_str, owner_references},
        registry::Resource,
        store::{Change, Happened},
    },
    world::{Member, Shared, lock},
};

/// How long the collector takes to notice.
const NOTICE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// The name under which its changes are recorded in `managedFields`.
const MANAGER: &str = "kube-controller-manager";

/// Where an object is: its table and its key.
type Place = (Arc<str>, Key);

/// What the collector looks at.
#[derive(Clone)]
enum Look {
    /// An object that may have to go.
    Attempt(Place),
    /// An owner whose dependents are to forget it.
    Orphan(Place),
    /// An owner that was never seen, of a kind that nobody knows yet.
    Stranger { api_version: String, kind: String, uid: String },
}

/// How a look ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    /// Something stood in the way that may be gone later.
    Failed,
}

pub(super) fn react(world: &Arc<Shared>, member: &Arc<Member>, change: &Change) {
    let looks = match change.happened {
        Happened::Deleted => after_delete(member, change),
        _ if concerns_owners(change) => after_write(member, change),
        _ => return,
    };
    if looks.is_empty() {
        return;
    }
    let version = change.object.version;
    let delay = member.server().seed().of("collector").at(version).between(NOTICE.0, NOTICE.1);
    world.later(member, delay, move |world, member| {
        for it in looks {
            look(world, member, it);
        }
    });
}

/// Looks, and plans to look again after a failure.
fn look(world: &Arc<Shared>, member: &Arc<Member>, it: Look) {
    let (name, outcome) = match &it {
        Look::Attempt(place) => {
            let Some(found) = read(member, place) else { return };
            (found.uid().to_owned(), attempt(world, member, &found))
        }
        Look::Orphan(place) => return orphan(member, place),
        Look::Stranger { api_version, kind, uid } => {
            (format!("{uid} {api_version} {kind}"), introduce(world, member, (api_version, kind), uid))
        }
    };
    let mut memory = lock(&member.collector);
    if outcome == Outcome::Done {
        return memory.succeed(&name);
    }
    let Some(wait) = memory.fail(&name) else { return };
    world.later(member, wait, move |world, member| {
        let is_there = lock(&member.collector).retry(&name);
        if is_there {
            look(world, member, it);
        }
    });
}

/// Most objects have neither owners nor the collector's finalizers, and are not read at all.
fn concerns_owners(change: &Change) -> bool {
    let body = &change.object.body;
    let has = |word: &str| body.windows(word.len()).any(|it| it == word.as_bytes());
    let had_owners = change.previous.as_ref().is_some_and(|it| !it.owners.is_empty());
    had_owners || !change.object.owners.is_empty() || has("\"foregroundDeletion\"") || has("\"orphan\"")
}

/// Dependents may have to go, and owners that wait for their dependents may be free.
fn after_delete(member: &Member, change: &Change) -> Vec<Look> {
    let waiting: Vec<_> = {
        let mut memory = lock(&member.collector);
        memory.forget(&change.object.uid);
        change.object.owners.iter().filter(|it| memory.has_waited(it)).collect()
    };
    let state = member.server().state();
    let owners = waiting.into_iter().filter_map(|it| state.store.locate(it).cloned());
    let dependents = state.store.dependents(&change.object.uid);
    dependents.into_iter().chain(owners).map(Look::Attempt).collect()
}

fn after_write(member: &Member, change: &Change) -> Vec<Look> {
    let (old, new) = (change.previous.as_ref().map(|it| it.value()), change.object.value());
    let place = (change.table.clone(), change.object.key());
    let state = member.server().state();
    let mut looks = Vec::new();

    // A reference to nobody is found when it is made.
    let is_new = |it: &&Value| !old.iter().flat_map(owner_references).any(|old| old["uid"] == it["uid"]);
    let inexact = |it: &&Value| !is_exact(&state, it, &place.1);
    looks.extend(owner_references(&new).filter(is_new).filter(inexact).map(|it| suspect(&state, it, &place)));
    let unblocked = old.iter().flat_map(|old| unblocked(old, &new));
    looks.extend(unblocked.filter_map(|it| state.store.locate(&it).cloned()).map(Look::Attempt));
    if starts(old.as_ref(), &new, ORPHAN) {
        looks.push(Look::Orphan(place));
    } else if starts(old.as_ref(), &new, FOREGROUND) {
        lock(&member.collector).begin_wait(&change.object.uid);
        // Workers look at all of them side by side. Most often the owner is last, but it need not be.
        let mut places = state.store.dependents(&change.object.uid);
        let draw = member.server().seed().of("collector-order").at(change.object.version);
        let any = draw.of("place").below(places.len() as u64 + 1) as usize;
        places.insert(if draw.below(2) == 0 { places.len() } else { any }, place);
        looks.extend(places.into_iter().map(Look::Attempt));
    }
    looks
}

/// What to look at because of a reference that does not say what is so. Where an object has its uid, or has had it, the dependent is
/// looked at; an owner that may be of a kind yet to come is asked for until it is known.
fn suspect(state: &State, reference: &Value, dependent: &Place) -> Look {
    let text = |name: &str| reference[name].as_str().unwrap_or_default().to_owned();
    let [api_version, kind, uid] = ["apiVersion", "kind", "uid"].map(text);
    let is_known = state.registry.by_kind(&api_version, &kind).is_some();
    if is_known || state.store.locate(&uid).is_some() {
        Look::Attempt(dependent.clone())
    } else {
        Look::Stranger { api_version, kind, uid }
    }
}

/// Looks at those who name an owner once its kind is known.
fn introduce(world: &Arc<Shared>, member: &Arc<Member>, kind: (&str, &str), uid: &str) -> Outcome {
    let (is_known, dependents) = {
        let state = member.server().state();
        (state.registry.by_kind(kind.0, kind.1).is_some(), state.store.dependents(uid))
    };
    if !is_known && !dependents.is_empty() {
        return Outcome::Failed;
    }
    for place in dependents {
        look(world, member, Look::Attempt(place));
    }
    Outcome::Done
}

/// Deletes an object if it has to go, lets it forget owners, or ends its own wait for its dependents.
fn attempt(world: &Arc<Shared>, member: &Arc<Member>, found: &Found) -> Outcome {
    let has_waited = lock(&member.collector).has_waited(found.uid());
    if has_waited {
        end_wait(world, member, found);
        return Outcome::Done;
    }
    if is_deleting(&found.object) {
        return Outcome::Done;
    }
    let standings = match standings(member, found) {
        Ok(standings) => standings,
        Err(Unclear::UnknownKind) => return Outcome::Failed,
        Err(Unclear::OutOfReach) => return Outcome::Done,
    };
    let policy = match judge(&found.object, &standings, dependents_of(member, found)) {
        Verdict::Stays => return Outcome::Done,
        Verdict::Keeps(owners) => {
            found.patch(member, "ownerReferences", json!(owners));
            return Outcome::Done;
        }
        Verdict::Goes { policy, unblock } => {
            let owners = unblock.then(|| unblocking(&found.object, found.resource.traits.custom));
            // The delete is for the version that was judged: an object that holds up nobody now is judged again. That may be before its
            // owners have seen it or after, when they may stand otherwise.
            if owners.is_some_and(|it| found.patch(member, "ownerReferences", json!(it)) == Patched::Changed)
                && draw(member, "collector-again").below(2) == 0
            {
                return Outcome::Failed;
            }
            policy
        }
    };
    let body = json!({"propagationPolicy": policy, "preconditions": {"uid": found.uid()}});
    // An object that is gone by now is what was wanted.
    let _ = member.server().write(Method::DELETE, &found.path, &body);
    Outcome::Done
}

/// A draw for what happens at this point of a cluster's history.
fn draw(member: &Member, label: &str) -> Seed {
    let version = member.server().state().store.version();
    member.server().seed().of(label).at(version)
}

/// An owner goes when nobody holds it up any more. Until then those who do are looked at.
fn end_wait(world: &Arc<Shared>, member: &Arc<Member>, owner: &Found) {
    let dependents = member.server().state().store.dependents(owner.uid());
    let mut is_held = false;
    for place in dependents {
        let Some(dependent) = read(member, &place).filter(|it| blocks(&it.object, owner.uid())) else {
            continue;
        };
        is_held = true;
        let has_waited = lock(&member.collector).has_waited(dependent.uid());
        if !has_waited {
            look(world, member, Look::Attempt(place));
        }
    }
    if !is_held {
        owner.take_off(member, FOREGROUND);
    }
}

/// Lets the dependents of an object forget it, and then the object go.
fn orphan(member: &Arc<Member>, place: &Place) {
    let Some(owner) = read(member, place) else { return };
    let dependents = member.server().state().store.dependents(owner.uid());
    for dependent in dependents.iter().filter_map(|it| read(member, it)) {
        let others: Vec<&Value> =
            owner_references(&dependent.object).filter(|it| it["uid"] != owner.uid()).collect();
        dependent.patch(member, "ownerReferences", json!(others));
    }
    owner.take_off(member, ORPHAN);
}

fn dependents_of(member: &Member, found: &Found) -> Dependents {
    let dependents = member.server().state().store.dependents(found.uid());
    let has_waited =
        |it: &Place| read(member, it).is_some_and(|it| lock(&member.collector).has_waited(it.uid()));
    match dependents.is_empty() {
        true => Dependents::None,
        false if dependents.iter().any(has_waited) => Dependents::SomeWaiting,
        false => Dependents::Some,
    }
}

/// Why nothing is decided about an object.
enum Unclear {
    /// It has an owner of a kind that nobody knows, which may be anywhere.
    UnknownKind,
    /// It is in no namespace and has an owner of a kind that is always in one.
    OutOfReach,
}

/// How the owners of an object stand.
fn standings(member: &Member, dependent: &Found) -> Result<Vec<Standing>, Unclear> {
    let state = member.server().state();
    let near = meta_str(&dependent.object, "namespace");
    let standing = |it: &Value| {
        let text = |name: &str| it[name].as_str().unwrap_or_default();
        let resource =
            state.registry.by_kind(text("apiVersion"), text("kind")).ok_or(Unclear::UnknownKind)?;
        if resource.namespaced && near.is_empty() {
            return Err(Unclear::OutOfReach);
        }
        let namespace = if resource.namespaced { near } else { "" };
        let owner = state.store.get(&resource.table(), &Key::new(namespace, text("name")));
        Ok(match owner.filter(|owner| *owner.uid == *text("uid")) {
            None => Standing::Gone,
            Some(owner) if waits(&owner.value()) => Standing::Waiting,
            Some(_) => Standing::Solid,
        })
    };
    owner_references(&dependent.object).map(standing).collect()
}

/// Whether a reference names an object that is there, in the namespace of its dependent or in none.
fn is_exact(state: &State, reference: &Value, dependent: &Key) -> bool {
    let Some((table, key)) = state.store.locate(reference["uid"].as_str().unwrap_or_default()) else {
        return false;
    };
    let is_near = key.parts().0.is_empty() || key.parts().0 == dependent.parts().0;
    is_near && state.store.get(table, key).is_some_and(|it| names(reference, &it.value()))
}

/// An object with its path.
struct Found {
    path: String,
    resource: Arc<Resource>,
    object: Value,
}

fn read(member: &Member, (table, key): &Place) -> Option<Found> {
    let (namespace, name) = key.parts();
    let server = member.server();
    let stored = server.get(table, namespace, name)?;
    let resource = server.state().registry.stored().find(|it| it.table() == **table).cloned()?;
    let root =
        if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
    let inside = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    let path = format!("{root}/{}{inside}/{}/{name}", resource.version, resource.plural);
    Some(Found { path, resource, object: stored.value() })
}

/// Whether a patch made a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patched {
    Changed,
    Same,
}

impl Found {
    fn uid(&self) -> &str {
        meta_str(&self.object, "uid")
    }

    /// Writes one member of the metadata. An object that is gone by now needs none.
    fn patch(&self, member: &Member, field: &str, value: Value) -> Patched {
        let path = format!("{}?fieldManager={MANAGER}", self.path);
        let written = member.server().write(Method::PATCH, &path, &json!({"metadata": {field: value}}));
        let version = |it: &Value| meta_str(it, "resourceVersion").to_owned();
        match written {
            Ok(object) if version(&object) != version(&self.object) => Patched::Changed,
            _ => Patched::Same,
        }
    }

    fn take_off(&self, member: &Member, finalizer: &str) {
        let rest: Vec<&str> = finalizers(&self.object).filter(|it| *it != finalizer).collect();
        self.patch(member, "finalizers", json!(rest));
    }
}
