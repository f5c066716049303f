//! What a plan reads off every pod in every pass: a few words, so that most passes touch no pod at all. A glance depends
//! on the pod alone, so it may be kept for as long as the pod is the same.

use std::sync::Arc;

use super::refresh;
use crate::{
    api::common::keys::CONTROLLER_REVISION_HASH,
    pod::{
        lifecycle::State,
        state::{self, Standing},
    },
    revision::hash,
    runtime::cache::pod::PodLite,
};

/// What is read off a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glance {
    pub(super) state: Option<State>,
    pub(super) standing: Standing,
    pub(super) is_marked: bool,
    pub(super) is_at_rest: bool,
    pub(super) revision: Arc<str>,
}

impl Glance {
    /// Looks at `pod`.
    pub fn of(pod: &PodLite, words: &mut Words) -> Self {
        let state = State::of(pod);
        Self {
            state,
            standing: Standing::of(pod),
            is_marked: state::is_marked_for_deletion(pod),
            is_at_rest: refresh::is_at_rest(pod, state),
            revision: words.get(pod.labels().get(CONTROLLER_REVISION_HASH).map_or("", String::as_str)),
        }
    }
}

/// A pod and what was read off it.
#[derive(Debug, Clone, Copy)]
pub struct Glanced<'a> {
    /// The pod.
    pub pod: &'a Arc<PodLite>,
    /// What was read off it.
    pub glance: &'a Glance,
}

/// Words that many pods say, each kept once.
#[derive(Debug, Clone, Default)]
pub struct Words(Vec<Arc<str>>);

/// A CloneSet has few revisions at a time. With more than this, words are kept more than once.
const WORDS: usize = 16;

impl Words {
    fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.0.iter().find(|it| ***it == *text) {
            return known.clone();
        }
        let word: Arc<str> = text.into();
        if self.0.len() == WORDS {
            self.0.remove(0);
        }
        self.0.push(word.clone());
        word
    }
}

/// Which words mean one revision; each is compared once.
#[derive(Debug)]
pub(super) struct AtRevision<'a> {
    name: &'a str,
    known: Vec<(&'a Arc<str>, bool)>,
}

impl<'a> AtRevision<'a> {
    pub(super) fn new(name: &'a str) -> Self {
        Self { name, known: Vec::new() }
    }

    /// Whether `word` means the revision.
    pub(super) fn has(&mut self, word: &'a Arc<str>) -> bool {
        if let Some((_, answer)) = self.known.iter().find(|it| Arc::ptr_eq(it.0, word)) {
            return *answer;
        }
        let answer = hash::is_at_revision(word, self.name);
        if self.known.len() < WORDS {
            self.known.push((word, answer));
        }
        answer
    }
}
