//! Changing objects: what every PUT, patch and subresource write goes through.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Call, create};
use crate::server::{
    Answer, TrackUpdates,
    admission::Operation,
    apply::{self, Managers, Writer},
    object::{Stored, at, copy, finalizers, has, is_deleting, meta_str, remove, set},
    registry::{Resource, established},
    rules, schema,
    status::{Failure, FieldError},
};

/// Through which door a write comes: it decides what the write may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server) enum Endpoint {
    /// The object itself: all but its status.
    Main,
    /// Its status.
    Status,
    /// Anything the caller prepared, such as a resize or a binding.
    Prepared,
}

pub(super) fn put(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let object = call.body()?;
    call.check_fields(&object)?;
    check_name(call, &object)?;
    let Some(existing) = call.state.store.get(&call.table(), &call.key()).cloned() else {
        if !call.resource.traits.create_on_update {
            return Err(Failure::not_found(&call.resource, &call.request.path.name));
        }
        let object = create::create_object(call, object, None)?;
        return Ok(call.respond(201, object));
    };
    let object = update_object(call, &existing, object, Endpoint::Main, None)?;
    Ok(call.respond(200, object))
}

/// The name in the body must be the one in the path.
pub(in crate::server) fn check_name(call: &Call<'_>, object: &Value) -> Result<(), Failure> {
    let wanted = &call.request.path.name;
    let found = meta_str(object, "name");
    if found != wanted {
        let message = if found.is_empty() {
            "name must be provided".to_owned()
        } else {
            format!("the name of the object ({found}) does not match the name on the URL ({wanted})")
        };
        return Err(Failure::bad_request(message));
    }
    Ok(())
}

/// Replaces an object, and returns it as it is kept then. `managers` comes with an apply.
pub(in crate::server) fn update_object(
    call: &mut Call<'_>,
    existing: &Arc<Stored>,
    mut object: Value,
    endpoint: Endpoint,
    managers: Option<Managers>,
) -> Result<Value, Failure> {
    let resource = call.resource.clone();
    let old = call.state.in_version(&resource, existing)?;
    let name = existing.name.to_string();
    check_identity(call, &old, &object)?;

    rules::drop_repeated_owners(&mut object);
    fill(call, &mut object);
    // Fields are tracked as the client sent them, with defaults: before this door's limits and before any admission.
    let mut tracked = object.clone();
    keep_system_fields(&mut tracked, &old);
    hide_closed_parts(&resource, &mut tracked, &old, endpoint);
    if call.request.path.subresource == "scale" {
        forget_zero(&resource, &mut tracked);
    }
    limit(call, &mut object, &old, endpoint);
    let review = call.review(Operation::Update, &name, &Value::Null, &old);
    let mut object = call.mutate(object, &review)?;
    fill(call, &mut object);
    limit(call, &mut object, &old, endpoint);
    keep_system_fields(&mut object, &old);

    let mut errors = rules_broken(call, &object, &old, endpoint);
    if let Some(schema) = &resource.schema {
        errors.extend(schema::validate(schema, &object));
        resource.promises.check(schema, &object, Some(&old), &mut errors);
    }
    if !errors.is_empty() {
        return Err(Failure::invalid(&resource.kind, &resource.group, &name, errors));
    }
    let review = call.review(Operation::Update, &name, &object, &old);
    call.validate(&review)?;

    count_generation(call, &mut object, &old);
    write_managers(call, &mut object, &tracked, &old, endpoint, managers);
    if resource.plural == "customresourcedefinitions" && endpoint == Endpoint::Main {
        established(&mut object, &call.now);
    }
    if is_same(&object, &old) {
        return Ok(old);
    }
    if call.request.query.dry_run {
        return Ok(object);
    }
    commit(call, existing, object)
}

fn commit(call: &mut Call<'_>, existing: &Arc<Stored>, object: Value) -> Result<Value, Failure> {
    let resource = call.resource.clone();
    if resource.plural == "customresourcedefinitions" {
        call.state.registry.define(&object);
    }
    let last_finalizer_gone = is_deleting(&object)
        && finalizers(&object).next().is_none()
        && at(&object, &["metadata", "deletionGracePeriodSeconds"]).as_i64().unwrap_or(0) == 0
        && !(resource.is_core("namespaces") && has_items(at(&object, &["spec", "finalizers"])));
    if last_finalizer_gone {
        call.state.store.delete(&resource.table(), &existing.key(), call.at);
        return Ok(object);
    }
    call.state.keep(&resource, object, call.at)
}

