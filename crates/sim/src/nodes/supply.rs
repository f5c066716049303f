//! Where a kubelet gets images from.

use std::time::Duration;

use serde_json::Value;

use crate::{
    images::{Ending, Login, Refusal, Registry, full, of_pod},
    server::Cluster,
    world::Shared,
};

/// The registries, as the kubelet of one pod reaches them.
#[derive(Clone, Copy)]
pub(super) struct Supply<'a> {
    pub(super) world: &'a Shared,
    pub(super) server: &'a Cluster,
    pub(super) node: &'a str,
    pub(super) pod: &'a Value,
}

/// A download that a kubelet waits for.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) takes: Duration,
    /// Where its end is written down.
    record: Option<(Registry, usize)>,
}

impl Order {
    /// Writes down how the download ended.
    pub(super) fn end(self, at: Duration, ending: Ending) {
        if let Some((registry, number)) = self.record {
            registry.end(number, at, ending);
        }
    }
}

impl Supply<'_> {
    /// Begins a download that takes `usual` if the registry does not say otherwise.
    pub(super) fn order(&self, image: &str, usual: Duration, now: Duration) -> Result<Order, Refusal> {
        let image = full(image);
        let Some(registry) = self.world.registries.of(&image) else {
            return Ok(Order { takes: usual, record: None });
        };
        let node = format!("{}/{}", self.server.name(), self.node);
        let logins = of_pod(self.server, self.pod, &image);
        let tried: Vec<Option<&Login>> = match logins.as_slice() {
            [] => vec![None],
            some => some.iter().map(Some).collect(),
        };
        let mut refused = Refusal::new("Unknown", "nobody was asked");
        for login in tried {
            match registry.begin(&node, &image, login, now, usual) {
                Ok((number, takes)) => return Ok(Order { takes, record: Some((registry, number)) }),
                Err(refusal) => refused = refusal,
            }
        }
        Err(refused)
    }
}
