//! What is fuzzed. Each file covers the entry points of one module.

mod job;
mod numbers;
mod partition;
mod parts;
mod rounds;
mod shares;
mod split;
mod webster;

/// One entry point under fire.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Decodes the bytes, calls the entry point and panics when a promise is broken.
    pub(crate) run: fn(&mut Bytes),
}

/// Every target. Add a line here for a new entry point.
pub(crate) const TARGETS: &[Target] = &[
    Target { name: "split", run: split::plan_any },
    Target { name: "partition", run: partition::plan_any },
    Target { name: "sidecar", run: partition::plan_sidecar },
    Target { name: "webster", run: webster::fill_any },
    Target { name: "numbers", run: numbers::parse_any },
    Target { name: "parts", run: parts::parts_any },
    Target { name: "shares", run: shares::share_any },
    Target { name: "job", run: job::job_any },
    Target { name: "plan", run: rounds::plan_any },
    Target { name: "reports", run: rounds::take_any },
    Target { name: "release", run: rounds::step_any },
    Target { name: "slots", run: rounds::slots_any },
];

/// An endless stream of bytes (xorshift64*), the same for the same seed and iteration.
pub(crate) struct Bytes(u64);

impl Bytes {
    pub(crate) fn new(seed: u64, iteration: u64) -> Self {
        let mut bytes = Self(
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ iteration.wrapping_mul(0xd1b5_4a32_d192_ed03) | 1,
        );
        bytes.word();
        bytes.word();
        bytes
    }

    /// Any 64 bits.
    pub(crate) fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        (self.word() >> 16) % end.max(1)
    }

    /// A number of any size, small, round and extreme ones more often than chance would have it.
    pub(crate) fn number(&mut self) -> u32 {
        match self.below(8) {
            0 => 0,
            1 => 1,
            2 => u32::MAX - self.below(3) as u32,
            3 => 1_000_000 + self.below(3) as u32 - 1,
            4 | 5 => self.below(20) as u32,
            6 => self.below(100_000) as u32,
            _ => self.word() as u32,
        }
    }

    /// A number or nothing.
    pub(crate) fn maybe(&mut self) -> Option<u32> {
        if self.below(2) == 0 { None } else { Some(self.number()) }
    }

    /// One of several.
    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
