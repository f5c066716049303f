//! Carrying a plan out in the member: what `judge` says, step by step.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ObjectReference;
use kruise_core::{
    api::{
        cloneset::v1beta1::CloneSet,
        fleet::{
            Slice,
            assignment::{AssignmentSpec, Intent, ShareState},
            keys::{self, events, reasons},
            policy::{DeletionPolicy, DriftMode},
        },
        image_pull_job::ImagePullJobStatus,
    },
    revision::data::RevisionData,
    runtime::{client::Error, events::Severity, key::uid},
};
use serde_json::Value;
use tracing::info;

use super::{
    Link,
    bring::Brought,
    judge::{
        self, Known, Step, adopt, drift,
        leave::{self, Writing},
    },
    marks::{Marks, Pair},
    member::Member,
    render::{self, Share},
    report::{self, Applied, Facts, Verdict, cloneset},
    room::Turnover,
    seed::{self, Seed},
    store::Record,
};

/// How long until a refused object is tried again.
pub(super) const AGAIN: Duration = Duration::from_secs(30);

/// What a pass came to.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    /// The plan that the member object has; nothing as long as it is not this one.
    pub(super) applied: Option<Applied>,
    pub(super) facts: Facts,
    pub(super) look_again: Option<Duration>,
}

/// What is done about changes by others, and what is to be said of them.
#[derive(Debug, Default)]
struct Drift {
    /// Whether to apply again.
    is_due: bool,
    look_again: Option<Duration>,
    /// Paths that the hub is told of: those that are left, and those that somebody fights for.
    paths: Vec<String>,
    /// Who has claimed them.
    by: Vec<String>,
}

/// The bodies of a plan with overrides, and what the member records for them.
struct Bases {
    target: Value,
    stable: Option<Value>,
    target_data: Option<RevisionData>,
    stable_data: Option<RevisionData>,
}

/// A member object to be.
struct Draft {
    bases: Bases,
    marks: Marks,
    body: Value,
}

impl Link {
    pub(super) async fn carry_out(&self, name: &str, record: &Record) -> Result<Outcome, Error> {
        let (plan, object) = (&record.plan, &record.plan.object);
        if !Member::knows(object) {
            let message = format!("{} of {} cannot be held here", object.kind, object.api_version);
            return Ok(Outcome::stuck(ShareState::Failed, reasons::API_NOT_SUPPORTED, message));
        }
        self.index(name, object);
        let member = self.member.find(object).await?;
        let known = Known {
            hub_uid: &self.settings.hub_uid,
            member_uid: record.member_uid.as_deref(),
            adopted: record.adopted,
        };
        // What was deleted or let go of on purpose stays so, whatever has taken its name since.
        let step = if record.is_done { Step::Done } else { judge::judge(plan, member.as_ref(), known) };
        match step {
            Step::Done => self.finish(name, record).await,
            Step::WaitForEnd => Ok(Outcome::stuck(
                if plan.intent == Intent::Delete { ShareState::Deleted } else { ShareState::Pending },
                "Ending",
                "the object is being deleted".to_owned(),
            )),
            Step::Refuse(refusal) => Ok(Outcome::waiting("Refused", &refusal.to_string())),
            Step::Conflict(conflict) => Ok(self.conflict(record, &conflict)),
            Step::Delete => {
                let Some(member) = &member else { return self.finish(name, record).await };
                match self.member.delete(object, member).await {
                    Err(error) if is_refusal(&error) => Ok(refused(&error)),
                    other => other.map(|()| {
                        let message = "deletion was asked for".to_owned();
                        let outcome = Outcome::stuck(ShareState::Deleted, "Ending", message);
                        Outcome { look_again: Some(Duration::from_secs(1)), ..outcome }
                    }),
                }
            }
            Step::Release => {
                self.release_secrets(object).await?;
                self.member.release(object).await?;
                self.finish(name, record).await
            }
            Step::Create => self.bring(name, record, None, None).await,
            Step::TryToAdopt => self.bring(name, record, member.as_ref(), None).await,
            Step::Keep(marks) => {
                let mut marks = marks.unwrap_or_else(|| Marks {
                    hub_uid: self.settings.hub_uid.clone(),
                    object_uid: object.uid.clone(),
                    ..Marks::default()
                });
                marks.adopted = member.as_ref().and_then(|it| known.adoption(it));
                let found = member.as_ref().unwrap_or(&Value::Null);
                let noted = self.remember(name, record, found, marks.adopted).await?;
                self.bring(name, noted.as_deref().unwrap_or(record), member.as_ref(), Some(marks)).await
            }
        }
    }

