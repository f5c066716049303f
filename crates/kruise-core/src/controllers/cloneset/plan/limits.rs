//! The numbers of a spec as integers.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use scheduling::numbers::{self, IntOrPercent, Pace, Rounding};

use crate::api::cloneset::v1beta1::{CloneSetSpec, RollingUpdateCloneSetStrategy};

/// The numbers of a spec, resolved on its replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Pods wanted.
    pub replicas: i64,
    /// Pods of them that stay at the current revision.
    pub partition: Partition,
    /// Pods that may be started beyond the replicas.
    pub max_surge: i64,
    /// Pods that may be down on our account.
    pub max_unavailable: i64,
    /// Pods that may be unavailable while pods are added.
    pub scale_max_unavailable: i64,
    /// Seconds a pod must be ready before it counts as available.
    pub min_ready_seconds: i32,
}

/// How many pods stay at the current revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partition {
    /// This many.
    Keep(i64),
    /// The spec does not say in a way that can be understood: every pod stays as it is.
    Unreadable,
}

impl Limits {
    /// The limits of `spec`. What cannot be read is taken as the careful value: no pod may go, none may be added.
    pub fn of(spec: &CloneSetSpec) -> Self {
        let replicas = i64::from(spec.replicas.unwrap_or(1).max(0));
        let total = replicas.unsigned_abs();
        let rolling = spec.update_strategy.rolling_update.as_ref();
        let pace = if is_paused(spec) { Pace::Paused } else { Pace::Rolling };
        let max_surge = match read(rolling.and_then(|it| it.max_surge.as_ref())) {
            Read::Value(value) => numbers::max_surge(Some(value), total, pace),
            Read::Absent | Read::Unreadable => 0,
        };
        // OnDelete has no block of its own and gets what a defaulted block would have: with 20% rounded down, a named
        // pod of a small CloneSet could never be deleted.
        let max_unavailable = match read(rolling.and_then(|it| it.max_unavailable.as_ref())) {
            Read::Value(value) => numbers::max_unavailable(Some(value), total, max_surge),
            Read::Absent => numbers::max_unavailable(None, total, max_surge),
            Read::Unreadable => 0,
        };
        let scale_max_unavailable = match read(spec.scale_strategy.max_unavailable.as_ref()) {
            Read::Value(value) => value.resolve(total, Rounding::Up),
            Read::Absent => u64::from(u32::MAX),
            Read::Unreadable => 0,
        };
        Self {
            replicas,
            partition: partition(rolling, total),
            max_surge: signed(max_surge),
            max_unavailable: signed(max_unavailable),
            scale_max_unavailable: signed(scale_max_unavailable),
            min_ready_seconds: spec.min_ready_seconds.max(0),
        }
    }

    /// How many pods should be at the update revision; nothing if the spec does not say.
    pub fn expected_updated(&self) -> Option<i64> {
        match self.partition {
            Partition::Keep(kept) => Some(self.replicas - kept),
            Partition::Unreadable => None,
        }
    }
}

/// Whether existing pods are left as they are for now.
pub fn is_paused(spec: &CloneSetSpec) -> bool {
    spec.update_strategy.rolling_update.as_ref().is_some_and(|it| it.paused)
}

fn partition(rolling: Option<&RollingUpdateCloneSetStrategy>, replicas: u64) -> Partition {
    match read(rolling.and_then(|it| it.partition.as_ref())) {
        Read::Value(value) => Partition::Keep(signed(numbers::partition(Some(value), replicas))),
        Read::Absent => Partition::Keep(0),
        Read::Unreadable => Partition::Unreadable,
    }
}

/// A field as it was read.
enum Read {
    Value(IntOrPercent),
    Absent,
    Unreadable,
}

/// Admission refuses what cannot be read; an object that was stored before admission was there may hold it all the same.
fn read(value: Option<&IntOrString>) -> Read {
    let value = match value {
        None => return Read::Absent,
        // A negative partition, surge or budget is as good as none.
        Some(IntOrString::Int(number)) => IntOrPercent::int("", i64::from(*number).max(0)),
        Some(IntOrString::String(text)) => IntOrPercent::parse("", text),
    };
    value.map_or(Read::Unreadable, Read::Value)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX / 4)
}
