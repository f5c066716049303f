//! The differences that are known and accepted. Each has an entry of the same name in `docs/simulation.md`.

use serde_json::Value;

use super::Difference;

type Rule = (&'static str, fn(&Difference) -> bool);

const RULES: &[Rule] = &[
    // The text of decoding errors is that of serde and not of Go.
    ("decoding-errors", |it| it.at == ".message" && is_text(it, "cannot be handled as a")),
    // A refused pod change carries a Go diff of the whole spec.
    ("pod-diff", |it| {
        it.at.ends_with("message") && is_text(it, "pod updates may not change fields other than")
    }),
    // The order of causes in a 422, and of those why nothing can be applied, follows Go maps.
    ("cause-order", |it| {
        it.at == ".message"
            && [" is invalid: [", "create typed patch object"].iter().any(|part| is_text(it, part))
    }),
    // The service account admission plugin mounts tokens; simulated pods have none.
    ("service-accounts", |it| {
        let parts = ["volumes", "volumeMounts", "serviceAccount"];
        parts.iter().any(|part| it.at.contains(part))
    }),
    // After a quiet time the watch cache is full of old events, and forgets what was there before the first new one.
    ("cold-watches", |it| {
        it.step.starts_with("watch ") && it.at.is_empty() && it.left["object"]["code"] == 410
    }),
    // What is said again in a later second may move an entry of the managed fields, and that alone is a write.
    ("late-repeats", |it| {
        it.step.starts_with("watch ")
            && it.at.is_empty()
            && without_repeats(&it.left) == without_repeats(&it.right)
    }),
    // JSON patch errors carry the library's own words.
    ("json-patch-words", |it| is_json_patch(it)),
];

/// Whether a difference is accepted.
pub fn accepted(difference: &Difference) -> bool {
    RULES.iter().any(|(_, rule)| rule(difference))
}

/// The events of a watch without those that say of an object what the one before said.
fn without_repeats(events: &Value) -> Vec<&Value> {
    let mut kept: Vec<&Value> = Vec::new();
    for event in events.as_array().into_iter().flatten() {
        let name = &event["object"]["metadata"]["name"];
        let before = kept.iter().rfind(|it| it["object"]["metadata"]["name"] == *name);
        if before.is_none_or(|it| event["type"] != "MODIFIED" || it["object"] != event["object"]) {
            kept.push(event);
        }
    }
    kept
}

fn is_text(difference: &Difference, part: &str) -> bool {
    let has = |value: &Value| value.as_str().is_some_and(|it| it.contains(part));
    has(&difference.left) || has(&difference.right)
}

fn is_json_patch(difference: &Difference) -> bool {
    difference.step.contains("json-patch")
        && (difference.at == ".message" || difference.at.starts_with(".details"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_that_repeats_the_one_before_is_accepted_and_nothing_else_that_is_missing() {
        let event = |kind: &str, name: &str, data: u8| json!({"type": kind, "object": {"metadata": {"name": name}, "data": data}});
        let difference = |left: Value, right: Value| Difference {
            step: "watch widgets".to_owned(),
            at: String::new(),
            left,
            right,
        };
        let (first, second) = (event("ADDED", "a", 1), event("MODIFIED", "a", 2));
        let other = event("MODIFIED", "b", 2);
        let short = json!([first, second, other]);
        assert!(accepted(&difference(json!([first, second, other, second]), short.clone())));
        assert!(!accepted(&difference(json!([first, other]), short.clone())));
        assert!(!accepted(&difference(json!([first, second, event("DELETED", "a", 2), other]), short)));
    }
}
