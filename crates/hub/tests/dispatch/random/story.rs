//! One story: a user changes something, something goes wrong meanwhile, and then it has to come to rest.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use sim::{
    World,
    faults::{Direction, Weather},
    seed::Seed,
};

use super::bounds::{Bounds, Now};
use crate::kit::{
    FLEET, HUB, MEMBERS, PodNames, Setting, Stage, agent_of, all_pods, play, play_with, policy, rolling,
};

/// How the hub's ledger fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ledger {
    /// As the hub writes it.
    Kept,
    /// After each write exposures are set to what is granted, as though everything were carried out at once.
    ForgetsExposure,
}

/// What happened, over all stories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    scales: u32,
    releases: u32,
    superseded: u32,
    drains: u32,
    cuts: u32,
    hub_crashes: u32,
    agent_crashes: u32,
    deletions: u32,
    rough_days: u32,
    restarts_at_rest: u32,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        let Self { scales, releases, superseded, drains, cuts, .. } = other;
        let Self { hub_crashes, agent_crashes, deletions, rough_days, restarts_at_rest, .. } = other;
        self.scales += scales;
        self.releases += releases;
        self.superseded += superseded;
        self.drains += drains;
        self.cuts += cuts;
        self.hub_crashes += hub_crashes;
        self.agent_crashes += agent_crashes;
        self.deletions += deletions;
        self.rough_days += rough_days;
        self.restarts_at_rest += restarts_at_rest;
    }

    /// Whether everything happened at least once.
    pub(super) fn is_full(&self) -> bool {
        let Self { scales, releases, superseded, drains, cuts, .. } = self;
        let Self { hub_crashes, agent_crashes, deletions, rough_days, restarts_at_rest, .. } = self;
        let all =
            [scales, releases, superseded, drains, cuts, hub_crashes, agent_crashes, deletions, rough_days];
        all.into_iter().chain([restarts_at_rest]).all(|it| *it > 0)
    }
}

/// Steps of a story.
const STEPS: u64 = 4;

/// Longer than a member that comes and goes has to be steady for.
const PATIENCE: Duration = Duration::from_secs(3 * 3600);

/// What the user wants now.
#[derive(Debug, Clone)]
struct Wish {
    replicas: usize,
    image: u64,
    unavailable: usize,
    surge: usize,
}

impl Wish {
    fn apply(&self, stage: &Stage, image: &str, partition: usize) {
        let Self { replicas, unavailable, surge, .. } = self;
        let fields = json!({"maxUnavailable": unavailable, "maxSurge": surge, "partition": partition});
        stage.apply(image, *replicas as u32, |spec| rolling(spec, fields));
    }

    fn name(&self) -> String {
        format!("v{}", self.image)
    }
}

struct Story {
    stage: Stage,
    now: Now,
    wish: Wish,
    tally: Tally,
}

/// Tells the story of a seed; panics where a promise is broken.
pub(super) fn tell(seed: u64) -> Tally {
    let mut tally = Tally::default();
    let told = &mut tally;
    play_with(Setting { pods: PodNames::Own, seed }, async |stage| {
        let draw = Seed::new(seed).of("story");
        let wish = Wish {
            replicas: 3 + draw.of("replicas").below(8) as usize,
            image: 1,
            unavailable: 1 + draw.of("unavailable").below(3) as usize,
            surge: draw.of("surge").below(3) as usize,
        };
        let mut story = Story::begin(stage, wish).await;
        for step in 0..STEPS {
            story.step(draw.at(step)).await;
        }
        *told = story.tally;
    });
    tally
}

/// A member is drained whose link breaks at that moment: what it was told to give up, and did not hear of, is still there.
pub(super) fn drain_a_silent_member(ledger: Ledger) {
    play(async |stage| {
        if ledger == Ledger::ForgetsExposure {
            stage.world.invariant("nothing", |world| {
                forget(world);
                Ok(())
            });
        }
        let story = Story::begin(stage, Wish { replicas: 6, image: 1, unavailable: 1, surge: 0 }).await;
        story.now.set(Some(story.bounds(6, 1, None)));
        let link = story.stage.world.link(&agent_of("member-1"), HUB);
        link.cut(Direction::BOTH);
        story.stage.change_member("member-1", &json!({"drain": true}));
        story.stage.pass(60).await;
        link.heal();
        story.until("it is empty", |it| it.replicas()[0] == 0).await;
        story.rests(0).await;
    });
}

