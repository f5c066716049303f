//! The member cluster, as far as the link writes to it: the only writer of member objects.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::{
    api::core::v1::{Namespace, Secret},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kruise_core::{
    api::{
        APPS_GROUP, APPS_V1BETA1,
        cloneset::v1beta1::CloneSet,
        fleet::{FederatedObject, keys},
        image_pull_job::v1beta1::ImagePullJob,
    },
    controllers::cloneset::revisions,
    pod::state,
    revision::history::NewRevision,
    runtime::{
        access::{self, Right},
        cache::{Cache, node::NodeLite, pod::PodLite, revision::RevisionLite},
        client::{Error, call},
        gates::{Gate, Gates},
        key::{Key, uid},
        writes::{On, Writer},
    },
};
use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, Preconditions,
    },
    core::{DeserializeGuard, GroupVersionKind},
};
use serde_json::{Value, json};

use super::release;

/// The label of namespaces that were made for a plan. They are never deleted by us (PROTO-9).
pub const MADE: &str = "fleet.kruise.io/made-for-fleet";

/// The kind of jobs that download one image.
const JOB: &str = "ImagePullJob";

/// Kinds whose numbers are divided, and how the API server calls them.
const KINDS: [(&str, &str); 2] = [("CloneSet", "clonesets"), ("ImagePullJob", "imagepulljobs")];

/// The rights it needs.
pub fn needs() -> Vec<Right> {
    const KEEP: &[&str] = &["get", "list", "create", "patch", "delete"];
    vec![
        access::cluster(APPS_GROUP, "clonesets", KEEP),
        access::cluster(APPS_GROUP, "imagepulljobs", KEEP),
        access::cluster(APPS_GROUP, "imagepulljobs", &["watch"]),
        access::cluster("apps", "controllerrevisions", &["get", "list", "watch", "create", "patch"]),
        access::cluster("", "pods", &["get", "list", "watch"]),
        // How much room there is for pods that the hub asks about (PROTO-8).
        access::cluster("", "nodes", &["get", "list", "watch"]),
        access::cluster("", "namespaces", &["create"]),
    ]
}

/// What an agent can do beyond the first version of the protocol. A new field of a share is told here, so that the hub gives it to nobody
/// who would drop it (HA-6).
fn features(sees_nodes: bool, gates: Gates) -> BTreeSet<String> {
    let told = [
        (sees_nodes, keys::features::CAPACITY),
        (true, keys::features::IMAGE_REGISTRIES),
        (true, keys::features::PULL_SECRETS),
        (true, keys::features::SCALE_MAX_UNAVAILABLE),
        (gates.is_on(Gate::CloneSetPartitionRollback), keys::features::PARTITION_ROLLBACK),
    ];
    told.into_iter().filter(|it| it.0).map(|it| it.1.to_owned()).collect()
}

/// The member cluster.
#[derive(Clone)]
pub struct Member {
    /// The cluster.
    pub client: Client,
    /// Its CloneSets, as their controller sees them.
    pub clonesets: Cache<DeserializeGuard<CloneSet>>,
    /// Its pods, as their controller sees them.
    pub pods: Cache<PodLite>,
    /// Its nodes; none where not all of its pods are seen, so that nobody can tell how much room there is.
    pub nodes: Option<Cache<NodeLite>>,
    /// Its revisions, as their controller sees them.
    pub revisions: Cache<RevisionLite>,
    /// Its jobs that download an image, as their controller sees them.
    pub jobs: Cache<ImagePullJob>,
}

/// What there is of one CloneSet.
#[derive(Debug, Default)]
pub struct Holding {
    /// Pods that are neither over nor on their way out.
    pub pods: Vec<Arc<PodLite>>,
    /// Revisions of the CloneSet, and those that nobody owns.
    pub revisions: Vec<Arc<RevisionLite>>,
}

impl Holding {
    /// The names of the pods.
    pub fn names(&self) -> BTreeSet<String> {
        self.pods.iter().filter_map(|it| it.metadata.name.clone()).collect()
    }
}

