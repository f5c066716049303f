//! One image: a base layer with busybox, a small layer of its own, a config and a manifest.

use std::sync::Arc;

use serde_json::json;

use super::tar::Archive;

pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";

/// Applets that tests and probes use; the rest is one `busybox NAME` away.
const APPLETS: [&str; 24] = [
    "sh", "ash", "bash", "cat", "ls", "ps", "sleep", "echo", "true", "false", "env", "kill", "httpd", "wget",
    "nc", "touch", "rm", "mkdir", "cp", "mv", "date", "grep", "sed", "test",
];

/// What a container of the image does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    /// Waits, and ends at once when told to.
    Pause,
    /// Waits, with a note of when it started.
    Sleep,
    /// Serves `/www` on port 80.
    Web,
}

impl Entry {
    fn command(self) -> &'static str {
        match self {
            Self::Pause | Self::Sleep => "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done",
            Self::Web => "trap 'exit 0' TERM INT; httpd -f -p 80 -h /www & wait $!",
        }
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
        let own: Arc<[u8]> = archive.finish().into();
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {
                "Env": ["PATH=/bin"],
                "Entrypoint": ["/bin/sh", "-c", entry.command()],
            },
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
        // bash asks for nothing here that ash does not have.
        let target = if applet == "bash" { "ash" } else { "busybox" };
        archive.link(&format!("bin/{applet}"), target);
    }
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
