//! Events: what `kubectl describe` shows below an object.
//!
//! They are core/v1 Events with upstream's reasons, counted and combined as client-go does it. Recording never waits: a
//! full channel drops the event and counts that. Nothing but an event is lost with it.

mod combine;

use k8s_openapi::api::core::v1::{Event, ObjectReference};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    access::{self, Right},
    client::{Error, call},
    clock::Clock,
    metrics::Metrics,
};
use combine::{Combiner, Write};

/// How many events may wait to be written.
const CAPACITY: usize = 1_000;

/// How long the events that wait at the end may take.
const DRAIN: std::time::Duration = std::time::Duration::from_secs(2);

/// Whether somebody should look into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Severity {
    /// All is well.
    Normal,
    /// Something does not work.
    Warning,
}

impl Severity {
    /// The value of the event's `type`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// One thing to tell about one object.
#[derive(Debug, Clone)]
struct Note {
    about: ObjectReference,
    component: &'static str,
    severity: Severity,
    reason: &'static str,
    message: String,
}

/// Records events for one component. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Recorder {
    send: mpsc::Sender<Note>,
    component: &'static str,
    metrics: Metrics,
}

/// Writes what recorders record. One per process.
pub struct Sink {
    receive: mpsc::Receiver<Note>,
    send: mpsc::Sender<Note>,
    client: Client,
    clock: Clock,
    metrics: Metrics,
}

impl Recorder {
    /// The same for another component.
    #[must_use]
    pub fn of(&self, component: &'static str) -> Self {
        Self { component, ..self.clone() }
    }

    /// Records that `reason` happened to `about`. Never waits.
    pub fn record(
        &self,
        about: ObjectReference,
        severity: Severity,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let note = Note { about, component: self.component, severity, reason, message: message.into() };
        if self.send.try_send(note).is_err() {
            self.metrics.event_dropped();
        }
    }
}

/// The rights to write events about objects anywhere.
pub fn needs() -> Vec<Right> {
    vec![access::cluster("", "events", &["create", "patch"])]
}

/// What an event names as its object.
pub fn about<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    object.object_ref(&())
}

impl Sink {
    /// A sink that writes through `client`.
    pub fn new(client: Client, clock: Clock, metrics: Metrics) -> Self {
        let (send, receive) = mpsc::channel(CAPACITY);
        Self { receive, send, client, clock, metrics }
    }

    /// A recorder for `component`: `cloneset-controller`.
    pub fn recorder(&self, component: &'static str) -> Recorder {
        Recorder { send: self.send.clone(), component, metrics: self.metrics.clone() }
    }

    /// Writes events until `token` is cancelled, and then for a moment what is still waiting.
    pub async fn run(mut self, token: CancellationToken) {
        let mut combiner = Combiner::default();
        while let Some(Some(note)) = token.run_until_cancelled(self.receive.recv()).await {
            self.write(&mut combiner, note).await;
        }
        self.receive.close();
        let rest = async {
            while let Some(note) = self.receive.recv().await {
                self.write(&mut combiner, note).await;
            }
        };
        let _ = tokio::time::timeout(DRAIN, rest).await;
    }

    async fn write(&self, combiner: &mut Combiner, note: Note) {
        let Some(write) = combiner.take_in(note, self.clock.now()) else {
            return self.metrics.event_dropped();
        };
        if let Err(error) = self.send(write).await {
            self.metrics.event_dropped();
            debug!(
                error = &error as &dyn std::error::Error,
                label = error.label(),
                "an event was not written"
            );
        }
    }

    async fn send(&self, write: Write) -> Result<(), Error> {
        let event = match write {
            Write::Create(event) => event,
            Write::Count(event) => {
                let api = self.api(&event);
                let name = event.metadata.name.as_deref().unwrap_or_default();
                let counted = serde_json::json!({
                    "count": event.count, "lastTimestamp": event.last_timestamp, "message": event.message,
                });
                let (params, patch) = (PatchParams::default(), Patch::Merge(&counted));
                match call("count event", api.patch(name, &params, &patch)).await {
                    // The server forgets events after an hour.
                    Err(error) if error.code() == Some(404) => event,
                    done => return done.map(drop),
                }
            }
        };
        let api = self.api(&event);
        call("create event", api.create(&PostParams::default(), &event)).await.map(drop)
    }

    fn api(&self, event: &Event) -> Api<Event> {
        Api::namespaced(self.client.clone(), event.metadata.namespace.as_deref().unwrap_or("default"))
    }
}

impl std::fmt::Debug for Sink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink").field("waiting", &self.receive.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
