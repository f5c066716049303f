//! PATCH: four formats, one way in.

use serde_json::Value;

use super::{Call, create, update};
use crate::server::{
    Answer,
    apply::{self, Conflicts, Managers},
    fields,
    object::{Stored, has, meta_str, set},
    patch,
    registry::Resource,
    schema,
    status::{Failure, FieldError},
};

use super::update::{Endpoint, update_object};

pub(in crate::server) fn patch(call: &mut Call<'_>, endpoint: Endpoint) -> Result<Answer, Failure> {
    let existing = call.state.store.get(&call.table(), &call.key()).cloned();
    let media = call.request.content_type.as_str();
    if media == "application/apply-patch+yaml" || media == "application/apply-patch+json" {
        return server_side_apply(call, existing, endpoint);
    }
    let strategic = media == "application/strategic-merge-patch+json" && !call.resource.traits.custom;
    if !strategic && !matches!(media, "application/json-patch+json" | "application/merge-patch+json") {
        return Err(unsupported(call, media));
    }
    let existing = existing.ok_or_else(|| Failure::not_found(&call.resource, &call.request.path.name))?;
    let old = call.state.in_version(&call.resource, &existing)?;
    let object = patched(call, &old)?;
    check_patched(call, &object)?;
    call.check_fields(&object)?;
    let object = update_object(call, &existing, object, endpoint, None)?;
    Ok(call.respond(200, object))
}

/// The object with the patch applied; the patch may name a resourceVersion to be compared.
pub(in crate::server) fn patched(call: &Call<'_>, old: &Value) -> Result<Value, Failure> {
    let body = &call.request.body;
    let parse = || -> Result<Value, Failure> {
        serde_json::from_slice(body)
            .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))
    };
    let mut object = old.clone();
    match call.request.content_type.as_str() {
        "application/json-patch+json" => patch::json(&mut object, body)?,
        "application/merge-patch+json" => {
            let change = parse()?;
            if change.is_null() {
                return Err(Failure::bad_request("Invalid JSON Patch"));
            }
            must_be_object(&change)
                .map_err(|it| Failure::bad_request(format!("error decoding patch: {it}")))?;
            patch::merge(&mut object, &change);
        }
        "application/strategic-merge-patch+json" if !call.resource.traits.custom => {
            let change = parse()?;
            must_be_object(&change).map_err(Failure::bad_request)?;
            if change.is_object() {
                patch::strategic(&mut object, &change);
            }
        }
        other => return Err(unsupported(call, other)),
    }
    must_be_object(&object).and_then(|()| fields::decode(&call.resource, &object)).map_err(|cause| {
        let error = FieldError::invalid("patch", &object.to_string().into(), &cause);
        Failure::invalid("", "", "", vec![error])
    })?;
    Ok(object)
}

/// What a decoder of objects says about anything else; null is no object with members, but may be read as one.
fn must_be_object(value: &Value) -> Result<(), String> {
    if value.is_object() || value.is_null() {
        return Ok(());
    }
    let found = fields::sort(value);
    Err(format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"))
}

fn check_patched(call: &Call<'_>, object: &Value) -> Result<(), Failure> {
    call.check_kind(object.clone())?;
    update::check_name(call, object)
}

fn unsupported(call: &Call<'_>, found: &str) -> Failure {
    let mut known = vec!["application/json-patch+json", "application/merge-patch+json"];
    if !call.resource.traits.custom {
        known.push("application/strategic-merge-patch+json");
    }
    known.push("application/apply-patch+yaml");
    let message = format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        known.join(", ")
    );
    tracing::debug!(found, "refused a patch format");
    Failure::plain(415, "UnsupportedMediaType", message)
}

/// What is applied must be in the schema, as nothing is pruned here, and name each item of a list once.
fn check_typed(call: &Call<'_>, applied: &Value) -> Result<(), Failure> {
    let undeclared = call.resource.schema.iter().flat_map(|it| schema::undeclared(it, applied));
    let mut texts: Vec<String> = undeclared.map(|it| format!("{it}: field not declared in schema")).collect();
    texts.extend(apply::repeated(Call::shape(&call.resource), applied));
    if texts.is_empty() {
        return Ok(());
    }
    texts.sort();
    let texts = match texts.as_slice() {
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    let (namespace, name) = (meta_str(applied, "namespace"), meta_str(applied, "name"));
    let Resource { group, version, kind, .. } = &*call.resource;
    let message = format!(
        "failed to create typed patch object ({namespace}/{name}; {group}/{version}, Kind={kind}): {texts}"
    );
    Err(Failure::plain(500, "", message))
}

fn server_side_apply(
    call: &mut Call<'_>,
    existing: Option<std::sync::Arc<Stored>>,
    endpoint: Endpoint,
) -> Result<Answer, Failure> {
    if call.request.query.field_manager.is_none() {
        let error = FieldError::required("fieldManager", "is required for apply patch");
        return Err(Failure::invalid("PatchOptions", "meta.k8s.io", "", vec![error]));
    }
    let mut applied = call.body()?;
    if has(&applied, &["metadata", "managedFields"]) {
        return Err(Failure::bad_request("metadata.managedFields must be nil"));
    }
    if meta_str(&applied, "name").is_empty() {
        set(&mut applied, &["metadata", "name"], call.request.path.name.clone().into());
    }
    update::check_name(call, &applied)?;
    check_typed(call, &applied)?;
    call.check_fields(&applied)?;
    let writer = call.writer(apply::Operation::Apply);
    let resource = call.resource.clone();
    let shape = Call::shape(&resource);
    let now = call.now.clone();
    let how = Conflicts { now: &now, force: call.request.query.force };

    let Some(existing) = existing else {
        if endpoint != Endpoint::Main {
            return Err(Failure::not_found(&resource, &call.request.path.name));
        }
        if !meta_str(&applied, "uid").is_empty() {
            let cause = "uid mismatch: the provided object specified uid, and no existing object was found";
            return Err(Failure::conflict(&resource, &call.request.path.name, cause));
        }
        let empty = serde_json::json!({});
        let (object, mut managers) =
            apply::apply(shape, &empty, &applied, &Managers::default(), &writer, how)?;
        if resource.traits.status {
            managers.forget(&writer, &["status"]);
        }
        let object = create::create_object(call, object, Some(managers))?;
        return Ok(call.respond(201, object));
    };

    let old = call.state.in_version(&resource, &existing)?;
    let managers = Managers::read(&old);
    let live = apply::bare(&old);
    if endpoint == Endpoint::Main && resource.traits.status {
        crate::server::object::remove(&mut applied, &["status"]);
    }
    let (mut object, managers) = apply::apply(shape, &live, &applied, &managers, &writer, how)?;
    if !has(&applied, &["metadata", "resourceVersion"]) {
        set(&mut object, &["metadata", "resourceVersion"], old["metadata"]["resourceVersion"].clone());
    }
    let object = update_object(call, &existing, object, endpoint, Some(managers))?;
    Ok(call.respond(200, object))
}
