//! Server-side apply, and the record of who wrote which field.

mod managers;
mod merge;
mod repeated;
mod set;
mod walk;

use serde_json::{Value, json};

pub use managers::{Manager, Managers, Operation, Writer};
pub use repeated::repeated;
pub use set::FieldSet;

use crate::server::{object::remove, schema::Shape, status::Failure};

/// When an apply happens, and whether it takes what others own.
#[derive(Debug, Clone, Copy)]
pub struct Conflicts<'a> {
    /// The time, as `metav1.Time`.
    pub now: &'a str,
    /// Whether to take what others own.
    pub force: bool,
}

/// Applies `applied` to `live` for one manager. `live` is an empty object when there is none yet.
///
/// The result has no `managedFields`; they come back beside it.
pub fn apply(
    shape: Shape<'_>,
    live: &Value,
    applied: &Value,
    managers: &Managers,
    writer: &Writer,
    Conflicts { now, force }: Conflicts<'_>,
) -> Result<(Value, Managers), Failure> {
    let mut managers = managers.clone();
    let last = managers.set_of(writer);
    let merged = merge::merge(shape, live, applied);
    let named = walk::fields_of(shape, applied);
    managers.replace(writer, named);

    let gone = disowned(&managers, last.as_ref());
    let pruned = merge::remove_fields(shape, &merged, &gone);
    let changed = walk::compare(shape, live, &pruned);
    let written = changed.modified.union(&changed.added);

    let conflicts = managers.conflicts(writer, &written);
    if !conflicts.is_empty() && !force {
        return Err(conflict(&conflicts));
    }
    managers.take_away(writer, &written);
    managers.take_away(writer, &without_emptied(&changed.removed, &gone));
    managers.strip(writer);
    // Applying what is already so makes an owner, but does not count as a change.
    if pruned != *live {
        managers.stamp(writer, now);
    }
    Ok((pruned, managers))
}

/// Records that `writer` turned `old` into `new` by other means than apply.
pub fn track(
    shape: Shape<'_>,
    old: &Value,
    new: &Value,
    managers: &Managers,
    writer: &Writer,
    now: &str,
) -> Managers {
    let mut managers = managers.clone();
    let changed = walk::compare(shape, old, new);
    let written = changed.modified.union(&changed.added);
    if written.is_empty() && changed.removed.is_empty() {
        return managers;
    }
    managers.take_away(writer, &written);
    managers.take_away(writer, &changed.removed);
    let own = managers.set_of(writer).unwrap_or_default();
    managers.replace(writer, own.difference(&changed.removed).union(&written));
    if !written.is_empty() {
        managers.stamp(writer, now);
    }
    managers.strip(writer);
    managers
}

/// An object without what field tracking does not look at.
pub fn bare(object: &Value) -> Value {
    let mut object = object.clone();
    remove(&mut object, &["metadata", "managedFields"]);
    object
}

/// What the applier owned before, owns no longer, and nobody else owns.
fn disowned(managers: &Managers, last: Option<&FieldSet>) -> FieldSet {
    let Some(last) = last.filter(|it| !it.is_empty()) else { return FieldSet::default() };
    let owned = managers.union();
    still_there(&last.difference(&owned), &owned)
}

/// A map or list that only lost its last entry is gone from the object, but whoever made it still owns it: that is
/// how kube-apiserver counts.
fn without_emptied(removed: &FieldSet, gone: &FieldSet) -> FieldSet {
    let mut result = removed.clone();
    for (element, set) in &gone.below {
        if let Some(child) = removed.below.get(element) {
            let mut rest = without_emptied(child, set);
            rest.here &= set.here;
            result.below.insert(element.clone(), rest);
        }
    }
    result
}

/// An item or map of which someone owns a part is not removed as a whole.
fn still_there(gone: &FieldSet, owned: &FieldSet) -> FieldSet {
    let mut result = FieldSet { here: gone.here && owned.is_empty(), ..FieldSet::default() };
    let none = FieldSet::default();
    for (element, set) in &gone.below {
        let owned = owned.below.get(element).unwrap_or(&none);
        let mut rest = still_there(set, owned);
        if !rest.is_empty() {
            // A field in which nobody owns anything any more goes with all that is in it, such as finalizers that a delete has set.
            rest.here |= owned.is_empty() && element.starts_with("f:");
            result.below.insert(element.clone(), rest);
        }
    }
    result
}

fn conflict(conflicts: &[(Manager, FieldSet)]) -> Failure {
    let mut causes = Vec::new();
    let mut texts: Vec<(String, Vec<String>)> = Vec::new();
    for (manager, set) in conflicts {
        let who = manager.shown();
        let paths = set.paths();
        for path in &paths {
            causes.push(json!({
                "reason": "FieldManagerConflict",
                "message": format!("conflict with {who}"),
                "field": path,
            }));
        }
        texts.push((who, paths));
    }
    let count = causes.len();
    let word = if count == 1 { "conflict" } else { "conflicts" };
    let shown = match texts.as_slice() {
        [(who, paths)] if paths.len() == 1 => format!("conflict with {who}: {}", paths[0]),
        many => {
            let part = |(who, paths): &(String, Vec<String>)| {
                let lines: String = paths.iter().map(|it| format!("\n- {it}")).collect();
                format!("conflicts with {who}:{lines}")
            };
            many.iter().map(part).collect::<Vec<_>>().join("\n")
        }
    };
    let message = format!("Apply failed with {count} {word}: {shown}");
    Failure { details: json!({"causes": causes}), ..Failure::plain(409, "Conflict", message) }
}

#[cfg(test)]
mod tests;
