//! Deleting objects: at once, after a grace period, or when the last finalizer is gone.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Call;
use crate::{
    server::{
        Answer,
        admission::Operation,
        object::{Stored, at, finalizers, has, is_deleting, meta_str, remove, set, set_finalizers},
        registry::Resource,
        selector::Filter,
        status::{Failure, FieldError},
    },
    time::seconds,
};

/// What a delete may ask for.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::server) struct DeleteOptions {
    pub(in crate::server) grace_period_seconds: Option<i64>,
    pub(in crate::server) preconditions: Preconditions,
    pub(in crate::server) propagation_policy: Option<String>,
    orphan_dependents: Option<bool>,
    dry_run: Vec<String>,
}

/// What must hold for a delete to happen.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(in crate::server) struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

pub(super) fn delete(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let options = read_options(call)?;
    let existing = call.existing()?;
    let (object, gone) = delete_object(call, &existing, &options)?;
    // Only those who ask in the old way are told that it takes time.
    let code = if !gone && options.orphan_dependents == Some(false) { 202 } else { 200 };
    if gone && !call.resource.traits.returns_deleted {
        let mut details = call.resource.details(&existing.name);
        details["uid"] = json!(*existing.uid);
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
        });
        return Ok(Answer::json(code, &status));
    }
    Ok(call.respond(code, object))
}

pub(super) fn delete_collection(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let options = read_options(call)?;
    let query = &call.request.query;
    let filter = Filter::parse(query.label_selector.as_deref(), query.field_selector.as_deref())?;
    let filter = filter.on_kept(&call.resource);
    let table = call.table();
    let chosen: Vec<Arc<Stored>> = call
        .state
        .store
        .table(&table)
        .map(|it| {
            it.range(&call.request.path.namespace, None).filter(|it| filter.accepts(it)).cloned().collect()
        })
        .unwrap_or_default();
    let mut items = Vec::with_capacity(chosen.len());
    for existing in chosen {
        // The answer lists what was found, as it was found.
        let mut item = call.state.in_version(&call.resource, &existing)?;
        delete_object(call, &existing, &options)?;
        if !call.resource.traits.custom {
            // Items of built-in lists do not repeat their kind.
            remove(&mut item, &["apiVersion"]);
            remove(&mut item, &["kind"]);
        }
        items.push(item);
    }
    let mut metadata = json!({"resourceVersion": call.state.store.version().to_string()});
    if call.resource.traits.custom {
        metadata["continue"] = json!("");
    }
    let list = json!({
        "kind": format!("{}List", call.resource.kind),
        "apiVersion": call.resource.api_version(),
        "metadata": metadata,
        "items": items,
    });
    Ok(Answer::json(200, &list))
}

fn read_options(call: &Call<'_>) -> Result<DeleteOptions, Failure> {
    let (body, query) = (&call.request.body, &call.request.query);
    // What the query says counts only where there is no body.
    let options = if body.is_empty() {
        DeleteOptions {
            grace_period_seconds: query.grace_period_seconds,
            propagation_policy: query.propagation_policy.clone(),
            dry_run: if query.dry_run { vec!["All".to_owned()] } else { Vec::new() },
            ..DeleteOptions::default()
        }
    } else {
        serde_json::from_slice(body).map_err(|error| Failure::bad_request(error.to_string()))?
    };
    let errors = options_broken(&options);
    if errors.is_empty() {
        Ok(options)
    } else {
        Err(Failure::invalid("DeleteOptions", "meta.k8s.io", "", errors))
    }
}

fn options_broken(options: &DeleteOptions) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(policy) = options.propagation_policy.as_deref() else { return errors };
    if options.orphan_dependents.is_some() {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid("propagationPolicy", &json!(policy), detail));
    }
    let known = ["Foreground", "Background", "Orphan"];
    if !known.contains(&policy) {
        let known: Vec<String> = known.iter().chain(&["nil"]).map(|it| (*it).to_owned()).collect();
        errors.push(FieldError::unsupported("propagationPolicy", &json!(policy), &known));
    }
    errors
}

