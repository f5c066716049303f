//! Webster's method with and without ceilings on groups.

use scheduling::webster::{Caps, NO_GROUP, Part, fill, fill_capped};

use super::Bytes;

pub(crate) fn fill_any(bytes: &mut Bytes) {
    let part = |bytes: &mut Bytes| Part { weight: bytes.number(), at: bytes.number(), top: bytes.number() };
    let parts: Vec<Part> = (0..bytes.below(24)).map(|_| part(bytes)).collect();
    let give = if bytes.below(8) == 0 { bytes.word() } else { u64::from(bytes.number()) };
    let mut plain = parts.clone();
    let left = fill(&mut plain, give);
    let room: u64 = parts.iter().map(Part::room).sum();
    assert_eq!(left, give.saturating_sub(room));
    check(&parts, &plain, give - left);

    // Without limits that bind, ceilings change nothing.
    let families = 1 + bytes.below(2) as usize;
    let groups = 5 * families;
    let group = |bytes: &mut Bytes, family: usize| match bytes.below(8) {
        0 => NO_GROUP,
        _ => (5 * family as u64 + bytes.below(5)) as u32,
    };
    let member_of: Vec<u32> = (0..parts.len() * families).map(|it| group(bytes, it % families)).collect();
    let mut wide = vec![u64::MAX; groups];
    let mut capped = parts.clone();
    assert_eq!(
        fill_capped(&mut capped, &mut Caps { families, member_of: &member_of, room: &mut wide }, give),
        left
    );
    assert_eq!(capped, plain);

    let before: Vec<u64> = (0..groups).map(|_| u64::from(bytes.number())).collect();
    let mut room = before.clone();
    let mut capped = parts.clone();
    let left = fill_capped(&mut capped, &mut Caps { families, member_of: &member_of, room: &mut room }, give);
    check(&parts, &capped, give - left);
    for group in 0..groups {
        let is_in = |it: &usize| member_of[it * families..(it + 1) * families].contains(&(group as u32));
        let taken: u64 =
            (0..parts.len()).filter(is_in).map(|it| u64::from(capped[it].at - parts[it].at)).sum();
        assert_eq!(before[group] - room[group], taken);
    }
}

fn check(before: &[Part], after: &[Part], given: u64) {
    let mut sum = 0;
    for (before, after) in before.iter().zip(after) {
        assert!(after.at >= before.at && after.at <= before.top.max(before.at));
        sum += u64::from(after.at - before.at);
    }
    assert_eq!(sum, given);
}
