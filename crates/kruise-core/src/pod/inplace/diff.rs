//! Where two JSON documents differ.

use std::borrow::Cow;

use serde_json::Value;

/// One difference.
#[derive(Debug, PartialEq)]
pub(super) struct Change<'a> {
    /// Keys and indices on the way to it.
    pub(super) path: Vec<Cow<'a, str>>,
    /// What happened there.
    pub(super) kind: Kind<'a>,
}

/// What happened at one place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind<'a> {
    /// It was not there (or null) before.
    Add,
    /// It is another value now.
    Replace(&'a Value),
    /// It is not there any more.
    Remove,
}

/// All differences. Objects are compared key by key and lists index by index, so a container that was moved shows as
/// containers with other names.
pub(super) fn changes<'a>(old: &'a Value, new: &'a Value) -> Vec<Change<'a>> {
    let mut found = Vec::new();
    walk(old, new, &mut Vec::new(), &mut found);
    found
}

fn walk<'a>(old: &'a Value, new: &'a Value, path: &mut Vec<Cow<'a, str>>, found: &mut Vec<Change<'a>>) {
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in after {
                step(Cow::Borrowed(key), before.get(key), Some(value), path, found);
            }
            for key in before.keys().filter(|it| !after.contains_key(*it)) {
                step(Cow::Borrowed(key), before.get(key), None, path, found);
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for index in 0..before.len().max(after.len()) {
                step(Cow::Owned(index.to_string()), before.get(index), after.get(index), path, found);
            }
        }
        (Value::Number(before), Value::Number(after)) if before.as_f64() == after.as_f64() => {}
        _ if old == new => {}
        (Value::Null, _) => found.push(Change { path: path.clone(), kind: Kind::Add }),
        _ => found.push(Change { path: path.clone(), kind: Kind::Replace(new) }),
    }
}

fn step<'a>(
    key: Cow<'a, str>,
    old: Option<&'a Value>,
    new: Option<&'a Value>,
    path: &mut Vec<Cow<'a, str>>,
    found: &mut Vec<Change<'a>>,
) {
    path.push(key);
    match (old, new) {
        (Some(old), Some(new)) => walk(old, new, path, found),
        (None, Some(_)) => found.push(Change { path: path.clone(), kind: Kind::Add }),
        (Some(_), None) => found.push(Change { path: path.clone(), kind: Kind::Remove }),
        (None, None) => {}
    }
    path.pop();
}
