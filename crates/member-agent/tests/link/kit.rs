//! What the tests share: a hub, a member with its agent, and a hand that writes plans.

use std::{sync::Arc, time::Duration};

use http::Method;
use kruise_core::{
    admission::{Version, cloneset::default},
    api,
    backoff::Doubling,
    controllers::cloneset,
    runtime::{
        cache::{Cache, Cached},
        client::{self, Options},
        clock::{Clock, Seed},
        controller::Settings,
        events,
        executor::Executor,
        gates::Gates,
        metrics::Metrics,
        throttle::Throttle,
        webhook::Operation,
    },
};
use kube::{Api, Client};
use member_agent::link::{
    self,
    credential::keeper::{self, Joined, Keeper},
    hub::Hub,
    member::Member,
    standing::Standings,
    store::Store,
};
use serde_json::{Value, json};
use sim::{
    World, fleet,
    world::{Process, ProcessContext},
};
use tokio_util::sync::CancellationToken;

use crate::door::Door;

pub(crate) const HUB: &str = "hub";
pub(crate) const MEMBER: &str = "member-1";
/// This cluster's namespace on the hub.
pub(crate) const NAMESPACE: &str = "fleet-member-1";
pub(crate) const OWN: &str = "kruise-system";

/// The member object.
pub(crate) const WEB: &str = "/apis/apps.kruise.io/v1beta1/namespaces/shop/clonesets/web";

/// Runs `test` with a hub and a member of three nodes, whose agent is up.
pub(crate) fn play<F: Future<Output = ()>>(test: impl FnOnce(Stage) -> F) {
    play_with(None, test);
}

/// The same with a hub at whose `door` the agent has to say who it is, if there is one.
pub(crate) fn play_with<F: Future<Output = ()>>(door: Option<Arc<Door>>, test: impl FnOnce(Stage) -> F) {
    let crds = api::crds().into_iter().map(|it| json!(it));
    let fleet = crds.fold(fleet().hub().members(1).nodes(3), |it, crd| it.define(crd));
    fleet.run(async |world| {
        for (cluster, name) in
            [(HUB, NAMESPACE), (HUB, "fleet-content"), (MEMBER, OWN), (MEMBER, "shop")]
        {
            let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            world.write(cluster, Method::POST, "/api/v1/namespaces", &body).unwrap();
        }
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": link::LEASE}});
        let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
        world.write(HUB, Method::POST, &leases, &lease).unwrap();
        let agent = world.process("agent", move |it| agent(it, door.clone()));
        test(Stage { world, agent }).await;
    });
}

