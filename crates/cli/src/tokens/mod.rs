//! Bootstrap tokens. A token is two objects with one id: a Secret that the API server judges, and a ConfigMap without
//! secrets that the hub judges (ADR 9).

pub mod token;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kruise_core::{
    api::fleet::keys::{BOOTSTRAP, SYSTEM_NAMESPACE},
    runtime::client::call,
};
use kube::api::{DeleteParams, ListParams};
use serde_json::json;

pub use token::{Known, Token, is_token};

use crate::{
    Answer, Error,
    arguments::TokenWish,
    connection::{self, Hub},
    table::{left, or_dash, table},
};

/// Where the API server looks for bootstrap tokens.
const SECRETS: &str = "kube-system";

/// `token create`
pub async fn create(hub: &Hub, wish: &TokenWish) -> Result<Answer, Error> {
    let token = make(hub, wish).await?;
    let text = format!(
        "{}\n\nfor {}, {} times, until {}. It is not shown again.\nnext: kubectl fleet join NAME --token {} --print",
        token.whole(),
        token.pattern,
        token.uses,
        token.expires,
        token.whole(),
    );
    let value = json!({
        "token": token.whole(), "id": token.id, "for": token.pattern, "uses": token.uses,
        "expires": token.expires.to_string(),
    });
    Ok(Answer::done(text, value))
}

/// Makes a token. The ConfigMap comes first: without it the Secret is a token that nobody knows.
pub async fn make(hub: &Hub, wish: &TokenWish) -> Result<Token, Error> {
    let token = Token::new(wish, hub.clock.now(), &token::random)?;
    connection::create(&hub.within::<ConfigMap>(SYSTEM_NAMESPACE), &token.config_map()).await?;
    connection::create(&hub.within::<Secret>(SECRETS), &token.secret_object()).await?;
    Ok(token)
}

/// `token list`
pub async fn list(hub: &Hub) -> Result<Answer, Error> {
    let labelled = ListParams::default().labels(&format!("{BOOTSTRAP}=true"));
    let found = connection::list(&hub.within::<ConfigMap>(SYSTEM_NAMESPACE), &labelled).await?;
    let tokens: Vec<Known> = found.iter().filter_map(Known::read).collect();
    let now = hub.clock.now();
    let row = |it: &Known| {
        let ends = it.expires.map_or_else(|| "unreadable".to_owned(), |it| left(it, now));
        vec![it.id.clone(), or_dash(&it.pattern), ends, format!("{}/{}", it.used_by.len(), it.uses)]
    };
    let rows: Vec<Vec<String>> = tokens.iter().map(row).collect();
    let text = if rows.is_empty() {
        "there are no tokens".to_owned()
    } else {
        table(&["ID", "FOR", "EXPIRES-IN", "USED"], &rows)
    };
    let items: Vec<_> = tokens
        .iter()
        .map(|it| {
            json!({
                "id": it.id, "for": it.pattern, "uses": it.uses, "usedBy": it.used_by,
                "expires": it.expires.map(|it| it.to_string()),
            })
        })
        .collect();
    Ok(Answer::done(text, json!({ "items": items })))
}

/// `token revoke`. The Secret goes first: from then on the API server does not know the token.
pub async fn revoke(hub: &Hub, id: &str) -> Result<Answer, Error> {
    if !token::is_id(id) {
        let fault =
            "must be the first part of a token: six letters and digits, see `kubectl fleet token list`";
        return Err(Error::input("ID", fault));
    }
    let secrets = hub.within::<Secret>(SECRETS);
    let maps = hub.within::<ConfigMap>(SYSTEM_NAMESPACE);
    let (secret, map) = (format!("bootstrap-token-{id}"), format!("fleet-token-{id}"));
    // Bootstrap tokens of others, kubeadm's for example, are not ours to revoke.
    let known = call("get the token", maps.get_opt(&map)).await?;
    if known.is_none() {
        return Err(Error::NotFound(format!("there is no token {id}, see `kubectl fleet token list`")));
    }
    let gone = |answer: Result<_, kruise_core::runtime::client::Error>| match answer {
        Err(error) if error.code() != Some(404) => Err(Error::from(error)),
        _ => Ok(()),
    };
    gone(call("delete the token", secrets.delete(&secret, &DeleteParams::default())).await.map(drop))?;
    gone(call("delete the token", maps.delete(&map, &DeleteParams::default())).await.map(drop))?;
    Ok(Answer::done(format!("token {id} is revoked"), json!({ "id": id, "revoked": true })))
}
