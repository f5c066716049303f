//! Making a pod from a template, and the ids that instances are told apart by.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{Timestamp, Unit};
use serde_json::{Map, Value, json};

use super::claims;
use crate::{api::common::keys, runtime::cache::pod::PodLite};

/// The letters of ids: no vowels and nothing that looks like one, so that no words come out.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// How long an id is.
const ID_LENGTH: u32 = 5;

/// The lifecycle state of a pod that has just been made.
const NEW: &str = "PreparingNormal";

/// What a new pod does not get from its template.
#[derive(Debug, Clone, Copy)]
pub struct Instance<'a> {
    /// The workload's name; the pod's name is this and the id.
    pub workload: &'a str,
    /// The workload's namespace.
    pub namespace: &'a str,
    /// The owner reference to the workload, with `controller: true`.
    pub owner: &'a Value,
    /// Which instance it is.
    pub id: &'a str,
    /// The label that holds the id.
    pub id_label: &'a str,
    /// The labels that tie the pod to its revision: [`state::revision_labels`](super::state::revision_labels).
    pub revision_labels: &'a BTreeMap<String, String>,
    /// A condition that must be true for the pod to be ready.
    pub readiness_gate: &'a str,
    /// The names of the claim templates.
    pub claims: &'a [String],
    /// The time that is noted on the pod.
    pub now: Timestamp,
}

/// The name of the pod of instance `id`.
pub fn name(workload: &str, id: &str) -> String {
    format!("{workload}-{id}")
}

/// A pod of `template`. Everything in the template's spec is kept, known to this version or not; of its metadata only
/// labels, annotations and finalizers are about pods.
pub fn pod(template: &Value, what: &Instance<'_>) -> Value {
    let mut spec = template.get("spec").and_then(Value::as_object).cloned().unwrap_or_default();
    add_readiness_gate(&mut spec, what.readiness_gate);
    add_claims(&mut spec, what);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata(template, what), "spec": spec})
}

fn metadata(template: &Value, what: &Instance<'_>) -> Map<String, Value> {
    let field = |name: &str| template.get("metadata").and_then(|it| it.get(name));
    let map = |name: &str| field(name).and_then(Value::as_object).cloned().unwrap_or_default();

    let mut labels = map("labels");
    labels.extend(what.revision_labels.iter().map(|(key, value)| (key.clone(), value.as_str().into())));
    labels.insert(what.id_label.to_owned(), what.id.into());
    labels.insert(keys::LIFECYCLE_STATE.to_owned(), NEW.into());
    let mut annotations = map("annotations");
    annotations.insert(keys::LIFECYCLE_TIMESTAMP.to_owned(), whole_seconds(what.now).into());

    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), name(what.workload, what.id).into());
    metadata.insert("generateName".to_owned(), format!("{}-", what.workload).into());
    metadata.insert("namespace".to_owned(), what.namespace.into());
    metadata.insert("labels".to_owned(), labels.into());
    metadata.insert("annotations".to_owned(), annotations.into());
    metadata.extend(field("finalizers").map(|it| ("finalizers".to_owned(), it.clone())));
    metadata.insert("ownerReferences".to_owned(), json!([what.owner]));
    metadata
}

/// Kubernetes writes times without fractions of a second.
fn whole_seconds(time: Timestamp) -> String {
    let mode = jiff::TimestampRound::new().smallest(Unit::Second).mode(jiff::RoundMode::Floor);
    time.round(mode).unwrap_or(time).to_string()
}

fn add_readiness_gate(spec: &mut Map<String, Value>, gate: &str) {
    let mut gates = list(spec, "readinessGates");
    if !gates.iter().any(|it| it["conditionType"] == gate) {
        gates.push(json!({"conditionType": gate}));
    }
    spec.insert("readinessGates".to_owned(), gates.into());
}

