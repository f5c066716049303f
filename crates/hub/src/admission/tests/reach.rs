//! SEC-4: a tenant reaches no cluster that was not given to it.

use std::collections::{BTreeMap, BTreeSet};

use kruise_core::api::fleet::policy::Placement;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::policy;
use crate::{
    admission::reach::{Clusters, Need, Question, Verb, faults, needs, open, overridable, selectable},
    placement::select::{ClusterFacts, Selection, select},
};

fn placement(parts: Value) -> Placement {
    serde_json::from_value(policy(parts)["spec"].clone()).unwrap()
}

fn named(names: &[&str]) -> Clusters {
    Clusters::Named(names.iter().map(|it| (*it).to_owned()).collect())
}

fn patched(clusters: Value) -> Value {
    json!({"clusters": clusters, "patches": [{"op": "add", "path": "/spec/lifecycle", "value": {}}]})
}

/// What a user is told who may do `granted`: (verb, cluster), where `*` is all of them. Also how often was asked.
fn told(before: Option<&Placement>, after: &Placement, granted: &[(Verb, &str)]) -> (Vec<String>, usize) {
    let needs = needs(before, after);
    let mut answers: BTreeMap<Question, bool> = BTreeMap::new();
    loop {
        let questions = open(&needs, &answers);
        if questions.is_empty() {
            break;
        }
        for (verb, cluster) in questions {
            let is_granted = granted
                .iter()
                .any(|(it, name)| *it == verb && (*name == "*" || cluster.as_deref() == Some(*name)));
            answers.insert((verb, cluster), is_granted);
        }
    }
    let faults = faults(&needs, &answers, "ann");
    (faults.iter().map(ToString::to_string).collect(), answers.len())
}

#[test]
fn sec_4_names_bound_what_a_policy_can_select_and_labels_do_not() {
    let of = |parts: Value| selectable(&placement(parts));
    assert_eq!(of(json!({})), Clusters::Any);
    assert_eq!(of(json!({"clusters": {"labelSelector": {"matchLabels": {"env": "prod"}}}})), Clusters::Any);
    let region = json!({"key": "region", "operator": "In", "values": ["eu"]});
    assert_eq!(of(json!({"clusters": {"fieldSelector": [region]}})), Clusters::Any);
    assert_eq!(of(json!({"clusters": {"exclude": ["a"]}})), Clusters::Any);
    let both = json!({"clusters": {"names": ["a", "b"], "labelSelector": {"matchLabels": {"env": "prod"}}}});
    assert_eq!(of(both), named(&["a", "b"]), "labels can only take from names");
    assert_eq!(of(json!({"clusters": {"names": ["a", "b"], "exclude": ["b"]}})), named(&["a"]));
    let tier = |names: &[&str]| json!({"clusters": {"names": names}});
    assert_eq!(of(json!({"tiers": [tier(&["a"]), tier(&["b"])]})), named(&["a", "b"]));
    assert_eq!(of(json!({"tiers": [tier(&["a"]), {"clusters": {}}]})), Clusters::Any);
    assert_eq!(of(json!({"clusters": {"names": ["a"]}, "tiers": [tier(&["a", "b"])]})), named(&["a"]));
}

#[test]
fn sec_4_a_tenant_with_named_clusters_gets_those_and_no_others() {
    let granted = [(Verb::Place, "a"), (Verb::Place, "b")];
    let told = |parts: Value| told(None, &placement(parts), &granted).0;
    assert_eq!(told(json!({"clusters": {"names": ["a", "b"]}})), Vec::<String>::new());
    assert_eq!(
        told(json!({"clusters": {"names": ["a", "c", "d"]}})),
        [
            "spec.clusters: Forbidden: user \"ann\" needs the verb place on memberclusters.fleet.kruise.io c, d: leave them out, \
             or have the verb granted"
        ]
    );
    // Both clusters that are there today may be its own: the next one is not.
    for any in [json!({}), json!({"clusters": {"labelSelector": {"matchLabels": {"team": "ann"}}}})] {
        let told = told(any);
        assert_eq!(told.len(), 1);
        for words in ["spec.clusters:", "verb place on all", "joins later", "spec.clusters.names"] {
            assert!(told[0].contains(words), "{told:?}");
        }
    }
}

#[test]
fn sec_4_who_may_place_everywhere_is_asked_for_once() {
    let everywhere = [(Verb::Place, "*")];
    let any = json!({"clusters": {"labelSelector": {"matchLabels": {"env": "prod"}}}});
    assert_eq!(told(None, &placement(any), &everywhere), (Vec::new(), 1));
    let names: Vec<_> = (0..100).map(|it| format!("c{it}")).collect();
    assert_eq!(told(None, &placement(json!({"clusters": {"names": names}})), &everywhere), (Vec::new(), 1));
    let (told, _) = told(None, &placement(json!({"clusters": {"names": names}})), &[]);
    assert!(told[0].contains("and 95 more") && told[0].len() < 300, "{told:?}");
}

