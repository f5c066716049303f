//! At rest nothing is written.

use serde_json::json;
use sim::{faults::Direction, world::Process};

use crate::kit::{HUB, MEMBERS, agent_of, play, policy, rolling};

#[test]
fn ha_4_a_hub_that_restarts_at_rest_writes_nothing() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 10, |_| {});
        stage.rests(10, 0).await;
        stage.pass(120).await;
        let (before, binding) = (stage.versions(), stage.binding());
        stage.hub.crash();
        stage.pass(300).await;
        assert_eq!(stage.binding(), binding);
        assert_eq!((stage.hub.starts(), stage.versions()), (2, before));
        // It has not merely fallen asleep.
        stage.apply("v1", 12, |_| {});
        stage.rests(12, 0).await;
    });
}

#[test]
fn ha_2_a_new_object_is_not_placed_as_though_members_not_heard_yet_were_not_there() {
    // At several moments after a restart: the members are not heard all at once.
    for seconds in [0, 1, 3, 6, 9] {
        play(async |stage| {
            stage.place(&policy(|_| {}));
            stage.pass(60).await;
            stage.hub.crash();
            stage.agents.values().for_each(Process::crash);
            stage.pass(seconds).await;
            stage.apply("v1", 10, |_| {});
            stage.rests(10, 0).await;
            assert_eq!(stage.sorted_replicas(), [3, 3, 4], "{seconds} s after the restart");
        });
    }
}

#[test]
fn ha_2_a_member_that_stays_silent_after_a_restart_is_not_waited_for_without_end() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.pass(60).await;
        stage.world.link(&agent_of("member-2"), HUB).cut(Direction::BOTH);
        stage.hub.crash();
        stage.apply("v1", 10, |_| {});
        stage.rests(10, 0).await;
        assert_eq!((stage.replicas(), stage.state("member-2")), (vec![5, 0, 5], "Offline".to_owned()));
    });
}

#[test]
fn a_release_that_rests_on_its_partition_writes_nothing() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 10, |spec| rolling(spec, json!({"maxUnavailable": 2})));
        stage.rests(10, 0).await;
        stage.apply("v2", 10, |spec| rolling(spec, json!({"maxUnavailable": 2, "partition": "50%"})));
        stage.rests(10, 5).await;
        stage.pass(120).await;
        let before = stage.versions();
        stage.pass(1_200).await;
        stage.hub.crash();
        stage.pass(300).await;
        assert_eq!(stage.versions(), before);
    });
}

#[test]
fn an_idle_fleet_asks_little_of_the_hub() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 10, |_| {});
        stage.rests(10, 0).await;
        stage.pass(120).await;
        let count = || stage.world.cluster("hub").server().version();
        let before = count();
        stage.pass(600).await;
        // Leases of three agents, renewed about every ten seconds, and nothing else.
        let writes = count() - before;
        assert!(writes <= 3 * 600 / 7, "{writes} writes in ten minutes");
        assert!(MEMBERS.iter().all(|it| !agent_of(it).is_empty() && stage.state(it) == "Ready"));
    });
}
