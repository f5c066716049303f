//! What is kept in the Secret `fleet-hub-credential`, so that an agent which is started anew goes on where it was.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kruise_core::api::fleet::agent_token::AgentToken;
use serde_json::{Map, Value, json};

use super::{
    held::{Credential, Held},
    identity::Key,
};
use crate::link::standing::Standing;

/// The Secret, in the agent's own namespace.
pub const SECRET: &str = "fleet-hub-credential";
/// Its type.
pub const TYPE: &str = "fleet.kruise.io/hub-credential";

const KEY: &str = "tls.key";
const CERTIFICATE: &str = "tls.crt";
const TAKEN_UP: &str = "taken-up";
const NEXT: &str = "next.crt";
const TOKEN: &str = "token";
const TOKEN_EXPIRES: &str = "token-expires";
const NEXT_TOKEN: &str = "next-token";
const NEXT_TOKEN_EXPIRES: &str = "next-token-expires";
const REQUEST: &str = "signing-request";
const REQUESTED: &str = "signing-requested";
const REQUESTED_BY: &str = "signing-requested-by";
const CLUSTER: &str = "cluster";
const NAMESPACE: &str = "namespace";
const HUB_UID: &str = "hub-uid";
const REVOKED: &str = "revoked";

/// Everything that an agent keeps about itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Kept {
    /// The name that it asks for, or has.
    pub cluster: String,
    /// Its key, which was there before anything was sent.
    pub key: Key,
    /// The CertificateSigningRequest that has not been answered yet.
    pub request: Option<Signing>,
    /// What the hub said when it let the cluster in.
    pub membership: Option<Membership>,
    /// The credential that the hub takes.
    pub held: Option<Held>,
    /// One that has come and has not been used yet.
    pub next: Option<Credential>,
    /// Whether the hub had taken our rights away when it was last heard (JOIN-5).
    pub is_revoked: bool,
}

/// A CertificateSigningRequest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signing {
    /// Its name.
    pub name: String,
    /// When the name was made up.
    pub since: Timestamp,
    /// Who makes it: the holder of this token, by its public part; ourselves if there is none. The hub approves only what
    /// was made by whoever asks.
    pub by: Option<String>,
}

/// Where a cluster belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Its namespace on the hub.
    pub namespace: String,
    /// UID of the hub.
    pub hub_uid: String,
}

impl Kept {
    /// What there is at the beginning.
    pub fn new(cluster: &str, key: Key) -> Self {
        let cluster = cluster.to_owned();
        Self { cluster, key, request: None, membership: None, held: None, next: None, is_revoked: false }
    }

    /// Reads a Secret; or names what in it cannot be used.
    pub fn read(secret: &Secret) -> Result<Self, &'static str> {
        let text = |name: &'static str| {
            let bytes = secret.data.as_ref().and_then(|it| it.get(name));
            let text = bytes.map(|it| std::str::from_utf8(&it.0).map_err(|_| name)).transpose()?;
            Ok::<_, &'static str>(text.filter(|it| !it.is_empty()).map(str::to_owned))
        };
        // A time that cannot be read is one long ago: what is due then is done once too often at worst.
        let time = |name| {
            let time = text(name)?.and_then(|it| it.parse().ok());
            Ok::<_, &'static str>(time.unwrap_or(Timestamp::UNIX_EPOCH))
        };
        let request = match text(REQUEST)? {
            Some(name) => Some(Signing { name, since: time(REQUESTED)?, by: text(REQUESTED_BY)? }),
            None => None,
        };
        let credential = |certificate, token, expires| {
            if let Some(token) = text(token)? {
                return Ok(Some(Credential::Token(AgentToken { token, expires: time(expires)? })));
            }
            Ok::<_, &'static str>(text(certificate)?.map(Credential::Certificate))
        };
        let held = match credential(CERTIFICATE, TOKEN, TOKEN_EXPIRES)? {
            Some(credential) => Some(Held { credential, since: time(TAKEN_UP)? }),
            None => None,
        };
        let membership = text(NAMESPACE)?.zip(text(HUB_UID)?);
        Ok(Self {
            cluster: text(CLUSTER)?.ok_or(CLUSTER)?,
            key: text(KEY)?.and_then(|it| Key::read(&it)).ok_or(KEY)?,
            request,
            membership: membership.map(|(namespace, hub_uid)| Membership { namespace, hub_uid }),
            held,
            next: credential(NEXT, NEXT_TOKEN, NEXT_TOKEN_EXPIRES)?,
            is_revoked: text(REVOKED)?.is_some(),
        })
    }

    /// What a merge makes the data of the Secret into; absent ones are taken out.
    pub fn data(&self) -> Value {
        let Self { cluster, key, request, membership, held, next, is_revoked } = self;
        let [certificate, token, expires] = written(held.as_ref().map(|it| &it.credential));
        let [next_certificate, next_token, next_expires] = written(next.as_ref());
        let fields: BTreeMap<&str, Option<String>> = BTreeMap::from([
            (CLUSTER, Some(cluster.clone())),
            (KEY, Some(key.pem().to_owned())),
            (REQUEST, request.as_ref().map(|it| it.name.clone())),
            (REQUESTED, request.as_ref().map(|it| it.since.to_string())),
            (REQUESTED_BY, request.as_ref().and_then(|it| it.by.clone())),
            (NAMESPACE, membership.as_ref().map(|it| it.namespace.clone())),
            (HUB_UID, membership.as_ref().map(|it| it.hub_uid.clone())),
            (CERTIFICATE, certificate),
            (TOKEN, token),
            (TOKEN_EXPIRES, expires),
            (TAKEN_UP, held.as_ref().map(|it| it.since.to_string())),
            (NEXT, next_certificate),
            (NEXT_TOKEN, next_token),
            (NEXT_TOKEN_EXPIRES, next_expires),
            (REVOKED, is_revoked.then(|| "true".to_owned())),
        ]);
        let written = fields.into_iter().map(|(name, value)| {
            (name.to_owned(), value.map_or(Value::Null, |it| json!(ByteString(it.into_bytes()))))
        });
        Value::Object(written.collect::<Map<_, _>>())
    }

    /// The request that was made, or is to be made, by the holder of `token`, or by ourselves.
    pub fn request_by(&self, token: Option<&str>) -> Option<&Signing> {
        self.request.as_ref().filter(|it| it.by.as_deref() == token)
    }

    /// What is kept instead where the hub thinks otherwise of us than before; nothing if there is nothing new.
    pub fn standing(&self, standing: Standing) -> Option<Self> {
        let is_revoked = !standing.lets_act();
        let is_news = standing != Standing::Unknown && is_revoked != self.is_revoked;
        (is_news && self.held.is_some()).then(|| Self { is_revoked, ..self.clone() })
    }

    /// The credential that came has been used: it takes the place of the one before.
    #[must_use]
    pub fn taken_up(&self, now: Timestamp) -> Self {
        let held = self.next.clone().map(|credential| Held { credential, since: now });
        Self { held: held.or_else(|| self.held.clone()), next: None, request: None, ..self.clone() }
    }
}

