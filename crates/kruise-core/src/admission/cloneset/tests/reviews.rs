use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{
    body::Body,
    http::{Request, Response},
};
use kube::Client;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::{BOTH, Version, cloneset, pod, with};
use crate::{
    admission::cloneset::{
        REGISTRATIONS, Setup,
        reviews::{mutated, validated},
    },
    runtime::{
        gates::{Gate, Gates},
        webhook::{AdmissionRequest, Denial, Verdict, registration},
    },
};

const BETA: Version = Version::V1Beta1;

fn request(operation: &str, version: &str, new: Option<Value>, old: Option<Value>) -> AdmissionRequest {
    let request = json!({
        "uid": "1", "operation": operation, "name": "foo", "namespace": "ns",
        "kind": {"group": "apps.kruise.io", "version": version, "kind": "CloneSet"},
        "resource": {"group": "apps.kruise.io", "version": version, "resource": "clonesets"},
        "object": new, "oldObject": old,
    });
    serde_json::from_value(request).unwrap()
}

fn name(version: Version) -> &'static str {
    match version {
        Version::V1Alpha1 => "v1alpha1",
        Version::V1Beta1 => "v1beta1",
    }
}

/// An API server that gives every template this answer, and how often it was asked.
fn server(code: u16, body: Value) -> (Setup, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let service = service_fn(move |_: Request<kube::client::Body>| {
        count.fetch_add(1, Ordering::SeqCst);
        let body = Body::from(serde_json::to_vec(&body).unwrap());
        async move { Ok::<_, BoxError>(Response::builder().status(code).body(body).unwrap()) }
    });
    let pods = Arc::new(|namespace: &str, name: &str| pod(name).filter(|_| namespace == "ns"));
    let client = Client::new(service, "default");
    (Setup { gates: Gates::defaults(), client, pods: Some(pods) }, asked)
}

fn content() -> (Setup, Arc<AtomicUsize>) {
    server(201, json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}}))
}

fn refusing() -> Value {
    let cause = json!({
        "reason": "FieldValueRequired", "field": "template.spec.containers[0].image", "message": "Required value",
    });
    json!({
        "kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid", "message": "no",
        "details": {"causes": [cause]},
    })
}

