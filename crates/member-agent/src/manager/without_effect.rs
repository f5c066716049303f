//! Flags of OpenKruise's manager that mean nothing here.

use crate::flags::{
    FlagList,
    without_effect::{LOGS, PPROF, RATE},
};

const NO_SUCH_KIND: &str = "this build has no controller for it";
const BACKOFF: &str = "the wait after failures is fixed";

/// The flags.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Ignored;

impl FlagList for Ignored {
    const FLAGS: &'static [(&'static str, &'static str)] = &[
        ("advancedcronjob-workers", NO_SUCH_KIND),
        ("allow-privileged", "the API server alone decides about privileged containers"),
        ("alsologtostderr", LOGS),
        ("assign-bcj-pods-by-scheduler", NO_SUCH_KIND),
        ("assign-pods-by-scheduler", NO_SUCH_KIND),
        ("broadcastjob-workers", NO_SUCH_KIND),
        ("controller-cache-sync-timeout", "caches are waited for as long as it takes"),
        ("daemonset-workers", NO_SUCH_KIND),
        ("disable-no-deepcopy", "nothing is copied that could be left alone"),
        ("enable-pprof", PPROF),
        ("expectation-timeout", "own writes are tracked by what the API server answered, not by time"),
        ("leader-election-resource-lock", "leader election always uses leases"),
        ("logtostderr", LOGS),
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
        ("statefulset-workers", NO_SUCH_KIND),
        ("sync-period", "nothing is reconciled without a cause"),
        ("uniteddeployment-workers", NO_SUCH_KIND),
        ("workloadspread-workers", NO_SUCH_KIND),
    ];
}