    /// The intent to delete or to let go is carried out: that is acknowledged, and nothing is left but the plan's number.
    async fn finish(&self, name: &str, record: &Record) -> Result<Outcome, Error> {
        if !record.is_done {
            let done = Record { is_done: true, plan: record.plan.clone(), ..Record::default() };
            self.store.put(name, done).await?;
        }
        let state =
            if record.plan.intent == Intent::Delete { ShareState::Deleted } else { ShareState::Orphaned };
        let applied = Applied { plan: record.plan.clone(), ..Applied::default() };
        let outcome = Outcome::stuck(state, "Done", String::new());
        Ok(Outcome { applied: Some(applied), ..outcome })
    }

    pub(super) fn conflict(&self, record: &Record, conflict: &judge::Conflict) -> Outcome {
        self.event(record, Severity::Warning, events::CONFLICT, conflict.to_string());
        let outcome = Outcome::stuck(ShareState::Conflict, conflict.reason(), conflict.to_string());
        Outcome { look_again: Some(AGAIN), ..outcome }
    }

    /// Brings the member object to where the plan wants it. `marks` are those of an object that is ours already.
    async fn bring(
        &self,
        name: &str,
        record: &Record,
        member: Option<&Value>,
        marks: Option<Marks>,
    ) -> Result<Outcome, Error> {
        let Draft { bases, marks: wanted, body } = match self.draft(record, member, marks.as_ref()).await? {
            Ok(draft) => draft,
            Err(outcome) => return Ok(outcome),
        };
        if let Some(before) = member.filter(|_| marks.is_none())
            && let Some(outcome) = self.refuse_adoption(record, before, &body).await?
        {
            return Ok(outcome);
        }
        let is_new = member.is_none();
        let made = match self.see_to_secrets(name, record, member, &body).await? {
            Brought::Yes(made) => made,
            Brought::Not(outcome) => return Ok(*outcome),
        };
        // One that was just made for its Secrets has no plan yet, whatever its marks are.
        let member = made.as_ref().or(member);
        let known = member.filter(|_| !is_new).zip(marks.as_ref());
        let left = known.and_then(|(found, marks)| {
            let before = before(record, &bases, marks.plan)?;
            leave::leave(Writing { body: &body, base: &bases.target, before }, found, &record.plan.drift)
        });
        let (written, seen) = match member {
            Some(found) if !is_new && marks == Some(wanted) => {
                let paths = drift::differences(&drift::comparable(&body), found, &record.plan.drift);
                let seen = self.react(name, record, paths).await?;
                let written = if seen.is_due {
                    let written = Box::pin(self.write_leaving(name, record, member, body, left)).await;
                    if !matches!(written, Ok(Ok(_))) {
                        self.memory().entry(name.to_owned()).or_default().drift.take_back();
                    }
                    written?
                } else {
                    Ok(found.clone())
                };
                (written, seen)
            }
            _ => Box::pin(self.give(name, record, member, body, left)).await?,
        };
        let now = match written {
            Ok(now) => now,
            Err(error) => return Ok(refused(&error)),
        };
        if let Some(fault) = unreadable(&record.plan, &now) {
            let outcome = Outcome::stuck(ShareState::Failed, "Unreadable", fault);
            return Ok(Outcome { look_again: Some(AGAIN), ..outcome });
        }
        let mut outcome = self.account(record, &bases, &now);
        (outcome.facts.drift, outcome.facts.drifted_by) = (seen.paths, seen.by);
        let look_again = [seen.look_again, outcome.look_again].into_iter().flatten().min();
        Ok(Outcome { look_again, ..outcome })
    }

