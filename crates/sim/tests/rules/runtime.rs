//! kube's own runtime in simulated clusters, for a day, on a bad network.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::StreamExt;
use http::Method;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{
    Api, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    runtime::{Controller, WatchStreamExt, controller::Action, reflector, watcher},
};
use serde_json::{Value, json};
use sim::{World, faults::Weather, fleet, seed::Seed};
use tokio::time::timeout;

use crate::kit::*;

const DAY: Duration = Duration::from_secs(86_400);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Writes, restarts and forgets for as long as told, all drawn from the seed.
async fn unrest(world: &World, time: Duration) {
    let mut passed = Duration::ZERO;
    let mut count = 0;
    while passed < time {
        let draw = Seed::new(world.seed()).of("unrest").at(count);
        count += 1;
        let name = format!("src-{}", draw.of("name").below(12));
        let path = format!("{MAPS}/{name}");
        let value = draw.of("value").below(1_000).to_string();
        match draw.of("what").below(20) {
            0..3 => {
                let _ = world.write("member-1", Method::DELETE, &path, &Value::Null);
            }
            3 => world.restart_server("member-1"),
            4 => world.compact("member-1"),
            _ => {
                let body = json!({
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {"name": name, "labels": {"role": "source"}}, "data": {"v": value},
                });
                if world.write("member-1", Method::POST, MAPS, &body).is_err() {
                    let patch = json!({"data": {"v": value}});
                    let _ = world.write("member-1", Method::PATCH, &path, &patch);
                }
            }
        }
        let pause = draw.of("pause").between(Duration::from_millis(10), Duration::from_secs(240));
        world.pass(pause).await;
        passed += pause;
    }
}

fn held(world: &World, role: &str) -> BTreeMap<String, String> {
    let objects = world.cluster("member-1").server().list("configmaps");
    let chosen = objects.iter().map(|it| it.value()).filter(|it| it["metadata"]["labels"]["role"] == role);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    chosen.map(|it| (text(&it["metadata"]["name"]), text(&it["data"]["v"]))).collect()
}

fn reflected(config: watcher::Config, seed: u64) {
    fleet().nodes(0).weather(Weather::rough()).seed(seed).run(async |world| {
        let (reader, writer) = reflector::store();
        let maps = maps(&client(&world));
        let config = config.labels("role=source");
        let stream = watcher(maps, config).default_backoff().reflect(writer).applied_objects();
        let task = tokio::spawn(stream.for_each(|_| std::future::ready(())));
        unrest(&world, DAY).await;
        world.link("test", "member-1").set_weather(Weather::calm());
        world
            .eventually("the reflector has what the server has", secs(600), |world| {
                let state = reader.state();
                let pair = |it: &Arc<ConfigMap>| (it.name_any(), it.data.as_ref().unwrap()["v"].clone());
                let seen: BTreeMap<String, String> = state.iter().map(pair).collect();
                seen == held(world, "source")
            })
            .await;
        task.abort();
    });
}

#[test]
fn a_reflector_ends_a_bad_day_with_the_truth() {
    for seed in 0..3 {
        reflected(watcher::Config::default(), seed);
        reflected(watcher::Config::default().any_semantic().timeout(60), seed);
    }
}

#[test]
fn a_reflector_with_streaming_lists_ends_a_bad_day_with_the_truth() {
    for seed in 0..3 {
        reflected(watcher::Config::default().streaming_lists(), seed);
    }
}

struct Context {
    client: kube::Client,
}

#[derive(Debug, thiserror::Error)]
#[error("the copy could not be written")]
struct CopyError;

async fn copy(source: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, CopyError> {
    let maps = maps(&context.client);
    let name = source.name_any().replace("src-", "copy-");
    let body = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": name, "labels": {"role": "copy"},
            "ownerReferences": [source.controller_owner_ref(&()).unwrap()],
        },
        "data": source.data,
    });
    let params = PatchParams::apply("copier").force();
    match timeout(secs(30), maps.patch(&name, &params, &Patch::Apply(body))).await {
        Ok(Ok(_)) => Ok(Action::await_change()),
        _ => Err(CopyError),
    }
}

async fn run_copier(client: kube::Client) {
    let maps = maps(&client);
    let config = watcher::Config::default().labels("role=source").timeout(60);
    let context = Arc::new(Context { client: client.clone() });
    Controller::new(maps.clone(), config)
        .owns(maps, watcher::Config::default().labels("role=copy").timeout(60))
        .run(copy, |_, _: &CopyError, _| Action::requeue(Duration::from_secs(5)), context)
        .for_each(|_| std::future::ready(()))
        .await;
}

