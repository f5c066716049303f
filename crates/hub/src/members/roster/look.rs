//! One look at all clusters.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::coordination::v1::Lease;
use kruise_core::{
    api::fleet::{keys::TRUST_VIEW, member_cluster::MemberCluster},
    runtime::{
        cache::Cache,
        key::{Key, version},
    },
};
use kube::ResourceExt;

use super::{State, Stored};
use crate::{
    members::{
        Moment,
        access::LEASE,
        guard::Override,
        heartbeat::{Flags, Heartbeat, Seen, Transition},
    },
    names::cluster_namespace,
};

/// Something that happened to a cluster.
pub(super) struct News {
    pub(super) member: Arc<Stored>,
    pub(super) transition: Transition,
}

/// Looks at every Lease; says what happened, and whether any cluster can be used for something else than before.
pub(super) fn observe(
    state: &mut State,
    members: &[Arc<Stored>],
    leases: &Cache<Lease>,
    now: Moment,
) -> (Vec<News>, bool) {
    let names: BTreeSet<String> =
        members.iter().filter_map(|it| it.0.as_ref().ok()).map(ResourceExt::name_any).collect();
    state.beats.retain(|name, _| names.contains(name));
    let (mut news, mut is_new_state) = (Vec::new(), false);
    for stored in members {
        let Ok(member) = &stored.0 else { continue };
        let (name, status) = (member.name_any(), member.status.clone().unwrap_or_default());
        let beat = state.beats.entry(name.clone()).or_insert_with(|| begun(member, now));
        let lease = leases.get(&Key::new(&cluster_namespace(&name), LEASE));
        let seen = Seen {
            lease: lease.as_ref().map(|it| version(&**it)),
            reported_epoch: status.reported_epoch,
            epoch: status.epoch,
            lost: false,
        };
        let before = beat.planning_state(flags(member), false);
        if let Some(transition) = beat.observe(&seen, now) {
            news.push(News { member: stored.clone(), transition });
        }
        is_new_state |= beat.planning_state(flags(member), false) != before;
    }
    (news, is_new_state)
}

/// Whether an operator has told the hub to believe what it sees: with an annotation on any MemberCluster, as long as it is there
/// (STATE-3).
pub(super) fn order(members: &[Arc<Stored>]) -> Override {
    let says_so = |it: &Arc<Stored>| {
        let member = it.0.as_ref().ok();
        member.is_some_and(|it| it.annotations().get(TRUST_VIEW).is_some_and(|it| it == "true"))
    };
    if members.iter().any(says_so) { Override::TrustYourself } else { Override::None }
}

/// A cluster that is looked at for the first time since this process started.
pub(super) fn begun(member: &MemberCluster, now: Moment) -> Heartbeat {
    let status = member.status.as_ref();
    match status.and_then(|it| it.state) {
        Some(known) => Heartbeat::restored(known, status.map_or(0, |it| it.flaps), now),
        None => Heartbeat::new(now),
    }
}

pub(super) fn flags(member: &MemberCluster) -> Flags {
    let spec = &member.spec;
    // One that leaves is emptied first (DEL-6).
    let drain = spec.drain || member.metadata.deletion_timestamp.is_some();
    Flags { accepted: spec.accepted, unschedulable: spec.unschedulable, drain }
}
