//! What the conversion clause of a CRD should say, given what it says.

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use super::{configuration::Wanted, registration::without_nulls};
use crate::api::crds::{CONVERSION_REVIEW_VERSIONS, CONVERT_PATH};

/// Where conversions are served.
pub const CONVERSION_PATH: &str = CONVERT_PATH;

/// The change that leads the conversions of `crd` to the server, as a merge patch. `None` if they already do, or if the
/// CRD does not ask for a webhook: then only `apiVersion` differs between its versions, and that is its author's choice.
pub fn conversion_patch(crd: &Value, wanted: &Wanted<'_>) -> Option<Value> {
    if !converts_by_webhook(crd) {
        return None;
    }
    let webhook = &crd["spec"]["conversion"]["webhook"];
    let mut client_config = wanted.host.client_config(CONVERSION_PATH);
    client_config["caBundle"] = json!(ByteString(wanted.ca_bundle.to_vec()));
    let versions = json!(CONVERSION_REVIEW_VERSIONS);

    let as_wanted = without_nulls(webhook["clientConfig"].clone()) == without_nulls(client_config.clone())
        && webhook["conversionReviewVersions"] == versions;
    (!as_wanted).then(|| {
        json!({
            "metadata": { "resourceVersion": crd["metadata"]["resourceVersion"] },
            "spec": { "conversion": {
                "strategy": "Webhook",
                "webhook": { "clientConfig": client_config, "conversionReviewVersions": versions },
            } },
        })
    })
}

/// Whether the API server would trust `ca_bundle`, and nothing else, when it has objects of `crd` converted.
pub fn is_trusting(crd: &Value, wanted: &Wanted<'_>) -> bool {
    let bundle = &crd["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"];
    !converts_by_webhook(crd) || *bundle == json!(ByteString(wanted.ca_bundle.to_vec()))
}

fn converts_by_webhook(crd: &Value) -> bool {
    crd["spec"]["conversion"]["strategy"] == "Webhook"
}
