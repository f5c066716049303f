//! What this cluster is, told to the hub: which kinds it serves and what runs here (section 4, and HA-6).
//!
//! It is looked up now and then and written only where it changed, so that an agent at rest writes nothing.

use std::{collections::BTreeSet, time::Duration};

use kruise_core::{
    api::fleet::member_cluster::{ClusterVersions, MemberClusterStatus},
    runtime::client::Error,
};
use serde_json::{Value, json};
use tracing::warn;

use super::{hub::Hub, member::Member};

/// How often it is looked up.
const EVERY: Duration = Duration::from_secs(60);
/// How soon after a failure, or as long as the hub does not know us.
const SOON: Duration = Duration::from_secs(10);

/// What the cluster is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Description {
    /// What runs here.
    pub versions: ClusterVersions,
    /// Kinds that are served and can be held, as `group/version/Kind`.
    pub apis: BTreeSet<String>,
    /// The epoch that the cluster is in.
    pub epoch: u64,
}

/// What to change in the status of the MemberCluster; nothing if the hub knows all of it.
pub fn news(status: &MemberClusterStatus, description: &Description) -> Option<Value> {
    let Description { versions, apis, epoch } = description;
    let known: BTreeSet<&String> = status.apis.iter().collect();
    let is_known = status.versions == *versions
        && known == apis.iter().collect()
        && status.reported_epoch == Some(*epoch);
    (!is_known).then(|| json!({"versions": versions, "apis": apis, "reportedEpoch": epoch}))
}

/// Tells the hub what this cluster is, for ever.
pub(super) async fn introduce(hub: &Hub, member: &Member, name: &str) {
    loop {
        let wait = match tell(hub, member, name).await {
            Ok(true) => EVERY,
            Ok(false) => SOON,
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    label = error.label(),
                    "the hub does not know this cluster yet"
                );
                SOON
            }
        };
        tokio::time::sleep(wait).await;
    }
}

/// Whether the hub has this cluster and knows it.
async fn tell(hub: &Hub, member: &Member, name: &str) -> Result<bool, Error> {
    let Some(cluster) = hub.cluster(name).await? else { return Ok(false) };
    let status = cluster.status.unwrap_or_default();
    let kubernetes = member.version().await.unwrap_or(status.versions.kubernetes.clone());
    let description = Description {
        versions: ClusterVersions { kubernetes, agent: env!("CARGO_PKG_VERSION").to_owned() },
        apis: member.served().await?,
        epoch: status.epoch,
    };
    if let Some(news) = news(&status, &description) {
        hub.introduce(name, &news).await?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_told() {
        let description = Description {
            versions: ClusterVersions { kubernetes: "v1.34.4".into(), agent: "0.1.0".into() },
            apis: BTreeSet::from(["apps.kruise.io/v1beta1/CloneSet".to_owned()]),
            epoch: 0,
        };
        let mut status = MemberClusterStatus::default();
        let told = news(&status, &description).unwrap();
        assert_eq!(told["apis"], json!(["apps.kruise.io/v1beta1/CloneSet"]));
        status.versions = description.versions.clone();
        status.apis = description.apis.iter().cloned().collect();
        // The cluster has not been heard in this epoch yet.
        assert!(news(&status, &description).is_some());
        status.reported_epoch = Some(0);
        assert_eq!(news(&status, &description), None);
        assert!(news(&status, &Description { epoch: 1, ..description }).is_some());
    }
}