/// Volumes of the claims come first and take the place of the template's volumes of the same name.
fn add_claims(spec: &mut Map<String, Value>, what: &Instance<'_>) {
    if what.claims.is_empty() {
        return;
    }
    let volume = |template: &String| {
        let claim = claims::name(template, what.workload, what.id);
        json!({"name": template, "persistentVolumeClaim": {"claimName": claim}})
    };
    let own = list(spec, "volumes");
    let is_claim = |it: &Value| what.claims.iter().any(|name| it["name"] == name.as_str());
    let others = own.into_iter().filter(|it| !is_claim(it));
    let volumes: Vec<_> = what.claims.iter().map(volume).chain(others).collect();
    spec.insert("volumes".to_owned(), volumes.into());
}

fn list(spec: &Map<String, Value>, name: &str) -> Vec<Value> {
    spec.get(name).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// The ids that pods of `workload` occupy, by their labels and by their names.
///
/// Hand in every pod that exists, also those that have ended or are being deleted: their names are taken until they
/// are gone.
pub fn taken_ids<'a>(
    pods: impl IntoIterator<Item = &'a PodLite>,
    workload: &str,
    id_label: &str,
) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for pod in pods {
        ids.extend(pod.labels().get(id_label).cloned());
        let id = pod.metadata.name.as_deref().and_then(|it| it.strip_prefix(workload)?.strip_prefix('-'));
        ids.extend(id.map(str::to_owned));
    }
    ids
}

/// Ids for `count` new instances, in order: first those of `free` that are not `taken`, then random ones. `draw` gives
/// numbers that look random.
///
/// There are fewer than `count` only when all fourteen million ids are in use.
pub fn instance_ids(
    taken: &BTreeSet<String>,
    free: &BTreeSet<String>,
    count: usize,
    draw: &mut dyn FnMut() -> u64,
) -> Vec<String> {
    let mut ids: BTreeSet<String> = free.difference(taken).take(count).cloned().collect();
    while ids.len() < count {
        let is_new = |it: &String| !taken.contains(it) && !free.contains(it) && !ids.contains(it);
        let Some(id) = near(draw()).find(is_new) else { break };
        ids.insert(id);
    }
    ids.into_iter().collect()
}

