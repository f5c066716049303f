//! The few things in which federated kinds differ: what their numbers are, what is copied, how a share is written, and
//! what their own status says over the fleet. Everything else is the same for all of them.

pub mod cloneset;
pub mod image_pull_job;
mod report;
pub mod totals;
pub mod whole;

use kruise_core::{
    api::{
        APPS_GROUP,
        fleet::{Slice, keys::features},
    },
    revision::data::RevisionData,
    runtime::webhook::FieldError,
};
use scheduling::{
    ledger::{Revision, Share},
    numbers::IntOrPercent,
    pulls::{Completion, Time},
    rank::sha256,
};
use serde_json::{Value, json};

pub use report::{is_possible, pods_report, pulls_report};
use totals::Totals;

/// A kind that can be federated. Objects are JSON in their stored version.
pub trait Kind: std::fmt::Debug + Send + Sync {
    /// Group and name of the kind.
    fn name(&self) -> (&str, &str);

    /// The numbers that are divided. An error names the field and what would be right.
    fn division(&self, object: &Value) -> Result<Division, FieldError>;

    /// What makes a revision in a member: another one of these is another revision (REV-1).
    fn revision_source(&self, object: &Value) -> Value;

    /// Fields that each member gets for itself, as JSON pointers. They are left out of the body.
    fn divided_fields(&self) -> &'static [&'static str];

    /// One cluster's share as its Assignment says it.
    fn slice(&self, granted: &Granted<'_>) -> Slice;

    /// The status of the hub's object, as far as the fleet writes it.
    fn status(&self, object: &Value, totals: &Totals) -> Value;
}

/// What is divided of an object.
#[derive(Debug, Clone, PartialEq)]
pub enum Division {
    /// Pods that members make.
    Pods(PodNumbers),
    /// Downloads of images.
    Pulls(PullNumbers),
    /// Nothing: every cluster has a copy.
    Whole,
}

/// The numbers of an object whose pods are divided.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodNumbers {
    /// N.
    pub replicas: u32,
    /// Pods to keep at the old revision.
    pub partition: Option<IntOrPercent>,
    /// Pods that an update may take down.
    pub unavailable: Option<IntOrPercent>,
    /// Pods that an update may start beyond N.
    pub surge: Option<IntOrPercent>,
    /// Pods that may be unavailable while pods are added.
    pub scale_unavailable: Option<IntOrPercent>,
    /// Whether updates are paused.
    pub paused: bool,
    /// Whether pods are only ever updated in place.
    pub in_place_only: bool,
    /// Whether pods have volumes of their own, so that they do not move by themselves (CS-5).
    pub stateful: bool,
    /// Pods to delete, as `pod` or `cluster/pod`.
    pub pods_to_delete: Vec<String>,
    /// How many updated pods must be ready before images are downloaded ahead; none if they are not.
    pub pre_download: Option<u32>,
}

impl PodNumbers {
    /// What agents must be able to do beyond the first version of the protocol to carry a share of these numbers. A new field of a share
    /// has a line here (HA-6).
    pub fn needs(&self) -> Vec<&'static str> {
        let needed = [(self.scale_unavailable.is_some(), features::SCALE_MAX_UNAVAILABLE)];
        needed.into_iter().filter(|it| it.0).map(|it| it.1).collect()
    }
}

/// The numbers of a job that downloads images.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullNumbers {
    /// Downloads at the same time over the fleet.
    pub parallelism: u32,
    /// When the job is over.
    pub completion: Completion,
    /// Nodes by name, as `node` or `cluster/node`; all that the body selects if there are none.
    pub nodes: Vec<String>,
    /// Secrets for the registry, in the job's namespace.
    pub secrets: Vec<String>,
}

/// What one cluster was granted.
#[derive(Debug, Clone, Copy)]
pub struct Granted<'a> {
    /// Its name.
    pub cluster: &'a str,
    /// Its share of pods.
    pub share: &'a Share,
    /// Its downloads.
    pub slots: u32,
    /// What is left of a job's deadline.
    pub time: Time,
    /// Its pods to delete.
    pub pods_to_delete: &'a [String],
    /// The nodes that a job names, of all clusters.
    pub nodes: &'a [String],
}

/// The kind of an object; those without numbers of their own are copied whole.
pub fn of(group: &str, kind: &str) -> Box<dyn Kind> {
    match kind {
        "CloneSet" if group == APPS_GROUP => Box::new(cloneset::CloneSets),
        "ImagePullJob" if group == APPS_GROUP => Box::new(image_pull_job::PullJobs { kind: "ImagePullJob" }),
        "ImageListPullJob" if group == APPS_GROUP => {
            Box::new(image_pull_job::PullJobs { kind: "ImageListPullJob" })
        }
        _ => Box::new(whole::Whole { group: group.to_owned(), kind: kind.to_owned() }),
    }
}

/// The fleet revision of an object: the first eight bytes of the hash over what makes a revision (REV-1).
pub fn revision(kind: &dyn Kind, object: &Value) -> Revision {
    // In one canonical form, so that neither the order of keys nor this build's types matter.
    let source = RevisionData::of_json(&kind.revision_source(object));
    let digest = sha256(source.as_str().as_bytes());
    Revision(u64::from_be_bytes(std::array::from_fn(|it| digest[it])))
}

/// What of an object is stored once for all clusters: what the user wrote, without the numbers that are divided.
pub fn body(kind: &dyn Kind, object: &Value) -> Value {
    let mut metadata = json!({});
    for field in ["name", "namespace", "labels", "annotations"] {
        let value = object.pointer(&format!("/metadata/{field}")).filter(|it| !it.is_null());
        if let Some(value) = value {
            metadata[field] = value.clone();
        }
    }
    if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
        // What is said to the hub, and what kubectl notes for itself, is not for members.
        annotations
            .retain(|it, _| !it.starts_with("fleet.kruise.io/") && !it.starts_with("kubectl.kubernetes.io/"));
    }
    let mut body = json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": metadata, "spec": object["spec"],
    });
    for pointer in kind.divided_fields() {
        remove(&mut body, pointer);
    }
    body
}

fn remove(tree: &mut Value, pointer: &str) {
    let Some((parent, field)) = pointer.rsplit_once('/') else { return };
    if let Some(Value::Object(fields)) = tree.pointer_mut(parent) {
        fields.remove(field);
    }
}

/// A number or percentage of an object; nothing if the field is absent.
pub(crate) fn number(object: &Value, pointer: &str) -> Result<Option<IntOrPercent>, FieldError> {
    let Some(value) = object.pointer(pointer).filter(|it| !it.is_null()) else { return Ok(None) };
    kruise_core::admission::numbers::read(&path(pointer), value).map(Some)
}

/// A whole number of an object.
pub(crate) fn whole_number(object: &Value, pointer: &str) -> Result<Option<u32>, FieldError> {
    match number(object, pointer)? {
        None => Ok(None),
        Some(IntOrPercent::Int(number)) => Ok(Some(number)),
        Some(IntOrPercent::Percent(_)) => {
            let value = object.pointer(pointer).cloned().unwrap_or_default();
            Err(FieldError::invalid(path(pointer), value, "must be an integer, not a percentage"))
        }
    }
}

/// The texts of a list of an object.
pub(crate) fn texts(object: &Value, pointer: &str) -> Vec<String> {
    let items = object.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

/// `/spec/replicas` as users write it: `spec.replicas`.
fn path(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

#[cfg(test)]
mod tests;
