//! Eviction: a delete that disruption budgets may refuse.

use http::Method;
use serde_json::{Value, json};

use crate::server::{
    Answer,
    object::Stored,
    status::Failure,
    verbs::{Call, DeleteOptions, delete_object},
};

pub(super) fn evict(call: &mut Call<'_>) -> Result<Answer, Failure> {
    if call.request.method != Method::POST {
        return Err(Failure::method_not_allowed());
    }
    let eviction: Value = serde_json::from_slice(&call.request.body)
        .map_err(|error| Failure::bad_request(error.to_string()))?;
    let options: DeleteOptions = match &eviction["deleteOptions"] {
        Value::Null => DeleteOptions::default(),
        given => {
            serde_json::from_value(given.clone()).map_err(|error| Failure::bad_request(error.to_string()))?
        }
    };
    let existing = call.existing()?;
    let pod = existing.value();
    let running = !matches!(pod["status"]["phase"].as_str(), Some("Pending" | "Succeeded" | "Failed"));
    if running && pod["metadata"]["deletionTimestamp"].is_null() {
        check_budgets(call, &existing, &pod)?;
    }
    if !call.request.query.dry_run {
        delete_object(call, &existing, &options)?;
    }
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Answer::json(201, &status))
}

fn check_budgets(call: &Call<'_>, existing: &Stored, pod: &Value) -> Result<(), Failure> {
    let store = &call.state.store;
    let Some(budgets) = store.table("poddisruptionbudgets.policy") else { return Ok(()) };
    let mut covering =
        budgets.range(&existing.namespace, None).map(|it| it.value()).filter(|it| selects(it, pod));
    let Some(budget) = covering.next() else { return Ok(()) };
    if covering.next().is_some() {
        let cause = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
        return Err(Failure::internal(cause));
    }
    let pods: Vec<Value> = store
        .table("pods")
        .into_iter()
        .flat_map(|it| it.range(&existing.namespace, None))
        .map(|it| it.value())
        .filter(|it| selects(&budget, it))
        .collect();
    let healthy = pods.iter().filter(|it| is_healthy(it)).count() as i64;
    let expected = pods.len() as i64;
    let needed = match (&budget["spec"]["minAvailable"], &budget["spec"]["maxUnavailable"]) {
        (Value::Null, Value::Null) => 0,
        (Value::Null, most) => expected - scaled(most, expected),
        (least, _) => scaled(least, expected),
    };
    // A pod that is not healthy takes nothing from the budget when the budget holds without it.
    if healthy - i64::from(is_healthy(pod)) >= needed {
        return Ok(());
    }
    let name = budget["metadata"]["name"].as_str().unwrap_or_default();
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let cause =
        format!("The disruption budget {name} needs {needed} healthy pods and has {healthy} currently");
    let details = json!({"causes": [{"reason": "DisruptionBudget", "message": cause}]});
    Err(Failure { details, ..Failure::plain(429, "TooManyRequests", message) })
}

fn scaled(value: &Value, total: i64) -> i64 {
    match value {
        Value::String(text) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            (total * percent + 99) / 100
        }
        other => other.as_i64().unwrap_or(0),
    }
}

fn selects(budget: &Value, pod: &Value) -> bool {
    let selector = &budget["spec"]["selector"];
    let labels = &pod["metadata"]["labels"];
    let equal =
        selector["matchLabels"].as_object().into_iter().flatten().all(|(key, value)| labels[key] == *value);
    let expressions = selector["matchExpressions"].as_array().into_iter().flatten();
    equal
        && selector.is_object()
        && expressions.into_iter().all(|it| {
            let value = &labels[it["key"].as_str().unwrap_or_default()];
            let listed = it["values"].as_array().is_some_and(|values| values.contains(value));
            match it["operator"].as_str() {
                Some("In") => listed,
                Some("NotIn") => !listed,
                Some("Exists") => !value.is_null(),
                Some("DoesNotExist") => value.is_null(),
                _ => false,
            }
        })
}

fn is_healthy(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
}
