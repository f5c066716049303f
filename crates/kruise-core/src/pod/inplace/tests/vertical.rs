//! Cpu and memory.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::support::{STATE, at, condition, container, pod, read, send, state};
use crate::pod::{
    inplace::{
        Context, Options, RevisionView, Start, UpdateSpec, calculate, is_complete, needs_unready, refresh,
        server_resizes, state::Resources, update,
    },
    patch::Part,
};

const SCALING: Options = Options {
    env_from_metadata: true,
    vertical_scaling: true,
    recreate_for_claims: false,
    in_place_only: false,
    grace_seconds: 0,
};

fn scaling(seconds: i64) -> Context {
    Context { vertical_scaling: true, ..at(seconds) }
}

fn revision(resources: Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c1", "image": "i", "resources": resources}]}}}})
}

fn between(old: Value, new: Value) -> Option<UpdateSpec> {
    let (old, new) = (revision(old), revision(new));
    calculate(
        &RevisionView { name: "old", data: &old, claims_hash: None },
        &RevisionView { name: "new", data: &new, claims_hash: None },
        &SCALING,
    )
}

fn burstable(limit: &str, request: &str) -> Value {
    json!({"limits": {"cpu": limit, "memory": "2Gi"}, "requests": {"cpu": "1", "memory": request}})
}

fn wants(limits: &[(&str, &str)], requests: &[(&str, &str)]) -> Resources {
    let map =
        |list: &[(&str, &str)]| list.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    Resources { limits: map(limits), requests: map(requests) }
}

fn spec(container: &str, resources: Resources) -> UpdateSpec {
    UpdateSpec {
        revision: "set-new".into(),
        container_resources: BTreeMap::from([(container.to_owned(), resources)]),
        ..UpdateSpec::default()
    }
}

fn sized(name: &str, cpu: &str) -> (Value, Value) {
    let (mut spec, mut status) = container(name, "i:1");
    spec["resources"] = json!({"limits": {"cpu": cpu}, "requests": {"cpu": "1"}});
    status["resources"] = spec["resources"].clone();
    (spec, status)
}

fn begin(pod: &Value, spec: &UpdateSpec, ctx: &Context) -> Vec<crate::pod::patch::PodPatch> {
    update(&read(pod), spec, &Start { labels: &BTreeMap::new(), state: None }, ctx)
}

#[test]
fn limits_and_requests_of_cpu_and_memory_are_taken() {
    let spec = between(burstable("2", "1Gi"), burstable("3", "1Gi")).unwrap();
    assert_eq!(spec.container_resources["c1"], wants(&[("cpu", "3")], &[]));
    let spec = between(burstable("2", "1Gi"), burstable("2", "1536Mi")).unwrap();
    assert_eq!(spec.container_resources["c1"], wants(&[], &[("memory", "1536Mi")]));
}

#[test]
fn other_resources_other_values_and_other_operations_need_another_pod() {
    let base = burstable("2", "1Gi");
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut new = base.clone();
        change(&mut new);
        between(base.clone(), new)
    };
    assert_eq!(changed(&|it| it["limits"]["cpu"] = json!("a lot")), None);
    assert_eq!(changed(&|it| it["limits"]["cpu"] = Value::Null), None);
    assert_eq!(changed(&|it| it["limits"]["storage"] = json!("1Gi")), None);
    assert_eq!(changed(&|it| it["limits"] = json!({"cpu": "2"})), None);
    assert_eq!(changed(&|it| it["claims"] = json!([])), None);
    let storage = |amount: &str| json!({"limits": {"ephemeral-storage": amount}});
    assert_eq!(between(storage("1Gi"), storage("2Gi")), None);

    let (old, new) = (revision(burstable("2", "1Gi")), revision(burstable("3", "1Gi")));
    let view = |data| RevisionView { name: "r", data, claims_hash: None };
    let off = Options { vertical_scaling: false, ..SCALING };
    assert_eq!(calculate(&view(&old), &view(&new), &off), None);
}

#[test]
fn a_change_of_the_quality_class_needs_another_pod() {
    let guaranteed =
        json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}});
    let burstable =
        json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}});
    assert_eq!(between(burstable.clone(), guaranteed.clone()), None);
    assert_eq!(between(guaranteed, burstable), None);
}

#[test]
fn a_request_that_follows_its_limit_is_resized_with_it() {
    // Else the pod, which has the limit as its request, would change its class and the resize be refused.
    let limited = |cpu: &str| json!({"limits": {"cpu": cpu, "memory": "1Gi"}});
    let spec = between(limited("1"), limited("2")).unwrap();
    assert_eq!(spec.container_resources["c1"], wants(&[("cpu", "2")], &[("cpu", "2")]));
}

#[test]
fn the_resize_has_only_what_differs_and_comes_before_the_record() {
    let mut pod = pod(vec![sized("c1", "2"), sized("c2", "2")]);
    let spec = spec("c1", wants(&[("cpu", "3")], &[("cpu", "1000m"), ("example.com/gpu", "2")]));
    let patches = begin(&pod, &spec, &scaling(0));
    assert_eq!(patches.iter().map(|it| it.part).collect::<Vec<_>>(), [Part::Resize, Part::Main]);
    assert_eq!(
        patches[0].body,
        json!({"spec": {"containers": [{"name": "c1", "resources": {"limits": {"cpu": "3"}}}]}})
    );
    assert!(patches[1].body.get("spec").is_none());
    send(&mut pod, &patches);
    assert!(state(&pod).update_resources && !state(&pod).update_images);

    // Resized by hand meanwhile: nothing is left to resize.
    let patches = begin(&pod, &spec, &scaling(1));
    assert_eq!(patches.iter().map(|it| it.part).collect::<Vec<_>>(), [Part::Main]);
}

