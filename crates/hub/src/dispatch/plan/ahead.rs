//! Images that are downloaded ahead of an update in place (REL-11). Pure.
//!
//! When that is due, `scheduling` says in the ledger: it counts over the fleet which pods of the target are well. What comes of it
//! is an ImagePullJob on the hub for each image that changes. It belongs to the CloneSet, is placed by the same policy, and its
//! parallelism is the fleet's like that of any other (IPJ-1). Members download nothing by themselves for what a hub gave them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kruise_core::{
    api::{
        cloneset::v1beta1::RollingUpdateCloneSetStrategy,
        fleet::{FederatedObject, binding::Ledger as Saved, keys},
    },
    controllers::cloneset::predownload::{Downloads, changed_images, is_worth_it},
    pod::inplace::{self, RevisionView},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::names;

/// The annotation of a job that says under which number of a leadership it was made.
const TERM: &str = "fleet.kruise.io/term";
/// The longest name of an object.
const LONGEST_NAME: usize = 253;

/// What is to be done about downloads, before the ledger says that it was done: so a crash in between repeats it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ahead {
    /// Begin those of a release; those of an earlier one are over.
    Begin {
        /// The name of the body that pods come from.
        stable: String,
        /// The hash of the revision that they go to.
        target: String,
    },
    /// They are over.
    End,
}

/// What has to happen before `after` may be saved in place of `before`.
pub(super) fn step(before: &Saved, after: &Saved) -> Option<Ahead> {
    let hash = |it: &Saved| it.pre_download.as_ref().map(|it| it.hash.clone());
    match (hash(before), hash(after)) {
        (before, after) if before == after => None,
        (_, None) => Some(Ahead::End),
        (_, Some(target)) => {
            let stable = after.stable.as_ref().map(|it| it.name.clone()).unwrap_or_default();
            Some(Ahead::Begin { stable, target })
        }
    }
}

/// Whether an object is such a download.
pub fn is_download(object: &Value) -> bool {
    object["metadata"]["labels"][keys::DOWNLOADS_FOR].is_string()
}

/// Whether a later leadership than this one made a job: then it is not this one's to end (PROTO-3).
pub fn is_of_later(job: &ObjectMeta, term: u64) -> bool {
    let made = job.annotations.as_ref().and_then(|it| it.get(TERM));
    // Those of older versions say nothing.
    made.is_some_and(|it| it.parse::<u64>().is_ok_and(|it| it > term))
}

/// A release, as far as downloads go.
#[derive(Debug)]
pub struct Release<'a> {
    /// The CloneSet, as it is stored.
    pub object: &'a Value,
    /// Which one it is.
    pub reference: &'a FederatedObject,
    /// What a reference to it says.
    pub owner: &'a OwnerReference,
    /// The hash of the revision that pods go to.
    pub target: &'a str,
    /// The body that they come from.
    pub stable: &'a Value,
    /// The number of the leadership that makes the jobs.
    pub term: u64,
}

impl Release<'_> {
    /// The jobs to make: none where they would not help. What cannot be done is said.
    pub fn jobs(&self) -> Result<Vec<Value>, String> {
        let rolling = "/spec/updateStrategy/rollingUpdate";
        let Some(strategy) = self.read::<RollingUpdateCloneSetStrategy>(rolling) else {
            return Ok(Vec::new());
        };
        let replicas = self.read("/spec/replicas").unwrap_or(1);
        if !is_worth_it(&strategy, replicas) || !self.is_in_place() {
            return Ok(Vec::new());
        }
        let Some(selector) = self.read::<LabelSelector>("/spec/selector") else { return Ok(Vec::new()) };
        let template = &self.object["spec"]["template"];
        let images = changed_images(&self.stable["spec"]["template"], template);
        // Names of revisions differ between members, so all pods are meant; an image that is there costs nothing.
        let downloads = Downloads {
            owner: self.owner,
            namespace: self.reference.namespace.as_deref().unwrap_or_default(),
            revision: &format!("{}-{}", self.reference.name, self.target),
            hash: self.target,
            selector: &selector,
            template,
            strategy: &strategy,
        };
        let mut jobs = downloads.jobs(&images);
        for job in &mut jobs {
            job["metadata"]["labels"][keys::DOWNLOADS_FOR] = json!(self.reference.uid);
            job["metadata"]["annotations"][TERM] = json!(self.term.to_string());
            job["metadata"]["name"] = named(&job["metadata"]["name"]);
            job["spec"]["parallelism"] = whole(&job["spec"]["parallelism"])?;
        }
        Ok(jobs)
    }

    /// Whether pods get there without being replaced.
    fn is_in_place(&self) -> bool {
        let data = |it: &Value| json!({"spec": {"template": it["spec"]["template"]}});
        let (old, new) = (data(self.stable), data(self.object));
        let view = |data| RevisionView { name: "", data, claims_hash: None };
        inplace::calculate(&view(&old), &view(&new), &inplace::Options::default()).is_some()
    }

    fn read<T: DeserializeOwned>(&self, pointer: &str) -> Option<T> {
        self.object.pointer(pointer).and_then(|it| serde_json::from_value(it.clone()).ok())
    }
}

/// The name of a job, which may be too long with everything in it.
fn named(name: &Value) -> Value {
    let name = name.as_str().unwrap_or_default();
    if name.len() > LONGEST_NAME { names::fitted(name).into() } else { name.into() }
}

