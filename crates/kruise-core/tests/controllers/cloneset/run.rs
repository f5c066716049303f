//! One run of a setting.

use std::sync::LazyLock;

use axum::http::Method;
use kruise_core::api::common::keys;
use serde_json::{Value, json};
use sim::{
    World,
    faults::Weather,
    fleet,
    nodes::{Behaviour, ImageBehaviour},
    server::{Settings, TrackUpdates},
    world::FleetBuilder,
};

use super::{
    agent::{Agents, Flaw},
    ledger::{Ledger, Tally},
    objects::{self, HOOK, SET, SETS},
    rest,
    setting::{Act, BAD_IMAGE, Mishap, NODES, Setting, setting},
};
use crate::kit::*;

/// A world with nodes in which CloneSets are known.
pub(super) fn cluster(seed: u64, weather: Weather) -> FleetBuilder {
    let bad = ImageBehaviour { never_ready: true, ..ImageBehaviour::default() };
    let settings = Settings { track_updates: TrackUpdates::OnAppliedObjects, ..Settings::default() };
    let fleet = fleet().nodes(NODES).weather(weather).seed(seed).settings(settings);
    let fleet = fleet.behaviour(Behaviour::default().image(BAD_IMAGE, bad));
    KINDS.iter().fold(fleet, |fleet, it| fleet.define(it.clone()))
}

/// The definitions of the kinds that the controller reads.
static KINDS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let known = ["clonesets.apps.kruise.io", "imagepulljobs.apps.kruise.io"];
    let crds = kruise_core::api::crds::crds().into_iter();
    let crds = crds.filter(|it| it.metadata.name.as_deref().is_some_and(|it| known.contains(&it)));
    crds.map(|it| json!(it)).collect()
});

/// Changes the CloneSet's spec.
pub(super) fn edit(world: &World, patch: &Value) {
    world.note(&format!("the user changes {patch}"));
    write(world, Method::PATCH, &format!("{SETS}/{SET}"), &json!({"spec": patch}));
}

/// Lets time pass. Whoever holds pods back before their deletion lets go of them after a few seconds.
pub(super) async fn pass(world: &World, seconds: u64) {
    let mut left = seconds;
    while left > 0 {
        let step = left.min(5);
        world.pass(secs(step)).await;
        left -= step;
        for name in objects::held_back(world) {
            let patch = json!({"metadata": {"labels": {HOOK: null}}});
            write(world, Method::PATCH, &format!("{PODS}/{name}"), &patch);
        }
    }
}

/// What a run came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) tally: Tally,
    /// How often the controller was started.
    pub(super) starts: u64,
    pub(super) handovers: u64,
    /// How many writes there were, everybody's.
    pub(super) writes: u64,
}

/// Runs the setting of `seed`. An error is a broken promise.
pub(super) fn run(seed: u64, flaw: Flaw) -> Result<Outcome, String> {
    let setting = setting(seed);
    cluster(seed, setting.weather.clone()).run(async |world| {
        let (agents, eyes) = Agents::start(&world, flaw, setting.agents);
        let ledger = Ledger::keep(&world, &eyes);
        write(&world, Method::POST, SETS, &objects::cloneset(&setting.spec));
        let mut broken_pods = Vec::new();
        for step in &setting.steps {
            if let Some(mishap) = step.mishap {
                happen(&world, &agents, mishap);
            }
            act(&world, &step.act, &mut broken_pods);
            pass(&world, step.wait).await;
            if let Some(broken) = ledger.broken() {
                return Err(broken);
            }
        }
        // Whether a flawed one comes to rest does not matter.
        if flaw == Flaw::None {
            end(&world, &agents, &setting, &broken_pods);
            rest::reach(&world, &ledger).await?;
            rest::stay(&world, &agents, 1_800).await?;
        }
        ledger.broken().map_or(Ok(()), Err)?;
        Ok(Outcome {
            tally: ledger.tally(),
            starts: agents.starts(),
            handovers: eyes.handovers(),
            writes: world.cluster(CLUSTER).server().version(),
        })
    })
}

