//! The columns of the built-in kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Cell, Column, Query, age_column, human, name_column, pod};

/// A row of this file: header, type, whether only `-o wide` shows it, and where the value comes from.
struct Row(&'static str, &'static str, bool, Source);

enum Source {
    Path(&'static str),
    Age(&'static str),
    Count(&'static [&'static str]),
    Worked(fn(&Value, Timestamp) -> Value),
}

const WIDE: bool = true;
const ALWAYS: bool = false;
const AGE: Row = Row("Age", "string", ALWAYS, Source::Age(".metadata.creationTimestamp"));
const CONTAINERS: Row = Row("Containers", "string", WIDE, Source::Worked(containers));
const IMAGES: Row = Row("Images", "string", WIDE, Source::Worked(images));
const SELECTOR: Row = Row("Selector", "string", WIDE, Source::Worked(selector));

const fn path(name: &'static str, kind: &'static str, path: &'static str) -> Row {
    Row(name, kind, ALWAYS, Source::Path(path))
}

const fn worked(name: &'static str, work: fn(&Value, Timestamp) -> Value) -> Row {
    Row(name, "string", ALWAYS, Source::Worked(work))
}

/// The columns of a built-in kind (`plural.group`).
pub fn builtin(qualified: &str) -> Vec<Column> {
    let rows = rows(qualified);
    if qualified == "events" {
        return rows.iter().map(Row::column).collect();
    }
    let mut columns = vec![name_column()];
    if rows.is_empty() {
        columns.push(age_column());
    }
    columns.extend(rows.iter().map(Row::column));
    columns
}

fn rows(qualified: &str) -> &'static [Row] {
    match qualified {
        "pods" => PODS,
        "nodes" => NODES,
        "namespaces" => const { &[path("Status", "string", ".status.phase"), AGE] },
        "configmaps" => {
            const { &[Row("Data", "integer", ALWAYS, Source::Count(&[".data", ".binaryData"])), AGE] }
        }
        "secrets" => SECRETS,
        "services" => SERVICES,
        "serviceaccounts" => {
            const { &[Row("Secrets", "integer", ALWAYS, Source::Count(&[".secrets"])), AGE] }
        }
        "persistentvolumeclaims" => CLAIMS,
        "events" => EVENTS,
        "deployments.apps" => DEPLOYMENTS,
        "replicasets.apps" | "replicationcontrollers" => REPLICA_SETS,
        "statefulsets.apps" => const { &[worked("Ready", ready_of_wanted), AGE, CONTAINERS, IMAGES] },
        "daemonsets.apps" => DAEMON_SETS,
        "controllerrevisions.apps" => REVISIONS,
        "jobs.batch" => JOBS,
        "leases.coordination.k8s.io" => const { &[path("Holder", "string", ".spec.holderIdentity"), AGE] },
        "poddisruptionbudgets.policy" => BUDGETS,
        "customresourcedefinitions.apiextensions.k8s.io" => {
            const { &[path("Created At", "date", ".metadata.creationTimestamp")] }
        }
        "certificatesigningrequests.certificates.k8s.io" => REQUESTS,
        _ => &[],
    }
}

const PODS: &[Row] = &[
    worked("Ready", pod::ready),
    worked("Status", pod::status),
    worked("Restarts", pod::restarts),
    AGE,
    Row("IP", "string", WIDE, Source::Worked(|pod, _| or_none(&pod["status"]["podIP"]))),
    Row("Node", "string", WIDE, Source::Worked(|pod, _| or_none(&pod["spec"]["nodeName"]))),
    Row(
        "Nominated Node",
        "string",
        WIDE,
        Source::Worked(|pod, _| or_none(&pod["status"]["nominatedNodeName"])),
    ),
    Row("Readiness Gates", "string", WIDE, Source::Worked(pod::gates)),
];

const NODES: &[Row] = &[
    worked("Status", node_status),
    worked("Roles", node_roles),
    AGE,
    path("Version", "string", ".status.nodeInfo.kubeletVersion"),
    Row("Internal-IP", "string", WIDE, Source::Worked(|node, _| address(node, "InternalIP"))),
    Row("External-IP", "string", WIDE, Source::Worked(|node, _| address(node, "ExternalIP"))),
    Row("OS-Image", "string", WIDE, Source::Path(".status.nodeInfo.osImage")),
    Row("Kernel-Version", "string", WIDE, Source::Path(".status.nodeInfo.kernelVersion")),
    Row("Container-Runtime", "string", WIDE, Source::Path(".status.nodeInfo.containerRuntimeVersion")),
];

const SECRETS: &[Row] =
    &[path("Type", "string", ".type"), Row("Data", "integer", ALWAYS, Source::Count(&[".data"])), AGE];

