//! Carrying out a plan: the only writer of pods and claims.

mod refusal;

use std::{collections::BTreeSet, time::Duration};

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    Context, Writers,
    apply::refusal::Refusal,
    observe::Observed,
    plan::{Action, Birth, Change, Death, Why, World, birth},
    status::Trouble,
};
use crate::{
    api::cloneset::{events, keys::INSTANCE_ID, v1beta1::CloneSet},
    controllers::pods::{Sent, send_all},
    pod::{
        build,
        claims::{self, Fate},
        state,
    },
    runtime::{
        client::Error,
        events::{Recorder, Severity, about},
        executor::Report,
        key::{Key, uid, version},
        writes::On,
    },
};

/// At most this many actions are carried out before looking again: the user may have changed his mind.
const AT_ONCE: usize = 500;

/// When to look again at objects that changed under our hands. Usually the watch shows it sooner.
pub(super) const OVERTAKEN: Duration = Duration::from_millis(200);

/// What became of a list of actions.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Whether something has come of them, or may have. What was counted before does not hold any more.
    pub is_felt: bool,
    /// Whether a pod may have been added though nobody has said so.
    pub may_have_added: bool,
    /// Why some did not work.
    pub error: Option<Error>,
    /// The same as a person reads it.
    pub trouble: Trouble,
    /// When to go on.
    pub look_again: Option<Duration>,
}

impl Outcome {
    /// Keeps the first failure. That somebody was faster is none: it is looked at again.
    fn note(&mut self, error: Error) {
        if is_overtaken(&error) {
            self.look_again = Some(OVERTAKEN);
        } else {
            self.error = self.error.take().or(Some(error));
        }
    }

    /// What `report` comes to. `newborn` are the names of the pods that were to be made: they are new with every attempt,
    /// and a trouble that named one would be news each time.
    fn of(report: Report<Done, Failed>, is_cut: bool, newborn: &[String]) -> Self {
        let is_overtaken = report.done.iter().any(|it| *it != Done::AsAsked) || report.skipped > 0;
        let is_felt =
            report.done.iter().any(|it| *it != Done::Outdated) || report.failed.iter().any(|it| it.is_felt);
        let may_have_added = report.failed.iter().any(|it| it.may_have_added);
        let error = report.failed.into_iter().next().map(|it| it.error);
        let look_again = match error {
            None if is_overtaken => Some(OVERTAKEN),
            None if is_cut => Some(Duration::ZERO),
            _ => None,
        };
        let trouble = match &error {
            Some(it) => Trouble::Told(without(&it.told(), newborn)),
            None if report.done.is_empty() && report.skipped > 0 => Trouble::Untried,
            None => Trouble::None,
        };
        Self { is_felt, may_have_added, error, trouble, look_again: report.wait.or(look_again) }
    }
}

/// `text` with a word for each of `names`.
fn without(text: &str, names: &[String]) -> String {
    names.iter().fold(text.to_owned(), |text, name| text.replace(name.as_str(), "(a new pod)"))
}

/// Carries out `actions`, many at a time.
pub async fn apply(ctx: &Context, world: &World<'_>, mut actions: Vec<Action>) -> Outcome {
    let is_cut = actions.len() > AT_ONCE;
    actions.truncate(AT_ONCE);
    if actions.is_empty() {
        return Outcome::default();
    }
    let owned = birth::owned_claims(world);
    let hands = &Hands { writers: &ctx.writers, recorder: &ctx.recorder, world, owned };
    let newborn: Vec<String> = actions.iter().filter_map(|it| hands.newborn(it)).collect();
    let report = ctx.executor.run(actions, |it| async move { hands.carry_out(&it).await }).await;
    Outcome::of(report, is_cut, &newborn)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    AsAsked,
    /// The object was not what it had been any more; what to do has to be decided anew.
    Overtaken,
    /// The same for a request of which nothing can have come.
    Outdated,
}

/// An action that did not work.
#[derive(Debug)]
struct Failed {
    error: Error,
    /// Whether it has, or may have, taken its pod out of service all the same.
    is_felt: bool,
    /// Whether it may have added a pod.
    may_have_added: bool,
}

impl Failed {
    /// A pod that could not be added. Even if it was, nobody is out of service by that.
    fn adding(error: Error) -> Self {
        Self { is_felt: false, may_have_added: error.leaves_doubt(), error }
    }

    /// The only request about a pod, or the first one.
    fn at_once(error: Error) -> Self {
        Self { is_felt: error.leaves_doubt(), may_have_added: false, error }
    }

    /// A later request about a pod.
    fn midway(error: Error) -> Self {
        Self { error, is_felt: true, may_have_added: false }
    }
}

