//! What objects weigh in a simulated API server.

use std::{fmt::Debug, time::Duration};

use futures::{StreamExt, stream};
use k8s_openapi::{NamespaceResourceScope, api::core::v1::ConfigMap};
use kube::{Api, Resource, api::PostParams};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;
use sim::{
    fleet,
    server::{Settings, TrackUpdates, store::Retention},
};

use crate::{fleet::running, memory, pod};

const PODS: usize = 5_000;
const CONFIGMAPS: usize = 20_000;
const PODS_PER_NODE: usize = 100;
const AT_ONCE: usize = 64;

/// What is weighed; the names are those of the parts.
pub(crate) const CASES: [&str; 4] = ["pods", "pods-untracked", "pods-history", "configmaps"];

pub(crate) fn head() {
    println!(
        "\n| one of {PODS} pods that run or of {CONFIGMAPS} configmaps | as JSON, bytes | in memory, bytes |"
    );
    println!("|---|---|---|");
}

/// Weighs one of [`CASES`]; false when it is none.
pub(crate) fn run(case: &str) -> bool {
    let forgetful =
        Settings { retention: Retention { count: 0, ..Retention::default() }, ..Settings::default() };
    let untracked = Settings { track_updates: TrackUpdates::OnAppliedObjects, ..forgetful };
    let pods = |name: &str, settings: Settings| {
        weigh(name, "pods", PODS, settings, |it| pod(&format!("web-{it:05}")));
    };
    match case {
        "pods" => pods("pod, with what its kubelet keeps", forgetful),
        "pods-untracked" => pods("the same, updates not in managedFields", untracked),
        "pods-history" => {
            let remembers = Retention { count: usize::MAX, ..Retention::default() };
            pods("pod and the history of its start", Settings { retention: remembers, ..forgetful });
        }
        "configmaps" => weigh("configmap of three lines", "configmaps", CONFIGMAPS, forgetful, configmap),
        _ => return false,
    }
    true
}

fn weigh<K>(name: &str, table: &'static str, count: usize, settings: Settings, make: impl Fn(usize) -> K)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    K: Clone + Debug + Serialize + DeserializeOwned,
{
    let nodes = if table == "pods" { count / PODS_PER_NODE } else { 0 };
    fleet().nodes(nodes).settings(settings).seed(1).run(async |world| {
        let api: Api<K> = Api::default_namespaced(world.client("bench", "member-1"));
        let before = memory("RssAnon:");
        let (api, make) = (&api, &make);
        let creates = stream::iter(0..count).map(|it| async move {
            api.create(&PostParams::default(), &make(it)).await.expect("it is created");
        });
        creates.buffer_unordered(AT_ONCE).collect::<()>().await;
        let server = world.cluster("member-1");
        while table == "pods" && running(server.server()) < count {
            world.pass(Duration::from_secs(1)).await;
        }
        let weight = (memory("RssAnon:") - before) / count as f64;
        let text = server.server().list(table).iter().map(|it| it.text().len()).sum::<usize>() / count;
        println!("| {name} | {text} | {weight:.0} |");
    });
}

/// A small one, as most are.
fn configmap(index: usize) -> ConfigMap {
    serde_json::from_value(json!({
        "metadata": {"name": format!("settings-{index:05}"), "labels": {"app": "web"}},
        "data": {"mode": "fast", "level": "info", "address": "https://example.com"},
    }))
    .expect("a configmap")
}