/// One life of an agent: the CloneSet controller and the link.
async fn agent(process: ProcessContext, door: Option<Arc<Door>>) {
    let clock = Clock::following(process.world().now());
    let (metrics, stop) = (Metrics::default(), CancellationToken::new());
    // With the deadlines of real clients: a hub that is cut off must not hold a request for ever.
    let options = Options {
        user_agent: "agent".into(),
        metrics: metrics.clone(),
        throttle: Throttle::default(),
        clock: clock.clone(),
    };
    let client = process.client(MEMBER);
    let caches = cloneset::Caches {
        clonesets: cache("clonesets", &clock),
        pods: cache("pods", &clock),
        claims: cache("claims", &clock),
        revisions: cache("revisions", &clock),
        nodes: cache("nodes", &clock),
        jobs: cache("jobs", &clock),
    };
    let sink = events::Sink::new(client.clone(), clock.clone(), metrics.clone());
    let settings = |name| Settings {
        name,
        workers: cloneset::WORKERS,
        backoff: Doubling::default(),
        clock: clock.clone(),
        metrics: metrics.clone(),
    };
    let context = cloneset::Context {
        writers: cloneset::Writers::new(&client, &caches),
        caches: caches.clone(),
        executor: Executor {
            limit: 10.try_into().unwrap(),
            throttle: Throttle::default(),
            clock: clock.clone(),
        },
        recorder: sink.recorder(cloneset::NAME),
        clock: clock.clone(),
        seed: Seed::from_number(process.incarnation),
        options: cloneset::plan::Options::of(&Gates::defaults(), false, true),
        opened: Arc::default(),
    };
    let recorder = sink.recorder(link::NAME);
    let begin = |hub: Hub| link::Parts {
        settings: link::Settings {
            hub_uid: "the-hub".into(),
            cluster: MEMBER.into(),
            identity: format!("agent-{}", process.incarnation),
            lease: Duration::from_secs(15),
            longest_write: Duration::from_secs(30),
        },
        hub,
        member: Member {
            client: client.clone(),
            clonesets: caches.clonesets.clone(),
            pods: caches.pods.clone(),
            nodes: None,
            revisions: caches.revisions.clone(),
            jobs: caches.jobs.clone(),
        },
        store: Store::new(client.clone(), OWN),
        events: recorder.clone(),
        gates: Gates::defaults(),
        chance: Seed::from_number(process.incarnation),
        controller: settings(link::NAME),
    };
    let linking = async {
        match door {
            None => {
                let hub = client::over(process.world().service("agent", HUB), &options);
                link::run(begin(Hub::new(hub, NAMESPACE, &clock, &metrics)), stop.clone()).await;
            }
            Some(door) => {
                let standings = Standings::default();
                let keeper = Keeper::new(keeper::Parts {
                    settings: door.settings.clone(),
                    open: door.opener(&process, &options),
                    member: client.clone(),
                    namespace: OWN.into(),
                    standings: standings.clone(),
                    events: recorder.clone(),
                    clock: clock.clone(),
                    chance: Seed::from_number(process.incarnation),
                });
                let begin = |joined: Joined| {
                    let hub = Hub::new(joined.hub, &joined.membership.namespace, &clock, &metrics);
                    begin(hub.telling(standings))
                };
                link::join(keeper, begin, stop.clone()).await;
            }
        }
    };
    tokio::join!(
        feed(&caches.clonesets, &client, &stop),
        feed(&caches.pods, &client, &stop),
        feed(&caches.claims, &client, &stop),
        feed(&caches.revisions, &client, &stop),
        feed(&caches.nodes, &client, &stop),
        feed(&caches.jobs, &client, &stop),
        sink.run(stop.clone()),
        cloneset::controller(context, settings(cloneset::NAME)).run(stop.clone()),
        linking,
    );
}

fn cache<K: Cached>(name: &'static str, clock: &Clock) -> Cache<K> {
    Cache::new(name, clock.clone(), Metrics::default())
}

async fn feed<K: Cached>(cache: &Cache<K>, client: &Client, stop: &CancellationToken) {
    cache.run(client.clone(), Api::all(client.clone()), client::watch(), stop.clone()).await;
}

/// A hub and a member.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) agent: Process,
}

/// The numbers of a plan.
pub(crate) fn share(replicas: u32, updated: u32) -> Value {
    json!({"cloneSet": {"replicas": replicas, "updated": updated, "maxUnavailable": 1}})
}

/// A plan of one revision, as the hub would write it.
pub(crate) fn plan(seq: u64, image: &str, slice: Value) -> Value {
    json!({
        "object": {
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "namespace": "shop", "name": "web", "uid": "web-uid",
        },
        "term": 1, "seq": seq, "epoch": 1, "target": revision(image), "stable": revision(image), "slice": slice,
    })
}

/// The revision of an image.
pub(crate) fn revision(image: &str) -> Value {
    json!({"name": format!("frv-{image}"), "hash": format!("{image:0>16}")})
}

