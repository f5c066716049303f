use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
use proptest::prelude::*;

use super::*;

fn cluster(name: &str) -> ClusterFacts {
    ClusterFacts {
        name: name.to_owned(),
        labels: BTreeMap::from([("env".to_owned(), "prod".to_owned())]),
        region: Some("eu".to_owned()),
        zone: Some("eu-a".to_owned()),
        provider: Some("bare".to_owned()),
        version: "v1.34.4+k3s1".to_owned(),
        taints: Vec::new(),
        apis: vec!["apps.kruise.io/v1beta1/CloneSet".to_owned()],
        features: Vec::new(),
        moves_stateful: false,
    }
}

fn judged(placement: &Placement, cluster: &ClusterFacts) -> Selection {
    select(placement, cluster, "apps.kruise.io", "CloneSet")
}

fn scope(selector: ClusterSelector) -> Placement {
    let clusters = ClusterScope { selector, ..ClusterScope::default() };
    Placement { clusters, ..Placement::default() }
}

fn field(key: FieldKey, operator: FieldOperator, values: &[&str]) -> FieldRequirement {
    FieldRequirement { key, operator, values: values.iter().map(|it| (*it).to_owned()).collect() }
}

fn rule(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
    let values = values.iter().map(|it| (*it).to_owned()).collect();
    let rule =
        LabelSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values: Some(values) };
    LabelSelector { match_labels: None, match_expressions: Some(vec![rule]) }
}

const YES: Selection = Selection::Selected { tier: 0 };

#[test]
fn a_policy_that_says_nothing_selects_every_cluster() {
    assert_eq!(judged(&Placement::default(), &cluster("a")), YES);
}

#[test]
fn labels_are_compared_by_the_rules_of_kubernetes() {
    for (operator, key, values, expected) in [
        ("In", "env", &["prod", "test"][..], true),
        ("In", "env", &["test"], false),
        ("NotIn", "env", &["test"], true),
        ("NotIn", "env", &["prod"], false),
        ("NotIn", "absent", &["x"], true),
        ("Exists", "env", &[], true),
        ("Exists", "absent", &[], false),
        ("DoesNotExist", "absent", &[], true),
        ("DoesNotExist", "env", &[], false),
        ("Guess", "env", &["prod"], false),
    ] {
        let selector =
            ClusterSelector { label_selector: Some(rule(key, operator, values)), ..Default::default() };
        let expected = if expected { YES } else { Selection::Not(NotSelected::Labels) };
        assert_eq!(judged(&scope(selector), &cluster("a")), expected, "{key} {operator} {values:?}");
    }
}

#[test]
fn fields_are_region_zone_provider_and_version() {
    use FieldKey::{Provider, Region, Version, Zone};
    use FieldOperator::{AtLeast, Below, In, NotIn};
    for (rule, expected) in [
        (field(Region, In, &["eu", "us"]), true),
        (field(Region, NotIn, &["eu"]), false),
        (field(Zone, In, &["eu-b"]), false),
        (field(Provider, In, &["bare"]), true),
        (field(Version, In, &["1.34"]), true),
        (field(Version, In, &["1.3"]), false),
        (field(Version, In, &["v1.34.4"]), true),
        (field(Version, AtLeast, &["1.34"]), true),
        (field(Version, AtLeast, &["1.34.5"]), false),
        (field(Version, Below, &["1.35"]), true),
        (field(Version, Below, &["v1.34.4"]), false),
        (field(Version, AtLeast, &["newest"]), false),
    ] {
        let words = format!("{rule:?}");
        let selector = ClusterSelector { field_selector: vec![rule], ..ClusterSelector::default() };
        assert_eq!(selects(&selector, &cluster("a")), expected, "{words}");
    }
    let nowhere = ClusterFacts { region: None, version: String::new(), ..cluster("a") };
    let region = ClusterSelector { field_selector: vec![field(Region, In, &["eu"])], ..Default::default() };
    assert_eq!(judged(&scope(region), &nowhere), Selection::Not(NotSelected::Field("region")));
}

