//! The two revisions of a release: found in the history, or written into it.

use std::{collections::BTreeMap, sync::Arc};

use dashmap::DashMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    api::{DeleteParams, Patch, PatchParams},
    core::{Selector, SelectorExt},
};
use serde_json::json;
use tracing::warn;

use super::{observe::Observed, plan::Version, predownload::RELEASE_LABELS, sights::Kept};
use crate::{
    api::{
        cloneset::{
            keys::{CLAIM_TEMPLATES, CLAIM_TEMPLATES_HASH, PINNED_REVISION},
            v1beta1::CloneSet,
        },
        common::keys::CONTROLLER_REVISION_HASH,
    },
    revision::{
        data::RevisionData,
        hash::claims_hash,
        history::{self, Choice, Clash, NewRevision, Wanted},
    },
    runtime::{
        cache::revision::RevisionLite,
        client::Error,
        key::{Key, uid},
        writes::{On, Writer},
    },
};

/// How often a new revision's name may be taken by other content before we give up for now.
const COLLISIONS: usize = 20;

/// The revisions of one pass.
#[derive(Debug)]
pub struct Settled {
    /// Where pods go.
    pub update: Arc<Version>,
    /// Where they come from.
    pub current: Arc<Version>,
    /// The object behind `update`.
    pub update_object: Arc<RevisionLite>,
    /// The object behind `current`.
    pub current_object: Arc<RevisionLite>,
    /// All that are known, oldest first, without one that this pass has made.
    pub history: Vec<Arc<Version>>,
    /// How often names were taken.
    pub collision_count: i32,
    listed: Vec<Arc<RevisionLite>>,
}

/// Revisions and pods in the form that decisions need, so that none is opened twice.
#[derive(Debug, Default)]
pub struct Opened {
    /// By the UID of the revision.
    versions: DashMap<String, Arc<Version>>,
    /// What the template of a CloneSet is recorded as, by its UID, with the generation it was computed from.
    encoded: DashMap<String, (i64, RevisionData)>,
    /// What was seen of the pods of CloneSets.
    pub sights: Kept,
}

impl Opened {
    fn open(&self, revision: &RevisionLite) -> Arc<Version> {
        let hash = revision.annotation(CLAIM_TEMPLATES_HASH);
        if let Some(known) = self.versions.get(uid(revision)).map(|it| it.clone())
            && known.claims_hash.as_deref() == hash
        {
            return known;
        }
        let template = revision.data.template().unwrap_or_default();
        let version = Arc::new(Version {
            name: revision.name().to_owned(),
            data: json!({"spec": {"template": template}}),
            claims_hash: hash.map(str::to_owned),
            claim_templates: recorded_claims(revision),
        });
        self.versions.insert(uid(revision).to_owned(), version.clone());
        version
    }

    fn encode(&self, cloneset: &CloneSet) -> RevisionData {
        let generation = cloneset.metadata.generation.unwrap_or_default();
        if let Some(known) = self.encoded.get(uid(cloneset)).map(|it| it.clone())
            && known.0 == generation
        {
            return known.1;
        }
        let data = RevisionData::of_template(&cloneset.spec.template);
        self.encoded.insert(uid(cloneset).to_owned(), (generation, data.clone()));
        data
    }

    /// Forgets a revision that is gone.
    pub fn forget_revision(&self, uid: &str) {
        self.versions.remove(uid);
    }

    /// Forgets a CloneSet that is gone.
    pub fn forget_cloneset(&self, uid: &str) {
        self.encoded.remove(uid);
        self.sights.forget(uid);
    }

