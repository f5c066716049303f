//! The pods of a CloneSet and what was read off each of them, kept from one pass to the next: a pass looks only at pods
//! that have new neighbours or are new themselves, however many there are.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use dashmap::DashMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt};

use super::plan::glance::{Glance, Glanced, Words};
use crate::{
    pod::state,
    runtime::cache::{pod::PodLite, rows::Rows},
};

/// What a pod is to its CloneSet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// It counts.
    Active,
    /// It has ended or is on its way out.
    Inactive,
    /// Its labels do not match any more.
    Strayed,
}

/// What was seen of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sight {
    group: Group,
    glance: Glance,
}

/// What was seen of neighbours.
type Seen = Arc<[Sight]>;

/// The pods of one CloneSet and what was seen of each.
#[derive(Debug, Clone, Default)]
pub struct Sights {
    pods: Rows<PodLite>,
    seen: Vec<Seen>,
}

impl Sights {
    /// Every pod with what it is.
    pub fn all(&self) -> impl Iterator<Item = (Group, Glanced<'_>)> {
        let blocks = self.pods.blocks().iter().zip(&self.seen);
        let pairs = blocks.flat_map(|(pods, seen)| pods.iter().zip(seen.iter()));
        pairs.map(|(pod, sight)| (sight.group, Glanced { pod, glance: &sight.glance }))
    }

    /// The pods that count.
    pub fn active(&self) -> impl Iterator<Item = Glanced<'_>> {
        self.all().filter(|it| it.0 == Group::Active).map(|it| it.1)
    }
}

/// What is kept of all CloneSets, by UID.
#[derive(Debug, Default)]
pub struct Kept(DashMap<String, Known>);

/// What is kept of one CloneSet.
#[derive(Debug)]
struct Known {
    /// What pods were compared with.
    selector: LabelSelector,
    /// By the block of pods. It is held weakly: what nobody else has is not to stay in memory because of us.
    blocks: Vec<(Weak<Vec<Arc<PodLite>>>, Seen)>,
    words: Words,
}

impl Kept {
    /// Looks at `pods`, which are those of the CloneSet with UID `owner`. `selector` is its `spec.selector`, and
    /// `matcher` the same in the form that labels are compared with.
    pub fn look(
        &self,
        owner: &str,
        selector: &LabelSelector,
        matcher: &Selector,
        pods: Rows<PodLite>,
    ) -> Sights {
        let known = self.0.remove(owner).map(|it| it.1).filter(|it| it.selector == *selector);
        let (old, mut words) = known.map(|it| (it.blocks, it.words)).unwrap_or_default();
        let old: HashMap<_, _> = old.iter().map(|(block, seen)| (block.as_ptr(), seen)).collect();
        let mut look = |block: &Arc<Vec<Arc<PodLite>>>| match old.get(&Arc::as_ptr(block)) {
            Some(seen) => Seen::clone(seen),
            None => block.iter().map(|it| sight(it, matcher, &mut words)).collect(),
        };
        let seen: Vec<Seen> = pods.blocks().iter().map(&mut look).collect();
        let blocks = pods.blocks().iter().map(Arc::downgrade).zip(seen.iter().cloned()).collect();
        self.0.insert(owner.to_owned(), Known { selector: selector.clone(), blocks, words });
        Sights { pods, seen }
    }

    /// Forgets a CloneSet.
    pub fn forget(&self, owner: &str) {
        self.0.remove(owner);
    }

