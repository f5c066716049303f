//! Creating objects.

use serde_json::{Value, json};

use super::Call;
use crate::server::{
    Answer, TrackUpdates,
    admission::Operation,
    apply::{self, Managers},
    object::{Key, has, is_deleting, meta_str, remove, set},
    registry::established,
    rules, schema,
    status::Failure,
};

pub(super) fn create(call: &mut Call<'_>) -> Result<Answer, Failure> {
    let object = call.body()?;
    if !meta_str(&object, "resourceVersion").is_empty() {
        return Err(Failure::plain(500, "", "resourceVersion should not be set on objects to be created"));
    }
    call.check_fields(&object)?;
    let object = create_object(call, object, None)?;
    Ok(call.respond(201, object))
}

/// Creates an object, and returns it as it is kept. `managers` comes with an apply.
pub(super) fn create_object(
    call: &mut Call<'_>,
    mut object: Value,
    managers: Option<Managers>,
) -> Result<Value, Failure> {
    let resource = call.resource.clone();
    place(call, &mut object)?;
    check_namespace(call, meta_str(&object, "name"))?;
    rules::drop_repeated_owners(&mut object);

    if let Some(schema) = &resource.schema {
        schema::prune(schema, &mut object);
        schema::fill_defaults(schema, &mut object);
    }
    rules::default_always(&resource, &mut object);
    // Fields are tracked as the client sent them, with defaults, before any admission.
    let tracked = object.clone();
    rules::default_new(&resource, &mut object);

    let name = meta_str(&object, "name").to_owned();
    let review = call.review(Operation::Create, &name, &Value::Null, &Value::Null);
    let mut object = call.mutate(object, &review)?;
    rules::default_always(&resource, &mut object);
    if let Some(schema) = &resource.schema {
        schema::prune(schema, &mut object);
        schema::fill_defaults(schema, &mut object);
    }

    let errors = {
        let mut errors = rules::validate_new(&resource, &object);
        if let Some(schema) = &resource.schema {
            errors.extend(schema::validate(schema, &object));
            resource.promises.check(schema, &object, None, &mut errors);
        }
        errors
    };
    if !errors.is_empty() {
        return Err(Failure::invalid(&resource.kind, &resource.group, &name, errors));
    }
    let review = call.review(Operation::Create, &name, &object, &Value::Null);
    call.validate(&review)?;

    write_managers(call, &mut object, &tracked, managers);
    stamp(call, &mut object);
    let key = Key::new(meta_str(&object, "namespace"), &name);
    if let Some(taken) = call.state.store.get(&call.table(), &key) {
        let mut failure = Failure::already_exists(&resource, &name);
        if is_deleting(&taken.value()) {
            failure.message = format!("object is being deleted: {}", failure.message);
        }
        return Err(failure);
    }
    if call.request.query.dry_run {
        return Ok(object);
    }
    if resource.plural == "customresourcedefinitions" {
        established(&mut object, &call.now);
        call.state.registry.define(&object);
    }
    call.state.keep(&resource, object, call.at)
}

/// Gives the object its namespace and name.
fn place(call: &Call<'_>, object: &mut Value) -> Result<(), Failure> {
    let namespace = &call.request.path.namespace;
    match meta_str(object, "namespace") {
        "" => {}
        found if found == namespace => {}
        _ => {
            let message =
                "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Failure::bad_request(message));
        }
    }
    if call.resource.namespaced {
        set(object, &["metadata", "namespace"], json!(namespace));
    } else {
        remove(object, &["metadata", "namespace"]);
    }
    let prefix = meta_str(object, "generateName");
    if meta_str(object, "name").is_empty() && !prefix.is_empty() {
        let prefix: String = prefix.chars().take(58).collect();
        let seed = call.seed.of("generate-name").of(&prefix).at(call.state.store.version());
        set(object, &["metadata", "name"], json!(format!("{prefix}{}", seed.suffix(5))));
    }
    Ok(())
}

/// Nothing is created in a namespace that is missing or on its way out.
fn check_namespace(call: &Call<'_>, name: &str) -> Result<(), Failure> {
    if !call.resource.namespaced {
        return Ok(());
    }
    let namespace = &call.request.path.namespace;
    let Some(found) = call.state.store.get("namespaces", &Key::new("", namespace)) else {
        let namespaces = call.state.registry.find("", "v1", "namespaces");
        return Err(namespaces.map_or_else(Failure::unknown_path, |it| Failure::not_found(&it, namespace)));
    };
    if !has(&found.value(), &["metadata", "deletionTimestamp"]) {
        return Ok(());
    }
    let cause =
        format!("unable to create new content in namespace {namespace} because it is being terminated");
    let mut failure = Failure::forbidden(&call.resource, name, &cause);
    failure.details["causes"] = json!([{
        "reason": "NamespaceTerminating",
        "message": format!("namespace {namespace} is being terminated"),
        "field": "metadata.namespace",
    }]);
    Err(failure)
}

fn write_managers(call: &Call<'_>, object: &mut Value, tracked: &Value, managers: Option<Managers>) {
    remove(object, &["metadata", "managedFields"]);
    let none = Managers::default();
    let managers = match managers {
        Some(managers) => managers,
        None if call.state.settings.track_updates == TrackUpdates::OnAppliedObjects => return,
        None => {
            let writer = call.writer(apply::Operation::Update);
            let shape = Call::shape(&call.resource);
            let before = empty_of(call.resource.traits.custom);
            let mut managers = apply::track(shape, &before, &apply::bare(tracked), &none, &writer, &call.now);
            if call.resource.traits.status {
                managers.forget(&writer, &["status"]);
            }
            managers
        }
    };
    if !managers.is_empty() {
        set(object, &["metadata", "managedFields"], managers.write());
    }
}

/// What a new object is compared with. Built-in kinds have members that are there even when empty, so that adding
/// to them does not count as adding them.
fn empty_of(custom: bool) -> Value {
    if custom {
        return json!({"metadata": {}});
    }
    json!({
        "metadata": {},
        "spec": {"containers": null, "template": {"metadata": {}, "spec": {"containers": null}}, "strategy": {},
                 "updateStrategy": {}},
        "status": {},
    })
}

/// Writes what only the server may write.
fn stamp(call: &Call<'_>, object: &mut Value) {
    let seed = call.seed.of("uid").at(call.state.store.version());
    set(object, &["metadata", "uid"], json!(seed.uuid()));
    set(object, &["metadata", "creationTimestamp"], json!(call.now));
    for field in
        ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation", "resourceVersion"]
    {
        remove(object, &["metadata", field]);
    }
    if call.resource.traits.generation {
        set(object, &["metadata", "generation"], json!(1));
    }
}
