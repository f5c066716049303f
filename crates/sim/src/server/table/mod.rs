//! Tables: what `kubectl get` shows of objects, worked out by the server.

mod age;
mod builtin;
mod pod;
mod query;

use jiff::Timestamp;
use serde_json::{Value, json};

pub use age::human;
pub use builtin::builtin;
pub use query::Query;

/// One column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Its header.
    pub name: String,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: String,
    /// `name` for the column that names the object, or empty.
    pub format: String,
    /// What it shows, for people.
    pub description: String,
    /// 0 is always shown, more only with `-o wide`.
    pub priority: i64,
    /// Where its values come from.
    pub cell: Cell,
}

/// Where the values of a column come from.
#[derive(Debug, Clone)]
pub enum Cell {
    /// What a query finds, as it is.
    Found(Query),
    /// How long ago the time was that a query finds.
    Age(Query),
    /// How many entries are in the maps or lists that the queries find.
    Count(Vec<Query>),
    /// Worked out from the object.
    Worked(fn(&Value, Timestamp) -> Value),
}

/// How much of an object a row carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Include {
    /// Its metadata.
    #[default]
    Metadata,
    /// All of it.
    Object,
    /// Nothing.
    Nothing,
}

impl Include {
    /// Reads the parameter `includeObject`.
    pub fn parse(text: Option<&str>) -> Self {
        match text {
            Some("Object") => Self::Object,
            Some("None") => Self::Nothing,
            _ => Self::Metadata,
        }
    }
}

/// The columns that a definition asks for; the name comes first, and an age when it asks for none.
pub fn custom(printed: &Value) -> Vec<Column> {
    let mut columns = vec![name_column()];
    let Some(printed) = printed.as_array().filter(|it| !it.is_empty()) else {
        columns.push(age_column());
        return columns;
    };
    for it in printed {
        let text = |name: &str| it[name].as_str().unwrap_or_default().to_owned();
        let query = Query::parse(&text("jsonPath"));
        let cell = if it["type"] == "date" { Cell::Age(query) } else { Cell::Found(query) };
        columns.push(Column {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: it["priority"].as_i64().unwrap_or(0),
            cell,
        });
    }
    columns
}

/// A whole table without rows; `metadata` is that of the list, or of the one object.
pub fn empty(columns: &[Column], metadata: Value) -> Value {
    let definitions: Vec<Value> = columns.iter().map(Column::definition).collect();
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": [],
    })
}

/// The row of an object.
pub fn row(columns: &[Column], object: &Value, include: Include, now: Timestamp) -> Value {
    let cells: Vec<Value> = columns.iter().map(|it| it.value(object, now)).collect();
    let shown = match include {
        Include::Object => object.clone(),
        Include::Metadata => super::form::metadata_only(object),
        Include::Nothing => return json!({"cells": cells}),
    };
    json!({"cells": cells, "object": shown})
}

impl Column {
    fn definition(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }

    fn value(&self, object: &Value, now: Timestamp) -> Value {
        match &self.cell {
            Cell::Found(query) => found(query, object, &self.kind),
            Cell::Age(query) => {
                let time = query.first(object).and_then(Value::as_str);
                match time.and_then(|it| it.parse::<Timestamp>().ok()) {
                    Some(time) => json!(human(now.duration_since(time))),
                    None if self.name == "Age" => json!("<unknown>"),
                    None => Value::Null,
                }
            }
            Cell::Count(queries) => {
                let size = |value: &Value| match value {
                    Value::Array(items) => items.len(),
                    Value::Object(members) => members.len(),
                    _ => 0,
                };
                json!(queries.iter().filter_map(|it| it.first(object)).map(size).sum::<usize>())
            }
            Cell::Worked(work) => work(object, now),
        }
    }
}

/// What a query finds, in the type of its column. Several finds become one text.
fn found(query: &Query, object: &Value, kind: &str) -> Value {
    let finds = query.all(object);
    match finds.as_slice() {
        [] => Value::Null,
        [Value::Null] => Value::Null,
        [one] if kind != "string" || one.is_string() => (*one).clone(),
        [one] => json!(one.to_string()),
        many => json!(Value::Array(many.iter().map(|it| (*it).clone()).collect()).to_string()),
    }
}

fn name_column() -> Column {
    Column {
        name: "Name".to_owned(),
        kind: "string".to_owned(),
        format: "name".to_owned(),
        description: "The name of the object, unique within its namespace.".to_owned(),
        priority: 0,
        cell: Cell::Found(Query::parse(".metadata.name")),
    }
}

fn age_column() -> Column {
    Column {
        name: "Age".to_owned(),
        kind: "date".to_owned(),
        format: String::new(),
        description: "How long ago the object was created.".to_owned(),
        priority: 0,
        cell: Cell::Age(Query::parse(".metadata.creationTimestamp")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(columns: &[Column], object: &Value) -> Vec<Value> {
        let now: Timestamp = "2030-01-01T00:10:00Z".parse().unwrap();
        let row = row(columns, object, Include::Metadata, now);
        row["cells"].as_array().cloned().unwrap_or_default()
    }

    #[test]
    fn a_definition_without_columns_shows_name_and_age() {
        let object = json!({"metadata": {"name": "a", "creationTimestamp": "2030-01-01T00:00:00Z"}});
        assert_eq!(cells(&custom(&Value::Null), &object), [json!("a"), json!("10m")]);
    }

    #[test]
    fn columns_of_a_definition_keep_their_types_and_are_empty_where_nothing_is() {
        let columns = custom(&json!([
            {"name": "Desired", "type": "integer", "jsonPath": ".spec.replicas"},
            {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
            {"name": "Changed", "type": "date", "jsonPath": ".status.changed"},
            {"name": "Selector", "type": "string", "jsonPath": ".status.selector", "priority": 1},
        ]));
        let object = json!({
            "metadata": {"name": "a"},
            "spec": {"replicas": 3},
            "status": {"conditions": [{"type": "Other", "status": "x"}, {"type": "Ready", "status": "True"}],
                       "changed": "2030-01-01T00:09:30Z"},
        });
        let expected = [json!("a"), json!(3), json!("True"), json!("30s"), Value::Null];
        assert_eq!(cells(&columns, &object), expected);
        assert_eq!(columns[4].priority, 1);
    }
}
