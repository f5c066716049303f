//! Numbers as users write them, and the integers they stand for.

mod limits;
mod percent;

use std::{error, fmt};

pub use limits::{
    Pace, budgets, check_budgets, check_partition, concurrency, max_surge, max_unavailable, partition,
    rebalance,
};
pub use percent::Percent;

/// The most replicas one object may have over the fleet.
pub const MAX_REPLICAS: u32 = 1_000_000;
/// The most clusters one object may be placed on.
pub const MAX_CLUSTERS: usize = 5_000;
/// The largest weight of a cluster.
pub const MAX_WEIGHT: u32 = 10_000;

/// A number, or a percent of a total known later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IntOrPercent {
    /// The number itself.
    Int(u32),
    /// A part of the total.
    Percent(Percent),
}

/// Which way a part that is not whole goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// To the next larger integer.
    Up,
    /// To the next smaller integer.
    Down,
}

impl IntOrPercent {
    /// Reads a text such as `30%` or `12.5%`. A text without `%` is an error, as it is in a member: numbers come as
    /// integers.
    pub fn parse(field: &'static str, text: &str) -> Result<Self, Error> {
        match Percent::parse(text) {
            Ok(percent) => Ok(Self::Percent(percent)),
            Err(fault) => Err(Error { field, fault }),
        }
    }

    /// Takes an integer as manifests carry it.
    pub fn int(field: &'static str, number: i64) -> Result<Self, Error> {
        match u32::try_from(number) {
            Ok(number) => Ok(Self::Int(number)),
            Err(_) if number < 0 => Err(Error { field, fault: Fault::Negative }),
            Err(_) => Err(Error { field, fault: Fault::TooLarge }),
        }
    }

    /// The integer it stands for on `total`.
    pub fn resolve(self, total: u64, rounding: Rounding) -> u64 {
        match self {
            Self::Int(number) => u64::from(number),
            Self::Percent(percent) => percent.of(total, rounding),
        }
    }

    /// Whether it stands for nothing on every total.
    pub fn is_zero(self) -> bool {
        match self {
            Self::Int(number) => number == 0,
            Self::Percent(percent) => percent.is_zero(),
        }
    }
}

impl fmt::Display for IntOrPercent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::Percent(percent) => write!(f, "{percent}"),
        }
    }
}

/// A number that cannot be used, with the field it was in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error {
    /// The field's path, as the user wrote it.
    pub field: &'static str,
    /// What is wrong with its value.
    pub fault: Fault,
}

/// What can be wrong with a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The text is not a percent.
    NotAPercent,
    /// Below zero.
    Negative,
    /// A percent above 100.
    AboveHundredPercent,
    /// More than the field can hold.
    TooLarge,
    /// A percent where only an integer is accepted.
    PercentNotAllowed,
    /// This field and its counterpart are both zero, so nothing could ever be done.
    BothZero,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, fault } = self;
        let words = match fault {
            Fault::NotAPercent => "must be an integer or a percent such as `30%`",
            Fault::Negative => "must not be negative",
            Fault::AboveHundredPercent => "must not be above `100%`",
            Fault::TooLarge => "is too large",
            Fault::PercentNotAllowed => "must be an integer, not a percent",
            Fault::BothZero => "must not be 0 when its counterpart is 0 as well",
        };
        write!(f, "{field} {words}")
    }
}

impl error::Error for Error {}