fn happen(world: &World, agents: &Agents, mishap: Mishap) {
    world.note(&format!("{mishap:?}"));
    match mishap {
        Mishap::Crash(writes) => agents.crash_after_writes(writes),
        Mishap::RestartServer => world.restart_server(CLUSTER),
        Mishap::Compact => {
            world.compact(CLUSTER);
            world.restart_server(CLUSTER);
        }
        Mishap::LoseNode(number) => world.lose_node(CLUSTER, &node(number)),
        // With two agents it is the one that leads, or not.
        Mishap::Cut(direction, seconds) => {
            let link = agents.links(world).swap_remove(0);
            link.cut(direction);
            tokio::spawn(async move {
                tokio::time::sleep(secs(seconds)).await;
                link.heal();
            });
        }
    }
}

fn node(number: usize) -> String {
    format!("node-{number}")
}

fn act(world: &World, act: &Act, broken_pods: &mut Vec<String>) {
    let pods = objects::pods(world);
    let pick = |number: &u64| {
        let active: Vec<&objects::Pod> = pods.iter().filter(|it| it.is_active).collect();
        (!active.is_empty()).then(|| active[*number as usize % active.len()].name.clone())
    };
    match act {
        Act::Replicas(replicas) => edit(world, &json!({"replicas": replicas})),
        Act::Release(image, env) => edit(world, &json!({"template": objects::template(image, *env)})),
        Act::Partition(partition) => {
            edit(world, &json!({"updateStrategy": {"rollingUpdate": {"partition": partition}}}));
        }
        Act::Budget(surge, unavailable) => {
            let budget = json!({"maxSurge": surge, "maxUnavailable": unavailable});
            edit(world, &json!({"updateStrategy": {"rollingUpdate": budget}}));
        }
        Act::Pause(paused) => {
            edit(world, &json!({"updateStrategy": {"rollingUpdate": {"paused": paused}}}));
        }
        Act::Name(number) => {
            if let Some(name) = pick(number) {
                edit(world, &json!({"scaleStrategy": {"podsToDelete": [name]}}));
            }
        }
        Act::Mark(number) => {
            if let Some(name) = pick(number) {
                world.note(&format!("the user marks {name}"));
                let patch = json!({"metadata": {"labels": {keys::SPECIFIED_DELETE: "true"}}});
                write(world, Method::PATCH, &format!("{PODS}/{name}"), &patch);
            }
        }
        Act::Delete(number) => {
            if let Some(name) = pick(number) {
                world.note(&format!("the user deletes {name}"));
                write(world, Method::DELETE, &format!("{PODS}/{name}"), &json!({}));
            }
        }
        Act::Break(number) => {
            if let Some(name) = pick(number) {
                world.note(&format!("{name} breaks"));
                world.set_container_ready(CLUSTER, &name, "main", false);
                broken_pods.push(name);
            }
        }
    }
}

/// Fair weather: the user wants something that can be had, and nothing goes wrong any more.
fn end(world: &World, agents: &Agents, setting: &Setting, broken_pods: &[String]) {
    agents.crash_after_writes(u64::MAX / 2);
    for link in agents.links(world) {
        link.set_weather(Weather::calm());
        link.heal();
    }
    (1..=NODES).for_each(|it| world.return_node(CLUSTER, &node(it)));
    for name in broken_pods {
        world.set_container_ready(CLUSTER, name, "main", true);
    }
    let mut rolling = json!({"paused": false});
    if setting.ends_released {
        rolling["partition"] = json!(0);
    }
    let mut last = json!({"updateStrategy": {"rollingUpdate": rolling}});
    if objects::set(world).is_some_and(|it| it.release.starts_with(BAD_IMAGE)) {
        last["template"] = objects::template("web:9", 1);
    }
    edit(world, &last);
}
