//! Just enough of an API server: objects by path, resourceVersions that conflict, lists and watches.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    body::{Body, Bytes, to_bytes},
    extract::Request,
    http::{Method, StatusCode},
    response::{IntoResponse, Response},
};
use futures::stream;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::{Barrier, watch};

pub(super) const SECRETS: &str = "/api/v1/namespaces/kruise-system/secrets";
pub(super) const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
pub(super) const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
pub(super) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[derive(Clone)]
pub(super) struct FakeApi {
    state: Arc<Mutex<State>>,
    version: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    /// Every change: its version, the collection, the kind of change, the object.
    log: Vec<(u64, String, &'static str, Value)>,
    /// Writes by clients that succeeded, as method and path.
    writes: Vec<(Method, String)>,
    /// Reads of one Secret that wait for each other before they are answered.
    gate: Option<(Arc<Barrier>, usize)>,
}

impl FakeApi {
    pub(super) fn new() -> Self {
        Self { state: Arc::default(), version: watch::Sender::new(1) }
    }

    pub(super) fn client(&self) -> Client {
        let api = self.clone();
        let serve = move |request: Request| {
            let api = api.clone();
            async move { api.serve(request).await }
        };
        Client::new(Router::new().fallback(serve), "default")
    }

    pub(super) fn get(&self, collection: &str, name: &str) -> Option<Value> {
        self.state.lock().unwrap().objects.get(&format!("{collection}/{name}")).cloned()
    }

    /// Stores an object as somebody else would, whatever was there.
    pub(super) fn put(&self, collection: &str, mut object: Value) {
        let path = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap());
        let mut state = self.state.lock().unwrap();
        if let Some(old) = state.objects.get(&path) {
            object["metadata"]["generation"] = json!(generation(old, &object));
        }
        self.store(&mut state, &path, object);
    }

    pub(super) fn delete(&self, collection: &str, name: &str) {
        let mut state = self.state.lock().unwrap();
        let object = state.objects.remove(&format!("{collection}/{name}")).unwrap();
        self.announce(&mut state, collection, "DELETED", object);
    }

    pub(super) fn writes(&self) -> Vec<(Method, String)> {
        self.state.lock().unwrap().writes.clone()
    }

    /// Makes the next `count` reads of a single Secret see the same state: none is answered before all have been asked.
    pub(super) fn answer_secret_reads_together(&self, count: usize) {
        self.state.lock().unwrap().gate = Some((Arc::new(Barrier::new(count)), count));
    }

    /// Waits for a state of the objects.
    pub(super) async fn wait_until(&self, mut holds: impl FnMut(&Self) -> bool) {
        let mut version = self.version.subscribe();
        while !holds(self) {
            version.changed().await.unwrap();
        }
    }

    async fn serve(&self, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let query: BTreeMap<_, _> =
            parts.uri.query().unwrap_or_default().split('&').filter_map(|it| it.split_once('=')).collect();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let is_collection = [SECRETS, MUTATING, VALIDATING, CRDS].contains(&path.as_str());
        match (parts.method, is_collection) {
            (Method::GET, true) if query.get("watch") == Some(&"true") => self.watch(path, &query),
            (Method::GET, true) => self.list(&path, &query),
            (Method::GET, false) => self.read(&path).await,
            (Method::POST, true) => self.create(&path, &body),
            (Method::PATCH, false) => self.patch(&path, &body),
            (Method::PUT, false) => self.replace(&path, &body),
            (Method::DELETE, false) => self.remove(&path, &body),
            (method, _) => panic!("unexpected {method} {path}"),
        }
    }

    async fn read(&self, path: &str) -> Response {
        let (answer, gate) = {
            let mut state = self.state.lock().unwrap();
            let answer = match state.objects.get(path) {
                Some(object) => Json(object.clone()).into_response(),
                None => status(404, "NotFound"),
            };
            let gate = match &mut state.gate {
                Some((barrier, left)) if *left > 0 && path.starts_with(SECRETS) => {
                    *left -= 1;
                    Some(Arc::clone(barrier))
                }
                _ => None,
            };
            (answer, gate)
        };
        if let Some(gate) = gate {
            gate.wait().await;
        }
        answer
    }