    /// How many things are kept.
    pub fn len(&self) -> usize {
        self.versions.len() + self.encoded.len() + self.sights.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The revision that has to stay the current one, where somebody else decides when a release is over.
pub fn pinned(cloneset: &CloneSet) -> Option<&str> {
    cloneset.metadata.annotations.as_ref()?.get(PINNED_REVISION).map(String::as_str)
}

/// The pinned revision, if it is not there. Without it nobody knows what the pods are made from that are not to be updated:
/// pods of the new revision in their place would be more than were asked for.
pub fn missing_pin<'a>(cloneset: &'a CloneSet, selector: &Selector, observed: &Observed) -> Option<&'a str> {
    let history = history::history(&observed.revisions, uid(cloneset), |it| selector.matches(it));
    pinned(cloneset).filter(|it| history::current(&history, it).is_none())
}

/// Finds the revisions of `cloneset`, and writes the one that its template asks for if there is none.
pub async fn settle(
    cloneset: &CloneSet,
    selector: &Selector,
    observed: &Observed,
    opened: &Opened,
    writer: &Writer<RevisionLite>,
) -> Result<Settled, Error> {
    let history = history::history(&observed.revisions, uid(cloneset), |it| selector.matches(it));
    let status = cloneset.status.clone().unwrap_or_default();
    let wanted = wanted(cloneset, opened.encode(cloneset));
    let collision_count = status.collision_count.unwrap_or_default();
    let find = |name: &str| observed.revisions.iter().find(|it| it.name() == name).cloned();
    let (update, collision_count) = match history::choose(&history, &wanted, collision_count) {
        Choice::Use { name } => (find(&name), collision_count),
        Choice::Refresh { name, revision, annotations, forgotten } => {
            let found = find(&name);
            let patch = Patch::Merge(history::refresh_patch(revision, &annotations, &forgotten));
            match found {
                Some(it) => {
                    let on = On { call: "renumber a revision", owner: uid(cloneset) };
                    let it = writer.patch(on, &it, None, &patch, &PatchParams::default()).await?;
                    (Some(it), collision_count)
                }
                None => (None, collision_count),
            }
        }
        Choice::Create(new) => {
            let (made, collision_count) = create(*new, uid(cloneset), writer).await?;
            (Some(made), collision_count)
        }
    };
    let update = update.expect("the choice is one of the revisions it was made from");
    let current = pinned(cloneset).unwrap_or(&status.current_revision);
    let current = history::current(&history, current).and_then(|it| find(it.name()));
    let current = current.unwrap_or_else(|| update.clone());
    Ok(Settled {
        current: opened.open(&current),
        update: opened.open(&update),
        current_object: current,
        update_object: update,
        history: history.iter().map(|it| opened.open(it)).collect(),
        collision_count,
        listed: history.iter().filter_map(|it| find(it.name())).collect(),
    })
}

/// What a CloneSet records about its template. `data` is the template in its recorded form.
pub fn wanted(cloneset: &CloneSet, data: RevisionData) -> Wanted {
    let labels = cloneset.spec.template["metadata"]["labels"].as_object();
    let text = |(key, value): (&String, &serde_json::Value)| Some((key.clone(), value.as_str()?.to_owned()));
    let claims = &cloneset.spec.volume_claim_templates;
    let mut refreshed = BTreeMap::from([(CLAIM_TEMPLATES_HASH.to_owned(), claims_hash(claims))]);
    if !claims.is_empty() {
        refreshed.insert(CLAIM_TEMPLATES.to_owned(), json!(claims).to_string());
    }
    Wanted {
        namespace: cloneset.metadata.namespace.clone().unwrap_or_default(),
        owner: owner(cloneset),
        labels: labels.into_iter().flatten().filter_map(text).collect(),
        annotations: cloneset.metadata.annotations.clone().unwrap_or_default(),
        refreshed,
        forgotten: RELEASE_LABELS,
        data,
    }
}

/// The claim templates that were in force when the revision was written. OpenKruise does not record them.
fn recorded_claims(revision: &RevisionLite) -> Vec<serde_json::Value> {
    let text = revision.annotation(CLAIM_TEMPLATES).unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}

