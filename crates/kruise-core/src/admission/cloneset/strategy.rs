//! The update strategy, wherever the version at hand keeps it.

use serde_json::Value;

use crate::admission::{Version, tree};

/// How pods are updated, in either version's words.
#[derive(Debug, Clone)]
pub(super) struct Strategy<'a> {
    /// What `updateStrategy.type` says.
    pub(super) kind: &'a str,
    /// Where the way of updating one pod is named.
    pub(super) policy_path: &'static str,
    /// The way of updating one pod; empty if it is not named.
    pub(super) policy: &'a str,
    /// Where the numbers are.
    pub(super) path: &'static str,
    /// What holds the numbers, if it is there.
    pub(super) rolling: Option<&'a Value>,
}

pub(super) const TYPE: &str = "spec.updateStrategy.type";
pub(super) const ON_DELETE: &str = "OnDelete";
pub(super) const IN_PLACE_ONLY: &str = "InPlaceOnly";
/// The ways of updating one pod.
pub(super) const POLICIES: [&str; 3] = ["ReCreate", "InPlaceIfPossible", IN_PLACE_ONLY];

impl<'a> Strategy<'a> {
    pub(super) fn of(object: &'a Value, version: Version) -> Self {
        let kind = tree::text(object, &["spec", "updateStrategy", "type"]).unwrap_or_default();
        match version {
            Version::V1Alpha1 => Self {
                kind,
                policy_path: TYPE,
                policy: if kind == ON_DELETE { "" } else { kind },
                path: "spec.updateStrategy",
                rolling: tree::at(object, &["spec", "updateStrategy"]),
            },
            Version::V1Beta1 => {
                let rolling = tree::at(object, &["spec", "updateStrategy", "rollingUpdate"]);
                Self {
                    kind,
                    policy_path: "spec.updateStrategy.rollingUpdate.podUpdatePolicy",
                    policy: rolling.and_then(|it| tree::text(it, &["podUpdatePolicy"])).unwrap_or_default(),
                    path: "spec.updateStrategy.rollingUpdate",
                    rolling,
                }
            }
        }
    }

    /// Whether pods wait until somebody deletes them.
    pub(super) fn is_on_delete(&self) -> bool {
        self.kind == ON_DELETE
    }

    /// Whether pods are ever changed in place.
    pub(super) fn is_in_place(&self) -> bool {
        !self.is_on_delete() && matches!(self.policy, "InPlaceIfPossible" | IN_PLACE_ONLY)
    }

    /// One of the numbers.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.rolling.and_then(|it| tree::at(it, &[name]))
    }

    /// The path of one of the numbers.
    pub(super) fn at(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }
}
