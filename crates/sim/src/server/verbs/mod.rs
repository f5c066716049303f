//! One file for each verb, and what they share.

mod create;
mod delete;
mod modify;
mod read;
mod update;

use std::{sync::Arc, time::Duration};

use http::Method;
use jiff::Timestamp;
use serde_json::Value;

pub(super) use delete::{DeleteOptions, delete_object};
pub(super) use modify::{patch, patched};
pub(super) use update::{Endpoint, check_name, update_object};

use super::{
    Answer, State,
    admission::{self, Operation, Review},
    apply::{self, Writer},
    fields,
    form::Form,
    object::Key,
    registry::Resource,
    request::{ApiPath, ApiRequest},
    schema::Shape,
    status::Failure,
    subresource, webhooks,
};
use crate::{
    seed::Seed,
    time::{Clock, seconds},
};

/// One request in progress.
pub(super) struct Call<'a> {
    pub(super) state: &'a mut State,
    pub(super) request: &'a ApiRequest,
    pub(super) resource: Arc<Resource>,
    /// The cluster's clock, as `metav1.Time`.
    pub(super) now: String,
    /// Time since the world began.
    pub(super) at: Duration,
    pub(super) seed: Seed,
}

/// Answers a request.
pub(super) fn dispatch(
    state: &mut State,
    request: &ApiRequest,
    clock: &Clock,
    seed: Seed,
) -> Result<Answer, Failure> {
    let path = &request.path;
    if let Some(answer) = may_do_everything(request) {
        return answer;
    }
    let resource =
        state.registry.find(&path.group, &path.version, &path.plural).ok_or_else(Failure::unknown_path)?;
    let collection = path.name.is_empty();
    let misplaced = if resource.namespaced { path.namespace.is_empty() } else { !path.namespace.is_empty() };
    if misplaced && !(collection && resource.namespaced && request.method == Method::GET) {
        return Err(if collection && resource.namespaced {
            Failure::method_not_allowed()
        } else {
            Failure::unknown_path()
        });
    }

    let mut call = Call { state, request, resource, now: seconds(clock.now()), at: clock.elapsed(), seed };
    if !path.subresource.is_empty() {
        return subresource::dispatch(&mut call);
    }
    match (&request.method, collection) {
        (&Method::GET, true) if request.query.watch => read::watch(&mut call),
        (&Method::GET, true) => read::list(&mut call),
        (&Method::GET, false) if request.query.watch => read::watch(&mut call),
        (&Method::GET, false) => read::get(&mut call),
        (&Method::POST, true) => create::create(&mut call),
        (&Method::PUT, false) => update::put(&mut call),
        (&Method::PATCH, false) => modify::patch(&mut call, Endpoint::Main),
        (&Method::DELETE, false) => delete::delete(&mut call),
        (&Method::DELETE, true) => delete::delete_collection(&mut call),
        _ => Err(Failure::method_not_allowed()),
    }
}

/// A question about somebody's rights. There is no authorization here: whoever is let in may do everything.
fn may_do_everything(request: &ApiRequest) -> Option<Result<Answer, Failure>> {
    let ApiPath { group, version, namespace, plural, name, subresource } = &request.path;
    let kind = (group.as_str(), version.as_str(), plural.as_str());
    if kind != ("authorization.k8s.io", "v1", "subjectaccessreviews")
        || [namespace, name, subresource].iter().any(|it| !it.is_empty())
    {
        return None;
    }
    if request.method != Method::POST {
        return Some(Err(Failure::method_not_allowed()));
    }
    let review = serde_json::from_slice::<Value>(&request.body).ok().filter(Value::is_object);
    Some(match review {
        Some(mut review) => {
            review["status"] = serde_json::json!({"allowed": true});
            Ok(Answer::json(201, &review))
        }
        None => Err(Failure::bad_request("the body of the request is no object")),
    })
}