    /// Writes the member object for a plan that it does not have yet. What is `left` to others is told along with the plan, or it
    /// would seem for a moment to be put right.
    async fn give(
        &self,
        name: &str,
        record: &Record,
        member: Option<&Value>,
        body: Value,
        left: Option<Value>,
    ) -> Result<(Result<Value, Error>, Drift), Error> {
        let policy = &record.plan.drift;
        let is_told = left.is_some() && policy.mode != DriftMode::Correct;
        let wanted = is_told.then(|| drift::comparable(&body));
        let written = self.write_leaving(name, record, member, body, left).await?;
        let paths = match (&written, &wanted) {
            (Ok(now), Some(wanted)) => drift::differences(wanted, &drift::comparable(now), policy),
            _ => Vec::new(),
        };
        if paths.is_empty() {
            return Ok((written, Drift::default()));
        }
        let seen = self.react(name, record, paths).await?;
        Ok((written, seen))
    }

    /// Writes the member object with what is `left` to others. Where the API server does not take that, the plan goes first: a
    /// share must not wait for whoever has changed something here.
    async fn write_leaving(
        &self,
        name: &str,
        record: &Record,
        member: Option<&Value>,
        body: Value,
        left: Option<Value>,
    ) -> Result<Result<Value, Error>, Error> {
        let Some(left) = left else { return self.write(name, record, member, body).await };
        match self.write(name, record, member, left).await? {
            Ok(now) => return Ok(Ok(now)),
            Err(error) => info!(
                assignment = name,
                error = &error as &dyn std::error::Error,
                "what others have changed does not go with the plan"
            ),
        }
        self.write(name, record, member, body).await
    }

    /// What the member object should be; or why that cannot be told. The stable revision is known to the member after this.
    async fn draft(
        &self,
        record: &Record,
        member: Option<&Value>,
        marks: Option<&Marks>,
    ) -> Result<Result<Draft, Outcome>, Error> {
        let (plan, object) = (&record.plan, &record.plan.object);
        let failed = |reason, message| Ok(Err(Outcome::stuck(ShareState::Failed, reason, message)));
        let bases = match self.bases(record) {
            Ok(bases) => bases,
            Err(fault) => return failed("Unrenderable", fault.to_string()),
        };
        let typed: Option<CloneSet> = member.and_then(|it| serde_json::from_value(it.clone()).ok());
        let holding = self.member.holding(object.namespace.as_deref().unwrap_or_default(), typed.as_ref());
        let pinned = match self.sow(record, &bases, typed.as_ref(), &holding).await? {
            Ok(pinned) => pinned,
            Err(reason) => return failed("NotSeeded", reason),
        };
        let adopted = match marks {
            Some(marks) => judge::adopted(marks.adopted, plan),
            None => member.map(|_| plan.deletion),
        };
        let marks = Marks {
            hub_uid: self.settings.hub_uid.clone(),
            object_uid: object.uid.clone(),
            plan: judge::pair(plan),
            epoch: plan.epoch,
            adopted,
            pinned,
        };
        let share = Share { plan, pods: &holding.names(), marks: &marks };
        match render::member(&bases.target, share) {
            Ok(mut body) => {
                if let Some(member) = member {
                    render::pull_job::keep_time(&mut body, member);
                }
                Ok(Ok(Draft { bases, marks, body }))
            }
            Err(fault) => failed("Unrenderable", fault.to_string()),
        }
    }