struct Hands<'a> {
    writers: &'a Writers,
    recorder: &'a Recorder,
    world: &'a World<'a>,
    /// The names of the claims that exist.
    owned: BTreeSet<&'a str>,
}

impl Hands<'_> {
    async fn carry_out(&self, action: &Action) -> Result<Done, Failed> {
        match action {
            Action::Create(it) => self.create(it).await,
            Action::Delete(it) => self.delete(it).await,
            Action::Change(it) => self.change(it).await,
        }
    }

    async fn create(&self, birth: &Birth) -> Result<Done, Failed> {
        let bodies = birth::bodies(self.world, birth, &self.owned);
        for claim in &bodies.claims {
            let created =
                self.writers.claims.create(self.on("create a claim"), &self.key_of(claim), claim).await;
            if let Err(error) = created {
                if error.is_conflict() {
                    return Ok(Done::Overtaken);
                }
                self.failed(events::FAILED_CREATE, format!("failed to create pvc: {}", error.told()));
                return Err(Failed::adding(error));
            }
        }
        let name = build::name(self.name(), &birth.id);
        let created =
            self.writers.pods.create(self.on("create a pod"), &self.key_of(&bodies.pod), &bodies.pod).await;
        match created {
            Ok(_) => {
                self.tell(events::SUCCESSFUL_CREATE, format!("succeed to create pod {name}"));
                Ok(Done::AsAsked)
            }
            Err(error) if error.is_conflict() => Ok(Done::Overtaken),
            Err(error) => {
                let message = format!("failed to create pod: {}, pod: {name}", error.told());
                self.failed(events::FAILED_CREATE, message);
                Err(Failed::adding(error))
            }
        }
    }

    async fn delete(&self, death: &Death) -> Result<Done, Failed> {
        let name = death.pod.metadata.name.as_deref().unwrap_or_default();
        let (on, params) = (self.on("delete a pod"), DeleteParams::default());
        let sent = match death.only_as_seen {
            true => self.writers.pods.delete_as_seen(on, &death.pod, params).await,
            false => self.writers.pods.delete(on, &death.pod, params).await,
        };
        if let Err(error) = sent {
            match refusal::of(
                death,
                &error,
                self.world.doubts,
                self.writers.pods.latest(&death.pod).as_deref(),
            ) {
                Refusal::HasGoneBefore => {}
                Refusal::Outdated => return Ok(Done::Outdated),
                Refusal::Meant => {
                    let message = format!("failed to delete pod {name}: {}", error.told());
                    self.failed(events::FAILED_DELETE, message);
                    return Err(Failed::at_once(error));
                }
            }
        }
        self.tell(events::SUCCESSFUL_DELETE, format!("succeed to delete pod {name}"));
        for claim in &death.claims {
            let on = self.on("delete a claim");
            if let Err(error) = self.writers.claims.delete(on, claim, DeleteParams::default()).await {
                let message = format!("failed to delete pvc {}: {}", claim.name(), error.told());
                self.failed(events::FAILED_DELETE, message);
                return Err(Failed::midway(error));
            }
        }
        Ok(Done::AsAsked)
    }

    async fn change(&self, change: &Change) -> Result<Done, Failed> {
        let Change { pod, patches, why } = change;
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let is_back = state::is_at_revision(pod, &self.world.update.name);
        let revision = if is_back { &self.world.current.name } else { &self.world.update.name };
        let call = match why {
            Why::Regret => "keep a pod",
            Why::PrepareDelete => "prepare a pod's deletion",
            Why::Refresh => "refresh a pod",
            Why::PrepareUpdate => "prepare a pod's update",
            Why::InPlace => "update a pod in place",
            Why::Replace => "mark a pod for replacement",
        };
        match (send_all(&self.writers.pods, self.on(call), pod, patches).await, why) {
            (Ok(Sent::Overtaken), _) => return Ok(Done::Overtaken),
            (Ok(Sent::Done(_)), Why::InPlace) => self.tell(
                events::SUCCESSFUL_UPDATE_IN_PLACE,
                format!("successfully update pod {name} in-place(revision {revision})"),
            ),
            (Ok(Sent::Done(_)), Why::Replace) => self.tell(
                events::SUCCESSFUL_UPDATE_RECREATE,
                format!("successfully patch pod {name} specified-delete for update(revision {revision})"),
            ),
            (Ok(Sent::Done(_)), _) => {}
            (Err(error), why) => {
                let error_text = error.told();
                match why {
                    Why::InPlace => self.failed(
                        events::FAILED_UPDATE_IN_PLACE,
                        format!("failed to update pod {name} in-place(revision {revision}): {error_text}"),
                    ),
                    Why::Replace => self.failed(
                        events::FAILED_UPDATE_RECREATE,
                        format!("failed to patch pod specified-delete {name} for update(revision {revision}): {error_text}"),
                    ),
                    _ => {}
                }
                return Err(if patches.len() > 1 { Failed::midway(error) } else { Failed::at_once(error) });
            }
        }
        Ok(Done::AsAsked)
    }

    /// The name of the pod that this action makes.
    fn newborn(&self, action: &Action) -> Option<String> {
        match action {
            Action::Create(it) => Some(build::name(self.name(), &it.id)),
            Action::Delete(_) | Action::Change(_) => None,
        }
    }

    fn on(&self, call: &'static str) -> On<'_> {
        On { call, owner: uid(self.world.cloneset) }
    }

    fn name(&self) -> &str {
        self.world.cloneset.metadata.name.as_deref().unwrap_or_default()
    }

    fn key_of(&self, body: &Value) -> Key {
        let namespace = self.world.cloneset.metadata.namespace.as_deref().unwrap_or_default();
        Key::new(namespace, body["metadata"]["name"].as_str().unwrap_or_default())
    }

    fn tell(&self, reason: &'static str, message: String) {
        self.recorder.record(about(self.world.cloneset), Severity::Normal, reason, message);
    }

    fn failed(&self, reason: &'static str, message: String) {
        self.recorder.record(about(self.world.cloneset), Severity::Warning, reason, message);
    }
}

