//! Bodies that nobody names any more are removed.
//!
//! A body may go when no Assignment of any cluster names it (also of one that is silent, or that is only told to delete), no ledger
//! does, and it is old enough for whoever has just stored it to have said so. An agent that took a plan on has its bodies with it;
//! one that still has to fetch them is named by its Assignment.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use kruise_core::{
    api::fleet::{
        FederatedObject,
        assignment::{Assignment, AssignmentSpec, RevisionRef},
        binding::{FleetBindingSpec, Ledger, LedgerRow, LedgerShare},
        keys,
        revision::{FleetRevision, FleetRevisionSpec},
    },
    runtime::{cache::Feed, client::call, controller::ReconcileError, key::uid},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, ObjectMeta},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Error, Shared, apply::delete};

/// How often bodies are looked through, and how long after a start for the first time: a hub that restarts at rest writes nothing.
const EVERY: Duration = Duration::from_secs(600);
/// A body that is younger than this may be about to be named.
const GRACE: SignedDuration = SignedDuration::from_hours(1);

/// Which object a body is of: API version without its version, kind, namespace and name.
type Whose = (String, String, Option<String>, String);

/// All that names bodies.
#[derive(Debug, Default)]
struct Named {
    /// By name.
    names: BTreeSet<String>,
    /// By hash, for each object: rows of ledgers know no more.
    hashes: BTreeMap<Whose, BTreeSet<String>>,
    /// Hashes for which a name is known: of several bodies with one hash, that one is meant.
    resolved: BTreeMap<Whose, BTreeSet<String>>,
}

impl Named {
    fn assignment(&mut self, assignment: &Assignment) {
        let AssignmentSpec { object, target, stable, .. } = &assignment.spec;
        self.refer(object, [target, stable]);
        if let Some(status) = &assignment.status {
            self.refer(object, [&status.target, &status.stable]);
        }
    }

    fn binding(&mut self, spec: &FleetBindingSpec) {
        let FleetBindingSpec { object, ledger, .. } = spec;
        let Ledger { target, stable, rolled_back, pre_download, clusters, .. } = ledger;
        self.refer(object, [target, stable, rolled_back, pre_download]);
        let hashes = self.hashes.entry(whose(object)).or_default();
        for LedgerRow { share, past, .. } in clusters.values() {
            let LedgerShare { body, stable, .. } = share;
            hashes.extend([body.clone(), stable.clone()]);
            hashes.extend(past.iter().map(|it| it.revision.clone()));
        }
    }

    fn refer<'a>(
        &mut self,
        object: &FederatedObject,
        references: impl IntoIterator<Item = &'a Option<RevisionRef>>,
    ) {
        let resolved = self.resolved.entry(whose(object)).or_default();
        // A ledger may know a hash and no name for it.
        for RevisionRef { name, hash, .. } in
            references.into_iter().flatten().filter(|it| !it.name.is_empty())
        {
            self.names.insert(name.clone());
            resolved.insert(hash.clone());
        }
    }

    /// Whether a body of this name may be one that nobody names: the rest is seen from the body itself.
    fn may_lack(&self, meta: &ObjectMeta, now: Timestamp) -> bool {
        let age = meta.creation_timestamp.as_ref().map(|it| now.duration_since(it.0));
        let name = meta.name.as_deref().unwrap_or_default();
        age.is_some_and(|it| it >= GRACE) && !self.names.contains(name)
    }

    fn has(&self, name: &str, spec: &FleetRevisionSpec) -> bool {
        let FleetRevisionSpec { api_version, kind, namespace, name: object, hash, .. } = spec;
        let whose = (group(api_version), kind.clone(), namespace.clone(), object.clone());
        let is_in =
            |it: &BTreeMap<Whose, BTreeSet<String>>| it.get(&whose).is_some_and(|it| it.contains(hash));
        self.names.contains(name) || is_in(&self.hashes) && !is_in(&self.resolved)
    }
}

fn whose(object: &FederatedObject) -> Whose {
    (group(&object.api_version), object.kind.clone(), object.namespace.clone(), object.name.clone())
}

fn group(api_version: &str) -> String {
    api_version.split_once('/').map_or("", |it| it.0).to_owned()
}

/// Looks through bodies every ten minutes until `stop` is cancelled.
pub(crate) async fn run(shared: Shared, stop: CancellationToken) {
    let synced = async { tokio::join!(shared.assignments.synced(), shared.bindings.synced()) };
    if stop.run_until_cancelled(synced).await.is_none() {
        return;
    }
    while stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_some() {
        match stop.run_until_cancelled(sweep(&shared)).await {
            None => return,
            Some(Ok(0)) => {}
            Some(Ok(count)) => info!(count, "bodies that nobody names any more are removed"),
            Some(Err(error)) => {
                let label = error.label();
                warn!(error = &error as &dyn std::error::Error, label, "bodies are not looked through yet");
            }
        }
    }
}

