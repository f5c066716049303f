//! Carrying a plan out: the only writer. Doing the same twice is harmless.

use k8s_openapi::api::{
    certificates::v1::CertificateSigningRequest,
    core::v1::{ConfigMap, ServiceAccount},
    rbac::v1::{ClusterRoleBinding, RoleBinding},
};
use kruise_core::{
    api::fleet::{join_request::JoinRequest, member_cluster::MemberCluster},
    runtime::{
        client::{Error, call},
        events::about,
        key::{Key, uid},
    },
};
use kube::{
    Api, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams,
        Preconditions,
    },
    core::DeserializeGuard,
};
use serde_json::{Value, json};
use tracing::info;

use super::{
    Answerer,
    observe::Seen,
    plan::{About, Action},
};
use crate::members::{account::Account, tokens};

/// Under whose name roles and bindings are made.
const MANAGER: &str = "kruise-hub";

impl Answerer {
    /// Does one thing.
    pub(super) async fn apply(&self, cluster: &str, seen: &Seen, action: Action) -> Result<(), Error> {
        match action {
            Action::UseToken { id, version, used_by } => self.use_token(&id, &version, &used_by).await,
            Action::LetRead(objects) => self.make(objects.as_slice()).await,
            Action::Grant(objects) => self.make(&objects).await,
            Action::Tell(status) => self.tell(cluster, seen, &status).await,
            Action::Join(member) => self.join(&member).await,
            Action::Withdraw(bindings) => {
                for (kind, namespace, name) in bindings {
                    self.withdraw(kind, namespace.as_deref(), &name).await?;
                }
                Ok(())
            }
            Action::Dismiss { uid } => self.dismiss(cluster, uid).await,
            Action::Issue { to, answers, key } => self.issue(cluster, seen, (to, &answers), &key).await,
            Action::Sign { name, uid, version, fault } => self.sign(&name, (&uid, &version), fault).await,
            Action::Note(status) => self.note(cluster, seen, &status).await,
            Action::Forget => self.forget(cluster, seen).await,
            Action::Event { about: what, severity, reason, message } => {
                let member = seen.member.as_ref().and_then(|it| it.0.as_ref().ok());
                let object = match what {
                    About::Request => seen.request.as_ref().map(|it| about(&**it)),
                    About::Member => member.map(about),
                };
                if let Some(object) = object {
                    self.events.record(object, severity, reason, message);
                }
                Ok(())
            }
            Action::Count(decision) => {
                self.measures.joined(decision);
                Ok(())
            }
        }
    }

