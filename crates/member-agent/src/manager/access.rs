//! Which rights a manager needs, part by part. Its roles are generated from this (`cargo xtask crds`), and at start it
//! says which of them it was not granted.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::authorization::v1::{ResourceRule, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec};
use kruise_core::{
    api::{self, crds::WEBHOOK_NAMESPACE},
    runtime::{
        access::{Right, Scope},
        client::call,
        events,
        gates::{Gate, Gates},
        leader,
        webhook::{self, registration::ConfigurationNames},
    },
};
use kube::{Api, Client, api::PostParams};
use tracing::{debug, warn};

use super::{controllers::CONTROLLERS, settings::CERTIFICATE_SECRET};

/// The ServiceAccount of the manager, as the chart names it.
pub const SERVICE_ACCOUNT: &str = "kruise-manager";
/// The namespace of the manager, as the chart names it.
pub const NAMESPACE: &str = WEBHOOK_NAMESPACE;

/// One part of the manager.
#[derive(Debug, Clone)]
pub struct Part {
    /// The gate without which it does not run.
    pub gate: Option<Gate>,
    /// Its name in logs.
    pub name: &'static str,
    /// What it does at the API server.
    pub needs: Vec<Right>,
}

/// Every part, with default names of what it keeps.
pub fn parts() -> Vec<Part> {
    let names = ConfigurationNames::default();
    let upkeep = webhook::needs(CERTIFICATE_SECRET, &names, api::converted_crds());
    let mut parts = vec![
        Part { gate: None, name: "webhook-upkeep", needs: upkeep },
        Part { gate: None, name: "leader-election", needs: leader::needs(leader::LEASE_NAME) },
        Part { gate: None, name: "events", needs: events::needs() },
    ];
    parts.extend(CONTROLLERS.iter().map(|it| Part { gate: it.gate, name: it.name, needs: (it.needs)() }));
    parts
}

/// The rights of all parts.
pub fn needs() -> Vec<Right> {
    parts().into_iter().flat_map(|it| it.needs).collect()
}

/// Says which rights are missing. Not having them all is no reason to stop: the parts that have theirs still work.
pub(super) async fn compare(client: &Client, own_namespace: &str, gates: Gates) {
    let parts: Vec<_> = parts().into_iter().filter(|it| it.gate.is_none_or(|it| gates.is_on(it))).collect();
    let mut granted = BTreeMap::new();
    for scope in parts.iter().flat_map(|it| &it.needs).map(|it| it.scope).collect::<BTreeSet<_>>() {
        let namespace = match scope {
            Scope::Cluster | Scope::OwnNamespace => own_namespace,
            Scope::Namespace(other) => other,
        };
        let Some(rules) = granted_in(client, namespace).await else { return };
        granted.insert(scope, rules);
    }
    for Part { gate: _, name, needs } in parts {
        let missing: Vec<_> = needs.iter().flat_map(|it| it.missing_in(&granted[&it.scope])).collect();
        if !missing.is_empty() {
            warn!(part = name, missing = missing.join("; "), "rights are missing: apply config/rbac");
        }
    }
}

/// What we may do in a namespace; none if the API server cannot tell.
async fn granted_in(client: &Client, namespace: &str) -> Option<Vec<ResourceRule>> {
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) },
        ..SelfSubjectRulesReview::default()
    };
    let api: Api<SelfSubjectRulesReview> = Api::all(client.clone());
    match call("ask for our rights", api.create(&PostParams::default(), &review)).await {
        Ok(answer) => {
            let status = answer.status.unwrap_or_default();
            // Some authorizers cannot list what they would allow.
            if status.incomplete {
                debug!("the API server cannot tell all our rights");
            }
            (!status.incomplete).then_some(status.resource_rules)
        }
        Err(error) => {
            debug!(error = &error as &dyn std::error::Error, "our rights are not known");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use kruise_core::api::image_pull_job::keys::SECRETS_NAMESPACE;

    use super::*;

    #[test]
    fn no_right_is_a_wildcard() {
        for Right { group, resource, verbs, names, .. } in needs() {
            assert!(!group.contains('*') && !resource.contains('*'), "{group} {resource}");
            assert!(!verbs.contains(&"*") && !verbs.is_empty(), "{resource}");
            assert!(names.iter().all(|it| !it.is_empty()), "{resource}");
        }
    }

    #[test]
    fn secrets_are_written_only_where_they_are_ours_and_read_only_for_jobs() {
        for it in needs().iter().filter(|it| it.resource == "secrets") {
            match it.scope {
                // The certificate.
                Scope::OwnNamespace => {
                    assert!(it.verbs == ["create"] || it.names == [CERTIFICATE_SECRET], "{it:?}");
                }
                // Copies of pull secrets, whose names begin with those of their sources.
                Scope::Namespace(namespace) => assert_eq!(namespace, SECRETS_NAMESPACE),
                // Sources of copies. Which secrets jobs will name is not known before.
                Scope::Cluster => {
                    let is_read = |verb: &&str| ["get", "list", "watch"].contains(verb);
                    assert!(it.verbs.iter().all(is_read), "{it:?}");
                }
            }
        }
        let readers = parts()
            .into_iter()
            .filter(|it| it.needs.iter().any(|it| it.resource == "secrets" && it.scope == Scope::Cluster));
        let readers: Vec<_> = readers.map(|it| (it.name, it.gate)).collect();
        let expected = [("imagepulljob", Some(Gate::ImagePullJob))];
        assert_eq!(readers, expected);
    }
}
