use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use kruise_core::api::fleet::{
    assignment::{Assignment, AssignmentSpec, AssignmentStatus, ShareState},
    binding::{FleetBinding, PolicyRef},
    keys::{conditions, events, reasons},
    member_cluster::ClusterState,
};
use serde_json::{Value, json};

use super::*;
use crate::{
    dispatch::plan::{Round, Winner, caution::Word, plan},
    names::RevisionKey,
    placement::select::ClusterFacts,
};

/// A job that names Secrets, and what the hub has stored about it.
struct World {
    object: Value,
    reference: FederatedObject,
    winner: Winner,
    binding: Option<FleetBinding>,
    clusters: Vec<Cluster>,
    key: RevisionKey,
    looks: Looks,
}

impl World {
    fn new() -> Self {
        let cluster = |name: &str| Cluster {
            facts: Arc::new(ClusterFacts {
                name: name.to_owned(),
                apis: vec!["apps.kruise.io/v1beta1/ImagePullJob".to_owned()],
                features: vec![features::PULL_SECRETS.to_owned()],
                ..ClusterFacts::default()
            }),
            is_member: true,
            shown: ClusterState::Ready,
            planning: State::Ready,
            assignment: None,
            word: Word::Heard,
            promised_to_others: 0,
            claimed_by_others: 0,
            departure: None,
            asked_for: 0,
        };
        let again = Some(Duration::from_secs(600));
        Self {
            object: json!({
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
                "metadata": {"name": "warm", "namespace": "shop", "generation": 1},
                "spec": {
                    "image": "web:1", "parallelism": 1, "completionPolicy": {"type": "Always"},
                    "pullSecrets": ["registry"],
                },
            }),
            reference: FederatedObject {
                api_version: "apps.kruise.io/v1beta1".into(),
                kind: "ImagePullJob".into(),
                namespace: Some("shop".into()),
                name: "warm".into(),
                uid: "u".into(),
            },
            winner: Winner { placement: Arc::default(), reference: PolicyRef::default() },
            binding: None,
            clusters: ["a", "b"].map(cluster).to_vec(),
            key: RevisionKey::new(&[7; 32]),
            looks: Looks { found: BTreeMap::from([("registry".to_owned(), found("one"))]), again },
        }
    }

    fn observed(&self) -> Observed<'_> {
        Observed {
            object: &self.object,
            reference: &self.reference,
            policy: Some(&self.winner),
            binding: self.binding.as_ref(),
            clusters: &self.clusters,
            key: Some(&self.key),
            secrets: Some(&self.looks),
            elapsed: 0,
            now: Timestamp::from_second(1_000).unwrap(),
        }
    }

    fn plan(&self) -> Round {
        plan(&self.observed())
    }

    fn look(&mut self, look: Look) {
        self.looks.found.insert("registry".to_owned(), look);
    }

    fn store(&mut self, round: &Round) {
        if let Some(spec) = &round.save {
            self.binding = Some(FleetBinding { spec: spec.clone(), ..FleetBinding::default() });
        }
        for write in &round.writes {
            let cluster = self.clusters.iter_mut().find(|it| it.facts.name == write.cluster).unwrap();
            let spec = AssignmentSpec { term: 1, ..write.spec.clone() };
            let status = cluster.assignment.as_ref().and_then(|it| it.status.clone());
            cluster.assignment = Some(Arc::new(Assignment { spec, status, ..Assignment::default() }));
        }
    }

    /// Every cluster has its share and has said so.
    fn placed() -> Self {
        let mut world = Self::new();
        world.store(&world.plan());
        for cluster in &mut world.clusters {
            let assignment = Arc::make_mut(cluster.assignment.as_mut().unwrap());
            assignment.status = Some(AssignmentStatus {
                incarnation: 1,
                report: 1,
                applied_term: 1,
                applied_seq: assignment.spec.seq,
                applied: assignment.spec.slice.clone(),
                state: Some(ShareState::Applying),
                ..AssignmentStatus::default()
            });
        }
        world.store(&world.plan());
        world
    }
}

fn found(text: &str) -> Look {
    let data = BTreeMap::from([(".dockerconfigjson".to_owned(), ByteString(text.as_bytes().to_vec()))]);
    let type_ = "kubernetes.io/dockerconfigjson".to_owned();
    Look::Found(PullSecret { name: "registry".into(), type_, data })
}

