//! The replica split.

use scheduling::{
    numbers::Percent,
    split::{self, Answer, Candidate, Goal, Mode, Request, Spread, State, WhenShort, WhenUnsatisfiable},
};

use super::Bytes;

pub(crate) fn plan_any(bytes: &mut Bytes) {
    let request = request(bytes);
    let Ok(answer) = split::plan(&request) else { return };
    check(&request, &answer);

    // Once carried out, nothing changes; and the order of the clusters does not matter.
    let mut next = request.clone();
    for (it, row) in next.clusters.iter_mut().zip(&answer.rows) {
        (it.current, it.named_for_deletion) = (row.replicas, 0);
    }
    let again = split::plan(&next).expect("the same request but for what runs");
    assert!(again.rows.iter().zip(&answer.rows).all(|(a, b)| a.replicas == b.replicas), "{request:?}");
    let mut turned = request.clone();
    turned.clusters.reverse();
    let mut other = split::plan(&turned).expect("the same clusters");
    other.rows.reverse();
    assert_eq!(other.rows, answer.rows);
}

fn check(request: &Request, answer: &Answer) {
    assert_eq!(answer.rows.len(), request.clusters.len());
    let placed: u64 = answer.rows.iter().map(|it| u64::from(it.replicas)).sum();
    let is_frozen = |it: &&Candidate| matches!(it.state, State::Offline | State::Unsupported);
    let frozen: u64 = request.clusters.iter().filter(is_frozen).map(|it| u64::from(it.current)).sum();
    let selects_any = !request.selects_none && request.clusters.iter().any(|it| it.state != State::Excluded);
    if selects_any && request.mode != Mode::Duplicated {
        assert_eq!(placed + answer.unplaced, u64::from(request.replicas).max(frozen), "{request:?}");
    }
    for (row, it) in answer.rows.iter().zip(&request.clusters) {
        assert!(row.floor <= row.replicas && row.replicas <= row.ceiling, "{row:?} {request:?}");
        if matches!(it.state, State::Offline) {
            assert_eq!(row.replicas, it.current);
        }
        assert!(!row.to_string().is_empty());
    }
}

fn request(bytes: &mut Bytes) -> Request {
    let rules = bytes.below(4).saturating_sub(1);
    let clusters = match bytes.below(500) {
        0 => bytes.below(5_100),
        _ => bytes.below(20),
    };
    Request {
        replicas: bytes.number(),
        mode: bytes.pick(&[Mode::Divided, Mode::Divided, Mode::Aggregated, Mode::Duplicated]),
        selects_none: bytes.below(20) == 0,
        when_short: bytes.pick(&[WhenShort::Overcommit, WhenShort::Hold]),
        goal: bytes.pick(&[Goal::LeastMovement, Goal::Rebalance]),
        spread: (0..rules).map(|_| rule(bytes)).collect(),
        clusters: (0..clusters).map(|it| cluster(bytes, it, rules)).collect(),
    }
}

pub(super) fn cluster(bytes: &mut Bytes, index: u64, rules: u64) -> Candidate {
    let states = [
        State::Ready,
        State::Ready,
        State::Ready,
        State::Cordoned,
        State::Draining,
        State::Offline,
        State::Lost,
        State::Pending,
        State::Returning,
        State::Excluded,
        State::Unsupported,
        State::Unconfirmed,
    ];
    let min = bytes.pick(&[0, 0, 1]) * bytes.number();
    // Mostly sensible, or nearly every request would be refused and nothing be tried.
    let max = bytes.maybe().map(|it| if bytes.below(200) == 0 { it } else { it.max(min) });
    let weight = if bytes.below(500) == 0 { bytes.number() } else { bytes.below(10_001) as u32 };
    let group = |bytes: &mut Bytes| match bytes.below(10) {
        0 => None,
        _ => Some(format!("g{}", bytes.below(5)).into()),
    };
    Candidate {
        state: bytes.pick(&states),
        tier: bytes.pick(&[0, 0, 1, 2, u32::MAX]),
        weight,
        min,
        max,
        fit: bytes.maybe(),
        current: bytes.number(),
        named_for_deletion: bytes.number(),
        groups: (0..rules).map(|_| group(bytes)).collect(),
        ..Candidate::new(format!("c{index}"), bytes.below(4))
    }
}

pub(super) fn rule(bytes: &mut Bytes) -> Spread {
    Spread {
        key: "zone".into(),
        min_groups: bytes.below(4) as u32,
        max_groups: bytes.maybe().map(|it| it.max(3)),
        max_share: bytes.maybe().map(|it| Percent::whole(1 + it % 120)),
        when_unsatisfiable: bytes
            .pick(&[WhenUnsatisfiable::DoNotSchedule, WhenUnsatisfiable::ScheduleAnyway]),
    }
}
