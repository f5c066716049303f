//! One look at all clusters.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::coordination::v1::Lease;
use kruise_core::{
    api::fleet::{keys::TRUST_VIEW, member_cluster::MemberCluster},
    runtime::{
        cache::Cache,
        key::{Key, version},
    },
};
use kube::ResourceExt;
use scheduling::names::ClusterName;

use super::{State, Stored, Watched};
use crate::{
    members::{
        Moment,
        access::LEASE,
        guard::Override,
        heartbeat::{Contact, Flags, Heartbeat, Seen, Transition},
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
    let there: BTreeSet<_> =
        members.iter().filter_map(|it| it.0.as_ref().ok()).map(|it| (it.name_any(), it.uid())).collect();
    state.watched.retain(|name, it| there.contains(&(name.clone(), it.uid.clone())));
    let (mut news, mut is_new_state) = (Vec::new(), false);
    for stored in members {
        let Ok(member) = &stored.0 else { continue };
        let (name, status) = (member.name_any(), member.status.clone().unwrap_or_default());
        let begin = || Watched { uid: member.uid(), beat: begun(member, now) };
        let beat = &mut state.watched.entry(name.clone()).or_insert_with(begin).beat;
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

/// What the mass-loss guard looks at (STATE-3): the clusters that should be heard. One that was revoked has no right to report
/// (JOIN-5), and its silence says nothing about the hub.
pub(super) fn contacts(state: &State, members: &[Arc<Stored>]) -> BTreeMap<ClusterName, Contact> {
    let accepted = members.iter().filter_map(|it| it.0.as_ref().ok()).filter(|it| it.spec.accepted);
    let contact =
        |it: &MemberCluster| Some((ClusterName::from(it.name_any().as_str()), state.beat(it)?.contact()));
    accepted.filter_map(contact).collect()
}

/// The cluster by which people are told that the hub doubts itself, as an event has to be about something: the first that is
/// silent.
pub(super) fn doubted<'a>(
    members: &'a [Arc<Stored>],
    contacts: &BTreeMap<ClusterName, Contact>,
) -> Option<&'a MemberCluster> {
    let is_silent = |it: &MemberCluster| {
        let name = ClusterName::from(it.name_any().as_str());
        matches!(contacts.get(&name), Some(Contact::Offline(_)))
    };
    members.iter().filter_map(|it| it.0.as_ref().ok()).find(|it| is_silent(it))
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

#[cfg(test)]
mod tests {
    use kruise_core::{
        api::fleet::member_cluster::ClusterState,
        runtime::{clock::Clock, metrics::Metrics},
    };
    use kube::core::DeserializeGuard;
    use serde_json::json;

    use super::*;
    use crate::members::guard::Guard;

    fn member(name: &str, accepted: bool) -> Arc<Stored> {
        let member = json!({
            "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "MemberCluster", "metadata": {"name": name},
            "spec": {"clusterUid": name, "publicKey": "", "accepted": accepted},
        });
        Arc::new(DeserializeGuard(Ok(serde_json::from_value(member).unwrap())))
    }

    /// Section 4: it is Ready once it has reported, however soon after it left it is back.
    #[test]
    fn a_cluster_that_joins_again_under_its_name_has_said_nothing_yet() {
        let incarnation = |uid: &str, status: serde_json::Value| {
            let mut it = member("a", true).0.as_ref().unwrap().clone();
            it.metadata.uid = Some(uid.to_owned());
            it.status = serde_json::from_value(status).unwrap();
            [Arc::new(DeserializeGuard(Ok(it)))]
        };
        let clock = Clock::system();
        let leases = Cache::new("leases", clock, Metrics::default());
        let mut state = State::default();
        let old = incarnation("1", json!({"state": "Ready", "reportedEpoch": 0}));
        observe(&mut state, &old, &leases, Moment::seconds(1));
        let shown = |state: &State, it: &[Arc<Stored>; 1]| {
            state.beat(it[0].0.as_ref().unwrap()).map(Heartbeat::contact)
        };
        assert_eq!(shown(&state, &old), Some(Contact::Ready));
        let new = incarnation("2", json!(null));
        assert_eq!(shown(&state, &new), None, "before anybody has looked at it");
        observe(&mut state, &new, &leases, Moment::seconds(2));
        assert_eq!(shown(&state, &new), Some(Contact::Pending));
    }

    #[test]
    fn state_3_clusters_that_were_revoked_have_not_vanished() {
        let state = |offline: &[&str]| -> State {
            let state = |name: &str| {
                if offline.contains(&name) { ClusterState::Offline } else { ClusterState::Ready }
            };
            let watched = |it: &str| {
                let beat = Heartbeat::restored(state(it), 0, Moment::seconds(0));
                (it.to_owned(), Watched { uid: None, beat })
            };
            State { watched: ["a", "b", "c", "d"].map(watched).into(), ..State::default() }
        };
        let found = |accepted: bool| {
            let members = [("a", accepted), ("b", accepted), ("c", true), ("d", true)];
            let members = members.map(|(name, accepted)| member(name, accepted));
            let before = ["a", "b", "c", "d"].map(ClusterName::from);
            let mut guard = Guard::restored(before, Moment::seconds(0));
            let contacts = contacts(&state(&["a", "b"]), &members);
            guard.observe(&contacts, Override::None, Moment::seconds(1))
        };
        assert!(found(true).is_suspect, "two of four that should be heard are not");
        let revoked = found(false);
        assert_eq!((revoked.is_suspect, revoked.counted, revoked.offline), (false, 2, 0));
    }
}
