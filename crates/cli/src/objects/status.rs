//! `status`: how an object stands in each cluster, as the hub last wrote it down.

use ::hub::names;
use jiff::Timestamp;
use kruise_core::{
    api::fleet::{
        Slice,
        binding::{ClusterRow, FleetBinding, FleetBindingStatus},
        keys::conditions as types,
    },
    runtime::client::call,
};
use serde_json::json;

use super::{Named, read};
use crate::{
    Answer, Error,
    connection::Hub,
    table::{age, or_dash, table},
};

/// `status KIND/NAME`
pub async fn status(hub: &Hub, named: &Named) -> Result<Answer, Error> {
    let Named { kind, name } = named;
    let missing = || Error::NotFound(format!("there is no {} {name} in {}", kind.kind, hub.namespace));
    let object = read::object(hub, kind, &hub.namespace, name).await?.ok_or_else(missing)?;
    let uid = object.pointer("/metadata/uid").and_then(|it| it.as_str()).unwrap_or_default();
    let (place, binding) = names::binding(&kind.reference(&hub.namespace, name, uid));
    let binding = call("get the binding", hub.within::<FleetBinding>(&place).get_opt(&binding)).await?;
    let Some(binding) = binding.filter(|it| it.spec.object.uid == uid) else {
        let text = format!("{} {name} is not placed; `kubectl fleet explain` says why", kind.kind);
        return Ok(Answer::done(text, json!({ "placed": false })));
    };
    let value = json!({ "placed": true, "object": binding.spec.object, "status": binding.status });
    Ok(Answer::done(shown(&binding, hub.clock.now()), value))
}

/// A line of sums, one of what matters, and a row for each cluster.
pub fn shown(binding: &FleetBinding, now: Timestamp) -> String {
    let status = binding.status.clone().unwrap_or_default();
    let object = &binding.spec.object;
    let place = object.namespace.as_ref().map_or_else(String::new, |it| format!("{it}/"));
    let mut text = format!("{} {place}{}", object.kind, object.name);
    if let Some(policy) = &binding.spec.policy {
        text = format!("{text}, by {}/{}", policy.kind, policy.name);
    }
    text = format!(
        "{text}\ndesired {}, ready {}, updated {}, unknown {}, unavailable {}\n{}\n\n",
        status.desired,
        status.ready,
        status.updated,
        status.unknown_replicas,
        or_dash(&status.budget),
        summary(&status),
    );
    let rows: Vec<Vec<String>> = status.clusters.iter().map(|it| row(it, now)).collect();
    text + &table(&["CLUSTER", "STATE", "R", "U", "READY", "UPDATED", "ACKED", "AGE", "WHY"], &rows)
}

/// What matters most; of an object that goes, also who is waited for (DEL-2).
fn summary(status: &FleetBindingStatus) -> String {
    let ending =
        status.conditions.iter().find(|it| it.type_ == types::APPLIED && it.reason == status.summary);
    match ending.filter(|it| matches!(it.reason.as_str(), "Deleting" | "Withdrawing")) {
        Some(it) => format!("{}: {}", it.reason, it.message),
        None => or_dash(&status.summary),
    }
}

fn row(it: &ClusterRow, now: Timestamp) -> Vec<String> {
    let (replicas, updated) = match &it.slice {
        Some(Slice::CloneSet(slice)) => (slice.replicas.to_string(), slice.updated.to_string()),
        Some(Slice::ImagePullJob(slice)) => (slice.parallelism.to_string(), "-".to_owned()),
        _ => ("-".to_owned(), "-".to_owned()),
    };
    vec![
        it.cluster.clone(),
        it.state.map_or_else(|| "-".to_owned(), |it| format!("{it:?}")),
        replicas,
        updated,
        it.counts.ready.to_string(),
        it.counts.updated.to_string(),
        format!("{}/{}", it.applied_seq, it.seq),
        age(it.reported_at.as_ref().map(|it| it.0), now),
        or_dash(&it.reason),
    ]
}
