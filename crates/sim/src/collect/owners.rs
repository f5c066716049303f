//! Owner references: dependents go with their owners, in the background, in the foreground, or not at all.

use std::{sync::Arc, time::Duration};

use http::Method;
use serde_json::{Value, json};

use crate::{
    server::{
        object::{Key, Stored, finalizers, is_deleting, owner_references},
        store::{Change, Happened},
    },
    world::{Member, Shared},
};

/// How long the collector takes to notice.
const NOTICE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

pub(super) fn react(world: &Arc<Shared>, member: &Arc<Member>, change: &Change) {
    let object = &change.object;
    let delay = member.server().seed().of("collector").at(object.version).between(NOTICE.0, NOTICE.1);
    if change.happened == Happened::Deleted {
        let uid = object.uid.clone();
        let dependents = member.server().state().store.dependents(&uid);
        if !dependents.is_empty() {
            world.later(member, delay, move |_, member| {
                for (table, key) in dependents {
                    collect(member, &table, &key);
                }
            });
        }
        // An owner that waits for its dependents may be free now.
        for owner in change.object.owners.iter() {
            let located = member.server().state().store.locate(owner).cloned();
            if let Some((table, key)) = located {
                world.later(member, delay, move |_, member| finish(member, &table, &key));
            }
        }
        return;
    }
    let (table, key) = (change.table.clone(), object.key());
    if !object.owners.is_empty() && orphaned(member, object) {
        let (table, key) = (table.clone(), key.clone());
        world.later(member, delay, move |_, member| collect(member, &table, &key));
    }
    let waits = memmem(&object.body, b"\"foregroundDeletion\"") || memmem(&object.body, b"\"orphan\"");
    if waits && is_deleting(&object.value()) {
        world.later(member, delay, move |_, member| finish(member, &table, &key));
    }
}

fn memmem(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|it| it == word)
}

/// Whether one of the owners is gone.
fn orphaned(member: &Member, object: &Stored) -> bool {
    let state = member.server().state();
    object.owners.iter().any(|uid| state.store.locate(uid).is_none())
}

/// Deletes a dependent whose owners are all gone; lets one with other owners forget the gone ones.
fn collect(member: &Arc<Member>, table: &str, key: &Key) {
    let Some((path, object)) = read(member, table, key) else { return };
    let server = member.server();
    let (mut alive, mut waiting, mut gone) = (Vec::new(), Vec::new(), 0);
    for owner in owner_references(&object) {
        let uid = owner["uid"].as_str().unwrap_or_default();
        let located = server.state().store.locate(uid).cloned();
        let located = located.filter(|(_, owner)| {
            let namespace = owner.parts().0;
            namespace.is_empty() || namespace == key.parts().0
        });
        match located.and_then(|(table, key)| server.get(&table, key.parts().0, key.parts().1)) {
            Some(stored) if deletes_in_foreground(&stored.value()) => waiting.push(owner.clone()),
            Some(_) => alive.push(owner.clone()),
            None => gone += 1,
        }
    }
    if gone == 0 && waiting.is_empty() {
        return;
    }
    if alive.is_empty() {
        let policy = if waiting.is_empty() { "Background" } else { "Foreground" };
        let body = json!({"propagationPolicy": policy, "preconditions": {"uid": object["metadata"]["uid"]}});
        if !is_deleting(&object) {
            // A dependent that is gone by now is what was wanted.
            let _ = server.write(Method::DELETE, &path, &body);
        }
        return;
    }
    let _ = server.write(Method::PATCH, &path, &json!({"metadata": {"ownerReferences": alive}}));
}

fn deletes_in_foreground(owner: &Value) -> bool {
    is_deleting(owner) && finalizers(owner).any(|it| it == "foregroundDeletion")
}

/// Takes off the collector's own finalizers when what they stand for is done.
fn finish(member: &Arc<Member>, table: &str, key: &Key) {
    let Some((path, object)) = read(member, table, key) else { return };
    if !is_deleting(&object) {
        return;
    }
    let server = member.server();
    let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let dependents = server.state().store.dependents(&uid);
    let done = if finalizers(&object).any(|it| it == "orphan") {
        for (table, key) in dependents {
            forget_owner(member, &table, &key, &uid);
        }
        "orphan"
    } else if finalizers(&object).any(|it| it == "foregroundDeletion") {
        let mut blocking = false;
        for (table, key) in dependents {
            collect(member, &table, &key);
            blocking |= read(member, &table, &key).is_some_and(|(_, it)| blocks(&it, &uid));
        }
        if blocking {
            return;
        }
        "foregroundDeletion"
    } else {
        return;
    };
    let rest: Vec<&str> = finalizers(&object).filter(|it| *it != done).collect();
    let _ = server.write(Method::PATCH, &path, &json!({"metadata": {"finalizers": rest}}));
}

fn blocks(dependent: &Value, uid: &str) -> bool {
    owner_references(dependent).any(|it| it["uid"] == uid && it["blockOwnerDeletion"] == true)
}

fn forget_owner(member: &Arc<Member>, table: &str, key: &Key, uid: &str) {
    let Some((path, object)) = read(member, table, key) else { return };
    let rest: Vec<&Value> = owner_references(&object).filter(|it| it["uid"] != uid).collect();
    let _ = member.server().write(Method::PATCH, &path, &json!({"metadata": {"ownerReferences": rest}}));
}

/// An object and its path.
fn read(member: &Member, table: &str, key: &Key) -> Option<(String, Value)> {
    let (namespace, name) = key.parts();
    let server = member.server();
    let stored = server.get(table, namespace, name)?;
    let state = server.state();
    let resource = state.registry.stored().find(|it| it.table() == table)?;
    let root =
        if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
    let place = if namespace.is_empty() { String::new() } else { format!("/namespaces/{namespace}") };
    let path = format!("{root}/{}{place}/{}/{name}", resource.version, resource.plural);
    Some((path, stored.value()))
}
