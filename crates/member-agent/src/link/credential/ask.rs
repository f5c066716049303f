//! What is asked of the hub: the only calls of an agent that has no credential yet, and of one that renews it.

use k8s_openapi::{ByteString, api::certificates::v1::CertificateSigningRequest};
use kruise_core::{
    api::fleet::{
        join_request::{JoinRequest, JoinRequestSpec},
        member_cluster::MemberCluster,
    },
    runtime::client::{Error, call},
};
use kube::{Api, Client, api::PostParams};
use serde_json::json;

use super::{LIFE, held::Offered, joining::Seen};

/// The signer of client certificates.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// When an object was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    /// By this call.
    Now,
    /// It was there.
    Before,
}

/// Sends a CertificateSigningRequest. One of that name is ours: it was sent before, and we were not told.
pub(super) async fn sign(hub: &Client, name: &str, request: &str) -> Result<Made, Error> {
    let body = json!({
        "metadata": {"name": name},
        "spec": {
            "request": ByteString(request.as_bytes().to_vec()),
            "signerName": SIGNER,
            "usages": ["client auth", "digital signature"],
            "expirationSeconds": LIFE.as_secs(),
        },
    });
    let body: CertificateSigningRequest =
        serde_json::from_value(body).expect("this is a CertificateSigningRequest");
    let api: Api<CertificateSigningRequest> = Api::all(hub.clone());
    or_there(call("ask for a credential", api.create(&PostParams::default(), &body)).await)
}

/// Sends a JoinRequest. What one of that name says, is looked at next.
pub(super) async fn join(hub: &Client, name: &str, spec: JoinRequestSpec) -> Result<Made, Error> {
    let api: Api<JoinRequest> = Api::all(hub.clone());
    let request = JoinRequest::new(name, spec);
    or_there(call("ask to join", api.create(&PostParams::default(), &request)).await)
}

/// Looks at our JoinRequest.
pub(super) async fn look(hub: &Client, name: &str) -> Result<Seen, Error> {
    let api: Api<JoinRequest> = Api::all(hub.clone());
    match call("read our request to join", api.get(name)).await {
        Ok(request) => Ok(Seen::There(Box::new(request))),
        Err(error) if error.code() == Some(403) => Ok(Seen::Closed),
        Err(error) if error.code() == Some(404) => Ok(Seen::Missing),
        Err(error) => Err(error),
    }
}

/// The newest credential that the hub has written for us since we joined; nothing if there is none.
pub(super) async fn renewed(hub: &Client, cluster: &str) -> Result<Offered, Error> {
    let api: Api<MemberCluster> = Api::all(hub.clone());
    let member = call("look for a newer credential", api.get_opt(cluster)).await?;
    let status = member.and_then(|it| it.status).unwrap_or_default();
    Ok(Offered { certificate: status.certificate, sealed: status.sealed_credential })
}

fn or_there<T>(made: Result<T, Error>) -> Result<Made, Error> {
    match made {
        Ok(_) => Ok(Made::Now),
        Err(error) if error.is_name_taken() => Ok(Made::Before),
        Err(error) => Err(error),
    }
}
