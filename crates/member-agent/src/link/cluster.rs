//! What this cluster is, told to the hub: which kinds it serves, what runs here and how much of it is the fleet's (section 4, and
//! HA-6).
//!
//! It is looked up now and then and written only where it changed, so that an agent at rest writes nothing.

use std::{collections::BTreeSet, time::Duration};

use kruise_core::{
    api::fleet::{
        assignment::{Assignment, Intent},
        member_cluster::{ClusterVersions, MemberClusterStatus},
    },
    runtime::{cache::Feed, client::Error, gates::Gates},
};
use serde_json::{Value, json};
use tracing::warn;

use super::{hub::Hub, member::Member};

/// How often it is looked up.
const EVERY: Duration = Duration::from_secs(60);
/// How soon after a failure, as long as the hub does not know us, and when the load changed.
const SOON: Duration = Duration::from_secs(10);

/// What the cluster is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Description {
    /// What runs here.
    pub versions: ClusterVersions,
    /// Kinds that are served and can be held, as `group/version/Kind`.
    pub apis: BTreeSet<String>,
    /// What the agent can do beyond the first version of the protocol.
    pub features: BTreeSet<String>,
    /// The epoch that the cluster is in.
    pub epoch: u64,
    /// What it has of the fleet; unknown as long as its Assignments are.
    pub load: Option<Load>,
}

/// How much of the fleet a cluster has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Load {
    /// Objects that it has a share of.
    pub objects: u32,
    /// Ready pods of them, as it reported them.
    pub ready_pods: u32,
}

impl Load {
    /// What these Assignments come to.
    pub fn of<'a>(assignments: impl IntoIterator<Item = &'a Assignment>) -> Self {
        let applied = assignments.into_iter().filter(|it| it.spec.intent == Intent::Apply);
        applied.fold(Self::default(), |Self { objects, ready_pods }, it| Self {
            objects: objects + 1,
            ready_pods: ready_pods.saturating_add(it.status.as_ref().map_or(0, |it| it.counts.ready)),
        })
    }
}

/// What to change in the status of the MemberCluster; nothing if the hub knows all of it.
pub fn news(status: &MemberClusterStatus, description: &Description) -> Option<Value> {
    let Description { versions, apis, features, epoch, load } = description;
    let told = Load { objects: status.objects, ready_pods: status.ready_pods };
    let load = load.unwrap_or(told);
    let is_told = |known: &[String], now: &BTreeSet<String>| {
        known.iter().collect::<BTreeSet<_>>() == now.iter().collect::<BTreeSet<_>>()
    };
    let is_known = status.versions == *versions
        && is_told(&status.apis, apis)
        && is_told(&status.features, features)
        && status.reported_epoch == Some(*epoch)
        && load == told;
    (!is_known).then(|| {
        json!({
            "versions": versions, "apis": apis, "features": features, "reportedEpoch": epoch,
            "objects": load.objects, "readyPods": load.ready_pods,
        })
    })
}

/// Tells the hub what this cluster is, for ever.
pub(super) async fn introduce(hub: &Hub, member: &Member, name: &str, gates: Gates) {
    let mut standing = hub.standings.subscribe();
    loop {
        // Whoever is refused has nothing to tell (JOIN-5).
        let _ = standing.wait_for(|it| it.lets_act()).await;
        let load = load(hub);
        match tell(hub, member, name, gates, load).await {
            Ok(true) => until_news(hub, load).await,
            Ok(false) => tokio::time::sleep(SOON).await,
            Err(error) => {
                warn!(
                    error = &error as &dyn std::error::Error,
                    label = error.label(),
                    "the hub does not know this cluster yet"
                );
                tokio::time::sleep(SOON).await;
            }
        }
    }
}

/// Waits until it is time to look again: soon if the load is another one than was told.
async fn until_news(hub: &Hub, told: Option<Load>) {
    let mut waited = Duration::ZERO;
    while waited < EVERY {
        tokio::time::sleep(SOON).await;
        waited += SOON;
        if load(hub) != told {
            return;
        }
    }
}

fn load(hub: &Hub) -> Option<Load> {
    let assignments = hub.assignments.is_synced().then(|| hub.assignments.all())?;
    Some(Load::of(assignments.iter().filter_map(|it| it.0.as_ref().ok())))
}

/// Whether the hub has this cluster and knows it.
async fn tell(
    hub: &Hub,
    member: &Member,
    name: &str,
    gates: Gates,
    load: Option<Load>,
) -> Result<bool, Error> {
    let Some(cluster) = hub.cluster(name).await? else { return Ok(false) };
    let status = cluster.status.unwrap_or_default();
    let kubernetes = member.version().await.unwrap_or(status.versions.kubernetes.clone());
    let description = Description {
        versions: ClusterVersions { kubernetes, agent: env!("CARGO_PKG_VERSION").to_owned() },
        apis: member.served(gates).await?,
        features: member.features(gates),
        epoch: status.epoch,
        load,
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
            features: BTreeSet::from(["Capacity".to_owned()]),
            epoch: 0,
            load: None,
        };
        let mut status = MemberClusterStatus::default();
        let told = news(&status, &description).unwrap();
        assert_eq!(told["apis"], json!(["apps.kruise.io/v1beta1/CloneSet"]));
        status.versions = description.versions.clone();
        status.apis = description.apis.iter().cloned().collect();
        status.reported_epoch = Some(0);
        assert_eq!(news(&status, &description).unwrap()["features"], json!(["Capacity"]));
        status.features = description.features.iter().cloned().collect();
        status.reported_epoch = None;
        // The cluster has not been heard in this epoch yet.
        assert!(news(&status, &description).is_some());
        status.reported_epoch = Some(0);
        assert_eq!(news(&status, &description), None);
        assert!(news(&status, &Description { epoch: 1, ..description.clone() }).is_some());
        // While it is not known what it has, what was told stands.
        (status.objects, status.ready_pods) = (2, 7);
        assert_eq!(news(&status, &description), None);
        let load = Some(Load { objects: 2, ready_pods: 8 });
        let told = news(&status, &Description { load, ..description }).unwrap();
        assert_eq!((&told["objects"], &told["readyPods"]), (&json!(2), &json!(8)));
    }

    #[test]
    fn a_share_that_is_being_deleted_is_none() {
        let share = |intent, ready| {
            let mut it = Assignment::default();
            it.spec.intent = intent;
            it.status.get_or_insert_default().counts.ready = ready;
            it
        };
        let all = [
            share(Intent::Apply, 3),
            share(Intent::Apply, 4),
            share(Intent::Delete, 5),
            share(Intent::Ask, 0),
        ];
        assert_eq!(Load::of(&all), Load { objects: 2, ready_pods: 7 });
    }
}
