//! Labels, annotations and finalizers that differ between two templates.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    env::{Source, from_metadata},
    spec::UpdateSpec,
};

/// Writes into `spec` what changes: what a container reads into its environment goes with that container, the rest into
/// a patch. Keys are always added and removed one by one, so a template that loses its last annotation takes nothing
/// from the pod that others have put there. `None` if a template's metadata cannot be read.
pub(super) fn split(old: &Value, new: &Value, env_from_metadata: bool, spec: &mut UpdateSpec) -> Option<()> {
    let mut patch = Map::new();
    for (field, source) in [("labels", Source::Labels), ("annotations", Source::Annotations)] {
        let (before, after) = (strings(&old["metadata"][field])?, strings(&new["metadata"][field])?);
        let mut rest = Map::new();
        for (key, value) in &after {
            if before.get(key) == Some(value) {
                continue;
            }
            let readers = if env_from_metadata { readers(new, source, key) } else { Vec::new() };
            if readers.is_empty() {
                rest.insert((*key).into(), json!(value));
            }
            for name in readers {
                let metadata = spec.container_ref_metadata.entry(name.to_owned()).or_default();
                let map = match source {
                    Source::Labels => &mut metadata.labels,
                    Source::Annotations => &mut metadata.annotations,
                };
                map.insert((*key).into(), (*value).into());
                spec.update_env_from_metadata = true;
            }
        }
        for key in before.keys().filter(|it| !after.contains_key(*it)) {
            rest.insert((*key).into(), Value::Null);
        }
        if !rest.is_empty() {
            patch.insert(field.into(), rest.into());
        }
    }
    finalizers(&list(&old["metadata"]["finalizers"])?, &list(&new["metadata"]["finalizers"])?, &mut patch);
    if !patch.is_empty() {
        spec.meta_data_patch = Some(json!({"metadata": patch}));
    }
    Some(())
}

/// The containers that read this label or annotation into their environment.
fn readers<'a>(template: &'a Value, source: Source, key: &str) -> Vec<&'a str> {
    let containers = template["spec"]["containers"].as_array().into_iter().flatten();
    containers
        .filter(|it| {
            let env = it["env"].as_array().map_or(&[][..], Vec::as_slice);
            from_metadata(env).any(|it| it.source == source && it.key == key)
        })
        .filter_map(|it| it["name"].as_str())
        .collect()
}

/// Finalizers by the directives of strategic merge patches, which leave those of others alone.
fn finalizers(old: &[&str], new: &[&str], patch: &mut Map<String, Value>) {
    if old == new {
        return;
    }
    let missing = |from: &[&str], there: &[&str]| -> Vec<Value> {
        from.iter().filter(|it| !there.contains(it)).map(|it| json!(it)).collect()
    };
    let (removed, added) = (missing(old, new), missing(new, old));
    if !removed.is_empty() {
        patch.insert("$deleteFromPrimitiveList/finalizers".into(), removed.into());
    }
    if !added.is_empty() {
        patch.insert("finalizers".into(), added.into());
    }
    if !old.is_empty() && !new.is_empty() {
        patch.insert("$setElementOrder/finalizers".into(), json!(new));
    }
}

fn strings(map: &Value) -> Option<BTreeMap<&str, &str>> {
    match map {
        Value::Null => Some(BTreeMap::new()),
        Value::Object(map) => map.iter().map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect(),
        _ => None,
    }
}

fn list(list: &Value) -> Option<Vec<&str>> {
    match list {
        Value::Null => Some(Vec::new()),
        Value::Array(list) => list.iter().map(Value::as_str).collect(),
        _ => None,
    }
}
