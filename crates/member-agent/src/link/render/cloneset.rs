//! The numbers of a CloneSet, as integers.

use std::collections::BTreeSet;

use kruise_core::api::fleet::CloneSetSlice;
use serde_json::{Map, Value, json};

/// Writes one cluster's share into `spec`, which is in the words of v1beta1. `pods` are the names of the pods that the
/// member object has: others cannot be deleted, and a name that is gone must not come back into the list.
pub(super) fn write(spec: &mut Map<String, Value>, slice: &CloneSetSlice, pods: &BTreeSet<String>) {
    let CloneSetSlice { replicas, updated, scale_max_unavailable, pods_to_delete, .. } = slice;
    spec.insert("replicas".to_owned(), number(*replicas));

    let scale = fields(spec, "scaleStrategy");
    let named: BTreeSet<&String> = pods_to_delete.iter().filter(|it| pods.contains(*it)).collect();
    scale.insert("podsToDelete".to_owned(), json!(named));
    match scale_max_unavailable {
        Some(limit) => scale.insert("maxUnavailable".to_owned(), number(*limit)),
        None => scale.remove("maxUnavailable"),
    };

    let rolling = fields(fields(spec, "updateStrategy"), "rollingUpdate");
    let pace = Pace::of(slice, rolling.get("podUpdatePolicy") == Some(&json!("InPlaceOnly")));
    rolling.insert("partition".to_owned(), number(replicas.saturating_sub(*updated)));
    rolling.insert("maxUnavailable".to_owned(), number(pace.max_unavailable));
    rolling.insert("maxSurge".to_owned(), number(pace.max_surge));
    rolling.insert("paused".to_owned(), pace.is_paused.into());
}

/// How fast a member may go.
struct Pace {
    max_unavailable: u32,
    max_surge: u32,
    is_paused: bool,
}

impl Pace {
    /// BUD-9: zero for both is invalid in a member. While paused its surge is 0 whatever is written, so a surge of 1 stands
    /// for nothing at all. Where pods are only changed in place there can be no surge: there the member may take one pod
    /// down that is marked for deletion, and the hub counts with it.
    fn of(slice: &CloneSetSlice, in_place_only: bool) -> Self {
        let CloneSetSlice { max_unavailable, max_surge, paused, .. } = *slice;
        let max_surge = if in_place_only { 0 } else { max_surge };
        match (max_unavailable, max_surge) {
            (0, 0) if in_place_only => Self { max_unavailable: 1, max_surge: 0, is_paused: true },
            (0, 0) => Self { max_unavailable: 0, max_surge: 1, is_paused: true },
            _ => Self { max_unavailable, max_surge, is_paused: paused },
        }
    }
}

/// The object under `name`, which is made if it is not there.
fn fields<'a>(parent: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let value = parent.entry(name).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("it was made an object")
}

/// A number as a member reads it: an integer of 32 bits with a sign.
fn number(value: u32) -> Value {
    value.min(i32::MAX.unsigned_abs()).into()
}
