//! The clusters of the fleet: how they stand, and taking them out of use.

use std::{collections::BTreeMap, time::Duration};

use ::hub::{members::access::LEASE, names};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kruise_core::api::fleet::{
    Slice,
    assignment::{Assignment, Intent},
    keys,
    member_cluster::MemberCluster,
};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};

use crate::{
    Answer, Error,
    connection::{self, Hub},
    leaving,
    table::{age, or_dash, table},
};

/// What is done to a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// Nothing new.
    Cordon,
    /// As any other.
    Uncordon,
    /// Everything away.
    Drain {
        /// Pods with volumes of their own as well, without the volumes (CS-5).
        move_stateful: bool,
    },
}

impl Mark {
    fn change(self) -> Value {
        match self {
            Self::Cordon => json!({ "unschedulable": true }),
            // The next drain is asked again.
            Self::Uncordon => json!({ "unschedulable": false, "drain": false, "moveStateful": false }),
            Self::Drain { move_stateful: true } => json!({ "drain": true, "moveStateful": true }),
            // Who drains a second time does not take back what was said the first time.
            Self::Drain { move_stateful: false } => json!({ "drain": true }),
        }
    }

    fn told(self, cluster: &str) -> String {
        match self {
            Self::Cordon => format!("{cluster} is cordoned: it keeps what it has and gets nothing new"),
            Self::Uncordon => format!("{cluster} is used again"),
            Self::Drain { .. } => {
                format!(
                    "{cluster} is being drained; `kubectl fleet get clusters` and `kubectl fleet status` show how far it is"
                )
            }
        }
    }
}

/// `get clusters`
pub async fn list(hub: &Hub) -> Result<Answer, Error> {
    let members: Api<MemberCluster> = hub.all();
    let mut found = connection::list(&members, &ListParams::default()).await?;
    found.sort_by_key(ResourceExt::name_any);
    let leases: Api<Lease> = hub.all();
    let heard = match connection::list(&leases, &ListParams::default().labels(keys::CLUSTER)).await {
        Ok(leases) => heard(&leases),
        // Who may see clusters need not be somebody who may see Leases.
        Err(Error::Call(error)) if error.code() == Some(403) => BTreeMap::new(),
        Err(error) => return Err(error),
    };
    let text = if found.is_empty() {
        "there are no clusters; `kubectl fleet join NAME --print` lets one in".to_owned()
    } else {
        shown(&found, &heard, hub.clock.now())
    };
    let of = |it: &MemberCluster| {
        let heard = heard.get(&names::cluster_namespace(&it.name_any()))?;
        Some((it.name_any(), heard.to_string()))
    };
    let heard: BTreeMap<String, String> = found.iter().filter_map(of).collect();
    Ok(Answer::done(text, json!({ "items": found, "heard": heard })))
}

/// When each cluster's agent last renewed its Lease, by the namespace of the cluster: a cluster that reports has no age in its
/// status, because it would be written every few seconds. The hub's API server notes the time of the write; only where it does
/// not, the agent's own clock is believed.
fn heard(leases: &[Lease]) -> BTreeMap<String, Timestamp> {
    let renewed = |it: &Lease| {
        let noted =
            it.metadata.managed_fields.iter().flatten().filter_map(|it| it.time.as_ref()).map(|it| it.0);
        let said = it.spec.as_ref().and_then(|it| it.renew_time.as_ref()).map(|it| it.0);
        said?;
        noted.max().or(said)
    };
    let named = leases.iter().filter(|it| it.name_any() == LEASE);
    named.filter_map(|it| Some((it.namespace()?, renewed(it)?))).collect()
}

/// The columns of a MemberCluster (section 20).
fn shown(members: &[MemberCluster], heard: &BTreeMap<String, Timestamp>, now: Timestamp) -> String {
    let header = ["NAME", "STATE", "AGE-OF-REPORT", "VERSION", "REGION", "OBJECTS", "READY-PODS", "EPOCH"];
    let row = |it: &MemberCluster| {
        let status = it.status.clone().unwrap_or_default();
        let heard = heard.get(&names::cluster_namespace(&it.name_any())).copied();
        vec![
            it.name_any(),
            status.state.map_or_else(|| "Pending".to_owned(), |it| format!("{it:?}")),
            age(heard.or(status.last_report_time.map(|it| it.0)), now),
            or_dash(&status.versions.kubernetes),
            or_dash(it.spec.region.as_deref().unwrap_or_default()),
            status.objects.to_string(),
            status.ready_pods.to_string(),
            status.epoch.to_string(),
        ]
    };
    let mut text = table(&header, &members.iter().map(row).collect::<Vec<_>>());
    for held in members.iter().filter_map(leaving::held) {
        text = format!("{text}\n{held}");
    }
    text
}

/// `cordon` and `uncordon`
pub async fn mark(hub: &Hub, cluster: &str, mark: Mark) -> Result<Answer, Error> {
    let members: Api<MemberCluster> = hub.all();
    connection::get(&members, "cluster", cluster).await?;
    let changed = connection::patch(&members, cluster, &json!({ "spec": mark.change() })).await?;
    let value = json!({
        "cluster": cluster, "unschedulable": changed.spec.unschedulable, "drain": changed.spec.drain,
    });
    Ok(Answer::done(mark.told(cluster), value))
}