    /// Why an object that was there before is not taken over, if it is not (AD-1).
    async fn refuse_adoption(
        &self,
        record: &Record,
        before: &Value,
        body: &Value,
    ) -> Result<Option<Outcome>, Error> {
        // As the API server tells it, which is how it tells what would become of it.
        let stored = self.member.read(&record.plan.object).await?;
        let before = stored.as_ref().unwrap_or(before);
        if let Err(conflict) = adopt::at_once(&record.plan, before, body) {
            return Ok(Some(self.conflict(record, &conflict)));
        }
        let after = match self.member.try_out(&record.plan.object, body).await {
            Err(error) if is_refusal(&error) => return Ok(Some(refused(&error))),
            other => other?,
        };
        if let Err(conflict) = adopt::judge(&record.plan, before, &after) {
            return Ok(Some(self.conflict(record, &conflict)));
        }
        self.event(record, Severity::Normal, events::ADOPTED, "the object was taken over".to_owned());
        Ok(None)
    }

    /// Writes the member object. A refusal by the API server is an answer, not an error.
    pub(super) async fn write(
        &self,
        name: &str,
        record: &Record,
        member: Option<&Value>,
        mut body: Value,
    ) -> Result<Result<Value, Error>, Error> {
        if let Some(member) = member {
            // Of two leaders the later one has the word: what was judged must be what is changed (PROTO-12).
            body["metadata"]["resourceVersion"] = member["metadata"]["resourceVersion"].clone();
            body["metadata"]["uid"] = member["metadata"]["uid"].clone();
        }
        match self.member.apply(&record.plan.object, &body).await {
            Ok(answer) => {
                let adopted = Marks::of(&answer).and_then(|it| it.adopted);
                self.remember(name, record, &answer, adopted).await?;
                Ok(Ok(answer))
            }
            Err(error) if is_refusal(&error) => Ok(Err(error)),
            Err(error) => Err(error),
        }
    }

    /// Keeps which object is ours and whether it was there before, if that is news.
    async fn remember(
        &self,
        name: &str,
        record: &Record,
        member: &Value,
        adopted: Option<DeletionPolicy>,
    ) -> Result<Option<Arc<Record>>, Error> {
        let member_uid = member["metadata"]["uid"].as_str().map(str::to_owned);
        if record.member_uid == member_uid && record.adopted == adopted {
            return Ok(None);
        }
        self.store.put(name, Record { member_uid, adopted, ..record.clone() }).await.map(Some)
    }

    fn bases(&self, record: &Record) -> Result<Bases, render::Fault> {
        let plan = &record.plan;
        let base = |it: &Option<_>| {
            let body = it.as_ref().and_then(|it| record.body(it));
            body.map(|it| render::base(it, plan)).transpose()
        };
        let wanted = || render::Fault::OtherObject { wanted: plan.object.name.clone() };
        let target = base(&plan.target)?.ok_or_else(wanted)?;
        let stable = base(&plan.stable)?;
        let target_data = render::recorded(&target, self.gates);
        let stable_data = stable.as_ref().and_then(|it| render::recorded(it, self.gates));
        Ok(Bases { target, stable, target_data, stable_data })
    }

    /// Makes sure that the member knows the stable revision, and says under which name (REV-7); nothing if the plan has only one
    /// revision.
    async fn sow(
        &self,
        record: &Record,
        bases: &Bases,
        member: Option<&CloneSet>,
        holding: &super::member::Holding,
    ) -> Result<Result<Option<String>, String>, Error> {
        let is_cloneset = matches!(record.plan.slice, Some(Slice::CloneSet(_)));
        let Some(stable) = bases.stable.as_ref().filter(|_| is_cloneset && seed::is_needed(&record.plan))
        else {
            return Ok(Ok(None));
        };
        let revisions: Vec<_> = holding.revisions.iter().map(|it| &**it).collect();
        match seed::seed(stable, member, &revisions, self.gates) {
            Err(unreadable) => Ok(Err(unreadable.to_string())),
            Ok(Seed::Write(new)) => {
                Ok(Ok(Some(self.member.sow(&record.plan.object, *new).await?.name().to_owned())))
            }
            Ok(Seed::Known { name, adopter }) => {
                if let Some(owner) = adopter {
                    let namespace = record.plan.object.namespace.as_deref().unwrap_or_default();
                    self.member.hand_over(namespace, &name, owner).await?;
                }
                Ok(Ok(Some(name)))
            }
        }
    }