fn has_items(value: &Value) -> bool {
    value.as_array().is_some_and(|it| !it.is_empty())
}

/// Whether a write leaves an object as it is. When managers last changed something does not count, unless their entries, which are
/// ordered by that, come in another order.
fn is_same(object: &Value, old: &Value) -> bool {
    same_but(object, old, "metadata", |new, old| {
        same_but(new, old, "managedFields", |new, old| {
            let (Some(new), Some(old)) = (new.as_array(), old.as_array()) else { return new == old };
            let same = |(new, old): (&Value, &Value)| same_but(new, old, "time", |_, _| true);
            new.len() == old.len() && new.iter().zip(old).all(same)
        })
    })
}

/// Whether two objects have the same members, one of which is compared in a way of its own.
fn same_but(one: &Value, other: &Value, name: &str, same: impl Fn(&Value, &Value) -> bool) -> bool {
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return one == other };
    one.len() == other.len()
        && one.iter().all(|(key, value)| {
            other.get(key).is_some_and(|it| if key == name { same(value, it) } else { value == it })
        })
}

/// Refuses a write that is about another object, or about an older version of it.
fn check_identity(call: &Call<'_>, old: &Value, object: &Value) -> Result<(), Failure> {
    let (resource, name) = (&call.resource, &call.request.path.name);
    if let Some(uid) = object["metadata"]["uid"].as_str().filter(|it| !it.is_empty()) {
        let current = meta_str(old, "uid");
        if uid != current {
            let cause =
                format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {current}");
            return Err(Failure::conflict(resource, name, &cause));
        }
    }
    let version = meta_str(object, "resourceVersion");
    if version.is_empty() {
        if resource.traits.unconditional {
            return Ok(());
        }
        let error =
            FieldError::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
        return Err(Failure::invalid(&resource.plural, &resource.group, name, vec![error]));
    }
    if version != meta_str(old, "resourceVersion") {
        return Err(Failure::stale(resource, name));
    }
    Ok(())
}

/// Applies schema and defaults.
fn fill(call: &Call<'_>, object: &mut Value) {
    if let Some(schema) = &call.resource.schema {
        schema::prune(schema, object);
        schema::fill_defaults(schema, object);
    }
    rules::default_always(&call.resource, object);
}

/// What a door does not open is not looked at for ownership either; metadata always is.
fn hide_closed_parts(resource: &Resource, tracked: &mut Value, old: &Value, endpoint: Endpoint) {
    match endpoint {
        Endpoint::Main if resource.traits.status => copy(old, tracked, &["status"]),
        Endpoint::Status => {
            let (status, metadata) = (tracked["status"].take(), tracked["metadata"].take());
            *tracked = old.clone();
            tracked["metadata"] = metadata;
            if status.is_null() {
                remove(tracked, &["status"]);
            } else {
                tracked["status"] = status;
            }
        }
        Endpoint::Main | Endpoint::Prepared => {}
    }
}

/// Tracking starts with a create or an apply. What has no record gets none by an update; for a Scale, which shows one
/// field, that field counts alone.
fn is_untracked(call: &Call<'_>, before: &Managers) -> bool {
    match &call.resource.scale {
        Some(paths) if call.request.path.subresource == "scale" => {
            let path: Vec<&str> = paths.spec.iter().map(String::as_str).collect();
            !before.has_owner(&path)
        }
        _ => before.is_empty(),
    }
}

/// A Scale leaves a count of zero out: scaling to zero takes the field away from its owners, unless it was zero before.
fn forget_zero(resource: &Resource, tracked: &mut Value) {
    let Some(paths) = &resource.scale else { return };
    let path: Vec<&str> = paths.spec.iter().map(String::as_str).collect();
    if *at(tracked, &path) == 0 {
        remove(tracked, &path);
    }
}

