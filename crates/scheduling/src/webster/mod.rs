//! Webster's method with bounds, without a loop over replicas (SPLIT-3).
//!
//! The rule is worded one seat at a time: give the next one to the part with room and the largest `weight/(2 at + 1)`;
//! ties go to the smaller `at`, then to the earlier part. Seat `t` of a part of weight `w` so has the position
//! `(2t + 1)/w` on one line shared by all parts, positions grow along each part, and giving `k` seats one at a time
//! takes the `k` seats that come first on the line. They are found by search for a position with fewer than one seat
//! per part left to decide, and those few are compared exactly.

mod capped;
mod grouped;

use std::cmp::Ordering;

pub use capped::{Caps, NO_GROUP, fill_capped};

/// One taker of seats. In a slice of parts the earlier one wins ties, so callers order them by rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Part {
    /// Its claim in proportion to the others. Weight 0 receives only what nobody else can take.
    pub weight: u32,
    /// Seats it holds.
    pub at: u32,
    /// Seats it may hold at most.
    pub top: u32,
}

impl Part {
    /// How many more seats the part can take.
    pub fn room(&self) -> u64 {
        u64::from(self.top.saturating_sub(self.at))
    }
}

/// Gives out `give` seats and returns how many nobody had room for.
pub fn fill(parts: &mut [Part], give: u64) -> u64 {
    let weighted: u64 = parts.iter().filter(|it| it.weight > 0).map(Part::room).sum();
    fill_some(parts, give.min(weighted), weighted, |it| it.weight);
    if give <= weighted {
        return 0;
    }

    // Parts with a weight are full now, so equal weights for all concern only those without one.
    let rest = give - weighted;
    let unweighted: u64 = parts.iter().map(Part::room).sum();
    fill_some(parts, rest.min(unweighted), unweighted, |_| 1);
    rest.saturating_sub(unweighted)
}

/// Gives `give <= room` seats to the parts that have a weight.
fn fill_some(parts: &mut [Part], give: u64, room: u64, weight: impl Fn(&Part) -> u32 + Copy) {
    if give == 0 {
        return;
    }
    if give == room {
        for part in parts.iter_mut().filter(|it| weight(it) > 0 && it.at < it.top) {
            part.at = part.top;
        }
        return;
    }

    let line = Line::over(parts, weight);
    let (mut low, mut low_count) = (0, 0);
    let mut high = line.end(parts, weight, give);
    let count = |parts: &[Part], x: u64| -> u64 {
        parts.iter().map(|it| u64::from(line.taken(it, weight(it), x) - it.at)).sum()
    };
    let mut high_count = count(parts, high);
    let few = parts.len() as u64;
    let mut interpolate = true;
    while high - low > 1 && high_count - low_count > few && low_count < give {
        let middle = if interpolate {
            between(low, high, give - low_count, high_count - low_count)
        } else {
            low + (high - low) / 2
        };
        interpolate = !interpolate;
        let count = count(parts, middle);
        if count <= give {
            (low, low_count) = (middle, count);
        } else {
            (high, high_count) = (middle, count);
        }
    }

    let mut seats = Vec::new();
    if low_count < give {
        seats.reserve(few.max(high_count - low_count) as usize);
    }
    for (index, part) in parts.iter_mut().enumerate() {
        let weight = weight(part);
        let sure = line.taken(part, weight, low);
        if low_count < give {
            let possible = line.taken(part, weight, high);
            seats.extend((sure..possible).map(|at| Seat { weight, at, index: index as u32 }));
        }
        part.at = sure;
    }
    let rest = (give - low_count) as usize;
    if rest > 0 && rest < seats.len() {
        seats.select_nth_unstable_by(rest, Seat::precedence);
    }
    for seat in &seats[..rest] {
        parts[seat.index as usize].at += 1;
    }
}

/// A point strictly between `low` and `high`, as far along as `part` is of `whole`.
fn between(low: u64, high: u64, part: u64, whole: u64) -> u64 {
    let width = high - low;
    let along = u128::from(width) * u128::from(part) / u128::from(whole.max(1));
    low + (along as u64).clamp(1, width - 1)
}

/// The line of positions in fixed point: `x` stands for `x / 2^shift`.
///
/// One step of `x` is shorter than the distance `2/w` between two seats of the heaviest part, so a single step holds at
/// most one seat of each part. With 32-bit weights and bounds every `x` in use fits into 64 bits.
#[derive(Debug, Clone, Copy)]
struct Line {
    shift: u32,
}

impl Line {
    fn over(parts: &[Part], weight: impl Fn(&Part) -> u32) -> Self {
        let heaviest = parts.iter().filter(|it| it.at < it.top).map(weight).max().unwrap_or(1).max(1);
        Self { shift: u32::BITS - 1 - heaviest.leading_zeros() }
    }

    /// A position at which every part with a weight is full, or has taken `give` seats.
    fn end(self, parts: &[Part], weight: impl Fn(&Part) -> u32, give: u64) -> u64 {
        let most = |it: &Part| u64::from(it.top).min(give.saturating_add(u64::from(it.at)));
        parts
            .iter()
            .filter(|it| it.at < it.top && weight(it) > 0)
            .map(|it| ((2 * most(it) - 1) << self.shift).div_ceil(u64::from(weight(it))))
            .max()
            .unwrap_or(0)
    }

    /// How many seats `part` holds once all seats up to position `x` are given: at least what it has, at most its top.
    fn taken(self, part: &Part, weight: u32, x: u64) -> u32 {
        let reach = (u128::from(weight) * u128::from(x)) >> self.shift;
        let seats = u64::try_from(reach.div_ceil(2)).unwrap_or(u64::MAX);
        seats.min(u64::from(part.top)).max(u64::from(part.at)) as u32
    }
}

/// One seat still to be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seat {
    weight: u32,
    at: u32,
    index: u32,
}

impl Seat {
    /// Who comes first: larger `weight/(2 at + 1)`, then smaller `at`, then the earlier part.
    fn precedence(&self, other: &Self) -> Ordering {
        let ours = u128::from(self.weight) * (2 * u128::from(other.at) + 1);
        let theirs = u128::from(other.weight) * (2 * u128::from(self.at) + 1);
        theirs.cmp(&ours).then(self.at.cmp(&other.at)).then(self.index.cmp(&other.index))
    }
}
