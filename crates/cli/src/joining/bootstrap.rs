//! What a cluster needs to ask the hub: the way to it, its authority, a token, and flags. Pure but for reading files.

use std::path::PathBuf;

use base64::{Engine, engine::general_purpose::STANDARD};
use kube::config::Kubeconfig;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::{Error, arguments::Join, tokens};

/// The Secret of the agent.
const SECRET: &str = "fleet-bootstrap";

/// The way to the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    server: String,
    authority: String,
    hash: String,
}

impl Way {
    /// As the kubeconfig has it, or at another address.
    pub fn read(source: (Option<&PathBuf>, Option<&str>), server: Option<&str>) -> Result<Self, Error> {
        let unusable = |fault: String| Error::input("--kubeconfig", fault);
        let file = match source.0 {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        Self::of(&file.map_err(|it| unusable(it.to_string()))?, source.1, server)
    }

    fn of(file: &Kubeconfig, context: Option<&str>, server: Option<&str>) -> Result<Self, Error> {
        let unusable = |fault: &str| Error::input("--kubeconfig", fault);
        let context =
            context.or(file.current_context.as_deref()).ok_or_else(|| unusable("has no current context"))?;
        let named = file.contexts.iter().find(|it| it.name == context);
        let cluster = named.and_then(|it| it.context.as_ref()).map(|it| it.cluster.as_str());
        let cluster = file.clusters.iter().find(|it| Some(it.name.as_str()) == cluster);
        let cluster = cluster.and_then(|it| it.cluster.as_ref());
        let cluster = cluster.ok_or_else(|| unusable("has no cluster for its context"))?;
        let server = server.map(str::to_owned).or_else(|| cluster.server.clone());
        let server = server.ok_or_else(|| unusable("names no server: say --server URL"))?;
        if !server.starts_with("https://") {
            return Err(Error::input("--server", format!("is {server}: it must begin with https://")));
        }
        let data = match (&cluster.certificate_authority_data, &cluster.certificate_authority) {
            (Some(data), _) => {
                STANDARD.decode(data).map_err(|_| unusable("has an authority that is no base64"))?
            }
            (None, Some(path)) => std::fs::read(path)
                .map_err(|it| unusable(&format!("names an authority, {path}, that cannot be read: {it}")))?,
            (None, None) => return Err(unusable("has no authority of the hub (certificate-authority-data)")),
        };
        let authority = String::from_utf8(data).map_err(|_| unusable("has an authority that is no PEM"))?;
        let hash = hash(&authority).ok_or_else(|| unusable("has an authority that is no PEM"))?;
        Ok(Self { server, authority, hash })
    }
}

/// What can be said about a wish before anything is written.
pub fn check(wish: &Join) -> Result<(), Error> {
    let is_fine = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b"-.".contains(&it);
    let ends = |it: &str| it.starts_with(['-', '.']) || it.ends_with(['-', '.']);
    let name = wish.cluster.as_str();
    if name.is_empty() || name.len() > 253 || !name.bytes().all(is_fine) || ends(name) {
        let fault = "must be small letters, digits, - and ., with a letter or digit at both ends";
        return Err(Error::input("CLUSTER", fault));
    }
    if wish.token.as_deref().is_some_and(|it| !tokens::is_token(it)) {
        return Err(Error::input(
            "--token",
            "must be what `kubectl fleet token create` printed: six letters, a dot, sixteen letters",
        ));
    }
    match wish.labels.iter().find(|it| it.split_once('=').is_none_or(|(key, _)| key.is_empty())) {
        Some(label) => Err(Error::input("--label", format!("is {label}: it must be KEY=VALUE"))),
        None => Ok(()),
    }
}

/// The Secret for the cluster.
pub fn secret(wish: &Join, way: &Way, token: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": { "name": SECRET, "namespace": wish.agent_namespace },
        "stringData": { "token": token, "ca.crt": way.authority },
    })
}

/// The flags of the agent, whose pod has the Secret at /etc/kruise/bootstrap.
pub fn flags(wish: &Join, way: &Way) -> Vec<String> {
    let mut flags = vec![
        format!("--hub-server={}", way.server),
        "--hub-ca-file=/etc/kruise/bootstrap/ca.crt".to_owned(),
        format!("--hub-ca-hash={}", way.hash),
        "--hub-token-file=/etc/kruise/bootstrap/token".to_owned(),
        format!("--hub-cluster={}", wish.cluster),
    ];
    flags.extend(wish.labels.iter().map(|it| format!("--hub-label={it}")));
    let places = [("region", &wish.region), ("zone", &wish.zone), ("provider", &wish.provider)];
    flags.extend(places.into_iter().filter_map(|(name, it)| Some(format!("--hub-{name}={}", it.as_ref()?))));
    flags
}

