//! Images from the registries that a policy names for this cluster. Pure.

use kruise_core::api::fleet::policy::ImageRegistry;
use serde_json::Value;

/// Where images are, besides in the containers of a pod template.
const IMAGES: [&str; 1] = ["/spec/image"];
/// The lists of containers of a pod template.
const CONTAINERS: [&str; 2] = ["/spec/template/spec/initContainers", "/spec/template/spec/containers"];

/// Gives each image of `object` the first registry that fits.
pub(super) fn rewrite(object: &mut Value, registries: &[ImageRegistry]) {
    let change = |image: Option<&mut Value>| {
        let Some(image) = image else { return };
        let new = image.as_str().and_then(|old| registries.iter().find_map(|it| it.rewrite(old)));
        if let Some(new) = new {
            *image = new.into();
        }
    };
    IMAGES.into_iter().for_each(|it| change(object.pointer_mut(it)));
    for list in CONTAINERS {
        let containers = object.pointer_mut(list).and_then(Value::as_array_mut);
        containers.into_iter().flatten().for_each(|it| change(it.get_mut("image")));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ov_1_images_come_from_another_registry_by_whole_parts_of_their_name() {
        let registry = |from: &str, to: &str| ImageRegistry { from: from.to_owned(), to: to.to_owned() };
        let registries =
            [registry("docker.io/lib", "wrong"), registry("docker.io/library/", "mirror.local/hub")];
        let mut object = json!({"spec": {"image": "docker.io/library/web:1", "template": {"spec": {
            "initContainers": [{"image": "docker.io/library/init:1"}, {"name": "without"}],
            "containers": [{"image": "docker.io/library/web:1"}, {"image": "quay.io/side:2"}],
        }}}});
        rewrite(&mut object, &registries);
        assert_eq!(
            object,
            json!({"spec": {"image": "mirror.local/hub/web:1", "template": {"spec": {
                "initContainers": [{"image": "mirror.local/hub/init:1"}, {"name": "without"}],
                "containers": [{"image": "mirror.local/hub/web:1"}, {"image": "quay.io/side:2"}],
            }}}})
        );
        rewrite(&mut json!("no object"), &registries);
    }
}
