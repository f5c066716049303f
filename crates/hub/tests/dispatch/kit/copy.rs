//! An older copy of what the hub has stored.

use serde_json::{Value, json};

use super::{HUB, Stage};

/// The kinds whose objects a backup of the hub has.
const KINDS: [&str; 4] = [
    "clonesets.apps.kruise.io",
    "fleetbindings.fleet.kruise.io",
    "assignments.fleet.kruise.io",
    "configmaps",
];

/// A copy: objects with their kinds.
pub(crate) struct Copy(Vec<(&'static str, Value)>);

impl Stage {
    /// Copies what the hub has stored.
    pub(crate) fn copy(&self) -> Copy {
        let server = self.world.cluster(HUB).server().clone();
        let of_kind = |kind| server.list(kind).into_iter().map(move |it| (kind, it.value()));
        Copy(KINDS.into_iter().flat_map(of_kind).collect())
    }

    /// Puts an older copy back: contents are the old ones, and versions go on, as with a restored etcd whose revision was raised.
    /// Rules by which plans only grow do not hold there: nobody asks them.
    pub(crate) fn go_back(&self, copy: &Copy) {
        for (kind, object) in &copy.0 {
            let of = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
            let now = self.world.cluster(HUB).server().get(kind, of("namespace"), of("name"));
            let mut old = object.clone();
            old["metadata"] = now.expect("nothing was deleted since the copy").value()["metadata"].clone();
            old["metadata"]["annotations"] = object["metadata"]["annotations"].clone();
            old["metadata"]["managedFields"] = json!([]);
            self.world.put_back(HUB, kind, old);
        }
    }
}
