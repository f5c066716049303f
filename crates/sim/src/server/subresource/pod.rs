//! Binding a pod to a node, and resizing it in place.

use http::Method;
use serde_json::{Value, json};

use crate::server::{
    Answer,
    object::{at, is_deleting, set},
    status::{Failure, FieldError},
    verbs::{Call, Endpoint, patched, update_object},
};

pub(super) fn bind(call: &mut Call<'_>) -> Result<Answer, Failure> {
    if call.request.method != Method::POST {
        return Err(Failure::method_not_allowed());
    }
    let binding: Value = serde_json::from_slice(&call.request.body)
        .map_err(|error| Failure::bad_request(error.to_string()))?;
    let node = binding["target"]["name"].as_str().unwrap_or_default().to_owned();
    let existing = call.existing()?;
    let name = existing.name.to_string();
    if node.is_empty() {
        let error = FieldError::required("target.name", "");
        return Err(Failure::invalid("Binding", "", &name, vec![error]));
    }
    let mut pod = existing.value();
    if is_deleting(&pod) {
        let cause = format!("pod {name} is being deleted, cannot be assigned to a host");
        return Err(Failure::conflict(&binding_resource(call), &name, &cause));
    }
    if let Some(taken) = at(&pod, &["spec", "nodeName"]).as_str().filter(|it| !it.is_empty()) {
        let cause = format!("pod {name} is already assigned to node {taken:?}");
        return Err(Failure::conflict(&binding_resource(call), &name, &cause));
    }
    set(&mut pod, &["spec", "nodeName"], json!(node));
    let scheduled = json!({
        "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": call.now,
    });
    let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|it| it["type"] != "PodScheduled");
    conditions.push(scheduled);
    set(&mut pod, &["status", "conditions"], json!(conditions));
    update_object(call, &existing, pod, Endpoint::Prepared, None)?;
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Answer::json(201, &status))
}

fn binding_resource(call: &Call<'_>) -> crate::server::registry::Resource {
    crate::server::registry::Resource { plural: "pods/binding".to_owned(), ..(*call.resource).clone() }
}

/// Lets the resources of containers change, and nothing else.
pub(super) fn resize(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let existing = call.existing()?;
    let old = existing.value();
    let wanted = match call.request.method {
        Method::GET => return Ok(call.respond(200, old)),
        Method::PUT => call.body()?,
        Method::PATCH => patched(call, &old)?,
        _ => return Err(Failure::method_not_allowed()),
    };
    let version = at(&wanted, &["metadata", "resourceVersion"]).clone();
    let mut pod = old.clone();
    set(&mut pod, &["metadata", "resourceVersion"], version);
    let containers = pod["spec"]["containers"].as_array_mut().into_iter().flatten();
    for container in containers {
        let theirs = wanted["spec"]["containers"].as_array().into_iter().flatten();
        if let Some(theirs) = theirs.into_iter().find(|it| it["name"] == container["name"]) {
            container["resources"] = theirs["resources"].clone();
        }
    }
    if wanted["spec"] != pod["spec"] {
        let error = FieldError::forbidden("spec", "only cpu and memory resources are mutable");
        return Err(Failure::invalid("Pod", "", &existing.name, vec![error]));
    }
    let pod = update_object(call, &existing, pod, Endpoint::Prepared, None)?;
    Ok(call.respond(200, pod))
}
