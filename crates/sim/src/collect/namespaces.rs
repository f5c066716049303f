//! A namespace that is deleted takes everything in it along, and goes when it is empty.

use std::{sync::Arc, time::Duration};

use http::Method;
use serde_json::{Value, json};

use crate::{
    server::store::{Change, Happened},
    world::{Member, Shared},
};

/// How long the namespace controller takes for a pass.
const PASS: Duration = Duration::from_millis(200);

pub(super) fn react(world: &Arc<Shared>, member: &Arc<Member>, change: &Change) {
    if change.happened == Happened::Deleted || *change.table != *"namespaces" {
        return;
    }
    let was_deleting = change.previous.as_ref().is_some_and(|it| deleting(&it.value()));
    if !was_deleting && deleting(&change.object.value()) {
        let name = change.object.name.to_string();
        world.later(member, PASS, move |world, member| empty(world, member, name));
    }
}

fn deleting(namespace: &Value) -> bool {
    !namespace["metadata"]["deletionTimestamp"].is_null()
}

/// One pass: deletes what is left; comes back until nothing is.
fn empty(world: &Arc<Shared>, member: &Arc<Member>, name: String) {
    let server = member.server();
    let Some(namespace) = server.get("namespaces", "", &name) else { return };
    let mut left: Vec<String> = Vec::new();
    {
        let state = server.state();
        for resource in state.registry.stored().filter(|it| it.namespaced) {
            let Some(table) = state.store.table(&resource.table()) else { continue };
            let root = if resource.group.is_empty() {
                "/api".to_owned()
            } else {
                format!("/apis/{}", resource.group)
            };
            for object in table.range(&name, None) {
                let plural = &resource.plural;
                left.push(format!("{root}/{}/namespaces/{name}/{plural}/{}", resource.version, object.name));
            }
        }
    }
    if left.is_empty() {
        let mut object = namespace.value();
        object["spec"]["finalizers"] = json!([]);
        let _ = server.write(Method::PUT, &format!("/api/v1/namespaces/{name}/finalize"), &object);
        return;
    }
    for path in left {
        let _ = server.write(Method::DELETE, &path, &json!({"propagationPolicy": "Background"}));
    }
    world.later(member, PASS * 5, move |world, member| empty(world, member, name));
}
