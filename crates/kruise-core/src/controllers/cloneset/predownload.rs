//! Images ahead of an update in place: while the first pods are updated, the nodes of the others download.
//!
//! Whether anything of this happens at all is the caller's to say: gates PreDownloadImageForInPlaceUpdate and
//! KruiseDaemon, and not for objects that a hub assigned (their downloads are split over the fleet there).
//!
//! # Once per release
//!
//! A label on the revision remembers that its downloads were started, or that they would not help. Upstream never takes
//! it off, so a revision that is released a second time is not downloaded (openkruise/kruise#1419). Here a rollback,
//! which makes an older revision the newest again, takes both labels off in the same write: pass [`RELEASE_LABELS`] as
//! [`Wanted::forgotten`]. Keys and values of the labels stay upstream's.
//!
//! [`Wanted::forgotten`]: crate::revision::history::Wanted::forgotten

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::{
    apis::meta::v1::{LabelSelector, LabelSelectorRequirement, OwnerReference},
    util::intstr::IntOrString,
};
use scheduling::numbers::{IntOrPercent, Percent, Rounding, partition};
use serde_json::{Value, json};

use crate::{
    api::{
        cloneset::{
            CloneSetStatus, keys as cloneset_keys,
            v1beta1::{CloneSetPodUpdatePolicy, RollingUpdateCloneSetStrategy},
        },
        common::{InPlaceUpdateStrategy, keys},
    },
    runtime::cache::revision::RevisionLite,
};

/// Labels on revisions that speak of one release, and go when it is over.
pub const RELEASE_LABELS: &[&str] = &[keys::PREDOWNLOAD_CREATED, keys::PREDOWNLOAD_IGNORED];

/// With so few replicas an update is over before a download would be.
const FEW_REPLICAS: i32 = 3;

/// What a CloneSet is, as far as downloads go.
#[derive(Debug, Clone, Copy)]
pub struct Release<'a> {
    /// The controller reference to the CloneSet.
    pub owner: &'a OwnerReference,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its annotations.
    pub annotations: &'a BTreeMap<String, String>,
    /// `spec.replicas`.
    pub replicas: i32,
    /// `spec.selector`.
    pub selector: &'a LabelSelector,
    /// `spec.template`.
    pub template: &'a Value,
    /// `spec.updateStrategy.rollingUpdate`.
    pub strategy: Option<&'a RollingUpdateCloneSetStrategy>,
    /// Its status as stored.
    pub status: &'a CloneSetStatus,
    /// The revision that pods come from.
    pub current: &'a RevisionLite,
    /// The revision that pods go to.
    pub update: &'a RevisionLite,
}

/// What to do about downloads.
#[derive(Debug, Clone, PartialEq)]
pub enum PreDownload {
    /// Nothing, now.
    Nothing,
    /// Downloads would not help: label the update revision so.
    Ignore {
        /// The label; its value is `true`.
        label: &'static str,
    },
    /// Create these ImagePullJobs, then label the update revision. One that exists is a success. If one cannot be
    /// created, leave the label, so that the next pass tries again.
    CreateJobs {
        /// The jobs by container name; none if no image changed.
        jobs: Vec<Value>,
        /// The label; its value is `true`.
        label: &'static str,
    },
    /// The release is over: delete every ImagePullJob that this CloneSet controls.
    DeleteOwnedJobs,
}

/// What to do about downloads for this release. `can_update_in_place` is asked last: whether the step from the current
/// to the update revision can be made in place.
pub fn plan(release: &Release<'_>, can_update_in_place: impl FnOnce() -> bool) -> PreDownload {
    let update = release.update;
    if release.current.name() == update.name() {
        return PreDownload::DeleteOwnedJobs;
    }
    let is_same_release = release.status.update_revision == update.name();
    let ready = if is_same_release { release.status.updated_ready_replicas } else { 0 };
    if min_updated_ready(release) > u64::try_from(ready).unwrap_or(0)
        || RELEASE_LABELS.iter().any(|it| update.labels().contains_key(*it))
    {
        return PreDownload::Nothing;
    }

    match release.strategy {
        Some(strategy) if is_worth_it(strategy, release.replicas) && can_update_in_place() => {
            PreDownload::CreateJobs { jobs: jobs(release, strategy), label: keys::PREDOWNLOAD_CREATED }
        }
        _ => PreDownload::Ignore { label: keys::PREDOWNLOAD_IGNORED },
    }
}

