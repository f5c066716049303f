//! A registry on loopback whose images are made here from one static busybox: nothing is downloaded.
//!
//! Every tag of the catalogue has content of its own, so that an update to another tag is a real change of image; only
//! its aliases share the image of another tag.

mod catalogue;
mod image;
mod tar;

use std::{
    collections::BTreeMap,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
};

use anyhow::{Context, Result};
use axum::{
    Router,
    extract::{Path as UrlPath, State},
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use catalogue::{ALIASES, CATALOGUE};
use image::Image;
use tokio_util::sync::CancellationToken;

/// What sandboxes run.
pub const PAUSE: &str = "lab/pause:1";

const DIGEST: HeaderName = HeaderName::from_static("docker-content-digest");

/// Manifests and blobs by what they are asked for with.
#[derive(Debug, Default)]
struct Store {
    manifests: BTreeMap<String, Arc<[u8]>>,
    blobs: BTreeMap<String, Arc<[u8]>>,
}

/// Serves the catalogue on `port` until the token is cancelled.
pub async fn serve(port: u16, busybox: PathBuf, stop: CancellationToken) -> Result<()> {
    let busybox = fs::read(&busybox).with_context(|| format!("cannot read {}", busybox.display()))?;
    let store = Arc::new(Store::build(&busybox));
    let routes = Router::new()
        .route("/v2/", get(|| async { axum::Json(serde_json::json!({})) }))
        .route("/v2/{*rest}", get(answer))
        .with_state(store);
    let listener = tokio::net::TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned()).await?;
    Ok(())
}

async fn answer(State(store): State<Arc<Store>>, UrlPath(rest): UrlPath<String>) -> Response {
    let found = if let Some((repository, reference)) = rest.rsplit_once("/manifests/") {
        let manifest = store.manifests.get(&format!("{repository}@{reference}"));
        manifest.map(|it| (image::MANIFEST, it.clone()))
    } else if let Some((_, digest)) = rest.rsplit_once("/blobs/") {
        store.blobs.get(digest).map(|it| ("application/octet-stream", it.clone()))
    } else {
        None
    };
    match found {
        Some((kind, bytes)) => {
            let headers = [(header::CONTENT_TYPE, kind.to_owned()), (DIGEST, image::digest(&bytes))];
            (headers, bytes.to_vec()).into_response()
        }
        None => {
            let body = serde_json::json!({"errors": [{"code": "MANIFEST_UNKNOWN", "message": format!("{rest} is not in the catalogue")}]});
            (StatusCode::NOT_FOUND, axum::Json(body)).into_response()
        }
    }
}

impl Store {
    fn build(busybox: &[u8]) -> Self {
        let mut store = Self::default();
        let base: Arc<[u8]> = image::base_layer(busybox).into();
        for (repository, tags, entry) in CATALOGUE {
            for tag in tags {
                store.add(repository, tag, &Image::new(base.clone(), &format!("{repository}:{tag}"), entry));
            }
        }
        for (repository, alias, tag) in ALIASES {
            let manifest = store.manifests[&format!("{repository}@{tag}")].clone();
            store.manifests.insert(format!("{repository}@{alias}"), manifest);
        }
        store
    }

    fn add(&mut self, repository: &str, tag: &str, image: &Image) {
        let manifest: Arc<[u8]> = image.manifest.clone().into();
        for reference in [tag, &image::digest(&manifest)] {
            self.manifests.insert(format!("{repository}@{reference}"), manifest.clone());
        }
        for blob in [&image.config, &image.base, &image.own] {
            self.blobs.insert(image::digest(blob), blob.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tag_has_content_of_its_own_over_one_shared_base() {
        let store = Store::build(b"not really busybox");
        let one = &store.manifests["lab/web@1"];
        let two = &store.manifests["lab/web@2"];
        assert_ne!(one, two);
        assert_eq!(store.manifests[&format!("lab/web@{}", image::digest(one))], *one);
        let tags: usize = CATALOGUE.iter().map(|(_, tags, _)| tags.len()).sum();
        // One config and one small layer each, and the base.
        assert_eq!(store.blobs.len(), 2 * tags + 1);
    }

    #[test]
    fn an_alias_is_the_same_image_under_another_tag() {
        let store = Store::build(b"not really busybox");
        for (repository, alias, tag) in ALIASES {
            let manifest = |tag: &str| &store.manifests[&format!("{repository}@{tag}")];
            assert_eq!(manifest(alias), manifest(tag), "{repository}");
        }
    }
}
