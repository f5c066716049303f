//! One story: a user changes something, something goes wrong meanwhile, and then it has to come to rest.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use sim::seed::Seed;

use super::{
    promises::{Bounds, Promises},
    tally::Tally,
    wish::Wish,
};
use crate::kit::{HUB, NEVER_WRITTEN, PodNames, Setting, Stage, all_pods, play_with, policy};

/// Steps of a story.
const STEPS: u64 = 4;

/// Longer than a member that comes and goes has to be steady for.
const PATIENCE: Duration = Duration::from_secs(3 * 3600);

pub(super) struct Story {
    pub(super) stage: Stage,
    pub(super) promises: Promises,
    pub(super) wish: Wish,
    pub(super) tally: Tally,
    /// What the policy says besides whom it places.
    pub(super) policy: Value,
    /// Whether replicas may still move for the sake of a policy or a member that came: then rebalance.maxSurge is on top.
    pub(super) may_move: bool,
    /// Assignments as they were at some rest, by member: what a leader that was deposed may still have on its way.
    pub(super) older: Vec<(&'static str, Value)>,
}

/// What a story came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Told {
    pub(super) tally: Tally,
    /// What two runs of one seed have in common: the lines of the log, and a hash over them.
    pub(super) log: (u64, u64),
}

/// Tells the story of a seed; panics where a promise is broken.
pub(super) fn tell(seed: u64) -> Told {
    let mut outcome = Told::default();
    let told = &mut outcome;
    play_with(Setting { pods: PodNames::Own, seed }, async |stage| {
        let draw = Seed::new(seed).of("story");
        let mut wish = Wish::plain(3 + draw.of("replicas").below(8) as usize);
        wish.in_place = draw.of("in place").below(3) == 0;
        wish.draw_pace(draw.of("pace"));
        let mut story = Story::begin(stage, wish).await;
        if story.wish.in_place {
            story.tally.note("updates in place");
        }
        for step in 0..STEPS {
            story.step(draw.at(step)).await;
        }
        story.tally.count("checks", story.promises.checks());
        *told = Told { tally: std::mem::take(&mut story.tally), log: story.stage.world.log().fingerprint() };
    });
    outcome
}

impl Story {
    /// A CloneSet that rests.
    pub(super) async fn begin(stage: Stage, wish: Wish) -> Self {
        let promises = Promises::watch(&stage.world);
        let policy = json!({"rollout": {"unknownCountsAs": "LastReported"}});
        let tally = Tally::default();
        let story = Self { stage, promises, wish, tally, policy, may_move: false, older: Vec::new() };
        story.place();
        story.wish.apply(&story.stage);
        story.rests().await;
        story
    }

    async fn step(&mut self, draw: Seed) {
        self.stage.world.note(&format!("step {}", draw.of("what").below(14)));
        match draw.of("what").below(14) {
            0 | 1 => self.scale(draw).await,
            2..=4 => self.release(draw).await,
            5 => self.supersede(draw).await,
            6 => self.release_what_is_broken(draw).await,
            7 => self.drain(draw).await,
            8 => self.join(draw).await,
            9 => self.weigh(draw).await,
            10 => self.exclude(draw).await,
            11 => self.suspend(draw).await,
            12 => self.pause(draw).await,
            _ => self.delete_pods(draw).await,
        }
        if draw.of("restart").below(3) == 0 {
            self.restart_at_rest().await;
        }
        let members = self.stage.members();
        self.older = members.iter().filter_map(|it| Some((*it, self.stage.assignment(it)?))).collect();
    }

    /// Writes the policy.
    pub(super) fn place(&self) {
        self.stage.place(&policy(|spec| {
            for (name, value) in self.policy.as_object().into_iter().flatten() {
                spec[name] = value.clone();
            }
        }));
    }

    /// The bounds while replicas go from `before` to the wish.
    pub(super) fn bounds(&self, before: usize, updated: Option<(String, usize)>) -> Bounds {
        // rebalance.maxSurge: 10%, rounded up.
        let moving = if self.may_move { before.max(self.wish.replicas).div_ceil(10) } else { 0 };
        self.wish.bounds(before, moving, updated)
    }

