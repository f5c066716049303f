//! The clusters of the fleet: how they stand, and taking them out of use.

use std::time::Duration;

use ::hub::names;
use jiff::Timestamp;
use kruise_core::api::fleet::{
    Slice,
    assignment::{Assignment, Intent},
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
    Drain,
}

impl Mark {
    fn change(self) -> Value {
        match self {
            Self::Cordon => json!({ "unschedulable": true }),
            Self::Uncordon => json!({ "unschedulable": false, "drain": false }),
            Self::Drain => json!({ "drain": true }),
        }
    }

    fn told(self, cluster: &str) -> String {
        match self {
            Self::Cordon => format!("{cluster} is cordoned: it keeps what it has and gets nothing new"),
            Self::Uncordon => format!("{cluster} is used again"),
            Self::Drain => {
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
    let text = if found.is_empty() {
        "there are no clusters; `kubectl fleet join NAME --print` lets one in".to_owned()
    } else {
        shown(&found, hub.clock.now())
    };
    Ok(Answer::done(text, json!({ "items": found })))
}

/// The columns of a MemberCluster (section 20).
fn shown(members: &[MemberCluster], now: Timestamp) -> String {
    let header = ["NAME", "STATE", "AGE-OF-REPORT", "VERSION", "REGION", "OBJECTS", "READY-PODS", "EPOCH"];
    let row = |it: &MemberCluster| {
        let status = it.status.clone().unwrap_or_default();
        vec![
            it.name_any(),
            status.state.map_or_else(|| "Pending".to_owned(), |it| format!("{it:?}")),
            age(status.last_report_time.map(|it| it.0), now),
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

/// `drain`
pub async fn drain(hub: &Hub, cluster: &str, timeout: Duration) -> Result<Answer, Error> {
    let asked = mark(hub, cluster, Mark::Drain).await?;
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
        || matches!(&share.spec.slice, Some(Slice::CloneSet(slice)) if slice.replicas == 0);
    is_nothing && status.applied_seq >= share.spec.seq && status.counts.replicas == 0
}

#[cfg(test)]
mod tests {
    use kruise_core::api::fleet::{
        CloneSetSlice,
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
        let text = shown(&[first, MemberCluster::new("us-1", Default::default())], Timestamp::UNIX_EPOCH);
        assert_eq!(
            text,
            "NAME   STATE     AGE-OF-REPORT   VERSION   REGION   OBJECTS   READY-PODS   EPOCH\n\
             eu-1   Ready     -               -         eu       3         0            0\n\
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
                counts: kruise_core::api::fleet::Counts { replicas: pods, ..Default::default() },
                ..Default::default()
            }),
            ..Default::default()
        };
        assert!(is_empty(&share(0, 5, 0)));
        assert!(!is_empty(&share(0, 4, 0)) && !is_empty(&share(0, 5, 1)) && !is_empty(&share(1, 5, 1)));
    }

    #[test]
    fn uncordon_takes_back_a_drain_too() {
        assert_eq!(Mark::Uncordon.change(), json!({ "unschedulable": false, "drain": false }));
    }
}