    fn list(&self, collection: &str, query: &BTreeMap<&str, &str>) -> Response {
        let state = self.state.lock().unwrap();
        let items: Vec<_> = state
            .objects
            .iter()
            .filter(|(path, it)| selected(collection, path, it, query))
            .map(|(_, it)| it)
            .collect();
        let metadata = json!({ "resourceVersion": self.version.borrow().to_string() });
        Json(json!({ "apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items }))
            .into_response()
    }

    fn watch(&self, collection: String, query: &BTreeMap<&str, &str>) -> Response {
        let since: u64 = query["resourceVersion"].parse().unwrap();
        let name = query.get("fieldSelector").map(|it| it.rsplit_once("%3D").unwrap().1.to_owned());
        let api = self.clone();
        let events = stream::unfold((since, self.version.subscribe()), move |(since, mut version)| {
            let (api, collection, name) = (api.clone(), collection.clone(), name.clone());
            async move {
                loop {
                    let next = {
                        let state = api.state.lock().unwrap();
                        let fits = |object: &Value| {
                            name.as_ref().is_none_or(|it| object["metadata"]["name"] == **it)
                        };
                        state.log.iter().find(|it| it.0 > since && it.1 == collection && fits(&it.3)).cloned()
                    };
                    if let Some((at, _, kind, object)) = next {
                        let line = format!("{}\n", json!({ "type": kind, "object": object }));
                        return Some((Ok::<_, std::convert::Infallible>(Bytes::from(line)), (at, version)));
                    }
                    version.changed().await.ok()?;
                }
            }
        });
        Body::from_stream(events).into_response()
    }

    fn create(&self, collection: &str, body: &[u8]) -> Response {
        let object: Value = serde_json::from_slice(body).unwrap();
        let path = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap());
        let mut state = self.state.lock().unwrap();
        if state.objects.contains_key(&path) {
            return status(409, "AlreadyExists");
        }
        state.writes.push((Method::POST, path.clone()));
        Json(self.store(&mut state, &path, object)).into_response()
    }

    fn patch(&self, path: &str, body: &[u8]) -> Response {
        let patch: Value = serde_json::from_slice(body).unwrap();
        let mut state = self.state.lock().unwrap();
        let Some(old) = state.objects.get(path).cloned() else {
            return status(404, "NotFound");
        };
        let expected = &patch["metadata"]["resourceVersion"];
        if !expected.is_null() && *expected != old["metadata"]["resourceVersion"] {
            return status(409, "Conflict");
        }
        let mut object = old.clone();
        json_patch::merge(&mut object, &patch);
        object["metadata"]["generation"] = json!(generation(&old, &object));
        state.writes.push((Method::PATCH, path.to_owned()));
        Json(self.store(&mut state, path, object)).into_response()
    }

    fn replace(&self, path: &str, body: &[u8]) -> Response {
        let mut object: Value = serde_json::from_slice(body).unwrap();
        let mut state = self.state.lock().unwrap();
        let Some(old) = state.objects.get(path) else {
            return status(404, "NotFound");
        };
        if object["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"] {
            return status(409, "Conflict");
        }
        if old["immutable"] == true {
            return status(422, "Invalid");
        }
        object["metadata"]["generation"] = json!(generation(old, &object));
        state.writes.push((Method::PUT, path.to_owned()));
        Json(self.store(&mut state, path, object)).into_response()
    }

    fn remove(&self, path: &str, body: &[u8]) -> Response {
        let options: Value = serde_json::from_slice(body).unwrap();
        let mut state = self.state.lock().unwrap();
        let Some(old) = state.objects.get(path).cloned() else {
            return status(404, "NotFound");
        };
        let expected = &options["preconditions"]["resourceVersion"];
        if !expected.is_null() && *expected != old["metadata"]["resourceVersion"] {
            return status(409, "Conflict");
        }
        state.objects.remove(path);
        state.writes.push((Method::DELETE, path.to_owned()));
        self.announce(&mut state, path.rsplit_once('/').unwrap().0, "DELETED", old.clone());
        Json(old).into_response()
    }

    fn store(&self, state: &mut State, path: &str, mut object: Value) -> Value {
        let collection = path.rsplit_once('/').unwrap().0;
        fill_defaults(&mut object);
        let change = if state.objects.contains_key(path) { "MODIFIED" } else { "ADDED" };
        let version = *self.version.borrow() + 1;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        if object["metadata"]["generation"].is_null() {
            object["metadata"]["generation"] = json!(1);
        }
        state.objects.insert(path.to_owned(), object.clone());
        self.announce(state, collection, change, object.clone());
        object
    }

    fn announce(&self, state: &mut State, collection: &str, change: &'static str, mut object: Value) {
        let version = *self.version.borrow() + 1;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        state.log.push((version, collection.to_owned(), change, object));
        self.version.send_replace(version);
    }
}

fn selected(collection: &str, path: &str, object: &Value, query: &BTreeMap<&str, &str>) -> bool {
    let in_collection = path.rsplit_once('/').is_some_and(|it| it.0 == collection);
    let wanted = query.get("fieldSelector").and_then(|it| it.rsplit_once("%3D"));
    in_collection && wanted.is_none_or(|(_, name)| object["metadata"]["name"] == name)
}

/// The generation grows when anything but the metadata changes.
fn generation(old: &Value, new: &Value) -> u64 {
    let body = |it: &Value| {
        let mut it = it.clone();
        it["metadata"] = Value::Null;
        it
    };
    let mut new = new.clone();
    fill_defaults(&mut new);
    old["metadata"]["generation"].as_u64().unwrap_or(1) + u64::from(body(old) != body(&new))
}

/// What the real one adds to webhooks; a caller that compares naively would write for ever.
fn fill_defaults(object: &mut Value) {
    let mutating = object["kind"] == "MutatingWebhookConfiguration";
    for webhook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        let mut defaults = json!({
            "matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}, "timeoutSeconds": 10,
            "failurePolicy": "Fail",
        });
        if mutating {
            defaults["reinvocationPolicy"] = json!("Never");
        }
        json_patch::merge(&mut defaults, webhook);
        *webhook = defaults;
        for rule in webhook["rules"].as_array_mut().into_iter().flatten() {
            if rule["scope"].is_null() {
                rule["scope"] = json!("*");
            }
        }
        if let Some(service) = webhook["clientConfig"].get_mut("service")
            && service["port"].is_null()
        {
            service["port"] = json!(443);
        }
    }
}

fn status(code: u16, reason: &str) -> Response {
    let status = json!({
        "apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure", "message": reason, "reason": reason, "code": code,
    });
    (StatusCode::from_u16(code).unwrap(), Json(status)).into_response()
}