/// Sets all exposures to what is granted.
pub(super) fn forget(world: &World) {
    for binding in world.cluster(HUB).server().list("fleetbindings.fleet.kruise.io") {
        let before = binding.value();
        let mut after = before.clone();
        let rows = after["spec"]["ledger"]["clusters"].as_object_mut().into_iter().flatten();
        for (_, row) in rows {
            for column in ["replicas", "updated", "unavailable", "surge", "parallelism"] {
                let grant = row[column]["grant"].as_u64().unwrap_or(0);
                if row[column]["exposure"].as_u64().unwrap_or(0) > grant {
                    row[column]["exposure"] = json!(grant);
                }
            }
        }
        if after != before {
            let name = before["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("{FLEET}/namespaces/shop/fleetbindings/{name}");
            // Somebody else may have been faster; then there is another write after which to try.
            let _ = world.write(HUB, Method::PUT, &path, &after);
        }
    }
}

impl Story {
    /// A CloneSet that rests.
    async fn begin(stage: Stage, wish: Wish) -> Self {
        let now = Now::watch(&stage.world);
        let story = Self { stage, now, wish, tally: Tally::default() };
        story.stage.place(&policy(|it| it["rollout"] = json!({"unknownCountsAs": "LastReported"})));
        story.wish.apply(&story.stage, "v1", 0);
        story.rests(0).await;
        story
    }

    async fn step(&mut self, draw: Seed) {
        match draw.of("what").below(5) {
            0 => self.scale(draw).await,
            1 | 2 => self.release(draw).await,
            3 => self.supersede(draw).await,
            _ => self.drain(draw).await,
        }
        if draw.of("restart").below(3) == 0 {
            self.restart_at_rest().await;
        }
    }

    /// The bounds while replicas go from `before` to the wish, and `moving` more may be started elsewhere first.
    fn bounds(&self, before: usize, moving: usize, updated: Option<(String, usize)>) -> Bounds {
        let Wish { replicas, unavailable, surge, .. } = self.wish;
        Bounds {
            available: before.min(replicas).saturating_sub(unavailable),
            pods: before.max(replicas) + surge + moving,
            updated,
        }
    }

    async fn scale(&mut self, draw: Seed) {
        let before = self.wish.replicas;
        self.wish.replicas = draw.of("to").below(12) as usize;
        self.now.set(Some(self.bounds(before, 0, None)));
        self.wish.apply(&self.stage, &self.wish.name(), 0);
        self.meanwhile(draw).await;
        self.rests(0).await;
        self.tally.scales += 1;
    }

    async fn release(&mut self, draw: Seed) {
        self.wish.image += 1;
        self.wish.unavailable = 1 + draw.of("unavailable").below(3) as usize;
        self.wish.surge = draw.of("surge").below(3) as usize;
        let (image, replicas) = (self.wish.name(), self.wish.replicas);
        let partition = draw.of("partition").below(replicas as u64) as usize;
        self.now.set(Some(self.bounds(replicas, 0, Some((image.clone(), replicas - partition)))));
        self.wish.apply(&self.stage, &image, partition);
        self.meanwhile(draw).await;
        self.rests(partition).await;
        if partition > 0 {
            self.now.set(Some(self.bounds(replicas, 0, None)));
            self.wish.apply(&self.stage, &image, 0);
            self.meanwhile(draw.of("rest")).await;
            self.rests(0).await;
        }
        self.tally.releases += 1;
    }

    /// A release that is replaced by another one before it is over.
    async fn supersede(&mut self, draw: Seed) {
        let replicas = self.wish.replicas;
        self.now.set(Some(self.bounds(replicas, 0, None)));
        self.wish.image += 1;
        self.wish.apply(&self.stage, &self.wish.name(), 0);
        self.stage.world.pass(draw.of("in between").between(Duration::ZERO, Duration::from_secs(20))).await;
        self.wish.image += 1;
        self.wish.apply(&self.stage, &self.wish.name(), 0);
        self.meanwhile(draw).await;
        self.rests(0).await;
        self.tally.superseded += 1;
    }

    async fn drain(&mut self, draw: Seed) {
        let replicas = self.wish.replicas;
        let member = MEMBERS[draw.of("member").below(3) as usize];
        // rebalance.maxSurge: 10%, rounded up.
        self.now.set(Some(self.bounds(replicas, replicas.div_ceil(10), None)));
        self.stage.change_member(member, &json!({"drain": true}));
        self.meanwhile(draw).await;
        self.until("the drained member is empty", |it| {
            !all_pods(&it.world).iter().any(|it| it.cluster == member)
        })
        .await;
        self.rests(0).await;
        self.now.set(Some(self.bounds(replicas, replicas.div_ceil(10), None)));
        self.stage.change_member(member, &json!({"drain": false}));
        self.rests(0).await;
        self.tally.drains += 1;
    }

    /// Something goes wrong while the change is carried out; in the end it is mended.
    async fn meanwhile(&mut self, draw: Seed) {
        let world = self.stage.world.clone();
        let member = MEMBERS[draw.of("victim").below(3) as usize];
        let writes = 1 + draw.of("writes").below(12);
        if draw.of("rough").below(4) == 0 {
            world.set_weather(Weather::rough());
            self.tally.rough_days += 1;
        }
        world.pass(draw.of("when").between(Duration::ZERO, Duration::from_secs(10))).await;
        match draw.of("fault").below(6) {
            0 => {
                self.stage.hub.crash_after_writes(writes);
                self.tally.hub_crashes += 1;
            }
            1 => {
                self.stage.agents[member].crash_after_writes(writes);
                self.tally.agent_crashes += 1;
            }
            2 => {
                let link = world.link(&agent_of(member), HUB);
                link.cut(Direction::BOTH);
                world.pass(draw.of("for").between(Duration::from_secs(5), Duration::from_secs(120))).await;
                link.heal();
                self.tally.cuts += 1;
            }
            3 => {
                // Somebody deletes what is stored for a member (PROTO-7).
                let path = format!("{FLEET}/namespaces/fleet-{member}/assignments/cloneset.shop.web");
                if world.write(HUB, Method::DELETE, &path, &Value::Null).is_ok() {
                    self.tally.deletions += 1;
                }
            }
            _ => {}
        }
        world.pass(Duration::from_secs(30)).await;
        world.set_weather(Weather::calm());
    }

    /// At rest a restart of the hub writes nothing (HA-4).
    async fn restart_at_rest(&mut self) {
        self.until("all members are Ready", |it| MEMBERS.iter().all(|name| it.state(name) == "Ready")).await;
        self.stage.pass(120).await;
        // Losses of contact are forgotten after an hour, which may be just now.
        let versions = |it: &Stage| -> Vec<String> {
            it.versions().into_iter().filter(|it| !it.starts_with("memberclusters")).collect()
        };
        let before = versions(&self.stage);
        self.stage.hub.crash();
        self.stage.pass(120).await;
        assert_eq!(versions(&self.stage), before, "a restart at rest wrote something");
        self.tally.restarts_at_rest += 1;
    }

    /// Waits until all is as the user wants it, and says so: so many pods, all ready, all but `old` of them of the image.
    async fn rests(&self, old: usize) {
        self.comes_to_rest(old).await;
        assert_eq!(self.stage.measure("budget_violation_total"), Some(0.0), "the hub's own count");
    }

    async fn comes_to_rest(&self, old: usize) {
        let (replicas, image) = (self.wish.replicas, self.wish.name());
        self.until(&format!("{replicas} pods rest, {old} of them not {image}"), |it| {
            let (pods, web) = (all_pods(&it.world), it.web());
            let status = &web["status"];
            let number = |name: &str| status[name].as_u64().unwrap_or(0) as usize;
            pods.len() == replicas
                && pods.iter().all(|it| it.is_ready)
                && pods.iter().filter(|it| it.image != image).count() == old
                && status["observedGeneration"] == web["metadata"]["generation"]
                && number("availableReplicas") == replicas
                && number("readyReplicas") == replicas
                && number("updatedReplicas") == replicas - old
        })
        .await;
    }

    async fn until(&self, what: &str, condition: impl Fn(&Stage) -> bool) {
        self.stage.world.eventually(what, PATIENCE, |_| condition(&self.stage)).await;
    }
}
