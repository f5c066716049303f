use super::*;
use crate::api::sidecarset::keys;

fn spec(more: (&'static str, BoxedStrategy<Value>)) -> BoxedStrategy<Value> {
    let container =
        any_json().prop_map(|it| json!([{"name": "a", "image": "b", "upgradeStrategy": {}, "new": it}]));
    some_of(vec![
        ("selector", one_of([json!({"matchLabels": {"app": "web"}})])),
        (
            "namespaceSelector",
            one_of([
                json!({"matchLabels": {"kubernetes.io/metadata.name": "shop"}}),
                json!({"matchLabels": {"a": "b"}}),
            ]),
        ),
        ("containers", container.boxed()),
        ("volumes", one_of([json!([{"name": "v", "emptyDir": {}, "newer": {"x": 1}}])])),
        ("updateStrategy", one_of([json!({"type": "NotUpdate"}), json!({"partition": "10%"})])),
        more,
    ])
}

fn labels() -> BoxedStrategy<Value> {
    some_of(vec![
        ("team", one_of([json!("a")])),
        (keys::CUSTOM_VERSION, one_of([json!("v1"), json!("v2"), json!("")])),
    ])
}

fn status() -> BoxedStrategy<Value> {
    one_of([json!({"matchedPods": 1, "updatedPods": 0, "readyPods": 1, "collisionCount": 0})])
}

fn alpha() -> BoxedStrategy<Value> {
    let spec = spec(("namespace", one_of([json!("shop"), json!("other"), json!("")])));
    object(APPS_V1ALPHA1, "SidecarSet", labels(), some_of(vec![]), spec, status())
}

fn beta() -> BoxedStrategy<Value> {
    let spec = spec(("customVersion", one_of([json!("v1"), json!("v3"), json!("")])));
    object(APPS_V1BETA1, "SidecarSet", labels(), some_of(vec![]), spec, status())
}

proptest! {
    #[test]
    fn a_v1alpha1_sidecarset_comes_back_from_v1beta1_as_it_was(object in alpha()) {
        prop_assert_eq!(there_and_back(&object), object);
    }

    #[test]
    fn a_v1beta1_sidecarset_comes_back_from_v1alpha1_as_it_was(object in beta()) {
        prop_assert_eq!(there_and_back(&object), object);
    }

    #[test]
    fn an_edit_of_the_namespaces_in_v1beta1_wins(object in alpha()) {
        let mut stored = to_beta(&object);
        let edited = json!({"matchLabels": {"edited": "yes"}});
        stored["spec"]["namespaceSelector"] = edited.clone();
        let read = to_alpha(&stored);
        prop_assert_eq!(&read["spec"]["namespaceSelector"], &edited);
        prop_assert_eq!(read["spec"].get("namespace"), None);
        let label = |it: &Value| it["metadata"]["labels"].get(keys::CUSTOM_VERSION).cloned();
        prop_assert_eq!(label(&read), label(&object));
    }

    #[test]
    fn an_edit_of_the_version_in_v1alpha1_wins(object in beta()) {
        let mut read = to_alpha(&object);
        read["metadata"]["labels"][keys::CUSTOM_VERSION] = json!("edited");
        let written = to_beta(&read);
        prop_assert_eq!(&written["spec"]["customVersion"], "edited");
        prop_assert_eq!(&to_alpha(&written)["metadata"]["labels"], &read["metadata"]["labels"]);
    }
}

#[test]
fn a_namespace_is_a_selector_by_name_in_v1beta1_and_wins_over_the_other() {
    let alpha = json!({"apiVersion": APPS_V1ALPHA1, "kind": "SidecarSet", "metadata": {"name": "s"}, "spec": {
        "namespace": "shop", "namespaceSelector": {"matchLabels": {"a": "b"}}}});
    let beta = to_beta(&alpha);
    let by_name = json!({"matchLabels": {"kubernetes.io/metadata.name": "shop"}});
    assert_eq!(beta["spec"], json!({"namespaceSelector": by_name}));
    assert_eq!(to_alpha(&beta), alpha);
}

#[test]
fn the_version_label_is_the_field_in_v1beta1() {
    let alpha = json!({"apiVersion": APPS_V1ALPHA1, "kind": "SidecarSet", "spec": {},
        "metadata": {"name": "s", "labels": {keys::CUSTOM_VERSION: "v1"}}});
    let beta = json!({"apiVersion": APPS_V1BETA1, "kind": "SidecarSet", "metadata": {"name": "s"},
        "spec": {"customVersion": "v1"}});
    assert_eq!(to_beta(&alpha), beta);
    assert_eq!(to_alpha(&beta), alpha);
}
