//! Bringing a job's pull secrets: what [`secrets`](super::secrets) says, step by step.

use std::time::Duration;

use kruise_core::{
    api::fleet::{FederatedObject, Slice, assignment::ShareState, keys},
    runtime::client::Error,
};
use serde_json::{Value, json};
use tracing::info;

use super::{
    Link,
    carry::{AGAIN, Outcome, is_refusal, refused},
    judge::{self, Conflict},
    marks::Marks,
    secrets::{self, Holder, Step},
    store::Record,
};

/// How long Secrets that were seen to are believed to be there, as long as neither plan nor job change.
const SEEN_TO: Duration = Duration::from_secs(60);
/// How soon a Secret on its way out is looked for again.
const SOON: Duration = Duration::from_secs(5);
/// How long a job waits whose Secrets are new: its controller has to hear of them before it begins.
const HEARD: Duration = Duration::from_secs(1);

/// Whether a job's Secrets are there.
pub(super) enum Brought {
    /// They are; with the job, if it had to be made for them.
    Yes(Option<Value>),
    /// They are not.
    Not(Box<Outcome>),
}

impl Brought {
    fn not(outcome: Outcome) -> Result<Self, Error> {
        Ok(Self::Not(Box::new(outcome)))
    }
}

impl Link {
    /// Brings the Secrets that a job names. `body` is the job as it should be, `member` as it is.
    pub(super) async fn see_to_secrets(
        &self,
        name: &str,
        record: &Record,
        member: Option<&Value>,
        body: &Value,
    ) -> Result<Brought, Error> {
        let (plan, now) = (&record.plan, self.clock.instant());
        let uid_of = |it: &Value| it["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let known = self.memory().get(name).and_then(|it| it.secrets.clone());
        let is_known = known.zip(member).is_some_and(|((pair, uid, at), member)| {
            pair == judge::pair(plan) && uid == uid_of(member) && now.saturating_duration_since(at) < SEEN_TO
        });
        if plan.pull_secrets.is_empty() || is_known {
            return Ok(Brought::Yes(None));
        }
        let mut made = None;
        let job = match member {
            Some(member) => member.clone(),
            None => {
                // What is in the way is found before anything is written.
                if let Err(outcome) = self.secret_steps(record, None).await? {
                    return Brought::not(outcome);
                }
                match self.write(name, record, None, secrets::held(body.clone())).await? {
                    Ok(job) => made.insert(job).clone(),
                    Err(error) => return Brought::not(refused(&error)),
                }
            }
        };
        let job_uid = uid_of(&job);
        let steps = match self.secret_steps(record, Some(&job_uid)).await? {
            Ok(steps) => steps,
            Err(outcome) => return Brought::not(outcome),
        };
        let mut is_new = false;
        for (name, step) in steps {
            is_new |= matches!(step, Step::Create(_));
            let done = match step {
                Step::Create(body) => self.member.make_secret(&plan.object, body).await,
                Step::Change(patch) => self.member.change_secret(&plan.object, &name, &patch).await,
                Step::Leave | Step::Wait | Step::Conflict => Ok(()),
            };
            match done {
                Err(error) if error.code() == Some(403) => return Brought::not(denied(&plan.object, &name)),
                Err(error) if is_refusal(&error) => return Brought::not(refused(&error)),
                other => other?,
            }
        }
        self.memory().entry(name.to_owned()).or_default().secrets = Some((judge::pair(plan), job_uid, now));
        let begins = matches!(&plan.slice, Some(Slice::ImagePullJob(it)) if it.parallelism > 0);
        if is_new && begins {
            let outcome = Outcome::waiting("SecretsBrought", "the job begins when its Secrets are known");
            return Brought::not(Outcome { look_again: Some(HEARD), ..outcome });
        }
        Ok(Brought::Yes(made))
    }

    /// What is to be done about each Secret, by its name here; or why nothing can be.
    async fn secret_steps(
        &self,
        record: &Record,
        job: Option<&str>,
    ) -> Result<Result<Vec<(String, Step)>, Outcome>, Error> {
        let object = &record.plan.object;
        let holder = Holder { hub_uid: &self.settings.hub_uid, object, job };
        let mut steps = Vec::new();
        for wanted in &record.plan.pull_secrets {
            let name = secrets::name(&object.name, &wanted.name);
            if !secrets::is_for_registry(wanted) {
                let message =
                    format!("the Secret {} of type {:?} is none for a registry", wanted.name, wanted.type_);
                return Ok(Err(Outcome::stuck(ShareState::Failed, "NotForRegistry", message)));
            }
            let found = match self.member.secret(object, &name).await {
                Err(error) if error.code() == Some(403) => return Ok(Err(denied(object, &name))),
                other => other?,
            };
            match Step::judge(wanted, found.as_ref(), holder) {
                Step::Conflict => return Ok(Err(self.conflict(record, &Conflict::Secret { name }))),
                // The job that it belongs to is gone before its successor is made.
                Step::Wait => {
                    let message = format!("the Secret {name} of the job before is still there");
                    let outcome = Outcome::waiting("SecretEnding", &message);
                    return Ok(Err(Outcome { look_again: Some(SOON), ..outcome }));
                }
                step => steps.push((name, step)),
            }
        }
        Ok(Ok(steps))
    }

    /// Takes our marks off the Secrets of a job that is let go of: they stay with it (DEL-3).
    pub(super) async fn release_secrets(&self, object: &FederatedObject) -> Result<(), Error> {
        let job = self.member.find(object).await?.unwrap_or_default();
        let names = job.pointer("/spec/pullSecrets").and_then(Value::as_array);
        for name in names.into_iter().flatten().filter_map(Value::as_str) {
            let released = self.release_secret(object, name).await;
            match released {
                // Without the right there is none that we have made.
                Err(error) if matches!(error.code(), Some(403 | 404)) => {
                    info!(secret = name, "a pull secret keeps its marks");
                }
                other => other?,
            }
        }
        Ok(())
    }

    async fn release_secret(&self, object: &FederatedObject, name: &str) -> Result<(), Error> {
        let Some(secret) = self.member.secret(object, name).await? else { return Ok(()) };
        let marks = Marks::of(&json!({"metadata": {"annotations": secret.metadata.annotations}}));
        if marks.is_none_or(|it| it.hub_uid != self.settings.hub_uid) {
            return Ok(());
        }
        let patch = json!({"metadata": {
            "uid": secret.metadata.uid, "resourceVersion": secret.metadata.resource_version,
            "annotations": {(keys::HUB_UID): Value::Null, (keys::OBJECT_UID): Value::Null},
        }});
        self.member.change_secret(object, name, &patch).await
    }
}

fn denied(object: &FederatedObject, name: &str) -> Outcome {
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let message = format!(
        "the Secret {namespace}/{name} may not be written: grant that with hub.pullSecrets=true of the member's chart, or with \
         config/rbac/link/pull-secrets"
    );
    let outcome = Outcome::stuck(ShareState::Failed, "PullSecretsDenied", message);
    Outcome { look_again: Some(AGAIN), ..outcome }
}
