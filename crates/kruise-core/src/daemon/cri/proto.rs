//! The messages of CRI `runtime.v1` that we use, field by field as the interface numbers them.
//!
//! Fields that we neither set nor read are left out: protobuf skips what it does not know. Written by hand so that a
//! build needs no `protoc`; the tests on a real containerd see to it that the numbers are right.

use std::{collections::HashMap, fmt};

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct VersionRequest {
    #[prost(string, tag = "1")]
    pub(super) version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct VersionResponse {
    #[prost(string, tag = "1")]
    pub(super) version: String,
    #[prost(string, tag = "2")]
    pub(super) runtime_name: String,
    #[prost(string, tag = "3")]
    pub(super) runtime_version: String,
    #[prost(string, tag = "4")]
    pub(super) runtime_api_version: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerFilter {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(map = "string, string", tag = "4")]
    pub(super) label_selector: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListContainersRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) filter: Option<ContainerFilter>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListedContainer {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(string, tag = "2")]
    pub(super) pod_sandbox_id: String,
    #[prost(int32, tag = "6")]
    pub(super) state: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListContainersResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) containers: Vec<ListedContainer>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerStatusRequest {
    #[prost(string, tag = "1")]
    pub(super) container_id: String,
    #[prost(bool, tag = "2")]
    pub(super) verbose: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerStatus {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(int32, tag = "3")]
    pub(super) state: i32,
    #[prost(int64, tag = "4")]
    pub(super) created_at: i64,
    #[prost(int64, tag = "5")]
    pub(super) started_at: i64,
    #[prost(map = "string, string", tag = "12")]
    pub(super) labels: HashMap<String, String>,
    #[prost(map = "string, string", tag = "13")]
    pub(super) annotations: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ContainerStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<ContainerStatus>,
    #[prost(map = "string, string", tag = "2")]
    pub(super) info: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StopContainerRequest {
    #[prost(string, tag = "1")]
    pub(super) container_id: String,
    #[prost(int64, tag = "2")]
    pub(super) timeout: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Empty {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExecSyncRequest {
    #[prost(string, tag = "1")]
    pub(super) container_id: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) cmd: Vec<String>,
    #[prost(int64, tag = "3")]
    pub(super) timeout: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExecSyncResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) stdout: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) stderr: Vec<u8>,
    #[prost(int32, tag = "3")]
    pub(super) exit_code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxStatusRequest {
    #[prost(string, tag = "1")]
    pub(super) pod_sandbox_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxNetworkStatus {
    #[prost(string, tag = "1")]
    pub(super) ip: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxStatus {
    #[prost(message, optional, tag = "5")]
    pub(super) network: Option<PodSandboxNetworkStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxStatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<PodSandboxStatus>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ImageSpec {
    #[prost(string, tag = "1")]
    pub(super) image: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListImagesRequest {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Image {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(string, repeated, tag = "2")]
    pub(super) repo_tags: Vec<String>,
    #[prost(string, repeated, tag = "3")]
    pub(super) repo_digests: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListImagesResponse {
    #[prost(message, repeated, tag = "1")]
    pub(super) images: Vec<Image>,
}

/// Credentials on the wire. They never show in a log.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(super) struct AuthConfig {
    #[prost(string, tag = "1")]
    pub(super) username: String,
    #[prost(string, tag = "2")]
    pub(super) password: String,
}

impl fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuthConfig(hidden)")
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxMetadata {
    #[prost(string, tag = "1")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PodSandboxConfig {
    #[prost(message, optional, tag = "1")]
    pub(super) metadata: Option<PodSandboxMetadata>,
    #[prost(map = "string, string", tag = "6")]
    pub(super) labels: HashMap<String, String>,
    #[prost(map = "string, string", tag = "7")]
    pub(super) annotations: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PullImageRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) image: Option<ImageSpec>,
    #[prost(message, optional, tag = "2")]
    pub(super) auth: Option<AuthConfig>,
    #[prost(message, optional, tag = "3")]
    pub(super) sandbox_config: Option<PodSandboxConfig>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PullImageResponse {
    #[prost(string, tag = "1")]
    pub(super) image_ref: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_with_credentials_prints_none_of_them() {
        let auth = AuthConfig { username: "someone".into(), password: "topsecret".into() };
        let request = PullImageRequest { auth: Some(auth), ..PullImageRequest::default() };
        let text = format!("{request:?}");
        assert!(!text.contains("topsecret") && !text.contains("someone"), "{text}");
    }
}