/// Removes what nobody names. Says how many bodies that were.
async fn sweep(shared: &Shared) -> Result<usize, Error> {
    let api: Api<FleetRevision> = Api::namespaced(shared.client.clone(), keys::CONTENT_NAMESPACE);
    let all = call("list bodies", api.list_metadata(&ListParams::default())).await?;
    let now = shared.clock.now();
    let Some(known) = named(shared) else { return Ok(0) };
    let mut count = 0;
    for candidate in all.items.iter().filter(|it| known.may_lack(&it.metadata, now)) {
        // Nobody stores a body and names it between this look and the end of the deletion.
        let mut swept = shared.bodies.write().await;
        let name = candidate.name_any();
        let Some(stored) = call("read a body", api.get_opt(&name)).await? else { continue };
        let Some(named) = named(shared) else { return Ok(count) };
        if named.has(&name, &stored.spec) {
            continue;
        }
        delete("remove a body", &api, &name, uid(&stored)).await?;
        *swept += 1;
        count += 1;
    }
    Ok(count)
}

/// What is named now; nothing if something cannot be read: it may name anything.
fn named(shared: &Shared) -> Option<Named> {
    let mut named = Named::default();
    for assignment in shared.assignments.all() {
        named.assignment(assignment.0.as_ref().ok()?);
    }
    for binding in shared.bindings.all() {
        named.binding(&binding.0.as_ref().ok()?.spec);
    }
    Some(named)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kruise_core::api::fleet::{
        assignment::{AssignmentStatus, Intent},
        binding::PastTarget,
    };

    use super::*;

    fn reference(name: &str) -> Option<RevisionRef> {
        Some(RevisionRef { name: name.to_owned(), hash: format!("hash of {name}"), ..RevisionRef::default() })
    }

    fn web() -> FederatedObject {
        FederatedObject {
            api_version: "apps.kruise.io/v1beta1".into(),
            kind: "CloneSet".into(),
            namespace: Some("shop".into()),
            name: "web".into(),
            uid: "u".into(),
        }
    }

    fn body(hash: &str) -> FleetRevisionSpec {
        FleetRevisionSpec {
            // Written in the words of another version of the same kind.
            api_version: "apps.kruise.io/v1alpha1".into(),
            kind: "CloneSet".into(),
            namespace: Some("shop".into()),
            name: "web".into(),
            hash: hash.into(),
            ..FleetRevisionSpec::default()
        }
    }

    #[test]
    fn rev_7_a_body_that_any_assignment_or_ledger_names_stays() {
        let mut named = Named::default();
        // Also one whose cluster is told to delete: it may still be carrying out the plan before.
        let spec = AssignmentSpec {
            object: web(),
            target: reference("t"),
            stable: reference("s"),
            intent: Intent::Delete,
            ..AssignmentSpec::default()
        };
        let status = AssignmentStatus { target: reference("st"), ..AssignmentStatus::default() };
        named.assignment(&Assignment { spec, status: Some(status), ..Assignment::default() });
        let row = LedgerRow {
            share: LedgerShare { body: "01".into(), stable: "02".into(), ..LedgerShare::default() },
            past: vec![PastTarget { revision: "03".into(), exposure: 1 }],
            ..LedgerRow::default()
        };
        let ledger = Ledger {
            target: reference("lt"),
            stable: reference("ls"),
            rolled_back: reference("lr"),
            pre_download: reference("lp"),
            clusters: [("a".to_owned(), row)].into(),
            ..Ledger::default()
        };
        named.binding(&FleetBindingSpec { object: web(), ledger, ..FleetBindingSpec::default() });
        for name in ["t", "s", "st", "lt", "ls", "lr", "lp"] {
            assert!(named.has(name, &body("99")), "{name}");
        }
        for hash in ["01", "02", "03"] {
            assert!(named.has("other", &body(hash)), "{hash}");
            let another = FleetRevisionSpec { name: "api".into(), ..body(hash) };
            assert!(!named.has("other", &another), "the hash of another object says nothing");
        }
        assert!(!named.has("other", &body("99")));
        // An older body with the hash of the target, which has another name: only something else than the template differed.
        assert!(!named.has("other", &body("hash of lt")));
    }

    #[test]
    fn a_body_that_was_stored_just_now_is_not_looked_at() {
        let named = Named { names: ["known".to_owned()].into(), ..Named::default() };
        let at = |second| Timestamp::from_second(second).unwrap();
        let meta = |name: &str| ObjectMeta {
            name: Some(name.into()),
            creation_timestamp: Some(Time(at(0))),
            ..ObjectMeta::default()
        };
        assert!(!named.may_lack(&meta("other"), at(3_599)) && named.may_lack(&meta("other"), at(3_600)));
        assert!(!named.may_lack(&meta("known"), at(9_999)));
        assert!(!named.may_lack(&ObjectMeta::default(), at(9_999)), "nobody knows how old it is");
    }
}
