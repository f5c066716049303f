use super::*;

fn job(spec: Value) -> Value {
    let mut it = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "metadata": {"name": "j"},
        "spec": {"image": "nginx:1", "completionPolicy": {}},
    });
    json_patch::merge(&mut it, &json!({"spec": spec}));
    it
}

fn faults(spec: Value) -> Vec<String> {
    validate(&job(spec), None).into_iter().map(|it| it.path).collect()
}

#[test]
fn defaults_are_filled_in_and_own_values_stay() {
    let mut it = job(json!({"pullPolicy": {"timeoutSeconds": 5}}));
    mutate(&mut it, Operation::Create);
    assert_eq!(it["spec"]["pullPolicy"], json!({"timeoutSeconds": 5, "backoffLimit": 3}));
    assert_eq!(it["spec"]["completionPolicy"], json!({"type": "Always"}));
    assert_eq!(it["spec"]["imagePullPolicy"], "IfNotPresent");
    assert_eq!(it["spec"].get("parallelism"), None, "the controller knows its default");
    assert!(it["metadata"].get("finalizers").is_none());
    it["apiVersion"] = json!("apps.kruise.io/v1alpha1");
    mutate(&mut it, Operation::Update);
    assert!(it["metadata"].get("finalizers").is_none());
    mutate(&mut it, Operation::Create);
    mutate(&mut it, Operation::Create);
    assert_eq!(it["metadata"]["finalizers"], json!([FINALIZER]));
    let mut list = json!({"spec": {"images": ["a"], "completionPolicy": {"type": ""}}});
    mutate_list(&mut list);
    assert_eq!(list["spec"]["completionPolicy"]["type"], "Always");
    assert!(list["spec"].get("imagePullPolicy").is_none(), "its jobs fill it in");
}

#[test]
fn the_image_must_be_a_name() {
    assert!(faults(json!({})).is_empty());
    assert_eq!(faults(json!({"image": ""})), ["spec.image"]);
    assert_eq!(faults(json!({"image": "UPPER/case"})), ["spec.image"]);
}

#[test]
fn nodes_are_selected_in_one_way_only() {
    let labels = json!({"matchLabels": {"a": "b"}});
    assert_eq!(faults(json!({"selector": labels, "podSelector": labels})), ["spec.podSelector"]);
    let both = json!({"names": ["a"], "matchLabels": {"a": "b"}});
    assert_eq!(faults(json!({"selector": both})), ["spec.selector.names"]);
    assert_eq!(faults(json!({"selector": {"names": ["a", "b", "a"]}})), ["spec.selector.names[2]"]);
    let rule = |operator: &str, values: Value| {
        faults(
            json!({"podSelector": {"matchExpressions": [{"key": "k", "operator": operator, "values": values}]}}),
        )
    };
    assert!(rule("In", json!(["x"])).is_empty());
    assert!(rule("Exists", Value::Null).is_empty());
    assert_eq!(rule("In", json!([])), ["spec.podSelector.matchExpressions[0].values"]);
    assert_eq!(rule("Exists", json!(["x"])), ["spec.podSelector.matchExpressions[0].values"]);
    assert_eq!(rule("Like", json!(["x"])), ["spec.podSelector.matchExpressions[0].operator"]);
}

#[test]
fn parallelism_is_a_whole_number() {
    for good in [json!(0), json!(7), json!("3")] {
        assert!(faults(json!({"parallelism": good})).is_empty());
    }
    for bad in [json!(-1), json!("10%"), json!("x"), json!("-3")] {
        assert_eq!(faults(json!({"parallelism": bad})), ["spec.parallelism"], "{bad}");
    }
}

#[test]
fn a_job_that_never_ends_has_no_deadline() {
    let policy = |policy: Value| faults(json!({"completionPolicy": policy}));
    assert!(policy(json!({"type": "Never"})).is_empty());
    assert_eq!(
        policy(json!({"type": "Never", "activeDeadlineSeconds": 1000, "ttlSecondsAfterFinished": 1})),
        ["spec.completionPolicy.activeDeadlineSeconds", "spec.completionPolicy.ttlSecondsAfterFinished"]
    );
    assert_eq!(policy(json!({"type": "Sometimes"})), ["spec.completionPolicy.type"]);
    assert_eq!(
        policy(json!({"activeDeadlineSeconds": 599})),
        ["spec.completionPolicy.activeDeadlineSeconds"]
    );
    assert!(policy(json!({"activeDeadlineSeconds": 600})).is_empty());
    assert_eq!(faults(json!({"imagePullPolicy": "Maybe"})), ["spec.imagePullPolicy"]);
}