    /// What to do about drift, and what to say of it.
    async fn react(&self, name: &str, record: &Record, paths: Vec<String>) -> Result<Drift, Error> {
        let mode = record.plan.drift.mode;
        let now = self.clock.instant();
        let reaction = self.memory().entry(name.to_owned()).or_default().drift.react(&paths, mode, now);
        let told = drift::told(&paths, mode);
        let by = match &reaction {
            drift::Reaction::Leave if told.is_empty() => Vec::new(),
            drift::Reaction::Leave => self.managers(name, record, &told).await?,
            // Now and then is enough; in a fight it is the same one again.
            drift::Reaction::Correct { tell: false } => Vec::new(),
            _ => self.managers(name, record, &paths).await?,
        };
        let whom = if by.is_empty() { "somebody".to_owned() } else { by.join(", ") };
        let is_scaled = paths.iter().any(|it| it == drift::REPLICAS);
        let (is_due, look_again) = match reaction {
            drift::Reaction::Leave => (false, None),
            drift::Reaction::Correct { tell } => {
                if tell {
                    let message = format!("put right: {} (changed by {whom})", paths.join(", "));
                    let (severity, reason) = match is_scaled {
                        true => (Severity::Warning, events::SCALE_CONFLICT),
                        false => (Severity::Normal, events::DRIFT_CORRECTED),
                    };
                    self.event(record, severity, reason, message);
                }
                (true, None)
            }
            drift::Reaction::Fight { path, correct, again_in } => {
                let message = format!("{path} is changed again and again by {whom}");
                self.event(record, Severity::Warning, events::DRIFT_FIGHT, message);
                (correct, (!correct).then_some(again_in))
            }
        };
        if mode != DriftMode::Correct {
            return Ok(Drift { is_due, look_again, paths: told, by });
        }
        let mut memory = self.memory();
        let history = &memory.entry(name.to_owned()).or_default().drift;
        // As long as a fight lasts it is told, also while things are as they should be.
        let (paths, until) = history.fight(now);
        let by = if paths.is_empty() { Vec::new() } else { history.last_named() };
        Ok(Drift { is_due, look_again: [look_again, until].into_iter().flatten().min(), paths, by })
    }

    /// The field managers that have claimed one of the paths, looked up when these are not the paths that differed last.
    async fn managers(&self, name: &str, record: &Record, paths: &[String]) -> Result<Vec<String>, Error> {
        let known = self.memory().get(name).and_then(|it| it.drift.named(paths));
        if let Some(known) = known.filter(|it| !it.is_empty()) {
            return Ok(known);
        }
        let object = self.member.read(&record.plan.object).await?.unwrap_or_default();
        let mut all: Vec<String> = paths
            .iter()
            .flat_map(|it| drift::other_managers(&object, it, keys::AGENT_FIELD_MANAGER))
            .collect();
        all.sort_unstable();
        all.dedup();
        all.truncate(report::MOST_MANAGERS);
        self.memory().entry(name.to_owned()).or_default().drift.name(paths, &all);
        Ok(all)
    }

