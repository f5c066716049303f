//! Clusters that leave the fleet: they are emptied first, and their rights go last (DEL-6).
//!
//! A MemberCluster has a finalizer from the beginning. When somebody deletes it, rounds of objects see a cluster that drains, or one
//! that lets go of everything at once; here is only looked whether anything is left, said what is waited for, and at last the finalizer
//! taken off. Rights follow the MemberCluster (`answer`), so they are withdrawn after that. A hub that begins anew goes on: all of it is
//! read from what is stored.

pub mod plan;

use std::{
    collections::HashMap,
    num::NonZeroUsize,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_core::{
    api::fleet::{
        GROUP,
        assignment::{Assignment, Intent},
        binding::FleetBinding,
        keys::{self, cluster_conditions, events},
        member_cluster::MemberCluster,
    },
    runtime::{
        access::{self, Right},
        cache::{Cache, Feed},
        client::{Error, call},
        clock::{Clock, whole_seconds},
        controller::{Controller, Next, Reconcile, Settings, Triggers},
        events::{Recorder, about},
        key::{Key, uid, version},
    },
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, Preconditions},
    core::DeserializeGuard,
};
use serde_json::json;
use tokio::time::Instant;

use super::roster::Roster;
use crate::{dispatch::plan::is_heard, names::cluster_namespace};
use plan::{Hold, Observed, Step};

/// How many clusters are seen to at once.
pub const WORKERS: NonZeroUsize = NonZeroUsize::new(2).expect("two is not zero");
/// How often is looked at a cluster that leaves.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// How soon a member that cannot be read is looked at again; a change of it is seen at once.
const UNREADABLE: Duration = Duration::from_secs(60);

/// How a cluster leaves the fleet, by the words of whoever deleted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Departure {
    /// What runs there is let go of and runs on; else it is moved away or deleted.
    pub orphan: bool,
    /// Nobody waits for replacements, nor for a cluster that is not heard.
    pub force: bool,
}

impl Departure {
    /// How a member leaves; nothing if it stays. Words that mean nothing are passed over: then it is drained.
    pub fn of(member: &MemberCluster) -> Option<Self> {
        member.metadata.deletion_timestamp.as_ref()?;
        let words = member.annotations().get(keys::LEAVE).map(String::as_str).unwrap_or_default();
        Some(Self::read(words).unwrap_or_default())
    }

    /// The words of the annotation; nothing if one of them means nothing.
    pub fn read(words: &str) -> Option<Self> {
        let mut departure = Self::default();
        for word in words.split(',').map(str::trim).filter(|it| !it.is_empty()) {
            match word {
                "Orphan" => departure.orphan = true,
                "Force" => departure.force = true,
                _ => return None,
            }
        }
        Some(departure)
    }

    /// The words for the annotation; nothing for a cluster that is drained.
    pub fn words(self) -> Option<&'static str> {
        match (self.orphan, self.force) {
            (false, false) => None,
            (true, false) => Some("Orphan"),
            (false, true) => Some("Force"),
            (true, true) => Some("Orphan,Force"),
        }
    }

    /// What becomes of shares that are not drained first.
    pub fn at_once(self) -> Option<Intent> {
        match (self.orphan, self.force) {
            (true, _) => Some(Intent::Orphan),
            (false, true) => Some(Intent::Delete),
            (false, false) => None,
        }
    }
}

/// The rights it needs, besides those of the roster and of dispatchers.
pub fn needs() -> Vec<Right> {
    vec![
        access::cluster(GROUP, "memberclusters", &["get", "list", "watch", "patch"]),
        access::cluster(GROUP, "memberclusters/status", &["patch"]),
    ]
}

/// What it is made from.
#[derive(Clone)]
pub struct Parts {
    /// The hub's API server.
    pub client: Client,
    /// The clusters and their states.
    pub roster: Roster,
    /// Bindings.
    pub bindings: Cache<DeserializeGuard<FleetBinding>>,
    /// Assignments of all clusters.
    pub assignments: Cache<DeserializeGuard<Assignment>>,
    /// Tells people.
    pub events: Recorder,
    /// Time.
    pub clock: Clock,
}

/// Sees clusters off.
pub struct Departures {
    parts: Parts,
    /// Since when this process has seen clusters leave.
    since: Mutex<HashMap<Key, Instant>>,
}

/// The controller.
pub fn controller(parts: Parts, settings: Settings) -> Controller<Departures> {
    let triggers = Triggers::new(parts.clock.clone());
    triggers.follow_all(parts.roster.members());
    let feeds: Vec<Arc<dyn Feed>> = vec![
        Arc::new(parts.roster.members().clone()),
        Arc::new(parts.bindings.clone()),
        Arc::new(parts.assignments.clone()),
    ];
    Controller::new(settings, triggers, feeds, Departures { parts, since: Mutex::default() })
}

impl Reconcile for Departures {
    type Error = Error;

    async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let Some(stored) = self.parts.roster.members().get(&key) else {
            self.since.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            return Ok(Next::Change);
        };
        // One that cannot be read is not let go of, nor is it claimed: it is looked at when it can be.
        let Ok(member) = &stored.0 else { return Ok(Next::After(UNREADABLE)) };
        match self.plan(&key, member) {
            Step::Rest => Ok(Next::Change),
            Step::Claim => {
                let mut finalizers = member.finalizers().to_vec();
                finalizers.push(keys::MEMBER_FINALIZER.to_owned());
                self.set_finalizers(member, &finalizers).await?;
                Ok(Next::Change)
            }
            Step::Wait(hold) => {
                self.tell(member, &hold).await?;
                Ok(Next::After(LOOK_AGAIN))
            }
            Step::LetGo { questions } => {
                self.let_go(member, &questions).await?;
                Ok(Next::Change)
            }
        }
    }

    fn exists(&self, key: &Key) -> bool {
        self.parts.roster.members().get(key).is_some()
    }
}

