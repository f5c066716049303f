//! Flags of OpenKruise's manager that mean nothing here. They are accepted, so that existing manifests start, and
//! reported, so that nobody relies on them.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, parser::ValueSource};

/// The flags, each with the reason why it has no effect.
const FLAGS: [(&str, &str); 37] = [
    ("advancedcronjob-workers", NO_SUCH_KIND),
    ("allow-privileged", "the API server alone decides about privileged containers"),
    ("alsologtostderr", LOGS),
    ("assign-bcj-pods-by-scheduler", NO_SUCH_KIND),
    ("assign-pods-by-scheduler", NO_SUCH_KIND),
    ("broadcastjob-workers", NO_SUCH_KIND),
    ("controller-cache-sync-timeout", "caches are waited for as long as it takes"),
    ("crr-workers", NO_SUCH_KIND),
    ("daemonset-workers", NO_SUCH_KIND),
    ("default-ttlseconds-for-always-nodeimage", NO_SUCH_KIND),
    ("disable-no-deepcopy", "nothing is copied that could be left alone"),
    ("enable-pprof", PPROF),
    ("expectation-timeout", "own writes are tracked by what the API server answered, not by time"),
    ("imagepulljob-workers", NO_SUCH_KIND),
    ("leader-election-resource-lock", "leader election always uses leases"),
    ("logtostderr", LOGS),
    ("nodeimage-creation-delay", NO_SUCH_KIND),
    ("nodeimage-workers", NO_SUCH_KIND),
    ("nodepodprobe-workers", NO_SUCH_KIND),
    ("persistentpodstate-workers", NO_SUCH_KIND),
    ("podprobemarker-workers", NO_SUCH_KIND),
    ("podunavailablebudget-workers", NO_SUCH_KIND),
    ("pprof-addr", PPROF),
    ("protection-log-path", "no admission rule writes to it"),
    ("rate-limiter-base-delay", BACKOFF),
    ("rate-limiter-bucket-size", BACKOFF),
    ("rate-limiter-max-delay", BACKOFF),
    ("rate-limiter-qps", BACKOFF),
    ("resourcedistribution-workers", NO_SUCH_KIND),
    ("rest-config-burst", RATE),
    ("rest-config-qps", RATE),
    ("sidecarset-workers", NO_SUCH_KIND),
    ("sidecarterminator-workers", NO_SUCH_KIND),
    ("statefulset-workers", NO_SUCH_KIND),
    ("sync-period", "nothing is reconciled without a cause"),
    ("uniteddeployment-workers", NO_SUCH_KIND),
    ("workloadspread-workers", NO_SUCH_KIND),
];

const NO_SUCH_KIND: &str = "this build has no controller for it";
const LOGS: &str = "logs always go to standard error";
const PPROF: &str = "there is no profiling endpoint";
const BACKOFF: &str = "the wait after failures is fixed";
const RATE: &str = "the API server's own refusals set the pace";

/// Those of the flags that were given, with the reason why they have no effect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct WithoutEffect(pub(super) Vec<(&'static str, &'static str)>);

impl FromArgMatches for WithoutEffect {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut this = Self::default();
        this.update_from_arg_matches(matches)?;
        Ok(this)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let was_given = |name: &str| matches.value_source(name) == Some(ValueSource::CommandLine);
        self.0 = FLAGS.into_iter().filter(|(name, _)| was_given(name)).collect();
        Ok(())
    }
}

impl Args for WithoutEffect {
    fn augment_args(command: Command) -> Command {
        FLAGS.into_iter().fold(command, |command, (name, reason)| {
            let arg = Arg::new(name)
                .long(name)
                .num_args(0..=1)
                .value_name("VALUE")
                .action(ArgAction::Append)
                .help_heading("Accepted for compatibility, without effect")
                .hide_short_help(true)
                .help(reason);
            command.arg(arg)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
