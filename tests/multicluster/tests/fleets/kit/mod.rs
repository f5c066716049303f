//! What the tests share: the fleet, and a namespace of it for each of them.

pub(crate) use multicluster::{
    fleet::{Fleet, MEMBERS, read},
    limits::{Limits, Seen},
};

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{Arc, LazyLock},
};

use anyhow::{Context, Result, bail, ensure};
use futures::{FutureExt, future::try_join_all};
use multicluster::{eventually, limits::Pods, programs, stage::merged};
use serde_json::{Value, json};
use tokio::{
    runtime::Runtime,
    sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard},
};

/// Outlives every test, as the fleet that they share may.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().expect("a process may start threads"));

/// What a test disturbs, so that no other test may use it meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disturbs {
    Nothing,
    Hub,
    Member(&'static str),
    HubAnd(&'static str),
}

impl Disturbs {
    fn has(self, part: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Hub => part == "hub",
            Self::Member(name) => part == name,
            Self::HubAnd(name) => part == "hub" || part == name,
        }
    }
}

enum Held {
    Shared(#[expect(dead_code, reason = "it is there to be held")] OwnedRwLockReadGuard<()>),
    Alone(#[expect(dead_code, reason = "it is there to be held")] OwnedRwLockWriteGuard<()>),
}

/// A namespace of the hub, with a policy for all CloneSets in it.
#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) namespace: String,
    /// The members that take part.
    pub(crate) members: Vec<&'static str>,
}

/// How `kubectl fleet` ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Plays `test` on a stage of its own over all members.
pub(crate) fn on(disturbs: Disturbs, test: impl AsyncFnOnce(&Stage) -> Result<()>) -> Result<()> {
    among(&MEMBERS, disturbs, test)
}

/// Plays `test` on a stage of its own over some members.
pub(crate) fn among(
    members: &[&'static str],
    disturbs: Disturbs,
    test: impl AsyncFnOnce(&Stage) -> Result<()>,
) -> Result<()> {
    RUNTIME.block_on(async {
        let fleet = Fleet::shared().await?;
        // In one order for all, so that nobody waits for somebody who waits for them.
        let mut held = Vec::new();
        for part in ["hub"].iter().chain(&MEMBERS) {
            if disturbs.has(part) {
                held.push(Held::Alone(fleet.part(part).write_owned().await));
            } else if *part == "hub" || members.contains(part) {
                held.push(Held::Shared(fleet.part(part).read_owned().await));
            }
        }
        fleet.until_ready(members).await?;
        let stage = Stage::open(fleet, members.to_vec()).await?;
        let played = AssertUnwindSafe(test(&stage)).catch_unwind().await;
        let told = if matches!(played, Ok(Ok(()))) { String::new() } else { stage.told() };
        // Also of a test that failed: those that come later would fail with it.
        let closed = stage.close().await;
        match played {
            Ok(played) => played.context(told).and(closed),
            Err(panic) => {
                eprintln!("{told}");
                resume_unwind(panic)
            }
        }
    })
}

/// The CloneSet `web` as OpenKruise's users write it, with `spec` merged into its spec.
pub(crate) fn web(replicas: u32, image: &str, spec: Value) -> Value {
    let base = json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": image}]},
            },
        },
    });
    merged(&base, &json!({"spec": spec}))
}

/// `updateStrategy.rollingUpdate` as a spec.
pub(crate) fn rolling(fields: Value) -> Value {
    json!({"updateStrategy": {"rollingUpdate": fields}})
}

/// A condition in a status; null if it has none of this type.
pub(crate) fn condition(status: &Value, kind: &str) -> Value {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|it| it["type"] == kind).cloned().unwrap_or_default()
}

/// The pods, as far as a restart or a new one would show.
pub(crate) fn lives(pods: &[Seen]) -> Vec<(&str, i32)> {
    pods.iter().map(|it| (it.uid.as_str(), it.restarts)).collect()
}

impl From<&Stage> for Pods {
    fn from(stage: &Stage) -> Self {
        let clusters = stage.members.iter().map(|it| (*it, stage.fleet.member(it).client.clone())).collect();
        Self { namespace: stage.namespace.clone(), clusters }
    }
}

