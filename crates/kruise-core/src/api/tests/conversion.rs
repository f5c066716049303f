//! Objects survive the way to the other version and back.

mod cloneset;
mod container_recreate_request;
mod hostile;
mod node_image;
mod resource_distribution;
mod sidecarset;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::api::{APPS_V1ALPHA1, APPS_V1BETA1, convert, convert::PRESERVED};

/// Takes `object` to the other version and back.
fn there_and_back(object: &Value) -> Value {
    let here = object["apiVersion"].as_str().unwrap();
    let there = if here == APPS_V1BETA1 { APPS_V1ALPHA1 } else { APPS_V1BETA1 };
    convert(convert(object.clone(), there).unwrap(), here).unwrap()
}

fn to_alpha(object: &Value) -> Value {
    convert(object.clone(), APPS_V1ALPHA1).unwrap()
}

fn to_beta(object: &Value) -> Value {
    convert(object.clone(), APPS_V1BETA1).unwrap()
}

fn has_preserved(object: &Value) -> bool {
    object["metadata"]["annotations"].get(PRESERVED).is_some()
}

/// An object with some of the given fields, each there or not.
fn some_of(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields: Vec<_> =
        fields.into_iter().map(|(name, value)| (Just(name), prop::option::of(value))).collect();
    fields
        .prop_map(|fields| {
            let there = fields.into_iter().filter_map(|(name, value)| value.map(|it| (name.to_owned(), it)));
            Value::Object(there.collect())
        })
        .boxed()
}

/// One of the given values.
fn one_of(values: impl IntoIterator<Item = Value>) -> BoxedStrategy<Value> {
    prop::sample::select(values.into_iter().collect::<Vec<_>>()).boxed()
}

fn int_or_percent() -> BoxedStrategy<Value> {
    prop_oneof![(0..200i32).prop_map(Value::from), (0..100u8).prop_map(|it| json!(format!("{it}%")))].boxed()
}

/// JSON of any shape, for the parts that are kept as written.
fn any_json() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z/.~]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,6}", inner, 0..4)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
    .boxed()
}

/// A whole object of `kind`; empty maps in the metadata are left out, as the API server does.
fn object(
    api_version: &'static str,
    kind: &'static str,
    labels: BoxedStrategy<Value>,
    annotations: BoxedStrategy<Value>,
    spec: BoxedStrategy<Value>,
    status: BoxedStrategy<Value>,
) -> BoxedStrategy<Value> {
    (labels, annotations, spec, prop::option::of(status))
        .prop_map(move |(labels, annotations, spec, status)| {
            let mut metadata = Map::from_iter([("name".to_owned(), json!("it"))]);
            for (name, map) in [("labels", labels), ("annotations", annotations)] {
                if map.as_object().is_some_and(|it| !it.is_empty()) {
                    metadata.insert(name.to_owned(), map);
                }
            }
            let mut object =
                json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec});
            if let Some(status) = status {
                object["status"] = status;
            }
            object
        })
        .boxed()
}
