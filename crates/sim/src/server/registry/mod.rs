//! Which kinds the server knows and what is special about each.

mod builtin;
mod crd;
pub mod events;
mod names;

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use serde_json::{Value, json};

pub use crd::established;
pub use names::Names;

use crate::server::{schema::Promises, table::Column};

/// One kind, in one of its versions.
#[derive(Debug, Clone)]
pub struct Resource {
    /// API group, empty for core.
    pub group: String,
    /// The version of this entry.
    pub version: String,
    /// The version objects are kept in.
    pub storage_version: String,
    /// The kind, such as `Pod`.
    pub kind: String,
    /// The name in paths, such as `pods`.
    pub plural: String,
    /// What else people call it.
    pub names: Names,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// What else is particular about it.
    pub traits: Traits,
    /// Where the scale subresource finds its numbers.
    pub scale: Option<ScalePaths>,
    /// Fields a field selector may name besides name and namespace.
    pub selectable: Vec<String>,
    /// The schema, for custom resources.
    pub schema: Option<Arc<Value>>,
    /// What the schema's rules in CEL ask for.
    pub promises: Promises,
    /// What tables of it show.
    pub columns: Vec<Column>,
}

/// The yes-or-no facts about a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traits {
    /// It is defined by a CustomResourceDefinition.
    pub custom: bool,
    /// It has a status subresource.
    pub status: bool,
    /// It counts `metadata.generation`.
    pub generation: bool,
    /// An update without resourceVersion overwrites.
    pub unconditional: bool,
    /// A PUT to a free name creates.
    pub create_on_update: bool,
    /// A finished delete answers with the object and not with a Status.
    pub returns_deleted: bool,
}

/// Where the scale subresource finds its numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    /// Path of the wanted count.
    pub spec: Vec<String>,
    /// Path of the present count.
    pub status: Vec<String>,
    /// Path of the selector, as text or as an object.
    pub selector: Option<Vec<String>>,
}

impl Resource {
    /// `plural.group`, or `plural` in the core group.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The table its objects are kept in.
    pub fn table(&self) -> String {
        if self.is_other_face() { "events".to_owned() } else { self.qualified() }
    }

    /// `group/version` of what is kept.
    pub fn kept_api_version(&self) -> String {
        let group = if self.is_other_face() { "" } else { &self.group };
        group_version(group, &self.storage_version)
    }

    /// Whether its objects are kept as the kind of another group.
    pub fn is_other_face(&self) -> bool {
        events::is_other_face(self)
    }

    /// `group/version`, or `version` in the core group.
    pub fn api_version(&self) -> String {
        group_version(&self.group, &self.version)
    }

    /// `details` of a Status about one object.
    pub fn details(&self, name: &str) -> Value {
        let mut details = json!({"kind": self.plural});
        if !name.is_empty() {
            details["name"] = json!(name);
        }
        if !self.group.is_empty() {
            details["group"] = json!(self.group);
        }
        details
    }

    /// Whether this is the core kind with that plural.
    pub fn is_core(&self, plural: &str) -> bool {
        self.group.is_empty() && self.plural == plural
    }
}

/// All kinds, by table and version.
#[derive(Debug, Clone)]
pub struct Registry {
    kinds: BTreeMap<(String, String), Vec<Arc<Resource>>>,
}

impl Registry {
    /// The kinds every cluster has.
    pub fn builtin() -> Self {
        // All clusters of a process share them: there may be a thousand.
        static BUILTIN: OnceLock<Vec<Arc<Resource>>> = OnceLock::new();
        let mut registry = Self { kinds: BTreeMap::new() };
        for resource in BUILTIN.get_or_init(|| builtin::all().map(Arc::new).collect()) {
            registry.add(resource.clone());
        }
        registry
    }

    fn add(&mut self, resource: Arc<Resource>) {
        let key = (resource.group.clone(), resource.plural.clone());
        self.kinds.entry(key).or_default().push(resource);
    }

    /// Finds what a path names.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        let versions = self.kinds.get(&(group.to_owned(), plural.to_owned()))?;
        versions.iter().find(|it| it.version == version).cloned()
    }

    /// Finds what an owner reference or an object names.
    pub fn by_kind(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let mut all = self.kinds.values().flatten();
        all.find(|it| it.kind == kind && it.api_version() == api_version).cloned()
    }

    /// One entry for each kind, in its storage version.
    pub fn stored(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let kept = |it: &&Arc<Resource>| it.version == it.storage_version && !it.is_other_face();
        self.kinds.values().flatten().filter(kept)
    }

    /// Every kind in every version.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.kinds.values().flatten()
    }

    /// Takes in (or replaces) the kind that a CustomResourceDefinition describes.
    pub fn define(&mut self, crd: &Value) {
        let versions = crd::versions(crd);
        let Some(first) = versions.first() else { return };
        self.kinds.remove(&(first.group.clone(), first.plural.clone()));
        for resource in versions {
            self.add(Arc::new(resource));
        }
    }

    /// Forgets the kind that a CustomResourceDefinition described.
    pub fn undefine(&mut self, crd: &Value) -> Option<Arc<Resource>> {
        let spec = &crd["spec"];
        let group = spec["group"].as_str()?.to_owned();
        let plural = spec["names"]["plural"].as_str()?.to_owned();
        self.kinds.remove(&(group, plural))?.into_iter().next()
    }
}

/// `group/version`, or `version` in the core group.
pub fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