impl Stage {
    /// Stores the body of an image on the hub.
    pub(crate) fn publish(&self, image: &str) {
        let mut body = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": image}]},
                },
            },
        });
        // As the hub's admission leaves it, which is also what the member's admission would make of it (G-07).
        default(&mut body, None, Operation::Create, Version::V1Beta1, Gates::defaults());
        let revision = json!({
            "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "FleetRevision", "metadata": {"name": format!("frv-{image}")},
            "spec": {
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "namespace": "shop", "name": "web",
                "hash": format!("{image:0>16}"), "body": body,
            },
        });
        let path = "/apis/fleet.kruise.io/v1alpha1/namespaces/fleet-content/fleetrevisions";
        self.world.write(HUB, Method::POST, path, &revision).unwrap();
    }

    /// Writes the plan of the Assignment `web`, whatever was there.
    pub(crate) fn assign(&self, mut spec: Value) {
        // A plan without numbers has no slice at all.
        if spec["slice"].is_null() {
            spec.as_object_mut().unwrap().remove("slice");
        }
        let path = assignment();
        let assignment = json!({
            "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "Assignment", "metadata": {"name": "web"}, "spec": spec,
        });
        match self.read(HUB, &path) {
            None => {
                let folder = path.trim_end_matches("/web");
                self.world.write(HUB, Method::POST, folder, &assignment).unwrap();
            }
            Some(mut stored) => {
                stored["spec"] = assignment["spec"].clone();
                // Nobody can write an older plan over a newer one, but a hub that was restored from an older copy has it.
                if let Err(refused) = self.world.write(HUB, Method::PUT, &path, &stored) {
                    assert!(refused.message.contains("the plan is older"), "{refused:?}");
                    self.world.put_back(HUB, "assignments.fleet.kruise.io", stored);
                }
            }
        }
    }

    pub(crate) fn unassign(&self) {
        self.world.write(HUB, Method::DELETE, &assignment(), &Value::Null).unwrap();
    }

    pub(crate) fn read(&self, cluster: &str, path: &str) -> Option<Value> {
        self.world.write(cluster, Method::GET, path, &Value::Null).ok()
    }

    /// The member object.
    pub(crate) fn web(&self) -> Option<Value> {
        self.read(MEMBER, WEB)
    }

    /// What the agent has told the hub.
    pub(crate) fn told(&self) -> Value {
        self.read(HUB, &assignment()).unwrap_or_default()["status"].clone()
    }

    /// The images of the member's pods that are not on their way out, sorted.
    pub(crate) fn images(&self) -> Vec<String> {
        images(&self.world)
    }

    pub(crate) fn kept_plans(&self) -> usize {
        let secrets = self.world.cluster(MEMBER).server().list("secrets");
        secrets.iter().filter(|it| it.value()["type"] == "fleet.kruise.io/plan").count()
    }

    /// Waits until plan `seq` is acknowledged: applied, and observed by the controller.
    pub(crate) async fn acknowledged(&self, seq: u64) {
        self.until(&format!("plan {seq} is acknowledged"), |it| {
            let told = it.told();
            told["appliedSeq"] == seq && told["observedGeneration"].as_i64() >= told["generation"].as_i64()
        })
        .await;
    }

    pub(crate) async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let patience = Duration::from_secs(600);
        self.world.eventually(what, patience, |_| condition(self)).await;
    }

    pub(crate) async fn pass(&self, seconds: u64) {
        self.world.pass(Duration::from_secs(seconds)).await;
    }
}

fn assignment() -> String {
    format!("/apis/fleet.kruise.io/v1alpha1/namespaces/{NAMESPACE}/assignments/web")
}

/// The images of the member's pods that are not on their way out, sorted.
pub(crate) fn images(world: &World) -> Vec<String> {
    let pods = world.cluster(MEMBER).server().list("pods");
    let pods = pods.iter().map(|it| it.value()).filter(|it| it["metadata"]["deletionTimestamp"].is_null());
    let mut images: Vec<_> =
        pods.map(|it| it["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned()).collect();
    images.sort_unstable();
    images
}
