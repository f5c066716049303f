//! A policy's words as numbers on N.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kruise_core::api::fleet::policy::{
    self, ApprovalPoint, Failover, PrePull, RebalanceTrigger, Rollout, RolloutOrder,
};
use scheduling::{
    moves::{Rebalance, Trigger},
    numbers::{Error, IntOrPercent, Percent, Rounding, rebalance},
    release::{self, Approval, Gate, Wave},
    round::{OnReturn, Rules, UnknownCountsAs},
    split::{self, Request},
};

use super::Object;
use crate::placement::select::{ClusterFacts, selects};

/// The name of the wave of clusters that are in no other.
pub(crate) const REST: &str = "rest";

/// A number or percentage of a policy, or what is wrong with it.
pub fn read_number(field: &'static str, value: &IntOrString) -> Result<IntOrPercent, Error> {
    match value {
        IntOrString::Int(number) => IntOrPercent::int(field, i64::from(*number)),
        IntOrString::String(text) => IntOrPercent::parse(field, text),
    }
}

/// The policy's waves, with a last one for clusters that are in none of them.
pub fn waves<'a>(rollout: &Rollout, clusters: impl IntoIterator<Item = &'a ClusterFacts>) -> Vec<Wave> {
    let mut waves: Vec<Wave> = rollout.waves.iter().map(|it| wave(it, rollout)).collect();
    let is_left_out = |it: &ClusterFacts| wave_of(rollout, it) == rollout.waves.len();
    if clusters.into_iter().any(is_left_out) {
        let rest = policy::Wave { name: REST.to_owned(), ..policy::Wave::default() };
        waves.push(wave(&rest, rollout));
    }
    waves
}

/// Place of the first wave that selects a cluster; one past the last if none does.
pub(super) fn wave_of(rollout: &Rollout, cluster: &ClusterFacts) -> usize {
    if rollout.order == RolloutOrder::Proportional {
        return 0;
    }
    let waves = &rollout.waves;
    waves.iter().position(|it| selects(&it.clusters, cluster)).unwrap_or(waves.len())
}

/// The policy's numbers on N.
pub(super) fn rules(object: &Object<'_>, population: u64) -> Result<Rules, Error> {
    let placement = object.placement;
    let rules = &placement.rebalance;
    let fitted = |it: u64| u32::try_from(it).unwrap_or(u32::MAX);
    let (more, less) = rebalance(
        read_number("rebalance.maxSurge", &rules.max_surge)?,
        read_number("rebalance.maxUnavailable", &rules.max_unavailable)?,
        population,
    )?;
    let max_moves = read_number("rebalance.maxMoves", &rules.max_moves)?;
    let Failover { enabled, max_overlap, max_clusters, on_return, .. } = &placement.failover;
    let max_overlap = IntOrPercent::parse("failover.maxOverlap", max_overlap)?;
    Ok(Rules {
        move_surge: fitted(more),
        move_unavailable: fitted(less),
        unknown: match placement.rollout.unknown_counts_as {
            policy::UnknownCountsAs::Unavailable => UnknownCountsAs::Unavailable,
            policy::UnknownCountsAs::LastReported => UnknownCountsAs::LastReported,
        },
        max_overlap: fitted(max_overlap.resolve(100, Rounding::Down)),
        // Without failover only an operator's word makes a cluster lost, and that is not to be limited.
        max_lost: if *enabled { *max_clusters } else { u32::MAX },
        progress_deadline: seconds(placement.rollout.progress_deadline),
        rebalance: Rebalance {
            trigger: match rules.trigger {
                RebalanceTrigger::Never => Trigger::Never,
                RebalanceTrigger::OnPolicyChange => Trigger::OnPolicyChange,
                RebalanceTrigger::Continuous => Trigger::Continuous,
            },
            tolerance: tolerance(object, population)?,
            max_moves: fitted(max_moves.resolve(population, Rounding::Up)),
            interval: seconds(rules.interval),
            policy: object.policy,
        },
        on_return: match on_return {
            policy::OnReturn::Keep => OnReturn::Keep,
            policy::OnReturn::Failback => OnReturn::Failback,
        },
        partition_rollback: object.partition_rollback,
        gate: gate_without_waves(&placement.rollout),
    })
}

fn tolerance(object: &Object<'_>, population: u64) -> Result<u32, Error> {
    let tolerance = IntOrPercent::parse("rebalance.tolerance", &object.placement.rebalance.tolerance)?;
    Ok(u32::try_from(tolerance.resolve(population, Rounding::Down)).unwrap_or(u32::MAX))
}

/// Whether some cluster is further from its ideal share than a continuous rebalance leaves it (MOVE-5).
pub(super) fn is_rebalance_due(object: &Object<'_>, request: &Request) -> Result<bool, Error> {
    let Ok(answer) = split::plan(request) else { return Ok(false) };
    let tolerance = tolerance(object, answer.population)?;
    let mut distances = request.clusters.iter().zip(&answer.rows).map(|it| it.0.current.abs_diff(it.1.ideal));
    Ok(distances.any(|it| it > tolerance))
}

/// A policy names no gate for a release without waves. Who asks for a rollback wants it when a cluster makes no
/// progress; else such a release never fails by itself.
fn gate_without_waves(rollout: &Rollout) -> Gate {
    match rollout.on_failure {
        policy::OnFailure::Pause => Gate::default(),
        policy::OnFailure::Rollback => {
            Gate { max_failed: 0, on_failure: release::OnFailure::Rollback, ..Gate::default() }
        }
    }
}

fn wave(wave: &policy::Wave, rollout: &Rollout) -> Wave {
    Wave {
        name: wave.name.clone(),
        max_concurrency: wave.max_concurrency.as_ref().and_then(|it| read_number("maxConcurrency", it).ok()),
        soak: seconds(wave.soak),
        approval: match wave.approval {
            ApprovalPoint::None => Approval::None,
            ApprovalPoint::Before => Approval::Before,
            ApprovalPoint::After => Approval::After,
        },
        gate: Gate {
            max_failed: wave.gate.max_failed,
            max_failing_pods: wave.gate.max_crashing,
            on_failure: match rollout.on_failure {
                policy::OnFailure::Pause => release::OnFailure::Pause,
                policy::OnFailure::Rollback => release::OnFailure::Rollback,
            },
        },
        pre_pull: pre_pull(&rollout.pre_pull),
    }
}

fn pre_pull(settings: &PrePull) -> Option<release::PrePull> {
    let threshold = Percent::parse(&settings.threshold).ok()?.of(100, Rounding::Up);
    settings.enabled.then(|| release::PrePull {
        threshold: u32::try_from(threshold).unwrap_or(100),
        timeout: seconds(settings.timeout),
    })
}

fn seconds(time: impl Into<Duration>) -> u32 {
    u32::try_from(time.into().as_secs()).unwrap_or(u32::MAX)
}
