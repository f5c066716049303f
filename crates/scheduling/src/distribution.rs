//! What a ResourceDistribution reached, counted in namespaces over all clusters (RD-1).

use std::collections::BTreeMap;

use crate::names::ClusterName;

/// Failed namespaces that are listed by name; the rest is a count.
pub const LISTED: usize = 50;

/// What one cluster reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// The cluster.
    pub cluster: ClusterName,
    /// Namespaces that match there.
    pub desired: u32,
    /// Namespaces served.
    pub succeeded: u32,
    /// Namespaces not served, with the member's condition type.
    pub failed: Vec<(String, String)>,
}

/// The sum over the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// Namespaces that match.
    pub desired: u64,
    /// Namespaces served.
    pub succeeded: u64,
    /// Namespaces not served.
    pub failed: u64,
    /// Failed namespaces as `cluster/namespace`, by condition type, at most [`LISTED`] in all.
    pub listed: BTreeMap<String, Vec<String>>,
    /// Failed namespaces that are not listed.
    pub unlisted: u64,
}

/// Adds up all clusters. The order of the reports does not matter.
pub fn total(reports: &[Reached]) -> Totals {
    let mut totals = Totals::default();
    let mut failed: Vec<(&str, String)> = Vec::new();
    for report in reports {
        totals.desired += u64::from(report.desired);
        totals.succeeded += u64::from(report.succeeded);
        failed.extend(report.failed.iter().map(|it| (it.1.as_str(), format!("{}/{}", report.cluster, it.0))));
    }
    totals.failed = failed.len() as u64;
    failed.sort_unstable();
    totals.unlisted = failed.len().saturating_sub(LISTED) as u64;
    for (condition, name) in failed.into_iter().take(LISTED) {
        totals.listed.entry(condition.to_owned()).or_default().push(name);
    }
    totals
}
