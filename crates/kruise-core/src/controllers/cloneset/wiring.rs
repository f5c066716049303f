//! What wakes the controller up.

use std::{num::NonZeroUsize, sync::Arc};

use super::{
    Caches, CloneSets, Context, Stored,
    wake::{self, Resizing},
};
use crate::{
    pod::inplace::{self, UpdateState},
    runtime::{
        cache::{Cache, Feed, pod::PodLite},
        controller::{Controller, Settings, Triggers},
        key::{Key, uid},
    },
};

/// The controller's name in logs, metrics and events.
pub const NAME: &str = "cloneset-controller";

/// How many CloneSets are seen to at once, unless the user says otherwise.
pub const WORKERS: NonZeroUsize = NonZeroUsize::new(3).expect("three is not zero");

/// The controller, which hears of changes from now on.
pub fn controller(context: Context, settings: Settings) -> Controller<CloneSets> {
    let triggers = Triggers::new(settings.clock.clone());
    let Caches { clonesets, pods, claims, revisions, nodes, jobs } = context.caches.clone();
    follow_clonesets(&triggers, &clonesets, &context);
    follow_pods(&triggers, &pods, &context);
    let wake = triggers.clone();
    claims.on_change(move |change| wake::claim_wakes(change).into_iter().for_each(|it| wake.now(it)));
    let opened = context.opened.clone();
    revisions.on_change(move |change| {
        if let (Some(before), None) = (&change.before, &change.after) {
            opened.forget_revision(uid(&**before));
        }
    });
    let feeds: Vec<Arc<dyn Feed>> = vec![
        Arc::new(clonesets),
        Arc::new(pods),
        Arc::new(claims),
        Arc::new(revisions),
        Arc::new(nodes),
        Arc::new(jobs),
    ];
    Controller::new(settings, triggers, feeds, CloneSets::new(context))
}

fn follow_clonesets(triggers: &Triggers, clonesets: &Cache<Stored>, context: &Context) {
    let (wake, opened) = (triggers.clone(), context.opened.clone());
    clonesets.on_change(move |change| {
        if let (Some(before), None) = (&change.before, &change.after) {
            opened.forget_cloneset(uid(&**before));
        }
        wake.now(change.key());
    });
    for cloneset in clonesets.all() {
        triggers.now(Key::of(&*cloneset));
    }
}

fn follow_pods(triggers: &Triggers, pods: &Cache<PodLite>, context: &Context) {
    let wake = triggers.clone();
    let (clonesets, clock, options) =
        (context.caches.clonesets.clone(), context.clock.clone(), context.options);
    pods.on_change(move |change| {
        let may_ignore = |key: &Key, before: &PodLite, after: &PodLite| {
            let Some(stored) = clonesets.get(key).filter(|_| options.ignore_irrelevant) else { return false };
            let lifecycle = stored.0.as_ref().ok().and_then(|it| it.spec.lifecycle.as_ref());
            let resizing = if options.vertical_scaling { Resizing::On } else { Resizing::Off };
            let ctx = options.inplace(clock.now());
            let is_consistent = |it: &PodLite| {
                matches!(UpdateState::of(it), Some(Ok(state)) if inplace::is_consistent(it, &state, &ctx))
            };
            wake::is_irrelevant(lifecycle, before, after, resizing, is_consistent)
        };
        // Pods that nobody owns are never adopted, so they are no reason to wake anybody.
        for key in wake::wakes(change, |_| Vec::new(), may_ignore) {
            wake.now(key);
        }
    });
}
