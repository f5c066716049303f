//! What goes over the wire, and what is made of it.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::replica::{conversion as conversion_review, decode, review as sample};
use crate::runtime::webhook::{
    FieldError, FieldFault, Verdict, conversion,
    review::{self, Question},
    verdict::patch,
};

fn question(review: &Value) -> Question {
    review::decode(&serde_json::to_vec(review).unwrap()).unwrap()
}

#[test]
fn both_versions_of_the_envelope_are_answered_in_kind() {
    for version in ["admission.k8s.io/v1", "admission.k8s.io/v1beta1"] {
        let mut review = sample(1);
        review["apiVersion"] = json!(version);
        let answer = review::encode(&question(&review), &Verdict::allow());
        let expected = json!({ "apiVersion": version, "kind": "AdmissionReview", "response": { "uid": "u1", "allowed": true } });
        assert_eq!(answer, expected);
    }
}

#[test]
fn an_envelope_of_another_kind_is_refused() {
    let mut other_kind = sample(1);
    other_kind["kind"] = json!("ConversionReview");
    let mut other_version = sample(1);
    other_version["apiVersion"] = json!("admission.k8s.io/v2");
    let mut empty = sample(1);
    empty["request"] = Value::Null;
    let mut no_operation = sample(1);
    no_operation["request"]["operation"] = json!("SMILE");
    for it in [other_kind, other_version, empty, no_operation, json!(null), json!([])] {
        assert!(review::decode(&serde_json::to_vec(&it).unwrap()).is_err(), "{it}");
    }
    assert!(review::decode(b"{").is_err());
}

#[test]
fn a_request_names_its_object_however_little_is_known() {
    let mut review = sample(1);
    assert_eq!(question(&review).request.subject(), "Widget default/w");
    review["request"]["name"] = json!("");
    review["request"]["namespace"] = Value::Null;
    review["request"]["object"]["metadata"] = json!({ "generateName": "w-" });
    assert_eq!(question(&review).request.subject(), "Widget w-");
    review["request"]["object"] = json!("not even an object");
    assert_eq!(question(&review).request.subject(), "Widget (no name)");
}

#[test]
fn a_change_is_sent_as_a_patch_of_the_tree_and_no_change_as_none() {
    let question = question(&sample(1));
    let object = question.request.object.clone().unwrap();
    let unchanged = review::encode(&question, &Verdict::patched(object.clone()));
    assert_eq!(unchanged["response"], json!({ "uid": "u1", "allowed": true }));

    let mut changed = object;
    changed["spec"]["replicas"] = json!(2);
    let answer = review::encode(&question, &Verdict::patched(changed).warn("changed"));
    assert_eq!(answer["response"]["patchType"], "JSONPatch");
    assert_eq!(answer["response"]["warnings"], json!(["changed"]));
    let patch: Value = serde_json::from_slice(&decode(&answer["response"]["patch"])).unwrap();
    assert_eq!(patch, json!([{ "op": "replace", "path": "/spec/replicas", "value": 2 }]));
}

#[test]
fn a_denial_carries_its_code_and_every_field() {
    let question = question(&sample(1));
    let errors = vec![
        FieldError::invalid("spec.replicas", json!(-1), "must not be negative"),
        FieldError::required("spec.selector", ""),
        FieldError {
            path: "spec.type".to_owned(),
            fault: FieldFault::NotSupported,
            value: Some(json!("x")),
            detail: "supported values: \"a\"".to_owned(),
        },
    ];
    let answer = review::encode(&question, &Verdict::invalid(errors));
    let status = &answer["response"]["status"];
    assert_eq!(answer["response"]["allowed"], false);
    assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
    assert_eq!(
        status["message"],
        "[spec.replicas: Invalid value: -1: must not be negative, spec.selector: Required value, \
         spec.type: Unsupported value: \"x\": supported values: \"a\"]"
    );
    let causes = status["details"]["causes"].as_array().unwrap();
    let expected = json!({ "reason": "FieldValueInvalid", "field": "spec.replicas", "message": "Invalid value: -1: must not be negative" });
    assert_eq!((causes.len(), &causes[0]), (3, &expected));

    let one = Verdict::invalid(vec![FieldError::forbidden("spec", "is immutable")]);
    let answer = review::encode(&question, &one);
    assert_eq!(answer["response"]["status"]["message"], "spec: Forbidden: is immutable");
    assert_eq!(Verdict::invalid(Vec::new()), Verdict::allow());
    let answer = review::encode(&question, &Verdict::denied(403, "no"));
    assert_eq!(answer["response"]["status"]["reason"], "Forbidden");
}

#[test]
fn objects_are_converted_in_order_and_those_already_there_are_left_alone() {
    let mut review = conversion_review();
    let objects =
        ["v1alpha1", "v1beta1", "v1alpha1"].map(|it| json!({ "apiVersion": format!("apps.kruise.io/{it}") }));
    review["request"]["objects"] = json!(objects);
    let question = conversion::decode(&serde_json::to_vec(&review).unwrap()).unwrap();
    let converted = conversion::convert(question.objects, &question.desired, |object, to| {
        Ok(json!({ "was": object, "to": to }))
    });
    let answer = conversion::encode(&question.api_version, &question.uid, converted);
    assert_eq!(answer["apiVersion"], "apiextensions.k8s.io/v1");
    assert_eq!(answer["response"]["uid"], "c1");
    assert_eq!(answer["response"]["result"]["status"], "Success");
    let done = |it: &Value| json!({ "was": it, "to": "apps.kruise.io/v1beta1" });
    let expected = json!([done(&objects[0]), objects[1], done(&objects[2])]);
    assert_eq!(answer["response"]["convertedObjects"], expected);
}

#[test]
fn a_failed_conversion_says_which_object_and_returns_none() {
    let question = conversion::decode(&serde_json::to_vec(&conversion_review()).unwrap()).unwrap();
    let failed =
        conversion::convert(question.objects, &question.desired, |_, _| Err("no such version".to_owned()));
    let answer = conversion::encode(&question.api_version, &question.uid, failed);
    let result =
        json!({ "status": "Failure", "message": "Widget /w of apps.kruise.io/v1alpha1: no such version" });
    assert_eq!(answer["response"], json!({ "uid": "c1", "result": result, "convertedObjects": [] }));
}

fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[a-z~/\"\\\\ ]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-d~/.]{0,2}", inner, 0..5).prop_map(|it| json!(it)),
        ]
    })
}

proptest! {
    #[test]
    fn a_patch_leads_from_one_tree_to_the_other_exactly(from in tree(), to in tree()) {
        let mut patched = from.clone();
        if let Some(patch) = patch(&from, &to) {
            json_patch::patch(&mut patched, &serde_json::from_slice::<json_patch::Patch>(&patch).unwrap()).unwrap();
        }
        prop_assert_eq!(patched, to);
    }

    #[test]
    fn no_bytes_make_the_decoders_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(review::decode(&body).is_err());
        prop_assert!(conversion::decode(&body).is_err());
    }
}
