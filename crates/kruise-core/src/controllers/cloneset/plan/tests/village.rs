//! A cluster in miniature for tests of plans: pods as values, a kubelet that obeys, and the checks that must hold at
//! every step.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::{
    api::cloneset::v1beta1::CloneSet,
    controllers::cloneset::{
        plan::{
            self, Action, Doubts, Options, Plan, Version, World, birth,
            glance::{Glance, Glanced, Words},
            limits::Limits,
        },
        status::{self, Counted, Names},
    },
    pod::{patch::Part, sample::noon, state},
    runtime::cache::{claim::ClaimLite, pod::PodLite},
};

/// A miniature cluster with one CloneSet.
#[derive(Debug, Clone)]
pub(super) struct Village {
    pub(super) cloneset: CloneSet,
    /// Pods by name, as the API server would hold them.
    pub(super) pods: BTreeMap<String, Value>,
    pub(super) claims: BTreeMap<String, Value>,
    /// Ids whose names strangers have taken.
    pub(super) occupied: BTreeSet<String>,
    pub(super) doubts: Doubts,
    versions: Vec<Arc<Version>>,
    current: String,
    pub(super) options: Options,
    pub(super) now: Timestamp,
    /// Pods that never become ready.
    pub(super) broken: Vec<String>,
    next_random: u64,
    /// What happened, in words.
    pub(super) log: Vec<String>,
}

