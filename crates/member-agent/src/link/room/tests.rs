use kruise_core::{
    api::fleet::assignment::{CapacityAnswer, CapacityQuestion},
    runtime::cache::{node::NodeLite, pod::PodLite},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    fit::{Fit, Turnover, Usage, fit, told, turnover},
    shape::Shape,
};

fn node(name: &str, cpu: &str, memory: &str, pods: u32) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"zone": "a", "cores": "8"}},
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": pods.to_string()},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn pod(node: Option<&str>, cpu: &str) -> Value {
    json!({
        "metadata": {"name": "p"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Running"},
    })
}

fn nodes(all: &[Value]) -> Vec<NodeLite> {
    all.iter().map(|it| serde_json::from_value(it.clone()).unwrap()).collect()
}

fn pods(all: &[Value]) -> Vec<PodLite> {
    all.iter().map(|it| serde_json::from_value(it.clone()).unwrap()).collect()
}

fn shape(spec: Value) -> Shape {
    Shape::read(&spec).unwrap()
}

fn count(spec: Value, cluster: &[Value], running: &[Value]) -> Fit {
    fit(&shape(spec), &nodes(cluster), &Usage::of(&pods(running)))
}

fn asking(cpu: &str) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]})
}

#[test]
fn proto_8_room_is_counted_node_by_node_and_by_the_scarcest_resource() {
    let cluster = [node("a", "4", "8Gi", 110), node("b", "1500m", "8Gi", 110)];
    assert_eq!(
        count(asking("1"), &cluster, &[]),
        Fit { now: 5, empty: 5 },
        "not 5.5: pods are not cut in two"
    );
    assert_eq!(count(asking("1"), &cluster, &[pod(Some("a"), "2500m")]), Fit { now: 2, empty: 5 });
    let large = json!({"containers": [{"resources": {"requests": {"cpu": "100m", "memory": "3Gi"}}}]});
    assert_eq!(count(large, &cluster, &[]).now, 4);
    assert_eq!(
        count(json!({}), &[node("a", "4", "8Gi", 3)], &[pod(Some("a"), "1")]).now,
        2,
        "places for pods"
    );
    let rare = json!({"containers": [{"resources": {"requests": {"example.com/gpu": "1"}}}]});
    assert_eq!(count(rare, &cluster, &[]).now, 0, "what a node does not have it has nothing of");
    // More was promised than there is.
    assert_eq!(count(asking("1"), &cluster, &[pod(Some("a"), "9"), pod(Some("b"), "9")]).now, 0);
}

#[test]
fn proto_8_pods_that_are_over_or_nowhere_take_up_nothing_and_those_on_their_way_out_do() {
    let cluster = [node("a", "4", "8Gi", 110)];
    let mut over = pod(Some("a"), "1");
    over["status"]["phase"] = json!("Succeeded");
    let mut leaving = pod(Some("a"), "1");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert_eq!(count(asking("1"), &cluster, &[over, leaving, pod(None, "1"), pod(Some(""), "1")]).now, 3);
}

#[test]
fn proto_8_sidecars_init_containers_limits_and_overhead_are_requests_too() {
    let cluster = [node("a", "6", "8Gi", 110)];
    let of = |cpu: &str| json!({"resources": {"limits": {"cpu": cpu}}});
    let mut spec = json!({"containers": [of("1")], "initContainers": [of("2")], "overhead": {"cpu": "1"}});
    assert_eq!(count(spec.clone(), &cluster, &[]).now, 2, "2 while it starts, and 1 for the sandbox");
    spec["initContainers"][0]["restartPolicy"] = json!("Always");
    assert_eq!(count(spec, &cluster, &[]).now, 1, "1 + 2 + 1 for good");
}

#[test]
fn proto_8_only_nodes_that_would_take_the_pods_count() {
    let plain = node("a", "4", "8Gi", 110);
    let with = |change: fn(&mut Value)| {
        let mut node = plain.clone();
        change(&mut node);
        node
    };
    let closed = with(|it| it["spec"]["unschedulable"] = json!(true));
    let tainted =
        with(|it| it["spec"]["taints"] = json!([{"key": "team", "value": "x", "effect": "NoSchedule"}]));
    let wished = with(|it| it["spec"]["taints"] = json!([{"key": "team", "effect": "PreferNoSchedule"}]));
    let down = with(|it| it["status"]["conditions"][0]["status"] = json!("Unknown"));
    for (node, room) in [(&plain, 4), (&closed, 0), (&tainted, 0), (&wished, 4), (&down, 0)] {
        assert_eq!(count(asking("1"), std::slice::from_ref(node), &[]).now, room, "{node}");
    }
    let tolerating = |toleration: Value| {
        let mut spec = asking("1");
        spec["tolerations"] = json!([toleration]);
        spec
    };
    let rows = [
        (json!({"key": "team", "operator": "Exists"}), 4),
        (json!({"key": "team", "value": "x", "effect": "NoSchedule"}), 4),
        (json!({"key": "team", "value": "y"}), 0),
        (json!({"key": "team", "value": "x", "effect": "NoExecute"}), 0),
        (json!({"operator": "Exists"}), 4),
        (json!({"value": "x"}), 0),
    ];
    for (toleration, room) in rows {
        assert_eq!(
            count(tolerating(toleration.clone()), std::slice::from_ref(&tainted), &[]).now,
            room,
            "{toleration}"
        );
    }
}

