use super::*;
use crate::api::cloneset::keys;

fn spec(scale: BoxedStrategy<Value>, update: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let required = (any_json(), any_json()).prop_map(|(template, extra)| {
        json!({
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": template, "newField": extra},
        })
    });
    let optional = some_of(vec![
        ("replicas", (0..100i32).prop_map(Value::from).boxed()),
        (
            "volumeClaimTemplates",
            prop::collection::vec(any_json(), 0..3)
                .prop_map(|it| Value::from(it.into_iter().map(|it| json!({"spec": it})).collect::<Vec<_>>()))
                .boxed(),
        ),
        ("minReadySeconds", one_of([json!(0), json!(5)])),
        ("lifecycle", one_of([json!({"preDelete": {"labelsHandler": {"a": "b"}}})])),
        ("scaleStrategy", scale),
        ("updateStrategy", update),
    ]);
    (required, optional).prop_map(|(required, optional)| merged(required, optional)).boxed()
}

fn merged(mut one: Value, other: Value) -> Value {
    let more = other.as_object().cloned().unwrap_or_default();
    one.as_object_mut().unwrap().extend(more);
    one
}

fn in_place() -> BoxedStrategy<Value> {
    some_of(vec![
        ("gracePeriodSeconds", one_of([json!(0), json!(30)])),
        ("imagePreDownloadParallelism", one_of([json!(3), json!("50%"), json!("7")])),
        ("imagePreDownloadTimeoutSeconds", one_of([json!(0), json!(60)])),
        ("imagePreDownloadMinUpdatedReadyPods", one_of([json!(0), json!(2)])),
    ])
}

fn pace() -> Vec<(&'static str, BoxedStrategy<Value>)> {
    vec![
        ("partition", int_or_percent()),
        ("maxUnavailable", int_or_percent()),
        ("maxSurge", int_or_percent()),
        ("paused", any::<bool>().prop_map(Value::from).boxed()),
        ("priorityStrategy", one_of([json!({"orderPriority": [{"orderedKey": "k"}]})])),
        ("scatterStrategy", one_of([json!([{"key": "a", "value": "b"}])])),
        ("inPlaceUpdateStrategy", in_place()),
    ]
}

fn labels() -> BoxedStrategy<Value> {
    some_of(vec![
        ("team", one_of([json!("a")])),
        (keys::SCALING_EXCLUDE_PREPARING_DELETE, one_of([json!("true"), json!("false")])),
    ])
}

fn annotations() -> BoxedStrategy<Value> {
    some_of(vec![
        ("note", one_of([json!("x")])),
        (keys::PREDOWNLOAD_PARALLELISM, one_of([json!("5"), json!("50%"), json!("+5"), json!("")])),
        (keys::PREDOWNLOAD_TIMEOUT_SECONDS, one_of([json!("60"), json!("soon"), json!("99999999999")])),
        (keys::PREDOWNLOAD_MIN_UPDATED_READY_PODS, one_of([json!("2"), json!("10%")])),
    ])
}

fn status() -> BoxedStrategy<Value> {
    let zeros = json!({"replicas": 1, "readyReplicas": 0, "availableReplicas": 0, "updatedReplicas": 0,
        "updatedReadyReplicas": 0});
    some_of(vec![
        ("collisionCount", one_of([json!(0), json!(3)])),
        ("conditions", one_of([json!([{"type": "FailedScale", "status": "True"}])])),
    ])
    .prop_map(move |it| merged(zeros.clone(), it))
    .boxed()
}

fn alpha() -> BoxedStrategy<Value> {
    let scale = some_of(vec![
        ("podsToDelete", one_of([json!(["a"]), json!([])])),
        ("maxUnavailable", int_or_percent()),
        ("disablePVCReuse", any::<bool>().prop_map(Value::from).boxed()),
    ]);
    let mut update = pace();
    let types = ["ReCreate", "InPlaceIfPossible", "InPlaceOnly", "OnDelete"];
    update.push(("type", one_of(types.map(Value::from))));
    object(APPS_V1ALPHA1, "CloneSet", labels(), annotations(), spec(scale, some_of(update)), status())
}

