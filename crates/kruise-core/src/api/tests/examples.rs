//! Manifests as users write them pass through our types unchanged.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::api::{
    cloneset, container_recreate_request, image_list_pull_job, image_pull_job, node_image, node_pod_probe,
    resource_distribution, sidecarset,
};

fn assert_unchanged<K: DeserializeOwned + Serialize>(manifest: Value) {
    let read: K = serde_json::from_value(manifest.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), manifest);
}

fn object(version: &str, kind: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("apps.kruise.io/{version}"), "kind": kind, "metadata": {"name": "it"}, "spec": spec})
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}, "creationTimestamp": null}, "spec": {
        "containers": [{"name": "web", "image": "web:1", "resources": {}, "fieldOfTheFuture": {"deep": [1, {"x": null}]}}],
        "anotherOne": "kept"}})
}

#[test]
fn clonesets_pass_through_unchanged() {
    assert_unchanged::<cloneset::v1beta1::CloneSet>(object(
        "v1beta1",
        "CloneSet",
        json!({
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]},
            "template": template(),
            "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"newer": 1}}],
            "scaleStrategy": {"podsToDelete": ["web-x"], "maxUnavailable": "10%", "enablePVCReuse": true,
                "excludePreparingDelete": true},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {
                "podUpdatePolicy": "InPlaceIfPossible", "partition": "90%", "maxUnavailable": 1, "maxSurge": 0, "paused": true,
                "priorityStrategy": {"weightPriority": [{"weight": 50, "matchSelector": {"matchLabels": {"a": "b"}}}]},
                "scatterStrategy": [{"key": "k", "value": "v"}],
                "inPlaceUpdateStrategy": {"gracePeriodSeconds": 10, "imagePreDownloadParallelism": 2}}},
            "revisionHistoryLimit": 0,
            "minReadySeconds": 5,
            "lifecycle": {"preDelete": {"finalizersHandler": ["a/b"], "markPodNotReady": true},
                "inPlaceUpdate": {"labelsHandler": {"hook": "true"}}, "preNormal": {"labelsHandler": {"hook": "true"}}},
            "progressDeadlineSeconds": 600,
        }),
    ));
    assert_unchanged::<cloneset::v1alpha1::CloneSet>(object(
        "v1alpha1",
        "CloneSet",
        json!({
            "selector": {"matchLabels": {"app": "web"}},
            "template": template(),
            "scaleStrategy": {"disablePVCReuse": true},
            "updateStrategy": {"type": "InPlaceOnly", "partition": 3, "maxUnavailable": "20%",
                "inPlaceUpdateStrategy": {"gracePeriodSeconds": 10}},
        }),
    ));
}

#[test]
fn an_empty_strategy_type_means_none_was_given() {
    let manifest = object(
        "v1beta1",
        "CloneSet",
        json!({"selector": {}, "template": {}, "updateStrategy": {"type": ""}}),
    );
    let read: cloneset::v1beta1::CloneSet = serde_json::from_value(manifest).unwrap();
    assert_eq!(read.spec.update_strategy.type_, None);
}

#[test]
fn sidecarsets_pass_through_unchanged() {
    let spec = json!({
        "selector": {"matchLabels": {"app": "web"}},
        "namespaceSelector": {"matchLabels": {"env": "prod"}},
        "initContainers": [{"name": "i", "image": "i:1", "restartPolicy": "Always"}],
        "containers": [{
            "name": "proxy", "image": "proxy:1", "resources": {}, "fieldOfTheFuture": [1],
            "podInjectPolicy": "AfterAppContainer", "upgradeStrategy": {}, "shareVolumePolicy": {"type": "enabled"},
            "shareVolumeDevicePolicy": {},
            "transferEnv": [{"envNames": ["A"], "sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.labels['m']"}}}],
            "resourcesPolicy": {"targetContainersMode": "sum", "targetContainersNameRegex": "^a", "resourcesExpr":
                {"limits": {"cpu": "max(cpu*50%, 50m)"}, "requests": {"memory": "200Mi"}}},
        }],
        "volumes": [{"name": "v", "emptyDir": {}, "newer": 1}],
        "updateStrategy": {"type": "SomethingElse", "paused": true, "selector": {"matchLabels": {"a": "b"}}, "partition": 0,
            "maxUnavailable": "10%"},
        "injectionStrategy": {"paused": true, "revision": {"customVersion": "v1", "policy": "Partial"}},
        "imagePullSecrets": [{"name": "s"}],
        "revisionHistoryLimit": 3,
        "patchPodMetadata": [{"annotations": {"a": "b"}, "patchPolicy": "MergePatchJson"}],
    });
    let mut beta = spec.clone();
    beta["customVersion"] = json!("v1");
    assert_unchanged::<sidecarset::v1beta1::SidecarSet>(object("v1beta1", "SidecarSet", beta));
    let mut alpha = spec;
    alpha["namespace"] = json!("shop");
    assert_unchanged::<sidecarset::v1alpha1::SidecarSet>(object("v1alpha1", "SidecarSet", alpha));
}

#[test]
fn distributions_pass_through_unchanged() {
    let resource = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "dg=="}, "newer": 1});
    let targets = json!({"includedNamespaces": {"list": [{"name": "a"}]}, "excludedNamespaces": {"list": [{"name": "b"}]},
        "namespaceSelector": {"matchLabels": {"a": "b"}}});
    assert_unchanged::<resource_distribution::v1beta1::ResourceDistribution>(object(
        "v1beta1",
        "ResourceDistribution",
        json!({"resource": resource, "targets": targets}),
    ));
    assert_unchanged::<resource_distribution::v1alpha1::ResourceDistribution>(object(
        "v1alpha1",
        "ResourceDistribution",
        json!({"resource": resource, "targets": {"allNamespaces": true, "namespaceLabelSelector": {"matchLabels": {"a": "b"}}}}),
    ));
}