/// Puts back what this door does not open.
fn limit(call: &Call<'_>, object: &mut Value, old: &Value, endpoint: Endpoint) {
    let resource = &call.resource;
    match endpoint {
        Endpoint::Main => rules::keep_from_old(resource, object, old),
        Endpoint::Status => {
            let status = object["status"].take();
            let metadata = object["metadata"].take();
            *object = old.clone();
            if status.is_null() {
                remove(object, &["status"]);
            } else {
                object["status"] = status;
            }
            // Pods and nodes let their labels and annotations through this door; custom kinds do not.
            if !resource.traits.custom {
                for field in ["labels", "annotations"] {
                    copy(&json!({"metadata": metadata}), object, &["metadata", field]);
                }
            }
        }
        Endpoint::Prepared => {}
    }
}

/// An update can never change what the server wrote.
fn keep_system_fields(object: &mut Value, old: &Value) {
    const KEPT: [&str; 8] = [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
    ];
    for field in KEPT {
        copy(old, object, &["metadata", field]);
    }
    for field in ["labels", "annotations"] {
        if at(object, &["metadata", field]).as_object().is_some_and(serde_json::Map::is_empty) {
            remove(object, &["metadata", field]);
        }
    }
    for field in ["finalizers", "ownerReferences"] {
        if at(object, &["metadata", field]).as_array().is_some_and(Vec::is_empty) {
            remove(object, &["metadata", field]);
        }
    }
}

fn rules_broken(call: &Call<'_>, object: &Value, old: &Value, endpoint: Endpoint) -> Vec<FieldError> {
    match endpoint {
        Endpoint::Main => rules::validate_change(&call.resource, object, old),
        Endpoint::Status | Endpoint::Prepared => Vec::new(),
    }
}

/// The generation counts changes of what people want, not of what is.
fn count_generation(call: &Call<'_>, object: &mut Value, old: &Value) {
    let resource = &call.resource;
    if !resource.traits.generation {
        return;
    }
    let counts = |name: &str| name != "metadata" && !(resource.traits.status && name == "status");
    let (new, before) = (wanted(object, counts), wanted(old, counts));
    let changed = !new.eq(before);
    let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
    if changed || has(old, &["metadata", "generation"]) {
        set(object, &["metadata", "generation"], json!(generation + i64::from(changed)));
    }
}

/// The members of an object that count, in order.
fn wanted(object: &Value, counts: impl Fn(&str) -> bool) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten().filter(move |(name, _)| counts(name))
}

/// The managers that an update goes on from. A client may change them: one empty entry clears the list, and an empty or
/// absent list leaves it as it is, so that clients which do not know of it do not clear it.
fn managers_before(object: &Value, old: &Value, endpoint: Endpoint) -> Managers {
    let sent = at(object, &["metadata", "managedFields"]).as_array().map_or(&[][..], Vec::as_slice);
    match sent {
        [] => Managers::read(old),
        // A subresource has no say in it.
        _ if endpoint != Endpoint::Main => Managers::read(old),
        [only] if only.as_object().is_some_and(serde_json::Map::is_empty) => Managers::default(),
        _ => Managers::read(object),
    }
}

fn write_managers(
    call: &Call<'_>,
    object: &mut Value,
    tracked: &Value,
    old: &Value,
    endpoint: Endpoint,
    managers: Option<Managers>,
) {
    let before = managers_before(object, old, endpoint);
    remove(object, &["metadata", "managedFields"]);
    let managers = match managers {
        Some(managers) => managers,
        None if is_untracked(call, &before) => before.clone(),
        None if call.state.settings.track_updates == TrackUpdates::OnAppliedObjects
            && !before.has_appliers() =>
        {
            before.clone()
        }
        None => {
            let writer: Writer = call.writer(apply::Operation::Update);
            let shape = Call::shape(&call.resource);
            let mut old = apply::bare(old);
            if writer.subresource == "scale" {
                forget_zero(&call.resource, &mut old);
            }
            let mut managers = apply::track(shape, &old, &apply::bare(tracked), &before, &writer, &call.now);
            if endpoint == Endpoint::Main && call.resource.traits.status {
                managers.forget(&writer, &["status"]);
            }
            if let Some(paths) = call.resource.scale.as_ref().filter(|_| writer.subresource == "scale") {
                let path: Vec<&str> = paths.spec.iter().map(String::as_str).collect();
                managers.pass_through_scale(&path);
            }
            managers
        }
    };
    if !managers.is_empty() {
        set(object, &["metadata", "managedFields"], managers.write());
    }
}
