//! A hub that was restored from an older copy: what clusters do that it does not know, and going on from there (HA-5).

use std::collections::{BTreeMap, BTreeSet};

use ::hub::names;
use kruise_core::api::fleet::{
    Slice,
    assignment::Assignment,
    binding::{FleetBinding, LedgerRow},
    keys,
};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::{Value, json};

use crate::{
    Answer, Error, Exit,
    connection::{self, Hub},
    table::table,
};

/// A cluster that carries out a newer plan than the hub knows.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Ahead {
    /// Namespace and name of the binding.
    binding: (String, String),
    /// KIND/NAMESPACE/NAME of the object.
    object: String,
    cluster: String,
    /// Numbers of the plans.
    known: u64,
    carried_out: u64,
    /// Replicas by these plans.
    replicas: (u32, Option<u32>),
}

/// Compares ledgers with what clusters say.
fn ahead(bindings: &[FleetBinding], shares: &[Assignment]) -> Vec<Ahead> {
    let mut found = Vec::new();
    for binding in bindings {
        let object = &binding.spec.object;
        let name = [Some(object.kind.to_lowercase()), object.namespace.clone(), Some(object.name.clone())];
        let name = name.into_iter().flatten().collect::<Vec<_>>().join("/");
        let rows = &binding.spec.ledger.clusters;
        let its: Vec<&Assignment> = shares.iter().filter(|it| it.spec.object.uid == object.uid).collect();
        // A cluster that is only asked has no row.
        let labelled = its.iter().filter_map(|it| it.labels().get(keys::CLUSTER));
        let clusters: BTreeSet<&String> = rows.keys().chain(labelled).collect();
        for cluster in clusters {
            let namespace = names::cluster_namespace(cluster);
            let is_there = |it: &&&Assignment| it.metadata.namespace.as_ref() == Some(&namespace);
            let Some(share) = its.iter().find(is_there) else { continue };
            let none = LedgerRow::default();
            let row = rows.get(cluster).unwrap_or(&none);
            let applied = share.status.as_ref();
            let newest = applied.map_or(0, |it| it.applied_seq).max(share.spec.seq);
            if newest <= row.share.seq {
                continue;
            }
            let replicas = match applied.and_then(|it| it.applied.as_ref()) {
                Some(Slice::CloneSet(slice)) => Some(slice.replicas),
                _ => None,
            };
            found.push(Ahead {
                binding: (binding.namespace().unwrap_or_default(), binding.name_any()),
                object: name.clone(),
                cluster: cluster.clone(),
                known: row.share.seq,
                carried_out: newest,
                replicas: (row.share.replicas, replicas),
            });
        }
    }
    found
}

fn shown(found: &[Ahead]) -> String {
    let header = ["OBJECT", "CLUSTER", "KNOWN", "CARRIED-OUT", "REPLICAS-KNOWN", "REPLICAS-THERE"];
    let row = |it: &Ahead| {
        let there = it.replicas.1.map_or_else(|| "-".to_owned(), |it| it.to_string());
        vec![
            it.object.clone(),
            it.cluster.clone(),
            it.known.to_string(),
            it.carried_out.to_string(),
            it.replicas.0.to_string(),
            there,
        ]
    };
    table(&header, &found.iter().map(row).collect::<Vec<_>>())
}

fn values(found: &[Ahead]) -> Value {
    let value = |it: &Ahead| {
        json!({
            "object": it.object, "cluster": it.cluster, "known": it.known, "carriedOut": it.carried_out,
            "replicasKnown": it.replicas.0, "replicasThere": it.replicas.1,
        })
    };
    found.iter().map(value).collect()
}

/// What is written to each binding: the plans that were shown, and no others.
fn confirmations(found: &[Ahead]) -> BTreeMap<(String, String), Value> {
    let mut plans: BTreeMap<(String, String), BTreeMap<&str, u64>> = BTreeMap::new();
    for it in found {
        plans.entry(it.binding.clone()).or_default().insert(&it.cluster, it.carried_out);
    }
    let patch = |plans| json!({"metadata": {"annotations": {(keys::RECOVER): json!(plans).to_string()}}});
    plans.into_iter().map(|(binding, plans)| (binding, patch(plans))).collect()
}