#[test]
fn secrets_never_change() {
    let (none, one) = (job(json!({})), job(json!({"pullSecrets": ["a"]})));
    assert!(validate(&one, Some(&one)).is_empty());
    let fault = validate(&one, Some(&none)).remove(0);
    assert_eq!(fault.to_string(), "spec.pullSecrets: Forbidden: spec.pullSecrets is immutable");
}

#[test]
fn lists_have_up_to_255_different_images_and_the_rules_of_their_jobs() {
    let check = |images: Value, policy: Value| -> Vec<String> {
        let it = json!({"spec": {"images": images, "completionPolicy": policy}});
        validate_list(&it).into_iter().map(|it| it.path).collect()
    };
    assert!(check(json!(["a", "b"]), json!({})).is_empty());
    assert_eq!(check(json!([]), json!({})), ["spec.images"]);
    assert_eq!(check(json!(["a", "B", "a"]), json!({})), ["spec.images[1]", "spec.images[2]"]);
    let many: Vec<String> = (0..256).map(|it| format!("i{it}")).collect();
    assert_eq!(check(json!(many), json!({})), ["spec.images"]);
    assert_eq!(
        check(json!(["a"]), json!({"activeDeadlineSeconds": 5})),
        ["spec.completionPolicy.activeDeadlineSeconds"],
        "here already, not only when the job is made"
    );
}

#[test]
fn a_refusal_by_a_gate_names_it() {
    let message = |text: &str| match gate(text.parse().unwrap()) {
        Err(Verdict::Denied(it)) => (it.code, it.message),
        other => panic!("{other:?}"),
    };
    let (code, text) = message("ImagePullJobGate=false");
    assert_eq!(code, 403);
    assert!(text.contains("feature-gate ImagePullJobGate is not enabled"), "{text}");
    assert!(message("KruiseDaemon=false,ImagePullJobGate=true").1.contains("KruiseDaemon"));
    assert!(gate("ImagePullJobGate=true".parse().unwrap()).is_ok());
}

#[test]
fn malformed_objects_cause_no_panic() {
    for mut object in
        [json!(null), json!([]), json!({"spec": 3}), json!({"spec": {"selector": 1, "images": 2}})]
    {
        mutate(&mut object, Operation::Create);
        mutate_list(&mut object);
        assert!(!validate(&object, None).is_empty());
        assert!(!validate_list(&object).is_empty());
    }
}

#[test]
fn whoever_edits_a_job_that_is_over_is_told_that_nothing_happens() {
    let gates: Gates = "ImagePullJobGate=true".parse().unwrap();
    let edit = |status: Value, change: Value| {
        let mut old = job(json!({}));
        old["status"] = status.clone();
        let mut new = job(change);
        new["status"] = status;
        let review = json!({
            "uid": "u", "operation": "UPDATE", "kind": {"group": "apps.kruise.io", "version": "v1beta1", "kind": "ImagePullJob"},
            "resource": {"group": "apps.kruise.io", "version": "v1beta1", "resource": "imagepulljobs"},
            "object": new, "oldObject": old,
        });
        let request: AdmissionRequest = serde_json::from_value(review).unwrap();
        match validating(&request, gates) {
            Verdict::Allowed { warnings } => warnings.len(),
            other => panic!("{other:?}"),
        }
    };
    let over = json!({"completionTime": "2026-01-01T00:00:00Z"});
    assert_eq!(edit(over.clone(), json!({"image": "nginx:2"})), 1);
    assert_eq!(edit(over.clone(), json!({"completionPolicy": {"ttlSecondsAfterFinished": 5}})), 0);
    assert_eq!(edit(over, json!({})), 0);
    assert_eq!(edit(Value::Null, json!({"image": "nginx:2"})), 0);
}
