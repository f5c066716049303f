//! What no override may change, because it belongs to the fleet (OV-1). The hub refuses policies by it and agents refuse
//! plans by it: what one lets through and the other does not would stand as a policy that no cluster can carry out.

use super::{GROUP, PatchOperation, PatchStep};

/// The fleet's numbers, in the words of every kind and version: promises to the whole fleet hang on them.
pub const NUMBERS: &[&[&str]] = &[
    &["spec", "replicas"],
    &["spec", "parallelism"],
    &["spec", "completionPolicy", "activeDeadlineSeconds"],
    &["spec", "completionPolicy", "ttlSecondsAfterFinished"],
    &["spec", "scaleStrategy", "podsToDelete"],
    &["spec", "scaleStrategy", "maxUnavailable"],
    &["spec", "updateStrategy", "partition"],
    &["spec", "updateStrategy", "maxUnavailable"],
    &["spec", "updateStrategy", "maxSurge"],
    &["spec", "updateStrategy", "paused"],
    &["spec", "updateStrategy", "rollingUpdate", "partition"],
    &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"],
    &["spec", "updateStrategy", "rollingUpdate", "maxSurge"],
    &["spec", "updateStrategy", "rollingUpdate", "paused"],
];

/// What an object is, and what only API servers and agents write.
const IDENTITY: &[&[&str]] = &[
    &["apiVersion"],
    &["kind"],
    &["status"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "uid"],
    &["metadata", "resourceVersion"],
    &["metadata", "ownerReferences"],
    &["metadata", "finalizers"],
    &["metadata", "managedFields"],
    &["spec", "selector"],
];

/// A path of a step that belongs to the fleet and would be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Touched<'a> {
    /// The path as the step says it.
    pub path: &'a str,
    /// The path of the fleet: that one, something that holds it, or something inside it.
    pub owned: String,
}

/// The first path of `step` that belongs to the fleet and would be changed. Reading is free: a test or the source of a
/// copy changes nothing.
pub fn touched(step: &PatchStep) -> Option<Touched<'_>> {
    let from = step.from.as_deref().filter(|_| step.op == PatchOperation::Move);
    let path = (step.op != PatchOperation::Test).then_some(step.path.as_str());
    let mut paths = path.into_iter().chain(from);
    paths.find_map(|path| owned(path).map(|owned| Touched { path, owned }))
}

/// The path of the fleet that a change at `pointer` would touch: that one itself, something inside it, or something that
/// holds it.
fn owned(pointer: &str) -> Option<String> {
    let tokens: Vec<String> = pointer.trim_end_matches('/').split('/').skip(1).map(decoded).collect();
    if let Some(path) = NUMBERS.iter().chain(IDENTITY).find(|it| it.iter().zip(&tokens).all(|(a, b)| *a == b))
    {
        return Some(format!("/{}", path.join("/")));
    }
    // Our own annotations are marks, and must be what we say they are.
    match &tokens[..] {
        [metadata, annotations] if metadata == "metadata" && annotations == "annotations" => {
            Some("/metadata/annotations".to_owned())
        }
        [metadata, annotations, key, ..]
            if metadata == "metadata" && annotations == "annotations" && is_mark(key) =>
        {
            Some(format!("/metadata/annotations/{}", key.replace('~', "~0").replace('/', "~1")))
        }
        _ => None,
    }
}

/// Whether an annotation is one of the fleet's.
fn is_mark(key: &str) -> bool {
    key.split_once('/').is_some_and(|it| it.0 == GROUP)
}

/// A token of a JSON pointer as the key it stands for.
fn decoded(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(op: PatchOperation, path: &str, from: Option<&str>) -> PatchStep {
        PatchStep { op, path: path.to_owned(), from: from.map(str::to_owned), value: None }
    }

    fn changed(path: &str) -> Option<String> {
        touched(&step(PatchOperation::Add, path, None)).map(|it| it.owned)
    }

    #[test]
    fn ov_1_what_is_the_fleets_what_holds_it_and_what_is_inside_it_is_touched() {
        assert_eq!(changed("/spec/replicas").as_deref(), Some("/spec/replicas"));
        assert_eq!(changed("/spec/selector/matchLabels/app").as_deref(), Some("/spec/selector"));
        for outer in ["", "/", "/spec", "/spec/", "/metadata", "/spec/updateStrategy/rollingUpdate"] {
            assert!(changed(outer).is_some(), "{outer}");
        }
        assert_eq!(changed("/metadata/annotations").as_deref(), Some("/metadata/annotations"));
        let mark = "/metadata/annotations/fleet.kruise.io~1hub-uid";
        assert_eq!(changed(mark).as_deref(), Some(mark));
        for free in
            ["/metadata/annotations/team", "/metadata/labels", "/spec/template/spec", "/spec/replicasX"]
        {
            assert_eq!(changed(free), None, "{free}");
        }
    }

    #[test]
    fn ov_1_a_move_takes_away_and_a_copy_or_a_test_does_not() {
        let free = "/spec/template/x";
        let from = Some("/spec/replicas");
        let moved = step(PatchOperation::Move, free, from);
        assert_eq!(touched(&moved).map(|it| it.path), Some("/spec/replicas"));
        assert_eq!(touched(&step(PatchOperation::Copy, free, from)), None);
        assert_eq!(touched(&step(PatchOperation::Test, "/kind", None)), None);
    }
}
