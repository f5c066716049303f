//! The command line. Names are those of OpenKruise's daemon, so that its manifests start this one.

use std::path::PathBuf;

use kruise_core::{daemon::images::plugins, runtime::logs};

use crate::flags::{
    FlagList, Listen, WithoutEffect,
    without_effect::{LOGS, PPROF, RATE},
};

const VARIABLES: &str = "\
Environment:
  NODE_NAME  The name of the node this process runs on: spec.nodeName of its pod (needed)
  RUST_LOG   Log filter; wins over --v";

/// The flags of `kruise-agent daemon`.
#[derive(Debug, clap::Args)]
#[command(after_long_help = VARIABLES)]
pub struct Arguments {
    /// The kubeconfig file; without it KUBECONFIG, then the service account of this pod, then ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig
    #[arg(long)]
    pub(super) context: Option<String>,
    /// Optional behaviour: Name=true or Name=false, with commas between; AllAlpha and AllBeta switch whole groups
    #[arg(long, value_name = "GATES")]
    pub(super) feature_gates: Vec<String>,

    /// Where /healthz, /readyz and /metrics are served; 0 for nowhere
    #[arg(long, value_name = "ADDRESS", default_value = ":10221", value_parser = Listen::parse)]
    pub(super) addr: Listen,
    /// The runtime's socket: a path below /hostvarrun, where the host's /var/run is mounted, or an absolute path;
    /// without it the usual places are tried
    #[arg(long, value_name = "FILE", default_value = "", hide_default_value = true)]
    pub(super) socket_file: String,
    /// How many images are downloaded at once; 0 or less for any number
    #[arg(long, value_name = "COUNT", default_value = "5", allow_negative_numbers = true)]
    pub(super) max_workers_for_pull_image: i32,
    /// The configuration of kubelet's credential provider plugins; it need not exist
    #[arg(long, value_name = "FILE", default_value = plugins::CONFIG_FILE)]
    pub(super) plugin_config_file: PathBuf,
    /// Where the programs of these plugins are
    #[arg(long, value_name = "FOLDER", default_value = plugins::BINARIES)]
    pub(super) plugin_bin_dir: PathBuf,

    /// How much is logged, as klog counts it: up to 5 what happens, 6 and 7 also why, from 8 on everything
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value = "0")]
    pub(super) verbosity: u8,
    /// How log lines look: json or text
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub(super) log_format: logs::Format,

    #[command(flatten)]
    pub(super) without_effect: WithoutEffect<Ignored>,
}

/// Flags of OpenKruise's daemon that mean nothing here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ignored;

impl FlagList for Ignored {
    const FLAGS: &'static [(&'static str, &'static str)] = &[
        ("alsologtostderr", LOGS),
        ("enable-pprof", PPROF),
        ("logtostderr", LOGS),
        ("pprof-addr", PPROF),
        ("rest-config-burst", RATE),
        ("rest-config-qps", RATE),
    ];
}
