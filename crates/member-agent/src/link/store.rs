//! What is kept in the member, so that an agent which starts without its hub goes on where it was (PROTO-6), and an old plan
//! cannot bring a deleted object back (PROTO-11). Why Secrets, and why one for each object: docs/adr/0008.

use std::{collections::BTreeMap, sync::Arc};

use dashmap::DashMap;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kruise_core::{
    api::fleet::{
        assignment::{AssignmentSpec, RevisionRef},
        policy::DeletionPolicy,
    },
    runtime::{
        access::{self, Right},
        client::{Error, call},
    },
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::warn;

use super::judge::leave::Given;

/// The label of Secrets that hold a plan.
pub const PLAN: &str = "fleet.kruise.io/plan";
/// Start of their names; the Assignment's name follows.
const PREFIX: &str = "fleet-plan-";
/// The key of the record in a Secret.
const RECORD: &str = "record";
/// The Secret that counts starts of the agent.
const AGENT: &str = "fleet-agent";
const INCARNATION: &str = "incarnation";
/// Who writes them.
const MANAGER: &str = "fleet-agent";

/// What is kept about one object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// The newest plan that was taken on.
    pub plan: AssignmentSpec,
    /// UID of the member object, once it was ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member_uid: Option<String>,
    /// What the mark of that object says about its adoption (AD-1), for somebody may take the mark off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adopted: Option<DeletionPolicy>,
    /// Whether the plan's intent to delete or to let go was carried out: what is left is the plan's number.
    #[serde(default)]
    pub is_done: bool,
    /// What the member object was made from when the plan was taken on, where the plan leaves something to others (DR-1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Given>,
    /// The bodies that the plan names, by the names of their FleetRevisions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub bodies: BTreeMap<String, Value>,
}

impl Record {
    /// The body of a revision.
    pub fn body(&self, revision: &RevisionRef) -> Option<&Value> {
        self.bodies.get(&revision.name)
    }
}

/// The rights it needs in its own namespace. Names of plans are not known beforehand.
pub fn needs() -> Vec<Right> {
    vec![access::own_namespace("", "secrets", &["get", "list", "create", "patch", "delete"])]
}

/// Records, in memory and in Secrets.
#[derive(Clone)]
pub struct Store {
    secrets: Api<Secret>,
    namespace: String,
    records: Arc<DashMap<String, Arc<Record>>>,
}

impl Store {
    /// A store in `namespace`, with nothing read yet.
    pub fn new(client: Client, namespace: &str) -> Self {
        let secrets = Api::namespaced(client, namespace);
        Self { secrets, namespace: namespace.to_owned(), records: Arc::default() }
    }

    /// The namespace of the agent.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Reads everything that is kept, and says for which Assignments.
    pub async fn load(&self) -> Result<Vec<String>, Error> {
        let params = ListParams::default().labels(PLAN);
        let listed = call("list kept plans", self.secrets.list(&params)).await?;
        for secret in listed {
            let Some((name, record)) = read(&secret) else {
                warn!(secret = secret.name_any(), "a kept plan cannot be read; it is left out");
                continue;
            };
            self.records.insert(name, Arc::new(record));
        }
        Ok(self.names())
    }

    /// The Assignments about which something is kept, in order.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.records.iter().map(|it| it.key().clone()).collect();
        names.sort_unstable();
        names
    }

    /// What is kept about an Assignment.
    pub fn get(&self, name: &str) -> Option<Arc<Record>> {
        self.records.get(name).map(|it| it.clone())
    }

    /// The newest epoch of any plan.
    pub fn epoch(&self) -> u64 {
        self.records.iter().map(|it| it.plan.epoch).max().unwrap_or_default()
    }

    /// Keeps `record`, first in the cluster and then in memory: what is acted on is never lost.
    pub async fn put(&self, name: &str, record: Record) -> Result<Arc<Record>, Error> {
        if let Some(known) = self.get(name).filter(|it| **it == record) {
            return Ok(known);
        }
        let secret = written(name, &record);
        // Forced: nobody else has a say in what we remember.
        let params = PatchParams::apply(MANAGER).force();
        let patch = Patch::Apply(&secret);
        call("keep a plan", self.secrets.patch(&secret_name(name), &params, &patch)).await?;
        let record = Arc::new(record);
        self.records.insert(name.to_owned(), record.clone());
        Ok(record)
    }

    /// Forgets an Assignment.
    pub async fn forget(&self, name: &str) -> Result<(), Error> {
        let deleted =
            call("forget a plan", self.secrets.delete(&secret_name(name), &DeleteParams::default())).await;
        match deleted {
            Err(error) if error.code() != Some(404) => return Err(error),
            _ => drop(self.records.remove(name)),
        }
        Ok(())
    }

    /// Counts one more start of the agent, and says which it is (JOIN-7). Of two agents that start at once, each gets a number
    /// of its own: the write is refused to one, which reads again.
    ///
    /// The count is above `seen`, the highest that the hub knows: what was counted here may have been lost.
    pub async fn next_incarnation(&self, seen: u64) -> Result<u64, Error> {
        let known = call("read the count of starts", self.secrets.get_opt(AGENT)).await?;
        let text = known.as_ref().and_then(|it| it.data.as_ref()?.get(INCARNATION));
        let number = text.and_then(|it| std::str::from_utf8(&it.0).ok()?.parse::<u64>().ok());
        let next = number.unwrap_or_default().max(seen) + 1;
        let data = BTreeMap::from([(INCARNATION, ByteString(next.to_string().into_bytes()))]);
        match known.and_then(|it| it.metadata.resource_version) {
            Some(version) => {
                let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "data": data}));
                call("count a start", self.secrets.patch(AGENT, &PatchParams::default(), &patch)).await?;
            }
            None => {
                let metadata = ObjectMeta { name: Some(AGENT.to_owned()), ..ObjectMeta::default() };
                let data = data.into_iter().map(|(key, it)| (key.to_owned(), it)).collect();
                let secret = Secret { metadata, data: Some(data), ..Secret::default() };
                call("count the first start", self.secrets.create(&Default::default(), &secret)).await?;
            }
        }
        Ok(next)
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Bodies may hold secrets (SEC-3).
        f.debug_struct("Store").field("records", &self.records.len()).finish_non_exhaustive()
    }
}

