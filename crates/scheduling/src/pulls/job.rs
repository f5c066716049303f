//! What an ImagePullJob over the fleet comes to, and what of it each member is told (IPJ-2 to IPJ-6).

use std::collections::BTreeSet;

use crate::{names::ClusterName, rank::sha256};

/// Failed nodes that are listed by name; the rest is a count.
pub const LISTED: usize = 50;

/// The longest derived name.
const LONGEST: usize = 63;

/// `completionPolicy` of a job. Its time to live is the hub's: no member is ever told one, or its copy could go before
/// the hub has seen how it ended (IPJ-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// It ends when every node is served, or by its deadline.
    Always {
        /// Seconds from its start over the fleet.
        deadline: Option<u32>,
        /// Seconds for which it stays when it is over; for ever if not said.
        ttl: Option<u32>,
    },
    /// It never ends: nodes and clusters that join later are served too (IPJ-5).
    Never,
}

/// How long a member's copy may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// As long as it takes.
    Unlimited,
    /// So many seconds: what is left of the fleet's deadline (IPJ-3).
    Left(u32),
    /// The deadline has passed: nothing is started there any more.
    Over,
}

impl Completion {
    /// What a cluster reached `running` seconds after the job's start is given (IPJ-3).
    pub fn time_left(&self, running: u32) -> Time {
        match self {
            Self::Always { deadline: Some(deadline), .. } if *deadline <= running => Time::Over,
            Self::Always { deadline: Some(deadline), .. } => Time::Left(deadline - running),
            Self::Always { deadline: None, .. } | Self::Never => Time::Unlimited,
        }
    }

    /// Whether a cluster that joins now is served as well (IPJ-5).
    pub fn takes_newcomers(&self, is_complete: bool) -> bool {
        *self == Self::Never || !is_complete
    }

    /// Whether a job that has been over for so many seconds is to go (IPJ-2).
    pub fn is_outlived(&self, over_for: Option<u32>) -> bool {
        match (self, over_for) {
            (Self::Always { ttl: Some(ttl), .. }, Some(over_for)) => over_for >= *ttl,
            _ => false,
        }
    }
}

/// One member's copy of the job, as the hub has stored it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Copy {
    /// Nodes there are to serve.
    pub desired: u32,
    /// Pulls running.
    pub active: u32,
    /// Nodes served.
    pub succeeded: u32,
    /// Nodes that could not be served.
    pub failed: u32,
    /// Their names, as many as the member gives.
    pub failed_nodes: Vec<String>,
    /// Whether this is its last word.
    pub is_final: bool,
    /// Whether its cluster is lost.
    pub is_lost: bool,
}

/// The job over the fleet (IPJ-4).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Totals {
    /// Nodes there are to serve.
    pub desired: u64,
    /// Pulls running.
    pub active: u64,
    /// Nodes served.
    pub succeeded: u64,
    /// Nodes that could not be served.
    pub failed: u64,
    /// Failed nodes as `cluster/node`, at most [`LISTED`].
    pub failed_nodes: Vec<String>,
    /// Failed nodes that are not listed.
    pub unlisted: u64,
    /// Whether every cluster that is not lost has said its last word.
    pub is_complete: bool,
}

/// Adds up all clusters. Their order does not matter.
pub fn total(completion: &Completion, copies: &[(ClusterName, Copy)]) -> Totals {
    let mut totals = Totals::default();
    let mut nodes: BTreeSet<String> = BTreeSet::new();
    for (cluster, copy) in copies {
        totals.desired += u64::from(copy.desired);
        totals.active += u64::from(copy.active);
        totals.succeeded += u64::from(copy.succeeded);
        totals.failed += u64::from(copy.failed);
        // No more names than failures: those of one cluster must not push aside, uncounted, those of another.
        let names: BTreeSet<&String> = copy.failed_nodes.iter().collect();
        nodes.extend(names.into_iter().take(copy.failed as usize).map(|it| format!("{cluster}/{it}")));
    }
    totals.failed_nodes = nodes.into_iter().take(LISTED).collect();
    totals.unlisted = totals.failed - totals.failed_nodes.len() as u64;
    let all_ended = copies.iter().all(|(_, it)| it.is_final || it.is_lost);
    totals.is_complete = *completion != Completion::Never && all_ended;
    totals
}

