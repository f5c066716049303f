//! What a round trip through Go's types makes of JSON, written in one pass.
//!
//! In Go a missing member and a `null` one are the same; an empty member marked `omitempty` is not written, unless it
//! is a struct held by value, which is never empty to Go's encoder; and a pointer keeps whatever it points to. Members
//! that the table does not know are newer than it: Go would drop them, here they are kept as they are. So is a value of
//! a wrong type, over which Go would fail.

use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Map, Value};

use super::{
    gojson::{number, write_list, write_map, write_text, write_value},
    shape::{Field, Kind, SHAPES},
};
use crate::quantity;

/// In which order the members of structs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// By name: what Go does with a map.
    Sorted,
    /// As declared: what Go does with a struct.
    Declared,
}

/// Writes `value`, which is the struct at `place` of the table; `extra` is a member that is added, or replaced.
pub(super) fn write_struct(
    out: &mut String,
    place: usize,
    value: &Value,
    order: Order,
    extra: Option<(&str, &str)>,
) {
    let empty = Map::new();
    let members = match value {
        Value::Null => &empty,
        Value::Object(it) => it,
        other => return write_value(out, other),
    };
    let fields = SHAPES.get(place);
    let mut names: Vec<(&str, Option<&Field>)> = fields
        .iter()
        .filter(|it| it.is_always || !is_omitted(&it.kind, members.get(it.name).unwrap_or(&Value::Null)))
        .map(|it| (it.name, Some(it)))
        .collect();
    let is_known = |name: &str| fields.iter().any(|it| it.name == name);
    let mut others: Vec<_> = members.keys().map(String::as_str).filter(|it| !is_known(it)).collect();
    others.extend(extra.filter(|it| !members.contains_key(it.0)).map(|it| it.0));
    others.sort_unstable();
    names.extend(others.into_iter().map(|it| (it, None)));
    if order == Order::Sorted {
        names.sort_unstable_by_key(|it| it.0);
    }

    out.push('{');
    for (index, (name, field)) in names.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_text(out, name);
        out.push(':');
        let member = members.get(name).unwrap_or(&Value::Null);
        match (field, extra) {
            (Some(field), _) => write(out, &field.kind, member, order),
            (None, Some((key, text))) if key == name => write_text(out, text),
            (None, _) => write_value(out, member),
        }
    }
    out.push('}');
}

fn write(out: &mut String, kind: &Kind, value: &Value, order: Order) {
    match (kind, value) {
        (Kind::Struct(place), it) => write_struct(out, *place, it, order, None),
        (Kind::Text, Value::Null) => out.push_str("\"\""),
        (Kind::Flag, Value::Null) => out.push_str("false"),
        (Kind::Number | Kind::IntOrString, Value::Null) => out.push('0'),
        (Kind::Number, it) if is_zero(it) => out.push('0'),
        (Kind::Quantity, it) => write_quantity(out, it),
        (Kind::Time, Value::String(it)) => write_time(out, it),
        (Kind::Pointer(inner), it) if !it.is_null() => write(out, inner, it, order),
        (Kind::List(inner), Value::Array(items)) => {
            write_list(out, items, |out, it| write(out, inner, it, order));
        }
        (Kind::Map(inner), Value::Object(map)) => write_map(out, map, |out, it| write(out, inner, it, order)),
        (_, it) => write_value(out, it),
    }
}

/// Whether Go's encoder leaves out a member that is marked `omitempty`.
fn is_omitted(kind: &Kind, value: &Value) -> bool {
    match (kind, value) {
        (Kind::Struct(_) | Kind::Quantity | Kind::IntOrString | Kind::Time, _) => false,
        (_, Value::Null) => true,
        (Kind::Text, Value::String(it)) => it.is_empty(),
        (Kind::Flag, Value::Bool(it)) => !it,
        (Kind::Number, it) => is_zero(it),
        (Kind::List(_), Value::Array(it)) => it.is_empty(),
        (Kind::Map(_), Value::Object(it)) => it.is_empty(),
        _ => false,
    }
}

fn is_zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}

fn write_quantity(out: &mut String, value: &Value) {
    let text = match value {
        Value::Null => Some("0".to_owned()),
        Value::String(it) => quantity::canonical(it),
        Value::Number(it) => quantity::canonical(&number(it)),
        _ => None,
    };
    match text {
        Some(it) => write_text(out, &it),
        None => write_value(out, value),
    }
}

/// Times are kept in UTC and to the second; the zero time is `null`.
fn write_time(out: &mut String, text: &str) {
    match text.parse::<Timestamp>() {
        Ok(it) => {
            let utc = it.to_zoned(TimeZone::UTC);
            write_text(out, &utc.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
        }
        Err(_) => write_text(out, text),
    }
}
