//! Requests that no client in its right mind sends: they are refused, and nothing panics.

use http::Method;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sim::{World, fleet};

use crate::kit::*;

const PODS: &str = "/api/v1/namespaces/default/pods";

fn refusal(world: &World, method: Method, path: &str, body: &Value) -> (u16, &'static str, String) {
    let failure = world.write("member-1", method, path, body).unwrap_err();
    (failure.code, failure.reason, failure.message)
}

#[test]
fn a_patch_that_leaves_no_object_is_refused() {
    bare(async |world| {
        let maps = maps(&client(&world));
        maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        let answer = async |patch: Patch<Value>| {
            let error = maps.patch("a", &PatchParams::default(), &patch).await.unwrap_err();
            let status = status(&error);
            (status["code"].as_u64().unwrap(), status["message"].as_str().unwrap_or_default().to_owned())
        };
        let no_map = |found: &str| {
            format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")
        };
        for (body, found) in [(json!("x"), "string"), (json!(5), "number"), (json!([1]), "array")] {
            let message = format!("error decoding patch: {}", no_map(found));
            assert_eq!(answer(Patch::Merge(body.clone())).await, (400, message));
            assert_eq!(answer(Patch::Strategic(body)).await, (400, no_map(found)));
        }
        assert_eq!(answer(Patch::Merge(Value::Null)).await, (400, "Invalid JSON Patch".to_owned()));
        for value in [json!([1]), json!("x"), json!(null)] {
            let steps = from(json!([{"op": "replace", "path": "", "value": value}]));
            assert_eq!(answer(Patch::Json::<Value>(steps)).await.0, 422, "{value}");
        }
        let kept = maps.get("a").await.unwrap();
        assert_eq!(kept.data.unwrap()["k"], "1");
    });
}

#[test]
fn a_member_of_the_wrong_sort_is_refused() {
    fleet().nodes(1).seed(1).define(widget_definition()).run(async |world| {
        world.create_pod("member-1", "a", "nginx:1");
        let path = format!("{PODS}/a");
        let (code, reason, message) =
            refusal(&world, Method::PATCH, &format!("{path}/status"), &json!({"status": "x"}));
        assert_eq!((code, reason), (422, "Invalid"));
        let cause = "json: cannot unmarshal string into Go struct field Pod.status of type v1.PodStatus";
        assert!(message.starts_with(" \"\" is invalid: patch: Invalid value: "), "{message}");
        assert!(message.ends_with(cause), "{message}");

        let mut pod = read(&world, &path);
        pod["status"] = json!([]);
        let (code, reason, message) = refusal(&world, Method::PUT, &format!("{path}/status"), &pod);
        assert_eq!((code, reason), (400, "BadRequest"));
        assert!(message.starts_with("Pod in version \"v1\" cannot be handled as a Pod: json: "), "{message}");

        let wrong = [
            json!({"metadata": "x"}),
            json!({"metadata": {"name": "b", "labels": ["x"]}}),
            json!({"metadata": {"name": {}}, "spec": {}}),
            json!({"metadata": {"name": "b"}, "spec": "x"}),
            json!({"metadata": {"name": "b"}, "spec": {"containers": {"name": "main"}}}),
            json!({"metadata": {"name": "b"}, "spec": {"containers": ["main"]}}),
        ];
        for body in &wrong {
            assert_eq!(refusal(&world, Method::POST, PODS, body).0, 400, "{body}");
        }
        let widgets = "/apis/example.com/v1/namespaces/default/widgets";
        for body in [json!({"metadata": ["x"]}), json!({"metadata": {"name": "b", "finalizers": "x"}})] {
            assert_eq!(refusal(&world, Method::POST, widgets, &body).0, 400, "{body}");
        }
        world.all_ready("member-1", secs(60)).await;
    });
}

#[test]
fn no_number_of_seconds_is_too_great() {
    with_nodes(7, async |world| {
        let greatest = i64::MAX;
        let body = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
            "spec": {
                "terminationGracePeriodSeconds": greatest,
                "tolerations": [{"operator": "Exists", "tolerationSeconds": greatest}],
                "containers": [
                    {"name": "slow", "image": "nginx:1", "readinessProbe": {"initialDelaySeconds": u64::MAX},
                     "lifecycle": {"preStop": {"sleep": {"seconds": u64::MAX}}}},
                    {"name": "main", "image": "nginx:1"},
                ],
            },
        });
        write(&world, Method::POST, PODS, body);
        world.pass(secs(60)).await;
        world.registry("docker.io").slow(std::time::Duration::MAX);
        world.create_pod("member-1", "b", "nginx:2");
        world.pass(secs(60)).await;
        let pod = read(&world, &format!("{PODS}/a"));
        let node = pod["spec"]["nodeName"].as_str().unwrap();
        let runtime = world.runtime("member-1", node);
        let id = runtime.containers().await[0].id.clone();
        let command = vec!["sleep".to_owned(), u64::MAX.to_string()];
        assert!(tokio::time::timeout(secs(9), runtime.exec(&id, command)).await.is_err());

        world.lose_node("member-1", node);
        world.pass(secs(60)).await;
        world.return_node("member-1", node);
        write(&world, Method::DELETE, &format!("{PODS}/a"), Value::Null);
        world.pass(secs(3_600)).await;
        let pod = read(&world, &format!("{PODS}/a"));
        assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], greatest);
        let path = format!("{PODS}/a?gracePeriodSeconds=60");
        write(&world, Method::DELETE, &path, Value::Null);
        world.pass(secs(90)).await;
        assert!(world.cluster("member-1").server().get("pods", "default", "a").is_none());

        let (code, reason, message) = refusal(
            &world,
            Method::DELETE,
            &format!("{PODS}/b?gracePeriodSeconds={}", u64::MAX),
            &Value::Null,
        );
        let cause = "strconv.ParseInt: parsing \"18446744073709551615\": value out of range";
        assert_eq!((code, reason, message.as_str()), (400, "BadRequest", cause));
    });
}

#[test]
fn a_watch_may_ask_to_last_for_ever_or_for_no_time() {
    bare(async |world| {
        let lasts = async |seconds: i64| {
            let uri = format!("{PODS}?watch=true&timeoutSeconds={seconds}");
            let request = http::Request::get(uri).body(kube::client::Body::empty()).unwrap();
            let answer = client(&world).send(request).await.unwrap();
            let whole = http_body_util::BodyExt::collect(answer.into_body());
            let began = world.now();
            let ended = tokio::time::timeout(secs(86_400), whole).await.is_ok();
            ended.then(|| world.now().duration_since(began).as_secs())
        };
        assert_eq!(lasts(i64::MAX).await, None);
        assert_eq!(lasts(20).await, Some(20));
        assert_eq!(lasts(-5).await, Some(0));
        // No time is no answer: the server then chooses, between half an hour and an hour.
        let chosen = lasts(0).await.unwrap();
        assert!((1_800..=3_600).contains(&chosen), "{chosen}");
    });
}