#[test]
fn an_old_server_gets_resources_with_the_pod_itself() {
    let pod = pod(vec![sized("c1", "2")]);
    let ctx = Context { server_resizes: false, ..scaling(0) };
    let patches = begin(&pod, &spec("c1", wants(&[("cpu", "3")], &[])), &ctx);
    assert_eq!(patches.len(), 1);
    assert_eq!(
        patches[0].body["spec"],
        json!({"containers": [{"name": "c1", "resources": {"limits": {"cpu": "3"}}}]})
    );
}

#[test]
fn a_pod_leaves_rotation_for_a_resize_only_if_a_container_restarts_for_it() {
    let with_policy = |resource: &str, policy: &str| {
        let (mut spec, status) = sized("c1", "2");
        spec["resizePolicy"] = json!([{"resourceName": resource, "restartPolicy": policy}]);
        pod(vec![(spec, status)])
    };
    let cpu = spec("c1", wants(&[("cpu", "3")], &[]));
    let needs = |pod: &Value, spec: &UpdateSpec| needs_unready(&read(pod), spec, &scaling(0));
    assert!(!needs(&pod(vec![sized("c1", "2")]), &cpu));
    assert!(needs(&with_policy("cpu", "RestartContainer"), &cpu));
    assert!(!needs(&with_policy("memory", "RestartContainer"), &cpu));
    assert!(!needs(&with_policy("cpu", "NotRequired"), &cpu));
    assert!(needs(&with_policy("memory", "RestartContainer"), &spec("c1", wants(&[], &[("memory", "1Gi")]))));

    let mut with_image = cpu.clone();
    with_image.container_images.insert("c1".into(), "i:2".into());
    assert!(needs(&with_policy("cpu", "NotRequired"), &with_image));
    let mut gateless = with_policy("cpu", "RestartContainer");
    gateless["spec"]["readinessGates"] = json!([]);
    assert!(!needs(&gateless, &cpu));
    assert!(!needs(&gateless, &with_image));
}

#[test]
fn a_resize_is_complete_when_kubelet_reports_it_if_the_gate_is_on() {
    let mut pod = pod(vec![sized("c1", "2")]);
    let patches = begin(&pod, &spec("c1", wants(&[("cpu", "3000m")], &[])), &scaling(0));
    send(&mut pod, &patches);
    assert!(!is_complete(&read(&pod), &scaling(1)));
    assert!(is_complete(&read(&pod), &at(1)), "the gate is off");
    pod["status"]["containerStatuses"][0]["resources"] =
        json!({"limits": {"cpu": "3"}, "requests": {"cpu": "1"}});
    assert!(is_complete(&read(&pod), &scaling(1)));
    pod["status"]["containerStatuses"][0]["resources"] = Value::Null;
    assert!(!is_complete(&read(&pod), &scaling(1)));
    pod["status"]["containerStatuses"] = json!([]);
    assert!(!is_complete(&read(&pod), &scaling(1)));
}

#[test]
fn resources_of_a_later_batch_are_not_forgotten() {
    // Upstream looks for images and metadata only, declares the pod ready, and never resizes the second container.
    let (mut first, first_status) = sized("c1", "2");
    first["env"] = json!([super::support::barrier(10)]);
    let (mut second, second_status) = sized("c2", "2");
    second["env"] = json!([super::support::barrier(5)]);
    let mut pod = pod(vec![(first, first_status), (second, second_status)]);
    let mut spec = spec("c1", wants(&[("cpu", "3")], &[]));
    spec.container_resources.insert("c2".into(), wants(&[("cpu", "4")], &[]));
    let patches = begin(&pod, &spec, &scaling(0));
    send(&mut pod, &patches);
    pod["status"]["containerStatuses"][0]["resources"]["limits"]["cpu"] = json!("3");
    let next = refresh(&read(&pod), &scaling(5));
    assert_eq!(next.patches.iter().map(|it| it.part).collect::<Vec<_>>(), [Part::Resize, Part::Main]);
    send(&mut pod, &next.patches);
    assert_eq!(pod["spec"]["containers"][1]["resources"]["limits"]["cpu"], "4");
    assert!(!state(&pod).has_next());
    assert_eq!(condition(&pod, "InPlaceUpdateReady")["status"], "True");
    assert!(pod["metadata"]["annotations"][STATE].is_string());
}

#[test]
fn servers_resize_from_1_32_on_and_no_version_panics() {
    for version in ["v1.32.0", "v1.33.0", "v1.32+gke.1", "1.34.4", "v1.32.0-rc.1", "v2.0.0", "v1.100.3"] {
        assert!(server_resizes(version), "{version}");
    }
    for version in [
        "v1.31.0",
        "v1.28+gke.1",
        "garbage",
        "",
        "v",
        "v1",
        "v1.32",
        "v..",
        "v1.x.0",
        "1.99999999999999999999999.0",
    ] {
        assert!(!server_resizes(version), "{version}");
    }
}