fn beta() -> BoxedStrategy<Value> {
    let scale = some_of(vec![
        ("podsToDelete", one_of([json!(["a"]), json!([])])),
        ("maxUnavailable", int_or_percent()),
        ("enablePVCReuse", any::<bool>().prop_map(Value::from).boxed()),
        ("excludePreparingDelete", any::<bool>().prop_map(Value::from).boxed()),
    ]);
    let mut rolling = pace();
    let policies = ["ReCreate", "InPlaceIfPossible", "InPlaceOnly"];
    rolling.push(("podUpdatePolicy", one_of(policies.map(Value::from))));
    let update = some_of(vec![
        ("type", one_of([json!("RollingUpdate"), json!("OnDelete")])),
        ("rollingUpdate", some_of(rolling)),
    ]);
    object(APPS_V1BETA1, "CloneSet", labels(), annotations(), spec(scale, update), status())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_v1alpha1_cloneset_comes_back_from_v1beta1_as_it_was(object in alpha()) {
        prop_assert_eq!(there_and_back(&object), object);
    }

    #[test]
    fn a_v1beta1_cloneset_comes_back_from_v1alpha1_as_it_was(object in beta()) {
        prop_assert_eq!(there_and_back(&object), object);
    }

    #[test]
    fn an_edit_in_v1alpha1_wins_and_the_rest_comes_back(object in beta(), replicas in 0..9i32, partition in 0..9i32) {
        let mut read = to_alpha(&object);
        read["spec"]["replicas"] = json!(replicas);
        read["spec"]["updateStrategy"]["partition"] = json!(partition);
        let written = to_beta(&read);

        // Reading again shows the edit, whatever was preserved before.
        let again = to_alpha(&written);
        prop_assert_eq!(&again["spec"]["replicas"], &json!(replicas));
        prop_assert_eq!(&again["spec"]["updateStrategy"]["partition"], &json!(partition));
        let before = &object["spec"]["scaleStrategy"];
        prop_assert_eq!(&written["spec"]["scaleStrategy"], before);
        let rolling = |it: &Value| it["spec"]["updateStrategy"]["rollingUpdate"].clone();
        for field in ["maxUnavailable", "maxSurge", "paused", "podUpdatePolicy", "inPlaceUpdateStrategy"] {
            prop_assert_eq!(&rolling(&written)[field], &rolling(&object)[field], "{}", field);
        }
    }

    #[test]
    fn an_edit_in_v1beta1_wins_over_what_v1alpha1_said(object in alpha()) {
        let mut stored = to_beta(&object);
        stored["spec"]["updateStrategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {
            "podUpdatePolicy": "InPlaceOnly", "partition": 77, "maxUnavailable": "77%", "maxSurge": 77, "paused": true}});
        stored["spec"]["scaleStrategy"] = json!({"enablePVCReuse": false, "podsToDelete": ["edited"]});
        let read = to_alpha(&stored);
        let update = &read["spec"]["updateStrategy"];
        prop_assert_eq!(&update["type"], "InPlaceOnly");
        prop_assert_eq!(&update["partition"], 77);
        prop_assert_eq!(&update["maxUnavailable"], "77%");
        prop_assert_eq!(&update["maxSurge"], 77);
        prop_assert_eq!(&read["spec"]["scaleStrategy"], &json!({"disablePVCReuse": true, "podsToDelete": ["edited"]}));
    }
}

fn cloneset(api_version: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    spec["template"] = json!({"metadata": {"labels": {"app": "web"}}});
    json!({"apiVersion": api_version, "kind": "CloneSet", "metadata": {"name": "web"}, "spec": spec})
}

#[test]
fn types_of_v1alpha1_become_a_type_and_a_policy() {
    for policy in ["ReCreate", "InPlaceIfPossible", "InPlaceOnly"] {
        let alpha = cloneset(APPS_V1ALPHA1, json!({"updateStrategy": {"type": policy, "partition": 3}}));
        let beta = to_beta(&alpha);
        assert_eq!(
            beta["spec"]["updateStrategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": policy, "partition": 3}})
        );
        assert!(!has_preserved(&beta));
    }
    let nothing = to_beta(&cloneset(APPS_V1ALPHA1, json!({})));
    assert_eq!(
        nothing["spec"]["updateStrategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "ReCreate"}})
    );
}