/// The id that `number` stands for, then all others: even a poor source of chance cannot hold us up.
fn near(number: u64) -> impl Iterator<Item = String> {
    let letters = ALPHABET.len() as u64;
    let all = letters.pow(ID_LENGTH);
    let start = number % all;
    (0..all).map(move |it| {
        let mut rest = (start + it) % all;
        let letter = |_| {
            let letter = ALPHABET[(rest % letters) as usize];
            rest /= letters;
            char::from(letter)
        };
        (0..ID_LENGTH).map(letter).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::cloneset::keys::INSTANCE_ID,
        pod::{sample, state},
        runtime::clock::Seed,
    };

    fn instance<'a>(
        owner: &'a Value,
        labels: &'a BTreeMap<String, String>,
        claims: &'a [String],
    ) -> Instance<'a> {
        Instance {
            workload: "foo",
            namespace: "ns",
            owner,
            id: "id1",
            id_label: INSTANCE_ID,
            revision_labels: labels,
            readiness_gate: "InPlaceUpdateReady",
            claims,
            now: "2026-01-02T03:04:05.999Z".parse().unwrap(),
        }
    }

    fn made(template: &Value, claims: &[&str]) -> Value {
        let labels = state::revision_labels("foo-5d8f", false);
        let claims: Vec<_> = claims.iter().map(|it| (*it).to_owned()).collect();
        pod(template, &instance(&json!({"uid": "u", "controller": true}), &labels, &claims))
    }

    #[test]
    fn a_pod_carries_its_template_its_owner_and_its_identity() {
        let template = json!({
            "metadata": {
                "name": "not this", "creationTimestamp": null, "labels": {"app": "x", "controller-revision-hash": "no"},
                "annotations": {"a": "1"}, "finalizers": ["f"],
            },
            "spec": {"containers": [{"name": "c", "newField": {"x": 1}}], "unknownToUs": [1]},
        });
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "foo-id1", "generateName": "foo-", "namespace": "ns", "finalizers": ["f"],
                "labels": {
                    "app": "x", "controller-revision-hash": "foo-5d8f", "pod-template-hash": "5d8f",
                    "apps.kruise.io/cloneset-instance-id": "id1", "lifecycle.apps.kruise.io/state": "PreparingNormal",
                },
                "annotations": {"a": "1", "lifecycle.apps.kruise.io/timestamp": "2026-01-02T03:04:05Z"},
                "ownerReferences": [{"uid": "u", "controller": true}],
            },
            "spec": {
                "containers": [{"name": "c", "newField": {"x": 1}}], "unknownToUs": [1],
                "readinessGates": [{"conditionType": "InPlaceUpdateReady"}],
            },
        });
        assert_eq!(made(&template, &[]), expected);
    }

    #[test]
    fn volumes_of_claims_come_first_and_replace_those_of_the_same_name() {
        let volumes = json!([{"name": "home", "emptyDir": {}}, {"name": "datadir", "emptyDir": {}}]);
        let pod = made(&json!({"spec": {"volumes": volumes}}), &["datadir"]);
        let expected = json!([
            {"name": "datadir", "persistentVolumeClaim": {"claimName": "datadir-foo-id1"}},
            {"name": "home", "emptyDir": {}},
        ]);
        assert_eq!(pod["spec"]["volumes"], expected);
    }

    #[test]
    fn the_readiness_gate_is_added_once_behind_the_templates_own() {
        let gates = json!([{"conditionType": "mine"}]);
        let pod = made(&json!({"spec": {"readinessGates": gates}}), &[]);
        let both = json!([{"conditionType": "mine"}, {"conditionType": "InPlaceUpdateReady"}]);
        assert_eq!(pod["spec"]["readinessGates"], both);
        let again = made(&json!({"spec": {"readinessGates": both}}), &[]);
        assert_eq!(again["spec"]["readinessGates"], both);
    }

    #[test]
    fn a_template_of_the_wrong_shape_is_no_panic() {
        for template in [json!(null), json!({"spec": [], "metadata": 1}), json!({"spec": {"volumes": "x"}})] {
            assert_eq!(made(&template, &["a"])["metadata"]["name"], "foo-id1");
        }
    }

    fn set(ids: &[&str]) -> BTreeSet<String> {
        ids.iter().map(|it| (*it).to_owned()).collect()
    }

    #[test]
    fn free_ids_are_used_before_random_ones() {
        let seed = Seed::from_number(1);
        let ids = instance_ids(&set(&["a", "b"]), &set(&["b", "c"]), 2, &mut || seed.draw());
        assert_eq!(ids.len(), 2);
        let random = ids.iter().find(|it| *it != "c").unwrap();
        assert!(ids.contains(&"c".to_owned()) && random.len() == 5);
        assert!(random.bytes().all(|it| ALPHABET.contains(&it)), "{random}");
        assert_eq!(instance_ids(&set(&[]), &set(&["b", "c"]), 1, &mut || 0), ["b"]);
        assert!(instance_ids(&set(&[]), &set(&["b"]), 0, &mut || 0).is_empty());
    }

    #[test]
    fn ids_are_distinct_and_sorted_even_with_a_source_that_repeats_itself() {
        let ids = instance_ids(&set(&["bbbbb"]), &set(&[]), 40, &mut || 0);
        let distinct: BTreeSet<_> = ids.iter().cloned().collect();
        assert_eq!((distinct.len(), distinct.contains("bbbbb")), (40, false));
        assert!(ids.is_sorted());
        let seed = Seed::from_number(7);
        let many = instance_ids(&set(&[]), &set(&[]), 10_000, &mut || seed.draw());
        assert_eq!(many.iter().collect::<BTreeSet<_>>().len(), 10_000);
    }

    #[test]
    fn ids_of_pods_that_are_on_their_way_out_are_taken() {
        let labelled = |name, id| sample::pod(name).with_label(INSTANCE_ID, id);
        let pods = [
            labelled("foo-a", "a"),
            labelled("foo-b", "b").terminating(),
            labelled("foo-c", "c").in_phase("Failed"),
            sample::pod("foo-d"),
            sample::pod("foobar-e"),
        ];
        assert_eq!(taken_ids(&pods, "foo", INSTANCE_ID), set(&["a", "b", "c", "d"]));
        let free = set(&["b", "c", "x"]);
        assert_eq!(instance_ids(&taken_ids(&pods, "foo", INSTANCE_ID), &free, 1, &mut || 0), ["x"]);
    }
}
