use std::sync::{Arc, Mutex};

use axum::{
    body::{Body, to_bytes},
    http::{Request, Response},
};
use tower::{BoxError, service_fn};

use super::*;

fn status(code: u16, causes: &[(&str, &str, &str)]) -> Status {
    let causes: Vec<_> = causes
        .iter()
        .map(|(reason, field, message)| json!({"reason": reason, "field": field, "message": message}))
        .collect();
    let value = json!({
        "status": "Failure", "code": code, "message": "refused", "reason": "Invalid", "details": {"causes": causes},
    });
    serde_json::from_value(value).unwrap()
}

fn judged(causes: &[(&str, &str, &str)]) -> Vec<String> {
    let template = json!({"spec": {"volumes": [{"name": "own"}]}});
    match Answer::of(&status(422, causes), &template) {
        Answer::Judged(faults) => faults.iter().map(ToString::to_string).collect(),
        Answer::Silent(why) => panic!("{why}"),
    }
}

#[test]
fn the_probe_has_a_volume_per_claim_and_nothing_that_we_judge_ourselves() {
    let template = json!({
        "metadata": {"labels": {"a": "b"}, "annotations": {"controller.kubernetes.io/pod-deletion-cost": "x", "k": "v"}},
        "spec": {
            "restartPolicy": "Never", "activeDeadlineSeconds": 5, "hostNetwork": true, "unknown": 1,
            "volumes": [{"name": "own", "emptyDir": {}}],
            "containers": [{"name": "c", "ports": [{"containerPort": 80}]}],
        },
    });
    let expected = json!({
        "metadata": {"labels": {"a": "b"}, "annotations": {"k": "v"}},
        "spec": {
            "hostNetwork": true, "unknown": 1,
            "volumes": [
                {"name": "own", "emptyDir": {}}, {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            ],
            "containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 80}]}],
        },
    });
    let probe = probe(&template, &["own".to_owned(), "data".to_owned()]);
    assert_eq!((&probe["kind"], &probe["template"]), (&json!("PodTemplate"), &expected));
    assert_eq!(super::probe(&json!({"spec": {}}), &[])["template"], json!({"spec": {}}));
}

#[test]
fn causes_are_told_where_the_user_wrote_them() {
    let got = judged(&[
        ("FieldValueRequired", "template.spec.containers[0].image", "Required value"),
        ("FieldValueInvalid", "template.spec.containers[0].name", "Invalid value: \"A\": must be lower case"),
        (
            "FieldValueNotSupported",
            "template.spec.dnsPolicy",
            "Unsupported value: \"x\": supported values: \"None\"",
        ),
        ("FieldValueTooLong", "template.labels", "Too long: may not be longer than 63"),
        ("FieldValueInvalid", "metadata.namespace", "Invalid value: \"\": no"),
    ]);
    let expected = [
        "spec.template.spec.containers[0].image: Required value",
        "spec.template.spec.containers[0].name: Invalid value: \"A\": must be lower case",
        "spec.template.spec.dnsPolicy: Unsupported value: \"x\": supported values: \"None\"",
        "spec.template.metadata.labels: Invalid value: Too long: may not be longer than 63",
        "spec.template: Invalid value: \"\": no",
    ];
    assert_eq!(got, expected);
}

#[test]
fn volumes_that_are_only_in_the_probe_are_nobodys_fault() {
    let got = judged(&[
        ("FieldValueInvalid", "template.spec.volumes[0].name", "Invalid value: \"A\": no"),
        ("FieldValueInvalid", "template.spec.volumes[1].name", "Invalid value: \"A\": no"),
    ]);
    assert_eq!(got, ["spec.template.spec.volumes[0].name: Invalid value: \"A\": no"]);
}

#[test]
fn what_openkruise_lets_pass_passes() {
    let spec = "template.spec";
    let pass = [
        format!("{spec}.topologySpreadConstraints[0].labelSelector.matchLabels"),
        format!(
            "{spec}.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.\
             matchExpressions[0].values[0]"
        ),
    ];
    for field in &pass {
        assert!(judged(&[("FieldValueInvalid", field, "Invalid value: no")]).is_empty(), "{field}");
    }
    let pages = format!("{spec}.containers[0].resources.limits[hugepages-2Mi]");
    let not_multiple = "Invalid value: \"3Mi\": hugepages-2Mi is not positive integer multiple of 2Mi";
    assert!(judged(&[("FieldValueInvalid", &pages, not_multiple)]).is_empty());
    for field in [
        pages,
        format!("{spec}.topologySpreadConstraints[0].maxSkew"),
        format!("{spec}.affinity.podAffinity"),
    ] {
        assert_eq!(judged(&[("FieldValueInvalid", &field, "Invalid value: no")]).len(), 1, "{field}");
    }
}

#[test]
fn a_template_of_wrong_types_is_at_fault_as_a_whole() {
    for code in [400, 422] {
        let answer = Answer::of(&status(code, &[]), &json!({}));
        let Answer::Judged(faults) = answer else { panic!("{answer:?}") };
        assert_eq!(faults[0].to_string(), "spec.template: Invalid value: refused");
    }
}

/// Asks an API server that gives this answer; tells the request's target and body too.
async fn asked(code: u16, body: Value) -> (Answer, String, Value) {
    let seen = Arc::new(Mutex::new((String::new(), Value::Null)));
    let noting = Arc::clone(&seen);
    let service = service_fn(move |request: Request<kube::client::Body>| {
        let (noting, body) = (Arc::clone(&noting), body.clone());
        async move {
            let target = request.uri().to_string();
            let sent = to_bytes(Body::new(request.into_body()), usize::MAX).await.unwrap();
            *noting.lock().unwrap() = (target, serde_json::from_slice(&sent).unwrap());
            let body = Body::from(serde_json::to_vec(&body).unwrap());
            Ok::<_, BoxError>(Response::builder().status(code).body(body).unwrap())
        }
    });
    let template = json!({"spec": {"containers": [{"name": "c", "newField": 1}]}});
    let answer = ask(Client::new(service, "default"), "ns", &template, &[]).await;
    let (target, sent) = seen.lock().unwrap().clone();
    (answer, target, sent)
}

#[tokio::test]
async fn the_api_server_is_asked_without_storing_anything_and_with_every_field() {
    let stored = json!({"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}});
    let (answer, target, sent) = asked(201, stored).await;
    assert_eq!(answer, Answer::Judged(Vec::new()));
    assert!(
        target.contains("/api/v1/namespaces/ns/podtemplates?") && target.contains("dryRun=All"),
        "{target}"
    );
    assert_eq!(sent["template"]["spec"]["containers"][0]["newField"], 1);
}

#[tokio::test]
async fn a_refusal_of_the_question_is_no_judgement_and_names_the_permission() {
    for code in [403, 404, 429, 500] {
        let body =
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "code": code});
        let (answer, ..) = asked(code, body).await;
        let Err(Verdict::Denied(denial)) = answer.into_faults() else { panic!("{code} was let pass") };
        assert_eq!(denial.code, 500);
        assert!(denial.message.contains("create podtemplates"), "{}", denial.message);
    }
}

#[tokio::test]
async fn faults_in_an_answer_are_faults_of_the_object() {
    let cause = ("FieldValueRequired", "template.spec.containers[0].image", "Required value");
    let (answer, ..) = asked(422, serde_json::to_value(status(422, &[cause])).unwrap()).await;
    assert_eq!(answer.into_faults().unwrap()[0].path, "spec.template.spec.containers[0].image");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_does_not_answer_is_not_waited_for_beyond_the_webhooks_own_time() {
    let service = service_fn(|_: Request<kube::client::Body>| {
        std::future::pending::<Result<Response<Body>, BoxError>>()
    });
    let answer = ask(Client::new(service, "default"), "ns", &json!({"spec": {}}), &[]).await;
    let Answer::Silent(why) = answer else { panic!("{answer:?}") };
    assert!(why.contains("did not answer within 7s"), "{why}");
}