/// CloneSets may write a number as text, and in an annotation as a percentage; jobs may not.
fn whole(parallelism: &Value) -> Result<Value, String> {
    let Some(text) = parallelism.as_str() else { return Ok(parallelism.clone()) };
    let number = text.parse::<u32>().map(Value::from);
    number.map_err(|_| {
        let path = "spec.updateStrategy.rollingUpdate.inPlaceUpdateStrategy.imagePreDownloadParallelism";
        format!("{path}: {text:?} is no whole number; images are not downloaded ahead")
    })
}

#[cfg(test)]
mod tests {
    use kruise_core::api::fleet::assignment::RevisionRef;

    use super::*;

    fn ledger(pre_download: Option<&str>) -> Saved {
        let revision = |hash: &str| RevisionRef {
            name: format!("body-{hash}"),
            hash: hash.to_owned(),
            ..RevisionRef::default()
        };
        Saved { stable: Some(revision("1")), pre_download: pre_download.map(revision), ..Saved::default() }
    }

    #[test]
    fn rel_11_downloads_begin_and_end_with_what_the_ledger_says() {
        let begin = |target: &str| Some(Ahead::Begin { stable: "body-1".into(), target: target.into() });
        for (before, after, expected) in [
            (None, None, None),
            (None, Some("2"), begin("2")),
            (Some("2"), Some("2"), None),
            (Some("2"), Some("3"), begin("3")),
            (Some("3"), None, Some(Ahead::End)),
        ] {
            assert_eq!(step(&ledger(before), &ledger(after)), expected, "{before:?} {after:?}");
        }
    }

    fn jobs(change: impl FnOnce(&mut Value, &mut Value)) -> Result<Vec<Value>, String> {
        let containers =
            |image: &str| json!([{"name": "app", "image": image}, {"name": "log", "image": "log:1"}]);
        let mut stable = json!({"spec": {"template": {"spec": {"containers": containers("app:1")}}}});
        let mut object = json!({"spec": {
            "replicas": 10,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"spec": {"containers": containers("app:2")}},
            "updateStrategy": {"rollingUpdate": {
                "podUpdatePolicy": "InPlaceIfPossible",
                "inPlaceUpdateStrategy": {"imagePreDownloadParallelism": 5},
            }},
        }});
        change(&mut object, &mut stable);
        let reference = FederatedObject {
            api_version: "apps.kruise.io/v1beta1".into(),
            kind: "CloneSet".into(),
            namespace: Some("shop".into()),
            name: "web".into(),
            uid: "u".into(),
        };
        let release = Release {
            object: &object,
            reference: &reference,
            owner: &OwnerReference { name: "web".into(), ..OwnerReference::default() },
            target: "2",
            stable: &stable,
            term: 4,
        };
        release.jobs()
    }

    #[test]
    fn rel_11_each_image_that_changes_is_a_job_of_the_fleet() {
        let jobs = jobs(|_, _| {}).unwrap();
        let [job] = &jobs[..] else { panic!("{jobs:?}") };
        assert_eq!((&job["metadata"]["name"], &job["spec"]["image"]), (&json!("web-2-app"), &json!("app:2")));
        assert_eq!(job["spec"]["parallelism"], 5, "over the fleet");
        assert_eq!(job["spec"]["podSelector"], json!({"matchLabels": {"app": "web"}}));
        assert_eq!(job["metadata"]["labels"][keys::DOWNLOADS_FOR], "u");
        assert_eq!(job["metadata"]["ownerReferences"][0]["name"], "web");
    }

    #[test]
    fn proto_3_a_job_of_a_later_leadership_is_not_ended_by_an_earlier_one() {
        let job = jobs(|_, _| {}).unwrap().remove(0);
        let meta: ObjectMeta = serde_json::from_value(job["metadata"].clone()).unwrap();
        assert!(is_of_later(&meta, 3) && !is_of_later(&meta, 4) && !is_of_later(&meta, 5));
        assert!(!is_of_later(&ObjectMeta::default(), 0), "one of an older version");
    }

    #[test]
    fn rel_11_where_they_would_not_help_there_are_none() {
        type Change = fn(&mut Value);
        let cases: [(&str, Change); 4] = [
            ("few replicas", |it| it["replicas"] = json!(3)),
            ("pods are replaced", |it| {
                it["updateStrategy"]["rollingUpdate"]["podUpdatePolicy"] = json!("ReCreate");
            }),
            ("not in place", |it| it["template"]["spec"]["hostNetwork"] = json!(true)),
            ("all at once", |it| {
                it["updateStrategy"]["rollingUpdate"]["maxUnavailable"] = json!("100%");
            }),
        ];
        for (what, change) in cases {
            assert_eq!(jobs(|it, _| change(&mut it["spec"])), Ok(Vec::new()), "{what}");
        }
    }

    #[test]
    fn rel_11_and_ipj_6_jobs_name_the_secrets_of_the_template() {
        let jobs = jobs(|it, stable| {
            let with_secret =
                |it: &mut Value| it["spec"]["template"]["spec"]["imagePullSecrets"] = json!([{"name": "s"}]);
            with_secret(it);
            with_secret(stable);
        });
        assert_eq!(jobs.unwrap()[0]["spec"]["pullSecrets"], json!(["s"]));
    }

    #[test]
    fn rel_11_a_parallelism_that_jobs_cannot_have_is_said() {
        let with = |parallelism: Value| {
            jobs(|it, _| {
                let strategy = &mut it["spec"]["updateStrategy"]["rollingUpdate"]["inPlaceUpdateStrategy"];
                strategy["imagePreDownloadParallelism"] = parallelism;
            })
        };
        assert_eq!(with(json!("50")).unwrap()[0]["spec"]["parallelism"], 50);
        let refused = with(json!("50%")).unwrap_err();
        assert!(refused.contains("imagePreDownloadParallelism: \"50%\" is no whole number"), "{refused}");
    }
}
