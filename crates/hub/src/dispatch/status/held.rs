//! How an object stands that is not planned: why that is so, and what clusters say of it meanwhile. Its pods run on, and may fail.

use kruise_core::api::fleet::{
    FederatedObject,
    binding::{ClusterRow, FleetBindingStatus},
};
use scheduling::names::ClusterName;
use serde_json::Value;

use super::{
    Standing,
    account::{Heard, Words},
    conditions,
    trouble::Trouble,
};
use crate::{
    dispatch::plan::{self, Observed},
    ledger,
    placement::kinds::{self, totals::Totals},
};

/// What clusters can say of an object that nobody plans; the rest of its status is what was planned last.
const COUNTED: [&str; 6] = [
    "replicas",
    "readyReplicas",
    "availableReplicas",
    "updatedReplicas",
    "updatedReadyReplicas",
    "updatedAvailableReplicas",
];

/// How an object stands that is not planned.
pub(in crate::dispatch) fn troubled(trouble: Trouble, observed: &Observed<'_>) -> Standing {
    let mut known = observed.binding.and_then(|it| it.status.clone()).unwrap_or_default();
    let held = conditions::of_trouble(&trouble, observed.reference);
    let object = gather(observed, &mut known);
    // Rows of those that have obeyed go (ST-6).
    if let Trouble::Ending { waiting, .. } = &trouble {
        known.clusters.retain(|it| waiting.contains(&it.cluster));
    }
    let binding = FleetBindingStatus {
        summary: conditions::summary(&held).to_owned(),
        conditions: conditions::written(held, &known.conditions, observed),
        ..known
    };
    Standing { binding, object, notes: Vec::new(), trouble: Some(trouble), look_again: None, figures: None }
}

/// Brings what is known of pods up to date, and says what that makes of the object's own status (ST-1).
fn gather(observed: &Observed<'_>, known: &mut FleetBindingStatus) -> Value {
    // Nothing else has pods so far.
    if observed.reference.kind != "CloneSet" {
        return Value::Null;
    }
    // Without a binding, which goes first with its namespace, the Assignments tell who has what.
    let saved = &observed.saved();
    if saved.clusters.is_empty() && observed.binding.is_none() {
        return Value::Null;
    }
    let names: Vec<ClusterName> = saved.clusters.keys().map(|it| it.as_str().into()).collect();
    let target = saved.target.as_ref().map(|it| ledger::revision(&it.hash)).unwrap_or_default();
    let (ledger, unheard) = plan::told(observed, saved, &names, target);
    let words = Words { observed, rows: &ledger.rows, unheard: &unheard };
    let totals = words.sum(ledger.target, None);
    let fitted = |it: u64| u32::try_from(it).unwrap_or(u32::MAX);
    (known.ready, known.available) = (fitted(totals.ready), fitted(totals.available));
    (known.updated, known.unknown_replicas) = (fitted(totals.updated), fitted(totals.unknown));
    for (row, cluster) in words.given() {
        let Heard { counts, applied_seq, reported_at, .. } = words.heard(row, cluster);
        if let Some(it) = known.clusters.iter_mut().find(|it| it.cluster == cluster.facts.name) {
            let state = Some(cluster.shown);
            *it = ClusterRow { state, counts, applied_seq, reported_at, ..std::mem::take(it) };
        }
    }
    counted(observed, &totals)
}

fn counted(observed: &Observed<'_>, totals: &Totals) -> Value {
    let FederatedObject { api_version, kind, .. } = observed.reference;
    let kind = kinds::of(api_version.split_once('/').map_or("", |it| it.0), kind);
    let mut status = kind.status(observed.object, totals);
    if let Some(fields) = status.as_object_mut() {
        fields.retain(|name, _| COUNTED.contains(&name.as_str()));
    }
    status
}
