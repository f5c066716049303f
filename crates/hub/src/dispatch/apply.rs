//! Carrying a round out: the only writer. Saved before written, shrinks before growth.

use std::sync::PoisonError;

use futures::{StreamExt, stream};
use kruise_core::{
    api::fleet::{
        API_VERSION,
        assignment::Assignment,
        binding::{FleetBinding, FleetBindingSpec, FleetBindingStatus},
        keys::{self, events},
    },
    runtime::{
        cache::Cached,
        client::{Error as CallError, call},
        controller::Next,
        events::Severity,
        key::{Key, uid, version},
    },
};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::{DeserializeGuard, Request},
};
use serde_json::{Value, json};

use super::{
    Dispatcher, Error, LOOK_AGAIN, STATUS_REST,
    observe::Seen,
    plan::{self, Observed, Round, Write},
    raw::Raw,
    status, term,
};
use crate::names;

/// How many Assignments of one object are written at once.
const WRITES_AT_ONCE: usize = 16;

impl<K> Dispatcher<K>
where
    K: Resource<DynamicType = ()> + 'static,
    Raw<K>: Cached,
{
    /// Carries a round out, in the order in which every prefix is safe.
    pub(super) async fn carry_out(
        &self,
        key: &Key,
        seen: &Seen<K>,
        observed: &Observed<'_>,
        round: Round,
    ) -> Result<Next, Error> {
        let Round {
            mut save,
            body,
            stable,
            writes,
            removals,
            standing,
            ahead,
            is_settled,
            expires,
            look_again,
        } = round;
        let mut try_again = None;
        if let (Some(ahead), Some(spec)) = (&ahead, &mut save)
            && !self.look_ahead(key, seen, observed, ahead).await
        {
            // Not done, so not said.
            spec.ledger.pre_download = observed.binding.and_then(|it| it.spec.ledger.pre_download.clone());
            try_again = Some(LOOK_AGAIN);
            save = save.filter(|it| !plan::is_saved(observed, it));
        }
        // None of these says anything to a cluster, so their order does not matter; all are stored before the first that does. What
        // is under way is not given up because another one fails: its answer is worth knowing.
        // Until the ledger names the body nobody removes it.
        let removed = match &body {
            Some(_) => Some(self.shared.bodies.read().await),
            None => None,
        };
        let claiming =
            async { if writes.is_empty() || seen.is_ours { Ok(()) } else { self.claim(seen).await } };
        let publishing = async {
            match body {
                Some(body) => {
                    self.publish(key, seen, body, removed.as_deref().copied().unwrap_or_default()).await
                }
                None => Ok(()),
            }
        };
        let (claimed, binding, published) =
            tokio::join!(claiming, self.save(key, seen, save, &writes), publishing);
        drop(removed);
        let binding = binding?;
        self.weigh(key, binding.as_ref());
        claimed.and(published)?;
        if !writes.is_empty() {
            // What clusters say of it, they say in a moment: the first status tells that too, and not that nobody has answered.
            self.memory().entry(key.clone()).or_default().status.get_or_insert(self.shared.clock.instant());
        }
        let written = self.write(seen, writes).await;
        // Whoever waits for that body waits for nobody's share.
        self.keep_stable(key, seen, stable.as_ref()).await;
        for (cluster, why) in written? {
            try_again = Some(LOOK_AGAIN);
            let message = format!("{cluster} cannot be told its share: {why}");
            self.tell_once(key, seen, Severity::Warning, "NotDispatched", &message);
        }
        for cluster in removals {
            self.remove(seen, &cluster).await?;
        }
        let rarely = standing.notes.iter().find(|it| it.told == status::Told::Rarely);
        let told_later = self.tell_rarely(key, seen, rarely);
        for status::Note { told, severity, reason, message } in &standing.notes {
            match told {
                status::Told::Rarely => {}
                status::Told::EveryTime => {
                    self.record(seen, *severity, reason, message);
                }
                status::Told::Once => {
                    if self.tell_once(key, seen, *severity, reason, message)
                        && *reason == events::REPORT_REFUSED
                    {
                        self.shared.measures.refused();
                    }
                }
            }
        }
        let rest = self.tell(key, seen, observed, binding, &standing).await?;
        if expires {
            self.expire(key, seen).await?;
            return Ok(Next::Change);
        }
        let unsettled = (!is_settled).then_some(LOOK_AGAIN);
        Ok([rest, unsettled, look_again, try_again, told_later]
            .into_iter()
            .flatten()
            .min()
            .map_or(Next::Change, Next::After))
    }

    /// Notes the size of a ledger that is new, or new to this process.
    fn weigh(&self, key: &Key, binding: Option<&FleetBinding>) {
        let Some(binding) = binding else { return };
        let fleet = &self.shared.measures.fleet;
        fleet.weigh(&self.label(key), binding.metadata.generation.unwrap_or_default(), || {
            serde_json::to_string(&binding.spec.ledger).map_or(0, |it| it.len())
        });
    }

    /// Puts our finalizer on the object before anything of it is in a cluster.
    async fn claim(&self, seen: &Seen<K>) -> Result<(), Error> {
        let mut finalizers = seen.object.finalizers().to_vec();
        finalizers.push(keys::FINALIZER.to_owned());
        Ok(self.set_finalizers(seen, &finalizers).await?)
    }

    pub(super) async fn set_finalizers(
        &self,
        seen: &Seen<K>,
        finalizers: &[String],
    ) -> Result<(), CallError> {
        let patch = json!({"metadata": {
            "finalizers": finalizers, "uid": uid(&*seen.object), "resourceVersion": version(&*seen.object),
        }});
        let request = self
            .request(seen)
            .patch(&seen.reference.name, &PatchParams::default(), &Patch::Merge(patch))
            .map_err(kube::Error::BuildRequest);
        let changed: Raw<K> =
            call("change the finalizers of an object", async { self.shared.client.request(request?).await })
                .await?;
        // One whose last finalizer has gone while it is being deleted is gone with it.
        if changed.meta().deletion_timestamp.is_some() && changed.finalizers().is_empty() {
            self.objects.deleted(&Key::of(&changed), uid(&changed));
        } else {
            self.objects.wrote(changed);
        }
        Ok(())
    }

    /// Saves the ledger. What another leader saved since is not overwritten.
    pub(super) async fn save(
        &self,
        key: &Key,
        seen: &Seen<K>,
        spec: Option<FleetBindingSpec>,
        writes: &[Write],
    ) -> Result<Option<FleetBinding>, Error> {
        let stored = seen.stored_binding();
        let Some(mut spec) = spec else { return Ok(stored.cloned()) };
        if !writes.is_empty() {
            let ours = self.term(seen, writes).await?;
            let newer = spec.ledger.term;
            if newer > ours {
                return Err(self.step_down(newer, ours));
            }
            spec.ledger.term = ours;
        }
        let api = self.bindings(seen);
        let (_, name) = names::binding(&seen.reference);
        let saved = match stored {
            Some(stored) => {
                let steps = json!([
                    {"op": "test", "path": "/metadata/uid", "value": uid(stored)},
                    {"op": "replace", "path": "/metadata/resourceVersion", "value": version(stored)},
                    {"op": "replace", "path": "/spec", "value": spec},
                ]);
                call("save a ledger", api.patch(&name, &PatchParams::default(), &json_patch(steps))).await?
            }
            None => {
                let owner = seen.object.owner_ref(&());
                let body = json!({
                    "apiVersion": API_VERSION, "kind": "FleetBinding",
                    "metadata": {"name": name, "ownerReferences": owner.into_iter().collect::<Vec<_>>()},
                    "spec": spec,
                });
                let body: FleetBinding =
                    serde_json::from_value(body).map_err(|it| unreadable("a new binding", &it))?;
                call("create a binding", api.create(&PostParams::default(), &body)).await?
            }
        };
        self.shared.bindings.wrote(DeserializeGuard(Ok(saved.clone())));
        self.memory().entry(key.clone()).or_default().saved = Some(self.shared.clock.instant());
        Ok(Some(saved))
    }

    /// Writes Assignments: those that let a cluster do more only after all others are stored (BUD-3). Gives the clusters that have
    /// no place for theirs, because their namespace is gone or takes nothing, with the server's words. They learn nothing new, and what
    /// they may be doing is in the ledger: nobody else has to wait for them.
    pub(super) async fn write(
        &self,
        seen: &Seen<K>,
        writes: Vec<Write>,
    ) -> Result<Vec<(String, String)>, Error> {
        let mut unreached = Vec::new();
        if writes.is_empty() {
            return Ok(unreached);
        }
        let term = self.term(seen, &writes).await?;
        // It may have come no further than to one cluster: the API server takes nothing under a lower number there.
        let stored = writes.iter().filter_map(|it| seen.assignment(&it.cluster));
        let newer = stored.map(|it| it.spec.term).max().unwrap_or_default();
        if newer > term {
            return Err(self.step_down(newer, term));
        }
        let (growing, others): (Vec<_>, Vec<_>) = writes.into_iter().partition(|it| it.grows);
        for group in [others, growing] {
            let writing = stream::iter(group)
                .map(|it| async move { (it.cluster.clone(), self.assign(seen, it, term).await) });
            // What is under way is not given up because another one fails: its answer is worth knowing.
            let written: Vec<_> = writing.buffer_unordered(WRITES_AT_ONCE).collect().await;
            for (cluster, written) in written {
                match written {
                    Err(Error::Call(error)) if matches!(error.code(), Some(403 | 404)) => {
                        unreached.push((cluster, error.told()));
                    }
                    written => written?,
                }
            }
        }
        Ok(unreached)
    }

    /// Either we lead no more, or one that does not has overtaken us. Who leads is for the election to say, and whoever does then
    /// takes a number above both: going on under ours would never work again.
    fn step_down(&self, newer: u64, ours: u64) -> Error {
        self.shared.deposed.cancel();
        Error::Deposed { newer, ours }
    }

    async fn assign(&self, seen: &Seen<K>, write: Write, term: u64) -> Result<(), Error> {
        let Write { cluster, mut spec, .. } = write;
        spec.term = term;
        let name = names::assignment(&seen.reference);
        let api = self.assignments(&cluster);
        let written = match seen.assignment(&cluster) {
            Some(stored) => {
                let steps = json!([
                    {"op": "test", "path": "/metadata/uid", "value": uid(stored)},
                    {"op": "replace", "path": "/spec", "value": spec},
                ]);
                call("write an assignment", api.patch(&name, &PatchParams::default(), &json_patch(steps)))
                    .await?
            }
            None => {
                let mut assignment = Assignment::new(&name, spec);
                assignment.labels_mut().insert(keys::CLUSTER.to_owned(), names::fitted(&cluster));
                call("create an assignment", api.create(&PostParams::default(), &assignment)).await?
            }
        };
        self.shared.measures.dispatched();
        let sent = (written.spec.seq, self.shared.clock.instant());
        self.memory().entry(Key::of(&*seen.object)).or_default().sent.insert(cluster, sent);
        self.shared.assignments.wrote(DeserializeGuard(Ok(written)));
        Ok(())
    }

    pub(super) async fn remove(&self, seen: &Seen<K>, cluster: &str) -> Result<(), Error> {
        let Some(stored) = seen.assignment(cluster) else { return Ok(()) };
        let api = self.assignments(cluster);
        delete("delete an assignment", &api, &stored.name_any(), uid(stored)).await?;
        self.shared.assignments.deleted(&Key::of(stored), uid(stored));
        Ok(())
    }

    /// Writes both statuses where they changed; says how long to wait if that is too soon (ST-7).
    pub(super) async fn tell(
        &self,
        key: &Key,
        seen: &Seen<K>,
        observed: &Observed<'_>,
        binding: Option<FleetBinding>,
        standing: &status::Standing,
    ) -> Result<Option<std::time::Duration>, Error> {
        let is_told = |it: &FleetBinding| {
            status::is_same(it.status.as_ref().unwrap_or(&FleetBindingStatus::default()), &standing.binding)
        };
        let binding = binding.filter(|it| !is_told(it));
        let object = changes(seen.status(), &standing.object);
        if binding.is_none() && object.is_none() {
            return Ok(None);
        }
        let now = self.shared.clock.instant();
        let last = self.memory().get(key).and_then(|it| it.status);
        if let Some(wait) =
            last.and_then(|it| (it + STATUS_REST).checked_duration_since(now)).filter(|it| !it.is_zero())
        {
            return Ok(Some(wait));
        }
        self.memory().entry(key.clone()).or_default().status = Some(now);
        if let Some(binding) = binding {
            let steps = json!([
                {"op": "test", "path": "/metadata/uid", "value": uid(&binding)},
                {"op": "add", "path": "/status", "value": standing.binding},
            ]);
            let (api, name) = (self.bindings(seen), binding.name_any());
            let (params, patch) = (PatchParams::default(), json_patch(steps));
            let told = call("tell how an object stands", api.patch_status(&name, &params, &patch)).await?;
            let ours = (Key::of(&told), version(&told).to_owned());
            self.shared.told.lock().unwrap_or_else(PoisonError::into_inner).extend([ours]);
            self.shared.bindings.wrote(DeserializeGuard(Ok(told)));
        }
        if let Some(status) = object {
            let patch = json!({"metadata": {"uid": observed.reference.uid}, "status": status});
            let request = self
                .request(seen)
                .patch_subresource(
                    "status",
                    &seen.reference.name,
                    &PatchParams::default(),
                    &Patch::Merge(patch),
                )
                .map_err(kube::Error::BuildRequest);
            let told = call("write an object's status", async { self.shared.client.request(request?).await });
            self.objects.wrote(told.await?);
        }
        Ok(None)
    }

    /// The term to write these under.
    pub(super) async fn term(&self, seen: &Seen<K>, writes: &[Write]) -> Result<u64, Error> {
        // What clusters have applied counts as well: a hub that was restored from an older copy has forgotten terms.
        let term = |it: &Assignment| {
            let said = it.status.as_ref().map_or(0, |it| it.applied_term);
            term::believable(said, it.spec.term)
        };
        // Only where it is more than was written: another leader's plan deposes us, and its term is not taken over.
        let forgotten = |it: &Assignment| Some(term(it)).filter(|known| *known > it.spec.term);
        let stored = writes.iter().filter_map(|it| seen.assignment(&it.cluster));
        let floor = stored.filter_map(forgotten).max().unwrap_or_default();
        let known = || {
            let all = self.shared.assignments.all();
            let written = all.iter().filter_map(|it| it.0.as_ref().ok()).map(term).max();
            let all = self.shared.bindings.all();
            let saved = all.iter().filter_map(|it| Some(it.0.as_ref().ok()?.spec.ledger.term)).max();
            written.max(saved).unwrap_or_default()
        };
        Ok(self.shared.term.get(floor, known).await?)
    }

    pub(super) fn bindings(&self, seen: &Seen<K>) -> Api<FleetBinding> {
        let (namespace, _) = names::binding(&seen.reference);
        Api::namespaced(self.shared.client.clone(), &namespace)
    }

    fn assignments(&self, cluster: &str) -> Api<Assignment> {
        Api::namespaced(self.shared.client.clone(), &names::cluster_namespace(cluster))
    }

    pub(super) fn request(&self, seen: &Seen<K>) -> Request {
        Request::new(K::url_path(&(), seen.reference.namespace.as_deref()))
    }
}

