//! The API server of one cluster: storage, verbs and everything that happens before a write is kept.
//!
//! It is a plain synchronous function from a request and a time to an answer. Latency, lost answers and the order of
//! concurrent requests are the network's business (see [`crate::faults`]).

pub mod admission;
pub mod apply;
pub mod discovery;
pub mod fields;
pub mod form;
pub mod object;
pub mod openapi;
pub mod patch;
pub mod registry;
pub mod request;
pub mod rules;
pub mod schema;
pub mod selector;
pub mod status;
pub mod store;
mod subresource;
pub mod table;
mod verbs;
pub mod watch;
pub mod webhooks;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard},
};

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use crate::{
    seed::Seed,
    server::{
        admission::Hook,
        object::{Key, Stored},
        registry::{Registry, Resource},
        request::ApiRequest,
        status::Failure,
        store::{Change, Retention, Store},
        watch::WatchPlan,
        webhooks::Question,
    },
    time::Clock,
};

/// How a watch from a forgotten version is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ExpiredWatch {
    /// With an ERROR event in a 200 answer, as kube-apiserver does.
    #[default]
    Event,
    /// With HTTP code 410, as some aggregated servers do.
    Code,
}

/// What can be set about a server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Settings {
    /// How much past it remembers.
    pub retention: Retention,
    /// How it refuses old watches.
    pub expired_watch: ExpiredWatch,
    /// Whether plain updates are recorded in `managedFields` too. Off saves about a kilobyte for each pod.
    pub track_updates: TrackUpdates,
    /// Whether anybody follows up on deletes.
    pub controllers: Controllers,
}

/// Whether a cluster has a controller manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Controllers {
    /// Dependents go with their owners, and what namespaces hold goes with them.
    #[default]
    Run,
    /// The API server is alone: what waits for a controller waits for ever.
    Absent,
}

/// Whose writes `managedFields` records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TrackUpdates {
    /// Everyone's, as kube-apiserver does.
    #[default]
    Always,
    /// Those to objects that someone applies.
    OnAppliedObjects,
}

/// Turns an object of a custom kind into another version of it.
pub type Converter = Arc<dyn Fn(Value, &str) -> Result<Value, String> + Send + Sync>;

/// The server of one cluster.
pub struct Cluster {
    name: String,
    seed: Seed,
    clock: Clock,
    settings: Mutex<Settings>,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) hooks: Vec<Hook>,
    converters: HashMap<String, Converter>,
    settings: Settings,
}

/// What a request is answered with.
#[derive(Debug)]
pub enum Answer {
    /// A body.
    Body {
        /// The HTTP code.
        code: u16,
        /// JSON.
        body: Bytes,
    },
    /// An object that is not text yet: whoever writes from inside the cluster needs none.
    Object {
        /// The HTTP code.
        code: u16,
        /// The object.
        object: Value,
    },
    /// A stream of events.
    Watch(WatchPlan),
    /// None yet: nothing has happened, and somebody has to be asked first.
    Ask(Box<Question>),
}

/// An answer that is about the server and not about objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// The HTTP code.
    pub code: u16,
    /// The media type.
    pub media: &'static str,
    /// The text.
    pub body: Bytes,
}

impl Answer {
    /// The HTTP code.
    pub fn code(&self) -> u16 {
        match self {
            Self::Body { code, .. } | Self::Object { code, .. } => *code,
            Self::Watch(_) => 200,
            Self::Ask(_) => 500,
        }
    }

    /// A JSON body.
    pub fn json(code: u16, body: &Value) -> Self {
        Self::Body { code, body: body.to_string().into() }
    }

    /// The answer as it is sent.
    fn written(self) -> Self {
        match self {
            Self::Object { code, object } => Self::json(code, &object),
            other => other,
        }
    }