#[test]
fn on_delete_keeps_its_numbers_out_of_v1beta1_and_gets_them_back() {
    let alpha = cloneset(APPS_V1ALPHA1, json!({"updateStrategy": {"type": "OnDelete", "partition": 3}}));
    let mut beta = to_beta(&alpha);
    assert_eq!(beta["spec"]["updateStrategy"], json!({"type": "OnDelete"}));
    assert_eq!(to_alpha(&beta), alpha);

    // A v1beta1 user who turns to rolling updates has said something newer.
    beta["spec"]["updateStrategy"] = json!({"type": "RollingUpdate"});
    let read = to_alpha(&beta);
    assert_eq!(read["spec"]["updateStrategy"], json!({"type": "ReCreate"}));
    assert_eq!(to_beta(&read)["spec"]["updateStrategy"], json!({"type": "RollingUpdate"}));
}

#[test]
fn claims_are_reused_by_default_in_v1alpha1_only() {
    let beta = to_beta(&cloneset(APPS_V1ALPHA1, json!({})));
    assert_eq!(beta["spec"]["scaleStrategy"], json!({"enablePVCReuse": true}));
    let alpha = to_alpha(&cloneset(APPS_V1BETA1, json!({})));
    assert_eq!(alpha["spec"]["scaleStrategy"], json!({"disablePVCReuse": true}));
}

#[test]
fn the_label_for_preparing_deletes_is_the_field_in_v1beta1() {
    let mut alpha = cloneset(APPS_V1ALPHA1, json!({}));
    alpha["metadata"]["labels"] = json!({keys::SCALING_EXCLUDE_PREPARING_DELETE: "true"});
    let beta = to_beta(&alpha);
    assert_eq!(beta["spec"]["scaleStrategy"]["excludePreparingDelete"], true);
    assert_eq!(beta["metadata"]["labels"], alpha["metadata"]["labels"]);
}

#[test]
fn the_field_for_preparing_deletes_survives_v1alpha1_until_the_label_changes() {
    let beta = cloneset(APPS_V1BETA1, json!({"scaleStrategy": {"excludePreparingDelete": true}}));
    let mut alpha = to_alpha(&beta);
    assert_eq!(alpha["spec"]["scaleStrategy"], json!({"disablePVCReuse": true}));
    alpha["spec"]["replicas"] = json!(5);
    assert_eq!(to_beta(&alpha)["spec"]["scaleStrategy"]["excludePreparingDelete"], true);
    alpha["metadata"]["labels"] = json!({keys::SCALING_EXCLUDE_PREPARING_DELETE: "false"});
    assert_eq!(to_beta(&alpha)["spec"]["scaleStrategy"].get("excludePreparingDelete"), None);
}

#[test]
fn predownload_annotations_are_fields_in_v1beta1() {
    let mut alpha = cloneset(APPS_V1ALPHA1, json!({"updateStrategy": {"type": "InPlaceOnly"}}));
    alpha["metadata"]["annotations"] = json!({
        keys::PREDOWNLOAD_PARALLELISM: "50%",
        keys::PREDOWNLOAD_TIMEOUT_SECONDS: "60",
        keys::PREDOWNLOAD_MIN_UPDATED_READY_PODS: "10%",
    });
    let beta = to_beta(&alpha);
    assert_eq!(
        beta["spec"]["updateStrategy"]["rollingUpdate"]["inPlaceUpdateStrategy"],
        json!({"imagePreDownloadParallelism": "50%", "imagePreDownloadTimeoutSeconds": 60})
    );
    let mut edited = beta.clone();
    edited["spec"]["updateStrategy"]["rollingUpdate"]["inPlaceUpdateStrategy"] =
        json!({"imagePreDownloadParallelism": 4});
    let read = to_alpha(&edited);
    assert_eq!(read["metadata"]["annotations"][keys::PREDOWNLOAD_PARALLELISM], "4");
    assert_eq!(to_alpha(&beta), alpha);
}

#[test]
fn a_plain_object_travels_without_the_annotation() {
    let alpha = cloneset(APPS_V1ALPHA1, json!({"updateStrategy": {"type": "InPlaceOnly", "maxSurge": 0}}));
    assert!(!has_preserved(&to_beta(&alpha)));
    let beta = cloneset(
        APPS_V1BETA1,
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "ReCreate"}}}),
    );
    assert!(!has_preserved(&to_alpha(&beta)));
}
