//! Our marks on a member object: whose it is, and which plan it was last given.

use std::collections::BTreeMap;

use kruise_core::api::{
    cloneset::keys::PINNED_REVISION,
    fleet::{keys, policy::DeletionPolicy},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The number of a plan: the hub's term, and which plan of the object it is. Both only grow (PROTO-3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pair {
    /// Leadership term of the hub.
    pub term: u64,
    /// Number of the plan.
    pub seq: u64,
}

impl Pair {
    /// Whether a plan with the number `next` may follow. A higher term is not enough: plans of an object are counted through
    /// all terms, so a leader that goes back in that count was restored from an older copy of the hub (HA-5).
    pub fn allows(self, next: Self) -> bool {
        next.term >= self.term && next.seq >= self.seq
    }

    fn read(text: &str) -> Option<Self> {
        let (term, seq) = text.split_once('.')?;
        Some(Self { term: term.parse().ok()?, seq: seq.parse().ok()? })
    }
}

impl std::fmt::Display for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.term, self.seq)
    }
}

/// What is to be seen on a member object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Marks {
    /// The hub that manages it.
    pub hub_uid: String,
    /// The object on the hub.
    pub object_uid: String,
    /// The plan it was last given.
    pub plan: Pair,
    /// The epoch of that plan.
    pub epoch: u64,
    /// Set if the object was there before the fleet: what the plan said about deletion when that was last `Orphan`, or
    /// else when the object was taken over (AD-1).
    pub adopted: Option<DeletionPolicy>,
    /// The revision that stays the current one until the hub ends the release (REV-8).
    pub pinned: Option<String>,
}

impl Marks {
    /// Reads the marks of `object`; nothing if no hub manages it.
    pub fn of(object: &Value) -> Option<Self> {
        let annotation = |key: &str| object["metadata"]["annotations"].get(key).and_then(Value::as_str);
        Some(Self {
            hub_uid: annotation(keys::HUB_UID)?.to_owned(),
            object_uid: annotation(keys::OBJECT_UID).unwrap_or_default().to_owned(),
            // A mark that cannot be read is no plan at all: any plan is newer.
            plan: annotation(keys::APPLIED_PLAN).and_then(Pair::read).unwrap_or_default(),
            epoch: annotation(keys::EPOCH).and_then(|it| it.parse().ok()).unwrap_or_default(),
            adopted: annotation(keys::ADOPTED).map(|it| match it {
                "Orphan" => DeletionPolicy::Orphan,
                _ => DeletionPolicy::Delete,
            }),
            pinned: annotation(PINNED_REVISION).map(str::to_owned),
        })
    }

    /// The marks as annotations.
    pub fn annotations(&self) -> BTreeMap<&'static str, String> {
        let Self { hub_uid, object_uid, plan, epoch, adopted, pinned } = self;
        let mut all = BTreeMap::from([
            (keys::HUB_UID, hub_uid.clone()),
            (keys::OBJECT_UID, object_uid.clone()),
            (keys::APPLIED_PLAN, plan.to_string()),
            (keys::EPOCH, epoch.to_string()),
        ]);
        all.extend(adopted.map(|it| (keys::ADOPTED, format!("{it:?}"))));
        all.extend(pinned.clone().map(|it| (PINNED_REVISION, it)));
        all
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn marks_are_read_as_they_were_written() {
        let marks = Marks {
            hub_uid: "hub".into(),
            object_uid: "object".into(),
            plan: Pair { term: 3, seq: 41 },
            epoch: 2,
            adopted: Some(DeletionPolicy::Orphan),
            pinned: Some("web-abc".into()),
        };
        let object = json!({"metadata": {"annotations": marks.annotations()}});
        assert_eq!(Marks::of(&object), Some(marks));
        assert_eq!(Marks::of(&json!({"metadata": {"annotations": {"a": "b"}}})), None);
        let broken =
            json!({"metadata": {"annotations": {(keys::HUB_UID): "hub", (keys::APPLIED_PLAN): "x.1"}}});
        assert_eq!(Marks::of(&broken).unwrap().plan, Pair::default());
    }

    #[test]
    fn proto_3_neither_the_term_nor_the_number_goes_back() {
        let pair = |term, seq| Pair { term, seq };
        assert!(
            pair(1, 9).allows(pair(1, 9)) && pair(1, 9).allows(pair(2, 9)) && pair(1, 9).allows(pair(1, 10))
        );
        assert!(!pair(2, 9).allows(pair(1, 10)), "a leader that was deposed");
        assert!(!pair(1, 9).allows(pair(2, 6)), "HA-5: a hub that has forgotten plans");
    }
}
