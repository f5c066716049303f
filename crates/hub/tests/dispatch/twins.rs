//! What users do in one cluster, done to the fleet: the twins FLT-01 to FLT-09, with the numbers that one cluster would show.

use http::Method;
use serde_json::{Value, json};

use crate::kit::{HUB, MEMBERS, Stage, WEB, all_pods, play, policy, rolling};

/// A condition that pods wait for and that the test gives them.
const GATE: &str = "shop.example.com/well";

impl Stage {
    /// Pods of every member that carry the new image, in falling order.
    fn updated(&self) -> Vec<usize> {
        let pods = all_pods(&self.world);
        let of = |member: &&str| pods.iter().filter(|it| it.cluster == *member && it.image == "v2").count();
        let mut counts: Vec<usize> = MEMBERS.iter().map(of).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    /// Says of a pod whether it is well.
    fn tell_of(&self, member: &str, pod: &str, is_well: bool) {
        let status = if is_well { "True" } else { "False" };
        let patch = json!({"status": {"conditions": [{"type": GATE, "status": status}]}});
        let path = format!("/api/v1/namespaces/shop/pods/{pod}/status");
        self.world.write(member, Method::PATCH, &path, &patch).unwrap();
    }

    /// Says that all pods of which nothing was said are well.
    fn tell_all_well(&self) {
        for member in MEMBERS {
            for pod in self.world.cluster(member).server().list("pods") {
                let pod = pod.value();
                let mut said = pod["status"]["conditions"].as_array().into_iter().flatten();
                let is_ours =
                    pod["metadata"]["namespace"] == "shop" && pod["metadata"]["deletionTimestamp"].is_null();
                if is_ours && !said.any(|it| it["type"] == GATE) {
                    self.tell_of(member, pod["metadata"]["name"].as_str().unwrap(), true);
                }
            }
        }
    }

    /// Waits while every new pod is told to be well.
    async fn until_well(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        self.until(what, |it| {
            it.tell_all_well();
            condition(it)
        })
        .await;
    }
}

#[test]
fn flt_01_the_three_replicas_of_the_document_are_one_in_each_cluster() {
    play(async |stage| {
        stage.place(&policy(|_| {}));
        stage.apply("v1", 3, |_| {});
        stage.rests(3, 0).await;
        assert_eq!(stage.replicas(), [1, 1, 1]);
    });
}

#[test]
fn flt_02_streaming_adds_one_pod_at_a_time_over_the_whole_fleet() {
    play(async |stage| {
        let streamed = |spec: &mut Value| {
            spec["minReadySeconds"] = json!(60);
            spec["scaleStrategy"] = json!({"maxUnavailable": 1});
        };
        stage.place(&policy(|_| {}));
        stage.apply("v1", 10, streamed);
        stage.rests(10, 0).await;
        assert_eq!(stage.sorted_replicas(), [3, 3, 4]);
        // The twelfth may come when the eleventh has been ready for a minute.
        stage.limits.set(10, 11, 0);
        stage.apply("v1", 12, streamed);
        stage.until("the first of two is ready", |it| it.ready_of("v1") == 11).await;
        stage.pass(55).await;
        stage.limits.set(11, 12, 0);
        stage.rests(12, 0).await;
        assert_eq!(stage.replicas(), [4, 4, 4]);
    });
}

/// Ten pods that wait for the test's word, one of which is not well; another one, elsewhere, is to be deleted.
async fn one_down_and_one_named(stage: &Stage, unavailable: u64) -> (String, String) {
    let fields = json!({"maxUnavailable": unavailable, "maxSurge": 1});
    let gated = |spec: &mut Value| {
        rolling(spec, fields.clone());
        spec["template"]["spec"]["readinessGates"] = json!([{"conditionType": GATE}]);
    };
    stage.place(&policy(|_| {}));
    stage.apply("v1", 10, gated);
    stage.until_well("ten pods are ready", |it| it.ready_of("v1") == 10).await;
    stage.rests(10, 0).await;
    let pods = all_pods(&stage.world);
    let in_member = |member: &str| pods.iter().find(|it| it.cluster == member).unwrap().name.clone();
    let (down, named) = (in_member("member-1"), in_member("member-2"));
    stage.tell_of("member-1", &down, false);
    stage.until("the hub knows that one is down", |it| it.web()["status"]["availableReplicas"] == 9).await;
    let patch = json!({"spec": {"scaleStrategy": {"podsToDelete": [format!("member-2/{named}")]}}});
    // One is down by itself: what we take down comes on top of it, and stays within the budget.
    stage.limits.set(10 - unavailable, 11, 0);
    stage.world.write(HUB, Method::PATCH, WEB, &patch).unwrap();
    (down, named)
}

fn is_there(stage: &Stage, name: &str) -> bool {
    all_pods(&stage.world).iter().any(|it| it.name == name)
}

#[test]
fn flt_04_a_named_pod_waits_for_its_replacement_while_the_budget_is_used_up_elsewhere() {
    play(async |stage| {
        let (down, named) = one_down_and_one_named(&stage, 1).await;
        stage.until("there is one pod more", |it| all_pods(&it.world).len() == 11).await;
        stage.pass(120).await;
        assert!(is_there(&stage, &named), "nothing says yet that its replacement is well");
        stage.until_well("it is gone", |it| !is_there(it, &named)).await;
        stage.until_well("ten pods are left", |it| all_pods(&it.world).len() == 10).await;
        assert!(is_there(&stage, &down), "only the named one goes");
        assert_eq!(stage.sorted_replicas(), [3, 3, 4]);
    });
}

#[test]
fn flt_04_a_named_pod_goes_at_once_where_the_budget_lets_it() {
    play(async |stage| {
        let (_, named) = one_down_and_one_named(&stage, 2).await;
        stage.until("it is gone, though no new pod is well", |it| !is_there(it, &named)).await;
        stage.until_well("nine of ten are ready again", |it| it.ready_of("v1") == 9).await;
        assert_eq!(stage.sorted_replicas(), [3, 3, 4]);
    });
}

#[test]
fn flt_04_a_pod_that_is_down_goes_at_once_when_it_is_the_named_one() {
    play(async |stage| {
        let (down, _) = one_down_and_one_named(&stage, 1).await;
        let patch = json!({"spec": {"scaleStrategy": {"podsToDelete": [format!("member-1/{down}")]}}});
        stage.world.write(HUB, Method::PATCH, WEB, &patch).unwrap();
        stage.until("it is gone, though no new pod is well", |it| !is_there(it, &down)).await;
        stage.until_well("all ten are ready", |it| it.ready_of("v1") == 10).await;
    });
}

/// Steps of a partition, and how many pods of each cluster are then new, most first.
fn updates_by_partition(replicas: u32, unavailable: u64, steps: &[(u32, [usize; 3])]) {
    play(async |stage| {
        let fields = |partition: u32| json!({"maxUnavailable": unavailable, "partition": partition});
        stage.place(&policy(|_| {}));
        stage.apply("v1", replicas, |spec| rolling(spec, fields(0)));
        stage.rests(replicas as usize, 0).await;
        for (partition, updated) in steps {
            let due = replicas - partition;
            stage.limits.set(u64::from(replicas) - unavailable, replicas.into(), due.into());
            stage.apply("v2", replicas, |spec| rolling(spec, fields(*partition)));
            stage.rests(replicas as usize, due as usize).await;
            assert_eq!(stage.updated(), updated, "partition {partition}");
            assert_eq!(stage.web()["status"]["expectedUpdatedReplicas"], due);
        }
    });
}

#[test]
fn flt_07_a_partition_of_two_in_four_is_two_new_pods() {
    updates_by_partition(4, 1, &[(2, [1, 1, 0]), (0, [2, 1, 1])]);
}

#[test]
fn flt_07_a_hundred_pods_go_in_five_batches() {
    let steps =
        [(80, [7, 7, 6]), (60, [14, 13, 13]), (40, [20, 20, 20]), (20, [27, 27, 26]), (0, [34, 33, 33])];
    updates_by_partition(100, 20, &steps);
}

#[test]
fn flt_09_pods_added_while_a_release_is_paused_follow_its_partition() {
    play(async |stage| {
        let fields = |paused: bool| json!({"maxUnavailable": 1, "partition": 5, "paused": paused});
        stage.place(&policy(|_| {}));
        stage.apply("v1", 10, |spec| rolling(spec, fields(false)));
        stage.rests(10, 0).await;
        stage.apply("v2", 10, |spec| rolling(spec, fields(false)));
        stage.until("some pods are new", |it| it.ready_of("v2") >= 2).await;
        stage.apply("v2", 10, |spec| rolling(spec, fields(true)));
        stage.pass(120).await;
        let kept: Vec<(String, String)> =
            all_pods(&stage.world).into_iter().map(|it| (it.name, it.image)).collect();
        let new = kept.iter().filter(|it| it.1 == "v2").count();
        assert!((2..5).contains(&new), "{new} were new when it was paused");
        stage.limits.set(10, 14, new as u64 + 4);
        stage.apply("v2", 14, |spec| rolling(spec, fields(true)));
        stage.rests(14, new + 4).await;
        stage.pass(120).await;
        assert_eq!(stage.sorted_replicas(), [4, 5, 5]);
        let pods = all_pods(&stage.world);
        let is_kept =
            |(name, image): &(String, String)| pods.iter().any(|it| it.name == *name && it.image == *image);
        assert!(kept.iter().all(is_kept), "no pod that was there has changed");
    });
}
