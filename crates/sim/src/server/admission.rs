//! Admission in the process: closures that see each write before it happens.

use std::{fmt, sync::Arc};

use serde_json::Value;

use crate::server::{registry::Resource, status::Failure};

/// What is about to happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A new object.
    Create,
    /// A changed object.
    Update,
    /// A deleted object.
    Delete,
}

/// A write under review.
#[derive(Debug)]
pub struct Review<'a> {
    /// What is about to happen.
    pub operation: Operation,
    /// The kind.
    pub resource: &'a Resource,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The namespace, or empty.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// The object as it would be; null for deletes.
    pub object: &'a Value,
    /// The object as it is; null for creates.
    pub old: &'a Value,
    /// The field manager or user agent that writes.
    pub manager: &'a str,
    /// Whether nothing will be stored.
    pub dry_run: bool,
}

/// What a hook says.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Let it pass.
    Allow,
    /// Let this pass in its place (mutating hooks only).
    Replace(Value),
    /// Refuse.
    Deny(String),
    /// The hook could not be reached; its `fail_open` decides.
    Unreachable(String),
}

/// Whether a hook may change objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It may change them, and runs first.
    Mutating,
    /// It may only refuse them.
    Validating,
}

/// A registered closure.
#[derive(Clone)]
pub struct Hook {
    /// The name in refusals.
    pub name: String,
    /// When it runs.
    pub stage: Stage,
    /// `plural.group` of the kinds it sees, with `/subresource` for subresources.
    pub kinds: Vec<String>,
    /// The operations it sees.
    pub operations: Vec<Operation>,
    /// Whether writes pass when it cannot be reached.
    pub fail_open: bool,
    /// The closure. It runs while the server is busy: it must not call back into the same cluster.
    pub call: Arc<dyn Fn(&Review<'_>) -> Verdict + Send + Sync>,
}

impl fmt::Debug for Hook {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, stage, kinds, operations, fail_open, call: _ } = self;
        formatter
            .debug_struct("Hook")
            .field("name", name)
            .field("stage", stage)
            .field("kinds", kinds)
            .field("operations", operations)
            .field("fail_open", fail_open)
            .finish_non_exhaustive()
    }
}

impl Hook {
    fn sees(&self, review: &Review<'_>) -> bool {
        let mut kind = review.resource.qualified();
        if !review.subresource.is_empty() {
            kind = format!("{kind}/{}", review.subresource);
        }
        self.operations.contains(&review.operation) && self.kinds.contains(&kind)
    }
}

/// Runs the mutating hooks; the object comes back changed.
pub fn mutate(hooks: &[Hook], mut object: Value, review: &Review<'_>) -> Result<Value, Failure> {
    for hook in hooks.iter().filter(|it| it.stage == Stage::Mutating) {
        let review = Review { object: &object, ..*review };
        if !hook.sees(&review) {
            continue;
        }
        match (hook.call)(&review) {
            Verdict::Replace(changed) => object = changed,
            verdict => pass(hook, verdict)?,
        }
    }
    Ok(object)
}

/// Runs the validating hooks.
pub fn validate(hooks: &[Hook], review: &Review<'_>) -> Result<(), Failure> {
    let hooks = hooks.iter().filter(|it| it.stage == Stage::Validating && it.sees(review));
    hooks.into_iter().try_for_each(|hook| pass(hook, (hook.call)(review)))
}

fn pass(hook: &Hook, verdict: Verdict) -> Result<(), Failure> {
    match verdict {
        Verdict::Allow | Verdict::Replace(_) => Ok(()),
        Verdict::Unreachable(_) if hook.fail_open => Ok(()),
        Verdict::Deny(message) => {
            let message = format!("admission webhook {:?} denied the request: {message}", hook.name);
            Err(Failure::plain(403, "Forbidden", message))
        }
        Verdict::Unreachable(cause) => {
            Err(Failure::internal(&format!("failed calling webhook {:?}: {cause}", hook.name)))
        }
    }
}