/// The merge patch that puts `label` on a revision.
pub fn label_patch(label: &str) -> Value {
    json!({"metadata": {"labels": {label: "true"}}})
}

/// How many updated pods have to be ready first: the field of v1beta1, or the annotation, which may also be a percent
/// of the replicas (rounded up). What cannot be read is 0.
fn min_updated_ready(release: &Release<'_>) -> u64 {
    let field = in_place(release.strategy).and_then(|it| it.image_pre_download_min_updated_ready_pods);
    if let Some(number) = field {
        return u64::try_from(number).unwrap_or(0);
    }
    let text = release.annotations.get(cloneset_keys::PREDOWNLOAD_MIN_UPDATED_READY_PODS);
    let value = text.map(|it| it.parse().map_or_else(|_| IntOrString::String(it.clone()), IntOrString::Int));
    value.and_then(|it| number(&it)).map_or(0, |it| it.resolve(count(release.replicas), Rounding::Up))
}

/// Whether an update takes more than one step, so that later pods gain from a download.
pub fn is_worth_it(strategy: &RollingUpdateCloneSetStrategy, replicas: i32) -> bool {
    if strategy.pod_update_policy.unwrap_or_default() == CloneSetPodUpdatePolicy::ReCreate
        || replicas <= FEW_REPLICAS
    {
        return false;
    }
    let total = count(replicas);
    let kept = partition(strategy.partition.as_ref().and_then(number), total);
    let unavailable = match &strategy.max_unavailable {
        None => Percent::whole(20).of(total, Rounding::Down),
        Some(it) => number(it).map_or(0, |it| it.resolve(total, Rounding::Down)),
    };
    kept > 0 || unavailable < total
}

fn jobs(release: &Release<'_>, strategy: &RollingUpdateCloneSetStrategy) -> Vec<Value> {
    let hash = release.update.labels().get(keys::REVISION_HASH).cloned().unwrap_or_default();
    let mut selector = release.selector.clone();
    selector.match_expressions.get_or_insert_default().push(LabelSelectorRequirement {
        key: keys::CONTROLLER_REVISION_HASH.to_owned(),
        operator: "NotIn".to_owned(),
        values: Some(vec![release.update.name().to_owned(), hash.clone()]),
    });
    let (Some(old), Some(new)) = (release.current.data.template(), release.update.data.template()) else {
        return Vec::new();
    };
    let downloads = Downloads {
        owner: release.owner,
        namespace: release.namespace,
        revision: release.update.name(),
        hash: &hash,
        selector: &selector,
        template: release.template,
        strategy,
    };
    downloads.jobs(&changed_images(&old, &new))
}

/// Downloads of one release.
#[derive(Debug, Clone, Copy)]
pub struct Downloads<'a> {
    /// The controller reference to the CloneSet.
    pub owner: &'a OwnerReference,
    /// Its namespace.
    pub namespace: &'a str,
    /// The name of the revision that pods go to.
    pub revision: &'a str,
    /// Its hash.
    pub hash: &'a str,
    /// The pods whose nodes download.
    pub selector: &'a LabelSelector,
    /// `spec.template`.
    pub template: &'a Value,
    /// `spec.updateStrategy.rollingUpdate`.
    pub strategy: &'a RollingUpdateCloneSetStrategy,
}

impl Downloads<'_> {
    /// One ImagePullJob for each of these images, by container.
    pub fn jobs(&self, images: &BTreeMap<String, String>) -> Vec<Value> {
        let mut labels = texts(self.template, "/metadata/labels");
        labels.insert(keys::REVISION_HASH.to_owned(), self.hash.to_owned());
        let in_place = in_place(Some(self.strategy));
        let template = json!({
            "pullSecrets": pull_secrets(self.template),
            "podSelector": self.selector,
            "parallelism": in_place.and_then(|it| it.image_pre_download_parallelism.clone()).unwrap_or(IntOrString::Int(1)),
            "pullPolicy": {
                "backoffLimit": 1,
                "timeoutSeconds": in_place.and_then(|it| it.image_pre_download_timeout_seconds).unwrap_or(300),
            },
            "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 600},
            "sandboxConfig": {"labels": labels, "annotations": texts(self.template, "/metadata/annotations")},
        });
        let job = |(container, image): (&String, &String)| {
            let mut spec = template.clone();
            spec["image"] = image.as_str().into();
            json!({
                "apiVersion": "apps.kruise.io/v1beta1",
                "kind": "ImagePullJob",
                "metadata": {
                    "name": format!("{}-{container}", self.revision),
                    "namespace": self.namespace,
                    "labels": labels,
                    "ownerReferences": [self.owner],
                },
                "spec": spec,
            })
        };
        images.iter().map(job).collect()
    }
}