    fn failure(failure: Failure) -> Self {
        match failure.question {
            Some(question) => Self::Ask(question),
            None => Self::json(failure.code, &failure.body()),
        }
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Cluster").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Cluster {
    /// An empty cluster with the namespaces every cluster has.
    pub fn new(name: &str, seed: Seed, clock: Clock, settings: Settings) -> Self {
        let state = State {
            store: Store::new(settings.retention),
            registry: Registry::builtin(),
            hooks: Vec::new(),
            converters: HashMap::new(),
            settings,
        };
        let cluster = Self {
            name: name.to_owned(),
            seed: seed.of(name),
            clock,
            settings: Mutex::new(settings),
            state: Mutex::new(state),
        };
        for namespace in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            let body = serde_json::json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
            });
            let created = cluster.write(Method::POST, "/api/v1/namespaces", &body);
            debug_assert!(created.is_ok(), "{created:?}");
        }
        cluster
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its seed, for the parts that live in the same cluster.
    pub fn seed(&self) -> Seed {
        self.seed
    }

    /// Its clock.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Answers one request.
    pub fn handle(&self, request: &ApiRequest) -> Answer {
        let mut state = self.state();
        let answer = verbs::dispatch(&mut state, request, &self.clock, self.seed);
        answer.unwrap_or_else(Answer::failure).written()
    }

    /// Answers a read of a path that is no kind's: what there is, in which versions, with which fields.
    pub fn describe(&self, path: &str, accept: &str) -> Page {
        discovery::answer(&self.state().registry, path, accept)
    }

    /// Writes from inside the cluster (its own controllers and kubelets), without a client.
    pub fn write(&self, method: Method, path: &str, body: &Value) -> Result<Value, Failure> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let uri: http::Uri = format!("{path}?{query}")
            .parse()
            .map_err(|_| Failure::bad_request(format!("{path} is no path")))?;
        let mut headers = http::HeaderMap::new();
        let media = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(media));
        headers.insert(http::header::USER_AGENT, http::HeaderValue::from_static("cluster"));
        let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let request = ApiRequest::read(&method, &uri, &headers, body)?.ok_or_else(Failure::unknown_path)?;
        let mut state = self.state();
        match verbs::dispatch(&mut state, &request, &self.clock, self.seed)? {
            Answer::Object { object, .. } => Ok(object),
            Answer::Body { body, .. } => {
                serde_json::from_slice(&body).map_err(|error| Failure::internal(&error.to_string()))
            }
            Answer::Watch(_) | Answer::Ask(_) => Err(Failure::bad_request("a write is no watch")),
        }
    }

    /// Puts an object of a kind (`plural.group`) into the store as it is. Neither admission nor schema is asked, as nobody is when a
    /// store is restored from an older copy.
    pub fn put_back(&self, table: &str, object: Value) {
        let at = self.clock.elapsed();
        self.state().store.put(table, object, at);
    }

    /// One object, as the store has it.
    pub fn get(&self, table: &str, namespace: &str, name: &str) -> Option<Arc<Stored>> {
        self.state().store.get(table, &Key::new(namespace, name)).cloned()
    }

    /// All objects of a kind (`plural.group`), as the store has them.
    pub fn list(&self, table: &str) -> Vec<Arc<Stored>> {
        let state = self.state();
        state.store.table(table).map(|it| it.range("", None).cloned().collect()).unwrap_or_default()
    }

    /// How many objects of a kind there are.
    pub fn count(&self, table: &str) -> usize {
        self.state().store.table(table).map_or(0, store::Table::len)
    }

    /// The newest resourceVersion.
    pub fn version(&self) -> u64 {
        self.state().store.version()
    }

    /// Adds an admission hook.
    pub fn admit(&self, hook: Hook) {
        self.state().hooks.push(hook);
    }

    /// Sets how objects of a custom kind (`plural.group`) change versions. Without one only `apiVersion` changes.
    pub fn convert(&self, table: &str, converter: Converter) {
        self.state().converters.insert(table.to_owned(), converter);
    }

    /// Takes in a CustomResourceDefinition.
    pub fn define(&self, crd: &Value) -> Result<Value, Failure> {
        self.write(Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    }

    /// Starts again: open watches end. The past is kept, as etcd keeps it.
    pub fn restart(&self) {
        let mut state = self.state();
        let names: Vec<Arc<str>> = state.store.tables().map(|it| it.name().clone()).collect();
        for name in names {
            state.store.table_mut(&name).hang_up();
        }
    }

    /// Forgets the past: what resumes from before is told 410.
    pub fn compact(&self) {
        self.state().store.compact();
    }

    /// What can be set about it.
    pub fn settings(&self) -> Settings {
        *self.settings.lock().expect("no panic happens under this lock")
    }

    pub(crate) fn take_changes(&self) -> Vec<Change> {
        self.state().store.take_changes()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl State {
    /// An object in the version a request asks for.
    pub(crate) fn in_version(&self, resource: &Resource, stored: &Stored) -> Result<Value, Failure> {
        self.to_version(resource, stored.value(), &resource.api_version())
    }

    /// An object in the version it is kept in.
    pub(crate) fn for_storage(&self, resource: &Resource, object: Value) -> Result<Value, Failure> {
        self.to_version(resource, object, &resource.kept_api_version())
    }

    /// Writes an object, and returns it in the version a request asks for.
    pub(crate) fn keep(
        &mut self,
        resource: &Resource,
        object: Value,
        at: std::time::Duration,
    ) -> Result<Value, Failure> {
        let kept = self.for_storage(resource, object)?;
        let kept = self.store.put(&resource.table(), kept, at);
        self.to_version(resource, kept, &resource.api_version())
    }

    /// The text of an object in the version a request asks for.
    pub(crate) fn text(&self, resource: &Resource, stored: &Stored) -> Result<Bytes, Failure> {
        if resource.version == resource.storage_version && !resource.is_other_face() {
            return Ok(stored.text().into());
        }
        Ok(self.in_version(resource, stored)?.to_string().into())
    }

    fn to_version(&self, resource: &Resource, mut object: Value, wanted: &str) -> Result<Value, Failure> {
        if object["apiVersion"] == wanted {
            return Ok(object);
        }
        if resource.is_other_face() {
            registry::events::turn(&mut object, wanted);
            return Ok(object);
        }
        if let Some(converter) = self.converters.get(&resource.qualified()) {
            return converter(object, wanted).map_err(|cause| {
                Failure::internal(&format!("conversion webhook for {} failed: {cause}", resource.kind))
            });
        }
        object["apiVersion"] = wanted.into();
        Ok(object)
    }
}
