//! From one served version to another, without losing anything.
//!
//! Conversions work on JSON, so fields that this build does not know pass through. Where one version can say
//! something that the other cannot, the value travels in the annotation [`PRESERVED`] and comes back with the object;
//! how that stays safe against edits in between is told in `preserve`.

mod path;
mod preserve;

use serde_json::Value;

pub(crate) use path::Path;
pub(crate) use preserve::Facet;

use super::{cloneset, container_recreate_request, node_image, resource_distribution, sidecarset};

/// Annotation that carries what the object's present version cannot express.
///
/// It is written and removed by conversion only. Removing it by hand loses what it holds and nothing else.
pub const PRESERVED: &str = "apps.kruise.io/conversion-preserved";

/// Why an object could not be converted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// The object does not say what it is.
    #[error("the object has no {field}")]
    NotAnObject {
        /// The field that is missing or not a string.
        field: &'static str,
    },
    /// The kind is not one of ours, or has only one version.
    #[error("there is no conversion for {kind} of {api_version}")]
    UnknownKind {
        /// The object's apiVersion.
        api_version: String,
        /// The object's kind.
        kind: String,
    },
    /// The wanted version does not exist for this kind.
    #[error("{kind} cannot be converted to {desired}")]
    UnknownVersion {
        /// The object's kind.
        kind: String,
        /// The apiVersion that was asked for.
        desired: String,
    },
}

/// Returns `object` as `desired_api_version` (group and version, such as `apps.kruise.io/v1beta1`) shows it.
pub fn convert(object: Value, desired_api_version: &str) -> Result<Value, Error> {
    let api_version = text(&object, "apiVersion")?.to_owned();
    let kind = text(&object, "kind")?.to_owned();
    let from = Version::parse(&api_version);
    let (Some(from), Some(shape)) = (from, shape_of(&kind)) else {
        return Err(Error::UnknownKind { api_version, kind });
    };
    let Some(to) = Version::parse(desired_api_version) else {
        return Err(Error::UnknownVersion { kind, desired: desired_api_version.to_owned() });
    };
    if from == to {
        return Ok(object);
    }
    Ok(preserve::convert(object, &shape, to))
}

/// The versions in which the kinds of OpenKruise are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    Alpha,
    Beta,
}

impl Version {
    fn parse(api_version: &str) -> Option<Self> {
        match api_version {
            super::APPS_V1ALPHA1 => Some(Self::Alpha),
            super::APPS_V1BETA1 => Some(Self::Beta),
            _ => None,
        }
    }

    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::Alpha => super::APPS_V1ALPHA1,
            Self::Beta => super::APPS_V1BETA1,
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Alpha => Self::Beta,
            Self::Beta => Self::Alpha,
        }
    }
}

/// What conversion knows about one kind.
#[derive(Debug)]
pub(crate) struct Shape {
    /// Turns a v1alpha1 object into the nearest v1beta1 one, as upstream does.
    pub(crate) to_beta: fn(&mut Value),
    /// Turns a v1beta1 object into the nearest v1alpha1 one, as upstream does.
    pub(crate) to_alpha: fn(&mut Value),
    /// What the given version has and the other one cannot always express, finest parts first. The object, in
    /// either version, tells about parts that exist once per list entry.
    pub(crate) facets: fn(Version, &Value) -> Vec<Facet>,
    /// Whether the object is one of the given version as far as types go.
    pub(crate) decodes: fn(Version, &Value) -> bool,
}

impl Shape {
    /// For kinds that look the same in both versions.
    const SAME: Self =
        Self { to_beta: |_| {}, to_alpha: |_| {}, facets: |_, _| Vec::new(), decodes: |_, _| true };

    fn forward(&self, object: &mut Value, to: Version) {
        match to {
            Version::Alpha => (self.to_alpha)(object),
            Version::Beta => (self.to_beta)(object),
        }
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".to_owned(), to.api_version().into());
        }
    }
}

/// Whether `object` decodes as `A` (v1alpha1) or `B` (v1beta1).
pub(crate) fn decodes_as<A, B>(version: Version, object: &Value) -> bool
where
    A: serde::de::DeserializeOwned,
    B: serde::de::DeserializeOwned,
{
    match version {
        Version::Alpha => A::deserialize(object).is_ok(),
        Version::Beta => B::deserialize(object).is_ok(),
    }
}

fn shape_of(kind: &str) -> Option<Shape> {
    match kind {
        "CloneSet" => Some(cloneset::convert::SHAPE),
        "SidecarSet" => Some(sidecarset::convert::SHAPE),
        "ResourceDistribution" => Some(resource_distribution::convert::SHAPE),
        "NodeImage" => Some(node_image::convert::SHAPE),
        "ContainerRecreateRequest" => Some(container_recreate_request::convert::SHAPE),
        "ImagePullJob" | "ImageListPullJob" => Some(Shape::SAME),
        _ => None,
    }
}

fn text<'a>(object: &'a Value, field: &'static str) -> Result<&'a str, Error> {
    object.get(field).and_then(Value::as_str).ok_or(Error::NotAnObject { field })
}
