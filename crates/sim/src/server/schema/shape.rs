//! How lists and maps merge: by key, as sets, or as one value.
//!
//! Custom resources say so in their schema. For built-in kinds a short table of field names does: the names mean the
//! same thing wherever a pod template appears, so a path is matched by its end.

use serde_json::Value;

/// What is known about one place in an object.
#[derive(Debug, Clone, Copy)]
pub enum Shape<'a> {
    /// A built-in kind, at a path of field names. The path holds the last two.
    Builtin {
        /// The field this place is in, and the field that field is in.
        path: [&'a str; 2],
        /// How deep the place is.
        depth: usize,
    },
    /// A custom resource, with the schema of this place.
    Schema(&'a Value),
    /// Below a field whose content no schema describes.
    Untyped,
}

/// How a list merges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind<'a> {
    /// As one value.
    Atomic,
    /// As a set of scalars.
    Set,
    /// By these members of each item.
    Keyed(Keys<'a>),
}

/// The members that identify an item of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys<'a> {
    /// From the table of built-in kinds, with the default a missing member stands for.
    Known(&'static [(&'static str, Option<&'static str>)]),
    /// From a schema.
    Named(&'a Value, &'a Value),
}

/// `(parent or "*", field, keys)`; the first that fits counts. No keys: a set.
type Row = (&'static str, &'static str, &'static [(&'static str, Option<&'static str>)]);

const NAME: &[(&str, Option<&str>)] = &[("name", None)];
const KEYED: &[Row] = &[
    ("metadata", "finalizers", &[]),
    ("metadata", "ownerReferences", &[("uid", None)]),
    ("spec", "containers", NAME),
    ("spec", "initContainers", NAME),
    ("spec", "ephemeralContainers", NAME),
    ("spec", "volumes", NAME),
    ("spec", "imagePullSecrets", NAME),
    ("spec", "hostAliases", &[("ip", None)]),
    ("spec", "schedulingGates", NAME),
    ("spec", "resourceClaims", NAME),
    ("spec", "topologySpreadConstraints", &[("topologyKey", None), ("whenUnsatisfiable", None)]),
    ("spec", "ports", &[("port", None), ("protocol", Some("TCP"))]),
    ("*", "ports", &[("containerPort", None), ("protocol", Some("TCP"))]),
    ("*", "env", NAME),
    ("*", "volumeMounts", &[("mountPath", None)]),
    ("*", "volumeDevices", &[("devicePath", None)]),
    ("*", "conditions", &[("type", None)]),
    ("status", "podIPs", &[("ip", None)]),
    ("status", "hostIPs", &[("ip", None)]),
    ("status", "addresses", &[("type", None)]),
    ("spec", "podCIDRs", &[]),
    ("", "secrets", NAME),
    ("", "imagePullSecrets", NAME),
    ("", "webhooks", NAME),
];

const ATOMIC_MAPS: &[&str] = &[
    "selector",
    "nodeSelector",
    "labelSelector",
    "fieldRef",
    "resourceFieldRef",
    "configMapKeyRef",
    "secretKeyRef",
    "claimRef",
    "targetRef",
    "involvedObject",
    "scaleTargetRef",
];

const STRING_MAPS: &[&str] = &[
    "labels",
    "annotations",
    "data",
    "binaryData",
    "stringData",
    "limits",
    "requests",
    "capacity",
    "allocatable",
    "hard",
    "used",
    "allocatedResources",
    "options",
    "parameters",
    "matchLabels",
];

impl<'a> Shape<'a> {
    /// The top of an object.
    pub fn root(schema: Option<&'a Value>) -> Self {
        match schema {
            Some(schema) => Self::Schema(schema),
            None => Self::Builtin { path: ["", ""], depth: 0 },
        }
    }

    /// The place of a member.
    pub fn member(self, name: &'a str) -> Self {
        match self {
            Self::Builtin { path, depth } => Self::Builtin { path: [path[1], name], depth: depth + 1 },
            // Metadata is the same everywhere, and schemas do not describe it.
            Self::Schema(schema)
                if name == "metadata" && schema["properties"]["metadata"]["properties"].is_null() =>
            {
                Self::Builtin { path: ["", "metadata"], depth: 1 }
            }
            Self::Schema(schema) => {
                let property = &schema["properties"][name];
                let additional = &schema["additionalProperties"];
                if property.is_object() {
                    Self::Schema(property)
                } else if additional.is_object() {
                    Self::Schema(additional)
                } else {
                    Self::Untyped
                }
            }
            Self::Untyped => Self::Untyped,
        }
    }

    /// The place of an item.
    pub fn item(self) -> Self {
        match self {
            Self::Schema(schema) if schema["items"].is_object() => Self::Schema(&schema["items"]),
            Self::Schema(_) | Self::Untyped => Self::Untyped,
            builtin @ Self::Builtin { .. } => builtin,
        }
    }

    /// How a list at this place merges.
    pub fn list(self) -> ListKind<'a> {
        match self {
            Self::Untyped => ListKind::Atomic,
            Self::Schema(schema) => match schema["x-kubernetes-list-type"].as_str() {
                Some("map") => {
                    ListKind::Keyed(Keys::Named(&schema["x-kubernetes-list-map-keys"], &schema["items"]))
                }
                Some("set") => ListKind::Set,
                _ => ListKind::Atomic,
            },
            Self::Builtin { path: [parent, field], depth } => {
                let fits = |row: &&Row| {
                    row.1 == field && (row.0 == "*" || row.0 == parent && (!row.0.is_empty() || depth == 1))
                };
                match KEYED.iter().find(fits) {
                    Some((_, _, [])) => ListKind::Set,
                    Some((_, _, keys)) => ListKind::Keyed(Keys::Known(keys)),
                    None => ListKind::Atomic,
                }
            }
        }
    }

    /// Whether a map at this place is one value.
    pub fn is_atomic_map(self) -> bool {
        match self {
            Self::Schema(schema) => schema["x-kubernetes-map-type"] == "atomic",
            Self::Untyped => false,
            // An owner reference is replaced as a whole, though the list of them is keyed.
            Self::Builtin { path: [parent, field], .. } => {
                ATOMIC_MAPS.contains(&field) && !(field == "selector" && parent == "status")
                    || (parent == "metadata" && field == "ownerReferences")
            }
        }
    }

    /// Whether the members at this place are free keys and not declared fields.
    pub fn has_free_keys(self) -> bool {
        match self {
            Self::Schema(schema) => schema["properties"].is_null(),
            Self::Untyped => true,
            Self::Builtin { path: [_, field], .. } => STRING_MAPS.contains(&field),
        }
    }
}

impl Keys<'_> {
    /// The key members of an item, with defaults; `None` when one is missing.
    pub fn of(&self, item: &Value) -> Option<Vec<(String, Value)>> {
        match self {
            Self::Known(keys) => keys
                .iter()
                .map(|(name, default)| {
                    let value = match (&item[*name], default) {
                        (Value::Null, Some(text)) => Value::from(*text),
                        (Value::Null, None) => return None,
                        (value, _) => value.clone(),
                    };
                    Some(((*name).to_owned(), value))
                })
                .collect(),
            Self::Named(keys, items) => {
                let names = keys.as_array().into_iter().flatten().filter_map(Value::as_str);
                names
                    .map(|name| {
                        let value = match &item[name] {
                            Value::Null => &items["properties"][name]["default"],
                            value => value,
                        };
                        (!value.is_null()).then(|| (name.to_owned(), value.clone()))
                    })
                    .collect()
            }
        }
    }
}
