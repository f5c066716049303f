//! One token, and the objects that it is made of. Pure but for [`random`].

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kruise_core::api::fleet::keys::{BOOTSTRAP, SYSTEM_NAMESPACE};
use ring::rand::{SecureRandom, SystemRandom};

use crate::{Error, arguments::TokenWish};

/// The group of those who hold a token.
pub const GROUP: &str = "system:bootstrappers:fleet";

const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
const ID: usize = 6;
const SECRET: usize = 16;
/// The longest that a token is good for: one that lies about for longer is forgotten by its owner.
const LONGEST: Duration = Duration::from_secs(31 * 24 * 3600);

/// A new token.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// Its public part.
    pub id: String,
    secret: String,
    /// The names that clusters may ask for with it.
    pub pattern: String,
    /// How many may.
    pub uses: u32,
    /// Until when.
    pub expires: Timestamp,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What anybody may know of a token that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its public part.
    pub id: String,
    /// The names that clusters may ask for with it.
    pub pattern: String,
    /// How many may.
    pub uses: String,
    /// UIDs of the requests that it was used for.
    pub used_by: Vec<String>,
    /// Until when; nothing if that cannot be read.
    pub expires: Option<Timestamp>,
}

impl Token {
    /// A token as it was wished for. `random` fills bytes with chance.
    pub fn new(
        wish: &TokenWish,
        now: Timestamp,
        random: &dyn Fn(&mut [u8]) -> Result<(), Error>,
    ) -> Result<Self, Error> {
        check_pattern(&wish.pattern)?;
        if wish.ttl < Duration::from_secs(60) || wish.ttl > LONGEST {
            return Err(Error::input("--ttl", "must be between 1m and 744h (31 days)"));
        }
        // Whole seconds: what is stored is what is shown.
        let expires = Timestamp::from_second(now.as_second() + wish.ttl.as_secs() as i64)
            .map_err(|_| Error::input("--ttl", "ends too far in the future"))?;
        Ok(Self {
            id: letters(ID, random)?,
            secret: letters(SECRET, random)?,
            pattern: wish.pattern.clone(),
            uses: wish.uses,
            expires,
        })
    }

