//! Label and field selectors, as text in a query.

use serde_json::Value;

use crate::server::{
    object::Stored,
    registry::{Resource, events},
    status::Failure,
};

/// What a list or watch lets through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Labels, all of which must hold.
    pub labels: Vec<Requirement>,
    /// Fields, all of which must hold.
    pub fields: Vec<FieldRequirement>,
}

/// One comparison of a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: String,
    /// What must hold for it.
    pub test: Test,
}

/// What must hold for a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// It has one of these values.
    In(Vec<String>),
    /// It is absent or has none of these values.
    NotIn(Vec<String>),
    /// It is present.
    Exists,
    /// It is absent.
    Absent,
    /// It is a number above this one.
    Above(i64),
    /// It is a number below this one.
    Below(i64),
}

/// One comparison of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRequirement {
    /// The path, such as `spec.nodeName`.
    pub path: String,
    /// The value compared with.
    pub value: String,
    /// Whether it must be equal (or must differ).
    pub equal: bool,
}

impl Filter {
    /// Reads both selectors of a query.
    pub fn parse(labels: Option<&str>, fields: Option<&str>) -> Result<Self, Failure> {
        Ok(Self {
            labels: parse_labels(labels.unwrap_or_default())?,
            fields: parse_fields(fields.unwrap_or_default())?,
        })
    }

    /// The same for objects as they are kept: their fields may have other names there.
    pub fn on_kept(mut self, resource: &Resource) -> Self {
        if resource.is_other_face() {
            for field in &mut self.fields {
                field.path = events::kept_path(&field.path);
            }
        }
        self
    }

    /// Whether everything passes.
    pub fn is_open(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether the object passes.
    pub fn accepts(&self, object: &Stored) -> bool {
        if !self.labels.iter().all(|it| it.holds(label(object, &it.key))) {
            return false;
        }
        if self.fields.is_empty() {
            return true;
        }
        // Names need no parsing, and they are what most field selectors ask for.
        let mut tree: Option<Value> = None;
        self.fields.iter().all(|it| {
            let equal = match it.path.as_str() {
                "metadata.name" => *object.name == *it.value,
                "metadata.namespace" => *object.namespace == *it.value,
                path => field_text(tree.get_or_insert_with(|| object.value()), path) == it.value,
            };
            equal == it.equal
        })
    }

    /// The first field that the kind has no selector for.
    pub fn unsupported_field<'a>(&'a self, supported: &[String]) -> Option<&'a str> {
        let known = |path: &str| {
            matches!(path, "metadata.name" | "metadata.namespace") || supported.iter().any(|it| it == path)
        };
        self.fields.iter().map(|it| it.path.as_str()).find(|it| !known(it))
    }
}

impl Requirement {
    /// Reads one of the `matchExpressions` of a `metav1.LabelSelector`; nothing if it is none.
    pub fn read(expression: &Value) -> Option<Self> {
        let values = expression["values"].as_array().into_iter().flatten();
        let values = values.filter_map(|it| it.as_str().map(str::to_owned)).collect();
        let test = match expression["operator"].as_str()? {
            "In" => Test::In(values),
            "NotIn" => Test::NotIn(values),
            "Exists" => Test::Exists,
            "DoesNotExist" => Test::Absent,
            _ => return None,
        };
        Some(Self { key: expression["key"].as_str()?.to_owned(), test })
    }

    /// Whether it holds for a label's value (or its absence).
    pub fn holds(&self, value: Option<&str>) -> bool {
        match &self.test {
            Test::In(values) => value.is_some_and(|it| values.iter().any(|other| other == it)),
            Test::NotIn(values) => value.is_none_or(|it| values.iter().all(|other| other != it)),
            Test::Exists => value.is_some(),
            Test::Absent => value.is_none(),
            Test::Above(bound) => number(value).is_some_and(|it| it > *bound),
            Test::Below(bound) => number(value).is_some_and(|it| it < *bound),
        }
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value.and_then(|it| it.parse().ok())
}

fn label<'a>(object: &'a Stored, key: &str) -> Option<&'a str> {
    object.labels.iter().find(|(name, _)| **name == *key).map(|(_, value)| &**value)
}

