//! What the node reports, and how often.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};
use tokio::time::Instant;

use super::plan::{TagKey, finished};
use crate::api::node_image::{ImageStatus, ImageTagStatus, NodeImageStatus, v1beta1::NodeImageSpec};

/// A new status may be written this often, on average.
const EVERY: Duration = Duration::from_secs(2);

/// This many writes may follow one another at once.
const BURST: u32 = 5;

/// Phases of a download.
pub mod phases {
    /// Not begun: other downloads are before it.
    pub const WAITING: &str = "Waiting";
    /// Under way.
    pub const PULLING: &str = "Pulling";
    /// The node has the image.
    pub const SUCCEEDED: &str = "Succeeded";
    /// The node could not get it.
    pub const FAILED: &str = "Failed";
}

/// The status for `spec`: what workers report, and what was finished before.
pub fn build(
    spec: &NodeImageSpec,
    previous: Option<&NodeImageStatus>,
    reports: &BTreeMap<TagKey, ImageTagStatus>,
) -> NodeImageStatus {
    let mut status = NodeImageStatus {
        first_sync_status: previous.and_then(|it| it.first_sync_status.clone()),
        ..NodeImageStatus::default()
    };
    for (name, image) in &spec.images {
        let mut tags = BTreeMap::new();
        for tag in &image.tags {
            status.desired += 1;
            let report = finished(previous, name, tag)
                .or_else(|| reports.get(&TagKey::new(name, &tag.tag)).filter(|it| it.version == tag.version));
            if let Some(report) = report {
                tags.entry(&tag.tag).or_insert_with(|| report.clone());
            }
        }
        for report in tags.values() {
            match report.phase.as_str() {
                phases::WAITING => status.waiting += 1,
                phases::PULLING => status.pulling += 1,
                phases::SUCCEEDED => status.succeeded += 1,
                phases::FAILED => status.failed += 1,
                _ => {}
            }
        }
        if !tags.is_empty() {
            let tags = tags.into_values().collect();
            status.image_statuses.insert(name.clone(), ImageStatus { tags });
        }
    }
    status
}

/// Whether something is still to be reported.
pub fn is_in_progress(status: &NodeImageStatus) -> bool {
    status.succeeded + status.failed < status.desired
}

/// The merge patch that turns `old` into `new`, refused if the object has changed since `version`.
pub fn patch(old: Option<&NodeImageStatus>, new: &NodeImageStatus, version: &str) -> Value {
    let mut images: serde_json::Map<String, Value> =
        new.image_statuses.iter().map(|(name, it)| (name.clone(), json!(it))).collect();
    for gone in old.into_iter().flat_map(|it| it.image_statuses.keys()) {
        images.entry(gone.clone()).or_insert(Value::Null);
    }
    json!({
        "metadata": {"resourceVersion": version},
        "status": {
            "desired": new.desired,
            "succeeded": new.succeeded,
            "failed": new.failed,
            "pulling": new.pulling,
            "waiting": new.waiting,
            "imageStatuses": images,
        },
    })
}

/// Keeps a busy node from writing all the time. Time is an argument.
#[derive(Debug)]
pub struct WriteLimit {
    tokens: u32,
    /// When the last whole token was added.
    since: Instant,
}

impl WriteLimit {
    /// A limit that was never used.
    pub fn new(now: Instant) -> Self {
        Self { tokens: BURST, since: now }
    }

    /// Takes a token, or says how long to wait for one.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        while self.tokens < BURST && now.saturating_duration_since(self.since) >= EVERY {
            self.tokens += 1;
            self.since += EVERY;
        }
        if self.tokens == BURST {
            self.since = now;
        }
        match self.tokens {
            0 => Err(EVERY.saturating_sub(now.saturating_duration_since(self.since))),
            _ => {
                self.tokens -= 1;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::clock::Clock;

    fn spec(images: Value) -> NodeImageSpec {
        serde_json::from_value(json!({"images": images})).unwrap()
    }

    fn report(tag: &str, version: i64, phase: &str) -> ImageTagStatus {
        ImageTagStatus { tag: tag.into(), version, phase: phase.into(), ..ImageTagStatus::default() }
    }

    #[test]
    fn tags_are_counted_by_phase_and_sorted() {
        let spec = spec(
            json!({"a": {"tags": [{"tag": "3"}, {"tag": "2"}, {"tag": "1"}]}, "b": {"tags": [{"tag": "1"}]}}),
        );
        let reports = BTreeMap::from([
            (TagKey::new("a", "3"), report("3", 0, phases::PULLING)),
            (TagKey::new("a", "2"), report("2", 0, phases::WAITING)),
            (TagKey::new("a", "1"), report("1", 0, phases::SUCCEEDED)),
            (TagKey::new("b", "1"), report("1", 7, phases::FAILED)),
        ]);
        let status = build(&spec, None, &reports);
        assert_eq!(
            (status.desired, status.succeeded, status.failed, status.pulling, status.waiting),
            (4, 1, 0, 1, 1)
        );
        let tags: Vec<_> = status.image_statuses["a"].tags.iter().map(|it| it.tag.as_str()).collect();
        assert_eq!(tags, ["1", "2", "3"]);
        assert!(!status.image_statuses.contains_key("b"), "the report is about another version");
        assert!(is_in_progress(&status));
    }

    #[test]
    fn finished_entries_and_what_other_tools_wrote_are_kept_and_the_rest_goes() {
        let spec = spec(json!({"a": {"tags": [{"tag": "1", "version": 1}]}}));
        let previous: NodeImageStatus = serde_json::from_value(json!({
            "desired": 2, "succeeded": 2, "firstSyncStatus": {"status": "success"},
            "imageStatuses": {
                "a": {"tags": [{"tag": "1", "version": 1, "phase": "Succeeded", "completionTime": "2026-01-01T00:00:00Z"}]},
                "gone": {"tags": [{"tag": "1", "phase": "Succeeded", "completionTime": "2026-01-01T00:00:00Z"}]},
            },
        }))
        .unwrap();
        let status = build(&spec, Some(&previous), &BTreeMap::new());
        assert_eq!((status.desired, status.succeeded, is_in_progress(&status)), (1, 1, false));
        assert_eq!(status.first_sync_status, previous.first_sync_status);
        let patch = patch(Some(&previous), &status, "7");
        assert_eq!(patch["status"]["imageStatuses"]["gone"], Value::Null);
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert_eq!(patch["status"].get("firstSyncStatus"), None, "nobody touches it");
        assert_eq!(build(&spec, Some(&status), &BTreeMap::new()), status, "at rest nothing changes");
    }

    #[test]
    fn five_writes_at_once_and_then_one_every_two_seconds() {
        let start = Clock::system().instant();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let mut limit = WriteLimit::new(start);
        for _ in 0..5 {
            assert_eq!(limit.take(at(0)), Ok(()));
        }
        assert_eq!(limit.take(at(500)), Err(Duration::from_millis(1500)));
        assert_eq!(limit.take(at(2000)), Ok(()));
        assert_eq!(limit.take(at(2000)), Err(EVERY));
        assert_eq!(limit.take(at(4000)), Ok(()));
        for _ in 0..5 {
            assert_eq!(limit.take(at(60_000)), Ok(()));
        }
        assert!(limit.take(at(60_000)).is_err(), "unused tokens do not pile up");
    }
}