/// The images of the new template that its container of that name does not have yet.
pub fn changed_images(old: &Value, new: &Value) -> BTreeMap<String, String> {
    let old = images(old);
    images(new).into_iter().filter(|(name, image)| old.get(name) != Some(image)).collect()
}

fn images(template: &Value) -> BTreeMap<String, String> {
    let text = |container: &Value, key: &str| container[key].as_str().unwrap_or_default().to_owned();
    let containers = template.pointer("/spec/containers").and_then(Value::as_array);
    containers.into_iter().flatten().map(|it| (text(it, "name"), text(it, "image"))).collect()
}

fn pull_secrets(template: &Value) -> Vec<&str> {
    let secrets = template.pointer("/spec/imagePullSecrets").and_then(Value::as_array);
    secrets.into_iter().flatten().filter_map(|it| it["name"].as_str()).collect()
}

fn texts(template: &Value, pointer: &str) -> BTreeMap<String, String> {
    let map = template.pointer(pointer).and_then(Value::as_object);
    map.into_iter().flatten().filter_map(|it| Some((it.0.clone(), it.1.as_str()?.to_owned()))).collect()
}

fn in_place(strategy: Option<&RollingUpdateCloneSetStrategy>) -> Option<&InPlaceUpdateStrategy> {
    strategy?.in_place_update_strategy.as_ref()
}

fn number(value: &IntOrString) -> Option<IntOrPercent> {
    match value {
        IntOrString::Int(it) => IntOrPercent::int("", i64::from(*it)).ok(),
        IntOrString::String(it) => IntOrPercent::parse("", it).ok(),
    }
}

