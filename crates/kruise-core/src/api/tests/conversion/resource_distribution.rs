use super::*;

fn spec(selector: &'static str) -> BoxedStrategy<Value> {
    let targets = some_of(vec![
        ("allNamespaces", any::<bool>().prop_map(Value::from).boxed()),
        ("includedNamespaces", one_of([json!({"list": [{"name": "a"}]}), json!({})])),
        (selector, one_of([json!({"matchLabels": {"a": "b"}}), json!({})])),
    ]);
    (any_json(), targets)
        .prop_map(|(data, targets)| {
            let resource =
                json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data});
            json!({"resource": resource, "targets": targets})
        })
        .boxed()
}

fn status(failed: &'static str) -> BoxedStrategy<Value> {
    let failed = some_of(vec![(failed, one_of([json!(["a", "b"]), json!([])]))]);
    failed
        .prop_map(|mut condition| {
            condition["type"] = json!("ConflictOccurred");
            condition["status"] = json!("True");
            json!({"desired": 2, "conditions": [condition]})
        })
        .boxed()
}

fn whole(version: &'static str, selector: &'static str, failed: &'static str) -> BoxedStrategy<Value> {
    let nothing = || some_of(vec![]);
    object(version, "ResourceDistribution", nothing(), nothing(), spec(selector), status(failed))
}

proptest! {
    #[test]
    fn a_v1alpha1_distribution_comes_back_from_v1beta1_as_it_was(
        object in whole(APPS_V1ALPHA1, "namespaceLabelSelector", "failedNamespace"),
    ) {
        prop_assert_eq!(there_and_back(&object), object.clone());
        prop_assert!(!has_preserved(&to_beta(&object)));
    }

    #[test]
    fn a_v1beta1_distribution_comes_back_from_v1alpha1_as_it_was(
        object in whole(APPS_V1BETA1, "namespaceSelector", "failedNamespaces"),
    ) {
        prop_assert_eq!(there_and_back(&object), object.clone());
        prop_assert!(!has_preserved(&to_alpha(&object)));
    }
}

#[test]
fn two_fields_are_spelled_differently() {
    let alpha = json!({"apiVersion": APPS_V1ALPHA1, "kind": "ResourceDistribution", "metadata": {"name": "d"},
        "spec": {"resource": {}, "targets": {"namespaceLabelSelector": {"matchLabels": {"a": "b"}}}},
        "status": {"conditions": [{"type": "ConflictOccurred", "status": "True", "failedNamespace": ["x"]}]}});
    let beta = to_beta(&alpha);
    assert_eq!(beta["spec"]["targets"], json!({"namespaceSelector": {"matchLabels": {"a": "b"}}}));
    assert_eq!(
        beta["status"]["conditions"],
        json!([{"type": "ConflictOccurred", "status": "True", "failedNamespaces": ["x"]}])
    );
    assert_eq!(to_alpha(&beta), alpha);
}
