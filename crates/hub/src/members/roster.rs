//! The clusters of the fleet and their states, kept up to date: the shell around [`heartbeat`](super::heartbeat) and
//! [`guard`](super::guard).
//!
//! Once in a second every Lease is looked at, on this process's own clock. What changes is written into the MemberCluster's
//! status, told in an event, and wakes whoever plans.

mod conditions;
mod look;
mod word;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock},
    time::Duration,
};

use k8s_openapi::{
    api::coordination::v1::Lease,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
};
use kruise_core::{
    api::fleet::{
        GROUP,
        keys::{CLUSTER, events},
        member_cluster::{ClusterState, MemberCluster},
    },
    runtime::{
        access::{self, Right},
        cache::{Cache, Feed},
        client::{self, Error, call},
        clock::{Clock, whole_seconds},
        events::{Recorder, Severity, about},
        metrics::Metrics,
    },
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    core::DeserializeGuard,
};
use scheduling::split::State as Planning;
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    Moment,
    departure::Departure,
    guard::{Finding, Guard},
    heartbeat::{Contact, Heartbeat, Transition},
};
use crate::{
    measures::{ClusterSight, Measures},
    names::cluster_namespace,
    placement::select::ClusterFacts,
};
use conditions::conditions;
use look::{News, begun, contacts, doubted, flags, observe, order};
pub use word::Word;

/// How often Leases are looked at.
const EVERY: Duration = Duration::from_secs(1);

/// A MemberCluster as it is cached.
type Stored = DeserializeGuard<MemberCluster>;
/// Says whether a cluster's agent still has rights.
type HasAccess = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// The rights it needs.
pub fn needs() -> Vec<Right> {
    const READ: &[&str] = &["get", "list", "watch"];
    vec![
        access::cluster(GROUP, "memberclusters", READ),
        access::cluster(GROUP, "memberclusters/status", &["patch"]),
        access::cluster("coordination.k8s.io", "leases", READ),
    ]
}

/// One cluster at this moment.
#[derive(Debug, Clone)]
pub struct Standing {
    /// What policies see of it.
    pub facts: Arc<ClusterFacts>,
    /// Its state, for people.
    pub shown: ClusterState,
    /// Its state, for plans.
    pub planning: Planning,
    /// How it leaves the fleet, if it does.
    pub departure: Option<Departure>,
}

/// The clusters of the fleet. Clones are handles to the same.
#[derive(Clone)]
pub struct Roster(Arc<Inner>);

struct Inner {
    members: Cache<Stored>,
    leases: Cache<Lease>,
    clock: Clock,
    /// The beginning of this process's own time.
    started: Instant,
    state: Mutex<State>,
    /// What is known of every cluster, until something changes: every round of every object asks for it.
    standings: Mutex<Option<Arc<[Standing]>>>,
    listeners: RwLock<Vec<Box<dyn Fn() + Send + Sync>>>,
    has_access: OnceLock<HasAccess>,
}

#[derive(Default)]
struct State {
    watched: BTreeMap<String, Watched>,
    guard: Option<Guard>,
    is_suspect: bool,
}

/// A cluster that is looked at.
struct Watched {
    /// Of its MemberCluster: one that has left and joins again under its name has said nothing yet.
    uid: Option<String>,
    beat: Heartbeat,
}

impl State {
    fn beat(&self, member: &MemberCluster) -> Option<&Heartbeat> {
        let watched = self.watched.get(&member.name_any())?;
        (watched.uid == member.uid()).then_some(&watched.beat)
    }
}

impl Roster {
    /// A roster of nobody.
    pub fn new(clock: &Clock, metrics: &Metrics) -> Self {
        let roster = Self(Arc::new(Inner {
            members: Cache::new("memberclusters", clock.clone(), metrics.clone()),
            leases: Cache::new("leases", clock.clone(), metrics.clone()),
            clock: clock.clone(),
            started: clock.instant(),
            state: Mutex::default(),
            standings: Mutex::default(),
            listeners: RwLock::default(),
            has_access: OnceLock::new(),
        }));
        // Before anybody who is woken by the same change.
        let weak = Arc::downgrade(&roster.0);
        roster.0.members.on_change(move |_| weak.upgrade().iter().for_each(|it| it.forget_standings()));
        roster
    }

    /// The MemberClusters.
    pub fn members(&self) -> &Cache<Stored> {
        &self.0.members
    }

