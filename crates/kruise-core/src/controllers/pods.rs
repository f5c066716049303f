//! Carrying out what was decided about one pod.

use std::sync::Arc;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::{
    pod::patch::{self, Part, Pin, PodPatch},
    runtime::{
        cache::pod::PodLite,
        client::Error,
        key::version,
        writes::{On, Writer},
    },
};

/// What became of a patch.
#[derive(Debug)]
pub(crate) enum Sent {
    /// It holds, and the cache shows it: the pod as it is now.
    Done(Arc<PodLite>),
    /// The pod is not the one that was looked at: it has changed, or is gone. What to do has to be decided anew.
    Overtaken,
}

/// Sends `patch` to exactly this pod.
pub(crate) async fn send(
    writer: &Writer<PodLite>,
    on: On<'_>,
    pod: &PodLite,
    patch: &PodPatch,
) -> Result<Sent, Error> {
    let part = match patch.part {
        Part::Main => None,
        Part::Status => Some("status"),
        Part::Resize => Some("resize"),
    };
    let body = match patch.pin {
        // The writer pins every patch to the UID.
        Pin::Uid => patch.body.clone(),
        Pin::Version => at_version(patch.body.clone(), version(pod)),
    };
    match writer.patch(on, pod, part, &Patch::Strategic(body), &PatchParams::default()).await {
        Ok(pod) => Ok(Sent::Done(pod)),
        Err(error) if matches!(error.code(), Some(404 | 409)) => Ok(Sent::Overtaken),
        Err(error) => Err(error),
    }
}

/// Sends `patches` in as few requests as they need, each to the pod that the one before has left. Without any, nothing is
/// sent.
pub(crate) async fn send_all(
    writer: &Writer<PodLite>,
    on: On<'_>,
    pod: &Arc<PodLite>,
    patches: &[PodPatch],
) -> Result<Sent, Error> {
    let mut pod = pod.clone();
    for patch in &patch::merged(patches) {
        match send(writer, on, &pod, patch).await? {
            Sent::Done(after) => pod = after,
            Sent::Overtaken => return Ok(Sent::Overtaken),
        }
    }
    Ok(Sent::Done(pod))
}

fn at_version(mut body: Value, version: &str) -> Value {
    if let Some(fields) = body.as_object_mut() {
        let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.insert("resourceVersion".to_owned(), version.into());
        }
    }
    body
}