/// What a round says about Secrets: whether the job is placed, and why not.
fn said(round: &Round) -> (bool, String) {
    let all = &round.standing.binding.conditions;
    let condition = all.iter().find(|it| it.type_ == conditions::SCHEDULED).unwrap();
    (condition.status == "True", condition.message.clone())
}

#[test]
fn ipj_6_secrets_travel_in_assignments_and_nowhere_else() {
    let world = World::new();
    let round = world.plan();
    assert_eq!(round.writes.len(), 2);
    for write in &round.writes {
        let [secret] = &write.spec.pull_secrets[..] else { panic!("{write:?}") };
        assert_eq!(Look::Found(secret.clone()), found("one"));
    }
    // The words that Secrets say are neither in the ledger nor in the body, nor told.
    let body = round.body.as_ref().unwrap();
    assert_eq!(body.spec.body.as_ref().unwrap()["spec"]["pullSecrets"], json!(["registry"]));
    let secret = "b25l";
    let public =
        [json!(round.save), json!(body.spec), json!(round.standing.binding), json!(round.standing.object)];
    assert!(json!(round.writes[0].spec).to_string().contains(secret));
    assert!(public.iter().all(|it| !it.to_string().contains(secret)));
    assert!(!format!("{round:?} {:?}", world.looks).contains("111, 110, 101"));
    assert_eq!((said(&round), round.look_again), ((true, String::new()), Some(Duration::from_secs(600))));
}

#[test]
fn ipj_6_what_cannot_be_brought_holds_the_job_and_names_the_field_the_secret_and_what_helps() {
    let large = Look::Found(PullSecret {
        data: BTreeMap::from([(".dockerconfigjson".to_owned(), ByteString(vec![b'x'; MOST_BYTES]))]),
        ..PullSecret::default()
    });
    for (look, words) in [
        (Look::Missing, "shop/registry does not exist"),
        (Look::Denied, "may not read the Secret shop/registry: grant that with pullSecrets.enabled=true"),
        (
            Look::OtherType("Opaque".into()),
            "shop/registry is of type \"Opaque\": only those of kubernetes.io/",
        ),
        (Look::Lacks(".dockercfg"), "shop/registry has no key .dockercfg"),
        (Look::Failed("no answer".into()), "shop/registry could not be read: no answer"),
        (large, "at most 65536 are brought"),
    ] {
        let mut world = World::new();
        world.look(look);
        world.looks.again = Some(Duration::from_secs(10));
        let round = world.plan();
        let (is_placed, message) = said(&round);
        assert!(
            !is_placed && message.starts_with("spec.pullSecrets: ") && message.contains(words),
            "{message}"
        );
        assert_eq!(
            (round.writes.len(), round.body, round.look_again),
            (0, None, world.looks.again),
            "{words}"
        );
        let status = &round.standing.binding;
        assert_eq!((status.summary.as_str(), status.cluster_count), (reasons::PULL_SECRETS, 0), "{words}");
        let notes = &round.standing.notes;
        assert!(
            notes.iter().any(|it| it.reason == events::PULL_SECRETS && it.message == message),
            "{notes:?}"
        );
        assert!(status.conditions.iter().all(|it| it.type_ != "Applied" || it.status == "True"));
        assert!(round.standing.object["completionTime"].is_null(), "nobody was served");
        // When it is there the job goes on.
        world.store(&world.plan());
        world.look(found("one"));
        assert_eq!(world.plan().writes.len(), 2, "{words}");
    }
}

#[test]
fn ipj_6_more_secrets_than_an_assignment_takes_are_refused() {
    let mut world = World::new();
    let names: Vec<String> = (0..=MOST).map(|it| format!("s{it}")).collect();
    world.looks.found = names.iter().map(|it| (it.clone(), found("one"))).collect();
    world.object["spec"]["pullSecrets"] = json!(names);
    let round = world.plan();
    assert!(round.writes.is_empty() && said(&round).1.contains("33 Secrets are named"), "{:?}", said(&round));
}