    /// Calls `listener` whenever a cluster came, left, or can be used for something else than before.
    pub fn on_change(&self, listener: impl Fn() + Clone + Send + Sync + 'static) {
        let wake = listener.clone();
        self.0.members.on_change(move |change| {
            let spec = |it: &Option<Arc<Stored>>| {
                let member = it.as_ref().and_then(|it| it.0.as_ref().ok());
                member.map(|it| (it.spec.clone(), ClusterFacts::from(it), Departure::of(it)))
            };
            if spec(&change.before) != spec(&change.after) {
                wake();
            }
        });
        self.0.listeners.write().unwrap_or_else(PoisonError::into_inner).push(Box::new(listener));
    }

    /// Calls a cluster Revoked in its status only when `has_access` says that its rights are gone (JOIN-5).
    pub fn say_revoked_after(&self, has_access: impl Fn(&str) -> bool + Send + Sync + 'static) {
        let _ = self.0.has_access.set(Box::new(has_access));
    }

    /// Every cluster at this moment, by name.
    pub fn standings(&self) -> Arc<[Standing]> {
        // Held while it is read: what changes meanwhile is forgotten afterwards.
        let mut known = self.0.standings.lock().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_with(|| self.read_standings().into()).clone()
    }

    fn read_standings(&self) -> Vec<Standing> {
        let state = self.state();
        let mut standings: Vec<Standing> = Vec::new();
        for member in self.readable() {
            let Ok(member) = &member.0 else { continue };
            let beat = state.beat(member).cloned();
            // Nobody has looked at it yet: it is what it was, or a restart would call every cluster unheard of.
            let beat = beat.unwrap_or_else(|| begun(member, self.now()));
            let flags = flags(member);
            standings.push(Standing {
                facts: Arc::new(ClusterFacts::from(member)),
                shown: beat.state(flags, false),
                planning: beat.planning_state(flags, false),
                departure: Departure::of(member),
            });
        }
        standings.sort_by(|a, b| a.facts.name.cmp(&b.facts.name));
        standings
    }

    /// Keeps both caches up to date until `stop` is cancelled.
    pub async fn follow(&self, client: Client, stop: CancellationToken) {
        let (members, leases) = (Api::all(client.clone()), Api::all(client.clone()));
        let of_agents = client::watch().labels(CLUSTER);
        tokio::join!(
            self.0.members.run(client.clone(), members, client::watch(), stop.clone()),
            self.0.leases.run(client, leases, of_agents, stop),
        );
    }

    /// Looks at every cluster once in a second until `stop` is cancelled.
    pub async fn watch(
        &self,
        client: Client,
        recorder: Recorder,
        measures: Measures,
        stop: CancellationToken,
    ) {
        let synced = async { tokio::join!(self.0.members.synced(), self.0.leases.synced()) };
        if stop.run_until_cancelled(synced).await.is_none() {
            return;
        }
        let api: Api<MemberCluster> = Api::all(client);
        loop {
            let finding = self.look(&recorder);
            self.write(&api, &finding).await;
            measures.clusters(&self.sights());
            measures.self_suspect(finding.is_suspect);
            if stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none() {
                return;
            }
        }
    }

    /// Looks at every cluster once.
    fn look(&self, recorder: &Recorder) -> Finding {
        let now = self.now();
        let mut state = self.state();
        let members = self.readable();
        let (news, is_new_state) = observe(&mut state, &members, &self.0.leases, now);
        let contacts = contacts(&state, &members);
        let guard = state.guard.get_or_insert_with(|| {
            let recent = contacts.iter().filter(|(_, it)| !matches!(it, Contact::Pending));
            Guard::restored(recent.map(|(name, _)| name.clone()), now)
        });
        let finding = guard.observe(&contacts, order(&members), now);
        state.is_suspect = finding.is_suspect;
        drop(state);
        self.0.forget_standings();
        for News { member, transition } in news {
            self.tell(recorder, &member, transition);
        }
        // Not only when a cluster has just vanished: a hub that begins anew doubts itself without any news.
        if finding.is_suspect
            && finding.has_changed
            && let Some(member) = doubted(&members, &contacts)
        {
            let message = format!(
                "{} of {} clusters vanished, {} may; no cluster is given up until they are back",
                finding.offline, finding.counted, finding.limit
            );
            recorder.record(about(member), Severity::Warning, events::SELF_SUSPECT, message);
        }
        if is_new_state || finding.has_changed {
            let listeners = self.0.listeners.read().unwrap_or_else(PoisonError::into_inner);
            listeners.iter().for_each(|it| it());
        }
        finding
    }

