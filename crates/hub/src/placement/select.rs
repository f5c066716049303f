//! Which clusters does a policy select, and why not the others?

use std::{collections::BTreeMap, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kruise_core::api::fleet::{
    member_cluster::{ClusterTaint, MemberCluster, TaintEffect},
    policy::{
        ClusterScope, ClusterSelector, FieldKey, FieldOperator, FieldRequirement, Placement, Tier,
        Toleration, TolerationOperator,
    },
};
use scheduling::names::ClusterName;

/// A cluster as policies see it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClusterFacts {
    /// Its name.
    pub name: String,
    /// Labels of its MemberCluster.
    pub labels: BTreeMap<String, String>,
    /// The region it is in.
    pub region: Option<String>,
    /// The zone it is in.
    pub zone: Option<String>,
    /// Who runs the machines.
    pub provider: Option<String>,
    /// Version of its API server.
    pub version: String,
    /// What keeps objects away.
    pub taints: Vec<ClusterTaint>,
    /// Kinds that it serves, as `group/version/Kind`.
    pub apis: Vec<String>,
    /// What its agent can do beyond the first version of the protocol.
    pub features: Vec<String>,
    /// Whether a drain takes pods with volumes of their own as well (CS-5).
    pub moves_stateful: bool,
}

impl From<&MemberCluster> for ClusterFacts {
    fn from(member: &MemberCluster) -> Self {
        let status = member.status.clone().unwrap_or_default();
        Self {
            name: member.metadata.name.clone().unwrap_or_default(),
            labels: member.metadata.labels.clone().unwrap_or_default(),
            region: member.spec.region.clone(),
            zone: member.spec.zone.clone(),
            provider: member.spec.provider.clone(),
            version: status.versions.kubernetes,
            taints: member.spec.taints.clone(),
            apis: status.apis,
            features: status.features,
            moves_stateful: member.spec.move_stateful,
        }
    }
}

impl ClusterFacts {
    /// Its name as `scheduling` has it.
    pub fn cluster_name(&self) -> ClusterName {
        ClusterName::from(self.name.as_str())
    }

    /// Its value of a topology key: `region`, `zone`, `provider`, or a label.
    pub fn group(&self, key: &str) -> Option<&str> {
        match key {
            "region" => self.region.as_deref(),
            "zone" => self.zone.as_deref(),
            "provider" => self.provider.as_deref(),
            label => self.labels.get(label).map(String::as_str),
        }
    }

    /// Whether its agent can do this beyond the first version of the protocol.
    pub fn can(&self, feature: &str) -> bool {
        self.features.iter().any(|it| it == feature)
    }

    /// Whether it serves a kind in some version.
    pub fn serves(&self, group: &str, kind: &str) -> bool {
        self.apis.iter().any(|it| {
            let mut parts = it.splitn(3, '/');
            let (Some(theirs), Some(_), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
                return false;
            };
            theirs == group && name == kind
        })
    }
}

/// Whether a policy lets a cluster run an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// It does, in this tier.
    Selected {
        /// Place of the tier.
        tier: u32,
    },
    /// It keeps what it has and gets nothing new: a taint is not tolerated.
    NothingNew {
        /// Place of the tier.
        tier: u32,
        /// Key of the taint.
        taint: String,
    },
    /// It does not.
    Not(NotSelected),
    /// It does, but the cluster lacks the kind: frozen if it runs the object already, else left out.
    Unsupported {
        /// Place of the tier.
        tier: u32,
        /// What is lacking, as `group/Kind`.
        lacking: String,
    },
}

/// Why a policy does not select a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotSelected {
    /// Its labels do not match.
    Labels,
    /// Its region, zone, provider or version does not match.
    Field(&'static str),
    /// It is not among the names.
    Name,
    /// It is excluded by name.
    Excluded,
    /// A taint that evicts is not tolerated.
    Taint(String),
    /// It is in none of the tiers.
    NoTier,
}

/// Judges one cluster for objects of one kind.
pub fn select(placement: &Placement, cluster: &ClusterFacts, group: &str, kind: &str) -> Selection {
    let ClusterScope { selector, exclude, tolerations } = &placement.clusters;
    if exclude.contains(&cluster.name) {
        return Selection::Not(NotSelected::Excluded);
    }
    if let Some(why) = mismatch(selector, cluster) {
        return Selection::Not(why);
    }
    let taint = |effect| {
        let untolerated =
            |it: &&ClusterTaint| !tolerations.iter().any(|toleration| tolerates(toleration, it));
        cluster.taints.iter().filter(|it| it.effect == effect).find(untolerated).map(|it| it.key.clone())
    };
    if let Some(key) = taint(TaintEffect::NoExecute) {
        return Selection::Not(NotSelected::Taint(key));
    }
    let Some(tier) = tier(&placement.tiers, cluster) else {
        return Selection::Not(NotSelected::NoTier);
    };
    if !cluster.serves(group, kind) {
        return Selection::Unsupported { tier, lacking: format!("{group}/{kind}") };
    }
    match taint(TaintEffect::NoSchedule) {
        Some(taint) => Selection::NothingNew { tier, taint },
        None => Selection::Selected { tier },
    }
}