#[test]
fn sec_4_overrides_need_a_verb_of_their_own_where_they_apply() {
    let policy =
        json!({"clusters": {"names": ["a", "b"]}, "overrides": [patched(json!({"names": ["b", "z"]}))]});
    assert_eq!(overridable(&placement(policy.clone())), named(&["b"]), "z is not selected");
    let place = [(Verb::Place, "a"), (Verb::Place, "b")];
    let (refused, _) = told(None, &placement(policy.clone()), &place);
    assert!(
        refused[0].starts_with("spec.overrides: Forbidden") && refused[0].contains("verb override"),
        "{refused:?}"
    );
    let both = [&place[..], &[(Verb::Override, "b")]].concat();
    assert_eq!(told(None, &placement(policy), &both).0, Vec::<String>::new());
    let wide = json!({"clusters": {"names": ["a", "b"]}, "overrides": [patched(json!({}))]});
    assert_eq!(overridable(&placement(wide)), named(&["a", "b"]));
    let idle = json!({"overrides": [{"clusters": {}}]});
    assert_eq!(overridable(&placement(idle)), named(&[]), "it changes nothing");
}

#[test]
fn sec_4_an_update_is_judged_by_what_it_leads_to() {
    let names = |names: &[&str], parts: Value| {
        let mut spec = json!({"clusters": {"names": names}});
        spec.as_object_mut().unwrap().extend(parts.as_object().unwrap().clone());
        placement(spec)
    };
    let wide = names(&["a", "b"], json!({"overrides": [patched(json!({"names": ["a"]}))]}));
    let verbs =
        |after: &Placement| needs(Some(&wide), after).into_iter().map(|it| it.verb).collect::<Vec<_>>();
    assert_eq!(verbs(&wide), [], "a label or a finalizer is nobody's reach");
    let heavier = names(
        &["a", "b"],
        json!({"overrides": [patched(json!({"names": ["a"]}))], "replicas": {"weights": [{"weight": 2}]}}),
    );
    assert_eq!(verbs(&heavier), [Verb::Place], "the overrides are as they were");
    let retargeted = names(
        &["a", "b"],
        json!({"overrides": [patched(json!({"names": ["a"]}))], "targets": [{"kind": "CloneSet", "name": "mine"}]}),
    );
    assert_eq!(verbs(&retargeted), [Verb::Place, Verb::Override], "they come to apply to another object");
    let less = names(&["a"], json!({}));
    assert_eq!(needs(Some(&wide), &less), [Need { verb: Verb::Place, clusters: named(&["a"]) }]);
    assert_eq!(told(Some(&wide), &less, &[(Verb::Place, "a")]).0, Vec::<String>::new());
}

proptest! {
    /// Whatever labels clusters get: what a policy selects is within what its writer was asked for.
    #[test]
    fn sec_4_nothing_is_selected_that_was_not_asked_for(
        names in prop::collection::btree_set("[a-d]", 0..4),
        exclude in prop::collection::btree_set("[a-d]", 0..3),
        tiers in prop::collection::vec(prop::collection::btree_set("[a-d]", 0..3), 0..3),
        cluster in "[a-e]",
        prod in any::<bool>(),
    ) {
        let tiers: Vec<_> = tiers.iter().map(|it| json!({"clusters": {"names": it}})).collect();
        let placement = placement(json!({
            "clusters": {"names": names, "exclude": exclude, "labelSelector": {"matchLabels": {"env": "prod"}}},
            "tiers": tiers,
        }));
        let env = if prod { "prod" } else { "test" };
        let facts = ClusterFacts {
            name: cluster.clone(),
            labels: [("env".to_owned(), env.to_owned())].into(),
            apis: vec!["apps.kruise.io/v1beta1/CloneSet".to_owned()],
            ..ClusterFacts::default()
        };
        let is_selected = !matches!(select(&placement, &facts, "apps.kruise.io", "CloneSet"), Selection::Not(_));
        let is_within = match selectable(&placement) {
            Clusters::Any => true,
            Clusters::Named(names) => names.contains(&cluster),
        };
        prop_assert!(!is_selected || is_within);
    }
}

#[test]
fn sec_4_without_an_answer_nothing_is_allowed() {
    let needs = [Need { verb: Verb::Place, clusters: named(&["a"]) }];
    assert_eq!(open(&needs, &BTreeMap::new()), [(Verb::Place, None)]);
    assert_eq!(faults(&needs, &BTreeMap::new(), "ann").len(), 1);
    let nothing = [Need { verb: Verb::Place, clusters: Clusters::Named(BTreeSet::new()) }];
    assert_eq!(faults(&nothing, &BTreeMap::new(), "ann"), []);
}
