//! What an agent has told, in one word.
//!
//! Agents write this word on their Lease whenever they renew it. A hub compares it with the statuses that it has stored:
//! where both are the same, what is stored is what the cluster does. A hub that was restored from an older copy finds that
//! they differ, before it writes anything (HA-5).

/// The word for these Assignments: name, and the term and number of the plan that was said to be applied. Their order does
/// not matter.
pub fn digest<'a>(told: impl IntoIterator<Item = (&'a str, u64, u64)>) -> String {
    let mut lines: Vec<String> =
        told.into_iter().map(|(name, term, seq)| format!("{name} {term}.{seq}\n")).collect();
    lines.sort_unstable();
    // FNV-1a: nobody gains by a collision but a cluster that lies about itself, and it could say the right word anyway.
    let bytes = lines.iter().flat_map(|it| it.bytes());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, it| (hash ^ u64::from(it)).wrapping_mul(0x100_0000_01b3));
    format!("{}-{hash:016x}", lines.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ha_5_the_word_tells_plans_apart_and_not_their_order() {
        let word = digest([("a", 1, 9), ("b", 2, 3)]);
        assert_eq!(digest([("b", 2, 3), ("a", 1, 9)]), word);
        for other in
            [digest([("a", 1, 9)]), digest([("a", 1, 5), ("b", 2, 3)]), digest([("a", 2, 9), ("b", 2, 3)])]
        {
            assert_ne!(other, word);
        }
        assert_eq!(digest([]), "0-cbf29ce484222325");
    }
}
