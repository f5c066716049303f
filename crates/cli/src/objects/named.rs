//! KIND/NAME.

use std::str::FromStr;

use kruise_core::api::{self, APPS_GROUP, fleet::FederatedObject};
use kube::api::ApiResource;

/// An object as a person names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Its kind.
    pub kind: Federated,
    /// Its name.
    pub name: String,
}

/// A kind of objects that can be applied to the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Federated {
    /// Its name.
    pub kind: String,
    /// Its name in addresses.
    pub plural: String,
    /// Whether its objects are in namespaces.
    pub is_namespaced: bool,
}

/// The version that the hub stores.
pub const VERSION: &str = "v1beta1";

impl Federated {
    /// Kinds of users' objects. Those that are made by programs alone are no use here.
    fn all() -> Vec<(Self, Vec<String>)> {
        let kinds = ["CloneSet", "ImageListPullJob", "ImagePullJob", "ResourceDistribution", "SidecarSet"];
        let crds = api::member_crds().into_iter().filter(|it| kinds.contains(&it.spec.names.kind.as_str()));
        crds.map(|it| {
            let names = it.spec.names;
            let mut words = names.short_names.unwrap_or_default();
            words.extend(names.singular);
            words.push(names.plural.clone());
            words.push(format!("{}.{APPS_GROUP}", names.plural));
            let is_namespaced = it.spec.scope == "Namespaced";
            (Self { kind: names.kind, plural: names.plural, is_namespaced }, words)
        })
        .collect()
    }

    /// The kind that a word means.
    pub fn find(word: &str) -> Option<Self> {
        let word = word.to_lowercase();
        Self::all().into_iter().find(|(_, words)| words.contains(&word)).map(|it| it.0)
    }

    /// The kind of an object in a file.
    pub fn of_kind(kind: &str) -> Option<Self> {
        Self::all().into_iter().map(|it| it.0).find(|it| it.kind == kind)
    }

    /// How the API server is asked for it.
    pub fn resource(&self) -> ApiResource {
        ApiResource {
            group: APPS_GROUP.to_owned(),
            version: VERSION.to_owned(),
            api_version: format!("{APPS_GROUP}/{VERSION}"),
            kind: self.kind.clone(),
            plural: self.plural.clone(),
        }
    }

    /// One object, as the hub speaks of it.
    pub fn reference(&self, namespace: &str, name: &str, uid: &str) -> FederatedObject {
        FederatedObject {
            api_version: format!("{APPS_GROUP}/{VERSION}"),
            kind: self.kind.clone(),
            namespace: self.is_namespaced.then(|| namespace.to_owned()),
            name: name.to_owned(),
            uid: uid.to_owned(),
        }
    }
}

impl FromStr for Named {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) =
            text.split_once('/').filter(|(_, name)| !name.is_empty()).ok_or("must be KIND/NAME")?;
        let known = || -> String {
            let all = Federated::all().into_iter().map(|(it, _)| it.kind.to_lowercase());
            all.collect::<Vec<_>>().join(", ")
        };
        let kind = Federated::find(kind)
            .ok_or_else(|| format!("{kind:?} is no kind of the fleet: one of {}", known()))?;
        Ok(Self { kind, name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_all_their_names() {
        for word in ["cloneset", "CloneSet", "clonesets", "clone", "clonesets.apps.kruise.io"] {
            let named: Named = format!("{word}/web").parse().unwrap();
            assert_eq!((named.kind.kind.as_str(), named.name.as_str()), ("CloneSet", "web"));
        }
        assert!(!Federated::find("sidecarset").unwrap().is_namespaced);
        assert_eq!("web".parse::<Named>().unwrap_err(), "must be KIND/NAME");
    }
}
