//! A registry of a test's own: it makes images on the fly, keeps some back, wants a login for others, and remembers what
//! it was asked.
//!
//! What it does depends on the first part of a repository's name: `open` serves, `private` wants [`USER`] and
//! [`PASSWORD`], `hang` never answers, `late` does not know the image before [`Registry::publish`], and `slow` takes
//! [`SLOW`] for each layer, as does every repository with `/slow-` in its name.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Result;
use axum::{
    Router,
    body::Body,
    extract::{Path as UrlPath, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::json;

/// Who may download private images.
pub const USER: &str = "somebody";
/// Their password.
pub const PASSWORD: &str = "open-sesame-4711";
/// How long a slow layer takes.
pub const SLOW: Duration = Duration::from_millis(700);

/// What was asked so far.
#[derive(Debug, Default)]
struct Log {
    /// Downloads of layers by repository.
    layers: BTreeMap<String, usize>,
    /// Questions for manifests by repository.
    manifests: BTreeMap<String, usize>,
    /// Layers being served now, and the most there ever were, by repository.
    at_once: BTreeMap<String, (usize, usize)>,
    published: BTreeSet<String>,
}

/// A running registry. It ends with the runtime that it was started on.
#[derive(Debug, Clone)]
pub struct Registry {
    /// The name by which nodes know it.
    pub host: String,
    log: Arc<Mutex<Log>>,
}

impl Registry {
    /// Starts a registry and tells the nodes with these folders where to find it.
    pub async fn start(nodes: &[impl AsRef<Path>]) -> Result<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let it = Self { host: format!("registry-{}.test", address.port()), log: Arc::default() };
        let routes = Router::new()
            .route("/v2/", get(|| async { "{}" }))
            .route("/v2/{*rest}", get(answer))
            .with_state(it.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        for node in nodes {
            let folder = node.as_ref().join("certs.d").join(&it.host);
            std::fs::create_dir_all(&folder)?;
            // The server as well: nodes would go on to look for the name elsewhere.
            let host = format!(
                "server = \"http://{address}\"\n\n[host.\"http://{address}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
            );
            std::fs::write(folder.join("hosts.toml"), host)?;
        }
        Ok(it)
    }

    /// The full name of an image here.
    pub fn image(&self, repository: &str, tag: &str) -> String {
        format!("{}/{repository}:{tag}", self.host)
    }

    /// The digest of an image's manifest.
    pub fn digest(&self, repository: &str, tag: &str) -> String {
        digest(Image::new(repository, tag).manifest.as_bytes())
    }

    /// Lets a late image appear.
    pub fn publish(&self, repository: &str) {
        self.log().published.insert(repository.to_owned());
    }

    /// How often layers of a repository were downloaded.
    pub fn layers(&self, repository: &str) -> usize {
        self.log().layers.get(repository).copied().unwrap_or(0)
    }

    /// How often manifests of a repository were asked for.
    pub fn manifests(&self, repository: &str) -> usize {
        self.log().manifests.get(repository).copied().unwrap_or(0)
    }

    /// How many layers of a repository were served at the same time at most.
    pub fn most_at_once(&self, repository: &str) -> usize {
        self.log().at_once.get(repository).map_or(0, |it| it.1)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin_layer(&self, repository: &str) {
        let mut log = self.log();
        *log.layers.entry(repository.to_owned()).or_default() += 1;
        let (now, most) = log.at_once.entry(repository.to_owned()).or_default();
        *now += 1;
        *most = (*most).max(*now);
    }

    fn end_layer(&self, repository: &str) {
        if let Some((now, _)) = self.log().at_once.get_mut(repository) {
            *now -= 1;
        }
    }
}

async fn answer(
    State(registry): State<Registry>,
    UrlPath(rest): UrlPath<String>,
    headers: HeaderMap,
) -> Response {
    let Some((repository, kind, reference)) = split(&rest) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if repository.starts_with("private/") && !is_known(&headers) {
        let challenge = [(header::WWW_AUTHENTICATE, "Basic realm=\"test\"")];
        return (StatusCode::UNAUTHORIZED, challenge, "who are you?").into_response();
    }
    if kind == "manifests" {
        *registry.log().manifests.entry(repository.to_owned()).or_default() += 1;
    }
    if repository.starts_with("hang/") {
        std::future::pending::<()>().await;
    }
    if repository.starts_with("late/") && !registry.log().published.contains(repository) {
        return StatusCode::NOT_FOUND.into_response();
    }
    // A digest does not tell its tag: every tag that tests use is tried.
    let tags = ["1", "2", "3"];
    let found = tags.into_iter().map(|tag| (tag, Image::new(repository, tag))).find_map(|(tag, image)| {
        let Image { manifest, config, layer } = image;
        let is_manifest = tag == reference || digest(manifest.as_bytes()) == reference;
        match kind {
            "manifests" if is_manifest => Some((MANIFEST, manifest.into_bytes(), false)),
            "blobs" if digest(config.as_bytes()) == reference => Some((CONFIG, config.into_bytes(), false)),
            "blobs" if digest(&layer) == reference => Some((LAYER, layer, true)),
            _ => None,
        }
    });
    let Some((media_type, bytes, is_layer)) = found else { return StatusCode::NOT_FOUND.into_response() };
    if is_layer {
        registry.begin_layer(repository);
        if repository.starts_with("slow/") || repository.contains("/slow-") {
            tokio::time::sleep(SLOW).await;
        }
        registry.end_layer(repository);
    }
    let headers =
        [(header::CONTENT_TYPE.as_str(), media_type.to_owned()), ("docker-content-digest", digest(&bytes))];
    (headers, Body::from(bytes)).into_response()
}

fn split(rest: &str) -> Option<(&str, &'static str, &str)> {
    for kind in ["manifests", "blobs"] {
        if let Some((repository, reference)) = rest.rsplit_once(&format!("/{kind}/")) {
            return Some((repository, kind, reference));
        }
    }
    None
}

fn is_known(headers: &HeaderMap) -> bool {
    let expected = format!("Basic {}", BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}")));
    headers.get(header::AUTHORIZATION).is_some_and(|it| it.as_bytes() == expected.as_bytes())
}

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// An image of one small layer, different for each name and tag.
struct Image {
    manifest: String,
    config: String,
    layer: Vec<u8>,
}

impl Image {
    fn new(repository: &str, tag: &str) -> Self {
        let layer = archive("name", format!("{repository}:{tag}\n").as_bytes());
        let config = json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [digest(&layer)]},
        });
        let config = config.to_string();
        let part = |kind: &str, bytes: &[u8]| json!({"mediaType": kind, "digest": digest(bytes), "size": bytes.len()});
        let manifest = json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": part(CONFIG, config.as_bytes()), "layers": [part(LAYER, &layer)],
        });
        Self { manifest: manifest.to_string(), config, layer }
    }
}

fn digest(bytes: &[u8]) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA256, bytes);
    let hex: String = hash.as_ref().iter().map(|it| format!("{it:02x}")).collect();
    format!("sha256:{hex}")
}

/// A tar archive with one file.
fn archive(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = [0_u8; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", content.len()));
    put(136, "00000000000\0");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|it| u32::from(*it)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut archive = header.to_vec();
    archive.extend_from_slice(content);
    archive.resize(archive.len().next_multiple_of(512) + 1024, 0);
    archive
}