fn field_text(object: &Value, path: &str) -> String {
    // Only events have this one: who has reported them, by the older name or by the newer.
    if path == "source" {
        let component = object["source"]["component"].as_str().filter(|it| !it.is_empty());
        return component.or_else(|| object["reportingComponent"].as_str()).unwrap_or_default().to_owned();
    }
    let value = path.split('.').fold(object, |value, name| &value[name]);
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, Failure> {
    split_outside_brackets(text).into_iter().map(parse_label).collect()
}

fn split_outside_brackets(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
    for (index, char) in text.char_indices() {
        match char {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts.into_iter().map(str::trim).filter(|it| !it.is_empty()).collect()
}

fn parse_label(part: &str) -> Result<Requirement, Failure> {
    let requirement = |key: &str, test: Test| -> Result<Requirement, Failure> {
        let key = key.trim();
        if key.is_empty() || key.contains(char::is_whitespace) {
            return Err(unparsable(part));
        }
        Ok(Requirement { key: key.to_owned(), test })
    };
    let one = |value: &str| vec![value.trim().to_owned()];

    if let Some(key) = part.strip_prefix('!') {
        return requirement(key, Test::Absent);
    }
    if let Some(head) = part.strip_suffix(')') {
        let (head, values) = head.split_once('(').ok_or_else(|| unparsable(part))?;
        let values = values.split(',').map(|it| it.trim().to_owned()).collect();
        let (key, word) = head.trim().rsplit_once(char::is_whitespace).ok_or_else(|| unparsable(part))?;
        return match word {
            "in" => requirement(key, Test::In(values)),
            "notin" => requirement(key, Test::NotIn(values)),
            _ => Err(unparsable(part)),
        };
    }
    if let Some((key, value)) = part.split_once("!=") {
        return requirement(key, Test::NotIn(one(value)));
    }
    if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        return requirement(key, Test::In(one(value)));
    }
    if let Some((key, value)) = part.split_once('>') {
        return requirement(key, Test::Above(value.trim().parse().map_err(|_| unparsable(part))?));
    }
    if let Some((key, value)) = part.split_once('<') {
        return requirement(key, Test::Below(value.trim().parse().map_err(|_| unparsable(part))?));
    }
    requirement(part, Test::Exists)
}

fn unparsable(part: &str) -> Failure {
    Failure::bad_request(format!("unable to parse requirement: {part:?}"))
}

fn parse_fields(text: &str) -> Result<Vec<FieldRequirement>, Failure> {
    let parts = text.split(',').map(str::trim).filter(|it| !it.is_empty());
    let parse = |part: &str| {
        let (split, equal) = match part.split_once("!=") {
            Some(split) => (Some(split), false),
            None => (part.split_once("==").or_else(|| part.split_once('=')), true),
        };
        let (path, value) = split.ok_or_else(|| {
            Failure::bad_request(format!("invalid selector: '{text}'; can't understand '{part}'"))
        })?;
        Ok(FieldRequirement { path: path.trim().to_owned(), value: value.trim().to_owned(), equal })
    };
    parts.map(parse).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod() -> Stored {
        let object = json!({
            "metadata": {"name": "a", "namespace": "b", "labels": {"app": "web", "tier": "3"}},
            "spec": {"nodeName": "n1"},
        });
        Stored::keep(1, object, &"".into()).0
    }

    #[test]
    fn every_form_of_label_selector_is_understood() {
        let accepts = |text: &str| Filter::parse(Some(text), None).unwrap().accepts(&pod());
        for text in ["app", "app=web", "app==web", "app in (web, db)", "!gone", "gone!=x", "tier>2", "tier<4"]
        {
            assert!(accepts(text), "{text}");
        }
        for text in ["!app", "app!=web", "app notin (web)", "gone", "app=web,tier=4", "tier>3", "app>1"] {
            assert!(!accepts(text), "{text}");
        }
        assert!(accepts("gone notin (a,b),app in (web)"));
        assert_eq!(Filter::parse(Some("a b"), None).unwrap_err().code, 400);
    }

    #[test]
    fn fields_are_compared_as_text() {
        let accepts = |text: &str| Filter::parse(None, Some(text)).unwrap().accepts(&pod());
        assert!(accepts("spec.nodeName=n1,metadata.name!=b,status.phase="));
        assert!(!accepts("metadata.namespace=c"));
        assert_eq!(Filter::parse(None, Some("nonsense")).unwrap_err().code, 400);
    }
}
