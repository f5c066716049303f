//! What agents say with their Leases.

use std::time::Duration;

use kruise_core::{api::fleet::keys::TOLD, runtime::key::Key};

use super::Roster;
use crate::{members::access::LEASE, names::cluster_namespace};

/// What an agent said with its Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// What it has told, in one word; agents of older versions have none.
    pub told: Option<String>,
    /// For how long this process runs.
    pub up_for: Duration,
}

impl Roster {
    /// What a cluster's agent said last when it renewed its Lease, if it did so since this process started.
    pub fn word(&self, cluster: &str) -> Option<Word> {
        let state = self.state();
        state.watched.get(cluster).filter(|it| it.beat.is_confirmed())?;
        let lease = self.0.leases.get(&Key::new(&cluster_namespace(cluster), LEASE))?;
        let told = lease.metadata.annotations.as_ref().and_then(|it| it.get(TOLD)).cloned();
        Some(Word { told, up_for: self.0.clock.since(self.0.started) })
    }
}