impl Stage {
    async fn open(fleet: Arc<Fleet>, members: Vec<&'static str>) -> Result<Self> {
        let namespace = fleet.hub.namespace("play").await?;
        let stage = Self { fleet, namespace, members };
        stage.place(json!({}))?;
        Ok(stage)
    }

    /// Another stage beside this one, for a case of the same test.
    pub(crate) async fn beside(&self) -> Result<Self> {
        Self::open(self.fleet.clone(), self.members.clone()).await
    }

    /// Deletes everything of it, as the hub asks for it where objects run on several clusters (DEL-4), and waits until no member has
    /// a share of it any more: others find nothing there that is not theirs.
    pub(crate) async fn close(self) -> Result<()> {
        self.kubectl(&["delete", "clonesets.apps.kruise.io", "--all", "--wait=false"])?;
        let confirmed = format!("fleet.kruise.io/confirm-delete={}", self.namespace);
        self.fleet.hub.kubectl(&["annotate", "namespace", &self.namespace, &confirmed])?;
        self.fleet.hub.kubectl(&["delete", "namespace", &self.namespace, "--wait=false"])?;
        eventually(&format!("nothing of {} is left", self.namespace), async || {
            let line = r#"jsonpath={range .items[*]}{.spec.object.namespace} {.metadata.namespace} {.spec} {.status}{"\n"}{end}"#;
            let said = self.fleet.hub.kubectl(&["get", "assignments", "--all-namespaces", "-o", line])?;
            let ours: Vec<&str> = said.lines().filter(|it| it.starts_with(&self.namespace)).collect();
            ensure!(ours.is_empty(), "{ours:#?}");
            Ok(Some(()))
        })
        .await
    }

