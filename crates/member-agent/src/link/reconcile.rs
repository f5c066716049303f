//! One Assignment: observe, decide, carry out, tell the hub.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kruise_core::{
    api::fleet::{
        assignment::{Assignment, AssignmentSpec, AssignmentStatus, Intent, RevisionRef, ShareState},
        keys::reasons,
    },
    runtime::{
        cache::Feed,
        client::Error,
        controller::{Next, Reconcile, ReconcileError},
        key::{Key, uid},
    },
};
use serde_json::Value;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    Link,
    carry::Outcome,
    judge::{
        self,
        drift::{self, Untold},
        leave::{self, Given},
    },
    marks::{Marks, Pair},
    member::Member,
    report::{
        self, Facts, Sender, Verdict,
        coalesce::{Due, Sent, due},
    },
    store::Record,
};

/// How long to wait for what only the hub can bring: a body, or a newer plan.
const HUB_AGAIN: Duration = Duration::from_secs(10);
/// How soon what has failed is tried again if the hub came back meanwhile.
const RETURNED: Duration = Duration::from_secs(1);
/// How soon a plan is looked at again that a hub which refuses us has left.
const REFUSED: Duration = Duration::from_secs(30);

/// How many bytes of a failure the hub is told.
const MOST_WORDS: usize = 256;

/// What is kept about one Assignment between passes.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// The last report, when it was sent, and about which Assignment: another one of the same name knows nothing yet.
    pub(super) sent: Option<(AssignmentStatus, Instant, String)>,
    /// Since when there is a plan about which nothing was sent.
    pub(super) begun: Option<Instant>,
    pub(super) drift: drift::History,
    /// The plan and the job for which Secrets were last seen to, and when.
    pub(super) secrets: Option<(Pair, String, Instant)>,
    /// How many passes in a row have failed in this cluster.
    troubles: u32,
    /// The newest report that the hub has shown, and of which Assignment.
    shown: Option<(String, (u64, u64))>,
}

impl Memory {
    /// Whether the hub shows an older report of ours than it has shown before: it was restored from an older copy, and has to
    /// be told again (HA-5).
    fn has_forgotten(&mut self, assignment: &str, shown: (u64, u64)) -> bool {
        let before = self.shown.replace((assignment.to_owned(), shown));
        before.is_some_and(|(of, before)| of == assignment && shown < before)
    }
}

/// Why a pass has failed.
#[derive(Debug, thiserror::Error)]
#[error("a plan is not carried out yet")]
pub struct Failure {
    source: Error,
    /// Whether the hub has come back since the pass began: what has failed may have been on its way before.
    is_outdated: bool,
    /// Whether it was this cluster's API server that has failed, and not the hub's.
    is_here: bool,
}

impl Failure {
    fn here(source: Error) -> Self {
        Self { source, is_outdated: false, is_here: true }
    }
}

impl From<Error> for Failure {
    fn from(source: Error) -> Self {
        Self { source, is_outdated: false, is_here: false }
    }
}

impl ReconcileError for Failure {
    fn label(&self) -> &'static str {
        self.source.label()
    }

    fn at_latest(&self) -> Option<Duration> {
        self.is_outdated.then_some(RETURNED)
    }
}

impl Reconcile for Link {
    type Error = Failure;

    async fn reconcile(&self, key: Key) -> Result<Next, Failure> {
        let returns = self.hub.returns();
        // On the heap, and so is the longest part of it: with all that it may wait for, a pass is too much for a thread's stack.
        let passed = Box::pin(self.pass(key)).await;
        passed.map_err(|it| Failure { is_outdated: returns.has_changed().unwrap_or_default(), ..it })
    }

    fn exists(&self, key: &Key) -> bool {
        self.hub.assignments.get(key).is_some() || self.store.get(&key.name).is_some()
    }
}

