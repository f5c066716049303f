//! How long things take on nodes, and which images misbehave.

use std::{collections::BTreeMap, time::Duration};

/// Times are drawn between the two values of each pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Behaviour {
    /// From a new pod to its node.
    pub schedule: (Duration, Duration),
    /// From a change of a pod to its kubelet's reaction.
    pub notice: (Duration, Duration),
    /// Pulling an image that the node does not have.
    pub pull: (Duration, Duration),
    /// Creating and starting a container.
    pub start: (Duration, Duration),
    /// From a started container to a ready one, when it has a readiness probe.
    pub ready: (Duration, Duration),
    /// From the signal to the end of a container.
    pub stop: (Duration, Duration),
    /// The first wait of a container that keeps exiting; it doubles up to five minutes.
    pub crash_wait: Duration,
    /// How long a node may be silent before it counts as lost.
    pub node_silence: Duration,
    /// From a new claim to a bound one.
    pub bind_claim: Duration,
    /// Images that are not like the others, by full name.
    pub images: BTreeMap<String, ImageBehaviour>,
}

/// What is particular about an image.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImageBehaviour {
    /// How long pulling takes.
    pub pull: Option<Duration>,
    /// It cannot be pulled.
    pub missing: bool,
    /// From start to readiness, probe or not.
    pub ready: Option<Duration>,
    /// It never gets ready.
    pub never_ready: bool,
    /// It exits after so long with this code.
    pub exit: Option<(Duration, i32)>,
    /// How long it takes to stop.
    pub stop: Option<Duration>,
    /// Its content is that of another tag: both have one image ID.
    pub same_as: Option<String>,
}

impl Default for Behaviour {
    fn default() -> Self {
        let millis = |from: u64, to: u64| (Duration::from_millis(from), Duration::from_millis(to));
        Self {
            schedule: millis(5, 50),
            notice: millis(5, 40),
            pull: millis(500, 4_000),
            start: millis(200, 1_200),
            ready: millis(500, 3_000),
            stop: millis(50, 2_000),
            crash_wait: Duration::from_secs(10),
            node_silence: Duration::from_secs(40),
            bind_claim: Duration::from_millis(300),
            images: BTreeMap::new(),
        }
    }
}

impl Behaviour {
    /// Adds an image that is not like the others.
    pub fn image(mut self, name: &str, behaviour: ImageBehaviour) -> Self {
        self.images.insert(name.to_owned(), behaviour);
        self
    }
}

/// What a node can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeShape {
    /// CPUs, as a quantity.
    pub cpu: String,
    /// Memory, as a quantity.
    pub memory: String,
    /// Pods.
    pub pods: u32,
    /// Labels besides the host name.
    pub labels: BTreeMap<String, String>,
}

impl Default for NodeShape {
    fn default() -> Self {
        Self { cpu: "16".to_owned(), memory: "64Gi".to_owned(), pods: 110, labels: BTreeMap::new() }
    }
}

/// The value of a quantity in thousandths; `None` when it is none.
pub(super) fn milli(quantity: &str) -> Option<i64> {
    let split = quantity.find(|it: char| it.is_ascii_alphabetic()).unwrap_or(quantity.len());
    let (number, unit) = quantity.split_at(split);
    let number: f64 = number.parse().ok()?;
    let factor: f64 = match unit {
        "m" => 0.001,
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some((number * factor * 1000.0).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_with_their_units() {
        let rows = [("100m", 100), ("1", 1_000), ("0.5", 500), ("1Ki", 1_024_000), ("2k", 2_000_000)];
        for (text, value) in rows {
            assert_eq!(milli(text), Some(value), "{text}");
        }
        assert_eq!(milli("lots"), None);
    }
}
