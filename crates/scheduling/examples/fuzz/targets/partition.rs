//! The partition split.

use scheduling::{
    numbers::{self, IntOrPercent, Pace, Percent},
    partition::{
        self, Admission, Body, Cluster, Link, Release, Request, Rollback, Room, Seeding,
        sidecar::{self, Matched},
    },
};

use super::Bytes;

pub(crate) fn plan_any(bytes: &mut Bytes) {
    let clusters: Vec<Cluster> = (0..bytes.below(20)).map(|it| cluster(bytes, it)).collect();
    let replicas = clusters.iter().map(|it| u64::from(it.replicas)).sum();
    let request = Request {
        population: if bytes.below(4) == 0 { bytes.word() } else { replicas },
        partition: value(bytes),
        release: bytes.pick(&[Release::Underway, Release::Underway, Release::Over]),
        pace: bytes.pick(&[Pace::Rolling, Pace::Rolling, Pace::Paused]),
        rollback: bytes.pick(&[Rollback::Off, Rollback::On]),
        room: bytes.pick(&[Room::Free, Room::Held]),
        clusters,
    };
    let Ok(answer) = partition::plan(&request) else { return };
    assert_eq!(answer.kept + answer.due, request.population);
    let mut floors: u64 = 0;
    for (row, it) in answer.rows.iter().zip(&request.clusters) {
        match it.link {
            Link::Frozen { exposure } if request.release == Release::Underway => {
                assert_eq!(row.updated, exposure)
            }
            _ => assert!(row.updated <= it.replicas),
        }
        assert!(row.member_partition <= it.replicas);
        assert!(!row.to_string().is_empty());
        let floor = it.updated.saturating_sub(it.previous.saturating_sub(it.replicas)).min(it.replicas);
        floors += match it.link {
            Link::Frozen { exposure } => u64::from(exposure),
            _ if it.seeding == Seeding::Unable && it.has_target => u64::from(it.replicas),
            _ => u64::from(floor),
        };
        if row.body == Body::Stable {
            assert_eq!(row.updated, 0);
        }
    }
    let updated: u64 = answer.rows.iter().map(|it| u64::from(it.updated)).sum();
    if request.release == Release::Underway && answer.kept > 0 {
        assert!(updated <= answer.due.max(floors), "{request:?}");
    }
}

pub(crate) fn plan_sidecar(bytes: &mut Bytes) {
    let matched = |bytes: &mut Bytes, it| Matched { cluster: cluster(bytes, it), matched: bytes.number() };
    let clusters: Vec<Matched> = (0..bytes.below(12)).map(|it| matched(bytes, it)).collect();
    let population: u64 = clusters.iter().map(|it| u64::from(it.matched)).sum();
    let value = value(bytes);
    if let Ok(answer) = sidecar::plan_sidecar(value, clusters) {
        assert_eq!(answer.kept, numbers::partition(value, population));
    }
    let (a, b) = (bytes.number(), bytes.number());
    assert!(sidecar::member_partition(a, b) <= a);
    sidecar::needs_replan(a, b);
}

fn value(bytes: &mut Bytes) -> Option<IntOrPercent> {
    let number = bytes.maybe()?;
    Some(if bytes.below(2) == 0 {
        IntOrPercent::Int(number)
    } else {
        IntOrPercent::Percent(Percent::whole(number % 200))
    })
}

fn cluster(bytes: &mut Bytes, index: u64) -> Cluster {
    let replicas = bytes.number();
    let replicas = if bytes.below(100) == 0 { replicas } else { replicas % 1_000_001 };
    Cluster {
        previous: bytes.number(),
        updated: bytes.number(),
        granted: bytes.number(),
        wave: bytes.below(4) as u32,
        admission: bytes.pick(&[Admission::Admitted, Admission::Admitted, Admission::ToCome]),
        link: if bytes.below(6) == 0 { Link::Frozen { exposure: bytes.number() } } else { Link::Reachable },
        seeding: bytes.pick(&[Seeding::Able, Seeding::Able, Seeding::Unable]),
        has_target: bytes.below(2) == 0,
        broken_old: bytes.number(),
        leftovers: bytes.number(),
        ..Cluster::new(format!("c{index}"), bytes.below(4), replicas)
    }
}
