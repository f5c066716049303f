//! What differs in one cluster: the policy's overrides as one list of patches (OV-1).

use std::fmt;

use json_patch::Patch;
use kruise_core::api::fleet::{
    PatchOperation, PatchStep,
    policy::{ImageRegistry, Placement},
};
use serde_json::Value;

use super::select::{ClusterFacts, selects};

/// Where images are, besides in the containers of a pod template.
const IMAGES: [&str; 1] = ["/spec/image"];
/// The lists of containers of a pod template.
const CONTAINERS: [&str; 2] = ["/spec/template/spec/initContainers", "/spec/template/spec/containers"];

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

/// The changes to `body` in one cluster: every override that selects it, in the order of the policy, its patches before
/// its registries. They are tried here, so that what an agent gets does apply.
pub fn for_cluster(
    placement: &Placement,
    cluster: &ClusterFacts,
    body: &Value,
) -> Result<Vec<PatchStep>, Unfit> {
    let mut steps = Vec::new();
    let mut changed = body.clone();
    for (place, it) in placement.overrides.iter().enumerate() {
        if !selects(&it.clusters, cluster) {
            continue;
        }
        apply(&mut changed, &it.patches).map_err(|message| Unfit { place, message })?;
        steps.extend(it.patches.iter().cloned());
        let images = rewritten(&changed, &it.image_registries);
        apply(&mut changed, &images).map_err(|message| Unfit { place, message })?;
        steps.extend(images);
    }
    Ok(steps)
}

/// Applies patches. What is wrong is told in words, and the tree is then left as it was.
pub fn apply(tree: &mut Value, steps: &[PatchStep]) -> Result<(), String> {
    let steps = serde_json::to_value(steps).map_err(|it| it.to_string())?;
    let patch: Patch = serde_json::from_value(steps).map_err(|it| it.to_string())?;
    json_patch::patch(tree, &patch).map_err(|it| it.to_string())
}

fn rewritten(body: &Value, registries: &[ImageRegistry]) -> Vec<PatchStep> {
    let plain = IMAGES.into_iter().map(str::to_owned);
    let of_containers = CONTAINERS.into_iter().flat_map(|list| {
        let count = body.pointer(list).and_then(Value::as_array).map_or(0, Vec::len);
        (0..count).map(move |it| format!("{list}/{it}/image"))
    });
    let step = |path: String| {
        let image = body.pointer(&path)?.as_str()?;
        let new = registries.iter().find_map(|it| replaced(image, it))?;
        Some(PatchStep { op: PatchOperation::Replace, path, from: None, value: Some(new.into()) })
    };
    plain.chain(of_containers).filter_map(step).collect()
}

/// The image from the other registry. `docker.io/lib` is not the start of `docker.io/library/web`.
fn replaced(image: &str, registry: &ImageRegistry) -> Option<String> {
    let from = registry.from.trim_end_matches('/');
    let rest = image.strip_prefix(from).filter(|it| it.starts_with('/'))?;
    Some(format!("{}{rest}", registry.to.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use kruise_core::api::fleet::policy::{ClusterSelector, Override};
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
        assert_eq!(for_cluster(&placement, &cluster("a"), &body()).unwrap(), [add.clone(), replace]);
        assert_eq!(for_cluster(&placement, &cluster("b"), &body()).unwrap(), [add]);
    }

    #[test]
    fn images_come_from_another_registry_by_whole_parts_of_their_name() {
        let registry = |from: &str, to: &str| ImageRegistry { from: from.to_owned(), to: to.to_owned() };
        let registries =
            vec![registry("docker.io/lib", "wrong"), registry("docker.io/library/", "mirror.local/hub")];
        let placement = policy(vec![Override { image_registries: registries, ..Override::default() }]);
        let steps = for_cluster(&placement, &cluster("a"), &body()).unwrap();
        let mut changed = body();
        apply(&mut changed, &steps).unwrap();
        assert_eq!(
            changed["spec"]["template"]["spec"],
            json!({
                "initContainers": [{"image": "mirror.local/hub/init:1"}],
                "containers": [{"image": "mirror.local/hub/web:1"}, {"image": "quay.io/side:2"}],
            })
        );
        let job = json!({"spec": {"image": "docker.io/library/web:1"}});
        let steps = for_cluster(&placement, &cluster("a"), &job).unwrap();
        assert_eq!(steps[0].value, Some(json!("mirror.local/hub/web:1")));
    }

    #[test]
    fn bad_input_6_a_patch_that_does_not_apply_is_told_for_that_cluster_only() {
        let only_a = ClusterSelector { names: vec!["a".to_owned()], ..ClusterSelector::default() };
        let broken = step(PatchOperation::Replace, "/spec/absent/deep", json!(1));
        let placement =
            policy(vec![Override { clusters: only_a, patches: vec![broken], ..Override::default() }]);
        let unfit = for_cluster(&placement, &cluster("a"), &body()).unwrap_err();
        assert!(unfit.to_string().starts_with("spec.overrides[0] does not apply"), "{unfit}");
        assert_eq!(for_cluster(&placement, &cluster("b"), &body()), Ok(Vec::new()));
    }
}
