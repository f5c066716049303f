//! The container runtime, as far as the daemon needs it: CRI `runtime.v1` over a unix socket.
//!
//! Everything above talks to the traits [`Runtime`] and [`Images`], so that rules are tested against a fake one.
//! [`sockets`] says where to look, [`client`] dials and verifies.

pub mod client;
pub mod sockets;

#[cfg(test)]
pub(crate) mod fake;
mod proto;

use std::{collections::BTreeMap, fmt, time::Duration};

use futures::future::BoxFuture;
use jiff::Timestamp;

use super::images::credentials::Credential;

/// Labels and annotations that the kubelet puts on containers.
pub mod keys {
    /// Label: the pod's UID.
    pub const POD_UID: &str = "io.kubernetes.pod.uid";
    /// Label: the pod's name.
    pub const POD_NAME: &str = "io.kubernetes.pod.name";
    /// Label: the pod's namespace.
    pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
    /// Label: the container's name.
    pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
    /// Annotation: hash of the container's spec, in hexadecimal digits.
    pub const CONTAINER_HASH: &str = "io.kubernetes.container.hash";
    /// Annotation: how often the container was restarted.
    pub const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
    /// Annotation: seconds that a deleted pod has for stopping.
    pub const DELETION_GRACE_PERIOD: &str = "io.kubernetes.pod.deletionGracePeriod";
    /// Annotation: seconds that the pod has for stopping.
    pub const TERMINATION_GRACE_PERIOD: &str = "io.kubernetes.pod.terminationGracePeriod";
    /// Annotation: what runs before the container is stopped, as JSON.
    pub const PRE_STOP_HANDLER: &str = "io.kubernetes.container.preStopHandler";
    /// Annotation: the container's ports, as JSON.
    pub const PORTS: &str = "io.kubernetes.container.ports";
}

/// Why the runtime did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It said no.
    #[error("{message}")]
    Refused {
        /// Which call.
        call: &'static str,
        /// The kind of refusal: `NotFound`, `Unknown` and so on.
        code: String,
        /// What it said.
        message: String,
    },
    /// It did not answer in time.
    #[error("{call} did not answer within {after:?}")]
    Timeout {
        /// Which call.
        call: &'static str,
        /// The deadline that passed.
        after: Duration,
    },
    /// A command in a container did not end in time.
    #[error("command timed out")]
    CommandTimedOut,
    /// A command in a container ended with another code than 0.
    #[error("command exited with {code}: {stderr}")]
    CommandFailed {
        /// The exit code.
        code: i32,
        /// What it said about it.
        stderr: String,
    },
    /// The answer lacks something that every runtime sends.
    #[error("{0}")]
    Incomplete(&'static str),
}

impl Error {
    /// Whether what was asked for does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { code, .. } if code == "NotFound")
    }

    /// A fixed word for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Refused { .. } if self.is_not_found() => "not_found",
            Self::Refused { .. } => "refused",
            Self::Timeout { .. } | Self::CommandTimedOut => "timeout",
            Self::CommandFailed { .. } => "command_failed",
            Self::Incomplete(_) => "incomplete",
        }
    }
}

/// Where a container is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerState {
    /// Made, not started.
    Created,
    /// Running.
    Running,
    /// Over.
    Exited,
    /// The runtime cannot tell.
    Unknown,
}

/// A container as the runtime shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// The runtime's name for it, without a scheme.
    pub id: String,
    /// The sandbox it runs in.
    pub sandbox_id: String,
    /// Its name in the pod.
    pub name: String,
    /// Where it is in its life.
    pub state: ContainerState,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was started, unless it is only made.
    pub started_at: Option<Timestamp>,
    /// The kubelet's hash of its spec; 0 if not told.
    pub hash: u64,
    /// How often it was restarted; 0 if not told.
    pub restart_count: i32,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

/// An image as the runtime shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// The digest of its configuration.
    pub id: String,
    /// Full references by tag.
    pub repo_tags: Vec<String>,
    /// Full references by digest.
    pub repo_digests: Vec<String>,
}

/// Variables and their values, in the order in which they were set.
pub type Environment = Vec<(String, String)>;

/// Which containers to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// Those of the pod with this UID.
    Pod(String),
    /// Those of this name in the pod with this UID: the one that runs, and what is left of those before it.
    Named {
        /// The pod's UID.
        pod: String,
        /// The container's name.
        container: String,
    },
    /// The one with this id.
    Id(String),
}

/// One download.
#[derive(Debug, Clone, PartialEq)]
pub struct Pull {
    /// The full reference.
    pub image: String,
    /// How to log in, if at all.
    pub credential: Option<Credential>,
    /// Labels of the sandbox on whose behalf it happens.
    pub labels: BTreeMap<String, String>,
    /// Annotations of that sandbox.
    pub annotations: BTreeMap<String, String>,
    /// When to give up.
    pub timeout: Duration,
}

/// The part of the runtime that runs containers.
pub trait Runtime: fmt::Debug + Send + Sync {
    /// `containerd`, `cri-o` or `docker`: the scheme of its container ids.
    fn name(&self) -> &str;

    /// Containers in any state, with everything known about each.
    fn containers(&self, filter: Filter) -> BoxFuture<'_, Result<Vec<Container>, Error>>;

    /// Asks a container to stop and kills it after `grace` seconds.
    fn stop(&self, id: &str, grace: u32) -> BoxFuture<'_, Result<(), Error>>;

    /// Runs a command in a container and gives what it printed; without a limit of its own if `timeout` is none.
    fn exec(
        &self,
        id: &str,
        command: Vec<String>,
        timeout: Option<Duration>,
    ) -> BoxFuture<'_, Result<Vec<u8>, Error>>;

