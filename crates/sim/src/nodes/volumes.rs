//! Volume claims: they are bound a moment after they are made.

use std::sync::Arc;

use http::Method;
use serde_json::json;

use super::scheduler;
use crate::{
    server::store::{Change, Happened},
    world::{Member, Shared, lock},
};

pub(super) fn react(world: &Arc<Shared>, member: &Arc<Member>, change: &Change) {
    if change.happened != Happened::Added || lock(&member.nodes).entries.is_empty() {
        return;
    }
    let delay = lock(&member.nodes).behaviour.bind_claim;
    let (namespace, name) = (change.object.namespace.to_string(), change.object.name.to_string());
    world.later(member, delay, move |world, member| {
        let server = member.server();
        let Some(stored) = server.get("persistentvolumeclaims", &namespace, &name) else { return };
        let mut claim = stored.value();
        let path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}");
        let volume = json!({"spec": {"volumeName": format!("pvc-{}", stored.uid)}});
        let _ = server.write(Method::PATCH, &path, &volume);
        claim["status"] = json!({
            "phase": "Bound",
            "accessModes": claim["spec"]["accessModes"],
            "capacity": claim["spec"]["resources"]["requests"],
        });
        let _ = server.write(Method::PATCH, &format!("{path}/status"), &json!({"status": claim["status"]}));
        scheduler::try_waiting(world, member);
    });
}
