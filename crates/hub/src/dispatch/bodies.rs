//! Bodies: stored once for all clusters, and looked after as long as somebody may need them (REV-7).

use kruise_core::{
    api::fleet::{
        keys,
        revision::{FleetRevision, FleetRevisionSpec},
    },
    runtime::{
        cache::Cached,
        client::call,
        events::Severity,
        key::{Key, uid},
    },
};
use kube::{Api, Resource, api::PostParams};
use scheduling::{names::ClusterName, reason};
use tokio::time::Instant;
use tracing::warn;

use super::{
    Dispatcher, Error, LOOK_AGAIN, Memory,
    apply::delete,
    observe::Seen,
    plan::{Body, Stable},
    raw::Raw,
};
use crate::{ledger, placement::kinds};

/// What people are told when something else was found under the name of a body.
const REPLACED: &str = "BodyReplaced";
/// What people are told when a body is not to be had from anywhere.
const LOST: &str = "BodyLost";

impl<K> Dispatcher<K>
where
    K: Resource<DynamicType = ()> + 'static,
    Raw<K>: Cached,
{
    /// Stores a body once for all clusters.
    pub(super) async fn publish(
        &self,
        key: &Key,
        seen: &Seen<K>,
        body: Body,
        removed: u64,
    ) -> Result<(), Error> {
        let known = Some((body.name.clone(), removed));
        let now = self.shared.clock.instant();
        let is_fresh = |it: Instant| now.saturating_duration_since(it) < LOOK_AGAIN;
        let is_stored =
            |it: &Memory| it.body == known && (!body.is_missing || it.stored.is_some_and(is_fresh));
        if self.memory().get(key).is_some_and(is_stored) {
            return Ok(());
        }
        self.put(key, seen, &body.name, body.spec).await?;
        let mut memory = self.memory();
        let of = memory.entry(key.clone()).or_default();
        (of.body, of.stored) = (known, Some(now));
        Ok(())
    }

    /// Sees to it that the body which pods come from can be had while a release needs it: a copy is kept meanwhile. A round does not
    /// wait for that.
    pub(super) async fn keep_stable(&self, key: &Key, seen: &Seen<K>, stable: Option<&Stable>) {
        let Some(stable) = stable else {
            if let Some(of) = self.memory().get_mut(key) {
                of.stable = None;
            }
            return;
        };
        let now = self.shared.clock.instant();
        let copy = {
            let mut memory = self.memory();
            let of = memory.entry(key.clone()).or_default();
            let copy = of.stable.clone().filter(|it| it.0 == stable.name).map(|it| it.1);
            let is_fresh = of.looked.is_some_and(|it| now.saturating_duration_since(it) < LOOK_AGAIN);
            if copy.is_some() && stable.lacking.is_empty() || is_fresh {
                return;
            }
            of.looked = Some(now);
            copy
        };
        let kept = match copy {
            Some(copy) => self.put(key, seen, &stable.name, copy).await,
            None => self.copy(key, seen, stable).await,
        };
        if let Err(error) = kept {
            warn!(error = &error as &dyn std::error::Error, "a body is not looked after for now");
        }
    }

    /// Keeps a copy of the body that pods come from; says so if there is none and somebody needs it.
    async fn copy(&self, key: &Key, seen: &Seen<K>, stable: &Stable) -> Result<(), Error> {
        let found = call("read the body that pods come from", self.revisions().get_opt(&stable.name)).await?;
        match found.map(|it| it.spec).filter(|it| is_of(it, &K::group(&()), &stable.hash)) {
            Some(spec) => {
                self.memory().entry(key.clone()).or_default().stable = Some((stable.name.clone(), spec));
            }
            None if stable.lacking.is_empty() => {}
            None => {
                self.tell_once(key, seen, Severity::Warning, LOST, &lost(stable));
            }
        }
        Ok(())
    }

    /// Stores a body under its name, which stands for it: whatever else is there under that name goes.
    async fn put(&self, key: &Key, seen: &Seen<K>, name: &str, spec: FleetRevisionSpec) -> Result<(), Error> {
        let api = self.revisions();
        let revision = FleetRevision::new(name, spec);
        let params = PostParams::default();
        match call("store a body", api.create(&params, &revision)).await {
            // Any other conflict says nothing of that kind.
            Err(error) if error.is_name_taken() => {}
            other => return Ok(other.map(drop)?),
        }
        if let Some(found) = call("look at a body", api.get_opt(name)).await? {
            if is_same(&found.spec, &revision.spec) {
                return Ok(());
            }
            delete("delete what is no body", &api, name, uid(&found)).await?;
            let message =
                format!("the FleetRevision {name} was not what its name stands for; it is stored again");
            self.tell_once(key, seen, Severity::Warning, REPLACED, &message);
        }
        call("store a body again", api.create(&params, &revision)).await?;
        Ok(())
    }

    fn revisions(&self) -> Api<FleetRevision> {
        Api::namespaced(self.shared.client.clone(), keys::CONTENT_NAMESPACE)
    }
}

/// Whether agents would take one for the other.
fn is_same(one: &FleetRevisionSpec, other: &FleetRevisionSpec) -> bool {
    one.hash == other.hash && one.body == other.body
}

/// Whether a body is of this revision, and not only said to be.
fn is_of(spec: &FleetRevisionSpec, group: &str, hash: &str) -> bool {
    let kind = kinds::of(group, &spec.kind);
    let made = spec.body.as_ref().map(|it| ledger::hash(kinds::revision(&*kind, it)));
    spec.hash == hash && made.as_deref() == Some(hash)
}

fn lost(Stable { name, lacking, .. }: &Stable) -> String {
    let lacking: Vec<ClusterName> = lacking.iter().map(|it| it.as_str().into()).collect();
    format!(
        "the body of the revision that pods come from, FleetRevision {name} in {}, is gone or is not what it was, and the hub has no copy \
         of it; {} cannot begin without it: apply the template of before once more until it is stored, and then the new one, or \
         restore it from a backup",
        keys::CONTENT_NAMESPACE,
        reason::list(&lacking)
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rev_7_a_body_is_what_its_template_makes_it_whatever_it_is_said_to_be() {
        let body = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "v1"}]}}}});
        let kind = kinds::of("apps.kruise.io", "CloneSet");
        let hash = ledger::hash(kinds::revision(&*kind, &body));
        let spec = FleetRevisionSpec {
            kind: "CloneSet".into(),
            hash: hash.clone(),
            body: Some(body),
            ..FleetRevisionSpec::default()
        };
        let is_of = |it: &FleetRevisionSpec| is_of(it, "apps.kruise.io", &hash);
        assert!(is_of(&spec));
        assert!(!is_of(&FleetRevisionSpec { hash: "ff".into(), ..spec.clone() }));
        assert!(!is_of(&FleetRevisionSpec { body: None, ..spec.clone() }));
        let mut forged = spec.clone();
        forged.body.as_mut().unwrap()["spec"]["template"]["spec"]["containers"][0]["image"] = json!("v2");
        assert!(!is_of(&forged) && !is_same(&forged, &spec) && is_same(&spec, &spec.clone()));
    }
}
