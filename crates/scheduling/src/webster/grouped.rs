//! Ceilings on groups that do not overlap: one search does for all of them.
//!
//! Giving seats one at a time and passing over full groups takes, of every group, its own first seats up to its ceiling,
//! and of all those the ones that come first on the line. So the count of seats up to a position is a sum over groups of
//! what lies up to it, cut to the ceiling, and grows with the position.

use super::{Line, NO_GROUP, Part, Seat, between, fill_some};

/// Gives out up to `give` seats to the parts that have a weight, lowers the `room` of each group by what it took, and
/// returns what is left.
pub(super) fn fill(
    parts: &mut [Part],
    group_of: &[u32],
    room: &mut [u64],
    give: u64,
    weight: impl Fn(&Part) -> u32 + Copy,
) -> u64 {
    let mut division = Division::of(parts, group_of, room, weight);
    let total: u64 = division.caps.iter().sum();
    if give == 0 || total == 0 {
        return give;
    }
    if give >= total {
        division.taken.clone_from(&division.caps);
        division.fill_full_groups(parts, weight);
    } else {
        division.search(parts, give, weight);
    }
    for (room, taken) in room.iter_mut().zip(&division.taken) {
        *room -= taken;
    }
    give.saturating_sub(total)
}

/// Seats of the groups; the last one is of the parts that are in none.
struct Division {
    /// The group of each part.
    group_of: Vec<u32>,
    /// What each group can take.
    caps: Vec<u64>,
    /// What each group has been given.
    taken: Vec<u64>,
}

impl Division {
    fn of(parts: &[Part], group_of: &[u32], room: &[u64], weight: impl Fn(&Part) -> u32) -> Self {
        let nobody = room.len() as u32;
        let group_of: Vec<u32> =
            group_of.iter().map(|it| if *it == NO_GROUP { nobody } else { *it }).collect();
        let mut caps = vec![0; room.len() + 1];
        for (part, group) in parts.iter().zip(&group_of).filter(|it| weight(it.0) > 0) {
            caps[*group as usize] += part.room();
        }
        for (cap, room) in caps.iter_mut().zip(room) {
            *cap = (*cap).min(*room);
        }
        let taken = vec![0; caps.len()];
        Self { group_of, caps, taken }
    }

    /// Gives `give` seats, fewer than there are.
    fn search(&mut self, parts: &mut [Part], give: u64, weight: impl Fn(&Part) -> u32 + Copy) {
        let line = Line::over(parts, weight);
        let few = parts.len() as u64;
        let (mut low, mut high) = (0, line.end(parts, weight, give));
        let mut below = vec![0; self.caps.len()];
        let mut above = below.clone();
        let mut middle_sums = below.clone();
        let mut low_count = 0;
        let mut high_count = self.count(parts, line, weight, high, &mut above);
        let mut interpolate = true;
        while high - low > 1 && low_count < give && self.undecided(&below, &above) > few {
            let middle = if interpolate {
                between(low, high, give - low_count, high_count - low_count)
            } else {
                low + (high - low) / 2
            };
            interpolate = !interpolate;
            let count = self.count(parts, line, weight, middle, &mut middle_sums);
            if count <= give {
                (low, low_count) = (middle, count);
                std::mem::swap(&mut below, &mut middle_sums);
            } else {
                (high, high_count) = (middle, count);
                std::mem::swap(&mut above, &mut middle_sums);
            }
        }

        for (taken, (below, cap)) in self.taken.iter_mut().zip(below.iter().zip(&self.caps)) {
            *taken = (*below).min(*cap);
        }
        let is_full: Vec<bool> = self.taken.iter().zip(&self.caps).map(|(taken, cap)| taken == cap).collect();
        self.fill_full_groups(parts, weight);
        let mut seats = Vec::new();
        for (index, part) in parts.iter_mut().enumerate() {
            let weight = weight(part);
            if weight == 0 || is_full[self.group_of[index] as usize] {
                continue;
            }
            let sure = line.taken(part, weight, low);
            if low_count < give {
                let possible = line.taken(part, weight, high);
                seats.extend((sure..possible).map(|at| Seat { weight, at, index: index as u32 }));
            }
            part.at = sure;
        }
        self.give_singly(parts, seats, give - low_count);
    }

    /// How many seats lie up to `x`, cut to the ceilings; `sums` are those of each group, uncut.
    fn count(
        &self,
        parts: &[Part],
        line: Line,
        weight: impl Fn(&Part) -> u32,
        x: u64,
        sums: &mut [u64],
    ) -> u64 {
        sums.fill(0);
        for (part, group) in parts.iter().zip(&self.group_of) {
            sums[*group as usize] += u64::from(line.taken(part, weight(part), x) - part.at);
        }
        sums.iter().zip(&self.caps).map(|(sum, cap)| sum.min(cap)).sum()
    }

    /// Seats between two positions in groups that are not full at the first.
    fn undecided(&self, below: &[u64], above: &[u64]) -> u64 {
        let open = below.iter().zip(above).zip(&self.caps).filter(|((below, _), cap)| below < cap);
        open.map(|((below, above), _)| above - below).sum()
    }

    /// Gives the groups that have been given all they can take their first seats.
    fn fill_full_groups(&self, parts: &mut [Part], weight: impl Fn(&Part) -> u32 + Copy) {
        let is_full = |group: usize| self.caps[group] > 0 && self.taken[group] == self.caps[group];
        let mut members: Vec<(u32, u32)> = (0..parts.len())
            .filter(|it| is_full(self.group_of[*it] as usize) && weight(&parts[*it]) > 0)
            .map(|it| (self.group_of[it], it as u32))
            .collect();
        members.sort_unstable();
        let mut group: Vec<Part> = Vec::new();
        for chunk in members.chunk_by(|a, b| a.0 == b.0) {
            group.clear();
            group.extend(chunk.iter().map(|it| parts[it.1 as usize]));
            let room = group.iter().map(Part::room).sum();
            fill_some(&mut group, self.caps[chunk[0].0 as usize], room, weight);
            for (member, part) in chunk.iter().zip(&group) {
                parts[member.1 as usize] = *part;
            }
        }
    }

    fn give_singly(&mut self, parts: &mut [Part], mut seats: Vec<Seat>, mut left: u64) {
        seats.sort_unstable_by(Seat::precedence);
        for seat in seats {
            let group = self.group_of[seat.index as usize] as usize;
            if left == 0 {
                break;
            }
            if self.taken[group] < self.caps[group] {
                parts[seat.index as usize].at += 1;
                self.taken[group] += 1;
                left -= 1;
            }
        }
    }
}
