//! Bootstrap tokens as the hub knows them: one ConfigMap each, in the hub's own namespace. The secret part is in a Secret
//! that only the API server reads (JOIN-1).

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;

use super::joining::Token;

/// Start of the name of a token's ConfigMap; its id follows.
pub const PREFIX: &str = "fleet-token-";
/// The group that holders of a token are in.
pub const GROUP: &str = "system:bootstrappers:fleet";

const FOR: &str = "for";
const EXPIRES: &str = "expires";
const USES: &str = "uses";
/// Written by the hub: UIDs of requests, one in a line.
pub const USED_BY: &str = "used-by";

/// The name of a token's ConfigMap.
pub fn name(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// What a ConfigMap says of a token; nothing if any of it cannot be read, for then nobody knows the token.
pub fn read(map: &ConfigMap) -> Option<Token> {
    let id = map.metadata.name.as_deref()?.strip_prefix(PREFIX)?;
    let data: &BTreeMap<String, String> = map.data.as_ref()?;
    let field = |name: &str| data.get(name).map(|it| it.trim());
    let used_by = field(USED_BY).unwrap_or_default().lines().filter(|it| !it.is_empty());
    Some(Token {
        id: id.to_owned(),
        pattern: field(FOR).filter(|it| !it.is_empty())?.to_owned(),
        expires: field(EXPIRES)?.parse().ok()?,
        uses: field(USES)?.parse().ok()?,
        used_by: used_by.map(str::to_owned).collect(),
    })
}

/// How long a token that has expired is still shown to people.
pub const KEPT: Duration = Duration::from_secs(3_600);

/// Whether a token has been of no use for so long that nobody asks for it any more. What cannot be read stays for people to
/// look at.
pub fn is_outlived(map: &ConfigMap, now: Timestamp) -> bool {
    read(map).is_some_and(|it| now.duration_since(it.expires).unsigned_abs() > KEPT && now > it.expires)
}

/// What the hub writes when one more request was made with a token.
pub fn used_by(token: &Token, request_uid: &str) -> String {
    let mut all = token.used_by.clone();
    all.insert(request_uid.to_owned());
    all.into_iter().collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn map(data: Value) -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": "fleet-token-abcdef"}, "data": data})).unwrap()
    }

    #[test]
    fn join_1_a_token_is_read_and_its_uses_are_kept() {
        let data = |used: &str| json!({"for": "eu-*", "expires": "2030-01-01T00:00:00Z", "uses": "2", "used-by": used});
        let token = read(&map(data(""))).unwrap();
        assert_eq!((token.id.as_str(), token.pattern.as_str(), token.uses), ("abcdef", "eu-*", 2));
        assert!(token.used_by.is_empty());
        let once = read(&map(data(&used_by(&token, "b")))).unwrap();
        let twice = used_by(&once, "a");
        assert_eq!(twice, "a\nb");
        assert_eq!(used_by(&read(&map(data(&twice))).unwrap(), "a"), twice, "looking again is no use");
    }

    #[test]
    fn join_2_a_token_is_removed_an_hour_after_its_end() {
        let map = map(json!({"for": "a", "expires": "2030-01-01T00:00:00Z", "uses": "1"}));
        let at = |time: &str| is_outlived(&map, time.parse().unwrap());
        assert!(!at("2029-01-01T00:00:00Z") && !at("2030-01-01T01:00:00Z") && at("2030-01-01T01:00:01Z"));
        assert!(!is_outlived(&super::tests::map(json!({"expires": "2000-01-01T00:00:00Z"})), Timestamp::MAX));
    }

    #[test]
    fn join_1_a_token_that_cannot_be_read_is_known_to_nobody() {
        for data in [
            json!({}),
            json!({"for": "", "expires": "2030-01-01T00:00:00Z", "uses": "1"}),
            json!({"for": "a", "expires": "soon", "uses": "1"}),
            json!({"for": "a", "expires": "2030-01-01T00:00:00Z", "uses": "-1"}),
            json!({"for": "a", "expires": "2030-01-01T00:00:00Z"}),
        ] {
            assert_eq!(read(&map(data.clone())), None, "{data}");
        }
    }
}
