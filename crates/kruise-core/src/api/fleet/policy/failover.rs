//! What happens when a cluster is lost.

use kube::core::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::schema;

/// What happens when a cluster is lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "duration(self.after) >= duration('80s')",
        "message": "after must be at least 80s, twice the time until a cluster counts as Offline", "fieldPath": ".after"
    },
    {
        "rule": "self.fencing != 'SelfFence' || has(self.fenceAfter)",
        "message": "fencing SelfFence needs fenceAfter", "fieldPath": ".fencing"
    },
    {
        "rule": "self.fencing != 'SelfFence' || !has(self.fenceAfter) || duration(self.after).getSeconds() * 100 >= (duration(self.fenceAfter) + duration(self.fenceGrace) + duration('40s')).getSeconds() * 102",
        "message": "after must be at least fenceAfter + fenceGrace + 40s, and 2% more", "fieldPath": ".after"
    }
]))]
pub struct Failover {
    /// Whether other clusters take over.
    pub enabled: bool,
    /// How long a cluster is Offline before it counts as Lost, at least 80s.
    #[schemars(schema_with = "schema::duration")]
    pub after: Duration,
    /// How much of the lost replicas may run twice, as a percentage.
    #[schemars(length(max = 4), regex(pattern = r"^(100|[1-9]?[0-9])%$"))]
    pub max_overlap: String,
    /// How it is made sure that the lost pods do not run any more.
    pub fencing: Fencing,
    /// How long the agent goes without the hub before it stops the pods, with `SelfFence`. An outage of the hub that
    /// lasts longer stops them too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::duration")]
    pub fence_after: Option<Duration>,
    /// How long stopped pods may take to end, with `SelfFence`.
    #[schemars(schema_with = "schema::duration")]
    pub fence_grace: Duration,
    /// What happens when the cluster is back.
    pub on_return: OnReturn,
    /// How many clusters may be replaced at the same time.
    #[schemars(range(min = 1))]
    pub max_clusters: u32,
}

impl Default for Failover {
    fn default() -> Self {
        Self {
            enabled: false,
            after: std::time::Duration::from_secs(300).into(),
            max_overlap: "100%".to_owned(),
            fencing: Fencing::default(),
            fence_after: None,
            fence_grace: std::time::Duration::from_secs(30).into(),
            on_return: OnReturn::default(),
            max_clusters: 1,
        }
    }
}

/// How it is made sure that lost pods do not run any more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Fencing {
    /// It is not.
    #[default]
    None,
    /// The cluster's agent and node daemons stop them by themselves.
    SelfFence,
    /// An operator says so.
    Manual,
}

/// What happens when a lost cluster is back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnReturn {
    /// Replacements stay where they are.
    #[default]
    Keep,
    /// Replicas move back.
    Failback,
}
