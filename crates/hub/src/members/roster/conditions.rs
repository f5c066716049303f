//! What is said of a cluster in its conditions.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kruise_core::api::fleet::{
    keys::cluster_conditions,
    member_cluster::{ClusterState, MemberClusterStatus},
};

use crate::members::guard::Finding;

/// The conditions of a cluster that is shown so.
pub(super) fn conditions(
    known: &MemberClusterStatus,
    shown: ClusterState,
    finding: &Finding,
    now: Time,
) -> Vec<Condition> {
    let is_heard = matches!(shown, ClusterState::Ready | ClusterState::Cordoned | ClusterState::Draining);
    let condition = |kind: &str, holds: bool, reason: String| {
        let status = if holds { "True" } else { "False" };
        let before = known.conditions.iter().find(|it| it.type_ == kind && it.status == status);
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason,
            message: String::new(),
            last_transition_time: before.map_or_else(|| now.clone(), |it| it.last_transition_time.clone()),
            observed_generation: None,
        }
    };
    let mut conditions = vec![condition(cluster_conditions::READY, is_heard, format!("{shown:?}"))];
    if finding.is_suspect {
        conditions.push(condition(cluster_conditions::SELF_SUSPECT, true, "ManyVanished".to_owned()));
    }
    // Written by whoever sees clusters off.
    conditions.extend(known.conditions.iter().filter(|it| it.type_ == cluster_conditions::LEAVING).cloned());
    conditions
}
