//! Sets of fields, as `metadata.managedFields` writes them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// A set of paths. Elements are kept as `FieldsV1` spells them: `f:name`, `k:{...}`, `v:value`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Whether the path to here is in the set itself.
    pub here: bool,
    /// What is in the set below here.
    pub below: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    /// Whether nothing is in the set.
    pub fn is_empty(&self) -> bool {
        !self.here && self.below.values().all(Self::is_empty)
    }

    /// The set below one element.
    pub fn child(&mut self, element: &str) -> &mut Self {
        if !self.below.contains_key(element) {
            self.below.insert(element.to_owned(), Self::default());
        }
        self.below.get_mut(element).expect("it was put there just above")
    }

    /// What is in either set.
    pub fn union(&self, other: &Self) -> Self {
        let mut result = self.clone();
        result.absorb(other);
        result
    }

    fn absorb(&mut self, other: &Self) {
        self.here |= other.here;
        for (element, set) in &other.below {
            self.child(element).absorb(set);
        }
    }

    /// What is in this set and not in the other.
    pub fn difference(&self, other: &Self) -> Self {
        let mut result = Self { here: self.here && !other.here, below: BTreeMap::new() };
        for (element, set) in &self.below {
            let rest = match other.below.get(element) {
                Some(other) => set.difference(other),
                None => set.clone(),
            };
            if !rest.is_empty() {
                result.below.insert(element.clone(), rest);
            }
        }
        result
    }

    /// What is in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut result = Self { here: self.here && other.here, below: BTreeMap::new() };
        for (element, set) in &self.below {
            if let Some(other) = other.below.get(element) {
                let both = set.intersection(other);
                if !both.is_empty() {
                    result.below.insert(element.clone(), both);
                }
            }
        }
        result
    }

    /// Takes one path out, and what is below it when `deep`.
    pub fn strip(&mut self, path: &[&str], depth: Depth) {
        let Some((first, rest)) = path.split_first() else {
            self.here = false;
            if depth == Depth::All {
                self.below.clear();
            }
            return;
        };
        let element = format!("f:{first}");
        if let Some(set) = self.below.get_mut(&element) {
            set.strip(rest, depth);
            if set.is_empty() {
                self.below.remove(&element);
            }
        }
    }

    /// Reads `fieldsV1`.
    pub fn read(fields: &Value) -> Self {
        let mut set = Self::default();
        let Some(members) = fields.as_object() else { return set };
        for (element, value) in members {
            if element == "." {
                set.here = true;
                continue;
            }
            let mut child = Self::read(value);
            // An element without anything below is in the set; one with something below only if it says so.
            if value.as_object().is_none_or(Map::is_empty) {
                child.here = true;
            }
            set.below.insert(element.clone(), child);
        }
        set
    }

    /// Writes `fieldsV1`.
    pub fn write(&self) -> Value {
        let mut members = Map::new();
        for (element, set) in &self.below {
            if set.is_empty() {
                continue;
            }
            let mut value = set.write();
            if set.here && value.as_object().is_some_and(|it| !it.is_empty()) {
                value["."] = json!({});
            }
            members.insert(element.clone(), value);
        }
        Value::Object(members)
    }

    /// The paths in the set, as conflict messages spell them.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths);
        paths
    }

    /// What is in the set at one level comes before what is below: the order of the real server's messages.
    fn collect_paths(&self, prefix: &str, paths: &mut Vec<String>) {
        let shown = |element: &String| shown_element(prefix, element);
        paths.extend(self.below.iter().filter(|(_, set)| set.here).map(|(element, _)| shown(element)));
        for (element, set) in &self.below {
            set.collect_paths(&shown(element), paths);
        }
    }
}

/// How much of a path to take out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The path itself.
    Self_,
    /// The path and all below it.
    All,
}

/// An element below a path, as messages spell it.
pub(super) fn shown_element(prefix: &str, element: &str) -> String {
    match element.split_once(':') {
        Some(("k", keys)) => format!("{prefix}[{}]", shown_keys(keys)),
        Some(("v", value)) => format!("{prefix}[={value}]"),
        Some((_, name)) => format!("{prefix}.{name}"),
        None => prefix.to_owned(),
    }
}

fn shown_keys(keys: &str) -> String {
    let Ok(Value::Object(members)) = serde_json::from_str(keys) else { return keys.to_owned() };
    members.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_survive_reading_and_writing() {
        let fields = json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {".": {}, "f:image": {}}}},
        });
        let set = FieldSet::read(&fields);
        assert_eq!(set.write(), fields);
        let expected = [
            ".metadata.labels",
            ".metadata.labels.app",
            ".spec.containers[name=\"a\"]",
            ".spec.containers[name=\"a\"].image",
        ];
        assert_eq!(set.paths(), expected);
        assert!(set.difference(&set).is_empty());
        assert_eq!(set.intersection(&set), set);
        assert_eq!(set.union(&FieldSet::default()), set);
    }
}
