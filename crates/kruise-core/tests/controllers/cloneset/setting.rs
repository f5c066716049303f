//! Random CloneSets, users and mishaps. Everything follows from the seed.

use serde_json::{Value, json};
use sim::{
    faults::{Direction, Weather},
    seed::{Chance, Seed},
};

use super::objects::{self, HOOK};

/// An image that never becomes ready.
pub(super) const BAD_IMAGE: &str = "web:bad";

/// How many nodes there are.
pub(super) const NODES: usize = 4;

/// One run.
#[derive(Debug)]
pub(super) struct Setting {
    /// How many processes run the controller.
    pub(super) agents: u64,
    pub(super) spec: Value,
    pub(super) weather: Weather,
    pub(super) steps: Vec<Step>,
    /// Whether the last thing the user does is to release to all pods.
    pub(super) ends_released: bool,
}

/// One thing that a user does, and what happens at the same time.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) act: Act,
    pub(super) mishap: Option<Mishap>,
    /// Seconds until the next step.
    pub(super) wait: u64,
}

/// What a user, or a node, does.
#[derive(Debug, Clone)]
pub(super) enum Act {
    Replicas(u64),
    /// A template of this image and environment.
    Release(String, u64),
    Partition(Value),
    /// `maxSurge` and `maxUnavailable`.
    Budget(Value, Value),
    Pause(bool),
    /// Names a pod for deletion, in the spec.
    Name(u64),
    /// The same with a label.
    Mark(u64),
    /// Deletes a pod.
    Delete(u64),
    /// A pod stops being ready.
    Break(u64),
}

/// What goes wrong.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mishap {
    /// The controller dies right after this many writes.
    Crash(u64),
    RestartServer,
    /// The same, and it has forgotten the past.
    Compact,
    /// A node falls silent for the rest of the story.
    LoseNode(usize),
    /// The way to the API server is cut for this many seconds.
    Cut(Direction, u64),
}

pub(super) fn setting(number: u64) -> Setting {
    let seed = Seed::new(number).of("setting");
    let (spec, in_place_only) = spec(seed.of("spec"));
    let count = 4 + seed.of("steps").below(6);
    let steps: Vec<Step> = (0..count).map(|it| step(seed.of("step").at(it), in_place_only)).collect();
    let is_bad = |it: &Step| matches!(&it.act, Act::Release(image, _) if image == BAD_IMAGE);
    // Pods that a partition keeps at the bad image could never become available.
    let ends_released = steps.iter().any(is_bad) || seed.of("ends").below(3) > 0;
    let agents = 1 + u64::from(seed.of("agents").below(4) == 0);
    Setting { agents, spec, weather: weather(seed.of("weather")), steps, ends_released }
}

fn pick<T: Clone>(seed: Seed, from: &[T]) -> T {
    from[seed.below(from.len() as u64) as usize].clone()
}

fn spec(seed: Seed) -> (Value, bool) {
    let policy = pick(
        seed.of("policy"),
        &["ReCreate", "ReCreate", "InPlaceIfPossible", "InPlaceIfPossible", "InPlaceOnly"],
    );
    let (surge, unavailable) = budget(seed);
    let mut scale = json!({"enablePVCReuse": seed.of("reuse").below(2) == 0});
    if seed.of("stream").below(3) == 0 {
        scale["maxUnavailable"] = pick(seed.of("stream-by"), &[json!(1), json!(2), json!("30%")]);
    }
    let has_claims = seed.of("claims").below(3) == 0;
    let claims = if has_claims { json!([objects::claim_template()]) } else { json!([]) };
    let mut spec = json!({
        "replicas": 1 + seed.of("replicas").below(12),
        "minReadySeconds": pick(seed.of("min-ready"), &[0, 0, 3, 10]),
        "revisionHistoryLimit": pick(seed.of("history"), &[0, 1, 2, 10]),
        "scaleStrategy": scale,
        "volumeClaimTemplates": claims,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {
            "podUpdatePolicy": policy, "maxUnavailable": unavailable, "maxSurge": surge,
            "partition": partition(seed.of("partition")),
        }},
    });
    if seed.of("hook").below(4) == 0 {
        spec["lifecycle"] = json!({"preDelete": {"labelsHandler": {HOOK: "on"}}});
    }
    (spec, policy == "InPlaceOnly")
}

