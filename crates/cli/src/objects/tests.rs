//! The planner seen through the command line: tables, explanations, plans.

use ::hub::{
    dispatch::plan::{Observed, plan},
    names::RevisionKey,
};
use jiff::Timestamp;
use kruise_core::api::fleet::{
    member_cluster::{ClusterState, MemberCluster, MemberClusterSpec, MemberClusterStatus},
    policy::PlacementPolicy,
};
use serde_json::{Value, json};

use super::{
    Federated, World,
    explain::Explanation,
    file::{Contents, stored},
    preview::{Preview, answer},
    read::Fleet,
    rehearse::rehearse,
    status::shown,
    world::clusters,
};
use crate::Exit;

fn member(name: &str, state: ClusterState) -> MemberCluster {
    let mut member = MemberCluster::new(name, MemberClusterSpec { accepted: true, ..Default::default() });
    let apis = vec!["apps.kruise.io/v1beta1/CloneSet".to_owned()];
    member.status = Some(MemberClusterStatus { state: Some(state), apis, ..Default::default() });
    member
}

fn cloneset(replicas: u32) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
        "metadata": { "name": "web", "namespace": "shop", "uid": "u", "generation": 1 },
        "spec": { "replicas": replicas, "selector": {}, "template": { "spec": { "containers": [] } } },
    })
}

fn policy(spec: Value) -> PlacementPolicy {
    let mut spec = spec;
    spec["targets"] = json!([{ "kind": "CloneSet", "name": "web" }]);
    let document =
        json!({ "metadata": { "name": "web", "namespace": "shop", "generation": 1 }, "spec": spec });
    serde_json::from_value(document).unwrap()
}

fn world(replicas: u32, members: &[MemberCluster], policies: Vec<PlacementPolicy>) -> World {
    World {
        object: cloneset(replicas),
        reference: Federated::of_kind("CloneSet").unwrap().reference("shop", "web", "u"),
        policies,
        cluster_policies: Vec::new(),
        binding: None,
        clusters: clusters(members, &[], None),
        now: Timestamp::UNIX_EPOCH,
    }
}

fn three() -> [MemberCluster; 3] {
    ["a", "b", "c"].map(|it| member(it, ClusterState::Ready))
}

/// The world after everything that is planned has been done.
fn settled(mut world: World) -> World {
    let (_, winner) = world.judge();
    let mut rests = 0;
    for _ in 0..50 {
        let round = world.round(winner.as_ref(), 0);
        rests = if round.writes.is_empty() { rests + 1 } else { 0 };
        super::rehearse::play(&mut world, &round);
        if rests == 3 {
            return world;
        }
    }
    panic!("it does not come to rest");
}

fn split(replicas: &[(String, u32)]) -> Vec<u32> {
    let mut all: Vec<u32> = replicas.iter().map(|it| it.1).collect();
    all.sort_unstable();
    all
}

fn planned(world: &World) -> Vec<(String, u32)> {
    let (_, winner) = world.judge();
    let rehearsal = rehearse(world.clone(), winner.as_ref());
    rehearsal.after.iter().map(|(name, it)| (name.clone(), it.replicas)).collect()
}

#[test]
fn ten_replicas_are_planned_as_the_hub_splits_them() {
    assert_eq!(split(&planned(&world(10, &three(), vec![policy(json!({}))]))), [3, 3, 4]);
    let weights = json!({ "replicas": { "weights": [
        { "clusters": { "names": ["a"] }, "weight": 5 }, { "clusters": { "names": ["b"] }, "weight": 3 },
        { "clusters": { "names": ["c"] }, "weight": 2 },
    ] } });
    let weighed = planned(&world(10, &three(), vec![policy(weights)]));
    assert_eq!(weighed, [("a".to_owned(), 5), ("b".to_owned(), 3), ("c".to_owned(), 2)]);
}

#[test]
fn a_drain_moves_pods_to_the_end_and_a_scale_up_moves_none() {
    let mut world = settled(world(10, &three(), vec![policy(json!({}))]));
    let held = world.binding.clone().unwrap();
    let on_c = held.spec.ledger.clusters["c"].share.replicas;
    let shares: Vec<_> = world.clusters.iter().filter_map(|it| it.assignment.as_deref().cloned()).collect();
    assert_eq!(shares.len(), 3);

    world.object["spec"]["replicas"] = json!(13);
    world.object["metadata"]["generation"] = json!(2);
    let scaled = Preview::of(world.clone(), false);
    let told = answer(&[scaled], &[]);
    assert_eq!((told.exit, &told.value["moved"]), (Exit::Done, &json!(0)), "{}", told.text);

    world.object = cloneset(10);
    let drained = world.clusters.iter_mut().find(|it| it.facts.name == "c").unwrap();
    drained.shown = ClusterState::Draining;
    drained.planning = scheduling::split::State::Draining;
    let told = answer(&[Preview::of(world, false)], &[]);
    assert_eq!((told.exit, &told.value["moved"]), (Exit::Pending, &json!(on_c)), "{}", told.text);
    assert!(told.text.contains("Draining") && told.text.contains(&format!("-{on_c}")), "{}", told.text);
}