impl Link {
    /// One pass over an Assignment: what to do about it, and what to tell the hub.
    async fn pass(&self, key: Key) -> Result<Next, Failure> {
        // JOIN-5: nothing is applied or deleted. When that ends, everything is looked at again; should the end come between
        // two looks, this does it.
        if !self.hub.standings.get().lets_act() {
            return Ok(Next::After(REFUSED));
        }
        let name = &*key.name;
        let stored = self.hub.assignments.get(&key);
        let offered = stored.as_ref().and_then(|it| match &it.0 {
            Ok(it) => Some(it),
            Err(fault) => {
                warn!(assignment = name, fault = fault.error, "an Assignment cannot be read");
                None
            }
        });
        self.room.follow(&key, offered.and_then(|it| it.spec.capacity_question.as_ref()));
        let mut kept = self.store.get(name);
        // A question is no plan: there is none, and whatever is kept goes on.
        let is_question = offered.is_some_and(|it| it.spec.intent == Intent::Ask);
        // Only a hub that we see can be one that has forgotten.
        let is_unclaimed = (stored.is_none() || is_question) && self.hub.assignments.is_synced();
        if is_unclaimed && self.forget_done(name).await? {
            kept = None;
        }
        let epoch = self.epoch(offered);
        let plan = offered.map(|it| &it.spec).filter(|_| !is_question);
        let chosen = judge::choose(plan, kept.as_ref().map(|it| &it.plan), epoch);
        if let Some(refusal) = &chosen.refusal {
            info!(assignment = name, %refusal, "a plan is not acted on");
        }
        let outcome = match chosen.plan {
            Some(plan) if plan.epoch >= epoch => {
                let acted = self.act(name, plan, kept.as_deref()).await;
                if let Some(outcome) = self.trouble(name, &acted) {
                    // The queue tries again in any case; a hub that cannot hear it now hears it then.
                    if let Err(failure) = self.tell(name, offered, epoch, outcome).await {
                        info!(
                            assignment = name,
                            error = &failure as &dyn std::error::Error,
                            "a failure is not told"
                        );
                    }
                }
                let outcome = acted?;
                // Nobody is left to hear that it is done, and nothing else would wake us.
                if is_unclaimed && self.forget_done(name).await? {
                    return Ok(Next::Change);
                }
                outcome
            }
            Some(_) => Outcome::waiting("OlderEpoch", "the cluster waits for a plan of its newest epoch"),
            None => match chosen.refusal {
                Some(refusal) => Outcome::waiting("Refused", &refusal.to_string()),
                None if is_question => Outcome::waiting("Asked", "there is no share for this cluster"),
                None => return Ok(Next::Change),
            },
        };
        let look_again = [outcome.look_again, self.tell(name, offered, epoch, outcome).await?];
        Ok(look_again.into_iter().flatten().min().map_or(Next::Change, Next::After))
    }

    /// Forgets an object whose deletion, or letting go, was carried out. Says whether it was.
    async fn forget_done(&self, name: &str) -> Result<bool, Error> {
        if !self.store.get(name).is_some_and(|it| it.is_done) {
            return Ok(false);
        }
        self.store.forget(name).await?;
        self.memory().remove(name);
        Ok(true)
    }

    /// What the hub is told of a pass that has failed in this cluster; nothing of one that has not, or may only have been
    /// unlucky.
    fn trouble(&self, name: &str, acted: &Result<Outcome, Failure>) -> Option<Outcome> {
        let mut memory = self.memory();
        let troubles = &mut memory.entry(name.to_owned()).or_default().troubles;
        match acted {
            Err(failure) if failure.is_here => {
                *troubles = troubles.saturating_add(1);
                trouble(*troubles, &failure.source)
            }
            _ => {
                *troubles = 0;
                None
            }
        }
    }

    /// Takes the plan on, and carries it out.
    async fn act(
        &self,
        name: &str,
        plan: &AssignmentSpec,
        kept: Option<&Record>,
    ) -> Result<Outcome, Failure> {
        let record = match self.take_on(name, plan, kept).await? {
            Ok(record) => record,
            Err(missing) => {
                let message = format!("the body {missing} is not to be had");
                return Ok(Outcome {
                    look_again: Some(HUB_AGAIN),
                    ..Outcome::waiting(reasons::BODY_MISSING, &message)
                });
            }
        };
        Box::pin(self.carry_out(name, &record)).await.map_err(Failure::here)
    }