#[test]
fn pull_jobs_pass_through_unchanged() {
    let rest = json!({
        "pullSecrets": ["s"], "parallelism": 10,
        "selector": {"names": ["n1"], "matchExpressions": [{"key": "k", "operator": "Exists"}]},
        "podSelector": {"matchLabels": {"a": "b"}},
        "pullPolicy": {"timeoutSeconds": 300, "backoffLimit": 1},
        "completionPolicy": {"type": "Always", "activeDeadlineSeconds": 1200, "ttlSecondsAfterFinished": 300},
        "sandboxConfig": {"labels": {"a": "b"}}, "imagePullPolicy": "Always",
    });
    let mut one = rest.clone();
    one["image"] = json!("nginx:1.25");
    assert_unchanged::<image_pull_job::v1beta1::ImagePullJob>(object("v1beta1", "ImagePullJob", one.clone()));
    assert_unchanged::<image_pull_job::v1alpha1::ImagePullJob>(object("v1alpha1", "ImagePullJob", one));
    let mut many = rest;
    many["images"] = json!(["nginx:1.25", "busybox"]);
    assert_unchanged::<image_list_pull_job::v1beta1::ImageListPullJob>(object(
        "v1beta1",
        "ImageListPullJob",
        many.clone(),
    ));
    assert_unchanged::<image_list_pull_job::v1alpha1::ImageListPullJob>(object(
        "v1alpha1",
        "ImageListPullJob",
        many,
    ));
    assert_unchanged::<image_pull_job::v1beta1::ImagePullJob>(object(
        "v1beta1",
        "ImagePullJob",
        json!({"image": "nginx", "completionPolicy": {}}),
    ));
}

#[test]
fn node_images_pass_through_unchanged() {
    let image = json!({"pullSecrets": [{"namespace": "kruise-daemon-config", "name": "reg-1", "mode": "batch"}],
        "sandboxConfig": {}, "tags": [{"tag": "1.25", "createdAt": "2024-01-02T03:04:05Z", "imagePullPolicy": "IfNotPresent",
            "pullPolicy": {"timeoutSeconds": 600, "backoffLimit": 3, "activeDeadlineSeconds": 1800, "ttlSecondsAfterFinished": 86000},
            "ownerReferences": [{"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob", "name": "j", "uid": "u"}]}]});
    let mut whole = object("v1beta1", "NodeImage", json!({"images": {"nginx": image}}));
    whole["status"] = json!({"desired": 1, "succeeded": 0, "failed": 0, "pulling": 1, "waiting": 0, "imageStatuses":
        {"nginx": {"tags": [{"tag": "1.25", "phase": "Pulling", "startTime": "2024-01-02T03:04:05Z"}]}}});
    assert_unchanged::<node_image::v1beta1::NodeImage>(whole);
    assert_unchanged::<node_image::v1alpha1::NodeImage>(object("v1alpha1", "NodeImage", json!({})));
}

#[test]
fn node_pod_probes_pass_through_unchanged() {
    let probe = json!({"exec": {"command": ["sh", "-c", "test -f /ready"]}, "initialDelaySeconds": 5, "periodSeconds": 10,
        "timeoutSeconds": 3, "successThreshold": 1, "failureThreshold": 2});
    let web = json!({"httpGet": {"path": "/ok", "port": 80, "scheme": "HTTP", "httpHeaders": [{"name": "Host", "value": "a"}]}});
    let mut whole = object(
        "v1alpha1",
        "NodePodProbe",
        json!({"podProbes": [{"name": "p", "namespace": "shop", "uid": "u", "IP": "10.0.0.1", "probes": [
            {"name": "ppm#idle", "containerName": "c", "probe": probe}, {"name": "ppm#web", "containerName": "c", "probe": web},
        ]}]}),
    );
    whole["status"] = json!({"podProbeStatuses": [{"name": "p", "namespace": "shop", "uid": "u", "probeStates": [
        {"name": "ppm#idle", "state": "Succeeded", "lastProbeTime": "2024-01-02T03:04:05Z",
            "lastTransitionTime": "2024-01-02T03:04:05Z", "message": "ok"},
        {"name": "ppm#web", "state": "Unknown"},
    ]}]});
    assert_unchanged::<node_pod_probe::v1alpha1::NodePodProbe>(whole);
    assert_unchanged::<node_pod_probe::v1alpha1::NodePodProbe>(object("v1alpha1", "NodePodProbe", json!({})));
}

#[test]
fn recreate_requests_pass_through_unchanged() {
    let spec = json!({"podName": "p", "containers": [{"name": "c",
            "preStop": {"httpGet": {"path": "/stop", "port": "http"}},
            "ports": [{"containerPort": 80, "name": "http", "protocol": "TCP"}],
            "statusContext": {"containerID": "docker://1", "restartCount": 0}}],
        "strategy": {"failurePolicy": "Ignore", "orderedRecreate": true, "unreadyGracePeriodSeconds": 0, "minStartedSeconds": 10},
        "activeDeadlineSeconds": 300, "ttlSecondsAfterFinished": 0});
    let mut beta = object("v1beta1", "ContainerRecreateRequest", spec.clone());
    beta["status"] = json!({"phase": "Recreating", "containerRecreateStates": [{"name": "c", "phase": "Pending"}],
        "containerStatusSnapshot": [{"name": "c", "ready": false, "restartCount": 1}]});
    assert_unchanged::<container_recreate_request::v1beta1::ContainerRecreateRequest>(beta);
    assert_unchanged::<container_recreate_request::v1alpha1::ContainerRecreateRequest>(object(
        "v1alpha1",
        "ContainerRecreateRequest",
        spec,
    ));
}