    /// At rest a restart of the hub and of all agents writes nothing (section 25, item 14).
    async fn restart_at_rest(&mut self) {
        let ready = |it: &Stage| it.members().iter().all(|name| it.state(name) == "Ready");
        self.until("all members are Ready", ready).await;
        // Also for what was not answered: a request may arrive late, and is not looked up before it cannot any more.
        self.stage.pass(300).await;
        let before = self.kept();
        self.stage.hub.crash();
        self.stage.agents.values().for_each(|it| it.crash());
        self.stage.pass(120).await;
        let after = self.kept();
        let changed: Vec<_> =
            before.keys().chain(after.keys()).filter(|it| before.get(*it) != after.get(*it)).collect();
        let told = |it: &String| format!("{it}: {:?} became {:?}", before.get(it), after.get(it));
        assert!(
            changed.is_empty(),
            "restart_noop: a restart at rest wrote something: {:#?}",
            changed.into_iter().map(told).collect::<Vec<_>>()
        );
        self.tally.note("restart at rest");
    }

    /// Everything that nobody at rest must write, by kind and name.
    fn kept(&self) -> BTreeMap<String, String> {
        let of = |cluster: &str, kind: &str| {
            let objects = self.stage.world.cluster(cluster).server().list(kind);
            let line = |it: Value| {
                let metadata = &it["metadata"];
                (format!("{cluster} {kind} {} {}", metadata["namespace"], metadata["name"]), it.to_string())
            };
            objects.into_iter().map(|it| line(it.value())).collect::<Vec<_>>()
        };
        // Losses of contact are forgotten after an hour, which may be just now.
        let of_hub = NEVER_WRITTEN.into_iter().filter(|it| !it.starts_with("memberclusters"));
        let of_member = ["clonesets.apps.kruise.io", "pods", "controllerrevisions.apps", "secrets"];
        let of_members =
            self.stage.members().into_iter().flat_map(|member| of_member.map(|kind| of(member, kind)));
        of_hub.map(|kind| of(HUB, kind)).chain(of_members).flatten().collect()
    }

    /// Waits until all is as the user wants it, and says so: so many pods, all ready, and as many of them of the image as there
    /// should be.
    pub(super) async fn rests(&self) {
        self.comes_to_rest().await;
        assert_eq!(self.stage.measure("budget_violation_total"), Some(0.0), "the hub's own count");
    }

    async fn comes_to_rest(&self) {
        let Wish { replicas, .. } = self.wish;
        let (image, old) = (self.wish.name(), self.wish.old());
        self.until(&format!("budget_progress: {replicas} pods rest, {old} of them not {image}"), |it| {
            let web = it.web();
            let status = &web["status"];
            let number = |name: &str| status[name].as_u64().unwrap_or(0) as usize;
            let is_told = status["observedGeneration"] == web["metadata"]["generation"]
                && number("availableReplicas") == replicas
                && number("readyReplicas") == replicas
                && number("updatedReplicas") == replicas - old;
            is_told && {
                let pods = all_pods(&it.world);
                pods.len() == replicas
                    && pods.iter().all(|it| it.is_ready)
                    && pods.iter().filter(|it| it.image != image).count() == old
            }
        })
        .await;
    }

    pub(super) async fn until(&self, what: &str, condition: impl Fn(&Stage) -> bool) {
        self.stage.world.eventually(what, PATIENCE, |_| condition(&self.stage)).await;
    }
}

/// Says how things stand when a story does not come to its end.
impl Drop for Story {
    fn drop(&mut self) {
        if std::thread::panicking() || self.stage.world.violation().is_some() {
            eprintln!("--- the binding: {:#}", self.stage.binding());
            for member in self.stage.members() {
                eprintln!("--- for {member}: {:#}", self.stage.assignment(member).unwrap_or_default());
            }
        }
    }
}