    /// The token as it is handed over.
    pub fn whole(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    /// What the API server knows.
    pub fn secret_object(&self) -> Secret {
        let data = [
            ("token-id", self.id.clone()),
            ("token-secret", self.secret.clone()),
            ("expiration", self.expires.to_string()),
            ("usage-bootstrap-authentication", "true".to_owned()),
            ("auth-extra-groups", GROUP.to_owned()),
        ];
        Secret {
            metadata: metadata(format!("bootstrap-token-{}", self.id), "kube-system"),
            type_: Some("bootstrap.kubernetes.io/token".to_owned()),
            string_data: Some(data.map(|(key, value)| (key.to_owned(), value)).into()),
            ..Secret::default()
        }
    }

    /// What the hub knows.
    pub fn config_map(&self) -> ConfigMap {
        let data = [
            ("for", self.pattern.clone()),
            ("expires", self.expires.to_string()),
            ("uses", self.uses.to_string()),
            ("used-by", String::new()),
        ];
        ConfigMap {
            metadata: metadata(format!("fleet-token-{}", self.id), SYSTEM_NAMESPACE),
            data: Some(data.map(|(key, value)| (key.to_owned(), value)).into()),
            ..ConfigMap::default()
        }
    }
}

impl Known {
    /// Reads what the hub knows.
    pub fn read(map: &ConfigMap) -> Option<Self> {
        let id = map.metadata.name.as_deref()?.strip_prefix("fleet-token-")?.to_owned();
        let field = |name: &str| map.data.as_ref().and_then(|it| it.get(name)).cloned().unwrap_or_default();
        Some(Self {
            id,
            pattern: field("for"),
            uses: field("uses"),
            used_by: field("used-by").lines().map(str::to_owned).collect(),
            expires: field("expires").parse().ok(),
        })
    }
}

/// Whether a text can be the public part of a token.
pub fn is_id(text: &str) -> bool {
    text.len() == ID && text.bytes().all(|it| LETTERS.contains(&it))
}

/// Whether a text can be a whole token.
pub fn is_token(text: &str) -> bool {
    let is_secret = |it: &str| it.len() == SECRET && it.bytes().all(|it| LETTERS.contains(&it));
    text.split_once('.').is_some_and(|(id, secret)| is_id(id) && is_secret(secret))
}

/// Chance from the system.
pub fn random(bytes: &mut [u8]) -> Result<(), Error> {
    SystemRandom::new()
        .fill(bytes)
        .map_err(|_| Error::Refused("the system gives no random numbers".to_owned()))
}

fn check_pattern(pattern: &str) -> Result<(), Error> {
    let is_fine = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"-.*?".contains(&it);
    if pattern.is_empty() || pattern.len() > 253 || !pattern.bytes().all(is_fine) {
        let fault =
            "must be the name of a cluster (small letters, digits, - and .) or a pattern of one with * and ?";
        return Err(Error::input("--for", fault));
    }
    Ok(())
}

/// Letters and digits, each as likely as the others.
fn letters(count: usize, random: &dyn Fn(&mut [u8]) -> Result<(), Error>) -> Result<String, Error> {
    const FAIR: u8 = (256 / LETTERS.len() * LETTERS.len() - 1) as u8;
    let mut text = String::with_capacity(count);
    while text.len() < count {
        let mut bytes = [0; 32];
        random(&mut bytes)?;
        let fair = bytes.iter().filter(|it| **it <= FAIR);
        text.extend(fair.map(|it| LETTERS[usize::from(*it) % LETTERS.len()] as char));
    }
    text.truncate(count);
    Ok(text)
}

fn metadata(name: String, namespace: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name),
        namespace: Some(namespace.to_owned()),
        labels: Some([(BOOTSTRAP.to_owned(), "true".to_owned())].into()),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(pattern: &str, ttl: u64) -> TokenWish {
        TokenWish { pattern: pattern.to_owned(), ttl: Duration::from_secs(ttl), uses: 2 }
    }

    #[test]
    fn join_1_a_token_is_a_secret_for_the_api_server_and_a_map_without_secrets_for_the_hub() {
        let token = Token::new(&wish("eu-*", 3600), Timestamp::UNIX_EPOCH, &random).unwrap();
        assert!(is_token(&token.whole()), "{}", token.whole());
        let secret = token.secret_object().string_data.unwrap();
        assert_eq!(format!("{}.{}", secret["token-id"], secret["token-secret"]), token.whole());
        assert_eq!(secret["expiration"], "1970-01-01T01:00:00Z");
        assert_eq!(secret["auth-extra-groups"], GROUP);
        let map = token.config_map();
        assert!(!format!("{map:?}").contains(&token.secret) && !format!("{token:?}").contains(&token.secret));
        let known = Known::read(&map).unwrap();
        assert_eq!((known.id, known.pattern, known.uses.as_str()), (token.id.clone(), "eu-*".into(), "2"));
        assert_eq!((known.expires, known.used_by), (Some(token.expires), Vec::new()));
    }

    #[test]
    fn two_tokens_differ_and_every_letter_is_as_likely() {
        let make = || Token::new(&wish("a", 60), Timestamp::UNIX_EPOCH, &random).unwrap().whole();
        assert_ne!(make(), make());
        // Bytes above the last whole alphabet are left out, not folded onto its beginning.
        let biased = |bytes: &mut [u8]| {
            bytes.fill(255);
            bytes[0] = 35;
            Ok(())
        };
        assert_eq!(letters(3, &biased).unwrap(), "999");
    }

    #[test]
    fn wishes_that_cannot_be_met_name_the_flag() {
        let fault = |pattern: &str, ttl: u64| {
            Token::new(&wish(pattern, ttl), Timestamp::UNIX_EPOCH, &random).unwrap_err().told()
        };
        assert!(fault("EU", 3600).starts_with("--for: must be the name of a cluster"));
        assert!(fault("", 3600).starts_with("--for"));
        assert!(fault("eu", 1).starts_with("--ttl: must be between 1m"));
    }
}
