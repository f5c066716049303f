//! Downloads and recreate requests in bad weather, with everybody dying now and then.

use sim::nodes::runtime::Did;

use super::*;

/// Lets everybody die after a few writes, over and over for a while, and then clears the sky.
async fn storm(world: &World, crew: &Crew) {
    for round in 0..8_u64 {
        crew.manager.crash_after_writes(1 + round % 4);
        for (place, daemon) in crew.daemons.iter().enumerate() {
            daemon.crash_after_writes(1 + (round + place as u64) % 3);
        }
        world.pass(secs(25)).await;
    }
    world.link(AGENT, CLUSTER).set_weather(Weather::calm());
    for node in 1..=NODES {
        world.link(&daemon_of(&format!("node-{node}")), CLUSTER).set_weather(Weather::calm());
    }
}

#[test]
fn every_node_gets_the_image_once_whatever_the_weather() {
    for seed in 0..6 {
        cluster(seed, Weather::rough()).run(async |world| {
            let registry = world.registry("docker.io").slow(secs(15));
            let crew = start(&world).await;
            make_job(&world, "job", "shop/web:1", json!({"parallelism": 2}));
            storm(&world, &crew).await;
            let status = end_of_job(&world, "job", 1_800).await;
            assert_eq!(counts(&status), (3, 0), "{status}");
            assert_eq!(registry.done(), 3, "{:?}", registry.downloads());
            assert!(registry.most_at_once() <= 2, "{:?}", registry.downloads());
            assert!(crew.manager.starts() + crew.daemons.iter().map(Process::starts).sum::<u64>() > 6);
        });
    }
}

#[test]
fn a_container_is_recreated_once_whatever_the_weather() {
    for seed in 0..6 {
        cluster(seed, Weather::rough()).run(async |world| {
            let crew = start(&world).await;
            let before = run_pod(&world).await;
            ask_for_recreate(&world, json!({"strategy": {"unreadyGracePeriodSeconds": 5}}));
            storm(&world, &crew).await;
            let status = end_of_request(&world, 1_800).await;
            assert_eq!(status["containerRecreateStates"][0]["phase"], "Succeeded", "{status}");
            world.eventually("the pod is back", secs(1_800), |it| is_ready(&the_pod(it))).await;
            let (after, acts) = (the_pod(&world), acts(&world));
            assert_eq!(container(&after, "app")["restartCount"], 1, "{acts:?}");
            assert_eq!(container(&after, "log"), container(&before, "log"));
            assert_eq!(acts.iter().filter(|it| matches!(it.what, Did::Stop(_))).count(), 1, "{acts:?}");
        });
    }
}
