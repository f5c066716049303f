//! Owner references, the finalizers that belong to them, and deletes that heed them.

use http::Method;
use serde_json::{Value, json};

use super::generate::{JSON, KINDS, Kind, MERGE, NAMES, Step, pick};
use crate::seed::Seed;

/// A uid that no object has.
pub(super) const NOBODY: &str = "00000000-0000-4000-8000-000000000000";

/// A uid that no object has, another one for each name: two owners that were never there are not the same.
pub(super) fn nobody(name: &str) -> String {
    format!("{}{:012x}", &NOBODY[..24], Seed::new(0).of(name).bits() & 0xffff_ffff_ffff)
}

const POLICIES: [&str; 3] = ["Background", "Foreground", "Orphan"];

/// How many kinds families are made of: few, so that relations are many.
const FAMILY_KINDS: usize = 3;

/// How many objects a family starts with before anything is deleted.
const FOUNDERS: usize = 6;

/// A sequence about owners and dependents alone, for a server that has a garbage collector.
pub fn family(seed: Seed, length: usize) -> Vec<Step> {
    (0..length).map(|index| family_step(seed.at(index as u64), index)).collect()
}

fn family_step(draw: Seed, index: usize) -> Step {
    let kind = pick(draw.of("kind"), &KINDS[..FAMILY_KINDS]);
    let name = *pick(draw.of("name"), NAMES);
    let one = format!("{}/{name}", kind.list());
    let verb = if index < FOUNDERS { 0 } else { draw.of("verb").below(100) };
    let (method, path, media, body) = match verb {
        0..40 => (Method::POST, kind.list(), JSON, relative(kind, name, draw)),
        40..58 => (Method::PATCH, one, MERGE, family_change(draw)),
        58..64 => (Method::PATCH, one, MERGE, json!({"metadata": {"finalizers": null}})),
        64..68 => {
            let path = format!("{}?labelSelector=app%3Dx", kind.list());
            (Method::DELETE, path, JSON, family_delete(draw))
        }
        _ => (Method::DELETE, one, JSON, family_delete(draw)),
    };
    Step { method, path, media, body }
}

/// An object that every server accepts, but for what its owners may be.
fn relative(kind: &Kind, name: &str, draw: Seed) -> Value {
    let mut object = json!({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}});
    match kind.kind {
        "Pod" => {
            let containers = json!([{"name": "main", "image": "nginx:1"}]);
            object["spec"] = json!({"automountServiceAccountToken": false, "containers": containers});
        }
        "Widget" => object["spec"] = json!({"size": "large"}),
        _ => object["data"] = json!({"k": "1"}),
    }
    if draw.of("labels").below(3) == 0 {
        object["metadata"]["labels"] = json!({"app": "x"});
    }
    if draw.of("finalizer").below(4) == 0 {
        object["metadata"]["finalizers"] = finalizers(draw);
    }
    if draw.of("owned").below(3) > 0 {
        object["metadata"]["ownerReferences"] = family_owners(draw);
    }
    object
}

fn family_change(draw: Seed) -> Value {
    match draw.of("family-change").below(6) {
        0 => json!({"metadata": {"ownerReferences": null}}),
        1 => json!({"metadata": {"finalizers": finalizers(draw)}}),
        _ => json!({"metadata": {"ownerReferences": family_owners(draw)}}),
    }
}

/// Owners in the family; few are spoiled, and only in ways that a server lets pass.
fn family_owners(draw: Seed) -> Value {
    let draw = draw.of("owners");
    let count = if draw.of("count").below(3) == 0 { 2 } else { 1 };
    let one = |index| owner(draw.at(index), &KINDS[..FAMILY_KINDS], NAMES);
    let mut owners: Vec<Value> = (0..count).map(one).collect();
    match draw.of("fault").below(20) {
        0 => owners[0]["uid"] = json!(NOBODY),
        1 => owners[0]["name"] = json!("z"),
        2 => owners[0]["kind"] = json!("Gadget"),
        _ => {}
    }
    // Two controllers are refused, and a refusal says nothing about families.
    if let Some(second) = owners.get_mut(1) {
        second["controller"] = json!(false);
    }
    json!(owners)
}

fn family_delete(draw: Seed) -> Value {
    match draw.of("policy").below(8) {
        0..3 => json!({"propagationPolicy": "Foreground"}),
        3..5 => json!({"propagationPolicy": "Orphan"}),
        5 => json!({"orphanDependents": draw.of("orphan").below(2) == 0}),
        6 => json!({"propagationPolicy": "Background"}),
        _ => Value::Null,
    }
}

/// One or two owners, mostly as a server accepts them; whether they exist is another matter.
pub(super) fn owners(draw: Seed) -> Value {
    let draw = draw.of("owners");
    let count = if draw.of("count").below(3) == 0 { 2 } else { 1 };
    let mut owners: Vec<Value> = (0..count).map(|index| owner(draw.at(index), KINDS, NAMES)).collect();
    if draw.of("twice").below(15) == 0 {
        let mut again = owners[0].clone();
        again["controller"] = json!(draw.of("again").below(2) == 0);
        owners.push(again);
    }
    if draw.of("fault").below(5) == 0 {
        spoil(draw, &mut owners[0]);
    }
    json!(owners)
}