    /// What there is to say about an object that has the plan.
    fn account(&self, record: &Record, bases: &Bases, member: &Value) -> Outcome {
        let plan = &record.plan;
        let number = |path: &str| member.pointer(path).and_then(Value::as_i64).unwrap_or_default();
        // Their controllers say which generation they have seen, and changes to them wake us.
        let is_followed = matches!(plan.object.kind.as_str(), "CloneSet" | "ImagePullJob");
        let generation = number("/metadata/generation");
        let observed = if is_followed { number("/status/observedGeneration") } else { generation };
        let applied = Applied { plan: plan.clone(), generation, observed_generation: observed };
        let mut facts = match (&plan.slice, serde_json::from_value::<CloneSet>(member.clone())) {
            (Some(Slice::CloneSet(slice)), Ok(typed)) => {
                let namespace = plan.object.namespace.as_deref().unwrap_or_default();
                let holding = self.member.holding(namespace, Some(&typed));
                let pods: Vec<_> = holding.pods.iter().map(|it| &**it).collect();
                let nothing = RevisionData::default();
                let target = bases.target_data.as_ref().unwrap_or(&nothing);
                let population = cloneset::Population {
                    cloneset: &typed,
                    pods: &pods,
                    revisions: &holding.revisions.iter().map(|it| &**it).collect::<Vec<_>>(),
                    target,
                    stable: bases.stable_data.as_ref().unwrap_or(target),
                    granted: seed::is_needed(plan).then_some(slice.updated),
                    now: self.clock.now(),
                };
                let mut census = cloneset::count(&population, slice.replicas);
                let mut turnover = Turnover::default();
                if plan.capacity_question.is_some() {
                    turnover = self.room.turnover(uid(&typed));
                    census.counts.unscheduled = turnover.unscheduled;
                }
                Facts {
                    vacated: turnover.vacated,
                    counts: census.counts,
                    failing: census.failing,
                    revisions: census.revisions,
                    pods: cloneset::found(&plan.pods_asked, &pods),
                    ..Facts::default()
                }
            }
            (Some(Slice::ImagePullJob(_)), _) => {
                let status = serde_json::from_value::<ImagePullJobStatus>(member["status"].clone());
                report::pull_job(&status.unwrap_or_default())
            }
            _ => Facts::default(),
        };
        facts.adopted = Marks::of(member).is_some_and(|it| it.adopted.is_some());
        let state = report::progress(&applied, &facts.counts, facts.completed);
        let verdict = Verdict { state, reason: "Applied", message: String::new() };
        let look_again = (!is_followed).then_some(AGAIN);
        Outcome { verdict, applied: Some(applied), facts, look_again }
    }

    fn event(&self, record: &Record, severity: Severity, reason: &'static str, message: String) {
        let object = &record.plan.object;
        let about = ObjectReference {
            api_version: Some(object.api_version.clone()),
            kind: Some(object.kind.clone()),
            namespace: object.namespace.clone(),
            name: Some(object.name.clone()),
            uid: record.member_uid.clone(),
            ..ObjectReference::default()
        };
        self.events.record(about, severity, reason, message);
    }
}

/// What the member object was made from by the plan whose number it carries, if that is known.
fn before<'a>(record: &'a Record, bases: &'a Bases, number: Pair) -> Option<&'a Value> {
    if number == judge::pair(&record.plan) {
        return Some(&bases.target);
    }
    record.before.as_ref().filter(|it| it.plan == number).map(|it| &it.base)
}

/// Why nothing can be told about a member object whose pods are to be counted, if nothing can.
fn unreadable(plan: &AssignmentSpec, member: &Value) -> Option<String> {
    let is_counted = matches!(plan.slice, Some(Slice::CloneSet(_)));
    let read = is_counted.then(|| serde_json::from_value::<CloneSet>(member.clone()))?;
    read.err().map(|it| format!("the object in the member cannot be read: {it}"))
}

/// Whether the API server says that this very object cannot be, so that trying at once cannot help.
pub(super) fn is_refusal(error: &Error) -> bool {
    matches!(error.code(), Some(400 | 403 | 404 | 422))
}

pub(super) fn refused(error: &Error) -> Outcome {
    let outcome = Outcome::stuck(ShareState::Failed, "Refused", error.told());
    Outcome { look_again: Some(AGAIN), ..outcome }
}