/// The name of the Secret about an Assignment. Names of both are at most 253 characters long: where ours would be longer, a
/// hash takes the place of the end.
fn secret_name(assignment: &str) -> String {
    const MOST: usize = 253;
    let name = format!("{PREFIX}{assignment}");
    if name.len() <= MOST {
        return name;
    }
    // FNV-1a, which never changes, as names must not.
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = assignment.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    format!("{}-{hash:016x}", &name[..name.floor_char_boundary(MOST - 17)])
}

fn written(assignment: &str, record: &Record) -> Value {
    let text = json!(record).to_string();
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name(assignment),
            "labels": {(PLAN): "true"},
            "annotations": {(PLAN): assignment},
        },
        "type": "fleet.kruise.io/plan",
        "data": {(RECORD): ByteString(text.into_bytes())},
    })
}

fn read(secret: &Secret) -> Option<(String, Record)> {
    let name = secret.annotations().get(PLAN)?.clone();
    let record = secret.data.as_ref()?.get(RECORD)?;
    Some((name, serde_json::from_slice(&record.0).ok()?))
}

#[cfg(test)]
mod tests {
    use kruise_core::api::fleet::{CloneSetSlice, FederatedObject, Slice};

    use super::*;
    use crate::link::marks::Pair;

    fn record() -> Record {
        let object = FederatedObject { name: "web".into(), uid: "u".into(), ..FederatedObject::default() };
        let slice = CloneSetSlice { replicas: 4, updated: 1, ..CloneSetSlice::default() };
        let slice = Some(Slice::CloneSet(slice));
        Record {
            plan: AssignmentSpec { object, term: 2, seq: 7, epoch: 3, slice, ..AssignmentSpec::default() },
            member_uid: Some("member".into()),
            adopted: Some(DeletionPolicy::Orphan),
            is_done: false,
            before: Some(Given { plan: Pair { term: 2, seq: 6 }, base: json!({"spec": {"a": 1}}) }),
            bodies: BTreeMap::from([("frv-1".to_owned(), json!({"spec": {"a": "ü && b"}}))]),
        }
    }

    #[test]
    fn proto_6_a_kept_plan_is_read_as_it_was_written() {
        let secret: Secret = serde_json::from_value(written("asg-1", &record())).unwrap();
        assert_eq!(read(&secret), Some(("asg-1".to_owned(), record())));
    }

    #[test]
    fn ad_1_a_plan_that_was_kept_before_adoption_was_noted_is_still_read() {
        let mut kept = json!(record());
        kept.as_object_mut().unwrap().remove("adopted");
        let read: Record = serde_json::from_value(kept).unwrap();
        assert_eq!(read, Record { adopted: None, ..record() });
    }

    #[test]
    fn long_names_stay_apart_and_fit() {
        let (a, b) =
            (secret_name(&format!("{}a", "x".repeat(252))), secret_name(&format!("{}b", "x".repeat(252))));
        assert!(a != b && a.len() == 253 && b.len() == 253, "{a} {b}");
        assert_eq!(secret_name("web"), "fleet-plan-web");
    }

    #[test]
    fn a_secret_of_somebody_else_is_no_plan() {
        let mut secret: Secret = serde_json::from_value(written("asg-1", &record())).unwrap();
        secret.data = None;
        assert_eq!(read(&secret), None);
    }
}
