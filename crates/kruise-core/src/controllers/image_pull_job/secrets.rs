//! Copies of pull secrets: which one serves a job, and which ones it no longer needs.
//!
//! Daemons may read one namespace only, so secrets of jobs are copied there. One copy serves every job that names the
//! same secret; the jobs are listed on it, and it goes with the last of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{
    api::image_pull_job::{keys, v1beta1::ImagePullJob},
    runtime::key::Key,
};

/// For how many seconds a finished job still uses its copies. Jobs with the same secrets often follow each other, and
/// where the image is on the nodes already a job is over before anyone who looks once a second has seen a copy.
const KEPT: i64 = 5;

/// A copy, as far as its metadata tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// Its name in the daemons' namespace.
    pub name: String,
    /// The secret it was made from.
    pub source: String,
    /// The jobs that use it.
    pub references: BTreeSet<String>,
    /// How it is managed, as the daemon is told.
    pub mode: String,
}

impl Copy {
    /// Reads the annotations; nothing if it is no copy, or on its way out.
    pub fn read(metadata: &ObjectMeta) -> Option<Self> {
        let annotation = |key: &str| metadata.annotations.as_ref()?.get(key).cloned();
        if metadata.deletion_timestamp.is_some() {
            return None;
        }
        Some(Self {
            name: metadata.name.clone()?,
            source: annotation(keys::SECRET_SOURCE)?,
            references: read_references(&annotation(keys::SECRET_REFERENCES).unwrap_or_default()),
            mode: annotation(keys::SECRET_MODE).unwrap_or_default(),
        })
    }
}

/// What a job does about copies.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The copy for each secret that the job names; none where one has to be made.
    pub wanted: BTreeMap<String, Option<Copy>>,
    /// Copies that the job uses and no longer needs.
    pub release: Vec<Copy>,
}

/// How much longer a job that is over uses its copies.
pub fn kept_for(job: &ImagePullJob, now: Timestamp) -> Option<Duration> {
    let template = &job.spec.template;
    if job.metadata.deletion_timestamp.is_some() || template.pull_secrets.is_empty() {
        return None;
    }
    let over = job.status.as_ref().and_then(|it| it.completion_time.as_ref())?.0;
    // No longer than the job itself is there.
    let own = template.completion_policy.ttl_seconds_after_finished.map_or(KEPT, i64::from);
    let left = SignedDuration::from_secs(own.min(KEPT)) - now.duration_since(over);
    Duration::try_from(left).ok().filter(|it| !it.is_zero())
}

/// Sorts copies out for the job `job` that wants `sources`, both as `namespace/name`; none if it is over.
pub fn claims(job: &str, sources: &BTreeSet<String>, copies: &[Copy]) -> Claims {
    let mut claims =
        Claims { wanted: sources.iter().map(|it| (it.clone(), None)).collect(), release: Vec::new() };
    let mut sorted: Vec<&Copy> = copies.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    for copy in sorted {
        let is_used = copy.references.contains(job);
        match claims.wanted.get_mut(&copy.source) {
            // The first one serves, unless the job uses another one already.
            Some(chosen) if chosen.is_none() || is_used => *chosen = Some(copy.clone()),
            Some(_) => {}
            None if is_used => claims.release.push(copy.clone()),
            None => {}
        }
    }
    claims
}

/// The name of a new copy. Always the same for one secret, so that trying again makes no second one.
pub fn copy_name(source: &Key) -> String {
    // FNV-1a over the secret's full name.
    let hash = source
        .to_string()
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    // Names of secrets have at most 253 characters; the hash tells apart what is cut off.
    let stem: String = source.name.chars().take(240).collect();
    format!("{}-{:06x}", stem.trim_end_matches(['.', '-']), hash & 0xff_ffff)
}

/// The jobs listed in an annotation.
pub fn read_references(text: &str) -> BTreeSet<String> {
    text.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

/// The annotation that lists these jobs.
pub fn write_references(jobs: &BTreeSet<String>) -> String {
    jobs.iter().cloned().collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn copy(name: &str, jobs: &[&str]) -> Copy {
        Copy {
            name: name.into(),
            source: "ns/source".into(),
            references: jobs.iter().map(|it| (*it).to_owned()).collect(),
            mode: "batch".into(),
        }
    }

    fn sources(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|it| (*it).to_owned()).collect()
    }

    #[test]
    fn the_first_copy_serves_unless_another_is_in_use() {
        let free: Vec<Copy> = ["c", "a", "b"].iter().map(|it| copy(it, &[])).collect();
        let name = |copies: &[Copy]| {
            claims("ns/j", &sources(&["ns/source"]), copies).wanted["ns/source"].clone().unwrap().name
        };
        assert_eq!(name(&free), "a");
        let used: Vec<Copy> = (1..7)
            .map(|it| copy(&format!("target-secret-{it}"), if it > 3 { &["ns/j"] } else { &[] }))
            .collect();
        assert_eq!(name(&used), "target-secret-6");
        assert_eq!(claims("ns/j", &sources(&["ns/other"]), &free).wanted["ns/other"], None);
    }

    #[test]
    fn what_is_no_longer_wanted_is_released_and_copies_of_others_are_not_touched() {
        let copies = [copy("mine", &["ns/j", "ns/k"]), copy("other", &["ns/k"])];
        let over = claims("ns/j", &sources(&[]), &copies);
        assert_eq!((over.wanted.len(), over.release), (0, vec![copies[0].clone()]));
    }

    #[test]
    fn only_copies_are_read_as_copies() {
        let read = |it: serde_json::Value| Copy::read(&serde_json::from_value(it).unwrap());
        let annotations = json!({"imagepulljobs.kruise.io/source-key": "ns/source", "imagepulljobs.kruise.io/references": "ns/a,ns/b"});
        let old = read(json!({"name": "x", "annotations": annotations})).unwrap();
        assert_eq!(
            (old.references.len(), old.mode.as_str()),
            (2, ""),
            "of a release before copies were shared"
        );
        assert_eq!(read(json!({"name": "x"})), None);
        assert_eq!(
            read(
                json!({"name": "x", "annotations": annotations, "deletionTimestamp": "2026-01-01T00:00:00Z"})
            ),
            None
        );
    }

    #[test]
    fn names_of_copies_are_stable_short_and_different() {
        let name = copy_name(&Key::new("ns", "registry"));
        assert_eq!(name, copy_name(&Key::new("ns", "registry")));
        assert!(name.starts_with("registry-") && name.len() == "registry-".len() + 6, "{name}");
        assert_ne!(name, copy_name(&Key::new("other", "registry")));
        assert!(copy_name(&Key::new("ns", &"a".repeat(253))).len() <= 253);
    }

    #[test]
    fn references_are_sorted_and_read_back() {
        let jobs = sources(&["b/x", "a/y"]);
        assert_eq!(write_references(&jobs), "a/y,b/x");
        assert_eq!(read_references("a/y,b/x"), jobs);
        assert!(read_references("").is_empty());
    }
}
