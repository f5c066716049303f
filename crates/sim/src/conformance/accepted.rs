//! The differences that are known and accepted. Each has an entry of the same name in `docs/simulation.md`.

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
    // JSON patch errors carry the library's own words.
    ("json-patch-words", |it| is_json_patch(it)),
];

/// Whether a difference is accepted.
pub fn accepted(difference: &Difference) -> bool {
    RULES.iter().any(|(_, rule)| rule(difference))
}

fn is_text(difference: &Difference, part: &str) -> bool {
    let has = |value: &serde_json::Value| value.as_str().is_some_and(|it| it.contains(part));
    has(&difference.left) || has(&difference.right)
}

fn is_json_patch(difference: &Difference) -> bool {
    difference.step.contains("json-patch")
        && (difference.at == ".message" || difference.at.starts_with(".details"))
}
