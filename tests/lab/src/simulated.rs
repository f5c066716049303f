//! Simulated clusters by name: the process that simulates them is their keeper, so that they are listed, found and taken
//! down as real ones are.

use std::{
    fs::{self, File},
    path::PathBuf,
};

use anyhow::Result;

use crate::{
    cluster::{self, Record},
    control_plane::Ports,
    keeper,
};

/// The name and the folder of a cluster that this process simulates. Both are given back with this value.
#[derive(Debug)]
pub struct Simulated {
    /// What is written down of it.
    pub record: Record,
    _lock: File,
}

impl Simulated {
    /// Claims a name for a cluster with these nodes. Its kubeconfig is for the caller to write.
    pub fn claim(name: &str, nodes: Vec<String>) -> Result<Self> {
        let claim = cluster::claim(name)?;
        let folder = claim.folder.clone();
        let lock = keeper::take_lock(&folder)?;
        let nowhere = Ports { etcd: 0, etcd_peer: 0, apiserver: 0, controller_manager: 0, scheduler: 0 };
        let record = Record {
            name: name.to_owned(),
            folder,
            ports: nowhere,
            registry: None,
            nodes: Vec::new(),
            fake_nodes: nodes,
            storage: false,
            bare: false,
            collector: false,
            simulated: true,
        };
        record.write()?;
        Ok(Self { record, _lock: lock })
    }

    /// A file of the cluster.
    pub fn file(&self, name: &str) -> PathBuf {
        self.record.folder.join(name)
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next cluster of this name.
        let _ = fs::remove_dir_all(&self.record.folder);
    }
}
