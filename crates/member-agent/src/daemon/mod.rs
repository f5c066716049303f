//! The daemon of one node: what it is told. What it does is in [`kruise_core::daemon`].

mod arguments;

pub use arguments::Arguments;

use std::{num::NonZeroUsize, path::Path};

use kruise_core::{
    daemon::{self, images::docker_files},
    runtime::gates::{self, Gates},
};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::flags::{Environment, Log, source};

/// The ServiceAccount of the daemon, as the chart names it.
pub const SERVICE_ACCOUNT: &str = "kruise-daemon";

/// Everything a daemon needs to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What it does.
    pub daemon: daemon::Settings,
    /// What is logged.
    pub log: Log,
    /// Flags that were given and have no effect, with the reason.
    pub without_effect: Vec<(&'static str, &'static str)>,
}

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `--feature-gates` cannot be read.
    #[error("--feature-gates cannot be used")]
    Gates(#[source] gates::Error),
    /// The daemon does not know where it is.
    #[error("not found NODE_NAME in environments: set it to spec.nodeName of the daemon's pod")]
    NoNode,
}

impl Settings {
    /// Reads and checks everything.
    pub fn new(arguments: Arguments, environment: Environment<'_>) -> Result<Self, Error> {
        let environment = &|name: &str| environment(name).filter(|it| !it.is_empty());
        let node = environment("NODE_NAME").ok_or(Error::NoNode)?;
        let downloads = usize::try_from(arguments.max_workers_for_pull_image).ok();
        Ok(Self {
            daemon: daemon::Settings {
                source: source(arguments.kubeconfig, arguments.context, environment),
                address: arguments.addr.0,
                socket: Some(arguments.socket_file).filter(|it| !it.is_empty()),
                downloads: downloads.and_then(NonZeroUsize::new),
                plugin_config: arguments.plugin_config_file,
                plugin_binaries: arguments.plugin_bin_dir,
                docker_files: docker_files::places(
                    Path::new(""),
                    environment("HOME").as_deref().map(Path::new),
                ),
                gates: Gates::parse(&arguments.feature_gates.join(","), None).map_err(Error::Gates)?,
                ..daemon::Settings::new(node)
            },
            log: Log::new(arguments.log_format, arguments.verbosity),
            without_effect: arguments.without_effect.given,
        })
    }
}

/// Runs a daemon until `stop` is cancelled and everything under way has ended, or until it cannot go on.
pub async fn run(settings: Settings, stop: CancellationToken) -> Result<(), daemon::Error> {
    for (flag, reason) in &settings.without_effect {
        warn!("--{flag} has no effect: {reason}");
    }
    let daemon::Settings { node, gates, .. } = &settings.daemon;
    info!(version = env!("CARGO_PKG_VERSION"), node, ?gates, "starting");
    daemon::run(settings.daemon, stop).await
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};
    use kruise_core::runtime::{client::Source, gates::Gate};

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn settings(flags: &[&str], variables: &[(&str, &str)]) -> Result<Settings, Error> {
        let line = Line::try_parse_from([&["daemon"], flags].concat()).unwrap();
        let environment =
            |name: &str| variables.iter().find(|it| it.0 == name).map(|(_, value)| (*value).to_owned());
        Settings::new(line.arguments, &environment)
    }

    const NODE: (&str, &str) = ("NODE_NAME", "n1");

    #[test]
    fn without_any_flag_only_downloads_at_once_differ_from_openkruise() {
        let it = settings(&[], &[NODE]).unwrap().daemon;
        let expected = daemon::Settings::new("n1");
        assert_eq!(it.node, "n1");
        assert_eq!(it.address, Some("0.0.0.0:10221".parse().unwrap()));
        assert_eq!((it.socket, it.host_run), (None, "/hostvarrun".into()));
        assert_eq!(it.plugin_config.to_str(), Some("/kruise/CredentialProviderPlugin.yaml"));
        assert_eq!(it.plugin_binaries.to_str(), Some("/kruise/plugins"));
        assert_eq!((it.downloads, it.gates), (expected.downloads, expected.gates));
    }

    #[test]
    fn the_flags_of_the_stock_manifest_start_this_daemon() {
        let flags = [
            "--logtostderr=true",
            "-v=5",
            "--addr=:10221",
            "--feature-gates=AllAlpha=true",
            "--socket-file=",
            "--max-workers-for-pull-image=2",
            "--enable-pprof=true",
            "--pprof-addr=localhost:10222",
        ];
        let it = settings(&flags, &[NODE]).unwrap();
        assert_eq!((it.daemon.socket.as_deref(), it.daemon.downloads), (None, NonZeroUsize::new(2)));
        assert!(it.daemon.gates.is_on(Gate::ImagePullJob));
        assert_eq!(
            it.without_effect.iter().map(|it| it.0).collect::<Vec<_>>(),
            ["enable-pprof", "logtostderr", "pprof-addr"]
        );
    }

    #[test]
    fn no_limit_of_downloads_is_zero_or_less() {
        for flag in ["--max-workers-for-pull-image=-1", "--max-workers-for-pull-image=0"] {
            assert_eq!(settings(&[flag], &[NODE]).unwrap().daemon.downloads, None, "{flag}");
        }
    }

    #[test]
    fn a_missing_node_name_and_bad_gates_are_named() {
        for variables in [&[][..], &[("NODE_NAME", "")]] {
            let error = settings(&[], variables).unwrap_err().to_string();
            assert!(error.starts_with("not found NODE_NAME in environments"), "{error}");
        }
        let error = settings(&["--feature-gates=Nonsense=true"], &[NODE]).unwrap_err();
        assert_eq!(error.to_string(), "--feature-gates cannot be used");
    }

    #[test]
    fn a_named_kubeconfig_wins_over_the_account_of_the_pod() {
        let in_pod = [NODE, ("KUBERNETES_SERVICE_HOST", "10.0.0.1")];
        assert!(matches!(settings(&[], &in_pod).unwrap().daemon.source, Source::InCluster));
        let named = settings(&["--kubeconfig=/k"], &in_pod).unwrap().daemon.source;
        assert!(matches!(named, Source::Kubeconfig { path: Some(_), .. }));
    }

    #[test]
    fn every_flag_has_a_line_of_help() {
        for it in Line::command().get_arguments() {
            assert!(it.get_help().is_some(), "{}", it.get_id());
        }
    }
}
