//! How clients log in to registries, and which logins the pull secrets of a pod hold.

use std::fmt;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::Value;

use super::host;
use crate::server::Cluster;

/// A user and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user.
    pub user: String,
    /// The password.
    pub password: String,
}

impl Login {
    /// A user and a password.
    pub fn new(user: &str, password: &str) -> Self {
        Self { user: user.to_owned(), password: password.to_owned() }
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Login").field(&self.user).finish_non_exhaustive()
    }
}

/// What a pod's `imagePullSecrets` hold for the registry of a full reference, in their order.
pub(crate) fn of_pod(server: &Cluster, pod: &Value, image: &str) -> Vec<Login> {
    let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
    let names = pod["spec"]["imagePullSecrets"].as_array().into_iter().flatten();
    let names = names.filter_map(|it| it["name"].as_str());
    let secrets = names.filter_map(|name| server.get("secrets", namespace, name));
    secrets.filter_map(|it| of_secret(&it.value(), host(image))).collect()
}

fn of_secret(secret: &Value, host: &str) -> Option<Login> {
    let config = decoded(secret["data"][".dockerconfigjson"].as_str()?)?;
    let config: Value = serde_json::from_str(&config).ok()?;
    let entry = config["auths"].get(host)?;
    match (entry["username"].as_str(), entry["password"].as_str()) {
        (Some(user), Some(password)) => Some(Login::new(user, password)),
        _ => {
            let auth = decoded(entry["auth"].as_str()?)?;
            auth.split_once(':').map(|(user, password)| Login::new(user, password))
        }
    }
}

fn decoded(text: &str) -> Option<String> {
    String::from_utf8(BASE64_STANDARD.decode(text).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(entry: Value) -> Value {
        let config = json!({"auths": {"r.example": entry}}).to_string();
        json!({"data": {".dockerconfigjson": BASE64_STANDARD.encode(config)}})
    }

    #[test]
    fn a_login_is_read_from_both_forms_of_a_pull_secret() {
        let plain = secret(json!({"username": "u", "password": "p"}));
        let joined = secret(json!({"auth": BASE64_STANDARD.encode("u:p")}));
        assert_eq!(of_secret(&plain, "r.example"), Some(Login::new("u", "p")));
        assert_eq!(of_secret(&joined, "r.example"), Some(Login::new("u", "p")));
        assert_eq!(of_secret(&plain, "docker.io"), None);
        assert_eq!(of_secret(&json!({}), "r.example"), None);
    }
}