const SERVICES: &[Row] = &[
    path("Type", "string", ".spec.type"),
    worked("Cluster-IP", |service, _| or_none(&service["spec"]["clusterIP"])),
    worked("External-IP", |service, _| or_none(&service["spec"]["externalName"])),
    worked("Port(s)", ports),
    AGE,
    Row("Selector", "string", WIDE, Source::Worked(|service, _| json!(pairs(&service["spec"]["selector"])))),
];

const CLAIMS: &[Row] = &[
    path("Status", "string", ".status.phase"),
    path("Volume", "string", ".spec.volumeName"),
    path("Capacity", "string", ".status.capacity.storage"),
    worked("Access Modes", access_modes),
    path("StorageClass", "string", ".spec.storageClassName"),
    AGE,
    Row("VolumeMode", "string", WIDE, Source::Path(".spec.volumeMode")),
];

const EVENTS: &[Row] = &[
    worked("Last Seen", last_seen),
    path("Type", "string", ".type"),
    path("Reason", "string", ".reason"),
    worked("Object", |event, _| {
        let text = |name: &str| event["involvedObject"][name].as_str().unwrap_or_default().to_owned();
        json!(format!("{}/{}", text("kind").to_lowercase(), text("name")))
    }),
    Row("Source", "string", WIDE, Source::Path(".source.component")),
    path("Message", "string", ".message"),
    Row("Count", "integer", WIDE, Source::Path(".count")),
    Row("Name", "string", WIDE, Source::Path(".metadata.name")),
];