/// Whether a selector selects a cluster. One that says nothing selects all.
pub fn selects(selector: &ClusterSelector, cluster: &ClusterFacts) -> bool {
    mismatch(selector, cluster).is_none()
}

/// Whether labels match a selector. One that says nothing matches all; a rule that cannot be read matches nothing.
pub fn labels_match(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let wanted = selector.match_labels.iter().flatten();
    let mut rules = selector.match_expressions.iter().flatten();
    wanted.into_iter().all(|(key, value)| labels.get(key) == Some(value))
        && rules.all(|rule| {
            let value = labels.get(&rule.key);
            let is_listed = value.is_some_and(|it| rule.values.iter().flatten().any(|listed| listed == it));
            match rule.operator.as_str() {
                "In" => is_listed,
                "NotIn" => !is_listed,
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

fn mismatch(selector: &ClusterSelector, cluster: &ClusterFacts) -> Option<NotSelected> {
    let ClusterSelector { label_selector, field_selector, names } = selector;
    if !names.is_empty() && !names.contains(&cluster.name) {
        return Some(NotSelected::Name);
    }
    if label_selector.as_ref().is_some_and(|it| !labels_match(it, &cluster.labels)) {
        return Some(NotSelected::Labels);
    }
    let field = field_selector.iter().find(|it| !field_matches(it, cluster))?;
    Some(NotSelected::Field(match field.key {
        FieldKey::Region => "region",
        FieldKey::Zone => "zone",
        FieldKey::Provider => "provider",
        FieldKey::Version => "version",
    }))
}

fn field_matches(rule: &FieldRequirement, cluster: &ClusterFacts) -> bool {
    let value = match rule.key {
        FieldKey::Region => cluster.region.as_deref(),
        FieldKey::Zone => cluster.zone.as_deref(),
        FieldKey::Provider => cluster.provider.as_deref(),
        FieldKey::Version => Some(cluster.version.as_str()).filter(|it| !it.is_empty()),
    };
    let is_version = rule.key == FieldKey::Version;
    let is = |wanted: &String| match value {
        Some(value) if is_version => version(value).is_some_and(|it| starts_with(&it, wanted)),
        Some(value) => value == wanted,
        None => false,
    };
    let compare = || Some(version(value?)?.cmp(&version(rule.values.first()?)?));
    match rule.operator {
        FieldOperator::In => rule.values.iter().any(is),
        FieldOperator::NotIn => !rule.values.iter().any(is),
        FieldOperator::AtLeast => compare().is_some_and(|it| it.is_ge()),
        FieldOperator::Below => compare().is_some_and(|it| it.is_lt()),
    }
}

/// `v1.34.4+vendor` as numbers. What follows the numbers is the vendor's.
pub fn version(text: &str) -> Option<[u32; 3]> {
    let mut numbers = [0; 3];
    let text = text.strip_prefix('v').unwrap_or(text);
    let plain = text.split(['+', '-']).next()?;
    for (place, part) in plain.split('.').enumerate() {
        *numbers.get_mut(place)? = part.parse().ok()?;
    }
    Some(numbers)
}

/// `1.34` names all of 1.34.
fn starts_with(found: &[u32; 3], wanted: &str) -> bool {
    let plain = wanted.strip_prefix('v').unwrap_or(wanted).split(['+', '-']).next().unwrap_or_default();
    let parts: Option<Vec<u32>> = plain.split('.').map(|it| it.parse().ok()).collect();
    parts.is_some_and(|it| it.len() <= found.len() && found[..it.len()] == it[..])
}

fn tolerates(toleration: &Toleration, taint: &ClusterTaint) -> bool {
    let Toleration { key, operator, value, effect } = toleration;
    let same_effect = effect.is_none_or(|it| it == taint.effect);
    let same_key = match key {
        Some(key) => *key == taint.key,
        None => *operator == TolerationOperator::Exists,
    };
    let same_value = *operator == TolerationOperator::Exists
        || value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default();
    same_effect && same_key && same_value
}

/// The first tier that selects the cluster; all are in one tier where there are none.
fn tier(tiers: &[Tier], cluster: &ClusterFacts) -> Option<u32> {
    if tiers.is_empty() {
        return Some(0);
    }
    tiers.iter().position(|it| selects(&it.clusters, cluster)).map(|it| it as u32)
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Selected { tier } => write!(f, "selected, tier {tier}"),
            Self::NothingNew { taint, .. } => write!(f, "gets nothing new: taint {taint} is not tolerated"),
            Self::Unsupported { lacking, .. } => write!(f, "APINotSupported: it does not serve {lacking}"),
            Self::Not(why) => match why {
                NotSelected::Labels => f.write_str("its labels do not match"),
                NotSelected::Field(field) => write!(f, "its {field} does not match"),
                NotSelected::Name => f.write_str("it is not among the names"),
                NotSelected::Excluded => f.write_str("it is excluded by name"),
                NotSelected::Taint(key) => write!(f, "taint {key} is not tolerated"),
                NotSelected::NoTier => f.write_str("it is in none of the tiers"),
            },
        }
    }
}

#[cfg(test)]
mod tests;