#[test]
fn proto_8_selectors_and_required_affinity_are_kept() {
    let cluster = [node("a", "4", "8Gi", 110)];
    let affine = |term: Value| json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}});
    let rule = |key: &str, operator: &str, values: &[&str]| {
        affine(json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}))
    };
    let rows = [
        (json!({"nodeSelector": {"zone": "a"}}), true),
        (json!({"nodeSelector": {"zone": "b"}}), false),
        (rule("zone", "In", &["b", "a"]), true),
        (rule("zone", "NotIn", &["a"]), false),
        (rule("disk", "NotIn", &["a"]), true),
        (rule("disk", "Exists", &[]), false),
        (rule("disk", "DoesNotExist", &[]), true),
        (rule("cores", "Gt", &["4"]), true),
        (rule("cores", "Lt", &["4"]), false),
        (affine(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]})), true),
        (
            affine(json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]})),
            false,
        ),
        (affine(json!({})), false),
    ];
    for (spec, is_taken) in rows {
        assert_eq!(count(spec.clone(), &cluster, &[]).now > 0, is_taken, "{spec}");
    }
}

#[test]
fn out_of_capacity_a_pod_that_takes_the_place_of_one_on_its_way_out_does_not_wait() {
    let mut leaving = pod(Some("a"), "1");
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let all = [pod(Some("a"), "1"), pod(None, "1"), pod(None, "1"), leaving];
    let of = |all: &[Value], is_usable: bool| {
        let Turnover { unscheduled, vacated } = turnover(&pods(all), |_| is_usable);
        (unscheduled, vacated)
    };
    assert_eq!(of(&all, true), (1, 0));
    assert_eq!(of(&all, false), (2, 0), "a node that is gone frees nothing");
    assert_eq!(of(&all[3..], true), (0, 1), "before its successor is there its place is free to it");
}

fn question(id: &str, up_to: Option<u32>) -> CapacityQuestion {
    CapacityQuestion { id: id.to_owned(), pod: Value::Null, up_to }
}

#[test]
fn proto_8_what_makes_no_difference_is_no_news() {
    let say = |question: &CapacityQuestion, now, before: Option<&CapacityAnswer>| {
        told(question, Fit { now, empty: now }, before)
    };
    let capped = question("a", Some(16));
    assert_eq!(say(&capped, 900, None), say(&capped, 17, None));
    assert_eq!(say(&capped, 900, None).fit_now, 16);
    let all = question("a", None);
    assert_eq!((say(&all, 31, None).fit_now, say(&all, 1_000, None).fit_now), (31, 992));
    // Small numbers are exact; a large one stands as long as it is not too much.
    let three = say(&all, 3, None);
    assert_eq!(say(&all, 4, Some(&three)).fit_now, 4);
    let many = say(&all, 1_000, None);
    assert_eq!(say(&all, 1_030, Some(&many)), many);
    assert_eq!(say(&all, 992, Some(&many)), many);
    assert_ne!(say(&all, 991, Some(&many)), many);
    assert_ne!(say(&all, 1_056, Some(&many)), many);
    // The answer to another question says nothing about this one.
    assert_eq!(say(&question("b", None), 1_030, Some(&many)).fit_now, 1_024);
}

proptest! {
    #[test]
    fn proto_8_never_more_is_told_than_there_is_and_never_much_less(
        exact in any::<u32>(), before in any::<u32>(), up_to in prop::option::of(any::<u32>()),
    ) {
        let asked = question("a", up_to);
        let known = told(&question("a", None), Fit { now: before, empty: 0 }, None);
        let answer = told(&asked, Fit { now: exact, empty: 0 }, Some(&known)).fit_now;
        let most = up_to.map_or(exact, |it| it.min(exact));
        prop_assert!(answer <= most);
        prop_assert!(u64::from(most - answer) <= u64::from(most) / 8, "{} of {}", answer, most);
    }

    #[test]
    fn proto_8_so_many_fit_and_not_one_more(
        cores in prop::collection::vec(0_u32..40, 1..6), taken in prop::collection::vec(0_u32..40, 0..12), each in 1_u32..9,
    ) {
        let cluster: Vec<_> = cores.iter().enumerate()
            .map(|(place, it)| node(&format!("n{place}"), &it.to_string(), "8Gi", 110)).collect();
        let mut running: Vec<_> = taken.iter().enumerate()
            .map(|(place, it)| pod(Some(&format!("n{}", place % cores.len())), &it.to_string())).collect();
        let asked = asking(&each.to_string());
        let mut room = count(asked.clone(), &cluster, &running).now;
        // Placing one on a node that has room takes exactly one off, until none has.
        while room > 0 {
            let place = cluster.iter().find(|it| count(asked.clone(), &[(*it).clone()], &running).now > 0).unwrap();
            running.push(pod(place["metadata"]["name"].as_str(), &each.to_string()));
            let left = count(asked.clone(), &cluster, &running).now;
            prop_assert_eq!(left, room - 1);
            room = left;
        }
    }
}
