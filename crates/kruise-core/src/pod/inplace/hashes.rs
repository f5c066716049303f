//! Hashes by which a running container is recognised, and the annotation in which the node daemon reports them.
//!
//! Kubelet and OpenKruise hash the text that Go prints for a slice of bytes, and the bytes are JSON as Go writes it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    env::{Source, from_metadata},
    state::nullable,
};
use crate::{
    api::common::{is_default, keys},
    runtime::cache::pod::PodLite,
};

/// What the node daemon knows about the containers of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RuntimeContainers {
    /// One entry for each container that runs.
    #[serde(deserialize_with = "nullable")]
    pub containers: Vec<RuntimeContainer>,
}

/// What the node daemon knows about one container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeContainer {
    /// Its name.
    pub name: String,
    /// The running instance.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// How often it was restarted.
    pub restart_count: i32,
    /// What it was started from.
    pub hashes: RuntimeHashes,
}

/// What a container was started from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuntimeHashes {
    /// Kubelet's hash of the container's spec, see [`plain_hash`].
    pub plain_hash: u64,
    /// Hash of the environment that came from metadata, see [`expected_env_hash`].
    #[serde(skip_serializing_if = "is_default")]
    pub extracted_env_from_metadata_hash: u64,
}

impl RuntimeContainers {
    /// What the daemon has reported on a pod.
    pub fn of(pod: &PodLite) -> Option<Result<Self, serde_json::Error>> {
        pod.annotations().get(keys::RUNTIME_CONTAINERS_META).map(|it| serde_json::from_str(it))
    }
}

/// Kubelet's hash of a container, as it is since Kubernetes 1.31: of its name and image alone.
pub fn plain_hash(name: &str, image: &str) -> u64 {
    go_hash(&format!(r#"{{"image":{},"name":{}}}"#, go_string(image), go_string(name)))
}

/// Hash of the environment that a container should get from its pod's labels and annotations.
pub fn expected_env_hash(
    env: &[Value],
    labels: &BTreeMap<String, String>,
    annotations: &BTreeMap<String, String>,
) -> u64 {
    let values = from_metadata(env).map(|it| {
        let map = match it.source {
            Source::Labels => labels,
            Source::Annotations => annotations,
        };
        (it.name, map.get(it.key).cloned().unwrap_or_default())
    });
    env_hash(values.collect())
}

/// Hash of the environment that a container really got; `value_of` answers for a variable's name. The error is the
/// first one that `value_of` gives.
pub fn actual_env_hash<E>(
    env: &[Value],
    mut value_of: impl FnMut(&str) -> Result<String, E>,
) -> Result<u64, E> {
    let values = from_metadata(env).map(|it| Ok((it.name, value_of(it.name)?)));
    Ok(env_hash(values.collect::<Result<_, E>>()?))
}

fn env_hash(mut values: Vec<(&str, String)>) -> u64 {
    if values.is_empty() {
        return go_hash("null");
    }
    values.sort_by(|a, b| a.0.cmp(b.0));
    let entries: Vec<String> = values
        .iter()
        .map(|(name, value)| match value.as_str() {
            "" => format!(r#"{{"name":{}}}"#, go_string(name)),
            value => format!(r#"{{"name":{},"value":{}}}"#, go_string(name), go_string(value)),
        })
        .collect();
    go_hash(&format!("[{}]", entries.join(",")))
}

/// FNV-1a, 32 bits, over what Go prints for these bytes.
fn go_hash(json: &str) -> u64 {
    let bytes: Vec<String> = json.bytes().map(|it| it.to_string()).collect();
    let printed = format!("([]uint8)[{}]", bytes.join(" "));
    let hash = printed
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    u64::from(hash)
}

/// A string as Go writes it into JSON: what could be read as HTML is escaped.
fn go_string(text: &str) -> String {
    let json = serde_json::to_string(text).expect("a string is always JSON");
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plain_hashes_are_those_of_kubelet() {
        assert_eq!(plain_hash("test_container", "foo/image:v1"), 0x8e45_cbd0);
        assert_eq!(plain_hash("foo", "bar"), 0x11a6_d6d6);
    }

    #[test]
    fn environment_hashes_are_those_of_openkruise() {
        let none = BTreeMap::new();
        assert_eq!(expected_env_hash(&[], &none, &none), 86_995_377);
        let labels = BTreeMap::from([("l1".to_owned(), "foo".to_owned())]);
        let env = [
            json!({"name": "e1", "value": "a"}),
            json!({"name": "e2", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['l1']"}}}),
            json!({"name": "node", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}),
        ];
        assert_eq!(expected_env_hash(&env, &labels, &none), 2_053_173_458);
        assert_eq!(actual_env_hash(&env, |_| Ok::<_, ()>("foo".into())), Ok(2_053_173_458));
        assert_ne!(actual_env_hash(&env, |_| Ok::<_, ()>("bar".into())), Ok(2_053_173_458));
        assert_eq!(actual_env_hash(&env, |it| Err::<String, _>(it.to_owned())), Err("e2".to_owned()));
    }

    #[test]
    fn the_order_of_variables_does_not_matter_and_the_versions_of_sidecars_do_not_count() {
        let from = |name: &str, key: &str| {
            let path = format!("metadata.annotations['{key}']");
            json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})
        };
        let none = BTreeMap::new();
        let annotations = BTreeMap::from([("a".to_owned(), "<1>".to_owned())]);
        let hash = |env: &[Value]| expected_env_hash(env, &none, &annotations);
        assert_eq!(hash(&[from("x", "a"), from("y", "b")]), hash(&[from("y", "b"), from("x", "a")]));
        assert_eq!(hash(&[from("SIDECARSET_VERSION", "a")]), hash(&[]));
        assert_eq!(hash(&[from("SIDECARSET_VERSION_ALT", "a")]), hash(&[]));
        assert_ne!(hash(&[from("x", "a")]), hash(&[from("x", "b")]));
    }

    #[test]
    fn strings_are_written_as_go_writes_them() {
        assert_eq!(go_string("a<b>&\"\\\u{2028}\n\u{1}ü"), r#""a\u003cb\u003e\u0026\"\\\u2028\n\u0001ü""#);
    }

    #[test]
    fn reports_are_written_as_the_daemon_of_openkruise_writes_them() {
        let text = r#"{"containers":[{"name":"c","containerID":"containerd://1","restartCount":2,"hashes":{"plainHash":7}}]}"#;
        let read: RuntimeContainers = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }
}