/// Deletes an object or starts its deletion; says how it is then, and whether it is gone.
pub(in crate::server) fn delete_object(
    call: &mut Call<'_>,
    existing: &Arc<Stored>,
    options: &DeleteOptions,
) -> Result<(Value, bool), Failure> {
    let resource = call.resource.clone();
    let mut object = call.state.in_version(&resource, existing)?;
    check_preconditions(call, &object, &options.preconditions)?;
    let review = call.review(Operation::Delete, &existing.name, &Value::Null, &object);
    call.validate(&review)?;

    let before = object.clone();
    let grace = match mark_graceful(call, &mut object, options) {
        Grace::Pending => return Ok((object, false)),
        Grace::Seconds(seconds) => Some(seconds),
        Grace::None => None,
    };
    set_propagation_finalizers(&mut object, options);
    let held = finalizers(&object).next().is_some()
        || resource.is_core("namespaces") && has(&object, &["spec", "finalizers"]);
    if grace.is_none() && held {
        mark_deleting(call, &mut object);
    }
    let dry_run = !options.dry_run.is_empty();
    let lost_last_finalizer = grace.is_none() && !held && finalizers(&before).next().is_some();
    match options.preconditions.resource_version {
        // The real server answers with an object that it never filled.
        _ if lost_last_finalizer && dry_run => return Ok((unfilled(&resource), false)),
        Some(_) if lost_last_finalizer => return Err(lost_version(call, &before)),
        _ => {}
    }
    let waits = held || grace.is_some_and(|it| it > 0);
    if dry_run {
        return Ok((object, !waits));
    }
    let table = resource.table();
    if waits {
        if object == before {
            return Ok((object, false));
        }
        return Ok((call.state.keep(&resource, object, call.at)?, false));
    }
    if grace.is_some() && object != before {
        // A pod is first marked and then taken out: watches see both.
        call.state.keep(&resource, object, call.at)?;
    }
    let gone = call.state.store.delete(&table, &existing.key(), call.at);
    let object = gone.map_or(Ok(before), |it| call.state.in_version(&resource, &it))?;
    if resource.plural == "customresourcedefinitions" {
        drop_definition(call, &object);
    }
    Ok((object, true))
}

fn check_preconditions(call: &Call<'_>, object: &Value, wanted: &Preconditions) -> Result<(), Failure> {
    let Preconditions { uid, resource_version } = wanted;
    let refuse = |cause: String| {
        let resource = &call.resource;
        let shown = Resource { plural: resource.kind.clone(), ..(**resource).clone() };
        Err(Failure::conflict(&shown, meta_str(object, "name"), &cause))
    };
    let current = meta_str(object, "uid");
    if let Some(uid) = uid.as_deref().filter(|it| *it != current) {
        return refuse(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({current}). The object might have \
             been deleted and then recreated"
        ));
    }
    let current = meta_str(object, "resourceVersion");
    if let Some(version) = resource_version.as_deref().filter(|it| *it != current) {
        return refuse(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record \
             ({current}). The object might have been modified"
        ));
    }
    Ok(())
}

/// An object of a kind with nothing in it but what is never left out.
fn unfilled(resource: &Resource) -> Value {
    let mut object = json!({"apiVersion": resource.api_version(), "kind": resource.kind});
    if !resource.traits.custom {
        object["metadata"] = json!({});
    }
    if resource.qualified() == "leases.coordination.k8s.io" {
        object["spec"] = json!({});
    }
    object
}

/// A delete whose policy takes the last finalizer off is done in two steps, and the real server compares the version in the second one
/// with nothing: it refuses, whatever version was asked for.
fn lost_version(call: &Call<'_>, object: &Value) -> Failure {
    let Resource { group, plural, traits, .. } = &*call.resource;
    let group = if traits.custom { format!("{group}/") } else { String::new() };
    let [namespace, name, version] = ["namespace", "name", "resourceVersion"].map(|it| meta_str(object, it));
    let place = if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") };
    let cause = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{group}{plural}/{place}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: ResourceVersion in precondition: , ResourceVersion in object meta: \
         {version}"
    );
    Failure::conflict(&call.resource, name, &cause)
}

enum Grace {
    /// The kind has none, or it is over.
    None,
    /// Already being deleted, and nothing changes.
    Pending,
    /// The object was marked, with so many seconds to go.
    Seconds(i64),
}

