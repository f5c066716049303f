//! Members that are not heard.

use serde_json::json;
use sim::faults::Direction;

use crate::kit::{FLEET, HUB, Stage, agent_of, play, policy, rolling};

#[test]
fn state_4_a_silent_member_is_left_alone_and_the_status_says_what_is_not_known() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 10, |spec| rolling(spec, json!({"maxUnavailable": 2})));
        stage.rests(10, 0).await;
        let before = stage.replicas();
        stage.world.link(&agent_of("member-2"), HUB).cut(Direction::BOTH);
        stage.until("it is noticed", |it| it.state("member-2") == "Offline").await;
        stage
            .until("its pods are not shown as ready", |it| {
                let status = it.web()["status"].clone();
                status["readyReplicas"] == 10 - before[1] && status["replicas"] == 10
            })
            .await;
        stage
            .until("they are shown as unknown", |it| it.binding()["status"]["unknownReplicas"] == before[1])
            .await;
        let heard = |it: &Stage| {
            let member = it.read(HUB, &format!("{FLEET}/memberclusters/member-2")).unwrap_or_default();
            member["status"]["lastReportTime"].as_str().map(str::to_owned)
        };
        let since = heard(&stage);
        assert!(since.is_some(), "it is said when it was last heard");
        // A scale-out lands elsewhere.
        let seq = stage.assignment("member-2").unwrap()["spec"]["seq"].clone();
        stage.apply("v1", 13, |spec| rolling(spec, json!({"maxUnavailable": 2})));
        stage.until("three more run", |it| it.replicas().iter().sum::<u64>() == 13).await;
        assert_eq!(
            (stage.replicas()[1], &stage.assignment("member-2").unwrap()["spec"]["seq"]),
            (before[1], &seq)
        );
        // And back: it ends exact.
        stage.world.link(&agent_of("member-2"), HUB).heal();
        stage.rests(13, 0).await;
        assert_eq!(stage.replicas()[1], before[1]);
        stage.until("it is heard", |it| it.state("member-2") == "Ready" && heard(it).is_none()).await;
    });
}

#[test]
fn bud_6_a_link_that_is_cut_during_a_release_holds_its_budget_and_ends_exact() {
    play(async |stage| {
        stage.place(&policy(|it| it["rollout"] = json!({"unknownCountsAs": "LastReported"})));
        stage.apply("v1", 10, |spec| rolling(spec, json!({"maxUnavailable": 3})));
        stage.rests(10, 0).await;
        stage.limits.set(7, 10, 10);
        stage.apply("v2", 10, |spec| rolling(spec, json!({"maxUnavailable": 3})));
        stage.until("it has begun", |it| it.ready_of("v2") >= 1).await;
        stage.world.link(&agent_of("member-1"), HUB).cut(Direction::BOTH);
        stage.until("it is noticed", |it| it.state("member-1") == "Offline").await;
        stage.apply("v2", 10, |spec| rolling(spec, json!({"maxUnavailable": 2})));
        stage.pass(300).await;
        assert_ne!(
            stage.web()["status"]["observedGeneration"],
            stage.web()["metadata"]["generation"],
            "ST-2"
        );
        stage.world.link(&agent_of("member-1"), HUB).heal();
        stage.rests(10, 10).await;
    });
}
