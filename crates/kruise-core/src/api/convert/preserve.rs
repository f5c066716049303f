//! How a value survives a version that has no place for it.
//!
//! A *facet* is a value of one version together with the values of the other version that follow from it. When a
//! conversion cannot be undone for some facet, the annotation keeps the facet's value and what followed from it. On
//! the way back the kept value is used if what followed is still the same, and dropped if somebody changed it: an
//! edit made in one version is never overridden by what the other version said before.
//!
//! Only facets named by the kind are ever restored, and only if the result still has the right types, so a crafted
//! annotation can write neither other fields nor objects that cannot be read back.

use serde_json::{Map, Value, json};

use super::{PRESERVED, Path, Shape, Version};

/// A value of one version that the other version cannot always express.
#[derive(Debug, Clone)]
pub(crate) struct Facet {
    /// Where the value is.
    pub(crate) at: Path,
    /// Where the other version has what follows from the value.
    pub(crate) follows: Vec<Path>,
}

impl Facet {
    /// A facet at `at` from which `follows` follow.
    pub(crate) fn new(at: Path, follows: impl IntoIterator<Item = Path>) -> Self {
        Self { at, follows: follows.into_iter().collect() }
    }

    fn followers(&self, other: &Value) -> Value {
        self.follows.iter().map(|it| it.get(other).cloned().unwrap_or(Value::Null)).collect()
    }
}

/// Converts `source` to `to`, restoring what its annotation preserves and preserving what `to` cannot express.
pub(super) fn convert(mut source: Value, shape: &Shape, to: Version) -> Value {
    let from = to.other();
    let preserved = take_annotation(&mut source);
    let preserved = preserved.as_ref().and_then(|it| it.get(to.api_version())).and_then(Value::as_object);

    let mut plain = source.clone();
    shape.forward(&mut plain, to);
    let mut result = plain;
    if let Some(preserved) = preserved {
        let restored = restore(&result, preserved, &(shape.facets)(to, &source), &source);
        if (shape.decodes)(to, &restored) {
            result = restored;
        }
    }

    let kept = lost_on_the_way(&source, &result, shape, from);
    if !kept.is_empty() {
        put_annotation(&mut result, &json!({ from.api_version(): kept }));
    }
    drop_empty_maps(&mut result);
    result
}

fn restore(plain: &Value, preserved: &Map<String, Value>, facets: &[Facet], source: &Value) -> Value {
    let mut restored = plain.clone();
    for facet in facets {
        let Some(record) = preserved.get(&facet.at.key()) else { continue };
        if record.get("when") == Some(&facet.followers(source)) {
            facet.at.set(&mut restored, record.get("kept").cloned());
        }
    }
    restored
}

/// What converting `result` back would get wrong about `source`, as records by facet.
fn lost_on_the_way(source: &Value, result: &Value, shape: &Shape, from: Version) -> Map<String, Value> {
    let mut back = result.clone();
    shape.forward(&mut back, from);
    let mut records = Map::new();
    for facet in (shape.facets)(from, source) {
        let kept = facet.at.get(source);
        if kept == facet.at.get(&back) {
            continue;
        }
        let mut record = Map::from_iter([("when".to_owned(), facet.followers(result))]);
        if let Some(kept) = kept {
            record.insert("kept".to_owned(), kept.clone());
        }
        records.insert(facet.at.key(), record.into());
        // Coarser facets that follow need to keep only what this one does not mend.
        facet.at.set(&mut back, kept.cloned());
    }
    records
}

fn take_annotation(object: &mut Value) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let text = annotations.remove(PRESERVED)?;
    serde_json::from_str(text.as_str()?).ok()
}

/// The API server leaves empty maps out of the metadata, and so do we where the last entry went.
fn drop_empty_maps(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for name in ["labels", "annotations"] {
        if metadata.get(name).and_then(Value::as_object).is_some_and(Map::is_empty) {
            metadata.remove(name);
        }
    }
}

fn put_annotation(object: &mut Value, records: &Value) {
    if object.get("metadata").is_some_and(Value::is_object) {
        Path::annotation(PRESERVED).set(object, Some(records.to_string().into()));
    }
}
