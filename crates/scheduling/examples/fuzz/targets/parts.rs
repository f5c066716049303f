//! The small entry points: budgets, weights by room, turns and ranks.

use scheduling::{
    numbers::{self, IntOrPercent, Pace, Percent},
    rank::{rank, sha256},
    release::{Ordered, Turn, turns},
    split::fit::{self, Cause},
};

use super::Bytes;

pub(crate) fn parts_any(bytes: &mut Bytes) {
    match bytes.below(4) {
        0 => budgets_any(bytes),
        1 => weights_any(bytes),
        2 => turns_any(bytes),
        _ => rank_any(bytes),
    }
}

fn number(bytes: &mut Bytes) -> Option<IntOrPercent> {
    match bytes.below(3) {
        0 => None,
        1 => Some(IntOrPercent::Percent(Percent::whole(bytes.number()))),
        _ => IntOrPercent::int(
            "field",
            if bytes.below(2) == 0 { bytes.word() as i64 } else { bytes.below(9) as i64 },
        )
        .inspect_err(|it| assert!(it.to_string().starts_with("field ")))
        .ok(),
    }
}

fn budgets_any(bytes: &mut Bytes) {
    let (unavailable, surge) = (number(bytes), number(bytes));
    let total = if bytes.below(3) == 0 { bytes.word() } else { u64::from(bytes.number()) };
    let pace = bytes.pick(&[Pace::Rolling, Pace::Paused]);
    match numbers::budgets(unavailable, surge, total, pace) {
        Ok((down, more)) => assert!(total == 0 || pace == Pace::Paused || down > 0 || more > 0),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Some(value) = number(bytes) {
        let kept = numbers::partition(Some(value), total);
        let refused = numbers::check_partition("partition", value).is_err();
        assert!(kept <= total && (!refused || value != IntOrPercent::Int(0)));
    }
}

fn weights_any(bytes: &mut Bytes) {
    let fits: Vec<Option<u32>> = (0..bytes.below(12)).map(|_| bytes.maybe()).collect();
    let weights = fit::quantised(&fits);
    for (fit, weight) in fits.iter().zip(&weights) {
        assert!(*weight <= 20 && (*weight == 0) == (*fit == Some(0)));
    }
    for (a, b) in fits.iter().zip(&weights).flat_map(|a| fits.iter().zip(&weights).map(move |b| (a, b))) {
        assert!(a.0.is_none() || b.0.is_none() || a.0 > b.0 || a.1 <= b.1);
    }
    let used: Vec<u32> = (0..bytes.below(12)).map(|_| bytes.number()).collect();
    let kept = fit::weights(Some(&used), &fits, Cause::Report);
    assert_eq!(kept, if used.len() == fits.len() { used.clone() } else { weights.clone() });
    assert_eq!(fit::weights(Some(&used), &fits, Cause::Policy), weights);
    let (free, running, promised) = (bytes.maybe(), bytes.number(), bytes.word());
    assert!(fit::effective(free, running, promised).is_none_or(|it| free.is_some() && it >= running));
}

fn turns_any(bytes: &mut Bytes) {
    let names = ["a", "b", "c", "d", "e", "f", "g", "a"];
    let count = bytes.below(9) as usize;
    let objects: Vec<Ordered<'_>> = names[..count]
        .iter()
        .map(|name| Ordered {
            name,
            after: if bytes.below(3) == 0 { None } else { Some(bytes.pick(&["a", "b", "c", "d", "e", "x"])) },
            is_changing: bytes.below(3) > 0,
        })
        .collect();
    let turns = turns(&objects);
    assert_eq!(turns.len(), objects.len());
    for (object, turn) in objects.iter().zip(&turns) {
        if let Turn::After(other) = turn {
            assert!(objects[*other].is_changing && object.after == Some(objects[*other].name));
        }
        assert!(object.after.is_some() || *turn == Turn::Free);
    }
    // Somebody may always go on.
    let stuck = |it: &Turn| matches!(it, Turn::After(_));
    assert!(turns.is_empty() || !turns.iter().all(stuck), "{objects:?}");
}

fn rank_any(bytes: &mut Bytes) {
    let text: String = (0..bytes.below(200)).map(|_| char::from(b' ' + bytes.below(95) as u8)).collect();
    let (uid, cluster) = text.split_at(bytes.below(text.len() as u64 + 1) as usize);
    assert!(uid == cluster || rank(uid, cluster) != rank(cluster, uid));
    let mut other = text.clone().into_bytes();
    if let Some(byte) = other.last_mut() {
        *byte ^= 1;
        assert_ne!(sha256(text.as_bytes()), sha256(&other));
    }
}
