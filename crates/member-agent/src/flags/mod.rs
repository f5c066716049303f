//! What the roles of this program have in common on the command line and in the environment.

pub(crate) mod go;
pub(crate) mod without_effect;

use std::{net::SocketAddr, path::PathBuf};

use kruise_core::runtime::{client::Source, health, logs};

pub(crate) use without_effect::{FlagList, WithoutEffect};

/// Looks up an environment variable.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// How lines look.
    pub format: logs::Format,
    /// How much there is.
    pub level: &'static str,
}

impl Log {
    /// `verbosity` counts as klog does.
    pub(crate) fn new(format: logs::Format, verbosity: u8) -> Self {
        let level = match verbosity {
            0..=5 => "info",
            6..=7 => "debug",
            8.. => "trace",
        };
        Self { format, level }
    }
}

/// An address to listen on, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listen(pub(crate) Option<SocketAddr>);

impl Listen {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |_| format!("{text:?} is no address such as :8080, 127.0.0.1:8080 or 0");
        health::parse_address(text).map(Self).map_err(wrong)
    }
}

/// The order of controller-runtime: what is named, then the pod's own account, then the user's own file.
pub(crate) fn source(path: Option<PathBuf>, context: Option<String>, environment: Environment<'_>) -> Source {
    let in_pod = environment("KUBERNETES_SERVICE_HOST").is_some();
    let is_named = path.is_some() || context.is_some() || environment("KUBECONFIG").is_some();
    if in_pod && !is_named { Source::InCluster } else { Source::Kubeconfig { path, context } }
}
