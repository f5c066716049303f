//! Image pull jobs over the fleet: their time, their sums, their copies, and the names of nodes and secrets.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use scheduling::{
    names::ClusterName,
    numbers::{IntOrPercent, Percent},
    pulls::{self, Completion, Copy, LISTED, Time},
};

use super::Bytes;

pub(crate) fn job_any(bytes: &mut Bytes) {
    let completion = completion(bytes);
    time(bytes, &completion);
    let copies: Vec<(ClusterName, Copy)> = (0..bytes.below(7)).map(|it| copy(bytes, it)).collect();
    sums(&completion, &copies);
    removal(bytes, &completion, &copies);
    nodes(bytes);
    secrets(bytes);
    slots(bytes);
}

fn completion(bytes: &mut Bytes) -> Completion {
    match bytes.below(4) {
        0 => Completion::Never,
        _ => Completion::Always { deadline: bytes.maybe(), ttl: bytes.maybe() },
    }
}

/// IPJ-3: what is left and what has passed are the deadline, and time only runs out. IPJ-5: without one it never does.
fn time(bytes: &mut Bytes, completion: &Completion) {
    let (early, late) = (bytes.number(), bytes.number());
    let (early, late) = (early.min(late), early.max(late));
    let left = |it: u32| match completion.time_left(it) {
        Time::Unlimited => None,
        Time::Left(seconds) => {
            assert!(seconds > 0);
            Some(seconds)
        }
        Time::Over => Some(0),
    };
    match completion {
        Completion::Always { deadline: Some(deadline), .. } => {
            for passed in [early, late] {
                let rest = u64::from(left(passed).expect("a deadline"));
                assert!(rest == 0 || rest + u64::from(passed) == u64::from(*deadline));
                assert_eq!(rest == 0, passed >= *deadline);
            }
            assert!(left(late) <= left(early));
        }
        Completion::Always { deadline: None, .. } | Completion::Never => {
            assert_eq!((left(early), left(late)), (None, None));
        }
    }
    let serves_all = matches!(completion, Completion::Never);
    assert_eq!((completion.takes_newcomers(true), completion.takes_newcomers(false)), (serves_all, true));
}

fn copy(bytes: &mut Bytes, index: u64) -> (ClusterName, Copy) {
    let node = |bytes: &mut Bytes| match bytes.below(6) {
        0 => String::new(),
        1 => format!("{}/{}", bytes.below(3), bytes.below(9)),
        _ => format!("n{}", bytes.below(40)),
    };
    let failed_nodes: Vec<String> = (0..bytes.below(40)).map(|_| node(bytes)).collect();
    // Mostly what a member says is true; a hostile one may say anything.
    let honest = failed_nodes.iter().collect::<BTreeSet<_>>().len() as u32;
    let failed = match bytes.below(4) {
        0 => bytes.number(),
        1 => honest + bytes.below(5) as u32,
        _ => honest,
    };
    let copy = Copy {
        desired: bytes.number(),
        active: bytes.number(),
        succeeded: bytes.number(),
        failed,
        failed_nodes,
        is_final: bytes.below(2) == 0,
        is_lost: bytes.below(4) == 0,
    };
    (format!("c{index}").into(), copy)
}

/// IPJ-4, worked out cluster by cluster: every failure is listed or counted, none is made up, and each name is one that its
/// cluster gave.
fn sums(completion: &Completion, copies: &[(ClusterName, Copy)]) {
    let totals = pulls::total(completion, copies);
    let mut plain = [0u128; 4];
    for (_, it) in copies {
        for (sum, part) in plain.iter_mut().zip([it.desired, it.active, it.succeeded, it.failed]) {
            *sum += u128::from(part);
        }
    }
    let given = [totals.desired, totals.active, totals.succeeded, totals.failed].map(u128::from);
    assert_eq!(given, plain);

    assert_eq!(totals.failed_nodes.len() as u64 + totals.unlisted, totals.failed);
    assert!(totals.failed_nodes.is_sorted_by(|a, b| a < b) && totals.failed_nodes.len() <= LISTED);
    let mut listed: HashMap<&str, u32> = HashMap::new();
    for name in &totals.failed_nodes {
        let (cluster, node) = name.split_once('/').expect("cluster/node");
        let (_, copy) = copies.iter().find(|it| it.0.as_str() == cluster).expect("a cluster of the job");
        assert!(copy.failed_nodes.iter().any(|it| it == node));
        *listed.entry(cluster).or_default() += 1;
    }
    // What a cluster could have had listed; the list is short only when it is full.
    let most = |it: &Copy| (it.failed_nodes.iter().collect::<BTreeSet<_>>().len() as u32).min(it.failed);
    for (cluster, copy) in copies {
        let listed = listed.get(cluster.as_str()).copied().unwrap_or(0);
        assert!(listed <= most(copy));
        assert!(listed == most(copy) || totals.failed_nodes.len() == LISTED);
    }

    let waits = copies.iter().filter(|it| !it.1.is_lost && !it.1.is_final).count();
    assert_eq!(totals.is_complete, *completion != Completion::Never && waits == 0);
    let turned: Vec<_> = copies.iter().rev().cloned().collect();
    assert_eq!(pulls::total(completion, &turned), totals);
}

