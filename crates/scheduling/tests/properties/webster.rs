//! The search finds the very seats that the loop gives.

use proptest::prelude::*;
use scheduling::webster::{Caps, NO_GROUP, Part, fill, fill_capped};

use crate::{cases, naive};

fn part() -> impl Strategy<Value = Part> {
    let weight = prop_oneof![Just(0u32), Just(1), Just(7), 0..12u32, 9_900..=10_000u32, any::<u32>()];
    (weight, 0..8u32, 0..40u32).prop_map(|(weight, at, more)| Part { weight, at, top: at + more })
}

proptest! {
    #![proptest_config(cases())]

    /// SPLIT-3
    #[test]
    fn the_search_gives_what_the_loop_gives(
        mut parts in prop::collection::vec(part(), 0..12),
        give in 0..300u64,
    ) {
        let mut slow = parts.clone();
        let left = fill(&mut parts, give);
        prop_assert_eq!(naive::fill(&mut slow, 0, &[], &mut [], give), left);
        prop_assert_eq!(parts, slow);
    }

    /// SPLIT-4: two families of groups, which may cross.
    #[test]
    fn the_search_under_ceilings_gives_what_the_loop_gives(
        members in prop::collection::vec((part(), 0..4u32, 4..8u32), 0..12),
        mut room in prop::collection::vec(0..40u64, 7),
        give in 0..300u64,
    ) {
        let member_of: Vec<u32> =
            members.iter().flat_map(|(_, a, b)| [*a, if *b == 7 { NO_GROUP } else { *b }]).collect();
        let mut parts: Vec<Part> = members.iter().map(|it| it.0).collect();
        let (mut slow, mut slow_room) = (parts.clone(), room.clone());
        let left = fill_capped(&mut parts, &mut Caps { families: 2, member_of: &member_of, room: &mut room }, give);
        prop_assert_eq!(naive::fill(&mut slow, 2, &member_of, &mut slow_room, give), left);
        prop_assert_eq!(parts, slow);
        prop_assert_eq!(room, slow_room);
    }

    /// SPLIT-4: one family of groups, which one search decides.
    #[test]
    fn the_search_under_separate_ceilings_gives_what_the_loop_gives(
        members in prop::collection::vec((part(), 0..5u32), 0..14),
        mut room in prop::collection::vec(0..40u64, 4),
        give in 0..300u64,
    ) {
        let member_of: Vec<u32> = members.iter().map(|(_, it)| if *it == 4 { NO_GROUP } else { *it }).collect();
        let mut parts: Vec<Part> = members.iter().map(|it| it.0).collect();
        let (mut slow, mut slow_room) = (parts.clone(), room.clone());
        let left = fill_capped(&mut parts, &mut Caps { families: 1, member_of: &member_of, room: &mut room }, give);
        prop_assert_eq!(naive::fill(&mut slow, 1, &member_of, &mut slow_room, give), left);
        prop_assert_eq!(parts, slow);
        prop_assert_eq!(room, slow_room);
    }

    /// Numbers as large as the types hold: nothing overflows, and the sum is right.
    #[test]
    fn hostile_numbers_keep_the_sum(
        mut parts in prop::collection::vec((any::<u32>(), any::<u32>(), any::<u32>()), 0..50),
        give in any::<u64>(),
    ) {
        let mut parts: Vec<Part> = parts.drain(..).map(|(weight, at, top)| Part { weight, at, top }).collect();
        let before = parts.clone();
        let room: u64 = parts.iter().map(Part::room).sum();
        let left = fill(&mut parts, give);
        prop_assert_eq!(left, give.saturating_sub(room));
        let mut given = 0;
        for (before, after) in before.iter().zip(&parts) {
            prop_assert!(after.at >= before.at && after.at <= before.top.max(before.at));
            given += u64::from(after.at - before.at);
        }
        prop_assert_eq!(given, give.min(room));
    }
}