const DEPLOYMENTS: &[Row] = &[
    worked("Ready", ready_of_wanted),
    worked("Up-to-date", |it, _| number(&it["status"]["updatedReplicas"])),
    worked("Available", |it, _| number(&it["status"]["availableReplicas"])),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const REPLICA_SETS: &[Row] = &[
    worked("Desired", |it, _| number(&it["spec"]["replicas"])),
    worked("Current", |it, _| number(&it["status"]["replicas"])),
    worked("Ready", |it, _| number(&it["status"]["readyReplicas"])),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const DAEMON_SETS: &[Row] = &[
    worked("Desired", |it, _| number(&it["status"]["desiredNumberScheduled"])),
    worked("Current", |it, _| number(&it["status"]["currentNumberScheduled"])),
    worked("Ready", |it, _| number(&it["status"]["numberReady"])),
    worked("Up-to-date", |it, _| number(&it["status"]["updatedNumberScheduled"])),
    worked("Available", |it, _| number(&it["status"]["numberAvailable"])),
    worked("Node Selector", |it, _| json!(pairs(&it["spec"]["template"]["spec"]["nodeSelector"]))),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const REVISIONS: &[Row] = &[worked("Controller", controller), path("Revision", "integer", ".revision"), AGE];

const JOBS: &[Row] = &[
    worked("Status", |job, _| {
        let is = |kind: &str| {
            list(&job["status"]["conditions"]).any(|it| it["type"] == kind && it["status"] == "True")
        };
        json!(if is("Complete") {
            "Complete"
        } else if is("Failed") {
            "Failed"
        } else {
            "Running"
        })
    }),
    worked("Completions", |job, _| {
        let wanted = job["spec"]["completions"].as_i64().map_or("1".to_owned(), |it| it.to_string());
        json!(format!("{}/{wanted}", number(&job["status"]["succeeded"])))
    }),
    AGE,
    CONTAINERS,
    IMAGES,
    SELECTOR,
];

const BUDGETS: &[Row] = &[
    worked("Min Available", |it, _| or_not_available(&it["spec"]["minAvailable"])),
    worked("Max Unavailable", |it, _| or_not_available(&it["spec"]["maxUnavailable"])),
    worked("Allowed Disruptions", |it, _| number(&it["status"]["disruptionsAllowed"])),
    AGE,
];

const REQUESTS: &[Row] = &[
    AGE,
    path("SignerName", "string", ".spec.signerName"),
    path("Requestor", "string", ".spec.username"),
    worked("Condition", |request, _| {
        let mut shown: Vec<&str> =
            list(&request["status"]["conditions"]).filter_map(|it| it["type"].as_str()).collect();
        if request["status"]["certificate"].is_string() {
            shown.push("Issued");
        }
        json!(if shown.is_empty() { "Pending".to_owned() } else { shown.join(",") })
    }),
];

impl Row {
    fn column(&self) -> Column {
        let Self(name, kind, wide, from) = self;
        let cell = match from {
            Source::Path(path) => Cell::Found(Query::parse(path)),
            Source::Age(path) => Cell::Age(Query::parse(path)),
            Source::Count(paths) => Cell::Count(paths.iter().map(|it| Query::parse(it)).collect()),
            Source::Worked(work) => Cell::Worked(*work),
        };
        Column {
            name: (*name).to_owned(),
            kind: (*kind).to_owned(),
            format: String::new(),
            description: String::new(),
            priority: i64::from(*wide),
            cell,
        }
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn number(value: &Value) -> Value {
    json!(value.as_i64().unwrap_or(0))
}

fn or_none(value: &Value) -> Value {
    json!(value.as_str().filter(|it| !it.is_empty()).unwrap_or("<none>"))
}

fn or_not_available(value: &Value) -> Value {
    match value {
        Value::Null => json!("N/A"),
        Value::String(text) => json!(text),
        other => json!(other.to_string()),
    }
}

fn pairs(map: &Value) -> String {
    let members = map.as_object().into_iter().flatten();
    let texts: Vec<String> =
        members.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if texts.is_empty() { "<none>".to_owned() } else { texts.join(",") }
}

fn selector(object: &Value, _: Timestamp) -> Value {
    let selector = &object["spec"]["selector"];
    json!(pairs(if selector["matchLabels"].is_object() { &selector["matchLabels"] } else { selector }))
}

fn ready_of_wanted(object: &Value, _: Timestamp) -> Value {
    json!(format!("{}/{}", number(&object["status"]["readyReplicas"]), number(&object["spec"]["replicas"])))
}

fn of_containers(object: &Value, member: &str) -> Value {
    let containers = list(&object["spec"]["template"]["spec"]["containers"]);
    json!(containers.filter_map(|it| it[member].as_str()).collect::<Vec<_>>().join(","))
}

fn containers(object: &Value, _: Timestamp) -> Value {
    of_containers(object, "name")
}

fn images(object: &Value, _: Timestamp) -> Value {
    of_containers(object, "image")
}

fn node_status(node: &Value, _: Timestamp) -> Value {
    let ready = list(&node["status"]["conditions"]).find(|it| it["type"] == "Ready");
    let state = match ready {
        Some(it) if it["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let closed = if node["spec"]["unschedulable"] == true { ",SchedulingDisabled" } else { "" };
    json!(format!("{state}{closed}"))
}

fn node_roles(node: &Value, _: Timestamp) -> Value {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let roles: Vec<&str> =
        labels.filter_map(|(key, _)| key.strip_prefix("node-role.kubernetes.io/")).collect();
    json!(if roles.is_empty() { "<none>".to_owned() } else { roles.join(",") })
}

fn address(node: &Value, kind: &str) -> Value {
    let found = list(&node["status"]["addresses"]).find(|it| it["type"] == kind);
    found.map_or(json!("<none>"), |it| it["address"].clone())
}

fn ports(service: &Value, _: Timestamp) -> Value {
    let texts: Vec<String> = list(&service["spec"]["ports"])
        .map(|it| {
            let node = it["nodePort"].as_i64().map(|it| format!(":{it}")).unwrap_or_default();
            format!("{}{node}/{}", it["port"], it["protocol"].as_str().unwrap_or("TCP"))
        })
        .collect();
    json!(if texts.is_empty() { "<none>".to_owned() } else { texts.join(",") })
}

fn access_modes(claim: &Value, _: Timestamp) -> Value {
    let short = |mode: &str| match mode {
        "ReadWriteOnce" => "RWO",
        "ReadOnlyMany" => "ROX",
        "ReadWriteMany" => "RWX",
        "ReadWriteOncePod" => "RWOP",
        _ => "",
    };
    let modes = list(&claim["status"]["accessModes"]).filter_map(Value::as_str);
    json!(modes.map(short).collect::<Vec<_>>().join(","))
}

fn last_seen(event: &Value, now: Timestamp) -> Value {
    let times = [&event["series"]["lastObservedTime"], &event["lastTimestamp"], &event["eventTime"]];
    let time = times.iter().find_map(|it| it.as_str()?.parse::<Timestamp>().ok());
    json!(time.map_or("<unknown>".to_owned(), |it| human(now.duration_since(it))))
}

fn controller(revision: &Value, _: Timestamp) -> Value {
    let owner = list(&revision["metadata"]["ownerReferences"]).find(|it| it["controller"] == true);
    let Some(owner) = owner else { return json!("<none>") };
    let text = |name: &str| owner[name].as_str().unwrap_or_default();
    let group = text("apiVersion").split_once('/').map(|it| format!(".{}", it.0)).unwrap_or_default();
    json!(format!("{}{group}/{}", text("kind").to_lowercase(), text("name")))
}