#[test]
fn ipj_6_a_changed_secret_is_a_new_plan_and_one_that_did_not_change_is_none() {
    let mut world = World::placed();
    let round = world.plan();
    assert_eq!((round.save, round.writes), (None, vec![]));
    world.look(found("two"));
    let round = world.plan();
    let saved = &round.save.as_ref().unwrap().ledger;
    assert_eq!(round.writes.len(), 2);
    for write in &round.writes {
        let before =
            world.clusters.iter().find(|it| it.facts.name == write.cluster).unwrap().stored().unwrap();
        assert_eq!(write.spec.seq, before.seq + 1);
        assert_eq!(saved.clusters[&write.cluster].share.seq, write.spec.seq, "HA-3");
        assert_eq!(Look::Found(write.spec.pull_secrets[0].clone()), found("two"));
        assert!(!write.grows);
    }
}

#[test]
fn ipj_6_what_was_brought_stays_when_it_cannot_be_read_any_more() {
    for look in [Look::Missing, Look::Denied, Look::Failed("x".into()), Look::OtherType("Opaque".into())] {
        let mut world = World::placed();
        world.look(look.clone());
        let round = world.plan();
        assert_eq!((round.save.is_none(), round.writes.len()), (true, 0), "{look:?}");
        assert!(said(&round).0, "the job is where it should be");
        // A cluster that never got it waits, and the others go on.
        world.clusters[1].assignment = None;
        world.binding.as_mut().unwrap().spec.ledger.clusters.remove("b");
        let round = world.plan();
        assert!(round.writes.is_empty() && !said(&round).0, "{look:?} {:?}", said(&round));
        assert!(round.standing.object["completionTime"].is_null());
        // Also when its share was saved and a crash kept it from being written.
        let mut world = World::placed();
        world.look(look);
        world.clusters[1].assignment = None;
        assert!(world.plan().writes.is_empty());
    }
}

#[test]
fn ipj_6_only_secrets_of_jobs_that_are_placed_and_not_over_are_looked_for() {
    let mut world = World::placed();
    assert_eq!(wanted(&world.observed()), ["registry"]);
    assert!(wanted(&Observed { policy: None, ..world.observed() }).is_empty(), "it runs nowhere");
    let job = world.binding.as_mut().unwrap().spec.ledger.job.as_mut().unwrap();
    job.completion_time = Some(job.start_time.clone());
    assert!(wanted(&world.observed()).is_empty());
    // Then nobody has looked, and nothing changes.
    world.looks = Looks::default();
    let round = world.plan();
    assert_eq!((round.writes.len(), round.standing.notes), (0, vec![]));
    let mut object = world.object.clone();
    object["kind"] = json!("CloneSet");
    let reference = FederatedObject { kind: "CloneSet".into(), ..world.reference.clone() };
    let observed = Observed { object: &object, reference: &reference, binding: None, ..world.observed() };
    assert!(wanted(&observed).is_empty());
}

#[test]
fn ha_6_a_cluster_with_an_older_agent_is_left_out_and_named() {
    let mut world = World::new();
    Arc::make_mut(&mut world.clusters[1].facts).features.clear();
    let round = world.plan();
    assert_eq!(round.writes.iter().map(|it| it.cluster.as_str()).collect::<Vec<_>>(), ["a"]);
    let (is_placed, message) = said(&round);
    assert!(is_placed && message.contains("too old to bring them: b"), "{message}");
    Arc::make_mut(&mut world.clusters[0].facts).features.clear();
    let round = world.plan();
    assert_eq!((round.writes.len(), said(&round).0), (0, false));
    // It is no matter to jobs that name none.
    world.object["spec"]["pullSecrets"] = json!([]);
    assert_eq!(world.plan().writes.len(), 2);
}

#[test]
fn ipj_6_one_key_of_a_secret_travels() {
    let secret = |type_: &str, keys: &[&str]| {
        let data = keys.iter().map(|it| ((*it).to_owned(), ByteString(b"x".to_vec()))).collect();
        Secret { type_: Some(type_.to_owned()), data: Some(data), ..Secret::default() }
    };
    let Look::Found(found) =
        Look::at("s", secret("kubernetes.io/dockercfg", &[".dockercfg", ".dockerconfigjson", "token"]))
    else {
        panic!("it is one for a registry")
    };
    assert_eq!(
        (found.name.as_str(), found.data.into_keys().collect::<Vec<_>>()),
        ("s", vec![".dockercfg".to_owned()])
    );
    assert_eq!(Look::at("s", secret("Opaque", &[".dockercfg"])), Look::OtherType("Opaque".into()));
    assert_eq!(Look::at("s", secret("kubernetes.io/dockercfg", &["a"])), Look::Lacks(".dockercfg"));
}
