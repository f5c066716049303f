//! ContainerRecreateRequest between v1alpha1 and v1beta1: two parts of the status are annotations in v1alpha1.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{conditions, keys, v1alpha1, v1beta1};
use crate::api::convert::{Facet, Path, Shape, Version, decodes_as};

/// How ContainerRecreateRequests are converted.
pub(crate) const SHAPE: Shape = Shape {
    to_beta,
    to_alpha,
    facets,
    decodes: decodes_as::<v1alpha1::ContainerRecreateRequest, v1beta1::ContainerRecreateRequest>,
};

fn to_beta(object: &mut Value) {
    let snapshot = take_annotation(object, keys::SYNC_CONTAINER_STATUSES)
        .and_then(|it| serde_json::from_str::<Vec<v1beta1::ContainerStatusSnapshot>>(&it).ok());
    if let Some(snapshot) = snapshot {
        let snapshot = serde_json::to_value(snapshot).unwrap_or_default();
        Path::fields("status.containerStatusSnapshot").set(object, Some(snapshot));
    }
    let since = take_annotation(object, keys::UNREADY_ACQUIRED).and_then(|it| it.parse::<Timestamp>().ok());
    if let Some(since) = since {
        let condition = json!([{
            "type": conditions::PRE_RECREATE_GRACE,
            "status": "True",
            "lastTransitionTime": in_seconds(since),
            "reason": conditions::PRE_RECREATE_GRACE,
            "message": conditions::PRE_RECREATE_GRACE_MESSAGE,
        }]);
        Path::fields("status.conditions").set(object, Some(condition));
    }
}

fn to_alpha(object: &mut Value) {
    let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) else { return };
    let snapshot = take::<Vec<v1beta1::ContainerStatusSnapshot>>(status, "containerStatusSnapshot")
        .and_then(|it| serde_json::to_string(&it).ok());
    let since = status.remove("conditions").as_ref().and_then(grace_since);
    for (key, text) in [(keys::SYNC_CONTAINER_STATUSES, snapshot), (keys::UNREADY_ACQUIRED, since)] {
        if let Some(text) = text {
            Path::annotation(key).set(object, Some(text.into()));
        }
    }
}

fn take<T: serde::de::DeserializeOwned>(fields: &mut Map<String, Value>, name: &str) -> Option<T> {
    serde_json::from_value(fields.remove(name)?).ok()
}

fn take_annotation(object: &mut Value, key: &str) -> Option<String> {
    let path = Path::annotation(key);
    let text = path.get(object).and_then(Value::as_str).map(str::to_owned);
    path.set(object, None);
    text
}

fn grace_since(list: &Value) -> Option<String> {
    let condition = list.as_array()?.iter().find(|it| {
        it.get("type").and_then(Value::as_str) == Some(conditions::PRE_RECREATE_GRACE)
            && it.get("status").and_then(Value::as_str) == Some("True")
    })?;
    Some(in_seconds(condition.get("lastTransitionTime")?.as_str()?.parse().ok()?))
}

fn in_seconds(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn facets(version: Version, _: &Value) -> Vec<Facet> {
    let status = Path::fields("status");
    let parts = [
        (keys::SYNC_CONTAINER_STATUSES, status.clone().field("containerStatusSnapshot")),
        (keys::UNREADY_ACQUIRED, status.clone().field("conditions")),
    ];
    let mut facets = Vec::new();
    for (key, part) in parts {
        let annotation = Path::annotation(key);
        match version {
            Version::Alpha => facets.push(Facet::new(annotation, [part])),
            Version::Beta => {
                facets.push(Facet::new(part, [annotation.clone()]));
                // A v1beta1 object that carries the annotation nevertheless keeps it.
                facets.push(Facet::new(annotation.clone(), [annotation]));
            }
        }
    }
    facets.push(Facet::new(status.clone(), [status]));
    facets
}
