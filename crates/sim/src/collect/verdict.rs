//! What the garbage collector decides about one object. Nothing is read or written here.

use serde_json::{Value, json};

use crate::server::object::{finalizers, is_deleting, meta_str, owner_references};

pub(super) const FOREGROUND: &str = "foregroundDeletion";
pub(super) const ORPHAN: &str = "orphan";

/// How an owner stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is there and keeps its dependents.
    Solid,
    /// It is being deleted in the foreground.
    Waiting,
    /// It is not there.
    Gone,
}

/// The dependents of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dependents {
    /// There are none.
    None,
    /// There are some, and none is being deleted in the foreground.
    Some,
    /// One of them is being deleted in the foreground: there may be a circle.
    SomeWaiting,
}

/// What happens to an object.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// Nothing.
    Stays,
    /// It keeps only these owners.
    Keeps(Vec<Value>),
    /// It is deleted.
    Goes {
        /// What becomes of its own dependents.
        policy: &'static str,
        /// Whether it must stop holding up its owners first, lest they wait for each other.
        unblock: bool,
    },
}

/// What happens to an object whose owners stand like this, one for each reference.
pub(super) fn judge(object: &Value, owners: &[Standing], dependents: Dependents) -> Verdict {
    let has = |standing: Standing| owners.contains(&standing);
    if owners.is_empty() {
        return Verdict::Stays;
    }
    if has(Standing::Solid) {
        if !has(Standing::Waiting) && !has(Standing::Gone) {
            return Verdict::Stays;
        }
        // References go by uid: where two have the same, both do.
        let bad: Vec<&Value> = owner_references(object)
            .zip(owners)
            .filter(|it| *it.1 != Standing::Solid)
            .map(|it| &it.0["uid"])
            .collect();
        let kept = owner_references(object).filter(|it| !bad.contains(&&it["uid"]));
        return Verdict::Keeps(kept.cloned().collect());
    }
    if has(Standing::Waiting) && dependents != Dependents::None {
        return Verdict::Goes { policy: "Foreground", unblock: dependents == Dependents::SomeWaiting };
    }
    // What the object's own finalizers ask for is honoured.
    let policy = if has_finalizer(object, ORPHAN) {
        "Orphan"
    } else if has_finalizer(object, FOREGROUND) {
        "Foreground"
    } else {
        "Background"
    };
    Verdict::Goes { policy, unblock: false }
}

/// Whether an object waits for its dependents.
pub(super) fn waits(object: &Value) -> bool {
    is_deleting(object) && has_finalizer(object, FOREGROUND)
}

/// Whether a delete that a finalizer of the collector holds has just begun.
pub(super) fn starts(old: Option<&Value>, new: &Value, finalizer: &str) -> bool {
    let holds = |it: &Value| is_deleting(it) && has_finalizer(it, finalizer);
    holds(new) && !old.is_some_and(holds)
}

/// Whether `dependent` holds up the owner with this uid.
pub(super) fn blocks(dependent: &Value, uid: &str) -> bool {
    owner_references(dependent).any(|it| it["uid"] == uid && it["blockOwnerDeletion"] == true)
}

/// The owners that a write stopped holding up.
pub(super) fn unblocked(old: &Value, new: &Value) -> Vec<String> {
    let held = owner_references(old).filter(|it| it["blockOwnerDeletion"] == true);
    let uids = held.map(|it| it["uid"].as_str().unwrap_or_default());
    uids.filter(|it| !blocks(new, it)).map(str::to_owned).collect()
}

/// The references of an object that holds up nobody. Those of custom kinds all say so; of built-in ones only those that did.
pub(super) fn unblocking(object: &Value, custom: bool) -> Vec<Value> {
    let unblock = |it: &Value| {
        let mut owner = it.clone();
        if custom || owner["blockOwnerDeletion"] == true {
            owner["blockOwnerDeletion"] = json!(false);
        }
        owner
    };
    owner_references(object).map(unblock).collect()
}

/// Whether a reference says of an object what is so.
pub(super) fn names(reference: &Value, owner: &Value) -> bool {
    reference["uid"] == meta_str(owner, "uid")
        && reference["name"] == meta_str(owner, "name")
        && ["apiVersion", "kind"].iter().all(|it| reference[it] == owner[it])
}

fn has_finalizer(object: &Value, name: &str) -> bool {
    finalizers(object).any(|it| it == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(finalizers: &[&str], owners: &[&str]) -> Value {
        let owners: Vec<Value> = owners.iter().map(|it| json!({"uid": it})).collect();
        json!({"metadata": {"finalizers": finalizers, "ownerReferences": owners}})
    }

    #[test]
    fn one_solid_owner_keeps_an_object_and_the_others_are_forgotten() {
        let object = object(&[], &["1", "2", "3"]);
        let owners = [Standing::Gone, Standing::Solid, Standing::Waiting];
        assert_eq!(judge(&object, &owners, Dependents::None), Verdict::Keeps(vec![json!({"uid": "2"})]));
        let solid = [Standing::Solid; 3];
        assert_eq!(judge(&object, &solid, Dependents::None), Verdict::Stays);
    }

    #[test]
    fn an_object_without_dependents_goes_as_its_finalizers_say() {
        for (finalizer, policy) in
            [("orphan", "Orphan"), ("foregroundDeletion", "Foreground"), ("example.com/x", "Background")]
        {
            let verdict = judge(&object(&[finalizer], &["1"]), &[Standing::Waiting], Dependents::None);
            assert_eq!(verdict, Verdict::Goes { policy, unblock: false });
        }
    }

    #[test]
    fn a_circle_is_cut_before_its_members_go_in_the_foreground() {
        let verdict = judge(&object(&["orphan"], &["1"]), &[Standing::Waiting], Dependents::SomeWaiting);
        assert_eq!(verdict, Verdict::Goes { policy: "Foreground", unblock: true });
    }
}