    /// How many CloneSets are known.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn sight(pod: &PodLite, matcher: &Selector, words: &mut Words) -> Sight {
    let group = match (state::is_active(pod), matcher.matches(pod.labels())) {
        (true, true) => Group::Active,
        (true, false) => Group::Strayed,
        (false, _) => Group::Inactive,
    };
    Sight { group, glance: Glance::of(pod, words) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pod::sample::{noon, pod};

    /// What may become of a pod.
    #[derive(Debug, Clone)]
    struct Look {
        is_there: bool,
        revision: Option<u8>,
        state: &'static str,
        is_ready: bool,
        app: &'static str,
        is_terminating: bool,
        is_marked: bool,
        is_hashed: bool,
    }

    fn look() -> impl Strategy<Value = Look> {
        let state = prop_oneof![
            4 => Just("Normal"), 1 => Just("Updating"), 1 => Just("PreparingDelete"), 1 => Just("nonsense")
        ];
        let app = prop_oneof![8 => Just("web"), 1 => Just("other")];
        let often = || prop::bool::weighted(0.8);
        let seldom = || prop::bool::weighted(0.1);
        (often(), prop::option::of(0..30_u8), state, often(), app, seldom(), seldom(), often()).prop_map(
            |(is_there, revision, state, is_ready, app, is_terminating, is_marked, is_hashed)| Look {
                is_there,
                revision,
                state,
                is_ready,
                app,
                is_terminating,
                is_marked,
                is_hashed,
            },
        )
    }

    fn made(name: u16, look: &Look) -> PodLite {
        let mut it = pod(&format!("web-{name:04}")).with_label("app", look.app);
        it = it.with_label("lifecycle.apps.kruise.io/state", look.state);
        it = it.with_condition("Ready", if look.is_ready { "True" } else { "False" }, Some(noon()));
        if let Some(revision) = look.revision {
            it = it.with_label("controller-revision-hash", &format!("web-{revision}"));
        }
        if look.is_hashed {
            it = it.with_label("pod-template-hash", "1");
        }
        if look.is_marked {
            it = it.with_label("apps.kruise.io/specified-delete", "true");
        }
        if look.is_terminating { it.terminating() } else { it }
    }

    fn selector(app: &str) -> LabelSelector {
        let labels = [("app".to_owned(), app.to_owned())].into();
        LabelSelector { match_labels: Some(labels), match_expressions: None }
    }

    fn seen(kept: &Kept, app: &str, rows: &Rows<PodLite>) -> Vec<(Group, *const PodLite, Glance)> {
        let selector = selector(app);
        let matcher = Selector::try_from(selector.clone()).unwrap();
        let sights = kept.look("u", &selector, &matcher, rows.clone());
        sights.all().map(|(group, it)| (group, Arc::as_ptr(it.pod), it.glance.clone())).collect()
    }

    proptest! {
        #[test]
        fn what_was_kept_is_what_a_look_at_every_pod_gives(
            steps in prop::collection::vec((0..300_u16, look(), prop::bool::weighted(0.1)), 1..600),
        ) {
            let (kept, mut rows) = (Kept::default(), Rows::default());
            for (name, look, is_pass) in steps {
                if look.is_there {
                    rows.put(Arc::new(made(name, &look)));
                } else {
                    rows.remove(&made(name, &look));
                }
                if is_pass {
                    prop_assert_eq!(seen(&kept, "web", &rows), seen(&Kept::default(), "web", &rows));
                }
            }
            prop_assert_eq!(seen(&kept, "web", &rows), seen(&Kept::default(), "web", &rows));
            prop_assert_eq!(seen(&kept, "other", &rows), seen(&Kept::default(), "other", &rows));
        }
    }

    #[test]
    fn only_the_neighbours_of_what_changed_are_looked_at_again() {
        let (kept, mut rows) = (Kept::default(), Rows::default());
        let plain = Look {
            is_there: true,
            revision: Some(1),
            state: "Normal",
            is_ready: true,
            app: "web",
            is_terminating: false,
            is_marked: false,
            is_hashed: true,
        };
        (0..1_000).for_each(|it| rows.put(Arc::new(made(it, &plain))));
        let selector = selector("web");
        let matcher = Selector::try_from(selector.clone()).unwrap();
        let before = kept.look("u", &selector, &matcher, rows.clone());
        rows.put(Arc::new(made(500, &Look { is_ready: false, ..plain })));
        let after = kept.look("u", &selector, &matcher, rows.clone());
        let new = after.seen.iter().filter(|it| !before.seen.iter().any(|old| Arc::ptr_eq(old, it))).count();
        assert_eq!((new, after.active().count()), (1, 1_000));
    }

    #[test]
    fn pods_that_nobody_else_has_any_more_are_not_kept() {
        let (kept, mut rows) = (Kept::default(), Rows::default());
        rows.put(Arc::new(pod("web-1")));
        let weak = rows.iter().map(Arc::downgrade).next().unwrap();
        seen(&kept, "web", &rows);
        rows.put(Arc::new(pod("web-1")));
        assert!(weak.upgrade().is_none());
        kept.forget("u");
        assert!(kept.is_empty());
    }
}
