//! Answers to the API server's questions: what the rules of the other modules need is read here, and nothing is decided.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kruise_core::{
    admission::{cloneset, image_pull_job},
    api::{
        self, APPS_GROUP,
        fleet::{binding::FleetBinding, keys, member_cluster::MemberCluster},
    },
    runtime::{
        client::{Error, call},
        clock::Clock,
        gates::Gates,
        webhook::{AdmissionRequest, Operation, Verdict},
    },
};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams},
    core::DeserializeGuard,
};
use serde_json::Value;
use tokio::sync::OnceCell;

use super::{
    Findings, deletion, deletion::Reach, downloads, joining, members, object, object::Quota, policy, reach,
    rights,
};
use crate::{
    members::{joining::Token, tokens},
    placement::select::ClusterFacts,
};

const STORED: &str = "apps.kruise.io/v1beta1";

/// Answers reviews on the hub, on every replica.
#[derive(Clone)]
pub struct Reviewer {
    client: Client,
    namespace: String,
    pub(super) clock: Clock,
    /// What is possible in members is for members to say; here every kind is let in.
    pub(super) gates: Gates,
    hub_uid: OnceCell<String>,
}

/// The gates with which objects are judged on the hub.
fn gates() -> Gates {
    Gates::parse("ImagePullJobGate=true", None).expect("these gates exist")
}

/// A policy with its defaults.
pub(super) fn policy_filled_in(request: &AdmissionRequest) -> Verdict {
    changed(request, policy::default)
}

/// A JoinRequest that says with which token it was made.
pub(super) fn request_marked(request: &AdmissionRequest) -> Verdict {
    let user = request.user_info.username.as_deref().unwrap_or_default();
    changed(request, |it| joining::mutate(it, request.operation, user))
}

/// An ImagePullJob with its defaults. It gets no finalizer: that is for the controller of a member to take off.
pub(super) fn job_filled_in(request: &AdmissionRequest) -> Verdict {
    changed(request, |it| image_pull_job::mutate(it, Operation::Update))
}

/// A deletion of an ImagePullJob or an ImageListPullJob. Jobs have no replicas, so `Cascading` holds none back.
pub(super) fn job_deleted(request: &AdmissionRequest) -> Verdict {
    deleted(request, Reach::default())
}

fn changed(request: &AdmissionRequest, change: impl FnOnce(&mut Value)) -> Verdict {
    let Some(original) = &request.object else { return Verdict::bad_request("the request has no object") };
    let mut object = original.clone();
    change(&mut object);
    if object == *original { Verdict::allow() } else { Verdict::patched(object) }
}

/// What the rules of one cluster let in is judged by those of the fleet, in the version that is stored.
pub(super) fn with_fleet_rules(
    verdict: Verdict,
    request: &AdmissionRequest,
    quota: Option<Quota>,
) -> Verdict {
    let (Verdict::Allowed { warnings }, Some(object)) = (&verdict, &request.object) else { return verdict };
    if !object::is_to_judge(object, request.old_object.as_ref()) {
        return verdict;
    }
    let stored = match api::convert(object.clone(), STORED) {
        Ok(stored) => stored,
        Err(error) => return Verdict::bad_request(error.to_string()),
    };
    // What cannot be converted was nothing, and all of the limit applies.
    let before = request.old_object.clone().and_then(|it| api::convert(it, STORED).ok());
    let findings = object::check(&stored, object::limiting(quota, &stored, before.as_ref()));
    warnings.iter().fold(findings.verdict(), |verdict, it| verdict.warn(it.as_str()))
}

fn unknown(error: &Error) -> Verdict {
    Verdict::denied(500, format!("what this is judged by cannot be read: {}", error.told()))
}

impl Reviewer {
    /// Reads from `client`; `namespace` is the hub's own.
    pub fn new(client: Client, namespace: &str, clock: &Clock) -> Self {
        Self {
            client,
            namespace: namespace.to_owned(),
            clock: clock.clone(),
            gates: gates(),
            hub_uid: OnceCell::new(),
        }
    }