    /// Writes down who has used a token. Whoever judged an older version of it is refused.
    async fn use_token(&self, id: &str, version: &str, used_by: &str) -> Result<(), Error> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), &self.namespace);
        let patch = Patch::Merge(json!({
            "metadata": { "resourceVersion": version }, "data": { (tokens::USED_BY): used_by },
        }));
        let name = tokens::name(id);
        let used =
            call("write down a token's use", api.patch(&name, &PatchParams::default(), &patch)).await?;
        self.tokens.wrote(used);
        Ok(())
    }

    pub(super) async fn tell(&self, cluster: &str, seen: &Seen, status: &Value) -> Result<(), Error> {
        let Some(request) = &seen.request else { return Ok(()) };
        let api: Api<JoinRequest> = Api::all(self.client.clone());
        let mut metadata = json!({ "uid": uid(&**request) });
        if status.get("decision").is_some() {
            // A decision is for good: whatever a person has written since must be looked at first.
            metadata["resourceVersion"] = json!(request.metadata.resource_version);
        }
        let patch = Patch::Merge(json!({ "metadata": metadata, "status": status }));
        let (name, params) = (cluster, PatchParams::default());
        let told = call("answer a JoinRequest", api.patch_status(name, &params, &patch)).await?;
        if let Some(decision) = status.get("decision") {
            info!(cluster, %decision, reason = status["reason"].as_str(), "answered a JoinRequest");
        }
        self.requests.wrote(told);
        Ok(())
    }

    pub(super) async fn note(&self, cluster: &str, seen: &Seen, status: &Value) -> Result<(), Error> {
        let Some(member) = &seen.member else { return Ok(()) };
        let api: Api<MemberCluster> = Api::all(self.client.clone());
        let patch = Patch::Merge(json!({ "metadata": { "uid": uid(&**member) }, "status": status }));
        let (name, params) = (cluster, PatchParams::default());
        let noted = call("hand a credential over", api.patch_status(name, &params, &patch)).await?;
        self.members.wrote(DeserializeGuard(Ok(noted)));
        Ok(())
    }

    async fn join(&self, member: &MemberCluster) -> Result<(), Error> {
        let api: Api<MemberCluster> = Api::all(self.client.clone());
        let made = call("make a MemberCluster", api.create(&PostParams::default(), member)).await?;
        info!(cluster = made.metadata.name, "a cluster has joined");
        self.members.wrote(DeserializeGuard(Ok(made)));
        Ok(())
    }

    /// Makes what is not there. Roles and bindings are brought to what they should be; a namespace and a Lease that are
    /// there stay as they are.
    async fn make(&self, objects: &[Value]) -> Result<(), Error> {
        for object in objects {
            let (api, name) = (self.any(object), object["metadata"]["name"].as_str().unwrap_or_default());
            let kind = object["kind"].as_str().unwrap_or_default();
            if matches!(kind, "Namespace" | "Lease") {
                let body = typed::<DynamicObject>(object)?;
                match call("make what an agent needs", api.create(&PostParams::default(), &body)).await {
                    Err(error) if error.is_name_taken() => {}
                    other => drop(other?),
                }
                continue;
            }
            if kind == "ServiceAccount" {
                self.accounts.wrote(self.make_account(object).await?);
                continue;
            }
            let params = PatchParams::apply(MANAGER).force();
            let made =
                call("give an agent its rights", api.patch(name, &params, &Patch::Apply(object))).await?;
            let made = serde_json::to_value(&made).unwrap_or_default();
            match kind {
                "RoleBinding" => drop(self.bindings.wrote(typed(&made)?)),
                "ClusterRoleBinding" => drop(self.cluster_bindings.wrote(typed(&made)?)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes the account of an agent. One that is there and was made for another key is not taken over: whoever had that has tokens
    /// of it. It is dismissed when it is seen (ADR 13).
    async fn make_account(&self, object: &Value) -> Result<ServiceAccount, Error> {
        let wanted: ServiceAccount = typed(object)?;
        let (namespace, name) = (wanted.namespace().unwrap_or_default(), wanted.name_any());
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &namespace);
        let there = call("look for an agent's account", api.get_opt(&name)).await?;
        if let Some(there) = there.filter(|it| Account::of(it).key != Account::of(&wanted).key) {
            self.accounts.wrote(there);
            let source = "there is one of another key".into();
            return Err(Error::Api { call: "make an agent's account", source: kube::Error::Service(source) });
        }
        // Applied, as the right to create one cannot be bound to a name.
        let (params, patch) = (PatchParams::apply(MANAGER).force(), Patch::Apply(object));
        call("make an agent's account", api.patch(&name, &params, &patch)).await
    }

    async fn withdraw(&self, kind: &str, namespace: Option<&str>, name: &str) -> Result<(), Error> {
        let key = Key::new(namespace.unwrap_or_default(), name);
        let params = DeleteParams::default();
        let (deleted, uid) = match namespace {
            Some(namespace) => {
                let api: Api<RoleBinding> = Api::namespaced(self.client.clone(), namespace);
                let known = self.bindings.get(&key).map(|it| uid(&*it).to_owned());
                (call("withdraw rights", api.delete(name, &params)).await.map(drop), known)
            }
            None => {
                let api: Api<ClusterRoleBinding> = Api::all(self.client.clone());
                let known = self.cluster_bindings.get(&key).map(|it| uid(&*it).to_owned());
                (call("withdraw rights", api.delete(name, &params)).await.map(drop), known)
            }
        };
        match deleted {
            Err(error) if error.code() == Some(404) => {}
            other => other?,
        }
        info!(kind, %key, "withdrew rights");
        let uid = uid.unwrap_or_default();
        if namespace.is_some() {
            self.bindings.deleted(&key, &uid);
        } else {
            self.cluster_bindings.deleted(&key, &uid);
        }
        Ok(())
    }

    /// Answers exactly the request that was judged: another one under its name has another UID.
    async fn sign(
        &self,
        name: &str,
        (uid, version): (&str, &str),
        fault: Option<String>,
    ) -> Result<(), Error> {
        let api: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        let (kind, reason) =
            if fault.is_none() { ("Approved", "FleetMember") } else { ("Denied", "FleetRefused") };
        let is_approved = fault.is_none();
        let message = fault.unwrap_or_else(|| "it is what the agent of a member has to ask for".to_owned());
        let patch = Patch::Merge(json!({
            "metadata": { "uid": uid, "resourceVersion": version },
            "status": { "conditions": [{ "type": kind, "status": "True", "reason": reason, "message": message }] },
        }));
        let params = PatchParams::default();
        match call("answer a CertificateSigningRequest", api.patch_approval(name, &params, &patch)).await {
            // Gone by now.
            Err(error) if error.code() == Some(404) => self.signing.deleted(&Key::new("", name), uid),
            other => drop(self.signing.wrote(other?)),
        }
        info!(name, is_approved, reason = message, "answered a CertificateSigningRequest");
        Ok(())
    }

    async fn forget(&self, cluster: &str, seen: &Seen) -> Result<(), Error> {
        let Some(request) = &seen.request else { return Ok(()) };
        let api: Api<JoinRequest> = Api::all(self.client.clone());
        let uid = uid(&**request);
        let exactly = Preconditions { uid: Some(uid.to_owned()), ..Preconditions::default() };
        let params = DeleteParams::default().preconditions(exactly);
        match call("delete an answered JoinRequest", api.delete(cluster, &params)).await {
            Err(error) if error.code() == Some(404) => {}
            other => drop(other?),
        }
        self.requests.deleted(&Key::new("", cluster), uid);
        Ok(())
    }

    pub(super) fn any(&self, object: &Value) -> Api<DynamicObject> {
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let (group, version) = version.split_once('/').unwrap_or(("", &version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }
}

fn typed<T: serde::de::DeserializeOwned>(object: &Value) -> Result<T, Error> {
    serde_json::from_value(object.clone())
        .map_err(|source| Error::Api { call: "read an answer", source: kube::Error::SerdeError(source) })
}
