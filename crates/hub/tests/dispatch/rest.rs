//! At rest nothing is written.

use http::Method;
use serde_json::{Value, json};
use sim::{World, faults::Direction, world::Process};

use crate::kit::{HUB, MEMBERS, WEB, agent_of, play, policy, rolling};

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
fn answers_of_clusters_that_come_together_are_saved_together() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 9, |_| {});
        stage.rests(9, 0).await;
        stage.pass(60).await;
        let saved = || {
            let lines = stage.world.log().last(usize::MAX);
            lines.iter().filter(|it| it.contains(" PATCH fleetbindings/shop/cloneset.web 200")).count()
        };
        let before = saved();
        stage.apply("v1", 12, |_| {});
        stage.rests(12, 0).await;
        stage.pass(5).await;
        // The plan; three clusters that acknowledge it within a moment of each other; and their pods, which become ready one by
        // one. Without a rest after each round it is saved six times here.
        let saves = saved() - before;
        assert!((1..=5).contains(&saves), "the ledger was saved {saves} times");
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

#[test]
fn proto_1_an_agent_has_one_watch_reads_nothing_of_others_and_is_quiet_when_idle() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 10, |_| {});
        stage.rests(10, 0).await;
        stage.pass(120).await;
        /// Requests of an agent to the hub since a moment: verb and what it is about.
        fn asked(world: &World, member: &str, since: f64) -> Vec<(String, String)> {
            let of_agent = format!(" {HUB} {} ", agent_of(member));
            let part = |line: &str| {
                let (at, rest) = line.split_once(&of_agent)?;
                let (verb, rest) = rest.split_once(' ')?;
                let is_later = at.trim().parse::<f64>().unwrap() > since;
                is_later.then(|| (verb.to_owned(), rest.split(' ').next().unwrap().to_owned()))
            };
            world.log().last(usize::MAX).iter().filter_map(|it| part(it)).collect()
        }
        let last = stage.world.log().last(1).concat();
        let now: f64 = last.split_whitespace().next().unwrap().parse().unwrap();
        for member in MEMBERS {
            let own = format!("assignments/fleet-{member}");
            let places = [
                &own,
                &format!("leases/fleet-{member}/"),
                &format!("events/fleet-{member}"),
                "fleetrevisions/fleet-content/",
                &format!("memberclusters/{member}"),
            ]
            .map(str::to_owned);
            let requests = asked(&stage.world, member, 0.0);
            assert!(requests.contains(&("WATCH".to_owned(), own.clone())), "{requests:?}");
            for (verb, target) in &requests {
                let is_own = places.iter().any(|it| target.starts_with(it));
                assert!(is_own && (verb != "WATCH" || *target == own), "{member} asks {verb} {target}");
            }
        }
        stage.pass(600).await;
        for member in MEMBERS {
            let requests = asked(&stage.world, member, now).len();
            assert!((40..=120).contains(&requests), "{requests} requests of {member} in ten minutes");
        }
    });
}

/// Section 20: what graphs are drawn from.
#[test]
fn metrics_follow_a_release_a_drain_and_the_end_of_an_object() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 10, |spec| rolling(spec, json!({"maxUnavailable": 2, "maxSurge": 1})));
        stage.rests(10, 0).await;
        let granted = |member: &str| {
            stage.measure(&format!("replicas{{cluster=\"{member}\",kind=\"granted\"}}")).unwrap_or(0.0)
        };
        let all = || MEMBERS.iter().map(|it| granted(it)).sum::<f64>();
        assert_eq!(all(), 10.0);
        assert_eq!(stage.measure("budget_limit{type=\"unavailable\"}"), Some(2.0));
        assert_eq!(stage.measure("budget_limit{type=\"surge\"}"), Some(1.0));
        assert!(stage.measure("ledger_bytes").is_some_and(|it| it > 500.0));
        assert!(stage.measure("dispatch_latency_seconds_count").is_some_and(|it| it >= 3.0));

        stage.apply("v2", 10, |spec| rolling(spec, json!({"maxUnavailable": 2, "maxSurge": 1})));
        stage
            .until("pods are down for it", |it| {
                it.measure("budget_used{type=\"unavailable\"}") > Some(0.0)
                    && it.measure("partition_error") > Some(0.0)
            })
            .await;
        stage.rests(10, 10).await;
        stage
            .until("nothing is used", |it| {
                it.measure("budget_used{type=\"unavailable\"}") == Some(0.0)
                    && it.measure("budget_used{type=\"surge\"}") == Some(0.0)
                    && it.measure("partition_error") == Some(0.0)
            })
            .await;

        stage.change_member("member-1", &json!({"drain": true}));
        stage.until("it is empty", |it| it.replicas()[0] == 0).await;
        stage.rests(10, 10).await;
        let moved = stage.measure("moves_total{why=\"drain\"}");
        assert!(moved >= Some(3.0), "{moved:?}");
        assert_eq!(all(), 10.0);

        let link = stage.world.link(&agent_of("member-2"), HUB);
        link.cut(Direction::BOTH);
        stage.until("it is not heard", |it| it.state("member-2") == "Offline").await;
        let of_silent =
            |kind: &str| stage.measure(&format!("replicas{{cluster=\"member-2\",kind=\"{kind}\"}}"));
        stage.until("what it runs is not known", |_| of_silent("unknown") > Some(0.0)).await;
        assert_eq!(of_silent("ready"), Some(0.0));
        let age = stage.measure("report_age_seconds{cluster=\"member-2\"}");
        assert!(age >= Some(40.0), "{age:?}");
        link.heal();
        stage.until("it is back", |it| it.state("member-2") == "Ready").await;

        stage.world.write(HUB, Method::DELETE, WEB, &Value::Null).unwrap();
        stage.until("nothing is left", |_| all() == 0.0).await;
        assert_eq!(stage.measure("ledger_bytes"), Some(0.0));
        assert_eq!(stage.measure("budget_violation_total"), Some(0.0));
    });
}
