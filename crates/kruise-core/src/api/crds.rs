//! The CustomResourceDefinitions of every kind, made from the Rust types.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, JSON, ServiceReference, WebhookClientConfig,
    WebhookConversion,
};
use kube::{CustomResourceExt, core::crd::merge_crds};
use serde_json::{Map, Value, json};

use super::{
    cloneset, columns::Column, container_recreate_request, fleet, image_list_pull_job, image_pull_job,
    node_image, node_pod_probe, resource_distribution, sidecarset,
};

/// Path under which the admission server converts objects.
pub const CONVERT_PATH: &str = "/convert";
/// The versions of conversion reviews that the admission server reads, the preferred one first.
pub const CONVERSION_REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];
/// The Service of the admission server, as the chart names it.
pub const WEBHOOK_SERVICE: &str = "kruise-webhook-service";
/// The namespace of the admission server, as the chart names it.
pub const WEBHOOK_NAMESPACE: &str = "kruise-system";

/// The highest of the numbers that everybody who reads JSON reads alike.
const EXACT: u64 = 1 << 53;

/// Kinds that nobody but the hub and its agents writes, and of which there is one for each object or for each of its clusters.
const WRITTEN_WHOLE: [&str; 3] = ["Assignment", "FleetBinding", "FleetRevision"];

/// Every CustomResourceDefinition, always in the same order.
pub fn crds() -> Vec<CustomResourceDefinition> {
    member_crds().into_iter().chain(fleet_crds()).collect()
}

/// The names of the definitions whose versions differ in shape, and which our webhook converts.
pub fn converted_crds() -> Vec<String> {
    let is_converted = |it: &CustomResourceDefinition| {
        it.spec.conversion.as_ref().is_some_and(|it| it.strategy == "Webhook")
    };
    crds().into_iter().filter(is_converted).filter_map(|it| it.metadata.name).collect()
}

/// The definitions that only a hub needs.
pub fn fleet_crds() -> Vec<CustomResourceDefinition> {
    let finished = |(crd, columns)| {
        let crd = polished(with(crd, columns));
        if WRITTEN_WHOLE.contains(&crd.spec.names.kind.as_str()) { owned_whole(crd) } else { crd }
    };
    fleet::crds().into_iter().map(finished).collect()
}

/// The definitions that every cluster needs.
pub fn member_crds() -> Vec<CustomResourceDefinition> {
    vec![
        converted([
            with(cloneset::v1alpha1::CloneSet::crd(), &cloneset::COLUMNS),
            with(cloneset::v1beta1::CloneSet::crd(), &cloneset::COLUMNS),
        ]),
        converted([
            with(
                container_recreate_request::v1alpha1::ContainerRecreateRequest::crd(),
                &container_recreate_request::COLUMNS,
            ),
            with(
                container_recreate_request::v1beta1::ContainerRecreateRequest::crd(),
                &container_recreate_request::COLUMNS,
            ),
        ]),
        served_alike([
            with(image_list_pull_job::v1alpha1::ImageListPullJob::crd(), &image_list_pull_job::COLUMNS),
            with(image_list_pull_job::v1beta1::ImageListPullJob::crd(), &image_list_pull_job::COLUMNS),
        ]),
        served_alike([
            with(image_pull_job::v1alpha1::ImagePullJob::crd(), &image_pull_job::COLUMNS_V1ALPHA1),
            with(image_pull_job::v1beta1::ImagePullJob::crd(), &image_pull_job::COLUMNS),
        ]),
        with_empty_spec(converted([
            with(node_image::v1alpha1::NodeImage::crd(), &node_image::COLUMNS),
            with(node_image::v1beta1::NodeImage::crd(), &node_image::COLUMNS),
        ])),
        with_empty_spec(polished(with(
            node_pod_probe::v1alpha1::NodePodProbe::crd(),
            &node_pod_probe::COLUMNS,
        ))),
        converted([
            with(
                resource_distribution::v1alpha1::ResourceDistribution::crd(),
                &resource_distribution::COLUMNS,
            ),
            with(
                resource_distribution::v1beta1::ResourceDistribution::crd(),
                &resource_distribution::COLUMNS,
            ),
        ]),
        converted([
            with(sidecarset::v1alpha1::SidecarSet::crd(), &sidecarset::COLUMNS),
            with(sidecarset::v1beta1::SidecarSet::crd(), &sidecarset::COLUMNS),
        ]),
    ]
}