fn denial(verdict: Verdict) -> Denial {
    match verdict {
        Verdict::Denied(denial) => denial,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_table_names_both_webhooks_and_is_sound() {
    assert_eq!(registration::check(REGISTRATIONS), [""; 0]);
    let rows: Vec<_> =
        REGISTRATIONS.iter().map(|it| (it.name, it.path, it.operations.len(), it.versions.len())).collect();
    let expected = [
        ("mcloneset.kb.io", "/mutate-apps-kruise-io-cloneset", 2, 2),
        ("vcloneset.kb.io", "/validate-apps-kruise-io-cloneset", 3, 2),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn defaults_come_back_as_a_patch_and_only_where_there_are_any() {
    for version in BOTH {
        let mut bare = cloneset(version);
        bare["spec"].as_object_mut().unwrap().remove("replicas");
        bare["spec"]["template"]["spec"]["newField"] = json!(1);
        let Verdict::Patched { object, .. } =
            mutated(&request("CREATE", name(version), Some(bare), None), Gates::defaults())
        else {
            panic!("nothing was filled in")
        };
        assert_eq!(
            (&object["spec"]["replicas"], &object["spec"]["template"]["spec"]["newField"]),
            (&json!(1), &json!(1))
        );
        let again = mutated(&request("CREATE", name(version), Some(object), None), Gates::defaults());
        assert_eq!(again, Verdict::allow());
    }
}

#[tokio::test]
async fn what_cannot_be_read_is_a_bad_request() {
    let (setup, _) = content();
    let typed = with(cloneset(BETA), "/spec/replicas", json!("five"));
    for request in [
        request("CREATE", "v1", Some(cloneset(BETA)), None),
        request("CREATE", "v1beta1", None, None),
        request("CREATE", "v1beta1", Some(typed), None),
    ] {
        assert_eq!(denial(validated(&request, &setup).await).code, 400);
        assert_eq!(denial(mutated(&request, setup.gates)).code, 400);
    }
    // Words out of place and missing fields are faults of fields, not of the request.
    let word = with(cloneset(BETA), "/spec/updateStrategy/type", json!("Slow"));
    let word = with(word, "/spec/selector", Value::Null);
    assert_eq!(denial(validated(&request("CREATE", "v1beta1", Some(word), None), &setup).await).code, 422);
}

#[tokio::test]
async fn a_template_is_judged_when_it_is_new_and_not_again() {
    for version in BOTH {
        let (setup, asked) = content();
        let old = cloneset(version);
        let ask = async |new: Value, old: Option<&Value>| {
            let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
            let verdict =
                validated(&request(operation, name(version), Some(new), old.cloned()), &setup).await;
            assert!(matches!(verdict, Verdict::Allowed { .. }), "{verdict:?}");
            asked.swap(0, Ordering::SeqCst)
        };
        assert_eq!(ask(old.clone(), None).await, 1);
        assert_eq!(ask(with(old.clone(), "/spec/replicas", json!(9)), Some(&old)).await, 0);
        assert_eq!(
            ask(with(old.clone(), "/spec/template/spec/containers/0/image", json!("j")), Some(&old)).await,
            1
        );
        let claimed = with(old.clone(), "/spec/volumeClaimTemplates", json!([{"metadata": {"name": "a"}}]));
        assert_eq!(ask(claimed, Some(&old)).await, 1);
    }
}

#[tokio::test]
async fn faults_of_the_template_and_of_the_rest_are_told_together() {
    let (setup, _) = server(422, refusing());
    let bad = with(cloneset(BETA), "/spec/replicas", json!(-1));
    let denial = denial(validated(&request("CREATE", "v1beta1", Some(bad), None), &setup).await);
    let paths: Vec<_> = denial.causes.iter().map(|it| it.path.as_str()).collect();
    assert_eq!((denial.code, paths), (422, vec!["spec.replicas", "spec.template.spec.containers[0].image"]));
}

#[tokio::test]
async fn an_api_server_that_does_not_judge_lets_nothing_pass() {
    let body = json!({"kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "not you"});
    let (setup, _) = server(403, body);
    let unknown = denial(validated(&request("CREATE", "v1beta1", Some(cloneset(BETA)), None), &setup).await);
    assert_eq!(unknown.code, 500);
    assert!(
        unknown.message.contains("create podtemplates") && unknown.message.contains("not you"),
        "{}",
        unknown.message
    );
    // What is wrong anyway is told as such.
    let bad = with(cloneset(BETA), "/spec/replicas", json!(-1));
    assert_eq!(denial(validated(&request("CREATE", "v1beta1", Some(bad), None), &setup).await).code, 422);
}

#[tokio::test]
async fn pods_are_looked_up_in_the_namespace_and_warnings_are_passed_on() {
    let (setup, _) = content();
    let naming = |pod: &str| {
        let it = with(cloneset(BETA), "/spec/scaleStrategy/podsToDelete", json!([pod]));
        let it = with(it, "/spec/lifecycle", json!({"preDelete": {}}));
        request("CREATE", "v1beta1", Some(it), None)
    };
    let Verdict::Allowed { warnings } = validated(&naming("foo-a"), &setup).await else { panic!() };
    assert_eq!(warnings.len(), 1);
    let refused = denial(validated(&naming("bar-a"), &setup).await);
    assert_eq!((refused.code, refused.warnings.len()), (422, 1));
    let trusting = Setup { pods: None, ..setup };
    assert!(matches!(validated(&naming("bar-a"), &trusting).await, Verdict::Allowed { .. }));
}

#[tokio::test]
async fn deletion_of_a_protected_object_is_forbidden() {
    let (setup, asked) = content();
    let labels = json!({"policy.kruise.io/delete-protection": "Always"});
    let protected = with(cloneset(BETA), "/metadata/labels", labels);
    let delete = |old| request("DELETE", "v1beta1", None, old);
    assert_eq!(validated(&delete(Some(protected.clone())), &setup).await, Verdict::allow());
    let setup = Setup { gates: setup.gates.with(Gate::ResourcesDeletionProtection, true), ..setup };
    assert_eq!(denial(validated(&delete(Some(protected)), &setup).await).code, 403);
    assert_eq!(validated(&delete(None), &setup).await, Verdict::allow());
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}