/// A credential as it is kept: certificate, token, and when that ends.
fn written(credential: Option<&Credential>) -> [Option<String>; 3] {
    match credential {
        None => [None, None, None],
        Some(Credential::Certificate(pem)) => [Some(pem.clone()), None, None],
        Some(Credential::Token(it)) => [None, Some(it.token.clone()), Some(it.expires.to_string())],
    }
}

/// Keys stay out of logs.
impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept")
            .field("cluster", &self.cluster)
            .field("request", &self.request)
            .field("membership", &self.membership)
            .field("held", &self.held)
            .field("next", &self.next.is_some())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{kept, kept_token, key, token},
        *,
    };

    fn secret(data: Value) -> Secret {
        let data: Map<String, Value> =
            data.as_object().unwrap().clone().into_iter().filter(|it| !it.1.is_null()).collect();
        serde_json::from_value(json!({"metadata": {"name": SECRET}, "data": data})).unwrap()
    }

    #[test]
    fn what_was_kept_is_read_again() {
        let full = Kept {
            request: Some(Signing {
                name: "fleet-agent-1".into(),
                since: "2026-01-01T00:00:00Z".parse().unwrap(),
                by: Some("abcdef".into()),
            }),
            next: Some(Credential::Certificate("next".into())),
            is_revoked: true,
            ..kept()
        };
        let next = Some(Credential::Token(token("2026-01-03T00:00:00Z")));
        let with_tokens = Kept { next, ..kept_token() };
        for it in [Kept::new("eu-1", key()), kept(), full, kept_token(), with_tokens] {
            assert_eq!(Kept::read(&secret(it.data())), Ok(it.clone()));
            let shown = format!("{it:?}");
            assert!(!shown.contains("PRIVATE") && !shown.contains("secret-"), "{it:?}");
        }
    }

    #[test]
    fn join_5_that_it_was_revoked_outlives_a_restart() {
        let member = kept();
        assert_eq!(member.standing(Standing::Unknown), None);
        assert_eq!(member.standing(Standing::Accepted), None);
        let revoked = member.standing(Standing::Revoked).unwrap();
        assert!(revoked.is_revoked);
        assert_eq!(revoked.standing(Standing::Outcast), None);
        assert_eq!(revoked.standing(Standing::Unknown), None, "a hub that is away gives nothing back");
        assert_eq!(revoked.standing(Standing::Accepted), Some(member));
        assert_eq!(Kept::new("eu-1", key()).standing(Standing::Revoked), None);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let without = |name: &str| {
            let mut data = kept().data();
            data[name] = Value::Null;
            Kept::read(&secret(data))
        };
        assert_eq!(without(KEY), Err(KEY));
        assert_eq!(without(CLUSTER), Err(CLUSTER));
        assert!(without(TAKEN_UP).is_ok_and(|it| it.held.unwrap().since == Timestamp::UNIX_EPOCH));
        assert!(without(HUB_UID).is_ok_and(|it| it.membership.is_none()));
        let mut data = kept().data();
        data[KEY] = json!(ByteString(vec![0xff, 0xfe]));
        assert_eq!(Kept::read(&secret(data)), Err(KEY));
    }
}
