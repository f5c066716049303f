//! What must hold over the fleet after every write.

use std::sync::{Arc, Mutex};

use sim::World;

use crate::kit::all_pods;

/// The bounds of one step of a story.
#[derive(Debug, Clone, Default)]
pub(super) struct Bounds {
    /// Pods that are available at least.
    pub(super) available: usize,
    /// Pods there are at most.
    pub(super) pods: usize,
    /// The image being released, and how many pods may have it.
    pub(super) updated: Option<(String, usize)>,
}

/// The bounds that hold now; none between steps.
#[derive(Debug, Clone, Default)]
pub(super) struct Now(Arc<Mutex<Option<Bounds>>>);

impl Now {
    pub(super) fn set(&self, bounds: Option<Bounds>) {
        *self.0.lock().unwrap() = bounds;
    }

    /// Has them checked after every write to any cluster.
    pub(super) fn watch(world: &World) -> Self {
        let now = Self::default();
        let rule = now.clone();
        world.invariant("the fleet's bounds", move |world| rule.check(world));
        now
    }

    fn check(&self, world: &World) -> Result<(), String> {
        let Some(bounds) = self.0.lock().unwrap().clone() else { return Ok(()) };
        let pods = all_pods(world);
        let available = pods.iter().filter(|it| it.is_ready).count();
        if available < bounds.available {
            return Err(format!("{available} pods are available; {bounds:?}"));
        }
        if pods.len() > bounds.pods {
            return Err(format!("there are {} pods; {bounds:?}", pods.len()));
        }
        if let Some((image, most)) = &bounds.updated {
            let updated = pods.iter().filter(|it| it.image == *image).count();
            if updated > *most {
                return Err(format!("{updated} pods are updated; {bounds:?}"));
            }
        }
        Ok(())
    }
}
