//! Several objects that want the same room (SPLIT-7, SPLIT-9).

use std::{cmp::Reverse, collections::HashMap, error, fmt};

use super::{Answer, Error, Request, fit, plan};
use crate::names::ClusterName;

/// One object of a round. Its clusters' `fit` is filled in by [`plan_all`].
#[derive(Debug, Clone, Default)]
pub struct Contender {
    /// The priority of its policy: higher first.
    pub priority: i32,
    /// When it was created, on any scale: older first.
    pub created: u64,
    /// Its UID, which settles the rest.
    pub uid: String,
    /// What is to be planned.
    pub request: Request,
    /// For each cluster of the request, what the last report said about this object.
    pub seen: Vec<Seen>,
}

/// What a report says about one object in one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Seen {
    /// Pods of it that would still fit; unknown is unlimited.
    pub free: Option<u32>,
    /// Its pods running there.
    pub running: u32,
}

/// Plans all objects, each seeing what those before it were promised. Answers are in the order of the input.
pub fn plan_all(contenders: &mut [Contender]) -> Vec<Result<Answer, Error>> {
    // Grants that no report shows yet take room already, whoever holds them.
    let mut promised: HashMap<ClusterName, u64> = HashMap::new();
    for it in contenders.iter() {
        for (cluster, seen) in it.request.clusters.iter().zip(&it.seen) {
            let unseen = u64::from(cluster.current.saturating_sub(seen.running));
            *promised.entry(cluster.name.clone()).or_default() += unseen;
        }
    }

    let mut order: Vec<usize> = (0..contenders.len()).collect();
    order.sort_by(|a, b| {
        let (a, b) = (&contenders[*a], &contenders[*b]);
        (Reverse(a.priority), a.created, &a.uid).cmp(&(Reverse(b.priority), b.created, &b.uid))
    });
    let mut answers: Vec<Option<Result<Answer, Error>>> = vec![None; contenders.len()];
    for index in order {
        answers[index] = Some(plan_next(&mut contenders[index], &mut promised));
    }
    answers.into_iter().flatten().collect()
}

fn plan_next(contender: &mut Contender, promised: &mut HashMap<ClusterName, u64>) -> Result<Answer, Error> {
    for (cluster, seen) in contender.request.clusters.iter_mut().zip(&contender.seen) {
        let own = u64::from(cluster.current.saturating_sub(seen.running));
        let others = promised.get(&cluster.name).map_or(0, |it| it.saturating_sub(own));
        cluster.fit = fit::effective(seen.free, seen.running, others);
    }
    let answer = plan(&contender.request)?;
    for ((cluster, seen), row) in contender.request.clusters.iter().zip(&contender.seen).zip(&answer.rows) {
        let before = u64::from(cluster.current.saturating_sub(seen.running));
        let after = u64::from(row.replicas.saturating_sub(seen.running));
        let total = promised.entry(cluster.name.clone()).or_default();
        *total = total.saturating_sub(before) + after;
    }
    Ok(answer)
}

/// The pods of a namespace would exceed its quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaExceeded {
    /// What the namespace may have.
    pub quota: u64,
    /// What its objects ask for.
    pub wanted: u64,
}

impl fmt::Display for QuotaExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quota, wanted } = self;
        write!(f, "the namespace's objects ask for {wanted} pods and its quota-pods is {quota}")
    }
}

impl error::Error for QuotaExceeded {}

/// Checks the sum of (population, surge) over a namespace's objects against its quota.
pub fn check_quota(quota: u64, objects: impl IntoIterator<Item = (u64, u64)>) -> Result<(), QuotaExceeded> {
    let add =
        |sum: u64, (population, surge): (u64, u64)| sum.saturating_add(population).saturating_add(surge);
    let wanted = objects.into_iter().fold(0, add);
    if wanted > quota { Err(QuotaExceeded { quota, wanted }) } else { Ok(()) }
}
