//! What is asked at which path on the hub. To add a kind, add its rows to [`registrations`] and its answer to `server`.

use std::sync::Arc;

use kruise_core::{
    admission::{cloneset, image_pull_job},
    api::{self, APPS_GROUP, fleet::GROUP},
    runtime::{
        access::{self, Right},
        webhook::{
            self, AdmissionRequest, Builder, Event, Operation, Registration, Server, Verdict,
            registration::{ConfigurationNames, FailurePolicy, Phase, SideEffects},
            settings::Settings,
        },
    },
};

use super::{reviews::Reviewer, rights};

/// The Secret of the certificate, unless told otherwise.
pub const CERTIFICATE_SECRET: &str = "kruise-hub-webhook-certs";
/// The Service through which the API server reaches the hub.
pub const SERVICE: &str = "kruise-hub-webhook-service";

const MUTATE_POLICY: &str = "/mutate-fleet-kruise-io-placementpolicy";
const VALIDATE_POLICY: &str = "/validate-fleet-kruise-io-placementpolicy";
const VALIDATE_MEMBER: &str = "/validate-fleet-kruise-io-membercluster";
const MUTATE_REQUEST: &str = "/mutate-fleet-kruise-io-joinrequest";
const VALIDATE_REQUEST: &str = "/validate-fleet-kruise-io-joinrequest";
const VALIDATE_NAMESPACE: &str = "/validate-namespace";
const VALIDATE_SCALE: &str = "/validate-apps-kruise-io-cloneset-scale";
const VALIDATE_JOB_DELETION: &str = "/validate-deletion-apps-kruise-io-imagepulljob";

const POLICIES: &[&str] = &["placementpolicies", "clusterplacementpolicies"];
const WITH_DELETE: &[Operation] = &[Operation::Create, Operation::Update, Operation::Delete];

const OF_FLEET: &[Registration] = &[
    of_the_fleet("mplacementpolicy.fleet.kruise.io", Phase::Mutating, MUTATE_POLICY, POLICIES),
    Registration {
        operations: WITH_DELETE,
        ..of_the_fleet("vplacementpolicy.fleet.kruise.io", Phase::Validating, VALIDATE_POLICY, POLICIES)
    },
    Registration {
        operations: WITH_DELETE,
        ..of_the_fleet(
            "vmembercluster.fleet.kruise.io",
            Phase::Validating,
            VALIDATE_MEMBER,
            &["memberclusters"],
        )
    },
    of_the_fleet("mjoinrequest.fleet.kruise.io", Phase::Mutating, MUTATE_REQUEST, &["joinrequests"]),
    of_the_fleet("vjoinrequest.fleet.kruise.io", Phase::Validating, VALIDATE_REQUEST, &["joinrequests"]),
    // A member has no limit that could be passed by scaling; the fleet has.
    Registration {
        operations: &[Operation::Update],
        group: APPS_GROUP,
        versions: &["v1alpha1", "v1beta1"],
        ..of_the_fleet(
            "vclonesetscale.fleet.kruise.io",
            Phase::Validating,
            VALIDATE_SCALE,
            &["clonesets/scale"],
        )
    },
    Registration {
        operations: &[Operation::Delete],
        group: "",
        versions: &["v1"],
        // Namespaces are not ours: with the hub down they can be deleted.
        failure: FailurePolicy::Ignore,
        ..of_the_fleet("vnamespace.fleet.kruise.io", Phase::Validating, VALIDATE_NAMESPACE, &["namespaces"])
    },
    // A member asks nobody about these; on the hub they are as protected as other objects (DEL-4).
    Registration {
        operations: &[Operation::Delete],
        group: APPS_GROUP,
        versions: &["v1alpha1", "v1beta1"],
        ..of_the_fleet(
            "vimagepulljobdeletion.fleet.kruise.io",
            Phase::Validating,
            VALIDATE_JOB_DELETION,
            &["imagepulljobs", "imagelistpulljobs"],
        )
    },
];

const fn of_the_fleet(
    name: &'static str,
    phase: Phase,
    path: &'static str,
    resources: &'static [&'static str],
) -> Registration {
    Registration {
        name,
        phase,
        path,
        operations: &[Operation::Create, Operation::Update],
        group: GROUP,
        versions: &["v1alpha1"],
        resources,
        namespaces: &[],
        objects: &[],
        failure: FailurePolicy::Fail,
        side_effects: SideEffects::None,
    }
}

/// Every row of every webhook that the hub serves.
pub fn registrations() -> Vec<Registration> {
    [OF_FLEET, cloneset::REGISTRATIONS, image_pull_job::REGISTRATIONS].concat()
}

