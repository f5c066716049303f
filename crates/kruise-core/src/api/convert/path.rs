//! Places inside a JSON document.

use serde_json::{Map, Value};

/// The way from the root of a document to one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path(Vec<Segment>);

/// One step of a [`Path`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    /// Into the field of an object.
    Field(String),
    /// Into the first entry of a list that has these values; entries without them count as having empty ones.
    Entry(Vec<(&'static str, String)>),
}

impl Path {
    /// A path of fields, separated by dots.
    pub(crate) fn fields(dotted: &str) -> Self {
        Self(dotted.split('.').map(|it| Segment::Field(it.to_owned())).collect())
    }

    /// The path of an annotation.
    pub(crate) fn annotation(key: &str) -> Self {
        Self::fields("metadata.annotations").field(key)
    }

    /// The path of a label.
    pub(crate) fn label(key: &str) -> Self {
        Self::fields("metadata.labels").field(key)
    }

    /// This path and then into `name`.
    pub(crate) fn field(mut self, name: &str) -> Self {
        self.0.push(Segment::Field(name.to_owned()));
        self
    }

    /// This path and then into a list's entry.
    pub(crate) fn entry(mut self, values: Vec<(&'static str, String)>) -> Self {
        self.0.push(Segment::Entry(values));
        self
    }

    /// The value at this place.
    pub(crate) fn get<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(root, |at, segment| match segment {
            Segment::Field(name) => at.get(name),
            Segment::Entry(values) => at.as_array()?.iter().find(|it| has_values(it, values)),
        })
    }

    /// Puts `value` at this place, or takes away what is there. Objects on the way are made as needed; where
    /// something else than an object or the list entry stands in the way, nothing happens.
    pub(crate) fn set(&self, root: &mut Value, value: Option<Value>) {
        let Some((Segment::Field(last), way)) = self.0.split_last() else { return };
        let mut at = root;
        for segment in way {
            let next = match segment {
                Segment::Field(name) => {
                    let Some(fields) = at.as_object_mut() else { return };
                    if value.is_none() && !fields.contains_key(name) {
                        return;
                    }
                    fields.entry(name).or_insert_with(|| Value::Object(Map::new()))
                }
                Segment::Entry(values) => {
                    let entry =
                        at.as_array_mut().and_then(|it| it.iter_mut().find(|it| has_values(it, values)));
                    let Some(entry) = entry else { return };
                    entry
                }
            };
            at = next;
        }
        let Some(fields) = at.as_object_mut() else { return };
        match value {
            Some(value) => fields.insert(last.clone(), value),
            None => fields.remove(last),
        };
    }

    /// The path as one word, for the annotation. `~` and `/` are written as in JSON pointers.
    pub(crate) fn key(&self) -> String {
        let escape = |it: &str| it.replace('~', "~0").replace('/', "~1");
        let words = self.0.iter().map(|segment| match segment {
            Segment::Field(name) => escape(name),
            Segment::Entry(values) => values.iter().map(|(_, it)| escape(it)).collect::<Vec<_>>().join("/"),
        });
        words.collect::<Vec<_>>().join("/")
    }
}

fn has_values(entry: &Value, values: &[(&'static str, String)]) -> bool {
    entry.is_object()
        && values.iter().all(|(name, value)| {
            entry.get(*name).map_or(value.is_empty(), |it| it.as_str() == Some(value.as_str()))
        })
}
