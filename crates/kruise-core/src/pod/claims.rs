//! Volume claims of pods: one per claim template and instance, found again by the instance's id.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::runtime::cache::{claim::ClaimLite, pod::PodLite};

/// What a claim does not get from its template.
#[derive(Debug, Clone, Copy)]
pub struct ClaimOf<'a> {
    /// The workload's name.
    pub workload: &'a str,
    /// The workload's namespace.
    pub namespace: &'a str,
    /// The owner reference to the workload, with `controller: true`.
    pub owner: &'a Value,
    /// The `matchLabels` of the workload's selector; claims carry them.
    pub selector: &'a BTreeMap<String, String>,
    /// Which instance it is for.
    pub id: &'a str,
    /// The label that holds the id.
    pub id_label: &'a str,
}

/// What becomes of a claim where claims are not reused.
#[derive(Debug, Clone, Copy)]
pub enum Fate<'a> {
    /// Its instance runs.
    Keep,
    /// The pod of its instance is on its way out or has ended: the claim goes when the pod does.
    HandOverTo(&'a PodLite),
    /// Its instance is gone.
    Delete,
}

/// The name of the claim of instance `id`.
pub fn name(template: &str, workload: &str, id: &str) -> String {
    format!("{template}-{workload}-{id}")
}

/// The names of the templates, which are the names of the volumes.
pub fn template_names(templates: &[Value]) -> Vec<String> {
    templates.iter().map(|it| template_name(it).to_owned()).collect()
}

/// The claim of `template` for one instance. Everything in its spec is kept, known to this version or not.
pub fn build(template: &Value, what: &ClaimOf<'_>) -> Value {
    let mut claim = template.as_object().cloned().unwrap_or_default();
    claim.remove("status");
    let mut metadata = match claim.remove("metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    };
    let mut labels = match metadata.remove("labels") {
        Some(Value::Object(labels)) => labels,
        _ => Map::new(),
    };
    labels.extend(what.selector.iter().map(|(key, value)| (key.clone(), value.as_str().into())));
    labels.insert(what.id_label.to_owned(), what.id.into());

    metadata.remove("creationTimestamp");
    metadata.insert("name".to_owned(), name(template_name(template), what.workload, what.id).into());
    metadata.insert("namespace".to_owned(), what.namespace.into());
    metadata.insert("labels".to_owned(), labels.into());
    metadata.insert("ownerReferences".to_owned(), json!([what.owner]));
    claim.insert("apiVersion".to_owned(), "v1".into());
    claim.insert("kind".to_owned(), "PersistentVolumeClaim".into());
    claim.insert("metadata".to_owned(), metadata.into());
    claim.into()
}

/// The claims that have to be made before the pod of this instance, of which `owned` exist already.
pub fn lacking(templates: &[Value], what: &ClaimOf<'_>, owned: &BTreeSet<&str>) -> Vec<Value> {
    let is_lacking = |it: &&Value| !owned.contains(name(template_name(it), what.workload, what.id).as_str());
    templates.iter().filter(is_lacking).map(|it| build(it, what)).collect()
}

/// The ids that new instances may take over together with their claims. Those that pods still occupy are among them;
/// [`instance_ids`](super::build::instance_ids) leaves them out.
///
/// An instance of which a claim is being deleted is none of them: its name is taken until the claim is gone, and part
/// of the data is lost anyway.
pub fn reusable_ids(claims: &[&ClaimLite], id_label: &str) -> BTreeSet<String> {
    let ids = |terminating: bool| {
        let claims = claims.iter().filter(move |it| it.is_terminating() == terminating);
        claims.filter_map(|it| it.labels().get(id_label).cloned()).collect::<BTreeSet<_>>()
    };
    &ids(false) - &ids(true)
}

/// What becomes of each of the workload's claims where they are not reused, by position in `claims`. Claims that are
/// being deleted are not mentioned.
///
/// `active` are the pods that count, `inactive` those on their way out and those that have ended; `in_doubt` are the ids of
/// pods that may have been made without our knowing.
pub fn without_reuse<'a>(
    claims: &[&ClaimLite],
    active: &[&'a PodLite],
    inactive: &[&'a PodLite],
    in_doubt: &BTreeSet<String>,
    id_label: &str,
) -> Vec<(usize, Fate<'a>)> {
    let running = active.iter().filter_map(|it| it.labels().get(id_label));
    let running: BTreeSet<&String> = running.chain(in_doubt).collect();
    let leaving: BTreeMap<&String, &'a PodLite> =
        inactive.iter().filter_map(|it| Some((it.labels().get(id_label)?, *it))).collect();
    let fate = |claim: &ClaimLite| match claim.labels().get(id_label) {
        Some(id) if running.contains(id) => Fate::Keep,
        Some(id) => leaving.get(id).map_or(Fate::Delete, |it| Fate::HandOverTo(it)),
        None => Fate::Delete,
    };
    let living = claims.iter().enumerate().filter(|(_, it)| !it.is_terminating());
    living.map(|(index, it)| (index, fate(it))).collect()
}

/// A merge patch that makes `pod` the owner of the claim instead of the workload with this UID. It is refused if the
/// claim has changed meanwhile, because it replaces the whole list of owners.
pub fn hand_over(claim: &ClaimLite, workload_uid: &str, pod: &PodLite) -> Value {
    let others = claim.metadata.owner_references.iter().flatten().filter(|it| it.uid != workload_uid);
    let mut owners: Vec<Value> = others.map(|it| json!(it)).collect();
    owners.push(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.metadata.name,
        "uid": pod.metadata.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    }));
    json!({"metadata": {
        "uid": claim.metadata.uid,
        "resourceVersion": claim.metadata.resource_version,
        "ownerReferences": owners,
    }})
}

