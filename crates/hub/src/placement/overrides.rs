//! What differs in one cluster: the policy's overrides as one list of patches, and the registries of its images (OV-1).

use std::fmt;

use json_patch::Patch;
use kruise_core::api::fleet::{
    PatchStep,
    keys::features,
    policy::{ImageRegistry, Placement},
};
use serde_json::Value;

use super::select::{ClusterFacts, selects};

/// What a policy changes in one cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// Changes to the body.
    pub patches: Vec<PatchStep>,
    /// Registries that images come from instead. The agent looks for the images: those of the target are not those of the stable
    /// revision, and a cluster may have both.
    pub registries: Vec<ImageRegistry>,
}

/// An override that does not fit the object: this cluster cannot have it, others go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// Place of the override in the policy.
    pub place: usize,
    /// What does not fit.
    pub message: String,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spec.overrides[{}] does not apply: {}", self.place, self.message)
    }
}

impl std::error::Error for Unfit {}

/// The changes to `body` in one cluster: every override that selects it, in the order of the policy. Patches are tried here, so
/// that what an agent gets does apply.
pub fn for_cluster(placement: &Placement, cluster: &ClusterFacts, body: &Value) -> Result<Changes, Unfit> {
    let mut changes = Changes::default();
    let mut changed = body.clone();
    for (place, it) in placement.overrides.iter().enumerate() {
        if !selects(&it.clusters, cluster) {
            continue;
        }
        apply(&mut changed, &it.patches).map_err(|message| Unfit { place, message })?;
        // An agent that does not know the field would run the images as they are (HA-6).
        if !it.image_registries.is_empty() && !cluster.can(features::IMAGE_REGISTRIES) {
            let message = "the cluster's agent is too old for imageRegistries; upgrade it".to_owned();
            return Err(Unfit { place, message });
        }
        changes.patches.extend(it.patches.iter().cloned());
        changes.registries.extend(it.image_registries.iter().cloned());
    }
    Ok(changes)
}

/// Applies patches. What is wrong is told in words, and the tree is then left as it was.
pub fn apply(tree: &mut Value, steps: &[PatchStep]) -> Result<(), String> {
    let steps = serde_json::to_value(steps).map_err(|it| it.to_string())?;
    let patch: Patch = serde_json::from_value(steps).map_err(|it| it.to_string())?;
    json_patch::patch(tree, &patch).map_err(|it| it.to_string())
}

#[cfg(test)]
mod tests {
    use kruise_core::api::fleet::{
        PatchOperation,
        policy::{ClusterSelector, Override},
    };
    use serde_json::json;

    use super::*;

    fn step(op: PatchOperation, path: &str, value: Value) -> PatchStep {
        PatchStep { op, path: path.to_owned(), from: None, value: Some(value) }
    }

    fn body() -> Value {
        json!({"spec": {"template": {"spec": {
            "initContainers": [{"image": "docker.io/library/init:1"}],
            "containers": [{"image": "docker.io/library/web:1"}, {"image": "quay.io/side:2"}],
        }}}})
    }

    fn policy(overrides: Vec<Override>) -> Placement {
        Placement { overrides, ..Placement::default() }
    }

    fn cluster(name: &str) -> ClusterFacts {
        ClusterFacts { name: name.to_owned(), ..ClusterFacts::default() }
    }

    #[test]
    fn overrides_apply_in_order_and_only_where_they_select() {
        let only_a = ClusterSelector { names: vec!["a".to_owned()], ..ClusterSelector::default() };
        let add = step(PatchOperation::Add, "/spec/template/spec/priorityClassName", json!("low"));
        let replace = step(PatchOperation::Replace, "/spec/template/spec/priorityClassName", json!("high"));
        let placement = policy(vec![
            Override { patches: vec![add.clone()], ..Override::default() },
            Override { clusters: only_a, patches: vec![replace.clone()], ..Override::default() },
        ]);
        assert_eq!(for_cluster(&placement, &cluster("a"), &body()).unwrap().patches, [add.clone(), replace]);
        assert_eq!(for_cluster(&placement, &cluster("b"), &body()).unwrap().patches, [add]);
    }

    #[test]
    fn ov_1_registries_say_nothing_of_the_images_of_one_body() {
        let registry = ImageRegistry { from: "docker.io".to_owned(), to: "mirror.local".to_owned() };
        let placement =
            policy(vec![Override { image_registries: vec![registry.clone()], ..Override::default() }]);
        let able = ClusterFacts { features: vec![features::IMAGE_REGISTRIES.to_owned()], ..cluster("a") };
        let changes = for_cluster(&placement, &able, &body()).unwrap();
        assert_eq!(changes, Changes { patches: Vec::new(), registries: vec![registry] });
        // HA-6: one that would drop them is given nothing.
        let unfit = for_cluster(&placement, &cluster("a"), &body()).unwrap_err();
        assert!(unfit.to_string().contains("too old for imageRegistries"), "{unfit}");
    }

    #[test]
    fn bad_input_6_a_patch_that_does_not_apply_is_told_for_that_cluster_only() {
        let only_a = ClusterSelector { names: vec!["a".to_owned()], ..ClusterSelector::default() };
        let broken = step(PatchOperation::Replace, "/spec/absent/deep", json!(1));
        let placement =
            policy(vec![Override { clusters: only_a, patches: vec![broken], ..Override::default() }]);
        let unfit = for_cluster(&placement, &cluster("a"), &body()).unwrap_err();
        assert!(unfit.to_string().starts_with("spec.overrides[0] does not apply"), "{unfit}");
        assert_eq!(for_cluster(&placement, &cluster("b"), &body()), Ok(Changes::default()));
    }
}
