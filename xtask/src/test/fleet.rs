//! The clusters tests run on: those named by `FLEET_KUBECONFIGS`, else ones of our own that end with the tests.

use std::{ffi::OsString, path::PathBuf};

use anyhow::Result;
use lab::{
    binaries,
    cluster::{self, Attached, Shape},
    progress::Progress,
};

/// `hub=PATH,m1=PATH,...`: clusters that are already there, kind or any others.
const KUBECONFIGS: &str = "FLEET_KUBECONFIGS";

/// Why there can be no API servers to test on, if so.
pub(super) fn why_no_servers() -> Option<String> {
    std::env::var_os(KUBECONFIGS).is_none().then(binaries::why_no_control_planes).flatten()
}

/// Why there can be no real nodes to test on, if so.
pub(super) fn why_no_nodes() -> Option<String> {
    why_no_servers().or_else(binaries::why_no_nodes)
}

#[derive(Debug)]
pub(super) struct Fleet {
    ours: Vec<(&'static str, Attached)>,
    /// Only where charts are tested.
    helm: Option<PathBuf>,
}

impl Fleet {
    /// A hub and three members with fake nodes, two of the members also with storage, an API server that nobody else writes
    /// to, and one to which only a garbage collector does.
    pub(super) fn servers(progress: &mut Progress) -> Result<Self> {
        let hub = Shape { fake_nodes: 2, ..Shape::default() };
        let member = Shape { storage: true, ..hub.clone() };
        let bare = Shape { bare: true, ..Shape::default() };
        let collector = Shape { collector: true, ..bare.clone() };
        let helm = match std::env::var_os(KUBECONFIGS) {
            None => Some(binaries::helm(progress)?),
            Some(_) => None,
        };
        let shapes = [
            ("hub", hub.clone()),
            ("m1", member.clone()),
            ("m2", member),
            ("m3", hub),
            ("bare", bare),
            ("collector", collector),
        ];
        let fleet = Self::start(&shapes, progress)?;
        Ok(Self { helm, ..fleet })
    }

    /// A hub and three members with fake nodes.
    pub(super) fn whole(progress: &mut Progress) -> Result<Self> {
        let shape = Shape { fake_nodes: 2, ..Shape::default() };
        Self::start(&["hub", "m1", "m2", "m3"].map(|it| (it, shape.clone())), progress)
    }

    /// One member with three real nodes and storage.
    pub(super) fn nodes(progress: &mut Progress) -> Result<Self> {
        Self::start(&[("m1", Shape { nodes: 3, storage: true, ..Shape::default() })], progress)
    }

    /// A hub, and two members with a real node each.
    pub(super) fn whole_on_nodes(progress: &mut Progress) -> Result<Self> {
        let (hub, member) =
            (Shape { fake_nodes: 1, ..Shape::default() }, Shape { nodes: 1, ..Shape::default() });
        Self::start(&[("hub", hub), ("m1", member.clone()), ("m2", member)], progress)
    }

    fn start(shapes: &[(&'static str, Shape)], progress: &mut Progress) -> Result<Self> {
        if let Some(named) = std::env::var_os(KUBECONFIGS) {
            progress.say(format!("using the clusters of {KUBECONFIGS}: {}", named.display()));
            return Ok(Self { ours: Vec::new(), helm: None });
        }
        let mut ours = Vec::new();
        for (name, shape) in shapes {
            let unique = format!("test{}-{name}", std::process::id());
            ours.push((*name, cluster::attached(&unique, shape, progress)?));
        }
        progress.say("clusters are ready");
        Ok(Self { ours, helm: None })
    }

    /// What tests find the clusters by.
    pub(super) fn variables(&self) -> Result<Vec<(&'static str, OsString)>> {
        let mut variables = Vec::new();
        if !self.ours.is_empty() {
            let mut named = OsString::new();
            for (name, cluster) in &self.ours {
                if !named.is_empty() {
                    named.push(",");
                }
                named.push(format!("{name}="));
                named.push(cluster.record.kubeconfig());
            }
            variables.push((KUBECONFIGS, named));
            let kubectl = binaries::control_plane(&mut Progress::start())?.kubectl;
            variables.push(("FLEET_KUBECTL", kubectl.into_os_string()));
            variables.extend(self.helm.iter().map(|it| ("FLEET_HELM", it.clone().into_os_string())));
        }
        Ok(variables)
    }
}
