//! The configuration files of containerd, its network and kubelet.

use std::fs;

use anyhow::Result;
use serde_json::json;

use super::Spec;
use crate::{binaries, registry};

pub(super) fn write(spec: &Spec, programs: &binaries::Node) -> Result<()> {
    fs::write(spec.folder.join("containerd.toml"), containerd(spec, programs))?;
    fs::write(spec.folder.join("certs.d/_default/hosts.toml"), mirror(spec))?;
    fs::write(spec.folder.join("cni/10-bridge.conflist"), format!("{:#}\n", network(spec)))?;
    fs::write(spec.folder.join("kubelet.json"), format!("{:#}\n", kubelet(spec)))?;
    Ok(())
}

fn containerd(spec: &Spec, programs: &binaries::Node) -> String {
    let folder = spec.folder.display();
    // Without restrict_oom_score_adj sandboxes do not start where root may not raise priorities.
    format!(
        r#"version = 2
root = "{folder}/containerd"
state = "/run/containerd/state"

[grpc]
  address = "{socket}"

[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "{registry}/{pause}"
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"

[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{cni}"
  conf_dir = "{folder}/cni"

[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = "{folder}/certs.d"
"#,
        socket = spec.socket().display(),
        registry = spec.registry,
        pause = registry::PAUSE,
        cni = programs.cni.display(),
    )
}

/// Sends every pull, whatever registry it names, to ours: nothing leaves the machine. Without `server` containerd would
/// go on to the registry that was named when ours does not have the image.
fn mirror(spec: &Spec) -> String {
    let registry = &spec.registry;
    format!(
        "server = \"http://{registry}\"\n\n[host.\"http://{registry}\"]\n  capabilities = [\"pull\", \"resolve\"]\n"
    )
}

fn network(spec: &Spec) -> serde_json::Value {
    let (high, low) = spec.network();
    json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": spec.bridge(),
                "isGateway": true,
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "dataDir": spec.folder.join("cni/addresses"),
                    "ranges": [[{"subnet": format!("10.{high}.{low}.0/24")}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "loopback"},
        ],
    })
}

fn kubelet(spec: &Spec) -> serde_json::Value {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "127.0.0.1",
        "port": spec.port,
        "readOnlyPort": 0,
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": spec.health_port,
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": spec.folder.join("pki/ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", spec.cgroup()),
        "failCgroupV1": false,
        "failSwapOn": false,
        "enforceNodeAllocatable": [],
        "systemReserved": {"cpu": spec.reserved_cpus.to_string()},
        "containerRuntimeEndpoint": format!("unix://{}", spec.socket().display()),
        "volumePluginDir": spec.folder.join("volume-plugins"),
        "podLogsDir": spec.folder.join("pod-logs"),
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "maxPods": 110,
        "registerNode": true,
        "nodeStatusUpdateFrequency": "5s",
        "syncFrequency": "10s",
    })
}