    /// Keeps the plan with its bodies in this cluster before anything is done about it (PROTO-6); or names the body that is
    /// missing, without which a plan is neither applied nor acknowledged (REV-7).
    async fn take_on(
        &self,
        name: &str,
        plan: &AssignmentSpec,
        kept: Option<&Record>,
    ) -> Result<Result<Arc<Record>, String>, Failure> {
        let mut bodies = BTreeMap::new();
        let named = if plan.intent == Intent::Apply { [&plan.target, &plan.stable] } else { [&None, &None] };
        for revision in named.into_iter().flatten() {
            match self.body(revision, kept).await? {
                Some(body) => drop(bodies.insert(revision.name.clone(), body)),
                None => return Ok(Err(revision.name.clone())),
            }
        }
        let is_same = |it: &&Record| it.plan.object.uid == plan.object.uid;
        let same = kept.filter(is_same);
        let (member_uid, adopted) =
            (same.and_then(|it| it.member_uid.clone()), same.and_then(|it| it.adopted));
        let is_done = kept.is_some_and(|it| it.is_done && judge::pair(&it.plan) == judge::pair(plan));
        let before = self.before(plan, same).await.map_err(Failure::here)?;
        let record = Record { plan: plan.clone(), member_uid, adopted, is_done, before, bodies };
        Ok(Ok(self.store.put(name, record).await.map_err(Failure::here)?))
    }

    /// What the member object was made from so far, where `plan` leaves something to others (DR-1). The object says by which plan:
    /// one that was only taken on has made nothing of it.
    async fn before(&self, plan: &AssignmentSpec, kept: Option<&Record>) -> Result<Option<Given>, Error> {
        let is_asked =
            plan.intent == Intent::Apply && leave::is_any_left(&plan.drift) && Member::knows(&plan.object);
        let Some(kept) = kept.filter(|_| is_asked) else { return Ok(None) };
        if judge::pair(&kept.plan) == judge::pair(plan) {
            return Ok(kept.before.clone());
        }
        let member = self.member.find(&plan.object).await?;
        let marks = member.as_ref().and_then(Marks::of);
        Ok(marks.and_then(|it| Given::by(it.plan, kept)))
    }

    async fn body(&self, revision: &RevisionRef, kept: Option<&Record>) -> Result<Option<Value>, Error> {
        match kept.and_then(|it| it.body(revision)) {
            Some(body) => Ok(Some(body.clone())),
            None => self.hub.body(revision).await,
        }
    }

    /// Tells the hub, if it is there to listen and there is something to say; and says when to come back for that.
    async fn tell(
        &self,
        name: &str,
        offered: Option<&Assignment>,
        epoch: u64,
        outcome: Outcome,
    ) -> Result<Option<Duration>, Failure> {
        let Some(assignment) = offered else { return Ok(None) };
        let now = self.clock.instant();
        let leading_for = now.saturating_duration_since(self.since);
        if !judge::may_acknowledge(leading_for, self.settings.lease, self.settings.longest_write) {
            let patience = self.settings.lease + self.settings.longest_write;
            return Ok(Some(patience - leading_for));
        }
        let Outcome { verdict, applied, mut facts, .. } = outcome;
        let shown = assignment.status.as_ref().map_or((0, 0), |it| (it.incarnation, it.report));
        let sent = {
            let mut memory = self.memory();
            let of = memory.entry(name.to_owned()).or_default();
            if of.has_forgotten(uid(assignment), shown) {
                of.sent = None;
            }
            of.sent.clone()
        };
        let sent = sent.filter(|it| it.2 == uid(assignment)).map(|it| (it.0, it.1));
        // What another agent said before us is what the hub knows.
        let sent = sent.or_else(|| Some((assignment.status.clone()?, self.since)));
        let before = sent.as_ref().map(|it| &it.0);
        let question = assignment.spec.capacity_question.as_ref();
        let told = before.and_then(|it| it.capacity.as_ref());
        let corrections = self.memory().get(name).map_or(Untold::Nothing, |it| it.drift.untold(now));
        let later = match corrections {
            Untold::Later(wait) => Some(wait),
            Untold::Now(corrected) => {
                facts.corrected = Some(corrected);
                None
            }
            Untold::Nothing => None,
        };
        let tells_corrections = facts.corrected.is_some();
        facts.capacity = question.and_then(|it| self.room.answer(it, told, facts.vacated));
        let sender = Sender { known_epoch: epoch, ..Sender::default() };
        let mut status = report::report(sender, applied.as_ref(), facts, verdict, before, self.clock.now());
        let last = sent.as_ref().map(|it| Sent { status: &it.0, at: it.1 });
        let begun = *self.memory().entry(name.to_owned()).or_default().begun.get_or_insert(now);
        match due(last, begun, &status, now) {
            Due::Never => {
                self.hub.has_told(assignment, &status);
                Ok(later)
            }
            Due::After(wait) => Ok(Some(later.map_or(wait, |it| it.min(wait)))),
            Due::Now => {
                (status.incarnation, status.report) = self.next_report().await?;
                self.hub.tell(assignment, &status).await?;
                self.hub.has_told(assignment, &status);
                let mut memory = self.memory();
                let of = memory.entry(name.to_owned()).or_default();
                of.sent = Some((status, now, uid(assignment).to_owned()));
                if tells_corrections {
                    of.drift.hub_was_told(now);
                }
                Ok(later)
            }
        }
    }

