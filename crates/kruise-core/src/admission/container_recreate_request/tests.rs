use super::*;

fn pod() -> Value {
    json!({
        "metadata": {"name": "web", "uid": "pod-uid"},
        "spec": {
            "nodeName": "n1", "terminationGracePeriodSeconds": 25,
            "containers": [
                {"name": "app", "lifecycle": {"preStop": {"exec": {"command": ["a"]}, "sleep": {"seconds": 1}}}, "ports": [{"containerPort": 1}]},
                {"name": "web", "lifecycle": {"preStop": {"httpGet": {"port": "x"}}}, "ports": [{"name": "x", "containerPort": 2}]},
            ],
            "initContainers": [{"name": "native", "restartPolicy": "Always"}],
        },
        "status": {
            "phase": "Running",
            "containerStatuses": [
                {"name": "app", "containerID": "containerd://1", "restartCount": 3},
                {"name": "web", "containerID": ""},
            ],
            "initContainerStatuses": [{"name": "native", "containerID": "containerd://9", "restartCount": 0}],
        },
    })
}

fn request(containers: Value, more: Value) -> Value {
    let mut it = json!({"metadata": {"name": "r"}, "spec": {"podName": "web", "containers": containers}});
    json_patch::merge(&mut it, &json!({"spec": more}));
    it
}

fn filled(request: &Value, pod: &Value) -> Result<Value, String> {
    let node = json!({"metadata": {"name": "n1"}});
    fill(request, &World { pod: Some(pod.clone()), node: Some(node) }).map_err(|it| {
        assert_eq!(it.code, 400);
        it.message
    })
}

#[test]
fn everything_the_node_needs_is_filled_in() {
    let it = filled(&request(json!([{"name": "app"}]), json!({})), &pod()).unwrap();
    assert_eq!(
        it["metadata"]["labels"],
        json!({"crr.apps.kruise.io/active": "true", "crr.apps.kruise.io/node-name": "n1", "crr.apps.kruise.io/pod-uid": "pod-uid"})
    );
    assert_eq!(it["spec"]["strategy"], json!({"failurePolicy": "Fail", "terminationGracePeriodSeconds": 25}));
    assert_eq!(
        it["spec"]["containers"][0],
        json!({
            "name": "app", "statusContext": {"containerID": "containerd://1", "restartCount": 3},
            "preStop": {"exec": {"command": ["a"]}},
        }),
        "ports only for an HTTP hook"
    );
}

#[test]
fn ports_come_with_an_http_hook_and_own_values_stay() {
    let mut pod = pod();
    pod["status"]["containerStatuses"][1]["containerID"] = json!("containerd://2");
    let strategy = json!({"strategy": {"terminationGracePeriodSeconds": 3, "failurePolicy": "Ignore"}});
    let it = filled(&request(json!([{"name": "web"}]), strategy), &pod).unwrap();
    assert_eq!(it["spec"]["containers"][0]["ports"], json!([{"name": "x", "containerPort": 2}]));
    assert_eq!(it["spec"]["strategy"]["terminationGracePeriodSeconds"], 3);
    assert_eq!(it["spec"]["strategy"]["failurePolicy"], "Ignore");
}

#[test]
fn a_sidecar_among_the_init_containers_can_be_restarted() {
    let it = filled(&request(json!([{"name": "native"}]), json!({})), &pod()).unwrap();
    assert_eq!(it["spec"]["containers"][0]["statusContext"]["containerID"], "containerd://9");
}

