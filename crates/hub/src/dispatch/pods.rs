//! Which cluster has the pods that a user wants deleted? (CS-1)
//!
//! A name may be `pod` or `cluster/pod`. Nobody is told to delete a pod before it is known whose it is: every cluster that
//! may have one of that name is asked first, and a name that several have deletes nothing.

use std::collections::BTreeMap;

use kruise_core::api::fleet::assignment::PodsAnswer;

/// A cluster that holds the object, and what it last answered.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Its name.
    pub cluster: &'a str,
    /// Its last answer.
    pub answer: Option<&'a PodsAnswer>,
    /// Whether it will answer before long, if it has not yet.
    pub is_heard: bool,
}

/// Who deletes what, and what has to be asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Routing {
    /// Pods to delete, by cluster.
    pub named: BTreeMap<String, Vec<String>>,
    /// Names to ask for, by cluster.
    pub asked: BTreeMap<String, Vec<String>>,
    /// Names that pods of several clusters have, as `cluster/pod` each.
    pub ambiguous: Vec<Vec<String>>,
    /// The names themselves, those known before included: they stay ambiguous as long as they are asked for.
    pub undecided: Vec<String>,
    /// Whether an answer is still to come.
    pub is_pending: bool,
    /// Whether it comes before long: a scale-down waits for it, as it has to begin with the named pods (SPLIT-8).
    pub is_awaited: bool,
}

impl Routing {
    /// The pods of one cluster to delete.
    pub fn named(&self, cluster: &str) -> &[String] {
        self.named.get(cluster).map_or(&[], Vec::as_slice)
    }

    /// The names to ask one cluster for.
    pub fn asked(&self, cluster: &str) -> &[String] {
        self.asked.get(cluster).map_or(&[], Vec::as_slice)
    }
}

/// Routes the entries of `podsToDelete`. `undecided` are names that pods of several clusters had before: a pod that goes for
/// another reason does not make the others the ones that were meant.
pub fn route(entries: &[String], candidates: &[Candidate<'_>], undecided: &[String]) -> Routing {
    let mut routing = Routing::default();
    for entry in entries {
        let (cluster, pod) = match entry.split_once('/') {
            Some((cluster, pod)) => (Some(cluster), pod),
            None => (None, entry.as_str()),
        };
        let possible = || candidates.iter().filter(|it| cluster.is_none_or(|wanted| wanted == it.cluster));
        for it in possible() {
            push(&mut routing.asked, it.cluster, pod);
        }
        let has_answered =
            |it: &Candidate<'_>| it.answer.is_some_and(|it| it.asked.iter().any(|asked| asked == pod));
        let has_it =
            |it: &&Candidate<'_>| it.answer.is_some_and(|it| it.found.iter().any(|found| found == pod));
        let owners: Vec<_> = possible().filter(has_it).collect();
        match owners.as_slice() {
            [_, _, ..] => {
                let names = owners.iter().map(|it| format!("{}/{pod}", it.cluster)).collect();
                if !routing.ambiguous.contains(&names) {
                    routing.ambiguous.push(names);
                    routing.undecided.push(pod.to_owned());
                }
            }
            _ if cluster.is_none() && undecided.contains(entry) => {
                if !routing.undecided.contains(entry) {
                    routing.undecided.push(entry.clone());
                }
            }
            _ if !possible().all(has_answered) => {
                routing.is_pending = true;
                routing.is_awaited |= possible().any(|it| it.is_heard && !has_answered(it));
            }
            [owner] => push(&mut routing.named, owner.cluster, pod),
            // Nobody has it: it is gone already, or never was.
            [] => {}
        }
    }
    routing
}

fn push(lists: &mut BTreeMap<String, Vec<String>>, cluster: &str, pod: &str) {
    let list = lists.entry(cluster.to_owned()).or_default();
    if !list.iter().any(|it| it == pod) {
        list.push(pod.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(asked: &[&str], found: &[&str]) -> PodsAnswer {
        let owned = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect();
        PodsAnswer { asked: owned(asked), found: owned(found) }
    }

    fn routed(entries: &[&str], answers: &[(&str, Option<PodsAnswer>)]) -> Routing {
        let entries: Vec<String> = entries.iter().map(|it| (*it).to_owned()).collect();
        // Clusters whose names are in capitals are not heard.
        let is_heard = |it: &str| it.chars().all(char::is_lowercase);
        let candidates: Vec<_> = answers
            .iter()
            .map(|(cluster, answer)| Candidate {
                cluster,
                answer: answer.as_ref(),
                is_heard: is_heard(cluster),
            })
            .collect();
        route(&entries, &candidates, &[])
    }

    #[test]
    fn cs_1_a_bare_name_is_asked_of_all_and_deleted_by_its_only_owner() {
        let routing = routed(&["x"], &[("a", None), ("b", None)]);
        assert!(routing.is_pending && routing.named.is_empty());
        assert_eq!((routing.asked("a"), routing.asked("b")), (&["x".to_owned()][..], &["x".to_owned()][..]));
        let known = [("a", Some(answer(&["x"], &["x"]))), ("b", Some(answer(&["x"], &[])))];
        let routing = routed(&["x"], &known);
        assert_eq!((routing.named("a"), routing.named("b")), (&["x".to_owned()][..], &[][..]));
        assert!(!routing.is_pending);
    }

    #[test]
    fn cs_1_a_name_is_not_acted_on_while_somebody_has_not_answered() {
        let routing = routed(&["x"], &[("a", Some(answer(&["x"], &["x"]))), ("b", None)]);
        assert!(routing.named.is_empty() && routing.is_pending && routing.is_awaited);
        let routing = routed(&["x"], &[("a", Some(answer(&["x"], &[]))), ("B", None)]);
        assert!(routing.is_pending && !routing.is_awaited, "nobody waits for a cluster that is not heard");
    }

    #[test]
    fn cs_1_a_name_that_several_have_deletes_nothing() {
        let both = [("a", Some(answer(&["x"], &["x"]))), ("b", Some(answer(&["x"], &["x"])))];
        let routing = routed(&["x", "x"], &both);
        assert!(routing.named.is_empty());
        assert_eq!(routing.ambiguous, [["a/x".to_owned(), "b/x".to_owned()]]);
        // Said in full it is clear.
        assert_eq!(routed(&["b/x"], &both).named("b"), ["x".to_owned()]);
    }

    #[test]
    fn cs_1_a_name_that_several_had_stays_undecided_when_one_of_them_is_gone() {
        let entries = ["x".to_owned()];
        let (gone, there) = (answer(&["x"], &[]), answer(&["x"], &["x"]));
        let candidates = [
            Candidate { cluster: "a", answer: Some(&gone), is_heard: true },
            Candidate { cluster: "b", answer: Some(&there), is_heard: true },
        ];
        let routing = route(&entries, &candidates, &entries);
        assert!(routing.named.is_empty() && routing.ambiguous.is_empty() && !routing.is_pending);
        assert_eq!(routing.undecided, entries);
        // Said in full it is clear, and the name is forgotten.
        let routing = route(&["b/x".to_owned()], &candidates, &entries);
        assert_eq!((routing.named("b"), routing.undecided.len()), (&entries[..], 0));
    }

    #[test]
    fn cs_1_a_name_that_nobody_has_is_dropped() {
        let none = [("a", Some(answer(&["x"], &[]))), ("b", Some(answer(&["x"], &[])))];
        assert_eq!(
            routed(&["x"], &none),
            Routing { asked: routed(&["x"], &none).asked, ..Routing::default() }
        );
        assert_eq!(routed(&["elsewhere/x"], &none), Routing::default());
    }
}
