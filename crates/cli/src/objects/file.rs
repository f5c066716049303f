//! What a file says: objects, policies and clusters as they would be. Pure.

use ::hub::{admission, placement::select::ClusterFacts};
use kruise_core::api::{
    APPS_GROUP,
    convert::{Error as ConvertError, convert},
    fleet::{
        GROUP,
        member_cluster::MemberCluster,
        policy::{ClusterPlacementPolicy, PlacementPolicy},
    },
};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};

use super::{Federated, named::VERSION, read::Fleet};
use crate::Error;

/// What a file says.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// Objects, in the version that the hub stores, with their namespaces.
    pub objects: Vec<(Federated, String, Value)>,
    /// Policies.
    pub policies: Vec<PlacementPolicy>,
    /// Policies for all namespaces.
    pub cluster_policies: Vec<ClusterPlacementPolicy>,
    /// Clusters.
    pub members: Vec<MemberCluster>,
    /// What the hub would warn of.
    pub warnings: Vec<String>,
}

impl Contents {
    /// Reads a file. What the hub would refuse is refused here, in the same words.
    pub fn read(text: &str, namespace: &str, clusters: &[ClusterFacts]) -> Result<Self, Error> {
        let documents = serde_saphyr::from_multiple::<Value>(text)
            .map_err(|it| Error::input("--filename", format!("is no YAML: {it}")))?;
        let mut contents = Self::default();
        for document in documents.into_iter().flat_map(items) {
            contents.take(document, namespace, clusters)?;
        }
        Ok(contents)
    }

    fn take(&mut self, mut document: Value, namespace: &str, clusters: &[ClusterFacts]) -> Result<(), Error> {
        let version = document["apiVersion"].as_str().unwrap_or_default().to_owned();
        let kind = document["kind"].as_str().unwrap_or_default().to_owned();
        let name = document.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let what = format!("{kind} {name}");
        if name.is_empty() {
            return Err(Error::input("--filename", format!("{what} has no metadata.name")));
        }
        let group = version.split_once('/').map_or("", |it| it.0);
        match (group, kind.as_str()) {
            (GROUP, "PlacementPolicy" | "ClusterPlacementPolicy") => {
                admission::policy::default(&mut document);
                self.heed(&what, admission::policy::check(&document, clusters))?;
                if kind == "PlacementPolicy" {
                    let mut policy: PlacementPolicy = typed(&what, document)?;
                    policy.meta_mut().namespace.get_or_insert_with(|| namespace.to_owned());
                    self.policies.push(policy);
                } else {
                    self.cluster_policies.push(typed(&what, document)?);
                }
            }
            (GROUP, "MemberCluster") => self.members.push(typed(&what, document)?),
            (APPS_GROUP, _) => {
                let Some(federated) = Federated::of_kind(&kind) else { return Ok(()) };
                let object = stored_version(&what, document)?;
                self.heed(&what, admission::object::check(&object, None))?;
                let own = object.pointer("/metadata/namespace").and_then(Value::as_str);
                let namespace = own.unwrap_or(namespace).to_owned();
                self.objects.push((federated, namespace, object));
            }
            // Services and the like are applied with it, and nothing of them is placed.
            _ => {}
        }
        Ok(())
    }

    fn heed(&mut self, what: &str, findings: admission::Findings) -> Result<(), Error> {
        self.warnings.extend(findings.warnings.into_iter().map(|it| format!("{what}: {it}")));
        let faults: Vec<String> = findings.faults.iter().map(ToString::to_string).collect();
        if faults.is_empty() { Ok(()) } else { Err(Error::Refused(format!("{what}: {}", faults.join("; ")))) }
    }

    /// The fleet as it would be.
    pub fn over(&self, mut fleet: Fleet) -> Fleet {
        put(&mut fleet.policies, &self.policies, |it| &mut it.spec);
        put(&mut fleet.cluster_policies, &self.cluster_policies, |it| &mut it.spec);
        put(&mut fleet.members, &self.members, |it| &mut it.spec);
        fleet
    }

    /// Whether more than the objects of the file may be concerned.
    pub fn concerns_others(&self) -> bool {
        !self.policies.is_empty() || !self.cluster_policies.is_empty() || !self.members.is_empty()
    }
}

/// An object as it would be stored in the place of one that is there, or of none.
pub fn stored(mut object: Value, there: Option<&Value>) -> Value {
    let Some(there) = there else {
        // The hub settles ties by a UID that nobody knows yet.
        object["metadata"]["uid"] = json!("");
        return object;
    };
    let generation = there.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
    let is_changed = there["spec"] != object["spec"];
    object["metadata"]["uid"] = there["metadata"]["uid"].clone();
    object["metadata"]["generation"] = json!(generation + i64::from(is_changed));
    object["status"] = there["status"].clone();
    object
}

/// The object in the version that the hub stores.
fn stored_version(what: &str, mut object: Value) -> Result<Value, Error> {
    let wanted = format!("{APPS_GROUP}/{VERSION}");
    if object["apiVersion"] == wanted.as_str() {
        return Ok(object);
    }
    match convert(object.clone(), &wanted) {
        Ok(converted) => Ok(converted),
        // Its versions have the same shape.
        Err(ConvertError::UnknownKind { .. }) => {
            object["apiVersion"] = wanted.into();
            Ok(object)
        }
        Err(fault) => Err(Error::input(what, fault.to_string())),
    }
}

/// A List of objects, or one object.
fn items(document: Value) -> Vec<Value> {
    match document {
        Value::Null => Vec::new(),
        Value::Object(mut it) if it.get("kind").is_some_and(|it| it == "List") => match it.remove("items") {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        },
        other => vec![other],
    }
}

fn typed<K: serde::de::DeserializeOwned>(what: &str, document: Value) -> Result<K, Error> {
    serde_json::from_value(document).map_err(|it| Error::input(what, it.to_string()))
}

/// Puts new specs and labels over what is there; what is not there is added.
fn put<K, S>(there: &mut Vec<K>, new: &[K], spec: impl Fn(&mut K) -> &mut S)
where
    K: Resource<DynamicType = ()> + Clone,
    S: Clone + PartialEq,
{
    for it in new {
        let is_it = |other: &&mut K| other.name_any() == it.name_any() && other.namespace() == it.namespace();
        match there.iter_mut().find(is_it) {
            None => there.push(it.clone()),
            Some(found) => {
                let wanted = spec(&mut it.clone()).clone();
                let is_changed = *spec(found) != wanted;
                *spec(found) = wanted;
                found.meta_mut().labels.clone_from(&it.meta().labels);
                let generation = found.meta_mut().generation.get_or_insert(1);
                *generation += i64::from(is_changed);
            }
        }
    }
}
