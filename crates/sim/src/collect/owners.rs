//! The garbage collector: dependents go with their owners, in the background, in the foreground, or not at all.
//!
//! It follows kube-controller-manager's `garbagecollector`: the same reasons to look at an object, and the same decisions. Where that
//! one keeps a graph, this one reads the store.

use std::{sync::Arc, time::Duration};

use http::Method;
use serde_json::{Value, json};

use super::verdict::{
    Dependents, FOREGROUND, ORPHAN, Standing, Verdict, blocks, judge, names, starts, unblocked, unblocking,
    waits,
};
use crate::{
    server::{
        State,
        object::{Key, finalizers, is_deleting, meta_str, owner_references},
        registry::Resource,
        store::{Change, Happened},
    },
    world::{Member, Shared},
};

/// How long the collector takes to notice.
const NOTICE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// The name under which its changes are recorded in `managedFields`.
const MANAGER: &str = "kube-controller-manager";

/// Where an object is: its table and its key.
type Place = (Arc<str>, Key);

/// What the collector looks at.
enum Look {
    /// An object that may have to go.
    Attempt(Place),
    /// An owner whose dependents are to forget it.
    Orphan(Place),
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
    world.later(member, delay, move |_, member| {
        for look in looks {
            match look {
                Look::Attempt(place) => attempt(member, &place),
                Look::Orphan(place) => orphan(member, &place),
            }
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
    let state = member.server().state();
    let owners = change.object.owners.iter().filter_map(|it| state.store.locate(it).cloned());
    let dependents = state.store.dependents(&change.object.uid);
    dependents.into_iter().chain(owners).map(Look::Attempt).collect()
}

fn after_write(member: &Member, change: &Change) -> Vec<Look> {
    let (old, new) = (change.previous.as_ref().map(|it| it.value()), change.object.value());
    let place = (change.table.clone(), change.object.key());
    let state = member.server().state();
    let mut looks = Vec::new();

    // A reference to nobody is found when it is made.
    let is_new = |it: &Value| !old.iter().flat_map(owner_references).any(|old| old["uid"] == it["uid"]);
    if owner_references(&new).any(|it| is_new(it) && !is_exact(&state, it, &place.1)) {
        looks.push(Look::Attempt(place.clone()));
    }
    let unblocked = old.iter().flat_map(|old| unblocked(old, &new));
    looks.extend(unblocked.filter_map(|it| state.store.locate(&it).cloned()).map(Look::Attempt));
    if starts(old.as_ref(), &new, ORPHAN) {
        looks.push(Look::Orphan(place));
    } else if starts(old.as_ref(), &new, FOREGROUND) {
        let dependents = state.store.dependents(&change.object.uid);
        looks.extend(dependents.into_iter().chain([place]).map(Look::Attempt));
    }
    looks
}

/// Deletes an object if it has to go, lets it forget owners, or ends its own wait for its dependents.
fn attempt(member: &Arc<Member>, place: &Place) {
    let Some(found) = read(member, place) else { return };
    if waits(&found.object) {
        return end_wait(member, &found);
    }
    if is_deleting(&found.object) {
        return;
    }
    let Some(standings) = standings(member, &found.object, &place.1) else { return };
    let body = match judge(&found.object, &standings, dependents_of(member, &found)) {
        Verdict::Stays => return,
        Verdict::Keeps(owners) => return found.patch(member, "ownerReferences", json!(owners)),
        Verdict::Goes { policy, unblock } => {
            if unblock {
                let owners = unblocking(&found.object, found.resource.traits.custom);
                found.patch(member, "ownerReferences", json!(owners));
            }
            json!({"propagationPolicy": policy, "preconditions": {"uid": found.uid()}})
        }
    };
    // An object that is gone by now is what was wanted.
    let _ = member.server().write(Method::DELETE, &found.path, &body);
}

/// An owner goes when nobody holds it up any more. Until then those who do are looked at.
fn end_wait(member: &Arc<Member>, owner: &Found) {
    let dependents = member.server().state().store.dependents(owner.uid());
    let mut is_held = false;
    for place in dependents {
        let Some(dependent) = read(member, &place).filter(|it| blocks(&it.object, owner.uid())) else {
            continue;
        };
        is_held = true;
        if !waits(&dependent.object) {
            attempt(member, &place);
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
    let is_waiting = |it: &Place| read(member, it).is_some_and(|it| waits(&it.object));
    match dependents.is_empty() {
        true => Dependents::None,
        false if dependents.iter().any(is_waiting) => Dependents::SomeWaiting,
        false => Dependents::Some,
    }
}

/// How the owners of an object stand. An owner of a kind that nobody knows may be anywhere: then nothing is decided.
fn standings(member: &Member, object: &Value, key: &Key) -> Option<Vec<Standing>> {
    let state = member.server().state();
    let standing = |it: &Value| {
        let text = |name: &str| it[name].as_str().unwrap_or_default();
        let resource = state.registry.by_kind(text("apiVersion"), text("kind"))?;
        let namespace = if resource.namespaced { key.parts().0 } else { "" };
        let owner = state.store.get(&resource.table(), &Key::new(namespace, text("name")));
        Some(match owner.filter(|owner| *owner.uid == *text("uid")) {
            None => Standing::Gone,
            Some(owner) if waits(&owner.value()) => Standing::Waiting,
            Some(_) => Standing::Solid,
        })
    };
    owner_references(object).map(standing).collect()
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

impl Found {
    fn uid(&self) -> &str {
        meta_str(&self.object, "uid")
    }

    /// Writes one member of the metadata. An object that is gone by now needs none.
    fn patch(&self, member: &Member, field: &str, value: Value) {
        let path = format!("{}?fieldManager={MANAGER}", self.path);
        let _ = member.server().write(Method::PATCH, &path, &json!({"metadata": {field: value}}));
    }

    fn take_off(&self, member: &Member, finalizer: &str) {
        let rest: Vec<&str> = finalizers(&self.object).filter(|it| *it != finalizer).collect();
        self.patch(member, "finalizers", json!(rest));
    }
}