    /// The mark of the next report (PROTO-10). The start of this agent is counted with the first one, so that an agent which
    /// has nothing to say writes nothing.
    async fn next_report(&self) -> Result<(u64, u64), Error> {
        let count = async || {
            let known = self.hub.assignments.all();
            let known = known.iter().filter_map(|it| Some(it.0.as_ref().ok()?.status.as_ref()?.incarnation));
            self.store.next_incarnation(known.max().unwrap_or_default()).await
        };
        let incarnation = self.incarnation.get_or_try_init(count).await?;
        let number = self.reports.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        Ok((*incarnation, number))
    }
}

/// What the hub is told of the `troubles`th failure in a row. Of two writers at once one always loses and tries again, so the first
/// is no news.
fn trouble(troubles: u32, error: &Error) -> Option<Outcome> {
    // What the API server says, but nothing about the way to it.
    let mut message = if error.code().is_some() { error.told() } else { error.to_string() };
    message.truncate(message.floor_char_boundary(MOST_WORDS));
    (troubles > 1).then(|| Outcome::waiting("Trouble", &message))
}

impl Outcome {
    /// Nothing is applied, for a reason that may pass.
    pub(super) fn waiting(reason: &'static str, message: &str) -> Self {
        Self::stuck(ShareState::Pending, reason, message.to_owned())
    }

    /// Nothing is applied.
    pub(super) fn stuck(state: ShareState, reason: &'static str, message: String) -> Self {
        let verdict = Verdict { state, reason, message };
        Self { verdict, applied: None, facts: Facts::default(), look_again: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proto_5_what_keeps_failing_in_the_member_is_told_with_its_reason() {
        let failed = |code, message: &str| {
            let status = kube::core::Status::failure(message, "").with_code(code);
            Error::Api { call: "apply a plan", source: kube::Error::Api(status.boxed()) }
        };
        assert!(trouble(1, &failed(409, "the object has been modified")).is_none(), "somebody was faster");
        let told = trouble(2, &failed(503, "etcd is away")).unwrap();
        assert_eq!((told.verdict.state, told.verdict.reason), (ShareState::Pending, "Trouble"));
        assert_eq!(told.verdict.message, "apply a plan failed: etcd is away");
        assert!(told.applied.is_none(), "what was said of the plan before still holds");
        let long = trouble(9, &failed(500, &"ü".repeat(500))).unwrap();
        assert!(long.verdict.message.len() <= MOST_WORDS);
    }

    #[test]
    fn ha_5_a_hub_that_shows_an_older_report_than_before_is_told_again() {
        let mut memory = Memory::default();
        assert!(!memory.has_forgotten("u", (1, 4)));
        assert!(!memory.has_forgotten("u", (1, 9)) && !memory.has_forgotten("u", (2, 1)));
        assert!(memory.has_forgotten("u", (1, 4)), "an older copy");
        assert!(!memory.has_forgotten("u", (1, 4)), "once");
        assert!(!memory.has_forgotten("another", (0, 0)), "a new one knows nothing yet");
    }
}
