//! The command line. Names and defaults are those of OpenKruise's manager, so that its manifests start this one.

use std::{num::NonZeroUsize, path::PathBuf, time::Duration};

use clap::ArgAction;
use kruise_core::{
    controllers::image_pull_job::assign,
    runtime::{leader, logs},
};

use super::{settings::HubArguments, without_effect::Ignored};
use crate::flags::{Listen, WithoutEffect, go};

const VARIABLES: &str = "\
Environment:
  POD_NAMESPACE        The namespace this process runs in, which no webhook covers [default: kruise-system]
  SERVICE_NAME         The Service through which the API server reaches the webhooks [default: kruise-webhook-service]
  SECRET_NAME          The Secret with the webhook certificate [default: kruise-webhook-certs]
  WEBHOOK_HOST         Reach the webhooks at this host or address instead of through the Service; HOST:PORT if the
                       port is another than the one listened on
  WEBHOOK_PORT         The port the webhooks listen on [default: 9876]
  WEBHOOK_CERT_WRITER  Where the certificate is kept: secret, or fs (the default with WEBHOOK_HOST)
  WEBHOOK_CERT_DIR     The directory of the certificate with fs
  KRUISE_DAEMON_CONFIG_NS
                       The namespace in which daemons read pull secrets [default: kruise-daemon-config]
  CERTS_RENEW_BEFORE   How long before its end the certificate is replaced: 10d, 2m, 1y [default: 180d]
  RUST_LOG             Log filter; wins over --v";

/// The flags of `kruise-agent manager`.
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
    /// Watch and reconcile this namespace only
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(super) namespace: String,

    #[command(flatten)]
    pub(super) hub: HubArguments,

    /// Let replicas elect a leader, which alone runs the controllers
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value = "true", value_parser = go::boolean,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) enable_leader_election: bool,
    /// The namespace of the leader's lease; that of this process if empty
    #[arg(long, value_name = "NAMESPACE", default_value = "kruise-system")]
    pub(super) leader_election_namespace: String,
    /// The name of the leader's lease
    #[arg(long, value_name = "NAME", default_value = leader::LEASE_NAME)]
    pub(super) leader_election_id: String,
    /// How long others leave an unchanged lease alone
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = go::duration)]
    pub(super) leader_election_lease_duration: Duration,
    /// How long the leader goes on without a successful renewal
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = go::duration)]
    pub(super) leader_election_renew_deadline: Duration,
    /// How often the lease is renewed, or looked at
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = go::duration)]
    pub(super) leader_election_retry_period: Duration,

    /// Where /metrics is served; 0 for nowhere
    #[arg(long, value_name = "ADDRESS", default_value = ":8080", value_parser = Listen::parse)]
    pub(super) metrics_addr: Listen,
    /// Where /healthz and /readyz are served; 0 for nowhere
    #[arg(long, value_name = "ADDRESS", default_value = ":8000", value_parser = Listen::parse)]
    pub(super) health_probe_addr: Listen,
    /// How soon webhooks must be set up once; otherwise the process ends
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = go::duration)]
    pub(super) webhook_initialize_timeout: Duration,

    /// How many CloneSets are reconciled at once
    #[arg(long, value_name = "COUNT", default_value = "3")]
    pub(super) cloneset_workers: NonZeroUsize,
    /// Leave pods that prepare their deletion out of a CloneSet's replicas
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value = "false", value_parser = go::boolean,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) cloneset_scaling_exclude_preparing_delete: bool,

    /// How many NodeImages are reconciled at once
    #[arg(long, value_name = "COUNT", default_value = "3")]
    pub(super) nodeimage_workers: NonZeroUsize,
    /// How long a node is ready before it gets its NodeImage
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = go::duration)]
    pub(super) nodeimage_creation_delay: Duration,
    /// How many ImagePullJobs are reconciled at once
    #[arg(long, value_name = "COUNT", default_value = "3")]
    pub(super) imagepulljob_workers: NonZeroUsize,
    /// Seconds that an image stays in a NodeImage beyond the time of the finished job that put it there
    #[arg(long, value_name = "SECONDS", default_value_t = assign::DEFAULT_TTL,
          value_parser = clap::value_parser!(i32).range(0..=2_678_400))]
    pub(super) default_ttlseconds_for_always_nodeimage: i32,
    /// How many ImageListPullJobs are reconciled at once
    #[arg(long, value_name = "COUNT", default_value = "3")]
    pub(super) imagelistpulljob_workers: NonZeroUsize,
    /// How many ContainerRecreateRequests are reconciled at once
    #[arg(
        long,
        visible_alias = "containerrecreaterequest-workers",
        value_name = "COUNT",
        default_value = "3"
    )]
    pub(super) crr_workers: NonZeroUsize,
    /// For how many pods at once sidecars are stopped
    #[arg(long, value_name = "COUNT", default_value = "3")]
    pub(super) sidecarterminator_workers: NonZeroUsize,

    /// How much is logged, as klog counts it: up to 5 what happens, 6 and 7 also why, from 8 on everything
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value = "0")]
    pub(super) verbosity: u8,
    /// How log lines look: json or text
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub(super) log_format: logs::Format,

    #[command(flatten)]
    pub(super) without_effect: WithoutEffect<Ignored>,
}
