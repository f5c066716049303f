//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::ArgAction;
use kruise_core::runtime::{
    flags::{self, Listen},
    logs,
};

use crate::members::{account::Credentials, joining::AutoApprove};

const VARIABLES: &str = "\
Environment:
  POD_NAMESPACE  The namespace this process runs in and keeps its own objects in [default: fleet-system]
  POD_NAME       The name of this process, for people who look at the lease [default: HOSTNAME]
  SERVICE_NAME   The Service through which the API server reaches the webhooks [default: kruise-hub-webhook-service]
  SECRET_NAME    The Secret with the webhook certificate [default: kruise-hub-webhook-certs]
  WEBHOOK_HOST   Reach the webhooks at this host or address instead of through the Service; HOST:PORT if the port is
                 another than the one listened on
  WEBHOOK_PORT   The port the webhooks listen on [default: 9876]
  WEBHOOK_CERT_WRITER
                 Where the certificate is kept: secret, or fs (the default with WEBHOOK_HOST)
  WEBHOOK_CERT_DIR
                 The directory of the certificate with fs
  CERTS_RENEW_BEFORE
                 How long before its end the certificate is replaced: 10d, 2m, 1y [default: 180d]
  RUST_LOG       Log filter; wins over --v

Exit codes:
  0  told to stop
  1  an error
  3  refused: a workload controller works on this API server";

/// The flags of `kruise-hub`.
#[derive(Debug, clap::Parser)]
#[command(name = "kruise-hub", version, about = "Brings OpenKruise's workloads into the clusters of a fleet",
          after_long_help = VARIABLES)]
pub struct Arguments {
    /// The kubeconfig file; without it KUBECONFIG, then the service account of this pod, then ~/.kube/config
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// The context in the kubeconfig
    #[arg(long)]
    pub(super) context: Option<String>,
    /// This API server is the hub's alone: start although a workload controller seems to work on it
    #[arg(long)]
    pub(super) dedicated_api: bool,

    /// Approve clusters whose name matches PATTERN (with * and ?) and that propose every label, without a person's word; may
    /// be given more than once
    #[arg(long, value_name = "PATTERN[,KEY=VALUE...]")]
    pub(super) auto_approve: Vec<AutoApprove>,
    /// By what agents are known: client certificates that this API server signs, or tokens of ServiceAccounts, sealed to the
    /// agents' keys, where it signs none
    #[arg(long, value_name = "KIND", default_value = "certificate")]
    pub(super) agent_credentials: Credentials,

    /// Let replicas elect a leader, which alone plans and writes
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, default_value = "true", value_parser = flags::boolean,
          num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(super) enable_leader_election: bool,
    /// The namespace of the leader's lease; that of this process if empty
    #[arg(long, value_name = "NAMESPACE", default_value = "", hide_default_value = true)]
    pub(super) leader_election_namespace: String,
    /// The name of the leader's lease
    #[arg(long, value_name = "NAME", default_value = super::LEASE)]
    pub(super) leader_election_id: String,
    /// How long others leave an unchanged lease alone
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = flags::duration)]
    pub(super) leader_election_lease_duration: Duration,
    /// How long the leader goes on without a successful renewal
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = flags::duration)]
    pub(super) leader_election_renew_deadline: Duration,
    /// How often the lease is renewed, or looked at
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = flags::duration)]
    pub(super) leader_election_retry_period: Duration,

    /// Where /metrics is served; 0 for nowhere
    #[arg(long, value_name = "ADDRESS", default_value = ":8080", value_parser = Listen::parse)]
    pub(super) metrics_addr: Listen,
    /// Where /healthz and /readyz are served; 0 for nowhere
    #[arg(long, value_name = "ADDRESS", default_value = ":8000", value_parser = Listen::parse)]
    pub(super) health_probe_addr: Listen,
    /// How soon webhooks must be set up once; otherwise the process ends
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = flags::duration)]
    pub(super) webhook_initialize_timeout: Duration,

    /// How much is logged, as klog counts it: up to 5 what happens, 6 and 7 also why, from 8 on everything
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value = "0")]
    pub(super) verbosity: u8,
    /// How log lines look: json or text
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub(super) log_format: logs::Format,
}
