//! The entries of `metadata.managedFields`.

use serde_json::{Value, json};

use super::set::{Depth, FieldSet};

/// How a manager wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Server-side apply.
    Apply,
    /// Anything else.
    Update,
}

/// Who writes now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    /// The field manager's name.
    pub name: String,
    /// How it writes.
    pub operation: Operation,
    /// In which version of the kind.
    pub api_version: String,
    /// Through which subresource, or empty.
    pub subresource: String,
}

/// One entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Manager {
    /// Who.
    pub writer: Writer,
    /// When it last changed something; null when it never did.
    pub time: Value,
    /// Its fields.
    pub set: FieldSet,
}

/// All entries of an object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Managers {
    entries: Vec<Manager>,
}

const STRIPPED: &[&[&str]] = &[
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "uid"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

impl Manager {
    /// As conflict messages name it.
    pub fn shown(&self) -> String {
        let Writer { name, api_version, subresource, operation } = &self.writer;
        let through =
            if subresource.is_empty() { String::new() } else { format!(" with subresource {subresource:?}") };
        match operation {
            Operation::Apply => format!("{name:?}{through}"),
            Operation::Update => format!("{name:?}{through} using {api_version}"),
        }
    }

    fn is(&self, writer: &Writer) -> bool {
        let Writer { name, operation, api_version, subresource } = &self.writer;
        *name == writer.name
            && *operation == writer.operation
            && *subresource == writer.subresource
            // An applier is one manager in all versions.
            && (*operation == Operation::Apply || *api_version == writer.api_version)
    }
}

impl Managers {
    /// Reads `metadata.managedFields`.
    pub fn read(object: &Value) -> Self {
        let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
        let read = |entry: &Value| {
            let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            let operation = if entry["operation"] == "Apply" { Operation::Apply } else { Operation::Update };
            let writer = Writer {
                name: text("manager"),
                operation,
                api_version: text("apiVersion"),
                subresource: text("subresource"),
            };
            Manager { writer, time: entry["time"].clone(), set: FieldSet::read(&entry["fieldsV1"]) }
        };
        let mut managers: Vec<Manager> = Vec::new();
        for entry in entries.map(read) {
            // Of two entries of one manager, which a Scale can leave behind, the later counts.
            managers.retain(|it| !it.is(&entry.writer));
            managers.push(entry);
        }
        Self { entries: managers }
    }

    /// What any write through the scale subresource does to the count's owners, even one that changes nothing. They
    /// are shown to the Scale in its own version and come back as others: an updater's count leaves its entry for one
    /// of its own, without a time.
    pub fn pass_through_scale(&mut self, count: &[&str]) {
        let mut alone = FieldSet::default();
        count.iter().fold(&mut alone, |set, name| set.child(&format!("f:{name}"))).here = true;
        let mut returned = Vec::new();
        for entry in self.entries.iter_mut().filter(|it| it.writer.operation == Operation::Update) {
            if !entry.set.intersection(&alone).is_empty() {
                entry.set = entry.set.difference(&alone);
                returned.push(Manager {
                    writer: entry.writer.clone(),
                    time: Value::Null,
                    set: alone.clone(),
                });
            }
        }
        self.entries.retain(|it| !it.set.is_empty());
        self.entries.extend(returned);
    }

    /// Writes `metadata.managedFields`, in the order kube-apiserver does: appliers first, then by time and name.
    pub fn write(&self) -> Value {
        let mut rows: Vec<&Manager> = self.entries.iter().filter(|it| !it.set.is_empty()).collect();
        rows.sort_by_key(|it| {
            let Writer { name, operation, api_version, subresource } = it.writer.clone();
            let time = it.time.as_str().unwrap_or_default().to_owned();
            (operation == Operation::Update, time, name, api_version, subresource)
        });
        let row = |entry: &Manager| {
            let mut row = json!({
                "manager": entry.writer.name,
                "operation": if entry.writer.operation == Operation::Apply { "Apply" } else { "Update" },
                "apiVersion": entry.writer.api_version,
                "fieldsType": "FieldsV1",
                "fieldsV1": entry.set.write(),
            });
            if !entry.time.is_null() {
                row["time"] = entry.time.clone();
            }
            if !entry.writer.subresource.is_empty() {
                row["subresource"] = json!(entry.writer.subresource);
            }
            row
        };
        rows.into_iter().map(row).collect()
    }

    /// Says when a writer last changed something. Writes through the scale subresource are recorded without a time.
    pub(super) fn stamp(&mut self, writer: &Writer, now: &str) {
        let entry = self.entries.iter_mut().find(|it| it.is(writer) && writer.subresource != "scale");
        if let Some(entry) = entry {
            entry.time = json!(now);
        }
    }

    /// Whether nobody is recorded.
    pub fn is_empty(&self) -> bool {
        self.entries.iter().all(|it| it.set.is_empty())
    }

    /// Whether anyone owns a path.
    pub fn has_owner(&self, path: &[&str]) -> bool {
        let owns = |set: &FieldSet| {
            let place = path.iter().try_fold(set, |set, name| set.below.get(&format!("f:{name}")));
            place.is_some_and(|it| it.here)
        };
        self.entries.iter().any(|it| owns(&it.set))
    }

    /// Whether any applier is recorded.
    pub fn has_appliers(&self) -> bool {
        self.entries.iter().any(|it| it.writer.operation == Operation::Apply)
    }

    pub(super) fn set_of(&self, writer: &Writer) -> Option<FieldSet> {
        self.entries.iter().find(|it| it.is(writer)).map(|it| it.set.clone())
    }

    pub(super) fn replace(&mut self, writer: &Writer, set: FieldSet) {
        let entry = Manager { writer: writer.clone(), time: Value::Null, set };
        match self.entries.iter_mut().find(|it| it.is(writer)) {
            Some(old) => *old = Manager { time: old.time.clone(), ..entry },
            None => self.entries.push(entry),
        }
    }

    pub(super) fn union(&self) -> FieldSet {
        self.entries.iter().fold(FieldSet::default(), |set, it| set.union(&it.set))
    }

    pub(super) fn conflicts(&self, writer: &Writer, written: &FieldSet) -> Vec<(Manager, FieldSet)> {
        let others = self.entries.iter().filter(|it| !it.is(writer));
        let mut conflicts: Vec<(Manager, FieldSet)> = others
            .map(|it| (it.clone(), it.set.intersection(written)))
            .filter(|(_, set)| !set.is_empty())
            .collect();
        conflicts.sort_by_key(|(it, _)| {
            let Writer { name, operation, api_version, subresource } = it.writer.clone();
            (name, operation == Operation::Update, api_version, subresource.is_empty(), subresource)
        });
        conflicts
    }

    /// Takes fields away from everyone but the writer.
    pub(super) fn take_away(&mut self, writer: &Writer, fields: &FieldSet) {
        for entry in self.entries.iter_mut().filter(|it| !it.is(writer)) {
            entry.set = entry.set.difference(fields);
        }
        self.entries.retain(|it| it.is(writer) || !it.set.is_empty());
    }

    /// Takes out of the writer's set what is never tracked.
    pub(super) fn strip(&mut self, writer: &Writer) {
        for entry in self.entries.iter_mut().filter(|it| it.is(writer)) {
            for path in STRIPPED {
                entry.set.strip(path, Depth::Self_);
            }
            // The main resource does not own status, nor the status subresource anything else.
            match writer.subresource.as_str() {
                "status" => entry.set.below.retain(|name, _| name == "f:status" || name == "f:metadata"),
                "" => {}
                _ => {}
            }
        }
        self.entries.retain(|it| !it.set.is_empty());
    }

    /// Takes out paths a write through this endpoint cannot have changed.
    pub fn forget(&mut self, writer: &Writer, path: &[&str]) {
        for entry in self.entries.iter_mut().filter(|it| it.is(writer)) {
            entry.set.strip(path, Depth::All);
        }
        self.entries.retain(|it| !it.set.is_empty());
    }
}