    pub(super) async fn policy(&self, request: &AdmissionRequest) -> Verdict {
        let Some(object) = &request.object else { return deleted(request, Reach::default()) };
        let verdict = match self.clusters().await {
            Ok(members) => {
                let facts: Vec<_> = members.iter().map(ClusterFacts::from).collect();
                policy::check(object, &facts).verdict()
            }
            Err(error) => return unknown(&error),
        };
        // What cannot be read was refused; then nobody has to be asked.
        let Some(placement) = policy::placement(object) else { return verdict };
        if matches!(verdict, Verdict::Denied(_)) {
            return verdict;
        }
        let before = request.old_object.as_ref().and_then(policy::placement);
        let needs = reach::needs(before.as_ref(), &placement);
        let user = &request.user_info;
        match rights::answers(&self.client, user, &needs).await {
            Ok(answers) => {
                let name = user.username.as_deref().unwrap_or_default();
                let faults = reach::faults(&needs, &answers, name);
                if faults.is_empty() { verdict } else { Verdict::forbidden(faults) }
            }
            Err(error) => unknown(&error),
        }
    }

    pub(super) async fn member(&self, request: &AdmissionRequest) -> Verdict {
        let Some(object) = &request.object else { return deleted(request, Reach::default()) };
        match self.member_findings(object, request.old_object.as_ref()).await {
            Ok(findings) => findings.verdict(),
            Err(error) => unknown(&error),
        }
    }

    async fn member_findings(&self, object: &Value, old: Option<&Value>) -> Result<Findings, Error> {
        let (hub_uid, known) = (self.hub_uid().await?, self.clusters().await?);
        let known: Vec<_> = known
            .iter()
            .map(|it| (it.metadata.name.as_deref().unwrap_or_default(), it.spec.cluster_uid.as_str()))
            .collect();
        Ok(members::check(object, old, &members::Fleet { hub_uid, members: &known }))
    }

    pub(super) async fn request(&self, request: &AdmissionRequest) -> Verdict {
        let Some(object) = &request.object else { return Verdict::allow() };
        let user = request.user_info.username.as_deref().unwrap_or_default();
        match self.tokens().await {
            Ok(tokens) => {
                joining::review(object, request.old_object.as_ref(), user, &tokens, self.clock.now())
            }
            Err(error) => unknown(&error),
        }
    }

    pub(super) async fn namespace(&self, request: &AdmissionRequest) -> Verdict {
        let name = request.name.as_deref().unwrap_or_default();
        let bindings: Api<DeserializeGuard<FleetBinding>> = Api::namespaced(self.client.clone(), name);
        match call("look for federated objects", bindings.list(&ListParams::default())).await {
            Ok(found) => {
                let found: Vec<_> = found.items.into_iter().filter_map(|it| it.0.ok()).collect();
                deleted(request, Reach { clusters: deletion::reached(&found), ..Reach::default() })
            }
            Err(error) => unknown(&error),
        }
    }

    pub(super) async fn cloneset(&self, request: &AdmissionRequest) -> Verdict {
        if request.operation == Operation::Delete {
            let replicas =
                request.old_object.as_ref().and_then(|it| it.pointer("/status/replicas")?.as_u64());
            return deleted(request, Reach { replicas: replicas.unwrap_or(0), ..Reach::default() });
        }
        let setup = cloneset::Setup { gates: self.gates, client: self.client.clone(), pods: None };
        let verdict = cloneset::validated(request, &setup).await;
        if matches!(verdict, Verdict::Denied(_)) {
            return verdict;
        }
        match self.quota(request).await {
            Ok(quota) => with_fleet_rules(verdict, request, quota),
            Err(error) => unknown(&error),
        }
    }

    /// An ImagePullJob, by the rules of a member and those of the fleet.
    pub(super) async fn job(&self, request: &AdmissionRequest) -> Verdict {
        let verdict = with_fleet_rules(image_pull_job::validating(request, self.gates), request, None);
        self.unless_forged(verdict, request).await
    }

    /// An ImageListPullJob.
    pub(super) async fn list(&self, request: &AdmissionRequest) -> Verdict {
        self.unless_forged(image_pull_job::validating_list(request, self.gates), request).await
    }

