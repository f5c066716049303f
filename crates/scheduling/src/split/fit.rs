//! What a cluster can run, and weights made from it (SPLIT-7).

/// Free capacity is compared in steps of a twentieth of the largest.
const STEPS: u64 = 20;

/// Why a planning round takes place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The object changed.
    Spec,
    /// Its policy changed.
    Policy,
    /// Clusters came, left or changed their state.
    ClusterSet,
    /// A rebalance is due.
    Rebalance,
    /// Only reports came in.
    Report,
}

/// The weights of clusters by what fits into them. A moving estimate alone keeps the weights that were in use.
pub fn weights(in_use: Option<&[u32]>, fits: &[Option<u32>], cause: Cause) -> Vec<u32> {
    match in_use {
        Some(weights) if cause == Cause::Report && weights.len() == fits.len() => weights.to_vec(),
        _ => quantised(fits),
    }
}

/// Fits in steps of 5% of the largest, rounded up so that a little room is not none. An unknown fit counts as the
/// largest, as it is taken for unlimited elsewhere.
pub fn quantised(fits: &[Option<u32>]) -> Vec<u32> {
    let largest = u64::from(fits.iter().flatten().copied().max().unwrap_or(0));
    let step = |it: &Option<u32>| match it {
        Some(0) => 0,
        Some(fit) => (u64::from(*fit) * STEPS).div_ceil(largest) as u32,
        None => STEPS as u32,
    };
    fits.iter().map(step).collect()
}

/// What fits of one object: the free room less what other objects were granted and nobody has seen running yet, and
/// its own running pods, which are never pushed out.
pub fn effective(free: Option<u32>, running: u32, promised_to_others: u64) -> Option<u32> {
    let free = u64::from(free?).saturating_sub(promised_to_others);
    Some(u32::try_from(free + u64::from(running)).unwrap_or(u32::MAX))
}
