//! Why an object is not planned.

use kruise_core::api::fleet::FederatedObject;
use scheduling::{names::ClusterName, reason};

use crate::names;

/// Why an object is not planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// No policy matches any more (DEL-5).
    Suspended,
    /// It is being deleted, but nobody asked for that (PROTO-7).
    SweptAlong(String),
    /// It goes from members (DEL-1, DEL-5).
    Ending {
        /// Why.
        because: Because,
        /// Clusters that have not answered.
        waiting: Vec<String>,
        /// Those of them that are not heard.
        silent: Vec<String>,
        /// Those of them to whom nothing can be written.
        unwritable: Vec<String>,
    },
    /// Its numbers cannot be used.
    BadNumbers(String),
    /// This build cannot do what the policy asks for.
    NotSupported(String),
}

/// Why an object goes from members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    /// It is being deleted.
    Deleted,
    /// Somebody takes it back, and it stays on the hub.
    Withdrawn,
}

impl Because {
    /// The word for events and conditions.
    pub(in crate::dispatch) fn event(self) -> &'static str {
        match self {
            Self::Deleted => "Deleting",
            Self::Withdrawn => "Withdrawing",
        }
    }
}

impl Trouble {
    /// Who is waited for before an object is gone from members, and what helps (DEL-2).
    pub(in crate::dispatch) fn awaited(&self, object: &FederatedObject) -> Option<String> {
        let Self::Ending { because, waiting, silent, unwritable } = self else { return None };
        if waiting.is_empty() {
            return None;
        }
        let listed = |it: &[String]| {
            let names: Vec<ClusterName> = it.iter().map(|it| it.as_str().into()).collect();
            reason::list(&names)
        };
        let what = match because {
            Because::Deleted => "deletion",
            Because::Withdrawn => "withdrawal",
        };
        let mut message = format!("{what} waits for {}", listed(waiting));
        if !silent.is_empty() {
            let place = object.namespace.as_ref().map_or_else(String::new, |it| format!(" -n {it}"));
            message = format!(
                "{message}; no word from {}: `kubectl fleet detach {}/{}{place} --force-detach` finishes without",
                listed(silent),
                object.kind.to_lowercase(),
                object.name
            );
        }
        if let Some(first) = unwritable.first() {
            message = format!(
                "{message}; nothing can be written for {}, which runs on: put back the kind of Assignments (`config/crd/fleet`) or its \
                 namespace (`kubectl create namespace {}`)",
                listed(unwritable),
                names::cluster_namespace(first)
            );
        }
        Some(message)
    }
}
