//! The same rule where groups of parts also have a ceiling (SPLIT-4).

use super::{Line, Part, Seat, between, grouped};

/// Marks a part that is in no group of a family.
pub const NO_GROUP: u32 = u32::MAX;

/// Ceilings on sums over groups of parts. The groups of one family do not overlap; different families may cross.
#[derive(Debug)]
pub struct Caps<'a> {
    /// How many families of groups there are.
    pub families: usize,
    /// The group of part `i` in family `f` at `i * families + f`, or [`NO_GROUP`]. A group belongs to one family.
    pub member_of: &'a [u32],
    /// What each group may still take; lowered by what is given.
    pub room: &'a mut [u64],
}

impl Caps<'_> {
    fn groups(&self, part: usize) -> impl Iterator<Item = usize> + '_ {
        let start = part * self.families;
        self.member_of[start..start + self.families]
            .iter()
            .filter(|it| **it != NO_GROUP)
            .map(|it| *it as usize)
    }

    fn is_full(&self, part: usize) -> bool {
        self.groups(part).any(|it| self.room[it] == 0)
    }

    fn take(&mut self, part: usize, count: u64) {
        let start = part * self.families;
        for group in &self.member_of[start..start + self.families] {
            if *group != NO_GROUP {
                let room = &mut self.room[*group as usize];
                *room = room.saturating_sub(count);
            }
        }
    }
}

/// Gives out `give` seats as [`super::fill`] does, passing over parts one of whose groups is full. Returns how many
/// could not be given.
pub fn fill_capped(parts: &mut [Part], caps: &mut Caps<'_>, give: u64) -> u64 {
    if caps.families == 0 {
        return super::fill(parts, give);
    }
    let left = fill_round(parts, caps, give, |it| it.weight);
    // Parts with a weight are full or in a full group now.
    fill_round(parts, caps, left, |it| u32::from(it.weight == 0))
}

fn fill_round(
    parts: &mut [Part],
    caps: &mut Caps<'_>,
    mut give: u64,
    weight: impl Fn(&Part) -> u32 + Copy,
) -> u64 {
    if caps.families == 1 {
        return grouped::fill(parts, caps.member_of, caps.room, give, weight);
    }
    // Parts that can still grow, with their places in `parts`. Each round below fills at least one group or ends.
    let mut open: Vec<(usize, Part)> = parts.iter().copied().enumerate().collect();
    let mut sums = vec![0; caps.room.len()];
    let line = Line::over(parts, weight);
    let mut low = 0;
    while give > 0 {
        open.retain(|(place, it)| it.at < it.top && weight(it) > 0 && !caps.is_full(*place));
        if open.is_empty() {
            break;
        }
        let search = Search { open: &open, caps, give, weight, line };
        let (sure, possible) = search.bracket(low, &mut sums);
        give -= advance(&mut open, caps, |it| line.taken(it, weight(it), sure));
        give -= settle(&mut open, caps, give, weight, |it| line.taken(it, weight(it), possible));
        low = possible;
        for (place, part) in &open {
            parts[*place].at = part.at;
        }
    }
    give
}

struct Search<'a, 'c, W> {
    open: &'a [(usize, Part)],
    caps: &'a Caps<'c>,
    give: u64,
    weight: W,
    line: Line,
}

impl<W: Fn(&Part) -> u32 + Copy> Search<'_, '_, W> {
    /// A position up to which everything can be given, and a later one up to which it cannot, with at most about one
    /// seat per part between them. If everything can be given the two are the same.
    fn bracket(&self, from: u64, sums: &mut [u64]) -> (u64, u64) {
        let open: Vec<Part> = self.open.iter().map(|(_, it)| *it).collect();
        let end = self.line.end(&open, self.weight, self.give).max(from);
        let (fits, mut high_count) = self.count(end, sums);
        if fits {
            return (end, end);
        }
        let (mut low, mut low_count, mut high) = (from, 0, end);
        let few = open.len() as u64;
        let mut interpolate = true;
        while high - low > 1 && high_count - low_count > few {
            let middle = if interpolate && high_count > self.give {
                between(low, high, self.give - low_count, high_count - low_count)
            } else {
                low + (high - low) / 2
            };
            interpolate = !interpolate;
            match self.count(middle, sums) {
                (true, count) => (low, low_count) = (middle, count),
                (false, count) => (high, high_count) = (middle, count),
            }
        }
        (low, high)
    }

    /// How many seats lie up to `x`, and whether they are within what is to be given and within every group's room.
    fn count(&self, x: u64, sums: &mut [u64]) -> (bool, u64) {
        sums.fill(0);
        let mut total = 0;
        for (place, part) in self.open {
            let more = u64::from(self.line.taken(part, (self.weight)(part), x) - part.at);
            total += more;
            for group in self.caps.groups(*place) {
                sums[group] += more;
            }
        }
        let within = sums.iter().zip(self.caps.room.iter()).all(|(sum, room)| sum <= room);
        (within && total <= self.give, total)
    }
}

/// Brings every open part to what `until` says and returns how many seats that took.
fn advance(open: &mut [(usize, Part)], caps: &mut Caps<'_>, until: impl Fn(&Part) -> u32) -> u64 {
    let mut given = 0;
    for (place, part) in open {
        let at = until(part);
        let more = u64::from(at - part.at);
        part.at = at;
        caps.take(*place, more);
        given += more;
    }
    given
}

/// Decides the few seats up to `until` one at a time and returns how many were given.
fn settle(
    open: &mut [(usize, Part)],
    caps: &mut Caps<'_>,
    give: u64,
    weight: impl Fn(&Part) -> u32,
    until: impl Fn(&Part) -> u32,
) -> u64 {
    let mut seats: Vec<Seat> = Vec::new();
    for (index, (_, part)) in open.iter().enumerate() {
        let weight = weight(part);
        seats.extend((part.at..until(part)).map(|at| Seat { weight, at, index: index as u32 }));
    }
    seats.sort_unstable_by(Seat::precedence);
    let mut given = 0;
    for seat in seats {
        if given == give {
            break;
        }
        let (place, part) = &mut open[seat.index as usize];
        if !caps.is_full(*place) {
            part.at += 1;
            caps.take(*place, 1);
            given += 1;
        }
    }
    given
}