    /// The address of a sandbox; none if it uses the host's network.
    fn address(&self, sandbox: &str) -> BoxFuture<'_, Result<Option<String>, Error>>;

    /// The environment that a container was made with, where the runtime tells.
    fn environment(&self, id: &str) -> BoxFuture<'_, Result<Option<Environment>, Error>>;
}

/// The part of the runtime that keeps images.
pub trait Images: fmt::Debug + Send + Sync {
    /// Every image of the node.
    fn images(&self, timeout: Duration) -> BoxFuture<'_, Result<Vec<Image>, Error>>;

    /// Downloads an image. Dropping the future gives the download up.
    fn pull(&self, pull: Pull) -> BoxFuture<'_, Result<(), Error>>;
}

/// The newest containers first; of two made at the same moment the one restarted more often.
pub fn newest_first(containers: &mut [Container]) {
    containers
        .sort_by(|a, b| (b.created_at, b.restart_count, &b.id).cmp(&(a.created_at, a.restart_count, &a.id)));
}

/// The newest container of this name, in a list that is sorted newest first.
pub fn newest<'a>(containers: &'a [Container], name: &str) -> Option<&'a Container> {
    containers.iter().find(|it| it.name == name)
}

/// Splits `containerd://abc` into runtime and id.
pub fn split_id(id: &str) -> Option<(&str, &str)> {
    id.split_once("://").filter(|(scheme, rest)| !scheme.is_empty() && !rest.is_empty())
}

/// What a container status on the wire says.
fn read_container(status: proto::ContainerStatus, sandbox_id: String) -> Container {
    let proto::ContainerStatus { id, state, created_at, started_at, labels, annotations } = status;
    let (labels, annotations): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (labels.into_iter().collect(), annotations.into_iter().collect());
    let state = match state {
        0 => ContainerState::Created,
        1 => ContainerState::Running,
        2 => ContainerState::Exited,
        _ => ContainerState::Unknown,
    };
    Container {
        name: labels.get(keys::CONTAINER_NAME).cloned().unwrap_or_default(),
        state,
        created_at: from_nanoseconds(created_at),
        started_at: (state != ContainerState::Created).then(|| from_nanoseconds(started_at)),
        hash: annotations
            .get(keys::CONTAINER_HASH)
            .and_then(|it| u64::from_str_radix(it, 16).ok())
            .unwrap_or_default(),
        restart_count: annotations
            .get(keys::RESTART_COUNT)
            .and_then(|it| it.parse().ok())
            .unwrap_or_default(),
        id,
        sandbox_id,
        labels,
        annotations,
    }
}

fn from_nanoseconds(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The environment in the verbose answer of a runtime: `info` holds a JSON document with the container's configuration.
fn read_environment(info: &str) -> Option<Environment> {
    let info: serde_json::Value = serde_json::from_str(info).ok()?;
    let envs = info.pointer("/config/envs")?.as_array()?;
    let text = |it: &serde_json::Value, field: &str| {
        it.get(field).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    };
    Some(envs.iter().map(|it| (text(it, "key"), text(it, "value"))).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn status(annotations: &[(&str, &str)], state: i32) -> proto::ContainerStatus {
        proto::ContainerStatus {
            id: "abc".into(),
            state,
            created_at: 1_000_000_000,
            started_at: 2_000_000_000,
            labels: HashMap::from([(keys::CONTAINER_NAME.to_owned(), "main".to_owned())]),
            annotations: annotations.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        }
    }

    #[test]
    fn a_container_is_read_from_what_the_kubelet_wrote_on_it() {
        let it = read_container(
            status(&[(keys::CONTAINER_HASH, "a2172c40"), (keys::RESTART_COUNT, "3")], 1),
            "box".into(),
        );
        assert_eq!((it.name.as_str(), it.hash, it.restart_count), ("main", 0xa217_2c40, 3));
        assert_eq!(it.state, ContainerState::Running);
        assert_eq!(it.started_at, Timestamp::from_second(2).ok());
    }

    #[test]
    fn missing_and_malformed_annotations_count_as_zero() {
        for annotations in [&[][..], &[(keys::CONTAINER_HASH, "xyz"), (keys::RESTART_COUNT, "many")][..]] {
            let it = read_container(status(annotations, 2), String::new());
            assert_eq!((it.hash, it.restart_count), (0, 0));
        }
    }

    #[test]
    fn a_container_that_is_only_made_has_not_started() {
        assert_eq!(read_container(status(&[], 0), String::new()).started_at, None);
    }

    #[test]
    fn the_newest_container_of_a_name_is_found() {
        let mut old = read_container(status(&[], 2), String::new());
        old.id = "old".into();
        let mut new = old.clone();
        (new.id, new.created_at) = ("new".into(), Timestamp::from_second(9).unwrap());
        let mut all = vec![old, new];
        newest_first(&mut all);
        assert_eq!(newest(&all, "main").unwrap().id, "new");
        assert_eq!(newest(&all, "other"), None);
    }

    #[test]
    fn ids_are_split_into_runtime_and_id() {
        assert_eq!(split_id("containerd://abc"), Some(("containerd", "abc")));
        for bad in ["", "abc", "://abc", "containerd://"] {
            assert_eq!(split_id(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_environment_is_read_from_the_verbose_answer() {
        let info = r#"{"pid":1,"config":{"envs":[{"key":"A","value":"x=y"},{"key":"B"}]}}"#;
        let expected = vec![("A".to_owned(), "x=y".to_owned()), ("B".to_owned(), String::new())];
        assert_eq!(read_environment(info), Some(expected));
        assert_eq!(read_environment("{}"), None);
        assert_eq!(read_environment("not json"), None);
    }
}