impl Village {
    /// A village with a CloneSet `web` of this spec and no pods yet. The template is image `web:1` with label app=web.
    pub(super) fn new(spec: Value) -> Self {
        let mut whole = json!({
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}},
        });
        json_patch::merge(&mut whole, &spec);
        let cloneset = json!({
            "metadata": {"name": "web", "namespace": "ns", "uid": "u", "generation": 1}, "spec": whole,
        });
        let mut village = Self {
            cloneset: serde_json::from_value(cloneset).unwrap(),
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            occupied: BTreeSet::new(),
            doubts: Doubts::default(),
            versions: Vec::new(),
            current: String::new(),
            options: Options { env_from_metadata: true, ..Options::default() },
            now: noon(),
            broken: Vec::new(),
            next_random: 7,
            log: Vec::new(),
        };
        village.remember_template();
        village.current = village.versions[0].name.clone();
        village
    }

    /// Changes the spec by a merge patch.
    pub(super) fn change(&mut self, patch: Value) {
        let mut spec = serde_json::to_value(&self.cloneset.spec).unwrap();
        json_patch::merge(&mut spec, &patch);
        self.cloneset.spec = serde_json::from_value(spec).unwrap();
        self.remember_template();
    }

    pub(super) fn image(&mut self, image: &str) {
        self.change(json!({"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}));
    }

    fn remember_template(&mut self) {
        let data = json!({"spec": {"template": self.cloneset.spec.template}});
        let known = self.versions.iter().position(|it| it.data == data);
        let version = match known {
            Some(index) => self.versions.remove(index),
            None => {
                let name = format!("web-r{}", self.versions.len() + 1);
                let claim_templates = self.cloneset.spec.volume_claim_templates.clone();
                Arc::new(Version { name, data, claims_hash: None, claim_templates })
            }
        };
        self.versions.push(version);
    }

    pub(super) fn update_revision(&self) -> &str {
        &self.versions.last().unwrap().name
    }

    pub(super) fn current_revision(&self) -> &str {
        &self.current
    }

    fn lites<T: serde::de::DeserializeOwned>(objects: &BTreeMap<String, Value>) -> Vec<Arc<T>> {
        objects.values().map(|it| Arc::new(serde_json::from_value(it.clone()).unwrap())).collect()
    }

    /// Plans, without doing anything.
    pub(super) fn plan(&mut self) -> Plan {
        self.with_world(|world, limits, draw| {
            let facts = plan::facts(world, limits);
            plan::plan(world, limits, &facts, draw)
        })
    }

    fn with_world<R>(&mut self, ask: impl FnOnce(&World<'_>, &Limits, &mut dyn FnMut() -> u64) -> R) -> R {
        let pods: Vec<Arc<PodLite>> = Self::lites(&self.pods);
        let (active, inactive): (Vec<_>, Vec<_>) = pods.into_iter().partition(|it| state::is_active(it));
        let mut words = Words::default();
        let glances: Vec<Glance> = active.iter().map(|it| Glance::of(it, &mut words)).collect();
        let active: Vec<_> =
            active.iter().zip(&glances).map(|(pod, glance)| Glanced { pod, glance }).collect();
        let claims: Vec<Arc<ClaimLite>> = Self::lites(&self.claims);
        let current = self.versions.iter().find(|it| it.name == self.current).unwrap();
        let world = World {
            cloneset: &self.cloneset,
            active: &active,
            inactive: &inactive,
            claims: &claims,
            update: self.versions.last().unwrap(),
            current,
            history: &self.versions,
            occupied: &self.occupied,
            doubts: &self.doubts,
            nodes: &BTreeMap::new(),
            options: self.options,
            now: self.now,
        };
        let limits = Limits::of(&self.cloneset.spec);
        let random = &mut self.next_random;
        ask(&world, &limits, &mut || {
            *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *random >> 33
        })
    }

    /// Plans and does the first `most` of it; says how much was done.
    pub(super) fn pass(&mut self, most: usize) -> usize {
        let plan = self.plan();
        let begun = if plan.scale.is_empty() { plan.update } else { Vec::new() };
        let actions: Vec<Action> =
            plan.scale.into_iter().chain(plan.refresh).chain(begun).take(most).collect();
        let bodies: Vec<_> = self.with_world(|world, _, _| {
            let body = |it: &Action| match it {
                Action::Create(it) => Some(birth::bodies(world, it, &birth::owned_claims(world))),
                _ => None,
            };
            actions.iter().map(body).collect()
        });
        for (action, body) in actions.iter().zip(bodies) {
            match action {
                Action::Create(_) => self.create(body.unwrap()),
                Action::Delete(it) => {
                    let name = it.pod.metadata.name.clone().unwrap();
                    self.log.push(format!("delete {name}"));
                    self.pods.remove(&name);
                    for claim in &it.claims {
                        self.claims.remove(claim.name());
                    }
                }
                Action::Change(it) => {
                    let name = it.pod.metadata.name.clone().unwrap();
                    self.log.push(format!("{:?} {name}", it.why));
                    for patch in &it.patches {
                        self.patch(&name, patch.part, &patch.body);
                    }
                }
            }
            self.check();
        }
        self.promote();
        actions.len()
    }

    fn create(&mut self, body: birth::Bodies) {
        for claim in body.claims {
            self.claims.insert(claim["metadata"]["name"].as_str().unwrap().to_owned(), claim);
        }
        let mut pod = body.pod;
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        self.log.push(format!("create {name}"));
        let known = pod["metadata"]["labels"]["controller-revision-hash"].clone();
        let known = known.as_str().unwrap();
        assert!(self.versions.iter().any(|it| it.name.ends_with(known)), "{known}");
        pod["metadata"]["uid"] = json!(format!("uid-{name}-{}", self.log.len()));
        pod["metadata"]["creationTimestamp"] = json!(self.now.to_string());
        pod["status"] = json!({"phase": "Pending"});
        assert!(self.pods.insert(name, pod).is_none(), "a pod was made twice");
    }

    /// Strategic merge as far as our patches need it.
    pub(super) fn patch(&mut self, name: &str, part: Part, patch: &Value) {
        let pod = self.pods.get_mut(name).unwrap();
        match part {
            Part::Main => {
                assert!(patch.get("status").is_none(), "the API server would ignore it");
            }
            Part::Status => assert!(patch.get("spec").is_none()),
            Part::Resize => {}
        }
        strategic(pod, patch);
    }

    fn promote(&mut self) {
        let update = self.update_revision().to_owned();
        let names = Names { update: &update, current: &self.current.clone(), collision_count: 0 };
        let limits = Limits::of(&self.cloneset.spec);
        let pods: Vec<Arc<PodLite>> = Self::lites(&self.pods);
        let counted = pods.iter().filter(|it| state::is_active(it)).map(|it| Counted {
            is_updated: state::is_at_revision(it, &update),
            is_ready: state::is_ready_for(it, 0, self.now),
            is_available: state::is_available(it, limits.min_ready_seconds, self.now),
        });
        let report = status::report(&self.cloneset, &limits, names, counted, self.now);
        self.current.clone_from(&report.status.current_revision);
        self.cloneset.status = Some(report.status);
    }

    /// A second passes: kubelets bind, start, restart and judge every pod.
    pub(super) fn tick(&mut self) {
        self.now += SignedDuration::from_secs(1);
        let now = json!(self.now.to_string());
        for (name, pod) in &mut self.pods {
            if pod["metadata"]["deletionTimestamp"].is_string() {
                continue;
            }
            pod["spec"]["nodeName"] = json!("node");
            pod["status"]["phase"] = json!("Running");
            let containers = pod["spec"]["containers"].as_array().unwrap().clone();
            let status = |it: &Value| {
                let image = it["image"].as_str().unwrap();
                json!({
                    "name": it["name"], "image": image, "imageID": format!("sha256:{image}"), "ready": true,
                    "containerID": format!("run:{name}:{image}"), "restartCount": 0, "state": {},
                })
            };
            pod["status"]["containerStatuses"] = containers.iter().map(status).collect();
            let gates = pod["spec"]["readinessGates"].as_array().cloned().unwrap_or_default();
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_open = |gate: &Value| {
                conditions.iter().any(|it| it["type"] == gate["conditionType"] && it["status"] == "True")
            };
            let ready = gates.iter().all(is_open) && !self.broken.contains(name);
            let word = if ready { "True" } else { "False" };
            let same = conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == word);
            if !same {
                let condition = json!({"type": "Ready", "status": word, "lastTransitionTime": now});
                strategic(pod, &json!({"status": {"conditions": [condition]}}));
            }
        }
    }

    /// Passes and seconds until nothing is left to do, and proof that planning again gives nothing.
    pub(super) fn settle(&mut self) {
        for _ in 0..500 {
            let did = self.pass(usize::MAX);
            self.tick();
            let plan = self.plan();
            if did == 0 && plan.is_empty() && self.is_steady() {
                return;
            }
        }
        panic!(
            "no end in sight: {:#?}\n{:#?}",
            self.log.iter().rev().take(40).collect::<Vec<_>>(),
            self.summary()
        );
    }

    /// Nothing more would happen by the passing of time either.
    fn is_steady(&self) -> bool {
        let min = self.cloneset.spec.min_ready_seconds;
        let pods: Vec<Arc<PodLite>> = Self::lites(&self.pods);
        pods.iter().all(|it| state::available_in(it, min, self.now).is_none())
    }

    /// One word per pod: revision and state.
    pub(super) fn summary(&self) -> Vec<String> {
        let word = |(name, pod): (&String, &Value)| {
            let labels = &pod["metadata"]["labels"];
            let text = |key: &str| labels[key].as_str().unwrap_or("-").to_owned();
            format!(
                "{name} {} {} {}",
                text("controller-revision-hash"),
                text("lifecycle.apps.kruise.io/state"),
                pod["spec"]["containers"][0]["image"].as_str().unwrap_or("-")
            )
        };
        self.pods.iter().map(word).collect()
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.pods.keys().cloned().collect()
    }

    pub(super) fn count(&self, revision: &str) -> usize {
        let is_at = |it: &&Value| it["metadata"]["labels"]["controller-revision-hash"] == revision;
        self.pods.values().filter(is_at).count()
    }

    pub(super) fn available(&self) -> usize {
        let min = self.cloneset.spec.min_ready_seconds;
        let pods: Vec<Arc<PodLite>> = Self::lites(&self.pods);
        pods.iter().filter(|it| state::is_active(it) && state::is_available(it, min, self.now)).count()
    }

    pub(super) fn label(&mut self, name: &str, key: &str, value: Value) {
        self.patch(name, Part::Main, &json!({"metadata": {"labels": {key: value}}}));
    }

    pub(super) fn state(&self, name: &str) -> &str {
        self.pods[name]["metadata"]["labels"]["lifecycle.apps.kruise.io/state"].as_str().unwrap_or("")
    }

    /// What must hold after every single action.
    fn check(&self) {
        let limits = Limits::of(&self.cloneset.spec);
        // Whoever scales in has more pods than wanted for a while; only growth beyond the limit is wrong.
        if self.log.last().is_some_and(|it| it.starts_with("create"))
            && !self.options.exclude_preparing_delete
        {
            let most = limits.replicas + limits.max_surge;
            let pods: Vec<Arc<PodLite>> = Self::lites(&self.pods);
            let alive = pods.iter().filter(|it| state::is_active(it)).count() as i64;
            assert!(alive <= most, "{alive} pods, allowed {most}: {:?}", self.log);
        }
    }
}

/// Strategic merge: maps by key, containers and conditions by their names, `null` deletes.
fn strategic(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in fields {
        if let Some(list) = key.strip_prefix("$deleteFromPrimitiveList/") {
            let gone = value.as_array().unwrap();
            if let Some(items) = target[list].as_array_mut() {
                items.retain(|it| !gone.contains(it));
            }
            continue;
        }
        if key.starts_with('$') {
            continue;
        }
        match (key.as_str(), value) {
            (_, Value::Null) => drop(target.as_object_mut().unwrap().remove(key)),
            ("containers" | "conditions", Value::Array(items)) => {
                let by = if key == "containers" { "name" } else { "type" };
                if !target[key].is_array() {
                    target[key] = json!([]);
                }
                let list = target[key].as_array_mut().unwrap();
                for item in items {
                    match list.iter_mut().find(|it| it[by] == item[by]) {
                        Some(it) => strategic(it, item),
                        None => {
                            let mut fresh = json!({});
                            strategic(&mut fresh, item);
                            list.push(fresh);
                        }
                    }
                }
            }
            ("finalizers", Value::Array(items)) => {
                if !target[key].is_array() {
                    target[key] = json!([]);
                }
                let list = target[key].as_array_mut().unwrap();
                for item in items {
                    if !list.contains(item) {
                        list.push(item.clone());
                    }
                }
            }
            (_, Value::Object(_)) => strategic(&mut target[key], value),
            _ => target[key] = value.clone(),
        }
    }
}
