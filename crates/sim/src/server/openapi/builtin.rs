//! The schemas of the built-in kinds, from the client library's types.

use std::sync::OnceLock;

use k8s_openapi::{
    Resource,
    api::{
        admissionregistration::v1 as admission, apps::v1 as apps, autoscaling::v2 as autoscaling,
        batch::v1 as batch, certificates::v1 as certificates, coordination::v1 as coordination,
        core::v1 as core_kinds, discovery::v1 as discovery, events::v1 as events,
        networking::v1 as networking, policy::v1 as policy, rbac::v1 as rbac, scheduling::v1 as scheduling,
        storage::v1 as storage,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions,
    kube_aggregator::pkg::apis::apiregistration::v1 as apiregistration,
};
use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

const PREFIX: &str = "#/components/schemas/";

struct Schemas {
    components: Map<String, Value>,
    /// `apiVersion`, kind and the name of the component.
    kinds: Kinds,
}

/// The name of a built-in kind's schema.
pub(in crate::server) fn schema(api_version: &str, kind: &str) -> Option<&'static str> {
    let found = all().kinds.iter().find(|it| it.0 == api_version && it.1 == kind);
    found.map(|it| it.2.as_str())
}

/// All schemas of built-in kinds and their parts, by name.
pub(in crate::server) fn components() -> &'static Map<String, Value> {
    &all().components
}

/// Copies a schema and all it refers to.
pub(super) fn copy_with_parts(name: &str, into: &mut Map<String, Value>) {
    let Some(schema) = components().get(name).filter(|_| !into.contains_key(name)) else { return };
    into.insert(name.to_owned(), schema.clone());
    let mut parts = Vec::new();
    references(schema, &mut parts);
    for part in parts {
        copy_with_parts(part, into);
    }
}

fn references<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(members) => {
            let target = members.get("$ref").and_then(Value::as_str);
            found.extend(target.and_then(|it| it.strip_prefix(PREFIX)));
            members.values().for_each(|it| references(it, found));
        }
        Value::Array(items) => items.iter().for_each(|it| references(it, found)),
        _ => {}
    }
}

fn all() -> &'static Schemas {
    static SCHEMAS: OnceLock<Schemas> = OnceLock::new();
    SCHEMAS.get_or_init(generate)
}

fn generate() -> Schemas {
    let mut generator = SchemaSettings::openapi3().into_generator();
    let mut kinds = Vec::new();
    add_core(&mut generator, &mut kinds);
    add_groups(&mut generator, &mut kinds);
    Schemas { components: generator.take_definitions(true), kinds }
}

type Kinds = Vec<(&'static str, &'static str, String)>;

fn add<K: Resource + JsonSchema>(generator: &mut SchemaGenerator, kinds: &mut Kinds) {
    let _ = generator.subschema_for::<K>();
    kinds.push((K::API_VERSION, K::KIND, K::schema_name().into_owned()));
}

fn add_core(generator: &mut SchemaGenerator, kinds: &mut Kinds) {
    add::<core_kinds::Pod>(generator, kinds);
    add::<core_kinds::Node>(generator, kinds);
    add::<core_kinds::Namespace>(generator, kinds);
    add::<core_kinds::ConfigMap>(generator, kinds);
    add::<core_kinds::Secret>(generator, kinds);
    add::<core_kinds::Service>(generator, kinds);
    add::<core_kinds::ServiceAccount>(generator, kinds);
    add::<core_kinds::PersistentVolumeClaim>(generator, kinds);
    add::<core_kinds::PersistentVolume>(generator, kinds);
    add::<core_kinds::Event>(generator, kinds);
    add::<core_kinds::Endpoints>(generator, kinds);
    add::<core_kinds::ResourceQuota>(generator, kinds);
    add::<core_kinds::LimitRange>(generator, kinds);
    add::<core_kinds::PodTemplate>(generator, kinds);
    add::<core_kinds::ReplicationController>(generator, kinds);
}

fn add_groups(generator: &mut SchemaGenerator, kinds: &mut Kinds) {
    add::<apps::Deployment>(generator, kinds);
    add::<apps::ReplicaSet>(generator, kinds);
    add::<apps::StatefulSet>(generator, kinds);
    add::<apps::DaemonSet>(generator, kinds);
    add::<apps::ControllerRevision>(generator, kinds);
    add::<batch::Job>(generator, kinds);
    add::<batch::CronJob>(generator, kinds);
    add::<coordination::Lease>(generator, kinds);
    add::<policy::PodDisruptionBudget>(generator, kinds);
    add::<events::Event>(generator, kinds);
    add::<discovery::EndpointSlice>(generator, kinds);
    add::<autoscaling::HorizontalPodAutoscaler>(generator, kinds);
    add::<networking::Ingress>(generator, kinds);
    add::<networking::NetworkPolicy>(generator, kinds);
    add::<rbac::Role>(generator, kinds);
    add::<rbac::RoleBinding>(generator, kinds);
    add::<rbac::ClusterRole>(generator, kinds);
    add::<rbac::ClusterRoleBinding>(generator, kinds);
    add::<scheduling::PriorityClass>(generator, kinds);
    add::<storage::StorageClass>(generator, kinds);
    add::<certificates::CertificateSigningRequest>(generator, kinds);
    add::<apiextensions::CustomResourceDefinition>(generator, kinds);
    add::<admission::ValidatingWebhookConfiguration>(generator, kinds);
    add::<admission::MutatingWebhookConfiguration>(generator, kinds);
    add::<apiregistration::APIService>(generator, kinds);
}
