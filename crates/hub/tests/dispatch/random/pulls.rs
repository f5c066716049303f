//! Random stories of jobs that download images: whatever goes wrong, no more nodes download at a time than the job allows, and in
//! the end all are served.

use std::{sync::atomic::Ordering, time::Duration};

use http::Method;
use serde_json::{Value, json};
use sim::{
    faults::{Direction, Weather},
    seed::Seed,
};

use super::{
    caught, in_parallel, seeds,
    teeth::{Rule, ignore_exposure},
};
use crate::kit::{
    FLEET, HUB, MEMBERS, Stage, agent_of,
    jobs::{policy, served},
    play_images, play_images_with,
};

/// How many stories are told.
const STORIES: u64 = 12;
/// One that is told twice.
const REPEATED: u64 = 5;

/// One thing goes wrong.
async fn mishap(stage: &Stage, draw: Seed) {
    let member = MEMBERS[draw.of("victim").below(3) as usize];
    let writes = 1 + draw.of("writes").below(8);
    match draw.of("fault").below(6) {
        0 => stage.hub.crash_after_writes(writes),
        1 => stage.agents[member].crash_after_writes(writes),
        2 => stage.agents[member].crash(),
        3 => {
            let link = stage.world.link(&agent_of(member), HUB);
            link.cut(Direction::BOTH);
            stage.world.pass(draw.of("for").between(Duration::from_secs(2), Duration::from_secs(90))).await;
            link.heal();
        }
        4 => {
            let path = format!("{FLEET}/namespaces/fleet-{member}/assignments/imagepulljob.shop.warm");
            let _ = stage.world.write(HUB, Method::DELETE, &path, &Value::Null);
        }
        _ => stage.world.set_weather(Weather::rough()),
    }
    stage.world.pass(draw.of("then").between(Duration::ZERO, Duration::from_secs(9))).await;
}

/// Tells the story of a seed. Says what two runs of it have in common: the lines of the log, and a hash over them.
fn tell(seed: u64) -> (u64, u64) {
    let mut log = (0, 0);
    play_images_with(seed, async |stage| {
        let draw = Seed::new(seed).of("pulls");
        stage.place(&policy(|_| {}));
        let parallelism = 1 + draw.of("parallelism").below(3) as u32;
        stage.pull("web", parallelism, |_| {});
        for step in 0..6 {
            mishap(&stage, draw.at(step)).await;
        }
        stage.world.set_weather(Weather::calm());
        stage.pulled(9).await;
        assert!(MEMBERS.iter().all(|it| served(&stage.world, it) == 3));
        assert!(stage.parallelism.most.load(Ordering::Relaxed) >= 1);
        log = stage.world.log().fingerprint();
    });
    log
}

#[test]
fn ipj_parallelism_cap() {
    let stories = in_parallel(&seeds(STORIES), tell);
    let broken: Vec<_> = stories
        .iter()
        .filter_map(|it| Some(format!("FLEET_SEED={}: {}", it.0, it.1.as_ref().err()?)))
        .collect();
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn a_story_of_downloads_is_a_function_of_its_seed() {
    assert_eq!(tell(REPEATED), tell(REPEATED));
}

/// A cluster that is to give its slots away while its downloads never end.
fn exclude_a_busy_member(rule: Rule) {
    play_images(async |stage| {
        ignore_exposure(&stage.world, rule);
        stage.place(&policy(|_| {}));
        stage.pull("stuck", 2, |_| {});
        stage.until("two clusters pull", |it| it.pulling().iter().sum::<u64>() == 2).await;
        let busy = MEMBERS[stage.pulling().iter().position(|it| *it > 0).unwrap()];
        stage.place(&policy(|it| it["clusters"] = json!({"exclude": [busy]})));
        stage.pass(120).await;
        assert_eq!(stage.pulling().iter().sum::<u64>(), 2);
    });
}

/// The rule has teeth: a hub that does not count downloads which still run is caught.
#[test]
fn a_ledger_without_exposure_is_caught_by_its_downloads() {
    caught(|| exclude_a_busy_member(Rule::Kept)).unwrap();
    let why = caught(|| exclude_a_busy_member(Rule::Ignored)).unwrap_err();
    assert!(why.contains("nodes download at a time"), "{why}");
}
