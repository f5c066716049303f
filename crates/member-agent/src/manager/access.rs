//! Which rights a manager needs, part by part. Its roles are generated from this (`cargo xtask crds`), and at start it
//! says which of them it was not granted.

use k8s_openapi::api::authorization::v1::{SelfSubjectRulesReview, SelfSubjectRulesReviewSpec};
use kruise_core::{
    api::crds::WEBHOOK_NAMESPACE,
    runtime::{
        access::Right,
        client::call,
        events, leader,
        webhook::{self, registration::ConfigurationNames},
    },
};
use kube::{Api, Client, api::PostParams};
use tracing::{debug, warn};

use super::{admission, controllers::CONTROLLERS, settings::CERTIFICATE_SECRET};

/// The ServiceAccount of the manager, as the chart names it.
pub const SERVICE_ACCOUNT: &str = "kruise-manager";
/// The namespace of the manager, as the chart names it.
pub const NAMESPACE: &str = WEBHOOK_NAMESPACE;

/// One part of the manager.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its name in logs.
    pub name: &'static str,
    /// What it does at the API server.
    pub needs: Vec<Right>,
}

/// Every part, with default names of what it keeps.
pub fn parts() -> Vec<Part> {
    let names = ConfigurationNames::default();
    let upkeep = webhook::needs(CERTIFICATE_SECRET, &names, admission::converted());
    let mut parts = vec![
        Part { name: "webhook-upkeep", needs: upkeep },
        Part { name: "leader-election", needs: leader::needs(leader::LEASE_NAME) },
        Part { name: "events", needs: events::needs() },
    ];
    parts.extend(CONTROLLERS.iter().map(|it| Part { name: it.name, needs: (it.needs)() }));
    parts
}

/// The rights of all parts.
pub fn needs() -> Vec<Right> {
    parts().into_iter().flat_map(|it| it.needs).collect()
}

/// Says which rights are missing. Not having them all is no reason to stop: the parts that have theirs still work.
pub(super) async fn compare(client: &Client, own_namespace: &str) {
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec { namespace: Some(own_namespace.to_owned()) },
        ..SelfSubjectRulesReview::default()
    };
    let api: Api<SelfSubjectRulesReview> = Api::all(client.clone());
    let granted = match call("ask for our rights", api.create(&PostParams::default(), &review)).await {
        Ok(answer) => answer.status.unwrap_or_default(),
        Err(error) => return debug!(error = &error as &dyn std::error::Error, "our rights are not known"),
    };
    // Some authorizers cannot list what they would allow.
    if granted.incomplete {
        return debug!("the API server cannot tell all our rights");
    }
    for Part { name, needs } in parts() {
        let missing: Vec<_> = needs.iter().flat_map(|it| it.missing_in(&granted.resource_rules)).collect();
        if !missing.is_empty() {
            warn!(part = name, missing = missing.join("; "), "rights are missing: apply config/rbac");
        }
    }
}

#[cfg(test)]
mod tests {
    use kruise_core::runtime::access;

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
    fn secrets_are_only_touched_in_our_own_namespace() {
        for it in needs().iter().filter(|it| it.resource == "secrets") {
            assert_eq!(it.scope, access::Scope::OwnNamespace);
            assert!(it.verbs == ["create"] || it.names == [CERTIFICATE_SECRET], "{it:?}");
        }
    }
}