/// Places of the copies that may be removed: the job has outlived its time, and how the copy ended is stored (IPJ-2). A
/// lost cluster's copy waits for its return.
pub fn removable(
    completion: &Completion,
    over_for: Option<u32>,
    copies: &[(ClusterName, Copy)],
) -> Vec<usize> {
    if !completion.is_outlived(over_for) {
        return Vec::new();
    }
    (0..copies.len()).filter(|it| copies[*it].1.is_final && !copies[*it].1.is_lost).collect()
}

/// The node names of a job that concern one cluster (IPJ-6): `cluster/node` is that cluster's, a bare name everyone's.
/// A node named both ways is one node. None at all means that the job has nothing to do there, not that it is for every
/// node.
pub fn nodes_of<'a>(cluster: &str, names: &'a [String]) -> Vec<&'a str> {
    let own = |name: &'a String| match name.split_once('/') {
        Some((owner, node)) => (owner == cluster).then_some(node),
        None => Some(name.as_str()),
    };
    let mut seen = BTreeSet::new();
    names.iter().filter_map(own).filter(|it| seen.insert(*it)).collect()
}

/// The name under which a pull secret travels with a job (IPJ-6): the same in every member, different for every job, and
/// never longer than a label may be.
pub fn secret_name(job_uid: &str, secret: &str) -> String {
    let digest = sha256(format!("{job_uid}\0{secret}").as_bytes());
    let hash: String = digest[..8].iter().map(|it| format!("{it:02x}")).collect();
    // What is no name of the API's is left to the hash: the derived one has to be a name whatever the user wrote.
    let stem = if is_name(secret) { secret } else { "" };
    let stem = &stem[..stem.len().min(LONGEST - hash.len() - 1)];
    match stem.trim_end_matches(|it: char| !it.is_ascii_alphanumeric()) {
        "" => format!("pull-{hash}"),
        stem => format!("{stem}-{hash}"),
    }
}

