//! One seed for everything that looks random.
//!
//! A draw is a hash of the seed and of what the draw is *for* (a client, a path, a pod), never the next number of a
//! shared generator. So the order in which tasks are polled, which tokio and hash maps do not promise to repeat,
//! cannot change what is drawn.

use std::time::Duration;

/// A point in the tree of draws: cheap to copy, and it always gives the same values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// The root of a run.
    pub fn new(value: u64) -> Self {
        Self(mix(value ^ 0x9e37_79b9_7f4a_7c15))
    }

    /// The branch of this seed that belongs to `label`.
    pub fn of(self, label: &str) -> Self {
        let mut hash = self.0 ^ 0xcbf2_9ce4_8422_2325;
        for byte in label.as_bytes() {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Self(mix(hash))
    }

    /// The branch of this seed that belongs to the `index`-th thing.
    pub fn at(self, index: u64) -> Self {
        Self(mix(self.0 ^ mix(index.wrapping_add(0x632b_e59b_d9b4_e019))))
    }

    /// 64 bits.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// A number below `bound`; 0 when `bound` is 0.
    pub fn below(self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.0 % bound }
    }

    /// A time between `from` and `to`, both included.
    pub fn between(self, from: Duration, to: Duration) -> Duration {
        let span = to.saturating_sub(from).as_micros() as u64;
        from + Duration::from_micros(self.below(span + 1))
    }

    /// Whether something with this chance happens.
    pub fn happens(self, chance: Chance) -> bool {
        self.below(1_000_000) < u64::from(chance.0)
    }

    /// A version-4 UUID.
    pub fn uuid(self) -> String {
        let (high, low) = (self.of("uuid-high").0, self.of("uuid-low").0);
        format!(
            "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            0x8000 | (low >> 48 & 0x3fff),
            low & 0xffff_ffff_ffff,
        )
    }

    /// A suffix as `generateName` makes it: letters and digits that cannot form words.
    pub fn suffix(self, length: usize) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..length).map(|it| char::from(ALPHABET[self.at(it as u64).below(27) as usize])).collect()
    }
}

/// How likely something is, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Chance(u32);

impl Chance {
    /// It never happens.
    pub const NEVER: Self = Self(0);
    /// It always happens.
    pub const ALWAYS: Self = Self(1_000_000);

    /// So many of a hundred.
    pub fn percent(percent: u32) -> Self {
        Self(percent.min(100) * 10_000)
    }

    /// So many of a thousand.
    pub fn per_mille(value: u32) -> Self {
        Self(value.min(1000) * 1000)
    }
}

fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_path_gives_the_same_draw_and_another_path_another() {
        let seed = Seed::new(7);
        assert_eq!(seed.of("pods").at(3), Seed::new(7).of("pods").at(3));
        assert_ne!(seed.of("pods").at(3), seed.of("pods").at(4));
        assert_ne!(seed.of("pods"), Seed::new(8).of("pods"));
    }

    #[test]
    fn a_uuid_has_the_shape_clients_parse() {
        let uuid = Seed::new(1).uuid();
        let parts: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(matches!(uuid.as_bytes()[19], b'8'..=b'b'));
    }

    #[test]
    fn chances_come_out_about_as_often_as_asked() {
        let hits = (0..10_000).filter(|it| Seed::new(3).at(*it).happens(Chance::percent(20))).count();
        assert!((1_800..2_200).contains(&hits), "{hits}");
        assert!(!Seed::new(3).happens(Chance::NEVER));
        assert!(Seed::new(3).happens(Chance::ALWAYS));
    }
}
