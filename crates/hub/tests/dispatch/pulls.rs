//! Jobs that download images over the fleet (IPJ-1 to IPJ-6).

use std::sync::atomic::Ordering;

use http::Method;
use serde_json::{Value, json};
use sim::faults::Direction;

use crate::kit::{
    FLEET, HUB, MEMBERS, Stage, agent_of,
    jobs::{JOB, NODES, policy, served},
    play_images,
};

/// Nodes of the whole fleet.
const ALL: u64 = (MEMBERS.len() * NODES.len()) as u64;

fn most(stage: &Stage) -> u64 {
    stage.parallelism.most.load(Ordering::Relaxed)
}

fn is_forgotten(stage: &Stage) -> bool {
    let hub = stage.world.cluster(HUB).server().clone();
    stage.job().is_null()
        && hub.count("assignments.fleet.kruise.io") == 0
        && hub.count("fleetbindings.fleet.kruise.io") == 0
}

fn copies(stage: &Stage) -> Vec<Value> {
    MEMBERS.iter().filter_map(|it| stage.read(it, JOB)).collect()
}

#[test]
fn ipj_1_parallelism_2_over_three_clusters_never_has_more_than_2_pulling_and_serves_all() {
    play_images(async |stage| {
        stage.place(&policy(|_| {}));
        stage.pull("web", 2, |_| {});
        stage.pulled(ALL).await;
        assert_eq!(most(&stage), 2, "slots were used, and not more of them");
        let status = stage.job_status();
        for (field, value) in [("desired", ALL), ("succeeded", ALL), ("failed", 0), ("active", 0)] {
            assert_eq!(status[field], value, "{field}: {status}");
        }
        assert!(status["startTime"].is_string() && status["message"] == "job has completed", "{status}");
        // Members have no time to live of their own (IPJ-2), and are told by integers.
        for copy in copies(&stage) {
            assert!(copy["spec"]["completionPolicy"].get("ttlSecondsAfterFinished").is_none());
        }
        stage.until("the binding says so", |it| it.job_binding()["status"]["summary"] == "Ready").await;
        let job = stage.job();
        assert_eq!(job["status"]["observedGeneration"], job["metadata"]["generation"]);
        assert_eq!(job["spec"]["parallelism"], 2, "API-4");
    });
}

#[test]
fn ipj_1_more_slots_are_used_and_zero_pauses() {
    play_images(async |stage| {
        stage.place(&policy(|_| {}));
        stage.pull("web", 0, |_| {});
        stage.until("every member has looked", |it| it.job_status()["desired"] == ALL).await;
        stage.pass(60).await;
        assert_eq!(most(&stage), 0);
        stage.until("that is said", |it| it.job_binding()["status"]["summary"] == "Paused").await;
        stage.pull("web", 6, |_| {});
        stage.pulled(ALL).await;
        assert_eq!(most(&stage), 6);
    });
}

#[test]
fn ipj_1_fewer_slots_bind_at_once_and_what_runs_counts() {
    play_images(async |stage| {
        stage.place(&policy(|_| {}));
        stage.pull("web", 6, |_| {});
        stage.until("six pull", |it| it.pulling().iter().sum::<u64>() == 6).await;
        // What runs may end; nothing is begun until fewer than one run.
        stage.parallelism.limit.store(6, Ordering::Relaxed);
        let mut spec = stage.job()["spec"].clone();
        spec["parallelism"] = json!(1);
        stage.world.write(HUB, Method::PATCH, JOB, &json!({"spec": spec})).unwrap();
        stage.until("they end", |it| it.pulling().iter().sum::<u64>() <= 1).await;
        // With six slots the last three would have begun as soon as others ended, and eight were done by now.
        let done: usize = MEMBERS.iter().map(|it| served(&stage.world, it)).sum();
        assert!(done <= 7, "{done} of {ALL} nodes are served");
        stage.parallelism.limit.store(1, Ordering::Relaxed);
        stage.pulled(ALL).await;
    });
}

