//! CloneSets: replicas, partition and budgets are divided.

use kruise_core::{
    api::{
        APPS_GROUP,
        cloneset::keys,
        fleet::{CloneSetSlice, Slice},
    },
    runtime::webhook::FieldError,
};
use scheduling::numbers::{self, IntOrPercent, Rounding};
use serde_json::{Value, json};

use super::{Division, Granted, Kind, PodNumbers, number, texts, totals::Totals, whole_number};

/// CloneSets.
#[derive(Debug, Clone, Copy, Default)]
pub struct CloneSets;

const ROLLING: &str = "/spec/updateStrategy/rollingUpdate";

impl Kind for CloneSets {
    fn name(&self) -> (&str, &str) {
        (APPS_GROUP, "CloneSet")
    }

    fn division(&self, object: &Value) -> Result<Division, FieldError> {
        let partition = number(object, &format!("{ROLLING}/partition"))?;
        if let Some(partition) = partition
            && numbers::check_partition("partition", partition).is_err()
        {
            let value = object.pointer(&format!("{ROLLING}/partition")).cloned().unwrap_or_default();
            let path = "spec.updateStrategy.rollingUpdate.partition";
            return Err(FieldError::invalid(path, value, "must not be above 100%"));
        }
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let replicas = whole_number(object, "/spec/replicas")?.unwrap_or(1);
        Ok(Division::Pods(PodNumbers {
            replicas,
            partition,
            unavailable: number(object, &format!("{ROLLING}/maxUnavailable"))?,
            surge: number(object, &format!("{ROLLING}/maxSurge"))?,
            scale_unavailable: number(object, "/spec/scaleStrategy/maxUnavailable")?,
            paused: object.pointer(&format!("{ROLLING}/paused")).and_then(Value::as_bool).unwrap_or(false),
            in_place_only: text(&format!("{ROLLING}/podUpdatePolicy")) == "InPlaceOnly",
            stateful: object
                .pointer("/spec/volumeClaimTemplates")
                .and_then(Value::as_array)
                .is_some_and(|it| !it.is_empty()),
            pods_to_delete: texts(object, "/spec/scaleStrategy/podsToDelete"),
            pre_download: pre_download(object, replicas)?,
        }))
    }

    fn revision_source(&self, object: &Value) -> Value {
        let part = |pointer| object.pointer(pointer).filter(|it| !it.is_null()).cloned().unwrap_or_default();
        json!({
            "template": part("/spec/template"),
            "volumeClaimTemplates": part("/spec/volumeClaimTemplates"),
        })
    }

    fn divided_fields(&self) -> &'static [&'static str] {
        &[
            "/spec/replicas",
            "/spec/scaleStrategy/podsToDelete",
            "/spec/scaleStrategy/maxUnavailable",
            "/spec/updateStrategy/rollingUpdate/partition",
            "/spec/updateStrategy/rollingUpdate/maxUnavailable",
            "/spec/updateStrategy/rollingUpdate/maxSurge",
            "/spec/updateStrategy/rollingUpdate/paused",
        ]
    }

    fn slice(&self, granted: &Granted<'_>) -> Slice {
        let share = granted.share;
        Slice::CloneSet(CloneSetSlice {
            replicas: share.replicas,
            updated: share.updated,
            max_unavailable: share.unavailable,
            max_surge: share.surge,
            scale_max_unavailable: share.scale_unavailable,
            paused: share.paused,
            pods_to_delete: granted.pods_to_delete.to_vec(),
        })
    }

    fn status(&self, object: &Value, totals: &Totals) -> Value {
        let selector = object.pointer("/spec/selector").map(selector_text).unwrap_or_default();
        let mut status = json!({
            "replicas": totals.replicas,
            "readyReplicas": totals.ready,
            "availableReplicas": totals.available,
            "updatedReplicas": totals.updated,
            "updatedReadyReplicas": totals.updated_ready,
            "updatedAvailableReplicas": totals.updated_available,
            "expectedUpdatedReplicas": totals.expected_updated,
            "updateRevision": totals.target,
            "currentRevision": totals.stable,
            "labelSelector": selector,
        });
        // Only a generation that every cluster has acknowledged counts as observed (ST-2).
        if let Some(generation) = totals.observed_generation {
            status["observedGeneration"] = generation.into();
        }
        status
    }
}

/// A selector as text, in the form that autoscalers read.
fn selector_text(selector: &Value) -> String {
    let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flatten();
    let mut parts: Vec<String> =
        labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    let rules = selector.get("matchExpressions").and_then(Value::as_array).into_iter().flatten();
    parts.extend(rules.map(|rule| {
        let key = rule["key"].as_str().unwrap_or_default();
        let mut values = texts(rule, "/values");
        values.sort_unstable();
        let values = values.join(",");
        match rule["operator"].as_str().unwrap_or_default() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        }
    }));
    parts.sort_unstable();
    parts.join(",")
}

/// How many new pods must be ready over the fleet before images are downloaded ahead; nothing if that is not asked for. A
/// percentage of the replicas has no field and stays in the annotation (G-09).
fn pre_download(object: &Value, replicas: u32) -> Result<Option<u32>, FieldError> {
    let strategy = format!("{ROLLING}/inPlaceUpdateStrategy");
    if let Some(count) = whole_number(object, &format!("{strategy}/imagePreDownloadMinUpdatedReadyPods"))? {
        return Ok(Some(count));
    }
    let annotation = object["metadata"]["annotations"][keys::PREDOWNLOAD_MIN_UPDATED_READY_PODS].as_str();
    // What cannot be read is 0, as in one cluster.
    let share = annotation.map(|it| {
        let count = IntOrPercent::parse("", it).map_or(0, |it| it.resolve(replicas.into(), Rounding::Up));
        u32::try_from(count).unwrap_or(u32::MAX)
    });
    let is_asked =
        object.pointer(&format!("{strategy}/imagePreDownloadParallelism")).is_some_and(|it| !it.is_null());
    Ok(share.or(is_asked.then_some(0)))
}