/// `maxSurge` and `maxUnavailable`, one of which allows something.
fn budget(seed: Seed) -> (Value, Value) {
    let surge =
        pick(seed.of("surge"), &[json!(0), json!(0), json!(0), json!(1), json!(2), json!(3), json!("25%")]);
    let unavailable = pick(
        seed.of("down"),
        &[json!(0), json!(1), json!(1), json!(2), json!(4), json!("20%"), json!("50%")],
    );
    if surge == 0 && unavailable == 0 { (surge, json!(1)) } else { (surge, unavailable) }
}

fn partition(seed: Seed) -> Value {
    match seed.below(5) {
        0 => json!(seed.of("int").below(8)),
        1 => json!(format!("{}%", seed.of("percent").below(10) * 11)),
        _ => json!(0),
    }
}

fn weather(seed: Seed) -> Weather {
    let chance = |name: &str, from: &[u32]| Chance::percent(pick(seed.of(name), from));
    let rough = Weather::rough();
    match seed.below(4) {
        // Only the controller dies.
        0 => Weather::calm(),
        1 => rough,
        // Writes that take effect without an answer, and watches that lag behind.
        2 => Weather {
            lose_answer: Chance::percent(10),
            fail_after: Chance::percent(10),
            silence: Chance::percent(1),
            late_watch: (Chance::percent(60), std::time::Duration::from_secs(20)),
            ..rough
        },
        _ => Weather {
            lose_request: chance("lost", &[0, 5]),
            lose_answer: chance("answer", &[0, 5, 20]),
            silence: chance("silence", &[0, 1, 3]),
            conflict: chance("conflict", &[0, 10, 30]),
            throttle: chance("throttle", &[0, 5, 20]),
            fail: chance("fail", &[0, 10]),
            fail_after: chance("after", &[0, 5, 20]),
            duplicate: chance("duplicate", &[0, 5]),
            break_watch: chance("break", &[0, 5, 20]),
            ..rough
        },
    }
}

fn step(seed: Seed, in_place_only: bool) -> Step {
    let number = seed.of("number").bits();
    let act = match seed.of("act").below(14) {
        0 | 1 => Act::Replicas(number % 13),
        2..=4 => {
            let image = if number.is_multiple_of(9) {
                BAD_IMAGE.to_owned()
            } else {
                format!("web:{}", 1 + number % 4)
            };
            Act::Release(image, 1)
        }
        5 if in_place_only => Act::Release("web:5".to_owned(), 1),
        5 => Act::Release(format!("web:{}", 1 + number % 2), 1 + number / 7 % 3),
        6 => Act::Partition(partition(seed.of("partition"))),
        7 => Act::Pause(number.is_multiple_of(2)),
        8 => Act::Name(number),
        9 => Act::Mark(number),
        10 => Act::Delete(number),
        11 => {
            let (surge, unavailable) = budget(seed);
            Act::Budget(surge, unavailable)
        }
        12 => Act::Replicas(1 + number % 12),
        _ => Act::Break(number),
    };
    let mishap = match seed.of("mishap").below(12) {
        0..=3 => Some(Mishap::Crash(1 + seed.of("writes").below(7))),
        4 => Some(Mishap::RestartServer),
        5 => Some(Mishap::Compact),
        6 => Some(Mishap::LoseNode(1 + number as usize % NODES)),
        7 => {
            let cuts = [Direction::BOTH, Direction::TO_CLIENT, Direction::TO_SERVER];
            Some(Mishap::Cut(pick(seed.of("cut"), &cuts), 1 + seed.of("cut-for").below(40)))
        }
        _ => None,
    };
    let wait = pick(seed.of("wait"), &[1, 3, 10, 30, 60, 150]);
    Step { act, mishap, wait }
}
