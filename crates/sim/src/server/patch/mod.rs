//! The patch formats that are not server-side apply.

mod strategic;

use serde_json::Value;

pub use strategic::strategic;

use crate::server::status::Failure;

/// Applies an RFC 7386 merge patch.
pub fn merge(target: &mut Value, patch: &Value) {
    json_patch::merge(target, patch);
}

/// Applies an RFC 6902 patch.
pub fn json(target: &mut Value, patch: &[u8]) -> Result<(), Failure> {
    let patch: json_patch::Patch = serde_json::from_slice(patch)
        .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))?;
    let patch = with_lenient_replace(target, patch);
    let refused = || {
        let message = "the server rejected our request due to an error in our request";
        Failure { details: serde_json::json!({}), ..Failure::plain(422, "Invalid", message) }
    };
    json_patch::patch(target, &patch).map_err(|error| {
        tracing::debug!(%error, "refused a JSON patch");
        refused()
    })?;
    // The real server's library puts nothing but objects and lists in the place of an object.
    if target.is_object() || target.is_array() { Ok(()) } else { Err(refused()) }
}

/// The real server's library lets `replace` add a member that is missing, as long as its parent is there.
fn with_lenient_replace(target: &Value, patch: json_patch::Patch) -> json_patch::Patch {
    use json_patch::{AddOperation, PatchOperation};

    let mut shown = target.clone();
    let mut result = Vec::with_capacity(patch.0.len());
    for operation in patch.0 {
        let operation = match operation {
            PatchOperation::Replace(it) if is_missing_member(&shown, it.path.as_str()) => {
                PatchOperation::Add(AddOperation { path: it.path, value: it.value })
            }
            other => other,
        };
        // A step that fails here fails again below, where it is reported.
        let _ = json_patch::patch(&mut shown, std::slice::from_ref(&operation));
        result.push(operation);
    }
    json_patch::Patch(result)
}

fn is_missing_member(target: &Value, path: &str) -> bool {
    let parent = path.rsplit_once('/').map(|(parent, _)| parent);
    let parent = parent.and_then(|it| target.pointer(it));
    parent.is_some_and(Value::is_object) && target.pointer(path).is_none()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_failed_test_operation_is_a_422() {
        let mut object = json!({"a": 1});
        let patch = br#"[{"op": "test", "path": "/a", "value": 2}, {"op": "remove", "path": "/a"}]"#;
        let failure = json(&mut object, patch).unwrap_err();
        assert_eq!((failure.code, failure.reason), (422, "Invalid"));
        assert_eq!(object, json!({"a": 1}));
    }

    #[test]
    fn a_merge_patch_removes_with_null() {
        let mut object = json!({"a": {"b": 1, "c": 2}});
        merge(&mut object, &json!({"a": {"b": null, "d": [1]}}));
        assert_eq!(object, json!({"a": {"c": 2, "d": [1]}}));
    }
}