/// `recover`
pub async fn recover(hub: &Hub, is_confirmed: bool) -> Result<Answer, Error> {
    let bindings: Api<FleetBinding> = hub.all();
    let shares: Api<Assignment> = hub.all();
    let (bindings, shares) = (
        connection::list(&bindings, &ListParams::default()).await?,
        connection::list(&shares, &ListParams::default()).await?,
    );
    let found = ahead(&bindings, &shares);
    let value = json!({ "items": values(&found), "confirmed": is_confirmed });
    if found.is_empty() {
        let text = "no cluster that is heard carries out a newer plan than the hub knows: there is nothing to recover";
        return Ok(Answer::done(text, value));
    }
    let table = shown(&found);
    if !is_confirmed {
        let text = format!(
            "{table}\n\nThese clusters are left alone. The objects on the hub are as old as the copy that it was restored from: bring \
             them up to date first.\n`kubectl fleet recover --yes` then goes on from what clusters have towards what the objects say."
        );
        return Ok(Answer { exit: Exit::Pending, ..Answer::done(text, value) });
    }
    for ((namespace, name), patch) in confirmations(&found) {
        let api: Api<FleetBinding> = hub.within(&namespace);
        connection::patch(&api, &name, &patch).await?;
    }
    Ok(Answer::done(format!("{table}\n\nThe hub goes on from there."), value))
}

#[cfg(test)]
mod tests {
    use kruise_core::api::fleet::{
        CloneSetSlice, FederatedObject,
        assignment::{AssignmentSpec, AssignmentStatus},
        binding::{FleetBindingSpec, LedgerRow},
    };

    use super::*;

    fn world() -> (FleetBinding, Vec<Assignment>) {
        let object = FederatedObject {
            kind: "CloneSet".into(),
            namespace: Some("shop".into()),
            name: "web".into(),
            uid: "u".into(),
            ..FederatedObject::default()
        };
        let mut spec = FleetBindingSpec { object: object.clone(), ..FleetBindingSpec::default() };
        for cluster in ["eu-1", "eu-2"] {
            let mut row = LedgerRow::default();
            (row.share.seq, row.share.replicas) = (5, 2);
            spec.ledger.clusters.insert(cluster.to_owned(), row);
        }
        let mut binding = FleetBinding::new("cloneset.web", spec);
        binding.metadata.namespace = Some("shop".into());
        let share = |cluster: &str, applied: u64| {
            let spec = AssignmentSpec { object: object.clone(), seq: 5, ..AssignmentSpec::default() };
            let mut share = Assignment::new("cloneset.shop.web", spec);
            share.metadata.namespace = Some(format!("fleet-{cluster}"));
            let slice = CloneSetSlice { replicas: 3, ..CloneSetSlice::default() };
            share.status = Some(AssignmentStatus {
                applied_seq: applied,
                applied: Some(Slice::CloneSet(slice)),
                ..AssignmentStatus::default()
            });
            share
        };
        (binding, vec![share("eu-1", 9), share("eu-2", 5)])
    }

    #[test]
    fn ha_5_clusters_that_are_ahead_are_shown_and_confirmed_by_their_plan() {
        let (binding, shares) = world();
        let found = ahead(&[binding], &shares);
        assert_eq!(
            shown(&found),
            "OBJECT              CLUSTER   KNOWN   CARRIED-OUT   REPLICAS-KNOWN   REPLICAS-THERE\n\
             cloneset/shop/web   eu-1      5       9             2                3"
        );
        let patches = confirmations(&found);
        let patch = &patches[&("shop".to_owned(), "cloneset.web".to_owned())];
        assert_eq!(patch["metadata"]["annotations"]["fleet.kruise.io/recover"], "{\"eu-1\":9}");
    }

    #[test]
    fn ha_5_at_rest_there_is_nothing_to_recover() {
        let (binding, mut shares) = world();
        shares.remove(0);
        assert_eq!(ahead(&[binding], &shares), []);
    }
}
