//! Jobs that download images ahead of an update of a CloneSet: they are placed by the CloneSet's policy, whoever made them, so only the
//! hub may say that a job is one (SEC-4).

use kruise_core::{api::fleet::keys, runtime::webhook::FieldError};
use serde_json::Value;

/// Whether whoever writes this must be the hub: the job is said to be such a download, and that is new or what it downloads is.
/// Finalizers, status and what is taken away are nobody's way to reach clusters.
pub fn is_to_judge(object: &Value, old: Option<&Value>) -> bool {
    let owners = |it: &Value| it["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    label(object).is_some()
        && old.is_none_or(|old| {
            let before = owners(old);
            label(old) != label(object)
                || old["spec"] != object["spec"]
                || owners(object).iter().any(|it| !before.contains(it))
        })
}

/// What a user is told who is not the hub.
pub fn fault(user: &str) -> FieldError {
    let key = keys::DOWNLOADS_FOR;
    let detail = format!(
        "{user:?} may not write this label: it has the job placed by the policy of a CloneSet, and only the hub makes such jobs; leave \
         the label out and give the job a policy of its own"
    );
    FieldError::forbidden(format!("metadata.labels[{key}]"), detail)
}

fn label(object: &Value) -> Option<&str> {
    object["metadata"]["labels"][keys::DOWNLOADS_FOR].as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sec_4_whoever_says_that_a_job_is_a_download_or_changes_one_is_judged() {
        let job = |label: Option<&str>, image: &str| {
            json!({
                "metadata": {"labels": {(keys::DOWNLOADS_FOR): label}, "ownerReferences": [{"uid": "u"}]},
                "spec": {"image": image},
            })
        };
        let (ordinary, download) = (job(None, "a"), job(Some("u"), "a"));
        assert!(!is_to_judge(&ordinary, None) && is_to_judge(&download, None));
        assert!(is_to_judge(&download, Some(&ordinary)) && !is_to_judge(&ordinary, Some(&download)));
        assert!(is_to_judge(&job(Some("u"), "b"), Some(&download)), "it downloads something else");
        assert!(is_to_judge(&job(Some("v"), "a"), Some(&download)));
        let mut other = download.clone();
        other["metadata"]["ownerReferences"][0]["uid"] = json!("v");
        assert!(is_to_judge(&other, Some(&download)), "it is placed as another one");
        let mut done = download.clone();
        (done["metadata"]["ownerReferences"], done["status"]) = (json!([]), json!({"succeeded": 1}));
        assert!(!is_to_judge(&done, Some(&download)));
    }

    #[test]
    fn sec_4_the_refusal_names_the_label_and_what_helps() {
        let fault = fault("ann").to_string();
        assert!(fault.contains(keys::DOWNLOADS_FOR) && fault.contains("\"ann\""), "{fault}");
        assert!(fault.contains("leave the label out"), "{fault}");
    }
}