/// For kinds whose spec and status have one writer each: that is noted once for the whole and not for every field. The notes
/// were half of what a fleet has stored, and the API server works them out at every write.
fn owned_whole(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let roots = crd.spec.versions.iter_mut().filter_map(|it| it.schema.as_mut()?.open_api_v3_schema.as_mut());
    for properties in roots.filter_map(|it| it.properties.as_mut()) {
        let parts = properties.iter_mut().filter(|it| matches!(it.0.as_str(), "spec" | "status"));
        parts.for_each(|(_, part)| part.x_kubernetes_map_type = Some("atomic".to_owned()));
    }
    crd
}

/// For kinds that are made with a name only: their spec is empty instead of absent.
fn with_empty_spec(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        let Some(root) = version.schema.as_mut().and_then(|it| it.open_api_v3_schema.as_mut()) else {
            continue;
        };
        root.required = None;
        if let Some(spec) = root.properties.as_mut().and_then(|it| it.get_mut("spec")) {
            spec.default = Some(JSON(json!({})));
        }
    }
    crd
}

/// Adds the columns that `kubectl get` prints.
fn with(mut crd: CustomResourceDefinition, columns: &[Column]) -> CustomResourceDefinition {
    for version in &mut crd.spec.versions {
        version.additional_printer_columns = Some(columns.iter().map(Into::into).collect());
    }
    crd
}

/// A kind whose versions differ in shape: the API server asks the webhook.
fn converted(versions: [CustomResourceDefinition; 2]) -> CustomResourceDefinition {
    let mut crd = served_alike(versions);
    crd.spec.conversion = Some(CustomResourceConversion {
        strategy: "Webhook".to_owned(),
        webhook: Some(WebhookConversion {
            client_config: Some(WebhookClientConfig {
                service: Some(ServiceReference {
                    namespace: WEBHOOK_NAMESPACE.to_owned(),
                    name: WEBHOOK_SERVICE.to_owned(),
                    path: Some(CONVERT_PATH.to_owned()),
                    port: None,
                }),
                ..WebhookClientConfig::default()
            }),
            conversion_review_versions: CONVERSION_REVIEW_VERSIONS.map(str::to_owned).to_vec(),
        }),
    });
    crd
}

/// A kind whose versions have the same shape: the API server only rewrites the version.
fn served_alike(versions: [CustomResourceDefinition; 2]) -> CustomResourceDefinition {
    let mut crd = merge_crds(versions.into(), "v1beta1").expect("both versions are of one kind");
    crd.spec.versions.sort_by(|a, b| a.name.cmp(&b.name));
    polished(crd)
}

/// Brings a derived definition into the form that the API server and its users expect.
fn polished(crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let mut document = serde_json::to_value(crd).expect("definitions are plain data");
    if let Some(names) = document.pointer_mut("/spec/names") {
        let list_kind = names.get("kind").and_then(Value::as_str).map(|it| format!("{it}List"));
        names["listKind"] = list_kind.into();
    }
    let versions = document.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            polish(schema);
            describe_root(schema);
            // What was seen is written whole; a default would claim to have seen something.
            schema.pointer_mut("/properties/status").into_iter().for_each(drop_defaults);
        }
    }
    serde_json::from_value(document).expect("polishing keeps the form of a definition")
}

/// Adds what the derived root lacks.
fn describe_root(root: &mut Value) {
    let Some(root) = root.as_object_mut() else { return };
    root.remove("title");
    let Some(properties) = root.get_mut("properties").and_then(Value::as_object_mut) else { return };
    let words = [
        ("apiVersion", "Group and version of this representation of the object."),
        ("kind", "What kind of object this is."),
    ];
    for (name, description) in words {
        properties.insert(name.to_owned(), json!({ "type": "string", "description": description }));
    }
    // The API server describes metadata itself and forbids us to.
    properties.insert("metadata".to_owned(), json!({ "type": "object" }));
    for (name, description) in
        [("spec", "What is wanted."), ("status", "What was last seen. Written by controllers.")]
    {
        if let Some(Value::Object(part)) = properties.get_mut(name) {
            part.insert("description".to_owned(), description.into());
        }
    }
}

fn polish(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    // A null is the same as nothing: the API server drops it where a field is not nullable.
    fields.remove("nullable");
    fit_integers(fields);
    if fields.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        fields.insert("anyOf".to_owned(), json!([{ "type": "integer" }, { "type": "string" }]));
        return;
    }
    mark_known_types(fields);
    for (name, part) in fields.iter_mut() {
        match (name.as_str(), part) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(polish),
            ("items" | "additionalProperties", part) => polish(part),
            _ => {}
        }
    }
}

