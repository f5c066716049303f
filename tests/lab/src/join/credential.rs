//! A client certificate, asked of the API server as an agent will ask for it: the key stays here.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use hub::members::access::CREDENTIAL_LIFE;
use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::json;

use crate::progress::now;

const PATIENCE: Duration = Duration::from_secs(60);

/// What an agent shows to the hub. All of it is base64, as kubeconfigs have it.
#[derive(Debug)]
pub(super) struct Credential {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// Asks for a certificate for `user`, approves that, and waits until it is signed.
pub(super) async fn request(hub: &Client, user: &str) -> Result<Credential> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    let asked = json!({
        "metadata": {"generateName": "fleet-agent-"},
        "spec": {
            "request": base64(params.serialize_request(&key)?.pem()?.as_bytes())?,
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth", "digital signature"],
            "expirationSeconds": CREDENTIAL_LIFE.as_secs(),
        },
    });
    let requests: Api<CertificateSigningRequest> = Api::all(hub.clone());
    let asked = requests.create(&PostParams::default(), &serde_json::from_value(asked)?).await?;
    let name = asked.metadata.name.context("the API server names every request")?;
    let approval = json!({"status": {"conditions": [{
        "type": "Approved", "status": "True", "reason": "JoinedByHand", "message": "an administrator joins this cluster",
    }]}});
    requests.patch_approval(&name, &PatchParams::default(), &Patch::Strategic(approval)).await?;
    let certificate = signed(&requests, &name).await?;
    Ok(Credential { certificate: base64(&certificate)?, key: base64(key.serialize_pem().as_bytes())? })
}

async fn signed(requests: &Api<CertificateSigningRequest>, name: &str) -> Result<Vec<u8>> {
    let started = now();
    loop {
        let status = requests.get(name).await?.status.unwrap_or_default();
        if let Some(certificate) = status.certificate {
            return Ok(certificate.0);
        }
        if started.elapsed() > PATIENCE {
            bail!("nobody signed the certificate {name} within {PATIENCE:?}");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Kubernetes' own types know how bytes are written.
fn base64(bytes: &[u8]) -> Result<String> {
    let text = serde_json::to_value(ByteString(bytes.to_vec()))?;
    Ok(text.as_str().context("bytes are written as text")?.to_owned())
}