/// Lets go of pods whose labels do not match any more. One that cannot be let go does not hold up the others.
pub async fn release(ctx: &Context, cloneset: &CloneSet, observed: &Observed) -> Outcome {
    let mut outcome = Outcome::default();
    for pod in &observed.strayed {
        let others = pod.metadata.owner_references.iter().flatten().filter(|it| it.uid != uid(cloneset));
        let owners: Vec<Value> = others.map(|it| json!(it)).collect();
        // The list is replaced as a whole, so it must be the one that was read.
        let patch = json!({"metadata": {"resourceVersion": version(&**pod), "ownerReferences": owners}});
        let on = On { call: "let go of a pod", owner: uid(cloneset) };
        let patch = Patch::Merge(patch);
        if let Err(error) = ctx.writers.pods.patch(on, pod, None, &patch, &PatchParams::default()).await {
            outcome.note(error);
        }
    }
    outcome
}

/// Where claims are not reused: hands those of leaving pods over to them and deletes those of pods that are gone. Leaves
/// in `observed` only what serves pods that stay, and what is on its way out.
pub async fn tidy_claims(ctx: &Context, cloneset: &CloneSet, observed: &mut Observed) -> Outcome {
    let mut outcome = Outcome::default();
    if cloneset.spec.scale_strategy.enable_pvc_reuse || observed.claims.is_empty() {
        return outcome;
    }
    let claims: Vec<_> = observed.claims.iter().map(|it| &**it).collect();
    let active: Vec<_> = observed.pods.active().map(|it| &**it.pod).collect();
    let inactive: Vec<_> = observed.inactive.iter().map(|it| &**it).collect();
    let fates = claims::without_reuse(&claims, &active, &inactive, &observed.doubts.created, INSTANCE_ID);
    let writer = &ctx.writers.claims;
    let on = |call| On { call, owner: uid(cloneset) };
    let mut given_up = vec![false; observed.claims.len()];
    for (index, fate) in &fates {
        let claim = &observed.claims[*index];
        let (sent, reason, what) = match fate {
            Fate::Keep => continue,
            Fate::HandOverTo(pod) => {
                let patch = Patch::Merge(claims::hand_over(claim, uid(cloneset), pod));
                let params = PatchParams::default();
                let sent =
                    writer.patch(on("hand a claim over"), claim, None, &patch, &params).await.map(drop);
                (sent, events::FAILED_UPDATE, "update")
            }
            Fate::Delete => {
                let sent = writer.delete(on("clean up a claim"), claim, DeleteParams::default()).await;
                (sent, events::FAILED_DELETE, "clean up")
            }
        };
        given_up[*index] = true;
        if let Err(error) = sent {
            if !is_overtaken(&error) {
                let message = format!("failed to {what} PVC {}: {}", claim.name(), error.told());
                ctx.recorder.record(about(cloneset), Severity::Warning, reason, message);
            }
            outcome.note(error);
        }
    }
    let mut given_up = given_up.into_iter();
    observed.claims.retain(|_| given_up.next() == Some(false));
    outcome
}

/// Whether an object was not what it had been any more.
fn is_overtaken(error: &Error) -> bool {
    matches!(error.code(), Some(404 | 409))
}

#[cfg(test)]
mod tests;
