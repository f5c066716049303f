//! What it means that a pod was not deleted.

use crate::{
    controllers::cloneset::plan::{Death, Doubts},
    runtime::{cache::pod::PodLite, client::Error, key::version},
};

/// Why the server did not delete a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// An earlier request of ours was carried out, and its answer was lost. The pod's claims have to go with it.
    HasGoneBefore,
    /// The pod is not what it was when we looked; what to do has to be decided anew.
    Outdated,
    /// The server, or a webhook, does not want it.
    Meant,
}

/// What `error` means for `death`. `known` is the newest that we know of the pod.
pub(super) fn of(death: &Death, error: &Error, doubts: &Doubts, known: Option<&PodLite>) -> Refusal {
    let (Some(known), true) = (known, death.only_as_seen && error.is_conflict()) else {
        return Refusal::Meant;
    };
    let name = death.pod.metadata.name.as_deref().unwrap_or_default();
    let is_doubted = doubts.deleted.contains(name) || doubts.deleted_as_seen.contains(name);
    if is_doubted && known.is_terminating() {
        Refusal::HasGoneBefore
    } else if version(known) != version(&*death.pod) {
        Refusal::Outdated
    } else {
        // Webhooks refuse with any code they like, and this one says nothing about versions.
        Refusal::Meant
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn pod(version: u64, deleted: bool) -> PodLite {
        let at = if deleted { json!("2026-01-01T00:00:00Z") } else { Value::Null };
        let metadata = json!({
            "namespace": "n", "name": "web-1", "uid": "u", "resourceVersion": version.to_string(),
            "deletionTimestamp": at,
        });
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    fn error(code: u16, reason: &str) -> Error {
        let status = kube::core::Status::failure("no", reason).with_code(code);
        Error::Api { call: "delete a pod", source: kube::Error::Api(status.boxed()) }
    }

    fn death(only_as_seen: bool) -> Death {
        Death { pod: Arc::new(pod(7, false)), claims: Vec::new(), only_as_seen }
    }

    #[test]
    fn a_conflict_with_a_version_that_we_know_of_is_looked_at_again() {
        let conflict = error(409, "Conflict");
        let known = pod(8, false);
        assert_eq!(of(&death(true), &conflict, &Doubts::default(), Some(&known)), Refusal::Outdated);
        assert_eq!(of(&death(false), &conflict, &Doubts::default(), Some(&known)), Refusal::Meant);
        assert_eq!(
            of(&death(true), &error(403, "Forbidden"), &Doubts::default(), Some(&known)),
            Refusal::Meant
        );
    }

    /// A hook that says 409 says it each time: taken for a lost race it would be asked for ever, and nobody would know.
    #[test]
    fn a_conflict_about_the_version_that_we_know_is_a_webhooks_no() {
        let known = pod(7, false);
        let conflict = error(409, "Conflict");
        assert_eq!(of(&death(true), &conflict, &Doubts::default(), Some(&known)), Refusal::Meant);
        assert_eq!(of(&death(true), &conflict, &Doubts::default(), None), Refusal::Meant);
    }

    #[test]
    fn claims_follow_a_pod_whose_deletion_was_carried_out_without_an_answer() {
        let (conflict, leaving) = (error(409, "Conflict"), pod(8, true));
        let name = || ["web-1".to_owned()].into();
        let doubts = [
            Doubts { deleted: name(), ..Doubts::default() },
            Doubts { deleted_as_seen: name(), ..Doubts::default() },
        ];
        for doubts in &doubts {
            assert_eq!(of(&death(true), &conflict, doubts, Some(&leaving)), Refusal::HasGoneBefore);
            assert_eq!(of(&death(true), &conflict, doubts, Some(&pod(8, false))), Refusal::Outdated);
        }
        let nobody = Doubts::default();
        assert_eq!(
            of(&death(true), &conflict, &nobody, Some(&leaving)),
            Refusal::Outdated,
            "somebody else's"
        );
    }
}