#[test]
fn ipj_1_a_cut_off_member_holds_its_slots_and_the_rest_goes_on_within_what_is_left() {
    play_images(async |stage| {
        stage.place(&policy(|_| {}));
        stage.pull("web", 2, |_| {});
        stage.until("two clusters pull", |it| it.pulling().iter().filter(|it| **it == 1).count() == 2).await;
        let place = stage.pulling().iter().position(|it| *it > 0).unwrap();
        let cut = MEMBERS[place];
        stage.world.link(&agent_of(cut), HUB).cut(Direction::BOTH);
        stage.until("it is noticed", |it| it.state(cut) == "Offline").await;
        let others = || MEMBERS.iter().enumerate().filter(|it| it.0 != place);
        stage
            .until("the others are served", |it| others().all(|(_, name)| served(&it.world, name) == 3))
            .await;
        stage.pass(60).await;
        let row = &stage.job_binding()["spec"]["ledger"]["clusters"][cut]["parallelism"];
        assert_eq!((&row["grant"], &row["exposure"]), (&json!(1), &json!(1)));
        assert!(stage.job_status().get("completionTime").is_none(), "not all have said their last word");
        stage.world.link(&agent_of(cut), HUB).heal();
        stage.pulled(ALL).await;
    });
}

/// Runs a job with the hub killed right after its `k`-th write. Says whether it was killed.
fn killed_after(k: u64) -> bool {
    let mut was_killed = false;
    let seen = &mut was_killed;
    play_images(async |stage| {
        stage.place(&policy(|_| {}));
        stage.pass(5).await;
        let starts = stage.hub.starts();
        stage.hub.crash_after_writes(k);
        stage.pull("web", 2, |it| it["completionPolicy"]["ttlSecondsAfterFinished"] = json!(30));
        stage.pulled(ALL).await;
        assert!(most(&stage) <= 2);
        stage.until("it is gone by itself", is_forgotten).await;
        assert!(copies(&stage).is_empty());
        *seen = stage.hub.starts() > starts;
    });
    was_killed
}

fn kill_from(first: u64) -> usize {
    (first..400).step_by(4).take_while(|it| killed_after(*it)).count()
}

// Four tests, so that they run side by side; together they kill after every single write.

#[test]
fn ha_3_a_hub_killed_after_write_1_5_9_and_so_on_never_exceeds_the_parallelism() {
    assert!((3..99).contains(&kill_from(1)));
}

#[test]
fn ha_3_a_hub_killed_after_write_2_6_10_and_so_on_never_exceeds_the_parallelism() {
    assert!((3..99).contains(&kill_from(2)));
}

#[test]
fn ha_3_a_hub_killed_after_write_3_7_11_and_so_on_never_exceeds_the_parallelism() {
    assert!((3..99).contains(&kill_from(3)));
}

#[test]
fn ha_3_a_hub_killed_after_write_4_8_12_and_so_on_never_exceeds_the_parallelism() {
    assert!((3..99).contains(&kill_from(4)));
}

#[test]
fn ha_4_a_hub_that_restarts_when_a_job_is_over_writes_nothing() {
    play_images(async |stage| {
        stage.place(&policy(|_| {}));
        stage.pull("web", 3, |_| {});
        stage.pulled(ALL).await;
        stage.pass(120).await;
        let before = stage.versions();
        stage.hub.crash();
        stage.pass(300).await;
        assert_eq!((stage.hub.starts(), stage.versions()), (2, before));
    });
}

#[test]
fn ipj_2_copies_go_by_the_hubs_time_even_where_deleted_objects_are_let_go() {
    play_images(async |stage| {
        stage.place(&policy(|it| it["deletion"] = json!("Orphan")));
        stage.pull("web", 9, |it| it["completionPolicy"]["ttlSecondsAfterFinished"] = json!(600));
        stage.pulled(ALL).await;
        stage.pass(500).await;
        assert_eq!((copies(&stage).len(), stage.job().is_null()), (3, false), "its time is not over");
        stage.until("it is gone", is_forgotten).await;
        assert!(copies(&stage).is_empty());
    });
}

