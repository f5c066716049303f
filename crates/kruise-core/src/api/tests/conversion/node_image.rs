use super::*;

fn secret() -> BoxedStrategy<Value> {
    some_of(vec![
        ("namespace", one_of([json!("kruise-daemon-config"), json!("shop")])),
        ("name", one_of([json!("a"), json!("b/c~d"), json!("")])),
        ("mode", one_of([json!("batch"), json!(""), json!("newer")])),
    ])
}

fn spec(secret: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let image = prop::collection::vec(secret, 0..4)
        .prop_map(|secrets| json!({"pullSecrets": secrets, "tags": [{"tag": "1.25", "version": 0}]}));
    prop::collection::btree_map("nginx|registry.example.com:5000/a.b/c", image, 0..3)
        .prop_map(|images| json!({"images": images}))
        .boxed()
}

fn whole(version: &'static str, spec: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let nothing = || some_of(vec![]);
    object(version, "NodeImage", nothing(), nothing(), spec, one_of([json!({"desired": 1})]))
}

proptest! {
    #[test]
    fn a_v1beta1_nodeimage_comes_back_from_v1alpha1_as_it_was(object in whole(APPS_V1BETA1, spec(secret()))) {
        prop_assert_eq!(there_and_back(&object), object);
    }

    #[test]
    fn a_v1alpha1_nodeimage_comes_back_from_v1beta1_as_it_was(
        object in whole(APPS_V1ALPHA1, spec(some_of(vec![("name", one_of([json!("a")]))]))),
    ) {
        prop_assert_eq!(there_and_back(&object), object);
    }
}

#[test]
fn the_mode_of_a_secret_survives_edits_of_the_list_around_it() {
    let secret = |name: &str| json!({"namespace": "kruise-daemon-config", "name": name});
    let batch = |name: &str| json!({"namespace": "kruise-daemon-config", "name": name, "mode": "batch"});
    let image = |secrets: Value| json!({"nginx": {"pullSecrets": secrets, "tags": []}});
    let beta = json!({"apiVersion": APPS_V1BETA1, "kind": "NodeImage", "metadata": {"name": "n"},
        "spec": {"images": image(json!([batch("a"), batch("b")]))}});

    let mut read = to_alpha(&beta);
    assert_eq!(read["spec"]["images"], image(json!([secret("a"), secret("b")])));
    read["spec"]["images"] = image(json!([secret("new"), secret("b")]));
    assert_eq!(to_beta(&read)["spec"]["images"], image(json!([secret("new"), batch("b")])));
}