fn drop_defaults(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            fields.remove("default");
            fields.values_mut().for_each(drop_defaults);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_defaults),
        _ => {}
    }
}

/// Rust's unsigned formats mean nothing to the API server. What does not fit the type must not be stored: nobody could read
/// the object any more (SEC-5).
fn fit_integers(fields: &mut Map<String, Value>) {
    let highest: Value = match fields.get("format").and_then(Value::as_str) {
        Some("uint8") => u8::MAX.into(),
        Some("uint16") => u16::MAX.into(),
        Some("uint32") => u32::MAX.into(),
        Some(it) if it.starts_with("uint") => EXACT.into(),
        _ => return,
    };
    fields.insert("format".to_owned(), "int64".into());
    fields.entry("minimum").or_insert_with(|| 0.into());
    fields.entry("maximum").or_insert(highest);
}

/// Types of Kubernetes carry rules that their Rust schemas leave out.
fn mark_known_types(fields: &mut Map<String, Value>) {
    let Some(properties) = fields.get_mut("properties").and_then(Value::as_object_mut) else { return };
    let names: Vec<_> = properties.keys().map(String::as_str).collect();
    let atomic = match names.as_slice() {
        ["matchExpressions", "matchLabels"] | ["matchExpressions", "matchLabels", "names"] => {
            mark_atomic(properties, "matchExpressions");
            true
        }
        ["apiVersion", "fieldPath"]
        | ["apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid"] => true,
        ["key", "operator", "values"] => {
            mark_atomic(properties, "values");
            false
        }
        ["command"] => {
            mark_atomic(properties, "command");
            false
        }
        ["host", "httpHeaders", "path", "port", "scheme"] => {
            mark_atomic(properties, "httpHeaders");
            false
        }
        ["containerPort", "hostIP", "hostPort", "name", "protocol"] => {
            add(properties, "protocol", json!({ "default": "TCP" }));
            false
        }
        ["lastTransitionTime", "message", "observedGeneration", "reason", "status", "type"] => {
            mark_condition(properties);
            false
        }
        _ => false,
    };
    if atomic {
        fields.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
    }
}

/// The rules for conditions that Kubernetes gives to every kind.
fn mark_condition(properties: &mut Map<String, Value>) {
    add(properties, "message", json!({ "maxLength": 32768 }));
    add(properties, "observedGeneration", json!({ "minimum": 0 }));
    let reason = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
    add(properties, "reason", json!({ "minLength": 1, "maxLength": 1024, "pattern": reason }));
    add(properties, "status", json!({ "enum": ["True", "False", "Unknown"] }));
    let prefix = r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?";
    let type_ = format!("^{prefix}(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$");
    add(properties, "type", json!({ "maxLength": 316, "pattern": type_ }));
}

fn mark_atomic(properties: &mut Map<String, Value>, name: &str) {
    add(properties, name, json!({ "x-kubernetes-list-type": "atomic" }));
}

fn add(properties: &mut Map<String, Value>, name: &str, rules: Value) {
    if let (Some(Value::Object(property)), Value::Object(rules)) = (properties.get_mut(name), rules) {
        property.extend(rules);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_with_one_writer_are_owned_whole_and_those_of_users_field_by_field() {
        let is_whole = |crd: &CustomResourceDefinition| {
            let crd = serde_json::to_value(crd).unwrap();
            let root = crd.pointer("/spec/versions/0/schema/openAPIV3Schema/properties").unwrap();
            ["spec", "status"].map(|it| root[it]["x-kubernetes-map-type"] == "atomic")
        };
        for crd in fleet_crds() {
            let expected = match crd.spec.names.kind.as_str() {
                "Assignment" | "FleetBinding" => [true, true],
                // It has no status.
                "FleetRevision" => [true, false],
                _ => [false, false],
            };
            assert_eq!(is_whole(&crd), expected, "{}", crd.spec.names.kind);
        }
        assert!(member_crds().iter().all(|it| is_whole(it) == [false, false]));
    }

    #[test]
    fn sec_5_a_number_that_does_not_fit_its_type_is_refused_by_the_definition() {
        let limits = |format: &str| {
            let mut schema = json!({"type": "integer", "format": format});
            polish(&mut schema);
            (schema["format"].clone(), schema["minimum"].clone(), schema["maximum"].clone())
        };
        assert_eq!(limits("uint32"), (json!("int64"), json!(0), json!(u32::MAX)));
        assert_eq!(limits("uint64"), (json!("int64"), json!(0), json!(1_u64 << 53)));
        assert_eq!(limits("int32"), (json!("int32"), Value::Null, Value::Null));
    }
}
