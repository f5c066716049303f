//! The built-in kinds.

use super::{Names, Resource, ScalePaths, Traits};
use crate::server::{schema::Promises, table};

/// Flags: `n`amespaced, `s`tatus, `g`eneration, `u`nconditional update, `c`reate on update, `d`eleted object returned.
const KINDS: &[(&str, &str, &str, &str, &str)] = &[
    ("", "v1", "Pod", "pods", "nsgud"),
    ("", "v1", "Node", "nodes", "su"),
    ("", "v1", "Namespace", "namespaces", "sud"),
    ("", "v1", "ConfigMap", "configmaps", "nu"),
    ("", "v1", "Secret", "secrets", "nu"),
    ("", "v1", "Service", "services", "nsucd"),
    ("", "v1", "ServiceAccount", "serviceaccounts", "nud"),
    ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", "nsud"),
    ("", "v1", "PersistentVolume", "persistentvolumes", "sud"),
    ("", "v1", "Event", "events", "nuc"),
    ("", "v1", "Endpoints", "endpoints", "nuc"),
    ("", "v1", "ResourceQuota", "resourcequotas", "nsud"),
    ("", "v1", "LimitRange", "limitranges", "nuc"),
    ("", "v1", "PodTemplate", "podtemplates", "nugd"),
    ("", "v1", "ReplicationController", "replicationcontrollers", "nsgu"),
    ("apps", "v1", "Deployment", "deployments", "nsgu"),
    ("apps", "v1", "ReplicaSet", "replicasets", "nsgu"),
    ("apps", "v1", "StatefulSet", "statefulsets", "nsgu"),
    ("apps", "v1", "DaemonSet", "daemonsets", "nsgu"),
    ("apps", "v1", "ControllerRevision", "controllerrevisions", "nu"),
    ("batch", "v1", "Job", "jobs", "nsgu"),
    ("batch", "v1", "CronJob", "cronjobs", "nsgu"),
    ("coordination.k8s.io", "v1", "Lease", "leases", "nc"),
    ("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", "nsg"),
    ("events.k8s.io", "v1", "Event", "events", "nuc"),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", "ng"),
    ("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "nsu"),
    ("networking.k8s.io", "v1", "Ingress", "ingresses", "nsgu"),
    ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", "ngu"),
    ("rbac.authorization.k8s.io", "v1", "Role", "roles", "nuc"),
    ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings", "nuc"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", "uc"),
    ("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", "uc"),
    ("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", "gu"),
    ("storage.k8s.io", "v1", "StorageClass", "storageclasses", "ud"),
    ("certificates.k8s.io", "v1", "CertificateSigningRequest", "certificatesigningrequests", "su"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", "sg"),
    (
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        "g",
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        "g",
    ),
    ("apiregistration.k8s.io", "v1", "APIService", "apiservices", "s"),
];

const SELECTABLE: &[(&str, &[&str])] = &[
    (
        "pods",
        &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
    ),
    ("nodes", &["spec.unschedulable"]),
    ("namespaces", &["status.phase"]),
    ("secrets", &["type"]),
    ("jobs.batch", &["status.successful"]),
    ("replicasets.apps", &["status.replicas"]),
    ("certificatesigningrequests.certificates.k8s.io", &["spec.signerName"]),
    (
        "events",
        &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
    ),
    (
        "events.events.k8s.io",
        &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
    ),
];

pub(super) fn all() -> impl Iterator<Item = Resource> {
    KINDS.iter().map(|(group, version, kind, plural, flags)| {
        let has = |flag: char| flags.contains(flag);
        let mut resource = Resource {
            group: (*group).to_owned(),
            version: (*version).to_owned(),
            storage_version: (*version).to_owned(),
            kind: (*kind).to_owned(),
            plural: (*plural).to_owned(),
            names: Names::default(),
            namespaced: has('n'),
            traits: Traits {
                custom: false,
                status: has('s'),
                generation: has('g'),
                unconditional: has('u'),
                create_on_update: has('c'),
                returns_deleted: has('d'),
            },
            scale: None,
            selectable: Vec::new(),
            schema: None,
            promises: Promises::default(),
            columns: Vec::new(),
        };
        let qualified = resource.qualified();
        resource.names = Names::builtin(&qualified, kind);
        resource.columns = table::builtin(&qualified);
        if let Some((_, fields)) = SELECTABLE.iter().find(|(name, _)| *name == qualified) {
            resource.selectable = fields.iter().map(|it| (*it).to_owned()).collect();
        }
        if matches!(qualified.as_str(), "deployments.apps" | "replicasets.apps" | "statefulsets.apps") {
            let path = |text: &str| text.split('.').map(str::to_owned).collect();
            resource.scale = Some(ScalePaths {
                spec: path("spec.replicas"),
                status: path("status.replicas"),
                selector: Some(path("spec.selector")),
            });
        }
        resource
    })
}
