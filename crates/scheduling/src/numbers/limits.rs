//! The limits of an object as integers on the whole fleet. Members never see a percent.

use super::{Error, Fault, IntOrPercent, Percent, Rounding};

/// How many of `replicas` pods stay at the old revision (REV-2): percent rounds up, a percent other than exactly
/// `100%` leaves at least one of several pods to update, and nothing exceeds the population.
pub fn partition(value: Option<IntOrPercent>, replicas: u64) -> u64 {
    let Some(value) = value else { return 0 };
    let kept = value.resolve(replicas, Rounding::Up).min(replicas);
    match value {
        IntOrPercent::Percent(percent)
            if kept == replicas && replicas > 1 && !percent.is_literal_hundred() =>
        {
            replicas - 1
        }
        _ => kept,
    }
}

/// Refuses a partition above `100%`.
pub fn check_partition(field: &'static str, value: IntOrPercent) -> Result<(), Error> {
    match value {
        IntOrPercent::Percent(it) if it.is_above_hundred() => {
            Err(Error { field, fault: Fault::AboveHundredPercent })
        }
        _ => Ok(()),
    }
}

/// Whether existing pods are being updated at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pace {
    /// The update goes on as far as the limits allow.
    #[default]
    Rolling,
    /// The user paused it: no existing pod is updated.
    Paused,
}

/// How many pods beyond `replicas` an update may start (BUD-1): none while it is paused.
pub fn max_surge(value: Option<IntOrPercent>, replicas: u64, pace: Pace) -> u64 {
    match (pace, value) {
        (Pace::Paused, _) | (_, None) => 0,
        (Pace::Rolling, Some(value)) => value.resolve(replicas, Rounding::Up),
    }
}

/// How many of `replicas` pods an update may take down (BUD-1): percent rounds up if there is no surge, else down.
pub fn max_unavailable(value: Option<IntOrPercent>, replicas: u64, surge: u64) -> u64 {
    let value = value.unwrap_or(IntOrPercent::Percent(Percent::whole(20)));
    value.resolve(replicas, if surge == 0 { Rounding::Up } else { Rounding::Down })
}

/// Both budgets of an update on `replicas`, (unavailable, surge) (BUD-1). Both zero is refused where there are replicas:
/// no pod could ever be updated. While paused there is no surge, and that alone is no reason to refuse.
pub fn budgets(
    unavailable: Option<IntOrPercent>,
    surge: Option<IntOrPercent>,
    replicas: u64,
    pace: Pace,
) -> Result<(u64, u64), Error> {
    let most = max_surge(surge, replicas, Pace::Rolling);
    let down = max_unavailable(unavailable, replicas, most);
    check_budgets(down, most, replicas)?;
    let surge = max_surge(surge, replicas, pace);
    Ok((max_unavailable(unavailable, replicas, surge), surge))
}

/// Refuses budgets by which nothing could ever be updated (BUD-1).
pub fn check_budgets(unavailable: u64, surge: u64, replicas: u64) -> Result<(), Error> {
    if unavailable == 0 && surge == 0 && replicas > 0 {
        return Err(Error { field: "updateStrategy.maxUnavailable", fault: Fault::BothZero });
    }
    Ok(())
}

/// The two limits of a rebalance on `replicas`, (surge, unavailable) (MOVE-1). Both zero is refused: no move could
/// ever be made.
pub fn rebalance(surge: IntOrPercent, unavailable: IntOrPercent, replicas: u64) -> Result<(u64, u64), Error> {
    let more = surge.resolve(replicas, Rounding::Up);
    let mut less = unavailable.resolve(replicas, Rounding::Down);
    if more == 0 && less == 0 && matches!(unavailable, IntOrPercent::Percent(it) if !it.is_zero()) {
        less = 1;
    }
    if surge.is_zero() && unavailable.is_zero() {
        return Err(Error { field: "rebalance.maxSurge", fault: Fault::BothZero });
    }
    Ok((more, less))
}

/// How many clusters of a wave may be at work at once (REL-4): percent rounds down, never below one.
pub fn concurrency(value: Option<IntOrPercent>, clusters: u64) -> u64 {
    value.map_or(clusters, |it| it.resolve(clusters, Rounding::Down)).max(1)
}