/// IPJ-2: a copy goes only with its last word stored, where it can be reached, and not before the hub's time is over.
fn removal(bytes: &mut Bytes, completion: &Completion, copies: &[(ClusterName, Copy)]) {
    let over_for = bytes.maybe();
    let gone = pulls::removable(completion, over_for, copies);
    let ripe = match (*completion, over_for) {
        (Completion::Always { ttl: Some(ttl), .. }, Some(passed)) => passed >= ttl,
        _ => false,
    };
    assert_eq!(completion.is_outlived(over_for), ripe);
    for (place, (_, it)) in copies.iter().enumerate() {
        assert_eq!(gone.contains(&place), ripe && it.is_final && !it.is_lost);
    }
    assert!(gone.is_sorted_by(|a, b| a < b));
}

/// IPJ-6: a node is one cluster's or everyone's, and no cluster is told of one twice.
fn nodes(bytes: &mut Bytes) {
    let letters = ['a', 'b', '/', '\u{663}'];
    let word = |bytes: &mut Bytes| -> String { (0..bytes.below(5)).map(|_| bytes.pick(&letters)).collect() };
    let names: Vec<String> = (0..bytes.below(8)).map(|_| word(bytes)).collect();
    for cluster in ["a", "b", "ab", ""] {
        let own = pulls::nodes_of(cluster, &names);
        let mut plain: BTreeMap<&str, usize> = BTreeMap::new();
        for (place, name) in names.iter().enumerate() {
            match name.find('/') {
                None => _ = plain.entry(name).or_insert(place),
                Some(at) if &name[..at] == cluster => _ = plain.entry(&name[at + 1..]).or_insert(place),
                Some(_) => {}
            }
        }
        let mut wanted: Vec<(usize, &str)> = plain.into_iter().map(|(node, place)| (place, node)).collect();
        wanted.sort_unstable();
        assert_eq!(own, wanted.into_iter().map(|it| it.1).collect::<Vec<_>>(), "{cluster}: {names:?}");
    }
}

/// IPJ-6: whatever the user wrote, the derived name is one, and another for another job or secret.
fn secrets(bytes: &mut Bytes) {
    let letters = ['a', 'z', '0', '9', '.', '-', 'A', '_', '/', '\u{e9}', '\0'];
    let kinds = if bytes.below(2) == 0 { 4 } else { letters.len() };
    let length = bytes.pick(&[0, 1, 3, 20, 46, 47, 48, 70, 253]);
    let secret: String = (0..length).map(|_| bytes.pick(&letters[..kinds])).collect();
    let other: String = secret.chars().skip(1).chain(['b']).collect();
    let name = pulls::secret_name("job-1", &secret);
    let is_plain = |it: &char| it.is_ascii_lowercase() || it.is_ascii_digit();
    for label in name.split('.') {
        let ends = [label.chars().next(), label.chars().last()];
        assert!(ends.iter().all(|it| it.as_ref().is_some_and(is_plain)), "{name} of {secret:?}");
        assert!(label.chars().all(|it| is_plain(&it) || it == '-'), "{name} of {secret:?}");
    }
    assert!(name.len() <= 63);
    assert_eq!(name, pulls::secret_name("job-1", &secret));
    assert_ne!(name, pulls::secret_name("job-2", &secret));
    assert!(other == secret || name != pulls::secret_name("job-1", &other));
}

/// IPJ-1: an integer is taken as it is, and a percent never.
fn slots(bytes: &mut Bytes) {
    let number = bytes.number();
    assert_eq!(pulls::parallelism(None), Ok(1));
    assert_eq!(pulls::parallelism(Some(IntOrPercent::Int(number))), Ok(number));
    let refused = pulls::parallelism(Some(IntOrPercent::Percent(Percent::whole(number % 150))));
    assert!(refused.is_err_and(|it| it.to_string().starts_with("spec.parallelism ")));
}
