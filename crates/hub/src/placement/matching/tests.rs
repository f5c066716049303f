use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use proptest::prelude::*;

use super::*;

fn subject() -> Subject {
    Subject {
        group: "apps.kruise.io".to_owned(),
        kind: "CloneSet".to_owned(),
        namespace: Some("shop".to_owned()),
        name: "web".to_owned(),
        labels: BTreeMap::from([("app".to_owned(), "web".to_owned())]),
        annotations: BTreeMap::new(),
    }
}

fn by_name(name: &str) -> Placement {
    let target = Target { kind: "CloneSet".to_owned(), name: Some(name.to_owned()), ..Target::default() };
    Placement { targets: vec![target], ..Placement::default() }
}

fn by_label(value: &str) -> Placement {
    let labels = BTreeMap::from([("app".to_owned(), value.to_owned())]);
    let selector = LabelSelector { match_labels: Some(labels), match_expressions: None };
    let target = Target { kind: "CloneSet".to_owned(), label_selector: Some(selector), ..Target::default() };
    Placement { targets: vec![target], ..Placement::default() }
}

fn policy<'a>(namespace: Option<&'a str>, name: &'a str, placement: &'a Placement) -> Policy<'a> {
    Policy { namespace, name, created: Timestamp::from_second(1_000).unwrap(), placement }
}

fn winner<'a>(subject: &Subject, policies: &[Policy<'a>]) -> Option<&'a str> {
    find(subject, policies).winner.map(|it| policies[it].name)
}

#[test]
fn api_2_the_order_is_annotation_name_label_then_the_same_for_cluster_policies() {
    let (name, label, none) = (by_name("web"), by_label("web"), by_name("other"));
    let mut policies = vec![
        policy(None, "cluster-label", &label),
        policy(None, "cluster-name", &name),
        policy(Some("shop"), "label", &label),
        policy(Some("shop"), "name", &name),
        policy(Some("shop"), "annotated", &none),
    ];
    let mut subject = subject();
    subject.annotations.insert(keys::POLICY.to_owned(), "annotated".to_owned());
    assert_eq!(winner(&subject, &policies), Some("annotated"));
    subject.annotations.clear();
    policies.pop();
    for expected in ["name", "label", "cluster-name", "cluster-label"] {
        assert_eq!(winner(&subject, &policies), Some(expected));
        policies.pop();
    }
    assert_eq!(winner(&subject, &policies), None);
}

#[test]
fn api_2_ties_go_to_the_higher_priority_then_the_older_then_the_first_name() {
    let plain = by_name("web");
    let higher = Placement { priority: 5, ..plain.clone() };
    let old =
        Policy { created: Timestamp::from_second(10).unwrap(), ..policy(Some("shop"), "z-old", &plain) };
    let policies = [
        policy(Some("shop"), "b", &plain),
        policy(Some("shop"), "a", &plain),
        old,
        policy(Some("shop"), "y-higher", &higher),
    ];
    let found = find(&subject(), &policies);
    let standing = Standing::NamespacedByName;
    assert_eq!(
        found.outcomes,
        [
            Outcome::Outranked(standing, Outranked::Priority),
            Outcome::Outranked(standing, Outranked::Priority),
            Outcome::Outranked(standing, Outranked::Priority),
            Outcome::Won(standing),
        ]
    );
    assert_eq!(winner(&subject(), &policies[..3]), Some("z-old"));
    assert_eq!(winner(&subject(), &policies[..2]), Some("a"));
}

#[test]
fn api_2_cluster_scoped_kinds_match_cluster_policies_only() {
    let target = Target { kind: "SidecarSet".to_owned(), name: Some("web".to_owned()), ..Target::default() };
    let placement = Placement { targets: vec![target], ..Placement::default() };
    let subject = Subject { kind: "SidecarSet".to_owned(), namespace: None, ..subject() };
    let policies = [policy(Some("shop"), "ns", &placement), policy(None, "cluster", &placement)];
    let found = find(&subject, &policies);
    assert_eq!(found.winner, Some(1));
    assert_eq!(found.outcomes[0], Outcome::NoMatch(NoMatch::NeedsClusterPolicy));
}

#[test]
fn api_2_without_a_policy_every_one_says_why_not() {
    let placement = by_name("other");
    let mut other_kind = placement.clone();
    other_kind.targets[0].kind = "ImagePullJob".to_owned();
    let mut other_group = by_name("web");
    other_group.targets[0].group = Some("example.org".to_owned());
    let policies = [
        policy(Some("shop"), "a", &placement),
        policy(Some("bank"), "b", &placement),
        policy(None, "c", &other_kind),
        policy(None, "d", &other_group),
    ];
    let found = find(&subject(), &policies);
    assert_eq!((found.winner, found.missing), (None, None));
    let words: Vec<String> = found.outcomes.iter().map(Outcome::to_string).collect();
    assert_eq!(
        words,
        [
            "has no target with this name or these labels",
            "is of another namespace",
            "has no target of this kind",
            "has no target of this kind",
        ]
    );
}

#[test]
fn an_annotation_that_names_no_policy_places_nothing() {
    let placement = by_name("web");
    let mut subject = subject();
    subject.annotations.insert(keys::POLICY.to_owned(), "gone".to_owned());
    let found = find(&subject, &[policy(Some("shop"), "web", &placement)]);
    assert_eq!((found.winner, found.missing.as_deref()), (None, Some("gone")));
    assert_eq!(found.outcomes, [Outcome::NoMatch(NoMatch::OtherAnnotated)]);
}

#[test]
fn an_annotation_means_the_policy_of_the_objects_namespace_first() {
    let placement = by_name("other");
    let mut subject = subject();
    subject.annotations.insert(keys::POLICY.to_owned(), "p".to_owned());
    let policies = [policy(None, "p", &placement), policy(Some("shop"), "p", &placement)];
    assert_eq!(find(&subject, &policies).winner, Some(1));
}

proptest! {
    #[test]
    fn the_order_of_policies_never_matters(
        shape in prop::collection::vec((any::<bool>(), any::<bool>(), 0i32..3, 0i64..3), 1..8),
        turn in 0usize..8,
    ) {
        let placements: Vec<Placement> = shape
            .iter()
            .map(|it| Placement { priority: it.2, ..if it.0 { by_name("web") } else { by_label("web") } })
            .collect();
        let names: Vec<String> = (0..shape.len()).map(|it| format!("p{it}")).collect();
        let mut policies: Vec<Policy<'_>> = shape
            .iter()
            .zip(&placements)
            .zip(&names)
            .map(|((it, placement), name)| Policy {
                namespace: it.1.then_some("shop"),
                name,
                created: Timestamp::from_second(it.3).unwrap(),
                placement,
            })
            .collect();
        let first = winner(&subject(), &policies).map(str::to_owned);
        let places = policies.len();
        policies.rotate_left(turn % places);
        prop_assert_eq!(winner(&subject(), &policies).map(str::to_owned), first);
        let found = find(&subject(), &policies);
        prop_assert_eq!(found.outcomes.iter().filter(|it| matches!(it, Outcome::Won(_))).count(), 1);
    }
}