impl Member {
    /// Whether objects of this kind can be held here.
    pub fn knows(object: &FederatedObject) -> bool {
        let group = object.api_version.split_once('/').map_or("", |it| it.0);
        group == APPS_GROUP && KINDS.iter().any(|it| it.0 == object.kind)
    }

    /// The kinds that are served here and can be held, as `group/version/Kind`. Jobs are not, where nobody sees to them.
    pub async fn served(&self, gates: Gates) -> Result<BTreeSet<String>, Error> {
        let mut served = BTreeSet::new();
        let is_seen_to = |kind: &str| kind == "CloneSet" || gates.is_on(Gate::ImagePullJob);
        for (kind, _) in KINDS.into_iter().filter(|it| is_seen_to(it.0)) {
            let object = FederatedObject { kind: kind.to_owned(), ..FederatedObject::default() };
            let api = Api::<DynamicObject>::all_with(self.client.clone(), &resource(&object));
            // Asked for itself rather than looked up: what cannot be listed cannot be held either.
            match call("look for a kind", api.list_metadata(&ListParams::default().limit(1))).await {
                Ok(_) => drop(served.insert(format!("{APPS_V1BETA1}/{kind}"))),
                Err(error) if error.code() == Some(404) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(served)
    }

    /// What can be done here beyond the first version of the protocol.
    pub fn features(&self, gates: Gates) -> BTreeSet<String> {
        features(self.nodes.is_some(), gates)
    }

    /// The version of the API server; nothing if it does not say.
    pub async fn version(&self) -> Option<String> {
        let asked = call("get the server's version", self.client.apiserver_version()).await;
        asked.ok().map(|it| it.git_version)
    }

    /// The CloneSet of this name, as its controller sees it.
    pub fn cloneset(&self, object: &FederatedObject) -> Option<Arc<DeserializeGuard<CloneSet>>> {
        (object.kind == "CloneSet").then(|| self.clonesets.get(&key(object))).flatten()
    }

    /// The member object as it is: what its controller sees, or else what the API server has. One that cannot be read is there
    /// all the same, and may be somebody else's.
    pub async fn find(&self, object: &FederatedObject) -> Result<Option<Value>, Error> {
        match object.kind.as_str() {
            "CloneSet" => match self.cloneset(object).as_deref() {
                None => Ok(None),
                Some(DeserializeGuard(Ok(it))) => Ok(Some(json!(it))),
                Some(DeserializeGuard(Err(_))) => self.read(object).await,
            },
            JOB => Ok(self.jobs.get(&key(object)).map(|it| json!(*it))),
            _ => self.read(object).await,
        }
    }

    /// The member object as the API server has it.
    pub async fn read(&self, object: &FederatedObject) -> Result<Option<Value>, Error> {
        let found = call("read a member object", self.api(object).get_opt(&object.name)).await?;
        Ok(found.map(|it| json!(it)))
    }

    /// The pods and revisions of a CloneSet.
    pub fn holding(&self, namespace: &str, cloneset: Option<&CloneSet>) -> Holding {
        let mut holding = Holding { revisions: self.revisions.orphans_in(namespace), ..Holding::default() };
        if let Some(cloneset) = cloneset {
            holding.pods = self.pods.owned_by(uid(cloneset));
            holding.pods.retain(|it| state::is_active(it));
            holding.revisions.extend(self.revisions.owned_by(uid(cloneset)));
        }
        holding
    }

    /// Applies `body`, and answers with the object as it is then. A missing namespace is made (PROTO-9).
    pub async fn apply(&self, object: &FederatedObject, body: &Value) -> Result<Value, Error> {
        let params = PatchParams::apply(keys::AGENT_FIELD_MANAGER).force();
        let answer = match self.send(object, body, &params).await {
            Err(error) if error.code() == Some(404) => {
                self.make_namespace(object).await?;
                self.send(object, body, &params).await?
            }
            other => other?,
        };
        self.note(object, &answer);
        Ok(answer)
    }

    /// What applying `body` would lead to.
    pub async fn try_out(&self, object: &FederatedObject, body: &Value) -> Result<Value, Error> {
        let params = PatchParams::apply(keys::AGENT_FIELD_MANAGER).force().dry_run();
        self.send(object, body, &params).await
    }

    async fn send(
        &self,
        object: &FederatedObject,
        body: &Value,
        params: &PatchParams,
    ) -> Result<Value, Error> {
        let patch = Patch::Apply(body);
        let answer = call("apply a plan", self.api(object).patch(&object.name, params, &patch)).await?;
        Ok(json!(answer))
    }

    async fn make_namespace(&self, object: &FederatedObject) -> Result<(), Error> {
        let Some(namespace) = &object.namespace else { return Ok(()) };
        let body = json!({"metadata": {"name": namespace, "labels": {(MADE): "true"}}});
        let body: Namespace = serde_json::from_value(body).expect("this is a namespace");
        let api: Api<Namespace> = Api::all(self.client.clone());
        match call("make a namespace", api.create(&PostParams::default(), &body)).await {
            Err(error) if !error.is_name_taken() => Err(error),
            _ => Ok(()),
        }
    }

    /// Deletes exactly this object, after what it owns (DEL-1).
    pub async fn delete(&self, object: &FederatedObject, member: &Value) -> Result<(), Error> {
        let uid = member["metadata"]["uid"].as_str().map(str::to_owned);
        let params =
            DeleteParams::foreground().preconditions(Preconditions { uid, ..Preconditions::default() });
        match call("delete a member object", self.api(object).delete(&object.name, &params)).await {
            Err(error) if !matches!(error.code(), Some(404 | 409)) => Err(error),
            // Gone, or another one by now.
            _ => Ok(()),
        }
    }

    /// Takes our marks, our claim to fields and our pace off the object, and leaves it running (DEL-3).
    pub async fn release(&self, object: &FederatedObject) -> Result<(), Error> {
        let Some(member) = self.read(object).await? else { return Ok(()) };
        let (api, params) = (self.api(object), PatchParams::default());
        let patch = Patch::Merge(release::patch(&member));
        match call("let go of a member object", api.patch(&object.name, &params, &patch)).await {
            Ok(answer) => {
                self.note(object, &json!(answer));
                Ok(())
            }
            Err(error) if error.code() == Some(404) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A Secret beside the member object; nothing if it is not there.
    pub async fn secret(&self, object: &FederatedObject, name: &str) -> Result<Option<Secret>, Error> {
        call("read a pull secret", self.secrets(object).get_opt(name)).await
    }

    /// Makes a Secret beside the member object.
    pub async fn make_secret(&self, object: &FederatedObject, body: Value) -> Result<(), Error> {
        let secret = serde_json::from_value(body).map_err(kube::Error::SerdeError);
        let (api, params) = (self.secrets(object), PostParams::default());
        call("make a pull secret", async { api.create(&params, &secret?).await }).await.map(drop)
    }

    /// Changes a Secret beside the member object.
    pub async fn change_secret(
        &self,
        object: &FederatedObject,
        name: &str,
        patch: &Value,
    ) -> Result<(), Error> {
        let (api, params) = (self.secrets(object), PatchParams::default());
        call("change a pull secret", api.patch(name, &params, &Patch::Merge(patch))).await.map(drop)
    }

    fn secrets(&self, object: &FederatedObject) -> Api<Secret> {
        Api::namespaced(self.client.clone(), object.namespace.as_deref().unwrap_or_default())
    }

    /// Lays an answer over the cache, so that nobody acts on what was there before.
    fn note(&self, object: &FederatedObject, answer: &Value) {
        match object.kind.as_str() {
            "CloneSet" => {
                if let Ok(stored) = serde_json::from_value(answer.clone()) {
                    self.clonesets.wrote(stored);
                }
            }
            JOB => {
                if let Ok(stored) = serde_json::from_value(answer.clone()) {
                    self.jobs.wrote(stored);
                }
            }
            _ => {}
        }
    }

    /// Writes the revision that pods keep which are not to be updated (REV-7).
    pub async fn sow(&self, object: &FederatedObject, seed: NewRevision) -> Result<Arc<RevisionLite>, Error> {
        let owner = seed.owner.uid.clone();
        let writer = Writer::new(self.client.clone(), self.revisions.clone());
        let sown = match revisions::create(seed.clone(), &owner, &writer).await {
            Err(error) if error.code() == Some(404) => {
                self.make_namespace(object).await?;
                revisions::create(seed, &owner, &writer).await?
            }
            other => other?,
        };
        Ok(sown.0)
    }

    /// Gives a revision that was written before its CloneSet was there to the CloneSet.
    pub async fn hand_over(&self, namespace: &str, name: &str, owner: OwnerReference) -> Result<(), Error> {
        let Some(revision) = self.revisions.get(&Key::new(namespace, name)) else { return Ok(()) };
        let writer = Writer::new(self.client.clone(), self.revisions.clone());
        let on = On { call: "give a seed to its CloneSet", owner: &owner.uid };
        let patch = Patch::Merge(json!({"metadata": {"ownerReferences": [owner]}}));
        writer.patch(on, &revision, None, &patch, &PatchParams::default()).await.map(drop)
    }

    fn api(&self, object: &FederatedObject) -> Api<DynamicObject> {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        Api::namespaced_with(self.client.clone(), namespace, &resource(object))
    }
}

/// How the API server calls objects of this kind. What is sent is in the words of the stored version.
fn resource(object: &FederatedObject) -> ApiResource {
    let plural = KINDS.iter().find(|it| it.0 == object.kind).map_or("", |it| it.1);
    let version = APPS_V1BETA1.rsplit('/').next().unwrap_or_default();
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(APPS_GROUP, version, &object.kind), plural)
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").finish_non_exhaustive()
    }
}

/// The key of the member object.
pub fn key(object: &FederatedObject) -> Key {
    Key::new(object.namespace.as_deref().unwrap_or_default(), &object.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_2_the_link_may_do_this_in_a_member_and_nothing_else() {
        let mut all: Vec<String> = crate::link::needs()
            .iter()
            .flat_map(|it| {
                let names =
                    if it.names.is_empty() { String::new() } else { format!(" {}", it.names.join(",")) };
                let place = format!("{:?} {}/{}{names}", it.scope, it.group, it.resource);
                it.verbs.iter().map(move |verb| format!("{place} {verb}"))
            })
            .collect();
        all.sort_unstable();
        let verbs = |place: &str, verbs: &str| -> Vec<String> {
            verbs.split(' ').map(|it| format!("{place} {it}")).collect()
        };
        let mut expected = [
            // Only what the hub gives: CloneSets, and jobs for one image. Lists become such jobs on the hub.
            verbs("Cluster apps.kruise.io/clonesets", "create delete get list patch"),
            verbs("Cluster apps.kruise.io/imagepulljobs", "create delete get list patch watch"),
            verbs("Cluster apps/controllerrevisions", "create get list patch watch"),
            verbs("Cluster /pods", "get list watch"),
            verbs("Cluster /nodes", "get list watch"),
            verbs("Cluster /namespaces", "create"),
            verbs("Cluster /namespaces kube-system", "get"),
            verbs("OwnNamespace /secrets", "create delete get list patch"),
        ]
        .concat();
        expected.sort_unstable();
        assert_eq!(all, expected);
    }

    #[test]
    fn ha_6_and_rev_5_an_agent_tells_what_it_can_do_and_what_its_gates_let_it() {
        let told = |sees_nodes, gates: Gates| features(sees_nodes, gates).into_iter().collect::<Vec<_>>();
        let always = ["ImageRegistries", "PullSecrets", "ScaleMaxUnavailable"];
        assert_eq!(told(true, Gates::defaults()), [&["Capacity"][..], &always].concat());
        let rolling_back = "CloneSetPartitionRollback=true".parse().unwrap();
        assert_eq!(
            told(false, rolling_back),
            ["ImageRegistries", "PartitionRollback", "PullSecrets", "ScaleMaxUnavailable"]
        );
    }
}