/// `drain`, as `how` says.
pub async fn drain(hub: &Hub, cluster: &str, how: Mark, timeout: Duration) -> Result<Answer, Error> {
    let asked = mark(hub, cluster, how).await?;
    if timeout.is_zero() {
        return Ok(asked);
    }
    let shares: Api<Assignment> = hub.within(&names::cluster_namespace(cluster));
    hub.wait(
        timeout,
        &format!("{cluster} is empty; `kubectl fleet explain` says what holds it up"),
        async || {
            let found = connection::list(&shares, &ListParams::default()).await?;
            Ok(found.iter().all(is_empty).then_some(()))
        },
    )
    .await?;
    Ok(Answer::done(
        format!("{cluster} is empty"),
        json!({ "cluster": cluster, "drain": true, "empty": true }),
    ))
}

/// Whether a cluster has nothing of an object, and says so.
fn is_empty(share: &Assignment) -> bool {
    let status = share.status.clone().unwrap_or_default();
    let is_nothing = share.spec.intent != Intent::Apply
        || match &share.spec.slice {
            Some(Slice::CloneSet(slice)) => slice.replicas == 0,
            // A job has no pods that could be moved: it is in nobody's way once nothing is downloaded for it.
            Some(Slice::ImagePullJob(_)) => status.counts.active.unwrap_or_default() == 0,
            Some(Slice::Whole(_)) | None => false,
        };
    is_nothing && status.applied_seq >= share.spec.seq && status.counts.replicas == 0
}

#[cfg(test)]
mod tests {
    use kruise_core::api::fleet::{
        CloneSetSlice, Counts, PullSlice,
        assignment::{AssignmentSpec, AssignmentStatus},
        member_cluster::{ClusterState, MemberClusterSpec, MemberClusterStatus},
    };

    use super::*;

    #[test]
    fn clusters_are_shown_with_the_columns_of_the_specification() {
        let mut first =
            MemberCluster::new("eu-1", MemberClusterSpec { region: Some("eu".into()), ..Default::default() });
        first.status =
            Some(MemberClusterStatus { state: Some(ClusterState::Ready), objects: 3, ..Default::default() });
        let lease = |namespace: &str, said: &str, noted: &str| -> Lease {
            let managed = json!([{"manager": "agent", "operation": "Update", "time": noted}]);
            let metadata = json!({"name": "agent", "namespace": namespace, "managedFields": managed});
            let lease = json!({"metadata": metadata, "spec": {"renewTime": said}});
            serde_json::from_value(lease).unwrap()
        };
        // The second one's clock is wrong by an hour.
        let heard = heard(&[
            lease("fleet-eu-1", "1970-01-01T00:00:58.000000Z", "1970-01-01T00:00:58Z"),
            lease("fleet-eu-2", "1970-01-01T01:00:00.000000Z", "1970-01-01T00:00:55Z"),
        ]);
        let now = Timestamp::from_second(60).unwrap();
        let others = ["eu-2", "us-1"].map(|it| MemberCluster::new(it, Default::default()));
        let text = shown(&[&[first][..], &others].concat(), &heard, now);
        assert_eq!(
            text,
            "NAME   STATE     AGE-OF-REPORT   VERSION   REGION   OBJECTS   READY-PODS   EPOCH\n\
             eu-1   Ready     2s              -         eu       3         0            0\n\
             eu-2   Pending   5s              -         -        0         0            0\n\
             us-1   Pending   -               -         -        0         0            0"
        );
    }

    #[test]
    fn a_cluster_is_empty_when_it_says_so_and_not_when_it_was_told_to_be() {
        let slice = |replicas| Some(Slice::CloneSet(CloneSetSlice { replicas, ..Default::default() }));
        let share = |replicas, applied, pods| Assignment {
            spec: AssignmentSpec { seq: 5, slice: slice(replicas), ..Default::default() },
            status: Some(AssignmentStatus {
                applied_seq: applied,
                counts: Counts { replicas: pods, ..Default::default() },
                ..Default::default()
            }),
            ..Default::default()
        };
        let job = |active, applied| Assignment {
            spec: AssignmentSpec {
                seq: 5,
                slice: Some(Slice::ImagePullJob(PullSlice::default())),
                ..Default::default()
            },
            status: Some(AssignmentStatus {
                applied_seq: applied,
                counts: Counts { active: Some(active), succeeded: Some(2), ..Default::default() },
                ..Default::default()
            }),
            ..Default::default()
        };
        assert!(is_empty(&job(0, 5)) && !is_empty(&job(1, 5)) && !is_empty(&job(0, 4)));
        assert!(is_empty(&share(0, 5, 0)));
        assert!(!is_empty(&share(0, 4, 0)) && !is_empty(&share(0, 5, 1)) && !is_empty(&share(1, 5, 1)));
    }

    #[test]
    fn cs_5_a_drain_moves_pods_with_volumes_only_if_told_to() {
        assert_eq!(Mark::Drain { move_stateful: false }.change(), json!({ "drain": true }));
        let both = json!({ "drain": true, "moveStateful": true });
        assert_eq!(Mark::Drain { move_stateful: true }.change(), both);
    }

    #[test]
    fn uncordon_takes_back_a_drain_too() {
        let change = json!({ "unschedulable": false, "drain": false, "moveStateful": false });
        assert_eq!(Mark::Uncordon.change(), change);
    }
}
