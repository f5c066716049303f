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
    /// Whether an answer is still to come.
    pub is_pending: bool,
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

/// Routes the entries of `podsToDelete`.
pub fn route(entries: &[String], candidates: &[Candidate<'_>]) -> Routing {
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
                }
            }
            _ if !possible().all(has_answered) => routing.is_pending = true,
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
        let candidates: Vec<_> =
            answers.iter().map(|(cluster, answer)| Candidate { cluster, answer: answer.as_ref() }).collect();
        route(&entries, &candidates)
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
        assert!(routing.named.is_empty() && routing.is_pending);
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
    fn cs_1_a_name_that_nobody_has_is_dropped() {
        let none = [("a", Some(answer(&["x"], &[]))), ("b", Some(answer(&["x"], &[])))];
        assert_eq!(
            routed(&["x"], &none),
            Routing { asked: routed(&["x"], &none).asked, ..Routing::default() }
        );
        assert_eq!(routed(&["elsewhere/x"], &none), Routing::default());
    }
}
