//! The scale subresource of every kind that has one.

use http::Method;
use serde_json::{Value, json};

use crate::server::{
    Answer,
    object::{at, set},
    patch,
    registry::ScalePaths,
    status::Failure,
    verbs::{Call, Endpoint, update_object},
};

pub(super) fn scale(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let resource = call.resource.clone();
    let Some(paths) = resource.scale.as_ref() else { return Err(Failure::unknown_path()) };
    let existing = call.existing()?;
    let mut object = call.state.in_version(&resource, &existing)?;
    let current = scale_of(&object, paths);
    let wanted = match call.request.method {
        Method::GET => return Ok(Answer::json(200, &current)),
        Method::PUT => serde_json::from_slice(&call.request.body)
            .map_err(|error| Failure::bad_request(error.to_string()))?,
        Method::PATCH => patched_scale(call, current.clone())?,
        _ => return Err(Failure::method_not_allowed()),
    };
    let replicas = wanted["spec"]["replicas"].as_i64().unwrap_or(0);
    if replicas < 0 {
        let error = crate::server::status::FieldError::invalid(
            "spec.replicas",
            &json!(replicas),
            "must be greater than or equal to 0",
        );
        return Err(Failure::invalid("Scale", "autoscaling", &existing.name, vec![error]));
    }
    if let Some(version) = wanted["metadata"]["resourceVersion"].as_str().filter(|it| !it.is_empty())
        && version != existing.version.to_string()
    {
        return Err(Failure::stale(&resource, &existing.name));
    }
    let path: Vec<&str> = paths.spec.iter().map(String::as_str).collect();
    set(&mut object, &path, json!(replicas));
    let object = update_object(call, &existing, object, Endpoint::Prepared, None)?;
    Ok(Answer::json(200, &scale_of(&object, paths)))
}

fn patched_scale(call: &Call<'_>, mut scale: Value) -> Result<Value, Failure> {
    let body = &call.request.body;
    if call.request.content_type == "application/json-patch+json" {
        patch::json(&mut scale, body)?;
        return Ok(scale);
    }
    let change: Value =
        serde_json::from_slice(body).map_err(|error| Failure::bad_request(error.to_string()))?;
    patch::merge(&mut scale, &change);
    Ok(scale)
}

fn scale_of(object: &Value, paths: &ScalePaths) -> Value {
    let read = |path: &[String]| {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        at(object, &path).clone()
    };
    let number = |path: &[String]| read(path).as_i64().unwrap_or(0);
    let metadata = &object["metadata"];
    let mut status = json!({"replicas": number(&paths.status)});
    let selector = paths.selector.as_deref().map(read).unwrap_or_default();
    match &selector {
        Value::String(text) if !text.is_empty() => status["selector"] = json!(text),
        Value::Object(_) => status["selector"] = json!(selector_text(&selector)),
        _ => {}
    }
    let mut spec = json!({});
    if number(&paths.spec) != 0 {
        spec["replicas"] = json!(number(&paths.spec));
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "creationTimestamp": metadata["creationTimestamp"],
        },
        "spec": spec,
        "status": status,
    })
}

fn selector_text(selector: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut parts: Vec<String> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        parts.push(format!("{key}={}", text(value)));
    }
    for expression in selector["matchExpressions"].as_array().into_iter().flatten() {
        let values: Vec<String> = expression["values"].as_array().into_iter().flatten().map(&text).collect();
        let (key, values) = (text(&expression["key"]), values.join(","));
        parts.push(match expression["operator"].as_str() {
            Some("In") => format!("{key} in ({values})"),
            Some("NotIn") => format!("{key} notin ({values})"),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key,
        });
    }
    parts.join(",")
}