#[test]
fn what_cannot_be_done_is_refused_with_the_reason() {
    let app = || json!([{"name": "app"}]);
    for (request, reason) in [
        (request(app(), json!({"podName": ""})), "podName"),
        (request(json!([]), json!({})), "containers list"),
        (request(app(), json!({"activeDeadlineSeconds": 2})), "activeDeadlineSeconds"),
        (request(app(), json!({"strategy": {"unreadyGracePeriodSeconds": -1}})), "unreadyGracePeriodSeconds"),
        (request(app(), json!({"strategy": {"failurePolicy": "Maybe"}})), "unknown failurePolicy Maybe"),
        (request(json!([{"name": "app"}, {"name": "app"}]), json!({})), "duplicated container name app"),
        (request(json!([{"name": "other"}]), json!({})), "container other not found"),
        (request(json!([{"name": "web"}]), json!({})), "not found web containerID"),
        (request(json!([{"name": "app", "statusContext": {}}]), json!({})), "statusContext"),
    ] {
        let message = filled(&request, &pod()).unwrap_err();
        assert!(message.contains(reason), "{message:?} does not say {reason:?}");
    }
}

#[test]
fn pods_that_do_not_run_are_refused() {
    let one = request(json!([{"name": "app"}]), json!({}));
    let none = fill(&one, &World::default()).unwrap_err();
    assert_eq!((none.code, none.message.as_str()), (400, "no found Pod named web"));
    let with = |change: Value| {
        let mut pod = pod();
        json_patch::merge(&mut pod, &change);
        filled(&one, &pod)
    };
    let over = json!({"status": {"phase": "Succeeded"}});
    assert!(with(over.clone()).unwrap_err().contains("inactive Pod"));
    assert!(with(json!({"metadata": {"deletionTimestamp": "x"}})).unwrap_err().contains("inactive Pod"));
    assert!(with(json!({"spec": {"nodeName": null}})).unwrap_err().contains("pending Pod"));
    let mut terminated = over;
    terminated["status"]["conditions"] = json!([{"type": "SidecarTerminated"}]);
    assert!(with(terminated).is_ok());
    assert!(fill(&one, &World { pod: Some(pod()), node: None }).is_err());
}

#[test]
fn a_pod_on_a_virtual_node_is_marked() {
    let node = json!({"metadata": {"labels": {"type": "virtual-kubelet"}}});
    let one = request(json!([{"name": "app"}]), json!({}));
    let it = fill(&one, &World { pod: Some(pod()), node: Some(node) }).unwrap();
    assert_eq!(it["metadata"]["labels"]["type"], "virtual-kubelet");
}

#[test]
fn what_is_asked_for_and_of_whom_never_changes() {
    let code = |verdict: Verdict| match verdict {
        Verdict::Denied(it) => it.code,
        _ => 200,
    };
    let gates = Gates::defaults();
    let old = filled(&request(json!([{"name": "app"}]), json!({})), &pod()).unwrap();
    let with = |change: Value| {
        let mut new = old.clone();
        json_patch::merge(&mut new, &change);
        code(update(&new, &old, gates))
    };
    assert_eq!(with(json!({"spec": {"activeDeadlineSeconds": 9}})), 403);
    assert_eq!(with(json!({"metadata": {"labels": {"crr.apps.kruise.io/pod-uid": "x"}}})), 403);
    assert_eq!(with(json!({"metadata": {"labels": {"crr.apps.kruise.io/node-name": null}}})), 403);
    assert_eq!(with(json!({"metadata": {"labels": {"crr.apps.kruise.io/active": null}}})), 200);
    let before_admission = request(json!([{"name": "app"}]), json!({}));
    assert_eq!(code(update(&old, &before_admission, gates)), 200, "the controller fills it in");
    let off: Gates = "KruiseDaemon=false".parse().unwrap();
    assert_eq!(code(update(&old, &old, off)), 403);
    assert_eq!(code(create(&old, &World::default(), off)), 403);
}

#[test]
fn malformed_objects_are_refused_without_a_panic() {
    for object in
        [json!(null), json!([]), json!({"spec": 1}), json!({"spec": {"podName": "web", "containers": 3}})]
    {
        assert!(filled(&object, &pod()).is_err(), "{object}");
    }
    let odd = json!({"metadata": {"labels": 3}, "spec": {"podName": "web", "containers": [{"name": "app"}], "strategy": 1}});
    assert!(filled(&odd, &pod()).is_ok());
    assert!(filled(&request(json!([7]), json!({})), &json!({"spec": {"nodeName": "n"}})).is_err());
}