    /// The verdict, unless somebody else than the hub says that a job is one of the hub's own. The hub is whoever may write
    /// Assignments: who may do that reaches every cluster anyway.
    async fn unless_forged(&self, verdict: Verdict, request: &AdmissionRequest) -> Verdict {
        let (Verdict::Allowed { .. }, Some(object)) = (&verdict, &request.object) else { return verdict };
        if !downloads::is_to_judge(object, request.old_object.as_ref()) {
            return verdict;
        }
        match rights::may_assign(&self.client, &request.user_info).await {
            Ok(true) => verdict,
            Ok(false) => {
                let user = request.user_info.username.as_deref().unwrap_or_default();
                Verdict::forbidden(vec![downloads::fault(user)])
            }
            Err(error) => unknown(&error),
        }
    }

    /// A CloneSet that is scaled through its subresource, by the same rules as if the number were written into it.
    pub(super) async fn scale(&self, request: &AdmissionRequest) -> Verdict {
        let (Some(scale), Some(name)) = (&request.object, &request.name) else {
            return Verdict::bad_request("the request has no object");
        };
        let read = async {
            let stored = call("read what is scaled", self.clonesets(request).get_opt(name)).await?;
            Ok((stored, self.quota(request).await?))
        };
        let (stored, quota) = match read.await {
            // Nothing is scaled: that is for the API server to say.
            Ok((None, _)) => return Verdict::allow(),
            Ok((Some(stored), quota)) => (serde_json::to_value(stored).unwrap_or_default(), quota),
            Err(error) => return unknown(&error),
        };
        let scaled = object::scaled(&stored, scale);
        // What is over a limit already may become less.
        if object::demand(&scaled) <= object::demand(&stored) {
            return Verdict::allow();
        }
        object::check(&scaled, quota).verdict()
    }

    fn clonesets(&self, request: &AdmissionRequest) -> Api<DynamicObject> {
        let namespace = request.namespace.as_deref().unwrap_or_default();
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(APPS_GROUP, "v1beta1", "CloneSet"));
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    /// What the namespace of an object still allows. Most namespaces have no limit, and then nothing else is read.
    async fn quota(&self, request: &AdmissionRequest) -> Result<Option<Quota>, Error> {
        let name = request.namespace.as_deref().unwrap_or_default();
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let Some(namespace) = call("read a namespace", namespaces.get_opt(name)).await? else {
            return Ok(None);
        };
        let limited = serde_json::to_value(&namespace).unwrap_or_default();
        if Quota::of(&limited, 0).is_none() {
            return Ok(None);
        }
        let others = self.clonesets(request);
        let others = call("count what is in a namespace", others.list(&ListParams::default())).await?;
        let used = others.items.iter().filter(|it| it.metadata.name != request.name);
        let used = used.map(|it| object::demand(&serde_json::to_value(it).unwrap_or_default())).sum();
        Ok(Quota::of(&limited, used))
    }

    async fn clusters(&self) -> Result<Vec<MemberCluster>, Error> {
        let api: Api<DeserializeGuard<MemberCluster>> = Api::all(self.client.clone());
        let all = call("list clusters", api.list(&ListParams::default())).await?;
        Ok(all.items.into_iter().filter_map(|it| it.0.ok()).collect())
    }

    async fn tokens(&self) -> Result<Vec<Token>, Error> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let params = ListParams::default().labels(keys::BOOTSTRAP);
        let maps = call("list tokens", api.list(&params)).await?;
        Ok(maps.items.iter().filter_map(tokens::read).collect())
    }

    async fn hub_uid(&self) -> Result<&str, Error> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let read = async || {
            let system = call("read who the hub is", namespaces.get("kube-system")).await?;
            Ok(system.metadata.uid.unwrap_or_default())
        };
        self.hub_uid.get_or_try_init(read).await.map(String::as_str)
    }
}

fn deleted(request: &AdmissionRequest, reach: Reach) -> Verdict {
    match &request.old_object {
        Some(object) => deletion::review(object, reach),
        None => Verdict::allow(),
    }
}

impl std::fmt::Debug for Reviewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reviewer").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}