#[test]
fn a_controller_that_keeps_dying_ends_a_bad_day_with_every_copy_right() {
    for seed in 0..2 {
        fleet().nodes(0).weather(Weather::rough()).seed(seed).run(async |world| {
            let copier = world.process("copier", |context| run_copier(context.client("member-1")));
            let steps = 24;
            for step in 0..steps {
                copier.crash_after_writes(1 + Seed::new(seed).at(step).below(7));
                unrest(&world, DAY / steps as u32).await;
            }
            world.link("copier", "member-1").set_weather(Weather::calm());
            let copied = |world: &World| -> BTreeMap<String, String> {
                held(world, "copy")
                    .into_iter()
                    .map(|(name, it)| (name.replace("copy-", "src-"), it))
                    .collect()
            };
            world
                .eventually("every copy is right", secs(900), |world| copied(world) == held(world, "source"))
                .await;
            assert!(copier.starts() > 10, "it died often: {}", copier.starts());

            let at_rest = world.cluster("member-1").server().version();
            copier.crash();
            world.pass(secs(600)).await;
            assert_eq!(
                world.cluster("member-1").server().version(),
                at_rest,
                "a restart at rest writes nothing"
            );
        });
    }
}

/// Who believes to lead, and until when.
type Belief = Arc<Mutex<BTreeMap<String, Duration>>>;

const LEASE: Duration = Duration::from_secs(30);
const RENEW: Duration = Duration::from_secs(5);

/// client-go's protocol: a lease is free when it was not changed for its duration, by our own clock.
async fn contend(name: String, client: kube::Client, belief: Belief, started: tokio::time::Instant) {
    let leases: Api<Lease> = Api::namespaced(client, "default");
    let mut seen: Option<(String, tokio::time::Instant)> = None;
    loop {
        let asked = tokio::time::Instant::now();
        if let Ok(Ok(Some(mut lease))) = timeout(RENEW, leases.get_opt("leader")).await {
            let version = lease.resource_version().unwrap_or_default();
            if seen.as_ref().is_none_or(|(known, _)| *known != version) {
                seen = Some((version, tokio::time::Instant::now()));
            }
            let spec = lease.spec.clone().unwrap_or_default();
            let mine = spec.holder_identity.as_deref() == Some(name.as_str());
            let free = seen.as_ref().is_some_and(|(_, since)| since.elapsed() > LEASE);
            if mine || free {
                let renewals = spec.lease_transitions.unwrap_or(0) + 1;
                lease.spec = Some(from(json!({"holderIdentity": name, "leaseTransitions": renewals})));
                let written = timeout(RENEW, leases.replace("leader", &PostParams::default(), &lease)).await;
                if matches!(written, Ok(Ok(_))) {
                    let until = asked + LEASE - RENEW;
                    let mut belief = belief.lock().unwrap();
                    let now = started.elapsed();
                    let other = belief.iter().find(|(other, until)| **other != name && **until > now);
                    assert!(other.is_none(), "{name} leads at {now:?} beside {other:?}");
                    belief.insert(name.clone(), until.duration_since(started));
                }
            }
        } else {
            let lease: Lease = from(json!({"metadata": {"name": "leader"}, "spec": {"holderIdentity": ""}}));
            let _ = timeout(RENEW, leases.create(&PostParams::default(), &lease)).await;
        }
        tokio::time::sleep(RENEW).await;
    }
}

#[test]
fn there_is_never_more_than_one_leader_and_mostly_one() {
    let seed = 1;
    fleet().nodes(0).weather(Weather::rough()).seed(seed).run(async |world| {
        let belief = Belief::default();
        let started = tokio::time::Instant::now();
        let names: [&'static str; 3] = ["one", "two", "three"];
        let candidates: Vec<_> = names
            .into_iter()
            .map(|name| {
                let belief = belief.clone();
                world.process(name, move |context| {
                    contend(name.to_owned(), context.client("member-1"), belief.clone(), started)
                })
            })
            .collect();
        let (mut led, mut rounds) = (0, 0);
        for round in 0..8_640_u64 {
            world.pass(secs(10)).await;
            let now = started.elapsed();
            let leaders = belief.lock().unwrap().values().filter(|until| **until > now).count();
            assert!(leaders <= 1, "{leaders} leaders after {now:?}: {belief:?}");
            led += leaders;
            rounds += 1;
            if round % 180 == 0 {
                let victim = Seed::new(seed).of("victim").at(round).below(3) as usize;
                candidates[victim].crash();
                // A killed process believes nothing any more.
                belief.lock().unwrap().remove(names[victim]);
            }
        }
        assert!(led * 100 / rounds >= 80, "a leader in {led} of {rounds} looks");
    });
}
