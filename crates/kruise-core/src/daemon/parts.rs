//! What the loops of the daemon are made of.

use std::{collections::BTreeMap, fmt, sync::Arc};

use kube::Client;

use super::{
    cri::{Images, Runtime},
    health::Health,
    metrics::DaemonMetrics,
    start::Settings,
};
use crate::runtime::{
    clock::{Clock, Seed},
    metrics::Metrics,
};

/// The runtimes of a node: all of them by name, and the first one, which also keeps the images.
pub struct Runtimes {
    /// Every runtime by name.
    pub by_name: BTreeMap<String, Arc<dyn Runtime>>,
    /// The one that was found first.
    pub first: Arc<dyn Runtime>,
    /// The same one's images.
    pub images: Arc<dyn Images>,
}

/// What the loops are made of.
pub struct Parts {
    /// What the daemon is told.
    pub settings: Settings,
    /// The API server.
    pub client: Client,
    /// Time.
    pub clock: Clock,
    /// Counts what every process counts.
    pub metrics: Metrics,
    /// Counts what only daemons do.
    pub counted: DaemonMetrics,
    /// What others see of the daemon.
    pub health: Health,
    /// Chance, to spread load.
    pub seed: Seed,
}

impl fmt::Debug for Runtimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Runtimes").field(&self.by_name.keys()).finish()
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("daemon::Parts").field("settings", &self.settings).finish_non_exhaustive()
    }
}