/// The name of a claim template, which is the name of the volume.
pub fn template_name(template: &Value) -> &str {
    template.get("metadata").and_then(|it| it.get("name")).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::cloneset::keys::INSTANCE_ID,
        pod::{build::instance_ids, sample::pod},
    };

    fn claim(name: &str, id: &str) -> ClaimLite {
        let value = json!({"metadata": {"name": name, "labels": {INSTANCE_ID: id}}});
        serde_json::from_value(value).unwrap()
    }

    fn terminating(mut claim: ClaimLite) -> ClaimLite {
        claim.metadata.deletion_timestamp = pod("a").terminating().metadata.deletion_timestamp;
        claim
    }

    fn templates() -> Vec<Value> {
        vec![
            json!({
                "metadata": {"name": "data", "creationTimestamp": null, "labels": {"l": "1", "app": "other"},
                             "annotations": {"a": "1"}},
                "spec": {"resources": {"requests": {"storage": "1Gi"}}, "newField": 1},
                "status": {"phase": "Pending"},
            }),
            json!({"metadata": {"name": "log"}}),
        ]
    }

    fn with_what<T>(then: impl FnOnce(&ClaimOf<'_>) -> T) -> T {
        let (owner, selector) = (json!({"uid": "u"}), [("app".to_owned(), "x".to_owned())].into());
        then(&ClaimOf {
            workload: "foo",
            namespace: "ns",
            owner: &owner,
            selector: &selector,
            id: "id1",
            id_label: INSTANCE_ID,
        })
    }

    #[test]
    fn a_claim_carries_its_template_the_selectors_labels_and_the_id() {
        let expected = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "data-foo-id1", "namespace": "ns", "annotations": {"a": "1"}, "ownerReferences": [{"uid": "u"}],
                "labels": {"l": "1", "app": "x", "apps.kruise.io/cloneset-instance-id": "id1"},
            },
            "spec": {"resources": {"requests": {"storage": "1Gi"}}, "newField": 1},
        });
        assert_eq!(with_what(|it| build(&templates()[0], it)), expected);
        assert_eq!(template_names(&templates()), ["data", "log"]);
    }

    #[test]
    fn only_claims_that_are_not_there_are_made() {
        let names = |owned: &[&str]| {
            let made = with_what(|it| lacking(&templates(), it, &owned.iter().copied().collect()));
            made.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), ["data-foo-id1", "log-foo-id1"]);
        assert_eq!(names(&["data-foo-id1", "log-foo-id2"]), ["log-foo-id1"]);
    }

    #[test]
    fn an_instance_without_a_pod_donates_its_id() {
        let claims = [claim("data-foo-b", "b"), claim("data-foo-c", "c"), ClaimLite::default()];
        let free = reusable_ids(&claims.iter().collect::<Vec<_>>(), INSTANCE_ID);
        let taken = ["a", "b"].map(str::to_owned).into();
        assert_eq!(instance_ids(&taken, &free, 1, &mut || 0), ["c"]);
    }

    #[test]
    fn an_instance_that_is_losing_a_claim_donates_nothing() {
        let claims =
            [terminating(claim("data-foo-b", "b")), claim("log-foo-b", "b"), claim("log-foo-c", "c")];
        let free = reusable_ids(&claims.iter().collect::<Vec<_>>(), INSTANCE_ID);
        assert_eq!(free, ["c".to_owned()].into());
    }

    #[test]
    fn without_reuse_claims_stay_with_their_pod_and_end_with_it() {
        let labelled = |name, id| pod(name).with_label(INSTANCE_ID, id);
        let (a, b, c) =
            (labelled("foo-a", "a"), labelled("foo-b", "b").terminating(), labelled("foo-c", "c"));
        let claims = [
            claim("1", "a"),
            claim("2", "b"),
            claim("3", "c"),
            claim("4", "d"),
            terminating(claim("5", "d")),
            ClaimLite::default(),
            claim("7", "e"),
        ];
        let in_doubt = BTreeSet::from(["e".to_owned()]);
        let fates =
            without_reuse(&claims.iter().collect::<Vec<_>>(), &[&a], &[&b, &c], &in_doubt, INSTANCE_ID);
        let told: Vec<_> = fates
            .iter()
            .map(|(index, fate)| match fate {
                Fate::Keep => format!("{index} stays"),
                Fate::HandOverTo(pod) => format!("{index} to {}", pod.metadata.name.as_deref().unwrap()),
                Fate::Delete => format!("{index} goes"),
            })
            .collect();
        assert_eq!(told, ["0 stays", "1 to foo-b", "2 to foo-c", "3 goes", "5 goes", "6 stays"]);
    }

    #[test]
    fn handing_over_replaces_the_workload_among_the_owners_and_presumes_nothing_changed() {
        let mut it = claim("data-foo-a", "a");
        let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "K", "name": uid, "uid": uid});
        it.metadata.owner_references =
            Some(serde_json::from_value(json!([owner("set"), owner("other")])).unwrap());
        (it.metadata.uid, it.metadata.resource_version) = (Some("c".into()), Some("7".into()));
        let mut pod = pod("foo-a");
        pod.metadata.uid = Some("p".into());
        let expected = json!({"metadata": {"uid": "c", "resourceVersion": "7", "ownerReferences": [
            owner("other"),
            {"apiVersion": "v1", "kind": "Pod", "name": "foo-a", "uid": "p", "controller": true, "blockOwnerDeletion": true},
        ]}});
        assert_eq!(hand_over(&it, "set", &pod), expected);
    }
}