    fn tell(&self, recorder: &Recorder, member: &Stored, transition: Transition) {
        let Ok(member) = &member.0 else { return };
        let name = member.name_any();
        info!(cluster = name, ?transition, "a cluster changed its state");
        let (severity, reason, message) = match transition {
            Transition::BecameReady => (Severity::Normal, "ClusterReady", "the cluster reports".to_owned()),
            Transition::WentOffline => (
                Severity::Warning,
                events::CLUSTER_OFFLINE,
                "the cluster does not report; its shares stay as they are".to_owned(),
            ),
            Transition::Returned => {
                (Severity::Normal, events::CLUSTER_RETURNED, "the cluster is back".to_owned())
            }
        };
        recorder.record(about(member), severity, reason, message);
    }

    /// Writes what changed into the statuses of MemberClusters.
    async fn write(&self, api: &Api<MemberCluster>, finding: &Finding) {
        for member in self.readable() {
            let Ok(member) = &member.0 else { continue };
            let Some(status) = self.status(member, finding) else { continue };
            if let Err(error) = self.patch(api, member, &status).await {
                warn!(
                    error = &error as &dyn std::error::Error,
                    cluster = member.name_any(),
                    "the state of a cluster is not written yet"
                );
            }
        }
    }

    async fn patch(
        &self,
        api: &Api<MemberCluster>,
        member: &MemberCluster,
        status: &serde_json::Value,
    ) -> Result<(), Error> {
        let patch = Patch::Merge(json!({"metadata": {"uid": member.uid()}, "status": status}));
        let name = member.name_any();
        let written =
            call("write a cluster's state", api.patch_status(&name, &PatchParams::default(), &patch)).await?;
        self.0.members.wrote(DeserializeGuard(Ok(written)));
        self.0.forget_standings();
        Ok(())
    }

    /// The part of a MemberCluster's status that is ours, if it is not so already.
    fn status(&self, member: &MemberCluster, finding: &Finding) -> Option<serde_json::Value> {
        let name = member.name_any();
        let (shown, flaps, silent_for) = {
            let state = self.state();
            let beat = state.beat(member)?;
            (beat.state(flags(member), false), beat.flaps(), beat.silent_for(self.now()))
        };
        if shown == ClusterState::Revoked && self.0.has_access.get().is_some_and(|it| it(&name)) {
            return None;
        }
        let known = member.status.clone().unwrap_or_default();
        let now = self.0.clock.now();
        let namespace = cluster_namespace(&name);
        let conditions = conditions(&known, shown, finding, Time(now));
        let essence = |it: &[Condition]| -> Vec<(String, String)> {
            it.iter().map(|it| (it.type_.clone(), it.status.clone())).collect()
        };
        // Shown of who is silent only: a cluster that reports does so every few seconds, and that is not worth a write.
        let is_silent = shown == ClusterState::Offline;
        let heard = now.checked_sub(silent_for).unwrap_or(now);
        let reported = known.last_report_time.clone().unwrap_or_else(|| whole_seconds(heard));
        let is_same = known.state == Some(shown)
            && known.flaps == flaps
            && known.last_report_time.is_some() == is_silent
            && known.namespace == namespace
            && essence(&known.conditions) == essence(&conditions);
        if is_same {
            return None;
        }
        let since = known.state_since.filter(|_| known.state == Some(shown));
        let mut status = json!({
            "state": shown,
            "stateSince": since.unwrap_or_else(|| whole_seconds(now)),
            "flaps": flaps,
            "lastReportTime": is_silent.then_some(reported),
            "namespace": namespace,
            "conditions": conditions,
        });
        if flaps > known.flaps {
            status["lastFlapTime"] = json!(whole_seconds(now));
        }
        Some(status)
    }

    /// How every cluster stands, for metrics.
    fn sights(&self) -> Vec<ClusterSight> {
        let (now, time) = (self.now(), self.0.clock.now());
        let state = self.state();
        let sight = |it: &Arc<Stored>| {
            let member = it.0.as_ref().ok()?;
            let beat = state.beat(member)?;
            let expires = member.status.as_ref().and_then(|it| it.credential_expires_at.as_ref());
            Some(ClusterSight {
                cluster: member.name_any(),
                state: beat.state(flags(member), false),
                silent_for: beat.silent_for(now),
                credential_seconds: expires.map(|it| it.0.duration_since(time).as_secs()),
            })
        };
        self.readable().iter().filter_map(sight).collect()
    }

    fn readable(&self) -> Vec<Arc<Stored>> {
        let mut members = self.0.members.all();
        members.retain(|it| it.0.is_ok());
        members
    }

    fn now(&self) -> Moment {
        Moment(self.0.clock.since(self.0.started))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics under this lock.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn forget_standings(&self) {
        *self.standings.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl std::fmt::Debug for Roster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Roster").field("clusters", &self.state().watched.len()).finish_non_exhaustive()
    }
}