fn count(replicas: i32) -> u64 {
    u64::try_from(replicas).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::image_pull_job::v1beta1::ImagePullJob;

    fn revision(name: &str, image: &str, labels: &[&str]) -> RevisionLite {
        let mut all: BTreeMap<_, _> = labels.iter().map(|it| (it.to_string(), "true".to_owned())).collect();
        all.insert(keys::REVISION_HASH.into(), format!("hash-of-{name}"));
        let containers = json!([{"name": "app", "image": image}, {"name": "log", "image": "log:1"}]);
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": all},
            "data": {"spec": {"template": {"$patch": "replace", "spec": {"containers": containers}}}},
        }))
        .unwrap()
    }

    /// What differs from a release that is due: 5 replicas, in place, one at a time.
    #[derive(Clone)]
    struct Case {
        replicas: i32,
        strategy: Value,
        annotation: Option<&'static str>,
        ready: i32,
        observed: &'static str,
        current: RevisionLite,
        update: RevisionLite,
        in_place: bool,
    }

    fn case() -> Case {
        Case {
            replicas: 5,
            strategy: json!({"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1}),
            annotation: None,
            ready: 0,
            observed: "web-2",
            current: revision("web-1", "app:1", &[]),
            update: revision("web-2", "app:2", &[]),
            in_place: true,
        }
    }

    impl Case {
        fn with(mut self, strategy: &Value) -> Self {
            json_patch::merge(&mut self.strategy, strategy);
            self
        }

        fn plan(&self) -> PreDownload {
            let owner = OwnerReference {
                api_version: "apps.kruise.io/v1beta1".into(),
                kind: "CloneSet".into(),
                name: "web".into(),
                uid: "uid-1".into(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            };
            let annotation =
                |it: &str| (cloneset_keys::PREDOWNLOAD_MIN_UPDATED_READY_PODS.to_owned(), it.to_owned());
            let strategy: Option<RollingUpdateCloneSetStrategy> =
                serde_json::from_value(self.strategy.clone()).unwrap();
            let release = Release {
                owner: &owner,
                namespace: "shop",
                annotations: &self.annotation.map(annotation).into_iter().collect(),
                replicas: self.replicas,
                selector: &serde_json::from_value(json!({"matchLabels": {"app": "web"}})).unwrap(),
                template: &json!({
                    "metadata": {"labels": {"app": "web"}, "annotations": {"note": "x"}},
                    "spec": {"imagePullSecrets": [{"name": "s1"}, {"name": "s2"}]},
                }),
                strategy: strategy.as_ref(),
                status: &CloneSetStatus {
                    update_revision: self.observed.into(),
                    updated_ready_replicas: self.ready,
                    ..CloneSetStatus::default()
                },
                current: &self.current,
                update: &self.update,
            };
            plan(&release, || self.in_place)
        }

        fn jobs(&self) -> Vec<Value> {
            match self.plan() {
                PreDownload::CreateJobs { jobs, label } => {
                    assert_eq!(label, "apps.kruise.io/pre-predownload-created");
                    jobs
                }
                other => panic!("{other:?}"),
            }
        }
    }

    const IGNORE: PreDownload = PreDownload::Ignore { label: "apps.kruise.io/image-predownload-ignored" };

    #[test]
    fn a_changed_image_is_one_job() {
        let jobs = case().jobs();
        let labels = json!({"app": "web", "controller.kubernetes.io/hash": "hash-of-web-2"});
        assert_eq!(
            jobs,
            [json!({
                "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob",
                "metadata": {
                    "name": "web-2-app", "namespace": "shop", "labels": labels,
                    "ownerReferences": [{
                        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": "uid-1",
                        "controller": true, "blockOwnerDeletion": true,
                    }],
                },
                "spec": {
                    "image": "app:2", "pullSecrets": ["s1", "s2"],
                    "podSelector": {
                        "matchLabels": {"app": "web"},
                        "matchExpressions": [
                            {"key": "controller-revision-hash", "operator": "NotIn", "values": ["web-2", "hash-of-web-2"]},
                        ],
                    },
                    "parallelism": 1,
                    "pullPolicy": {"backoffLimit": 1, "timeoutSeconds": 300},
                    "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": 600},
                    "sandboxConfig": {"labels": labels, "annotations": {"note": "x"}},
                },
            })]
        );
        let typed: ImagePullJob = serde_json::from_value(jobs[0].clone()).unwrap();
        assert_eq!((typed.spec.image.as_str(), typed.spec.template.pull_secrets.len()), ("app:2", 2));
    }

    #[test]
    fn parallelism_and_timeout_are_the_users() {
        let strategy = json!({"partition": 1, "inPlaceUpdateStrategy": {"imagePreDownloadParallelism": 2, "imagePreDownloadTimeoutSeconds": 9}});
        let jobs = case().with(&strategy).jobs();
        assert_eq!(jobs.len(), 1);
        assert_eq!(
            (&jobs[0]["spec"]["parallelism"], &jobs[0]["spec"]["pullPolicy"]["timeoutSeconds"]),
            (&json!(2), &json!(9))
        );
    }

    #[test]
    fn a_new_container_is_downloaded_and_an_unchanged_one_is_not() {
        let mut case = case();
        case.current.data = serde_json::from_value(
            json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}}}),
        )
        .unwrap();
        let names: Vec<_> = case.jobs().iter().map(|it| it["metadata"]["name"].clone()).collect();
        assert_eq!(names, ["web-2-log"]);
        case.current = revision("web-1", "app:2", &[]);
        assert!(case.jobs().is_empty(), "labelled all the same");
        case.current.data = serde_json::from_value(json!(null)).unwrap();
        assert!(case.jobs().is_empty());
    }

    #[test]
    fn what_is_labelled_is_not_done_again() {
        for label in RELEASE_LABELS {
            let case = Case { update: revision("web-2", "app:2", &[label]), ..case() };
            assert_eq!(case.plan(), PreDownload::Nothing);
        }
        assert_eq!(label_patch("l"), json!({"metadata": {"labels": {"l": "true"}}}));
    }

    #[test]
    fn a_release_that_gains_nothing_is_ignored() {
        let ignored = [
            Case { strategy: Value::Null, ..case() },
            case().with(&json!({"podUpdatePolicy": "ReCreate"})),
            case().with(&json!({"podUpdatePolicy": null})),
            Case { replicas: 3, ..case() },
            Case { replicas: 0, ..case() },
            Case { replicas: -1, ..case() },
            Case { in_place: false, ..case() },
            case().with(&json!({"maxUnavailable": "100%"})),
            case().with(&json!({"maxUnavailable": 5, "partition": 0})),
            case().with(&json!({"maxUnavailable": 7, "partition": "0%"})),
        ];
        for (index, case) in ignored.iter().enumerate() {
            assert_eq!(case.plan(), IGNORE, "{index}");
        }
    }

    #[test]
    fn more_than_one_step_is_worth_a_download() {
        let due = [
            Case { replicas: 4, ..case() },
            case().with(&json!({"podUpdatePolicy": "InPlaceOnly"})),
            case().with(&json!({"maxUnavailable": null})),
            // 99% of 5 is 4.95: four of five.
            case().with(&json!({"maxUnavailable": "99%"})),
            case().with(&json!({"maxUnavailable": "100%", "partition": 1})),
            case().with(&json!({"maxUnavailable": "100%", "partition": "10%"})),
        ];
        for (index, case) in due.iter().enumerate() {
            assert_eq!(case.jobs().len(), 1, "{index}");
        }
    }

    #[test]
    fn downloads_wait_for_the_first_updated_pods() {
        let field =
            |need: i32| json!({"inPlaceUpdateStrategy": {"imagePreDownloadMinUpdatedReadyPods": need}});
        assert_eq!(Case { ready: 1, ..case().with(&field(2)) }.plan(), PreDownload::Nothing);
        assert_eq!(Case { ready: 2, ..case().with(&field(2)) }.jobs().len(), 1);
        // Ready pods of another release do not count.
        assert_eq!(
            Case { ready: 5, observed: "web-1", ..case().with(&field(2)) }.plan(),
            PreDownload::Nothing
        );
        // Nothing is labelled as ignored before it is due.
        assert_eq!(Case { replicas: 3, ..case().with(&field(2)) }.plan(), PreDownload::Nothing);
    }

    #[test]
    fn the_wait_may_be_a_percent_of_replicas_rounded_up() {
        for (annotation, ready, is_due) in [
            ("2", 1, false),
            ("2", 2, true),
            ("30%", 1, false),
            ("30%", 2, true),
            ("100%", 4, false),
            ("100%", 5, true),
            ("0%", 0, true),
            ("some", 0, true),
            ("-1", 0, true),
        ] {
            let case = Case { annotation: Some(annotation), ready, ..case() };
            assert_eq!(matches!(case.plan(), PreDownload::CreateJobs { .. }), is_due, "{annotation} {ready}");
        }
        let field = json!({"inPlaceUpdateStrategy": {"imagePreDownloadMinUpdatedReadyPods": 1}});
        let case = Case { annotation: Some("100%"), ready: 1, ..case().with(&field) };
        assert_eq!(case.jobs().len(), 1, "the field wins");
    }

    #[test]
    fn when_the_release_is_over_jobs_go() {
        let over = Case { current: revision("web-2", "app:2", &[]), in_place: false, ..case() };
        assert_eq!(over.plan(), PreDownload::DeleteOwnedJobs);
    }

    /// openkruise/kruise#1419.
    #[test]
    fn a_revision_that_is_released_again_is_downloaded_again() {
        use crate::revision::history::{Choice, Wanted, choose, refresh_patch};

        let (old, new) =
            (revision("web-1", "app:1", &[keys::PREDOWNLOAD_CREATED]), revision("web-2", "app:2", &[]));
        let wanted = Wanted {
            namespace: "shop".into(),
            owner: OwnerReference::default(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            refreshed: BTreeMap::new(),
            forgotten: RELEASE_LABELS,
            data: old.data.clone(),
        };
        let Choice::Refresh { revision, annotations, forgotten, .. } = choose(&[&old, &new], &wanted, 0)
        else {
            panic!()
        };
        let patch = refresh_patch(revision, &annotations, &forgotten);
        assert_eq!(patch["metadata"]["labels"], json!({"apps.kruise.io/pre-predownload-created": null}));

        let mut object = json!({"metadata": old.metadata, "data": serde_json::from_str::<Value>(old.data.as_str()).unwrap()});
        json_patch::merge(&mut object, &patch);
        let back = Case {
            current: new,
            update: serde_json::from_value(object).unwrap(),
            observed: "web-1",
            ..case()
        };
        assert_eq!(back.jobs().len(), 1);
    }
}