#[test]
fn an_offline_cluster_is_frozen_in_the_plan() {
    let mut world = settled(world(9, &three(), vec![policy(json!({}))]));
    let lost = world.clusters.iter_mut().find(|it| it.facts.name == "c").unwrap();
    (lost.shown, lost.planning) = (ClusterState::Offline, scheduling::split::State::Offline);
    world.object["spec"]["replicas"] = json!(3);
    world.object["metadata"]["generation"] = json!(2);
    let planned = planned(&world);
    assert_eq!(planned.iter().find(|it| it.0 == "c").unwrap().1, 3, "{planned:?}");
}

#[test]
fn nothing_is_planned_again_once_it_is_done() {
    let world = settled(world(10, &three(), vec![policy(json!({}))]));
    let told = answer(&[Preview::of(world, false)], &[]);
    assert_eq!((told.text.as_str(), told.exit), ("nothing would change", Exit::Done));
}

#[test]
fn api_2_explain_says_which_policy_wins_and_which_rule_excludes_a_cluster() {
    let mut members = three().to_vec();
    members.push(member("d", ClusterState::Ready));
    let policies = vec![policy(json!({ "clusters": { "exclude": ["d"] } }))];
    let text = Explanation::of(&world(10, &members, policies)).text();
    assert!(text.contains("wins: it is of the object's namespace and names the object"), "{text}");
    assert!(text.lines().any(|it| it.starts_with("d ") && it.contains("it is excluded by name")), "{text}");
    assert!(text.lines().any(|it| it.starts_with("a ") && it.contains("selected, tier 0")), "{text}");

    let none = Explanation::of(&world(10, &members, Vec::new()));
    assert!(none.text().contains("make a PlacementPolicy whose targets name it"), "{}", none.text());
    assert_eq!(none.value()["clusters"][0]["replicas"], Value::Null);
}

#[test]
fn what_is_done_is_explained_as_done_under_the_names_that_the_hub_gave() {
    let mut world = world(10, &three(), vec![policy(json!({}))]);
    // The first round is the hub's, with its own names of bodies.
    let key = RevisionKey::new(&[7; RevisionKey::BYTES]);
    let (_, winner) = world.judge();
    for _ in 0..5 {
        let round = plan(&Observed { key: Some(&key), ..world.observed(winner.as_ref(), 0) });
        super::rehearse::play(&mut world, &round);
    }
    let explained = Explanation::of(&world).text();
    assert!(!explained.contains("=False"), "{explained}");
    assert_eq!(answer(&[Preview::of(world, false)], &[]).text, "nothing would change");
}

#[test]
fn status_has_a_row_for_each_cluster() {
    let world = settled(world(10, &three(), vec![policy(json!({}))]));
    let text = shown(world.binding.as_ref().unwrap(), Timestamp::UNIX_EPOCH);
    assert!(text.starts_with("CloneSet shop/web, by PlacementPolicy/web\ndesired 10, "), "{text}");
    let rows: Vec<&str> =
        text.lines().filter(|it| ["a ", "b ", "c "].iter().any(|name| it.starts_with(name))).collect();
    assert_eq!(rows.len(), 3, "{text}");
}

#[test]
fn files_may_hold_objects_policies_and_clusters_and_are_refused_as_the_hub_would() {
    let text = "apiVersion: fleet.kruise.io/v1alpha1\nkind: PlacementPolicy\nmetadata: {name: web}\n\
                spec: {targets: [{kind: CloneSet, name: web}]}\n---\n\
                apiVersion: apps.kruise.io/v1alpha1\nkind: CloneSet\nmetadata: {name: web}\n\
                spec: {replicas: 3, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: []}}}\n---\n\
                apiVersion: v1\nkind: Service\nmetadata: {name: web}\n";
    let contents = Contents::read(text, "shop", &[]).unwrap();
    assert_eq!((contents.policies.len(), contents.objects.len()), (1, 1));
    let (kind, namespace, object) = &contents.objects[0];
    assert_eq!((kind.kind.as_str(), namespace.as_str()), ("CloneSet", "shop"));
    assert_eq!(object["apiVersion"], "apps.kruise.io/v1beta1");
    assert!(contents.concerns_others());

    let bad = text.replace("replicas: 3", "replicas: 2000000");
    let refused = Contents::read(&bad, "shop", &[]).unwrap_err();
    assert_eq!(refused.exit(), Exit::Refused);
    assert!(refused.told().contains("spec.replicas"), "{}", refused.told());
    assert!(Contents::read("a: [", "shop", &[]).unwrap_err().told().starts_with("--filename: is no YAML"));
    assert!(Contents::read("kind: CloneSet", "shop", &[]).unwrap_err().told().contains("no metadata.name"));
}

#[test]
fn a_file_is_laid_over_what_is_there() {
    let text = "apiVersion: fleet.kruise.io/v1alpha1\nkind: MemberCluster\nmetadata: {name: b}\n\
                spec: {clusterUid: '', publicKey: '', accepted: true, drain: true}\n";
    let contents = Contents::read(text, "shop", &[]).unwrap();
    let there = Fleet { members: three().to_vec(), ..Fleet::default() };
    let fleet = contents.over(there);
    assert_eq!(fleet.members.len(), 3);
    assert!(fleet.members[1].spec.drain && fleet.members[1].status.is_some());

    let object = stored(cloneset(12), Some(&cloneset(10)));
    assert_eq!((&object["metadata"]["uid"], &object["metadata"]["generation"]), (&json!("u"), &json!(2)));
    assert_eq!(stored(cloneset(10), Some(&cloneset(10)))["metadata"]["generation"], 1);
}
