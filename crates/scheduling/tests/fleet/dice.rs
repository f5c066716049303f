/// A small seeded source of chance: the same seed, the same run, on every machine.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // Mixed, or neighbouring seeds would walk through one and the same sequence, a step apart.
        Self(mix(seed.wrapping_add(0x1234_5678_9abc_def1)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// 0 up to, not including, `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// Between both, both included.
    pub(crate) fn between(&mut self, low: u32, high: u32) -> u32 {
        low + self.below((high - low + 1) as usize) as u32
    }

    /// True in so many of a thousand cases.
    pub(crate) fn permille(&mut self, chance: usize) -> bool {
        self.below(1000) < chance
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

fn mix(mut it: u64) -> u64 {
    it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    it ^ (it >> 31)
}

#[test]
fn neighbouring_seeds_share_no_sequence() {
    let words = |seed| (0..100).scan(Dice::new(seed), |dice, _| Some(dice.next())).collect::<Vec<u64>>();
    assert!(words(1).iter().all(|it| !words(2).contains(it)));
}
