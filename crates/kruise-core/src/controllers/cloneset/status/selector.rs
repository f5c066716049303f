//! Selectors as text, the way Kubernetes prints them: autoscalers hand the text back to the API server.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// The canonical text of a selector: requirements by key, sets in brackets with their values in order.
pub fn selector_text(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten();
    let mut terms: Vec<(&str, String)> =
        labels.map(|(key, value)| (key.as_str(), format!("{key}={value}"))).collect();
    for it in selector.match_expressions.iter().flatten() {
        let key = it.key.as_str();
        let mut values: Vec<&str> = it.values.iter().flatten().map(String::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let text = match it.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.push((key, text));
    }
    terms.sort_by_key(|it| it.0);
    terms.into_iter().map(|it| it.1).collect::<Vec<_>>().join(",")
}
