//! Changes to one pod, as requests that are sent one after the other.

use serde_json::{Map, Value};

/// Which part of the pod a patch goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The pod itself: metadata and images.
    Main,
    /// `pods/status`: conditions.
    Status,
    /// `pods/resize`: cpu and memory of running containers.
    Resize,
}

/// What must still hold for a patch to be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pin {
    /// It is still the same pod. For changes that are right whatever else happened to the pod meanwhile.
    Uid,
    /// Nothing about the pod has changed since it was looked at (or since the patch before this one was answered). For
    /// conclusions from the pod's state, which a newer state may contradict.
    Version,
}

/// One request: a strategic merge patch.
#[derive(Debug, Clone, PartialEq)]
pub struct PodPatch {
    /// Where it goes.
    pub part: Part,
    /// What it presumes.
    pub pin: Pin,
    /// The patch, without `uid` and `resourceVersion`: the shell adds them as `pin` says.
    pub body: Value,
}

/// The same changes in as few requests as they need. Labels and annotations of a pod can be written together with its
/// conditions: a step that is half done for a moment, and its second request, are spared.
pub fn merged(patches: &[PodPatch]) -> Vec<PodPatch> {
    let mut merged: Vec<PodPatch> = Vec::with_capacity(patches.len());
    for patch in patches {
        match merged.last_mut() {
            Some(before) if go_together(before, patch) => before.take_in(patch),
            _ => merged.push(patch.clone()),
        }
    }
    merged
}

fn go_together(one: &PodPatch, other: &PodPatch) -> bool {
    one.part != Part::Resize && (one.part == other.part || (one.is_mark() && other.is_mark()))
}

impl PodPatch {
    /// Whether the status endpoint takes it: of metadata, owners and finalizers are left to the pod itself.
    fn is_mark(&self) -> bool {
        let Some(fields) = self.body.as_object() else { return false };
        let is_plain = |it: &Value| {
            it.as_object().is_some_and(|it| it.keys().all(|it| it == "labels" || it == "annotations"))
        };
        match self.part {
            Part::Resize => false,
            Part::Main | Part::Status => {
                fields.iter().all(|(key, it)| key == "status" || (key == "metadata" && is_plain(it)))
            }
        }
    }

    fn take_in(&mut self, other: &Self) {
        if other.part == Part::Status {
            self.part = Part::Status;
        }
        if other.pin == Pin::Version {
            self.pin = Pin::Version;
        }
        lay_over(&mut self.body, &other.body);
    }
}

/// Lays `above` over `below`; lists, which are all lists of things to be merged by key, are joined.
fn lay_over(below: &mut Value, above: &Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                lay_over(below.entry(key.clone()).or_insert_with(|| empty_like(value)), value);
            }
        }
        (Value::Array(below), Value::Array(above)) => below.extend(above.iter().cloned()),
        (below, above) => *below = above.clone(),
    }
}

fn empty_like(value: &Value) -> Value {
    match value {
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patch(part: Part, pin: Pin, body: Value) -> PodPatch {
        PodPatch { part, pin, body }
    }

    #[test]
    fn conditions_and_marks_are_one_request() {
        let one = |kind: &str| {
            patch(Part::Status, Pin::Version, json!({"status": {"conditions": [{"type": kind}]}}))
        };
        let mark = patch(Part::Main, Pin::Uid, json!({"metadata": {"labels": {"a": "1"}}}));
        let merged = merged(&[one("A"), mark, one("B")]);
        let expected = json!({
            "metadata": {"labels": {"a": "1"}}, "status": {"conditions": [{"type": "A"}, {"type": "B"}]},
        });
        assert_eq!(merged, [patch(Part::Status, Pin::Version, expected)]);
    }

    #[test]
    fn what_only_the_pod_itself_takes_stays_a_request_of_its_own_and_in_order() {
        let status = patch(Part::Status, Pin::Version, json!({"status": {"conditions": [{"type": "A"}]}}));
        let resize = patch(Part::Resize, Pin::Version, json!({"spec": {}}));
        for metadata in [json!({"finalizers": ["x"]}), json!({"ownerReferences": []})] {
            let main = patch(Part::Main, Pin::Uid, json!({"metadata": metadata}));
            assert_eq!(merged(&[status.clone(), main.clone()]), [status.clone(), main]);
        }
        let image = patch(Part::Main, Pin::Version, json!({"metadata": {"labels": {}}, "spec": {}}));
        let all = [status, resize, image];
        assert_eq!(merged(&all), all);
    }

    #[test]
    fn changes_of_the_pod_itself_are_one_request_too() {
        let label = |key: &str| patch(Part::Main, Pin::Uid, json!({"metadata": {"labels": {key: null}}}));
        let expected = json!({"metadata": {"labels": {"a": null, "b": null}}});
        assert_eq!(merged(&[label("a"), label("b")]), [patch(Part::Main, Pin::Uid, expected)]);
        assert!(merged(&[]).is_empty());
    }
}