/// Something that `kubectl apply` takes, with the flags as comments.
pub fn page(wish: &Join, secret: &Value, flags: &[String]) -> Result<String, Error> {
    let yaml = serde_saphyr::to_string(secret).map_err(|it| Error::Refused(it.to_string()))?;
    let flags: String = flags.iter().map(|it| format!("#   {it}\n")).collect();
    Ok(format!(
        "# Apply this in {}. It holds a token: keep it out of logs and repositories.\n\
         # The agent there is told where it is with these flags of `kruise-agent manager`:\n{flags}---\n{yaml}",
        wish.cluster
    ))
}

/// SHA-256 of the first certificate (SEC-3).
fn hash(pem: &str) -> Option<String> {
    let (_, rest) = pem.split_once("-----BEGIN CERTIFICATE-----")?;
    let (body, _) = rest.split_once("-----END CERTIFICATE-----")?;
    let body: String = body.split_whitespace().collect();
    let der = STANDARD.decode(body).ok()?;
    let digits: String = digest(&SHA256, &der).as_ref().iter().map(|it| format!("{it:02x}")).collect();
    Some(format!("sha256:{digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish() -> Join {
        Join {
            cluster: "eu-1".to_owned(),
            print: true,
            token: None,
            server: None,
            agent_namespace: "kruise-system".to_owned(),
            labels: vec!["env=prod".to_owned()],
            region: Some("eu".to_owned()),
            zone: None,
            provider: None,
        }
    }

    fn file(pem: &str) -> Kubeconfig {
        serde_json::from_value(json!({
            "current-context": "c",
            "contexts": [{ "name": "c", "context": { "cluster": "k", "user": "u" } }],
            "clusters": [{ "name": "k", "cluster": {
                "server": "https://hub:6443", "certificate-authority-data": STANDARD.encode(pem),
            } }],
        }))
        .unwrap()
    }

    #[test]
    fn sec_3_the_authority_of_the_hub_goes_with_its_hash() {
        // printf abc | sha256sum
        let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let pem = "-----BEGIN CERTIFICATE-----\nYW\nJj\n-----END CERTIFICATE-----\n";
        let way = Way::of(&file(pem), None, None).unwrap();
        assert_eq!((way.server.as_str(), way.hash.as_str()), ("https://hub:6443", abc));
        let flags = flags(&wish(), &way);
        assert_eq!(flags.last().unwrap(), "--hub-region=eu");
        assert!(
            flags.contains(&format!("--hub-ca-hash={abc}"))
                && flags.contains(&"--hub-label=env=prod".to_owned())
        );
        let page = page(&wish(), &secret(&wish(), &way, "abcdef.0123456789abcdef"), &flags).unwrap();
        let (comments, manifest) = page.split_once("---\n").unwrap();
        assert!(comments.lines().all(|it| it.starts_with('#')), "{comments}");
        let read: Value = serde_saphyr::from_str(manifest).unwrap();
        assert_eq!(read["stringData"]["ca.crt"], pem);
        assert_eq!(Way::of(&file(pem), None, Some("https://out")).unwrap().server, "https://out");
    }

    #[test]
    fn what_cannot_work_is_named() {
        assert!(
            Way::of(&file("no certificate"), None, None)
                .unwrap_err()
                .told()
                .starts_with("--kubeconfig: has an authority")
        );
        let pem = "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n";
        assert!(Way::of(&file(pem), None, Some("http://a")).unwrap_err().told().starts_with("--server"));
        assert!(
            Way::of(&file(pem), Some("other"), None)
                .unwrap_err()
                .told()
                .contains("no cluster for its context")
        );
        for (field, wish) in [
            ("CLUSTER", Join { cluster: "EU".to_owned(), ..wish() }),
            ("--token", Join { token: Some("abc".to_owned()), ..wish() }),
            ("--label", Join { labels: vec!["env".to_owned()], ..wish() }),
        ] {
            assert!(check(&wish).unwrap_err().told().starts_with(field));
        }
        assert!(check(&wish()).is_ok());
    }
}
