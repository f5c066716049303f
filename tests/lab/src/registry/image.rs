//! One image: a base layer with busybox, a small layer of its own, a config and a manifest.

use std::sync::Arc;

use serde_json::json;

use super::tar::Archive;

pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Applets that tests and probes use; the rest is one `busybox NAME` away.
const APPLETS: [&str; 28] = [
    "sh", "ash", "cat", "ls", "ps", "sleep", "echo", "true", "false", "env", "kill", "httpd", "wget", "nc",
    "touch", "rm", "mkdir", "cp", "mv", "date", "grep", "sed", "test", "tail", "head", "hostname", "id",
    "nslookup",
];

/// What asks for bash here asks for nothing that busybox's shell does not have, but busybox does not know the name.
const BASH: &[u8] = b"#!/bin/sh\nexec /bin/sh \"$@\"\n";

/// What a sidecar of the hot upgrade samples runs to hand its work over; a stand-in has none.
const MIGRATE: &[u8] = b"#!/bin/sh\nexit 0\n";

/// What a container of the image does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    /// Waits, and ends at once when told to.
    Pause,
    /// Waits, with a note of when it started.
    Sleep,
    /// Serves `/www` on port 80.
    Web,
    /// Waits; has the script that hot upgrades run when a container starts.
    Migrating,
    /// A shell: ends at once, successfully, unless it is given something else to do.
    Shell,
}

impl Entry {
    fn config(self) -> serde_json::Value {
        let command = match self {
            Self::Pause | Self::Sleep | Self::Migrating => {
                "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done"
            }
            Self::Web => "trap 'exit 0' TERM INT; httpd -f -p 80 -h /www & wait $!",
            Self::Shell => return json!({"Env": ["PATH=/bin"], "Cmd": ["/bin/sh"]}),
        };
        json!({"Env": ["PATH=/bin"], "Entrypoint": ["/bin/sh", "-c", command]})
    }
}

#[derive(Debug)]
pub(super) struct Image {
    pub(super) base: Arc<[u8]>,
    pub(super) own: Arc<[u8]>,
    pub(super) config: Arc<[u8]>,
    pub(super) manifest: Vec<u8>,
}

impl Image {
    pub(super) fn new(base: Arc<[u8]>, name: &str, entry: Entry) -> Self {
        let mut archive = Archive::default();
        archive.folder("www");
        archive.file("www/index.html", 0o644, format!("{name}\n").as_bytes());
        archive.file("image-name", 0o644, format!("{name}\n").as_bytes());
        if matches!(entry, Entry::Migrating) {
            archive.file("migrate.sh", 0o755, MIGRATE);
        }
        let own: Arc<[u8]> = archive.finish().into();
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": entry.config(),
            "rootfs": {"type": "layers", "diff_ids": [digest(&base), digest(&own)]},
        });
        let config: Arc<[u8]> = config.to_string().into_bytes().into();
        let part = |kind: &str, bytes: &[u8]| json!({"mediaType": kind, "digest": digest(bytes), "size": bytes.len()});
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": part(CONFIG, &config),
            "layers": [part(LAYER, &base), part(LAYER, &own)],
        });
        Self { base, own, config, manifest: manifest.to_string().into_bytes() }
    }
}

pub(super) fn base_layer(busybox: &[u8]) -> Vec<u8> {
    let mut archive = Archive::default();
    for folder in ["bin", "tmp", "etc", "proc", "sys", "dev", "run", "var"] {
        archive.folder(folder);
    }
    archive.file("bin/busybox", 0o755, busybox);
    for applet in APPLETS {
        archive.link(&format!("bin/{applet}"), "busybox");
    }
    archive.file("bin/bash", 0o755, BASH);
    archive.file("etc/passwd", 0o644, b"root:x:0:0:root:/:/bin/sh\n");
    archive.finish()
}

pub(super) fn digest(bytes: &[u8]) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA256, bytes);
    let hex: String = hash.as_ref().iter().map(|it| format!("{it:02x}")).collect();
    format!("sha256:{hex}")
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