/// The reference by which things belong to a CloneSet.
pub fn owner(cloneset: &CloneSet) -> OwnerReference {
    OwnerReference {
        api_version: "apps.kruise.io/v1beta1".to_owned(),
        kind: "CloneSet".to_owned(),
        name: cloneset.metadata.name.clone().unwrap_or_default(),
        uid: uid(cloneset).to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Writes a new revision; where its name is taken by other content, under the next name.
pub async fn create(
    mut new: NewRevision,
    owner: &str,
    writer: &Writer<RevisionLite>,
) -> Result<(Arc<RevisionLite>, i32), Error> {
    let on = On { call: "create a revision", owner };
    let mut tries = COLLISIONS;
    loop {
        let key = Key::new(&new.namespace, &new.name);
        let found = match writer.create_text(on, &key, new.body()).await {
            Err(error) if error.code() == Some(409) && tries > 0 => writer.read(on, &key).await?,
            other => other?,
        };
        match new.clash(&found) {
            Clash::Same => return Ok((found, new.collision_count)),
            Clash::Collision(next) => new = *next,
        }
        tries = tries.saturating_sub(1);
    }
}

/// Deletes revisions that nobody needs any more. What fails is tried again in the next pass.
pub async fn truncate(
    cloneset: &CloneSet,
    settled: &Settled,
    observed: &Observed,
    writer: &Writer<RevisionLite>,
) {
    let history: Vec<&RevisionLite> = settled.listed.iter().map(|it| &**it).collect();
    let limit = cloneset.spec.revision_history_limit.unwrap_or(10);
    // Most of the time there is nothing to forget, and then pods need not be asked.
    if i64::from(limit) >= history.len() as i64 {
        return;
    }
    let pods = observed.pods.active().filter_map(|it| it.pod.labels().get(CONTROLLER_REVISION_HASH));
    let live = [settled.update.name.as_str(), settled.current.name.as_str()];
    let live = live.into_iter().chain(pods.map(String::as_str));
    for name in history::truncate(&history, live, limit) {
        let Some(revision) = settled.listed.iter().find(|it| it.name() == name) else { continue };
        let on = On { call: "delete a revision", owner: uid(cloneset) };
        if let Err(error) = writer.delete(on, revision, DeleteParams::default()).await {
            warn!(error = &error as &dyn std::error::Error, revision = name, "an old revision stays for now");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn revision(name: &str, owner: &str) -> Arc<RevisionLite> {
        let owners =
            json!([{"apiVersion": "v", "kind": "CloneSet", "name": "web", "uid": owner, "controller": true}]);
        let object = json!({
            "metadata": {"name": name, "labels": {"app": "web"}, "ownerReferences": if owner.is_empty() { json!([]) } else { owners }},
            "revision": 1, "data": {},
        });
        Arc::new(serde_json::from_value(object).unwrap())
    }

    #[test]
    fn rev_8_a_pinned_revision_has_to_be_in_the_history() {
        let mut cloneset: CloneSet = serde_json::from_value(json!({
            "metadata": {"name": "web", "uid": "u"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": {}},
        }))
        .unwrap();
        let selector = Selector::try_from(cloneset.spec.selector.clone()).unwrap();
        let observed = |revisions| Observed { revisions, ..Observed::default() };
        assert_eq!(missing_pin(&cloneset, &selector, &observed(vec![])), None, "nothing is pinned");

        cloneset.metadata.annotations = Some([(PINNED_REVISION.to_owned(), "web-1".to_owned())].into());
        let missing = |revisions| missing_pin(&cloneset, &selector, &observed(revisions)).is_some();
        assert!(missing(vec![]) && missing(vec![revision("web-2", "u")]));
        assert!(missing(vec![revision("web-1", "another")]), "it is another CloneSet's");
        assert!(!missing(vec![revision("web-1", "u")]) && !missing(vec![revision("web-1", "")]));
    }
}
