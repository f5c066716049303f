//! Pull slots and namespace counts.

use scheduling::{
    distribution::{self, Reached},
    pulls::{Puller, Slots, share},
};

use super::Bytes;

pub(crate) fn share_any(bytes: &mut Bytes) {
    let puller = |bytes: &mut Bytes, index: u64| Puller {
        name: format!("c{index}").into(),
        rank: bytes.below(3),
        nodes_left: bytes.number(),
        granted: bytes.number(),
        slots: if bytes.below(5) == 0 { Slots::Held(bytes.number()) } else { Slots::Free },
    };
    let clusters: Vec<Puller> = (0..bytes.below(16)).map(|it| puller(bytes, it)).collect();
    let parallelism = bytes.number();
    let mut held = 0;
    let mut free = 0;
    for (it, share) in clusters.iter().zip(share(parallelism, &clusters)) {
        match it.slots {
            Slots::Held(slots) => held += u64::from(slots),
            Slots::Free => free += u64::from(share),
        }
        assert!(it.slots != Slots::Free || share <= it.nodes_left);
    }
    assert!(free <= u64::from(parallelism).saturating_sub(held));

    let failed = |bytes: &mut Bytes| (bytes.below(90).to_string(), bytes.below(3).to_string());
    let reached = |bytes: &mut Bytes, index: u64| Reached {
        cluster: format!("c{index}").into(),
        desired: bytes.number(),
        succeeded: bytes.number(),
        failed: (0..bytes.below(30)).map(|_| failed(bytes)).collect(),
    };
    let reports: Vec<Reached> = (0..bytes.below(5)).map(|it| reached(bytes, it)).collect();
    let totals = distribution::total(&reports);
    let listed: usize = totals.listed.values().map(Vec::len).sum();
    assert!(listed <= distribution::LISTED && listed as u64 + totals.unlisted == totals.failed);
}
