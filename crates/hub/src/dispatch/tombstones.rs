//! Assignments that outlived their object: the object was let go without the answer of a cluster that was not heard (DEL-2), or
//! the cluster was removed (DEL-6). They go when the cluster has obeyed; nobody else looks at them.

use std::{sync::Arc, time::Duration};

use kruise_core::{
    api::fleet::{assignment::Assignment, binding::FleetBinding},
    runtime::{
        cache::{Cache, Feed},
        controller::{Controller, Next, Reconcile, Settings, Triggers},
        key::{Key, uid},
    },
};
use kube::{Api, Client, ResourceExt};

use super::{Error, Guarded, Shared, apply::delete, end, plan};
use crate::names;

/// How soon one whose object is still there is looked at again: the rounds of the object see to it.
const LATER: Duration = Duration::from_secs(60);

/// Removes Assignments that have outlived their object and were obeyed.
pub struct Tombstones {
    client: Client,
    assignments: Cache<Guarded<Assignment>>,
    bindings: Cache<Guarded<FleetBinding>>,
}

/// The controller.
pub fn controller(shared: &Shared, settings: Settings) -> Controller<Tombstones> {
    let triggers = Triggers::new(shared.clock.clone());
    triggers.follow(&shared.assignments, |it| it.0.as_ref().is_ok_and(end::is_tombstone));
    let feeds: Vec<Arc<dyn Feed>> =
        vec![Arc::new(shared.assignments.clone()), Arc::new(shared.bindings.clone())];
    let tombstones = Tombstones {
        client: shared.client.clone(),
        assignments: shared.assignments.clone(),
        bindings: shared.bindings.clone(),
    };
    Controller::new(settings, triggers, feeds, tombstones)
}

impl Reconcile for Tombstones {
    type Error = Error;

    async fn reconcile(&self, key: Key) -> Result<Next, Error> {
        let Some(stored) = self.assignments.get(&key) else { return Ok(Next::Change) };
        let Ok(assignment) = &stored.0 else { return Ok(Next::Change) };
        if !end::is_tombstone(assignment) || !plan::is_over(assignment) {
            return Ok(Next::Change);
        }
        let (namespace, name) = names::binding(&assignment.spec.object);
        let is_of_another = |it: &FleetBinding| it.spec.object.uid != assignment.spec.object.uid;
        // One that cannot be read may be this object's.
        if let Some(binding) = self.bindings.get(&Key::new(&namespace, &name))
            && !binding.0.as_ref().is_ok_and(is_of_another)
        {
            return Ok(Next::After(LATER));
        }
        let api: Api<Assignment> = Api::namespaced(self.client.clone(), &key.namespace);
        delete("delete a tombstone", &api, &assignment.name_any(), uid(assignment)).await?;
        self.assignments.deleted(&key, uid(assignment));
        Ok(Next::Change)
    }

    fn exists(&self, key: &Key) -> bool {
        self.assignments.get(key).is_some()
    }
}

impl std::fmt::Debug for Tombstones {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tombstones").finish_non_exhaustive()
    }
}
