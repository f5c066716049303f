use super::*;
use crate::api::convert::Error;

proptest! {
    #[test]
    fn objects_of_any_shape_are_answered_without_a_panic(
        kind in "CloneSet|SidecarSet|NodeImage|ContainerRecreateRequest|ResourceDistribution|ImagePullJob|Pod",
        alpha in any::<bool>(),
        metadata in any_json(),
        annotations in any_json(),
        scale in any_json(),
        update in any_json(),
        spec in any_json(),
        nested in any::<bool>(),
        preserved in any_json(),
    ) {
        let (here, there) =
            if alpha { (APPS_V1ALPHA1, APPS_V1BETA1) } else { (APPS_V1BETA1, APPS_V1ALPHA1) };
        let metadata = if nested {
            json!({"annotations": {PRESERVED: json!({there: preserved}).to_string(), "x": annotations}})
        } else {
            metadata
        };
        let spec = if nested {
            json!({"scaleStrategy": scale, "updateStrategy": update, "images": scale, "targets": update,
                "namespace": scale, "containers": update})
        } else {
            spec
        };
        let object = json!({"apiVersion": here, "kind": kind, "metadata": metadata, "spec": spec, "status": update});
        let _ = convert(object, there);
    }
}

#[test]
fn a_crafted_annotation_writes_no_other_field_and_no_wrong_type() {
    let mut alpha = json!({"apiVersion": APPS_V1ALPHA1, "kind": "CloneSet", "metadata": {"name": "web"}, "spec": {
        "replicas": 1, "selector": {}, "template": {}}});
    let plain = to_beta(&alpha);
    let crafted = json!({APPS_V1BETA1: {
        "spec/replicas": {"kept": 99, "when": []},
        "spec/scaleStrategy/excludePreparingDelete": {"kept": {"not": "a bool"}, "when": [null]},
    }});
    for text in [crafted.to_string(), "{".to_owned(), "[]".to_owned(), "7".to_owned(), String::new()] {
        alpha["metadata"]["annotations"] = json!({PRESERVED: text});
        assert_eq!(to_beta(&alpha), plain, "{text}");
    }
}

#[test]
fn what_cannot_be_converted_is_refused_with_a_reason() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod"});
    let unknown = convert(pod, APPS_V1BETA1).unwrap_err();
    assert_eq!(unknown.to_string(), "there is no conversion for Pod of v1");
    let cloneset = json!({"apiVersion": APPS_V1BETA1, "kind": "CloneSet"});
    let wrong = convert(cloneset.clone(), "apps.kruise.io/v2").unwrap_err();
    assert_eq!(wrong.to_string(), "CloneSet cannot be converted to apps.kruise.io/v2");
    assert_eq!(convert(json!({}), APPS_V1BETA1), Err(Error::NotAnObject { field: "apiVersion" }));
    assert_eq!(convert(cloneset.clone(), APPS_V1BETA1), Ok(cloneset));
}