/// Deletes exactly one object; one that is gone already is deleted.
pub(super) async fn delete<T>(name: &'static str, api: &Api<T>, object: &str, uid: &str) -> Result<(), Error>
where
    T: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let uid = Some(uid.to_owned());
    let params = DeleteParams::default().preconditions(Preconditions { uid, ..Preconditions::default() });
    match call(name, api.delete(object, &params)).await {
        Err(error) if error.code() == Some(404) => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

/// The fields of `wanted` that are not so in `status`, if anybody could tell the difference.
pub(super) fn changes(status: &Value, wanted: &Value) -> Option<Value> {
    let is_zero = |it: &Value| it.as_u64() == Some(0) || it.as_str() == Some("");
    let differs = |name: &str, value: &Value| status[name] != *value;
    // A count that is not there is zero.
    let is_news =
        |name: &str, value: &Value| differs(name, value) && !(status[name].is_null() && is_zero(value));
    let wanted = wanted.as_object()?;
    if !wanted.iter().any(|(name, value)| is_news(name, value)) {
        return None;
    }
    // Zeros go with the rest: a status without the counts that its kind requires would be refused.
    let fields = wanted.iter().filter(|(name, value)| differs(name, value));
    Some(fields.map(|(name, value)| (name.clone(), value.clone())).collect::<serde_json::Map<_, _>>().into())
}

fn json_patch(steps: Value) -> Patch<()> {
    Patch::Json(serde_json::from_value(steps).expect("these are steps of a JSON patch"))
}

fn unreadable(what: &str, fault: &serde_json::Error) -> Error {
    Error::Unreadable { what: what.to_owned(), fault: fault.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_written_only_where_it_changes() {
        let status = json!({"replicas": 3, "conditions": []});
        assert_eq!(changes(&status, &json!({"replicas": 3, "readyReplicas": 0})), None);
        assert_eq!(
            changes(&status, &json!({"replicas": 2, "readyReplicas": 1})),
            Some(json!({"replicas": 2, "readyReplicas": 1}))
        );
        assert_eq!(changes(&Value::Null, &Value::Null), None);
    }

    #[test]
    fn a_first_status_has_the_counts_that_are_zero_too() {
        let wanted = json!({"replicas": 0, "readyReplicas": 0, "updateRevision": "web-1"});
        assert_eq!(changes(&Value::Null, &wanted), Some(wanted.clone()));
        assert_eq!(changes(&Value::Null, &json!({"replicas": 0})), None, "nobody has said anything yet");
    }
}