impl Call<'_> {
    /// The table the request is about.
    pub(super) fn table(&self) -> String {
        self.resource.table()
    }

    /// The key the path names.
    pub(super) fn key(&self) -> Key {
        Key::new(&self.request.path.namespace, &self.request.path.name)
    }

    /// The object the path names.
    pub(super) fn existing(&self) -> Result<Arc<super::object::Stored>, Failure> {
        let found = self.state.store.get(&self.table(), &self.key()).cloned();
        found.ok_or_else(|| Failure::not_found(&self.resource, &self.request.path.name))
    }

    /// The body as an object of the path's kind.
    pub(super) fn body(&self) -> Result<Value, Failure> {
        if self.request.content_type == "application/vnd.kubernetes.protobuf" {
            let message = "simulated clusters read JSON and no protobuf; kubectl sends JSON when a manifest goes \
                           through it: kubectl create ... --dry-run=client -o json | kubectl apply -f -";
            return Err(Failure::plain(415, "UnsupportedMediaType", message));
        }
        let unreadable = |cause: String| {
            let (kind, version) = (&self.resource.kind, &self.resource.version);
            let message = format!("{kind} in version {version:?} cannot be handled as a {kind}: {cause}");
            Failure::bad_request(message)
        };
        let object: Value =
            serde_json::from_slice(&self.request.body).map_err(|error| unreadable(error.to_string()))?;
        if !object.is_object() {
            return Err(Failure::bad_request("the body of the request is no object"));
        }
        fields::decode(&self.resource, &object).map_err(unreadable)?;
        self.check_kind(object)
    }

    /// Refuses an object that says it is of another kind, and fills in what it leaves out.
    pub(super) fn check_kind(&self, mut object: Value) -> Result<Value, Failure> {
        let (api_version, kind) = (self.resource.api_version(), &self.resource.kind);
        for (member, wanted) in [("kind", kind), ("apiVersion", &api_version)] {
            match object[member].as_str() {
                None | Some("") => object[member] = wanted.clone().into(),
                Some(found) if found == wanted => {}
                Some(_) => {
                    let message = format!(
                        "the API version in the data ({}) does not match the expected API version ({api_version})",
                        object["apiVersion"].as_str().unwrap_or_default()
                    );
                    return Err(Failure::bad_request(message));
                }
            }
        }
        Ok(object)
    }

    /// Refuses fields that the kind does not have, where the client wants that.
    pub(super) fn check_fields(&self, object: &Value) -> Result<(), Failure> {
        if self.request.query.strict { fields::check(&self.resource, object) } else { Ok(()) }
    }

    /// How the kind's fields merge.
    pub(super) fn shape<'b>(resource: &'b Resource) -> Shape<'b> {
        match (&resource.schema, resource.traits.custom) {
            (Some(schema), _) => Shape::root(Some(schema)),
            (None, true) => Shape::Untyped,
            (None, false) => Shape::root(None),
        }
    }

    /// Who writes, for `managedFields`.
    pub(super) fn writer(&self, operation: apply::Operation) -> Writer {
        Writer {
            name: self.request.manager().to_owned(),
            operation,
            api_version: self.resource.api_version(),
            subresource: self.request.path.subresource.clone(),
        }
    }

    /// The review of a write.
    pub(super) fn review<'b>(
        &'b self,
        operation: Operation,
        name: &'b str,
        object: &'b Value,
        old: &'b Value,
    ) -> Review<'b> {
        Review {
            operation,
            resource: &self.resource,
            subresource: &self.request.path.subresource,
            namespace: &self.request.path.namespace,
            name,
            object,
            old,
            manager: self.request.manager(),
            dry_run: self.request.query.dry_run,
        }
    }

    /// Has whoever may change the object do so.
    pub(super) fn mutate(&self, object: Value, review: &Review<'_>) -> Result<Value, Failure> {
        let object = admission::mutate(&self.state.hooks, object, review)?;
        match &self.request.hearing {
            Some(hearing) => webhooks::mutate(self.state, hearing, object, review),
            None => Ok(object),
        }
    }

    /// Has whoever may refuse the write judge it.
    pub(super) fn validate(&self, review: &Review<'_>) -> Result<(), Failure> {
        admission::validate(&self.state.hooks, review)?;
        self.request.hearing.as_ref().map_or(Ok(()), |it| webhooks::validate(self.state, it, review))
    }

    /// Answers with an object, in the form that was asked for.
    pub(super) fn respond(&self, code: u16, object: Value) -> Answer {
        let form = Form::of(self.request);
        let object =
            if form == Form::Whole { object } else { form.write(&self.resource, object, self.time()) };
        Answer::Object { code, object }
    }

    /// The cluster's clock, to the second.
    pub(super) fn time(&self) -> Timestamp {
        self.now.parse().expect("it was written from a time")
    }
}
