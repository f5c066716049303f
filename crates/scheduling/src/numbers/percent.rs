//! Percentages, kept as exact decimals.

use std::fmt;

use super::{Fault, Rounding};

/// Digits kept after the point.
const DIGITS: u32 = 9;
const ONE: u128 = 10u128.pow(DIGITS);

/// A percent of a total, exact to nine decimal places: `12.5%` of 8 is 1, whatever the machine's floats say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent {
    /// In units of 10^-9 percent.
    units: u64,
    /// Written exactly `100%`: the only text that keeps all pods old (REV-2).
    is_literal_hundred: bool,
}

impl Percent {
    /// A whole percent.
    pub fn whole(percent: u32) -> Self {
        Self { units: u64::from(percent) * ONE as u64, is_literal_hundred: percent == 100 }
    }

    /// Reads `30%` or `12.5%`: digits, at most one point, then `%`.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let number = text.strip_suffix('%').ok_or(Fault::NotAPercent)?;
        if let Some(positive) = number.strip_prefix('-') {
            decimal(positive)?;
            return Err(Fault::Negative);
        }
        Ok(Self { units: decimal(number)?, is_literal_hundred: text == "100%" })
    }

    /// This part of `total`.
    pub fn of(self, total: u64, rounding: Rounding) -> u64 {
        let parts = u128::from(self.units) * u128::from(total);
        let whole = match rounding {
            Rounding::Up => parts.div_ceil(100 * ONE),
            Rounding::Down => parts / (100 * ONE),
        };
        u64::try_from(whole).unwrap_or(u64::MAX)
    }

    /// Whether it is no part at all.
    pub fn is_zero(self) -> bool {
        self.units == 0
    }

    /// Whether it is more than the whole.
    pub fn is_above_hundred(self) -> bool {
        u128::from(self.units) > 100 * ONE
    }

    /// Whether it was written exactly `100%`.
    pub fn is_literal_hundred(self) -> bool {
        self.is_literal_hundred
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (u128::from(self.units) / ONE, u128::from(self.units) % ONE);
        if fraction == 0 {
            return write!(f, "{whole}%");
        }
        let digits = format!("{fraction:0width$}", width = DIGITS as usize);
        write!(f, "{whole}.{}%", digits.trim_end_matches('0'))
    }
}

fn decimal(text: &str) -> Result<u64, Fault> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_digits = |it: &str| it.bytes().all(|it| it.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_digits(whole) || !is_digits(fraction) {
        return Err(Fault::NotAPercent);
    }
    // A longer fraction cannot be kept exactly, and rounding it would move a limit silently.
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > DIGITS as usize {
        return Err(Fault::NotAPercent);
    }
    let mut units: u128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        units = units * 10 + u128::from(digit - b'0');
        if units > u128::from(u64::MAX) {
            return Err(Fault::TooLarge);
        }
    }
    let missing = DIGITS - fraction.len() as u32;
    u64::try_from(units * 10u128.pow(missing)).map_err(|_| Fault::TooLarge)
}