/// A reference to what the path of a kind and a name leads to.
fn owner(draw: Seed, kinds: &[Kind], names: &[&str]) -> Value {
    let (kind, name) = (pick(draw.of("kind"), kinds), *pick(draw.of("name"), names));
    let mut owner = json!({
        "apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": uid_of(kind, name),
    });
    // Two controllers are refused, so that most owners are none.
    let flags = [
        ("controller", [None, None, Some(false), Some(true)]),
        ("blockOwnerDeletion", [None, Some(true), Some(true), Some(false)]),
    ];
    for (flag, choices) in flags {
        if let Some(value) = pick(draw.of(flag), &choices) {
            owner[flag] = json!(value);
        }
    }
    owner
}

/// Stands for the uid last seen of an object, and for one of [`nobody`] if none was.
fn uid_of(kind: &Kind, name: &str) -> String {
    format!("$uid({}/{name})", kind.plural)
}

/// Everything that can be wrong with a reference, for the server and for the garbage collector.
fn spoil(draw: Seed, owner: &mut Value) {
    match draw.of("spoil").below(9) {
        0 => owner["uid"] = json!(""),
        1 => owner["name"] = json!(""),
        2 => owner["kind"] = json!(""),
        3 => owner["apiVersion"] = json!(""),
        4 => (owner["apiVersion"], owner["kind"]) = (json!("v1"), json!("Event")),
        5 => owner["uid"] = json!(NOBODY),
        6 => owner["name"] = json!("z"),
        7 => owner["kind"] = json!("Gadget"),
        _ => owner["apiVersion"] = json!("example.com/"),
    }
}

/// The finalizers of an object, the collector's own among them.
pub(super) fn finalizers(draw: Seed) -> Value {
    let draw = draw.of("finalizers");
    let usual = ["example.com/one", "example.com/two"];
    match draw.of("which").below(10) {
        0 => json!(["foregroundDeletion"]),
        1 => json!(["orphan"]),
        2 => json!(["foregroundDeletion", pick(draw.of("f"), &usual)]),
        3 => json!(["orphan", "foregroundDeletion"]),
        4 => json!([pick(draw.of("f"), &["plain", "not valid!"])]),
        _ => json!([pick(draw.of("f"), &usual)]),
    }
}

/// A change of owners or of the collector's finalizers, as a merge patch or a strategic one.
pub(super) fn change(draw: Seed) -> Value {
    let kind = pick(draw.of("kind"), KINDS);
    let name = *pick(draw.of("name"), NAMES);
    match draw.of("owner-change").below(5) {
        0 => json!({"metadata": {"ownerReferences": null}}),
        // A directive for strategic patches; a plain member that no kind has for the others.
        1 => json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": uid_of(kind, name)}]}}),
        2 => json!({"metadata": {"finalizers": finalizers(draw)}}),
        _ => json!({"metadata": {"ownerReferences": owners(draw)}}),
    }
}

/// The same by JSON patch.
pub(super) fn json_patch(draw: Seed) -> Value {
    match draw.of("owner-patch").below(3) {
        0 => json!([{"op": "remove", "path": "/metadata/ownerReferences/0"}]),
        1 => json!([{"op": "add", "path": "/metadata/finalizers", "value": finalizers(draw)}]),
        _ => json!([{"op": "add", "path": "/metadata/ownerReferences", "value": owners(draw)}]),
    }
}

/// What a delete asks for: what becomes of dependents, and what must hold.
pub(super) fn delete_options(draw: Seed) -> Value {
    let draw = draw.of("delete");
    let policy = *pick(draw.of("policy"), &POLICIES);
    match draw.of("what").below(16) {
        0 => json!({"preconditions": {"uid": "$uid"}}),
        1 => json!({"preconditions": {"uid": NOBODY}}),
        2 => json!({"preconditions": {"resourceVersion": "$rv"}}),
        3 => json!({"gracePeriodSeconds": 0}),
        4 => json!({"dryRun": ["All"]}),
        5 => json!({"propagationPolicy": "Nonsense"}),
        6 => json!({"orphanDependents": draw.of("orphan").below(2) == 0}),
        7 => json!({"orphanDependents": draw.of("orphan").below(2) == 0, "propagationPolicy": policy}),
        8 => json!({"propagationPolicy": policy, "preconditions": {"uid": "$uid", "resourceVersion": "$rv"}}),
        9 => json!({"propagationPolicy": policy, "dryRun": ["All"]}),
        10 => json!({"propagationPolicy": policy, "gracePeriodSeconds": 0}),
        11..14 => json!({"propagationPolicy": policy}),
        _ => Value::Null,
    }
}

/// The policy of a delete in its query, now and then.
pub(super) fn delete_query(draw: Seed) -> String {
    if draw.of("in-query").below(6) > 0 {
        return String::new();
    }
    format!("propagationPolicy={}", pick(draw.of("query-policy"), &POLICIES))
}