#[test]
fn ipj_2_a_member_that_is_not_heard_keeps_the_job_until_its_end_is_known() {
    play_images(async |stage| {
        stage.place(&policy(|_| {}));
        stage.pull("web", 3, |it| it["completionPolicy"]["ttlSecondsAfterFinished"] = json!(10));
        stage.until("member-2 has looked", |it| it.job_status()["desired"] == ALL).await;
        stage.world.link(&agent_of("member-2"), HUB).cut(Direction::BOTH);
        stage.until("it is noticed", |it| it.state("member-2") == "Offline").await;
        stage.pass(600).await;
        assert!(!stage.job().is_null() && copies(&stage).len() == 3);
        stage.world.link(&agent_of("member-2"), HUB).heal();
        stage.until("it is gone", is_forgotten).await;
        assert!(copies(&stage).is_empty());
    });
}

#[test]
fn ipj_3_the_deadline_ends_the_job_everywhere() {
    play_images(async |stage| {
        stage.place(&policy(|_| {}));
        stage.pull("stuck", 2, |it| {
            it["completionPolicy"]["activeDeadlineSeconds"] = json!(300);
            it["pullPolicy"] = json!({"timeoutSeconds": 60});
        });
        stage.until("it is over", |it| it.job_status()["completionTime"].is_string()).await;
        let status = stage.job_status();
        assert_eq!((&status["failed"], &status["desired"]), (&json!(ALL), &json!(ALL)), "{status}");
        assert_eq!(status["message"], "job exceeds activeDeadlineSeconds");
        assert_eq!(status["failedNodes"].as_array().unwrap().len(), 9);
        assert_eq!(status["failedNodes"][0], "member-1/node-1");
        let time = |field: &str| status[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let took = time("completionTime").duration_since(time("startTime")).as_secs();
        assert!((300..330).contains(&took), "{took} s");
        stage.until("the binding says so", |it| it.job_binding()["status"]["summary"] == "Failed").await;
    });
}

#[test]
fn ipj_3_a_cluster_that_is_reached_late_gets_the_seconds_that_are_left() {
    play_images(async |stage| {
        stage.world.link(&agent_of("member-3"), HUB).cut(Direction::BOTH);
        stage.until("it is noticed", |it| it.state("member-3") == "Offline").await;
        stage.place(&policy(|_| {}));
        stage.pull("stuck", 2, |it| it["completionPolicy"]["activeDeadlineSeconds"] = json!(900));
        stage.until("the others pull", |it| it.pulling().iter().sum::<u64>() == 2).await;
        stage.pass(400).await;
        stage.world.link(&agent_of("member-3"), HUB).heal();
        stage.until("it has the job", |it| it.read("member-3", JOB).is_some()).await;
        let seconds =
            stage.read("member-3", JOB).unwrap()["spec"]["completionPolicy"]["activeDeadlineSeconds"]
                .as_u64()
                .unwrap();
        assert!((300..500).contains(&seconds), "{seconds} s");
        stage.until("it is over", |it| it.job_status()["completionTime"].is_string()).await;
        let status = stage.job_status();
        let time = |field: &str| status[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        let took = time("completionTime").duration_since(time("startTime")).as_secs();
        assert!((900..960).contains(&took), "{took} s");
    });
}

#[test]
fn ipj_4_nodes_that_fail_are_named_with_their_cluster() {
    play_images(async |stage| {
        stage.place(&policy(|_| {}));
        stage.pull("missing", 9, |it| it["selector"] = json!({"names": ["node-1", "member-2/node-3"]}));
        stage.until("it is over", |it| it.job_status()["completionTime"].is_string()).await;
        let status = stage.job_status();
        // IPJ-6: a bare name is everyone's, a qualified one a single cluster's.
        assert_eq!(
            status["failedNodes"],
            json!(["member-1/node-1", "member-2/node-1", "member-2/node-3", "member-3/node-1"]),
            "{status}"
        );
        assert_eq!((&status["desired"], &status["failed"]), (&json!(4), &json!(4)));
    });
}

#[test]
fn ipj_5_a_job_that_never_ends_serves_a_cluster_that_comes_later_and_one_that_is_over_does_not() {
    for (kind, later) in [("Never", true), ("Always", false)] {
        play_images(async |stage| {
            stage.place(&policy(|it| it["clusters"] = json!({"names": ["member-1", "member-2"]})));
            stage.pull("web", 2, |it| it["completionPolicy"]["type"] = json!(kind));
            stage.until("two clusters are served", |it| it.job_status()["succeeded"] == 6).await;
            stage.until("that is settled", |it| it.job_binding()["status"]["summary"] == "Ready").await;
            stage.place(&policy(|_| {}));
            if later {
                stage.until("the third is served too", |it| it.job_status()["succeeded"] == ALL).await;
                assert!(stage.job_status().get("completionTime").is_none());
            } else {
                stage.pass(300).await;
                assert_eq!((stage.job_status()["succeeded"].as_u64(), copies(&stage).len()), (Some(6), 2));
            }
        });
    }
}

#[test]
fn del_1_and_del_2_a_deleted_job_goes_everywhere_and_waits_for_who_is_not_heard() {
    play_images(async |stage| {
        stage.place(&policy(|_| {}));
        stage.pull("stuck", 3, |_| {});
        stage.until("some pull", |it| it.pulling().iter().sum::<u64>() == 3).await;
        stage.world.link(&agent_of("member-3"), HUB).cut(Direction::BOTH);
        stage.until("it is noticed", |it| it.state("member-3") == "Offline").await;
        stage.world.write(HUB, Method::DELETE, JOB, &Value::Null).unwrap();
        stage.until("the others obey", |it| copies(it).len() == 1).await;
        stage.pass(60).await;
        assert!(!stage.job().is_null());
        stage.world.link(&agent_of("member-3"), HUB).heal();
        stage.until("the hub has forgotten it", is_forgotten).await;
        assert!(copies(&stage).is_empty());
    });
}

#[test]
fn del_5_a_policy_that_drops_a_cluster_takes_the_copy_from_it_and_one_that_goes_takes_nothing() {
    play_images(async |stage| {
        stage.place(&policy(|_| {}));
        stage.pull("web", 3, |_| {});
        stage.pulled(ALL).await;
        stage.place(&policy(|it| it["clusters"] = json!({"exclude": ["member-2"]})));
        stage.until("its copy is gone", |it| it.read("member-2", JOB).is_none()).await;
        stage
            .until("so is its share", |it| {
                it.world.cluster(HUB).server().count("assignments.fleet.kruise.io") == 2
            })
            .await;
        let path = format!("{FLEET}/namespaces/shop/placementpolicies/all");
        stage.world.write(HUB, Method::DELETE, &path, &Value::Null).unwrap();
        stage.until("that is said", |it| it.job_binding()["status"]["summary"] == "Suspended").await;
        stage.pass(120).await;
        assert_eq!(copies(&stage).len(), 2);
    });
}

const LIST: &str = "/apis/apps.kruise.io/v1beta1/namespaces/shop/imagelistpulljobs/both";

#[test]
fn a_list_is_a_job_for_each_image_placed_as_the_list_is_and_without_a_policy_it_stays_as_it_is() {
    play_images(async |stage| {
        let list = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImageListPullJob",
            "metadata": {"name": "both", "namespace": "shop"},
            "spec": {"images": ["web:1", "api:1"], "parallelism": 1, "completionPolicy": {"type": "Always"}},
        });
        stage.world.write(HUB, Method::POST, LIST.trim_end_matches("/both"), &list).unwrap();
        stage.pass(60).await;
        let jobs = |it: &Stage, of: &str| it.world.cluster(of).server().count("imagepulljobs.apps.kruise.io");
        assert_eq!(jobs(&stage, HUB), 0);
        // One download of each image at a time, as in one cluster.
        stage.parallelism.limit.store(2, Ordering::Relaxed);
        stage.place(&policy(|it| it["targets"] = json!([{"kind": "ImageListPullJob", "name": "both"}])));
        stage
            .until("both images are everywhere", |it| {
                let status = it.read(HUB, LIST).unwrap_or_default()["status"].clone();
                status["completionTime"].is_string() && status["succeeded"] == 2 && status["desired"] == 2
            })
            .await;
        assert_eq!((jobs(&stage, HUB), most(&stage)), (2, 2));
        assert!(MEMBERS.iter().all(|it| jobs(&stage, it) == 2));
        stage.world.write(HUB, Method::DELETE, LIST, &Value::Null).unwrap();
        stage
            .until("all of it is gone", |it| {
                jobs(it, HUB) == 0 && MEMBERS.iter().all(|member| jobs(it, member) == 0)
            })
            .await;
    });
}
