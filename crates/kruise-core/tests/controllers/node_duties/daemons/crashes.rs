//! Daemons that are killed right after each of their writes.

use sim::{images::Ending, nodes::runtime::Did};

use super::*;

/// One job, with the daemon of the first node killed after its `k`-th write. Gives how many writes there were.
fn download(k: Option<u64>) -> u64 {
    cluster(7, Weather::calm()).run(async |world| {
        let registry = world.registry("docker.io").slow(secs(20));
        let crew = start(&world).await;
        let daemon = &crew.daemons[0];
        let before = daemon.writes();
        if let Some(k) = k {
            daemon.crash_after_writes(k);
        }
        make_job(&world, "job", "shop/web:1", json!({"parallelism": 1}));
        let status = end_of_job(&world, "job", 600).await;
        world.pass(secs(60)).await;
        assert_eq!(counts(&status), (3, 0), "killed after {k:?}: {status}");
        assert_eq!(registry.done(), 3, "killed after {k:?}: {:?}", registry.downloads());
        assert_eq!(registry.most_at_once(), 1, "killed after {k:?}: {:?}", registry.downloads());
        let refused =
            registry.downloads().into_iter().find(|it| matches!(it.end, Some((_, Ending::Refused(_)))));
        assert_eq!(refused, None);
        assert_eq!(daemon.starts(), 1 + u64::from(k.is_some()));
        daemon.writes() - before
    })
}

#[test]
fn a_daemon_killed_after_any_write_of_a_download_ends_it_once() {
    let writes = download(None);
    assert!(writes >= 2, "beginning and end are written down: {writes}");
    for k in 1..=writes {
        download(Some(k));
    }
}

/// One request, with the daemon of the pod's node killed after its `k`-th write. Gives how many writes there were.
fn recreate(k: Option<u64>) -> u64 {
    cluster(8, Weather::calm()).run(async |world| {
        let crew = start(&world).await;
        let before = run_pod(&world).await;
        world.pass(secs(30)).await;
        let node = before["spec"]["nodeName"].as_str().unwrap();
        let place = (1..=NODES).position(|it| node == format!("node-{it}")).unwrap();
        let daemon = &crew.daemons[place];
        let written = daemon.writes();
        if let Some(k) = k {
            daemon.crash_after_writes(k);
        }
        ask_for_recreate(&world, json!({"strategy": {"unreadyGracePeriodSeconds": 5}}));
        let status = end_of_request(&world, 300).await;
        world.pass(secs(60)).await;
        assert_eq!(
            status["containerRecreateStates"][0]["phase"], "Succeeded",
            "killed after {k:?}: {status}"
        );
        let acts = acts(&world);
        let stops = acts.iter().filter(|it| matches!(it.what, Did::Stop(_))).count();
        assert_eq!(stops, 1, "killed after {k:?}: {acts:?}");
        let hook = acts.iter().position(|it| it.what == Did::ExecEnded(0));
        let stop = acts.iter().position(|it| matches!(it.what, Did::Stop(_)));
        assert!(hook < stop && hook.is_some(), "killed after {k:?}: {acts:?}");
        let after = the_pod(&world);
        assert_eq!(container(&after, "app")["restartCount"], 1, "killed after {k:?}");
        assert_eq!(container(&after, "log"), container(&before, "log"), "killed after {k:?}");
        assert!(is_ready(&after), "killed after {k:?}: nothing is left not ready: {after}");
        assert_eq!(daemon.starts(), 1 + u64::from(k.is_some()));
        daemon.writes() - written
    })
}

#[test]
fn a_daemon_killed_after_any_write_of_a_recreate_stops_the_container_once() {
    let writes = recreate(None);
    assert!(writes >= 4, "beginning, states and end are written down: {writes}");
    for k in 1..=writes {
        recreate(Some(k));
    }
}