#[test]
fn names_select_and_exclusions_win() {
    let named = ClusterSelector { names: vec!["a".to_owned()], ..ClusterSelector::default() };
    let mut placement = scope(named);
    assert_eq!(judged(&placement, &cluster("a")), YES);
    assert_eq!(judged(&placement, &cluster("b")), Selection::Not(NotSelected::Name));
    placement.clusters.exclude = vec!["a".to_owned()];
    assert_eq!(judged(&placement, &cluster("a")), Selection::Not(NotSelected::Excluded));
}

#[test]
fn taints_keep_new_replicas_away_and_the_stronger_ones_old_ones_too() {
    let taint = |effect| ClusterTaint { key: "gpu".to_owned(), value: Some("yes".to_owned()), effect };
    let tainted = |effect| ClusterFacts { taints: vec![taint(effect)], ..cluster("a") };
    let plain = Placement::default();
    assert_eq!(
        judged(&plain, &tainted(TaintEffect::NoSchedule)),
        Selection::NothingNew { tier: 0, taint: "gpu".to_owned() }
    );
    assert_eq!(
        judged(&plain, &tainted(TaintEffect::NoExecute)),
        Selection::Not(NotSelected::Taint("gpu".to_owned()))
    );
    let toleration = |key: Option<&str>, operator, value: Option<&str>, effect| Toleration {
        key: key.map(str::to_owned),
        operator,
        value: value.map(str::to_owned),
        effect,
    };
    use TolerationOperator::{Equal, Exists};
    for (toleration, expected) in [
        (toleration(Some("gpu"), Equal, Some("yes"), None), true),
        (toleration(Some("gpu"), Equal, Some("no"), None), false),
        (toleration(Some("gpu"), Exists, None, None), true),
        (toleration(None, Exists, None, None), true),
        (toleration(None, Equal, Some("yes"), None), false),
        (toleration(Some("gpu"), Exists, None, Some(TaintEffect::NoSchedule)), false),
    ] {
        let mut placement = Placement::default();
        placement.clusters.tolerations = vec![toleration];
        let selection = judged(&placement, &tainted(TaintEffect::NoExecute));
        assert_eq!(selection == YES, expected, "{:?}", placement.clusters.tolerations);
    }
}

#[test]
fn a_cluster_is_in_the_first_tier_that_selects_it() {
    let tier = |name: &str| Tier {
        name: name.to_owned(),
        clusters: ClusterSelector { names: vec![name.to_owned()], ..ClusterSelector::default() },
    };
    let any = Tier { name: "any".to_owned(), clusters: ClusterSelector::default() };
    let placement = Placement { tiers: vec![tier("a"), tier("b"), any], ..Placement::default() };
    for (name, expected) in [("a", 0), ("b", 1), ("c", 2)] {
        assert_eq!(judged(&placement, &cluster(name)), Selection::Selected { tier: expected });
    }
    let placement = Placement { tiers: vec![tier("a")], ..Placement::default() };
    assert_eq!(judged(&placement, &cluster("b")), Selection::Not(NotSelected::NoTier));
}

#[test]
fn bad_input_9_a_cluster_without_the_kind_is_filtered_with_the_reason() {
    let lacking = ClusterFacts { apis: vec!["apps.kruise.io/v1beta1/SidecarSet".to_owned()], ..cluster("a") };
    let selection = judged(&Placement::default(), &lacking);
    assert_eq!(selection.to_string(), "APINotSupported: it does not serve apps.kruise.io/CloneSet");
    let odd = ClusterFacts { apis: vec!["CloneSet".to_owned(), "/".to_owned()], ..cluster("a") };
    assert!(!odd.serves("apps.kruise.io", "CloneSet"));
}

#[test]
fn topology_keys_are_fields_or_labels() {
    let cluster = cluster("a");
    assert_eq!(cluster.group("region"), Some("eu"));
    assert_eq!(cluster.group("env"), Some("prod"));
    assert_eq!(cluster.group("absent"), None);
}

proptest! {
    #[test]
    fn versions_of_any_text_never_panic(text in ".{0,40}", wanted in ".{0,20}") {
        let rule = FieldRequirement { key: FieldKey::Version, operator: FieldOperator::In, values: vec![wanted] };
        let selector = ClusterSelector { field_selector: vec![rule], ..ClusterSelector::default() };
        selects(&selector, &ClusterFacts { version: text, ..ClusterFacts::default() });
    }
}