    /// Runs kubectl on the hub, in this namespace.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.fleet.hub.kubectl(&[&["--namespace", self.namespace.as_str()][..], arguments].concat())
    }

    /// Runs `kubectl fleet` on the hub, as an administrator.
    pub(crate) async fn kubectl_fleet(&self, arguments: &[&str]) -> Result<Ended> {
        let output = tokio::process::Command::new(programs::cli().await?)
            .args(arguments)
            .env("KUBECONFIG", &self.fleet.hub.kubeconfig)
            .kill_on_drop(true)
            .output()
            .await?;
        Ok(Ended {
            code: output.status.code(),
            out: String::from_utf8(output.stdout)?,
            err: String::from_utf8(output.stderr)?,
        })
    }

    /// The same stage, as far as these members see it.
    pub(crate) fn seen_by(&self, members: &[&'static str]) -> Self {
        Self { members: members.to_vec(), ..self.clone() }
    }

    /// Applies a manifest as a user does.
    pub(crate) fn apply(&self, manifest: &Value) -> Result<()> {
        let arguments = ["--namespace", self.namespace.as_str(), "apply", "--filename=-"];
        let output = self.fleet.hub.try_kubectl(&arguments, &manifest.to_string())?;
        if !output.status.success() {
            bail!("{}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(())
    }

    /// Writes the policy, with `spec` merged into its spec.
    pub(crate) fn place(&self, spec: Value) -> Result<()> {
        let policy = json!({
            "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "PlacementPolicy", "metadata": {"name": "all"},
            "spec": {
                "targets": [{"kind": "CloneSet", "labelSelector": {}}],
                "clusters": {"names": self.members},
            },
        });
        self.apply(&merged(&policy, &json!({"spec": spec})))
    }

    /// The hub's object.
    pub(crate) async fn web(&self) -> Result<Value> {
        let path = format!("/apis/apps.kruise.io/v1beta1/namespaces/{}/clonesets/web", self.namespace);
        read(&self.fleet.client, &path).await
    }

    /// The binding of `web`.
    pub(crate) async fn binding(&self) -> Result<Value> {
        let path = format!(
            "/apis/fleet.kruise.io/v1alpha1/namespaces/{}/fleetbindings/cloneset.web",
            self.namespace
        );
        read(&self.fleet.client, &path).await
    }

    /// The member objects, by cluster.
    pub(crate) async fn member_objects(&self) -> Result<BTreeMap<&'static str, Value>> {
        let path = format!("/apis/apps.kruise.io/v1beta1/namespaces/{}/clonesets/web", self.namespace);
        let reads = self.members.iter().map(|name| {
            let path = path.clone();
            async move { anyhow::Ok((*name, read(&self.fleet.member(name).client, &path).await?)) }
        });
        Ok(try_join_all(reads).await?.into_iter().collect())
    }

    /// Replicas that each member object asks for, by cluster; 0 where there is none.
    pub(crate) async fn shares(&self) -> Result<BTreeMap<&'static str, u64>> {
        let saved = self.binding().await?["spec"]["ledger"]["clusters"].clone();
        let share = |name: &&'static str| (*name, saved[*name]["share"]["replicas"].as_u64().unwrap_or(0));
        Ok(self.members.iter().map(share).collect())
    }

    /// The same without regard to which member has which.
    pub(crate) async fn sorted_shares(&self) -> Result<Vec<u64>> {
        let mut shares: Vec<u64> = self.shares().await?.into_values().collect();
        shares.sort_unstable();
        Ok(shares)
    }

    /// All pods of the fleet in this namespace that are not on their way out.
    pub(crate) async fn pods(&self) -> Result<Vec<Seen>> {
        Pods::from(self).list().await
    }

    /// Waits until `web` rests: so many pods, all ready, so many of them of `image`, and all of it acknowledged.
    pub(crate) async fn rests(&self, replicas: usize, image: &str, updated: usize) -> Result<Vec<Seen>> {
        eventually(&format!("{replicas} pods rest, {updated} of them {image}"), async || {
            let (web, pods) = (self.web().await?, self.pods().await?);
            let is_there = pods.len() == replicas
                && pods.iter().all(|it| it.is_ready)
                && pods.iter().filter(|it| it.image == image).count() == updated
                && web["status"]["observedGeneration"] == web["metadata"]["generation"]
                && web["status"]["availableReplicas"].as_u64().unwrap_or(0) == replicas as u64;
            Ok(is_there.then_some(pods))
        })
        .await
    }

    /// Waits until there are so many pods, all ready and of `image`, whatever the hub says of the rest.
    pub(crate) async fn has(&self, replicas: usize, image: &str) -> Result<Vec<Seen>> {
        eventually(&format!("{replicas} pods of {image} in {:?}", self.members), async || {
            let pods = self.pods().await?;
            let is_there = pods.len() == replicas && pods.iter().all(|it| it.is_ready && it.image == image);
            Ok(is_there.then_some(pods))
        })
        .await
    }

    /// What happened to `web` on the hub: `Scheduled m1 0 -> 4, ...`, as often as it happened.
    pub(crate) fn events(&self) -> Result<Vec<String>> {
        let line = r#"jsonpath={range .items[*]}{.count} {.reason} {.message}{"\n"}{end}"#;
        let said =
            self.kubectl(&["get", "events", "--field-selector=involvedObject.name=web", "-o", line])?;
        let counted = said.lines().filter_map(|it| it.split_once(' '));
        let repeated = counted
            .flat_map(|(count, event)| std::iter::repeat_n(event.to_owned(), count.parse().unwrap_or(1)));
        Ok(repeated.collect())
    }

    /// Waits until an event about `web` begins so.
    pub(crate) async fn event(&self, beginning: &str) -> Result<String> {
        eventually(&format!("an event {beginning}"), async || {
            Ok(self.events()?.into_iter().find(|it| it.starts_with(beginning)))
        })
        .await
    }

    /// What a person would look at when something is wrong.
    fn told(&self) -> String {
        let look = |arguments: &[&str]| self.kubectl(arguments).unwrap_or_else(|error| format!("{error:#}"));
        let mut told = format!(
            "in namespace {}\n{}{}{}{}",
            self.namespace,
            look(&["get", "memberclusters,clonesets,fleetbindings"]),
            look(&["get", "assignments", "--all-namespaces"]),
            look(&["get", "fleetbindings", "-o", "jsonpath={.items[*].status.conditions}"]),
            self.events().unwrap_or_default().join("\n"),
        );
        for name in &self.members {
            let pods =
                self.fleet.member(name).cluster.kubectl(&["--namespace", &self.namespace, "get", "pods"]);
            told += &format!("\n{name}:\n{}", pods.unwrap_or_else(|error| format!("{error:#}")));
        }
        told
    }
}