impl Departures {
    fn plan(&self, key: &Key, member: &MemberCluster) -> Step {
        let Some(departure) = Departure::of(member) else { return plan::staying(member) };
        let now = self.parts.clock.instant();
        let since =
            *self.since.lock().unwrap_or_else(PoisonError::into_inner).entry(key.clone()).or_insert(now);
        let name = member.name_any();
        let standings = self.parts.roster.standings();
        let standing = standings.iter().find(|it| it.facts.name == name);
        let shares = self.parts.assignments.in_namespace(&cluster_namespace(&name));
        let bindings = self.parts.bindings.all();
        plan::leaving(&Observed {
            member,
            departure,
            is_heard: standing.is_some_and(|it| is_heard(it.planning)),
            leaving_for: now.saturating_duration_since(since),
            // What cannot be read is there all the same.
            unreadable: shares.iter().filter(|it| it.0.is_err()).count()
                + bindings.iter().filter(|it| it.0.is_err()).count(),
            shares: shares.iter().filter_map(|it| it.0.as_ref().ok()).collect(),
            bindings: bindings.iter().filter_map(|it| it.0.as_ref().ok()).collect(),
        })
    }

    /// Says what is waited for, where that is news.
    async fn tell(&self, member: &MemberCluster, hold: &Hold) -> Result<(), Error> {
        let known = member.status.clone().unwrap_or_default().conditions;
        let before = known.iter().find(|it| it.type_ == cluster_conditions::LEAVING);
        if before.is_some_and(|it| it.reason == hold.reason && it.message == hold.message) {
            return Ok(());
        }
        let since = before.map(|it| it.last_transition_time.clone());
        let since: Time = since.unwrap_or_else(|| whole_seconds(self.parts.clock.now()));
        let mut conditions: Vec<_> =
            known.iter().filter(|it| it.type_ != cluster_conditions::LEAVING).map(|it| json!(it)).collect();
        conditions.push(json!({
            "type": cluster_conditions::LEAVING, "status": "True", "reason": hold.reason, "message": hold.message,
            "lastTransitionTime": since,
        }));
        let patch = Patch::Merge(json!({
            "metadata": { "uid": uid(member) }, "status": { "conditions": conditions },
        }));
        let (name, params) = (member.name_any(), PatchParams::default());
        let told = call("say how a cluster leaves", self.api().patch_status(&name, &params, &patch)).await?;
        if before.is_none_or(|it| it.reason != hold.reason) {
            let message = format!("{}: {}", hold.reason, hold.message);
            self.parts.events.record(about(member), hold.severity, events::CLUSTER_LEAVING, message);
        }
        self.parts.roster.members().wrote(DeserializeGuard(Ok(told)));
        Ok(())
    }

    /// The last steps: questions that nobody will answer, and our finalizer. Rights go when the MemberCluster is gone.
    async fn let_go(&self, member: &MemberCluster, questions: &[(String, String)]) -> Result<(), Error> {
        let namespace = cluster_namespace(&member.name_any());
        let shares: Api<Assignment> = Api::namespaced(self.parts.client.clone(), &namespace);
        for (name, uid) in questions {
            let exactly = Preconditions { uid: Some(uid.clone()), ..Preconditions::default() };
            let params = DeleteParams::default().preconditions(exactly);
            match call("delete a question", shares.delete(name, &params)).await {
                Err(error) if error.code() == Some(404) => {}
                other => drop(other?),
            }
            self.parts.assignments.deleted(&Key::new(&namespace, name), uid);
        }
        let (severity, message) = plan::last_word(Departure::of(member).unwrap_or_default());
        self.parts.events.record(about(member), severity, events::CLUSTER_LEFT, message);
        let others: Vec<String> =
            member.finalizers().iter().filter(|it| *it != keys::MEMBER_FINALIZER).cloned().collect();
        self.set_finalizers(member, &others).await
    }

    async fn set_finalizers(&self, member: &MemberCluster, finalizers: &[String]) -> Result<(), Error> {
        let patch = Patch::Merge(json!({"metadata": {
            "finalizers": finalizers, "uid": uid(member), "resourceVersion": version(member),
        }}));
        let (name, params) = (member.name_any(), PatchParams::default());
        let api = self.api();
        let changed =
            match call("change the finalizers of a cluster", api.patch(&name, &params, &patch)).await {
                // Gone by now.
                Err(error) if error.code() == Some(404) => return Ok(()),
                other => other?,
            };
        let members = self.parts.roster.members();
        // One whose last finalizer has gone while it is being deleted is gone with it.
        if changed.metadata.deletion_timestamp.is_some() && changed.finalizers().is_empty() {
            members.deleted(&Key::of(&changed), uid(&changed));
        } else {
            members.wrote(DeserializeGuard(Ok(changed)));
        }
        Ok(())
    }

    fn api(&self) -> Api<MemberCluster> {
        Api::all(self.parts.client.clone())
    }
}

impl std::fmt::Debug for Departures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Departures").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}