/// The names of the hub's configurations; others than a manager's, so that neither touches what is the other's.
pub fn names() -> ConfigurationNames {
    ConfigurationNames {
        mutating: "kruise-hub-mutating-webhook-configuration".to_owned(),
        validating: "kruise-hub-validating-webhook-configuration".to_owned(),
    }
}

/// The rights of admission, besides what the leader may read anyway: MemberClusters, bindings, CloneSets, namespaces.
pub fn needs() -> Vec<Right> {
    let own = vec![
        access::own_namespace("", "configmaps", &["list"]),
        // Templates are judged by the API server, as a dry run.
        access::cluster("", "podtemplates", &["create"]),
    ];
    [own, rights::needs(), webhook::needs(CERTIFICATE_SECRET, &names(), api::converted_crds())].concat()
}

/// The webhook server, bound to its port.
pub fn server(
    settings: &Settings,
    reviewer: Reviewer,
    observer: impl Fn(&Event<'_>) + Send + Sync + 'static,
) -> Result<Server, webhook::Error> {
    let clock = reviewer.clock.clone();
    let reviewer = Arc::new(reviewer);
    let gates = reviewer.gates;
    let builder = settings
        .clone()
        .builder()
        .configurations(names())
        .clock(move || clock.now())
        .observer(observer)
        .registrations(&registrations())
        .conversion(api::converted_crds(), |object, version| {
            api::convert(object, version).map_err(|it| it.to_string())
        })
        .review(MUTATE_POLICY, super::reviews::policy_filled_in)
        .review(MUTATE_REQUEST, super::reviews::request_marked)
        .review(cloneset::MUTATE_PATH, move |it| cloneset::mutated(it, gates))
        .review(image_pull_job::MUTATE, super::reviews::job_filled_in)
        .review(image_pull_job::MUTATE_LIST, move |it| image_pull_job::mutating_list(it, gates))
        .review(VALIDATE_JOB_DELETION, super::reviews::job_deleted);
    let builder =
        asking(builder, image_pull_job::VALIDATE, &reviewer, |by, it| async move { by.job(&it).await });
    let builder =
        asking(builder, image_pull_job::VALIDATE_LIST, &reviewer, |by, it| async move { by.list(&it).await });
    let builder = asking(builder, VALIDATE_POLICY, &reviewer, |by, it| async move { by.policy(&it).await });
    let builder = asking(builder, VALIDATE_MEMBER, &reviewer, |by, it| async move { by.member(&it).await });
    let builder = asking(builder, VALIDATE_REQUEST, &reviewer, |by, it| async move { by.request(&it).await });
    let builder = asking(builder, VALIDATE_SCALE, &reviewer, |by, it| async move { by.scale(&it).await });
    let builder =
        asking(builder, VALIDATE_NAMESPACE, &reviewer, |by, it| async move { by.namespace(&it).await });
    asking(builder, cloneset::VALIDATE_PATH, &reviewer, |by, it| async move { by.cloneset(&it).await }).bind()
}

/// An answer for which other objects are read.
fn asking<F>(
    builder: Builder,
    path: &'static str,
    reviewer: &Arc<Reviewer>,
    review: impl Fn(Arc<Reviewer>, Arc<AdmissionRequest>) -> F + Send + Sync + 'static,
) -> Builder
where
    F: Future<Output = Verdict> + Send + 'static,
{
    let reviewer = Arc::clone(reviewer);
    builder.review_async(path, move |request| review(Arc::clone(&reviewer), request))
}

#[cfg(test)]
mod tests {
    use kruise_core::runtime::webhook::registration;

    use super::*;

    #[test]
    fn split_9_whatever_takes_a_number_of_replicas_is_reviewed() {
        for resource in ["clonesets", "clonesets/scale"] {
            let is_asked = |it: &Registration| {
                it.phase == Phase::Validating
                    && it.resources.contains(&resource)
                    && it.operations.contains(&Operation::Update)
                    && it.failure == FailurePolicy::Fail
            };
            assert!(registrations().iter().any(is_asked), "{resource}");
        }
    }

    #[test]
    fn the_table_of_webhooks_has_no_fault() {
        assert_eq!(registration::check(&registrations()), Vec::<String>::new());
    }

    #[test]
    fn del_4_deletions_of_every_kind_that_is_placed_are_reviewed_in_both_versions() {
        let all = registrations();
        for resource in ["clonesets", "imagepulljobs", "imagelistpulljobs"] {
            for version in ["v1alpha1", "v1beta1"] {
                let asks = |it: &&Registration| {
                    it.phase == Phase::Validating
                        && it.operations.contains(&Operation::Delete)
                        && it.resources.contains(&resource)
                        && it.versions.contains(&version)
                };
                assert!(all.iter().any(|it| asks(&it)), "{resource} {version}");
            }
        }
    }
}
