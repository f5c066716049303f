//! Recreate requests, from the request to the container.

use std::time::Duration;

use sim::nodes::runtime::{Did, Ran};

use super::*;

fn words(acts: &[Act]) -> Vec<(&str, &Did)> {
    acts.iter().map(|it| (it.container.as_str(), &it.what)).collect()
}

fn sleep() -> Did {
    Did::Exec(vec!["sleep".into(), "3".into()])
}

#[test]
fn a_container_is_recreated_after_its_hook_and_the_others_are_left_alone() {
    cluster(1, Weather::calm()).run(async |world| {
        start(&world).await;
        let before = run_pod(&world).await;
        ask_for_recreate(&world, json!({}));
        let status = end_of_request(&world, 120).await;
        assert_eq!(status["phase"], "Completed", "{status}");
        assert_eq!(status["containerRecreateStates"][0]["phase"], "Succeeded", "{status}");

        let acts = acts(&world);
        let stop = Did::Stop(Duration::from_secs(27));
        let expected = [sleep(), Did::ExecEnded(0), stop, Did::Stopped];
        assert_eq!(words(&acts), expected.iter().map(|it| ("app", it)).collect::<Vec<_>>());
        let after = the_pod(&world);
        assert_eq!(container(&after, "app")["restartCount"], 1);
        assert_ne!(container(&after, "app")["containerID"], container(&before, "app")["containerID"]);
        assert_eq!(container(&after, "log"), container(&before, "log"));
        assert!(is_ready(&after), "{after}");
    });
}

#[test]
fn a_pod_leaves_rotation_before_its_container_stops_and_returns_afterwards() {
    cluster(2, Weather::calm()).run(async |world| {
        start(&world).await;
        run_pod(&world).await;
        ask_for_recreate(&world, json!({"strategy": {"unreadyGracePeriodSeconds": 10}}));
        world.eventually("the pod is out of rotation", secs(5), |it| !is_ready(&the_pod(it))).await;
        world.pass(secs(8)).await;
        assert!(acts(&world).is_empty(), "traffic drains");
        let status = end_of_request(&world, 120).await;
        assert_eq!(status["containerRecreateStates"][0]["phase"], "Succeeded", "{status}");
        world.eventually("the pod is back", secs(10), |it| is_ready(&the_pod(it))).await;
        assert_eq!(container(&the_pod(&world), "app")["restartCount"], 1);
    });
}

#[test]
fn a_hook_that_fails_or_hangs_does_not_keep_the_container_from_being_recreated() {
    for (takes, code, stop) in [(1, 1, 29), (100, 0, 2)] {
        cluster(3, Weather::calm()).run(async |world| {
            world.set_programs(CLUSTER, move |_| Ran { takes: secs(takes), code, ..Ran::default() });
            start(&world).await;
            run_pod(&world).await;
            ask_for_recreate(&world, json!({}));
            let status = end_of_request(&world, 120).await;
            assert_eq!(status["containerRecreateStates"][0]["phase"], "Succeeded", "{status}");
            let stops: Vec<_> =
                acts(&world).into_iter().filter(|it| matches!(it.what, Did::Stop(_))).collect();
            assert_eq!(words(&stops), [("app", &Did::Stop(secs(stop)))]);
            world.pass(secs(10)).await;
            let events = read(&world, "/api/v1/namespaces/default/events").unwrap().to_string();
            assert!(events.contains("FailedPreStopHook"), "{events}");
        });
    }
}