/// Whether a Secret can have this name: labels of small letters, digits and inner dashes, with dots between them.
fn is_name(name: &str) -> bool {
    let is_plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
    name.split('.').all(|label| {
        let bytes = label.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.iter().all(|it| it.is_some_and(|it| is_plain(*it)))
            && bytes.iter().all(|it| is_plain(*it) || *it == b'-')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDS: Completion = Completion::Always { deadline: Some(600), ttl: Some(60) };

    fn copy(succeeded: u32, failed: u32, is_final: bool) -> Copy {
        let failed_nodes = (0..failed).map(|it| format!("n{it:02}")).collect();
        Copy { desired: succeeded + failed, succeeded, failed, failed_nodes, is_final, ..Copy::default() }
    }

    fn named(copies: Vec<Copy>) -> Vec<(ClusterName, Copy)> {
        copies.into_iter().enumerate().map(|(at, it)| (ClusterName::from(format!("c{at}")), it)).collect()
    }

    #[test]
    fn ipj_2_copies_go_by_the_hubs_time_and_only_when_their_end_is_stored() {
        let lost = Copy { is_lost: true, ..copy(1, 0, true) };
        let copies = named(vec![copy(3, 0, true), copy(2, 0, false), lost]);
        assert_eq!(removable(&ENDS, Some(59), &copies), []);
        assert_eq!(removable(&ENDS, None, &copies), []);
        assert_eq!(removable(&ENDS, Some(60), &copies), [0]);
        assert_eq!(removable(&Completion::Never, Some(1_000), &copies), []);
        assert_eq!(removable(&Completion::Always { deadline: None, ttl: None }, Some(1_000), &copies), []);
    }

    #[test]
    fn ipj_3_a_cluster_reached_late_gets_the_seconds_that_are_left() {
        assert_eq!(ENDS.time_left(0), Time::Left(600));
        assert_eq!(ENDS.time_left(599), Time::Left(1));
        assert_eq!(ENDS.time_left(600), Time::Over);
        assert_eq!(ENDS.time_left(u32::MAX), Time::Over);
        assert_eq!(Completion::Always { deadline: None, ttl: None }.time_left(9), Time::Unlimited);
    }

    #[test]
    fn ipj_4_the_status_is_the_sum_with_fifty_failed_nodes_by_name() {
        let mut copies = named(vec![copy(3, 30, true), copy(2, 40, true), copy(5, 0, false)]);
        let totals = total(&ENDS, &copies);
        assert_eq!((totals.desired, totals.succeeded, totals.failed), (80, 10, 70));
        assert_eq!((totals.failed_nodes.len(), totals.unlisted), (50, 20));
        assert_eq!((totals.failed_nodes[0].as_str(), totals.failed_nodes[30].as_str()), ("c0/n00", "c1/n00"));
        assert!(!totals.is_complete);
        copies.reverse();
        assert_eq!(total(&ENDS, &copies), totals);
        // A lost cluster keeps nobody waiting.
        copies[0].1.is_lost = true;
        assert!(total(&ENDS, &copies).is_complete);
    }

    #[test]
    fn ipj_4_a_cluster_that_names_more_nodes_than_fail_hides_no_failure_of_another() {
        let mut copies = named(vec![copy(3, 60, true), copy(2, 5, true)]);
        copies[0].1.failed = 1;
        let totals = total(&ENDS, &copies);
        assert_eq!((totals.failed, totals.failed_nodes.len(), totals.unlisted), (6, 6, 0));
        assert_eq!(totals.failed_nodes[..2], ["c0/n00", "c1/n00"]);
        // Neither does one that names the same node over and over.
        copies[0].1.failed = 2;
        copies[0].1.failed_nodes = vec!["n".to_owned(); 60];
        let totals = total(&ENDS, &copies);
        assert_eq!((totals.failed, totals.failed_nodes.len(), totals.unlisted), (7, 6, 1));
    }

    #[test]
    fn ipj_5_a_job_that_never_ends_serves_those_that_join() {
        let copies = named(vec![copy(3, 0, true)]);
        assert!(!total(&Completion::Never, &copies).is_complete);
        assert!(Completion::Never.takes_newcomers(true));
        assert!(ENDS.takes_newcomers(false) && !ENDS.takes_newcomers(true));
        assert_eq!(Completion::Never.time_left(u32::MAX), Time::Unlimited);
    }

    #[test]
    fn ipj_6_a_qualified_node_is_one_clusters_and_a_bare_one_everyones() {
        let names = ["east/n1", "n2", "west/n3"].map(str::to_owned);
        assert_eq!(nodes_of("east", &names), ["n1", "n2"]);
        assert_eq!(nodes_of("west", &names), ["n2", "n3"]);
        assert_eq!(nodes_of("north", &names), ["n2"]);
        // Named both ways it is still one node.
        let twice = ["n1", "east/n1", "n1"].map(str::to_owned);
        assert_eq!(nodes_of("east", &twice), ["n1"]);
        assert!(nodes_of("east", &["west/n1".to_owned()]).is_empty());
    }

    #[test]
    fn ipj_6_secrets_travel_under_a_name_of_the_jobs_own() {
        let name = secret_name("uid-1", "registry");
        assert!(name.starts_with("registry-") && name.len() == "registry-".len() + 16);
        assert_ne!(name, secret_name("uid-2", "registry"));
        assert_ne!(secret_name("uid-1", "registry.a"), secret_name("uid-1", "registry.b"));
        let long = secret_name("uid-1", &"a.".repeat(120));
        assert!(long.len() <= LONGEST && !long.contains(".-"));
        assert!(secret_name("uid-1", "").starts_with("pull-"));
        for odd in ["-a", ".a", "Registry", "a..b", "a.-b", "a_b", "\u{e9}", "a/b"] {
            assert!(secret_name("uid-1", odd).starts_with("pull-"), "{odd}");
        }
        assert_ne!(secret_name("uid-1", "-a"), secret_name("uid-1", "-b"));
    }
}