/// Only pods are given time. A second delete may only shorten it.
fn mark_graceful(call: &Call<'_>, object: &mut Value, options: &DeleteOptions) -> Grace {
    if !call.resource.is_core("pods") {
        return Grace::None;
    }
    let asked = options.grace_period_seconds.map(|it| if it < 0 { 1 } else { it });
    let Ok(now) = call.now.parse::<Timestamp>() else { return Grace::None };
    if is_deleting(object) {
        let current = at(object, &["metadata", "deletionGracePeriodSeconds"]).as_i64().unwrap_or(0);
        let Some(period) = asked else { return if current == 0 { Grace::None } else { Grace::Pending } };
        if current == 0 {
            return Grace::None;
        }
        if period >= current {
            return Grace::Pending;
        }
        let due = meta_str(object, "deletionTimestamp").parse::<Timestamp>().unwrap_or(now);
        let asked_at = due.checked_sub(SignedDuration::from_secs(current)).unwrap_or(now);
        let moved = later(asked_at, period);
        let (due, period) = if moved < now { (now, period.min(1)) } else { (moved, period) };
        set(object, &["metadata", "deletionTimestamp"], json!(seconds(due)));
        set(object, &["metadata", "deletionGracePeriodSeconds"], json!(period));
        return Grace::Seconds(period);
    }
    let default = at(object, &["spec", "terminationGracePeriodSeconds"]).as_i64().unwrap_or(0);
    let finished = matches!(at(object, &["status", "phase"]).as_str(), Some("Succeeded" | "Failed"));
    let unscheduled = at(object, &["spec", "nodeName"]).as_str().is_none_or(str::is_empty);
    let period = if finished || unscheduled { 0 } else { asked.unwrap_or(default).max(0) };
    set(object, &["metadata", "deletionTimestamp"], json!(seconds(later(now, period))));
    set(object, &["metadata", "deletionGracePeriodSeconds"], json!(period));
    count_generation(object);
    Grace::Seconds(period)
}

/// So many seconds later, or the end of time.
fn later(time: Timestamp, period: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_secs(period)).unwrap_or(Timestamp::MAX)
}

/// Foreground and orphan deletion are finalizers that the garbage collector takes off.
fn set_propagation_finalizers(object: &mut Value, options: &DeleteOptions) {
    let (orphan, foreground) = match (options.orphan_dependents, options.propagation_policy.as_deref()) {
        (Some(orphan), _) => (orphan, false),
        (None, Some("Orphan")) => (true, false),
        (None, Some("Foreground")) => (false, true),
        (None, Some(_)) => (false, false),
        (None, None) => return,
    };
    let mut names: Vec<String> = finalizers(object)
        .filter(|it| !matches!(*it, "orphan" | "foregroundDeletion"))
        .map(str::to_owned)
        .collect();
    if orphan {
        names.push("orphan".to_owned());
    }
    if foreground {
        names.push("foregroundDeletion".to_owned());
    }
    // The same ones stay in the order they have.
    let is_same = names.iter().all(|it| finalizers(object).any(|found| found == it))
        && finalizers(object).all(|it| names.iter().any(|found| found == it));
    if !is_same {
        set_finalizers(object, names);
    }
}

fn mark_deleting(call: &Call<'_>, object: &mut Value) {
    if !is_deleting(object) {
        set(object, &["metadata", "deletionTimestamp"], json!(call.now));
        count_generation(object);
    }
    if call.resource.is_core("namespaces") {
        set(object, &["status", "phase"], json!("Terminating"));
    } else {
        set(object, &["metadata", "deletionGracePeriodSeconds"], json!(0));
    }
}

fn count_generation(object: &mut Value) {
    if let Some(generation) = at(object, &["metadata", "generation"]).as_i64().filter(|it| *it > 0) {
        set(object, &["metadata", "generation"], json!(generation + 1));
    }
}

/// With its definition a kind loses its objects.
fn drop_definition(call: &mut Call<'_>, crd: &Value) {
    let Some(resource) = call.state.registry.undefine(crd) else { return };
    let table = resource.table();
    let keys: Vec<_> = call
        .state
        .store
        .table(&table)
        .map(|it| it.range("", None).map(|it| it.key()).collect())
        .unwrap_or_default();
    for key in keys {
        call.state.store.delete(&table, &key, call.at);
    }
    call.state.store.table_mut(&table).hang_up();
}
