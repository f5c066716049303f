//! One hub and three members with their processes, which all tests of a program share, or a benchmark has for itself.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use anyhow::{Context, Result, ensure};
use axum::http::{Method, Request};
use kube::Client;
use lab::join::{self, Newcomer, with_token};
use serde_json::Value;
use tokio::sync::RwLock;

use crate::{
    Cluster,
    access::{self, Temporary, as_service_account},
    agent::{self, NAMESPACE},
    cluster,
    cost::Process,
    eventually, is_named,
    processes::Running,
    programs,
    proxy::Proxy,
};

/// Names of the members.
pub const MEMBERS: [&str; 3] = ["m1", "m2", "m3"];
/// The name of the hub, and of its process.
pub const HUB: &str = "hub";
/// The namespace of the hub, and its ServiceAccount in it.
const HUB_NAMESPACE: &str = "fleet-system";
const HUB_ACCOUNT: &str = "kruise-hub";

/// Agents that download images, and would do so ahead of updates of their own.
const IMAGES: [&str; 2] =
    ["--feature-gates=PreDownloadImageForInPlaceUpdate=true", "--nodeimage-creation-delay=0"];

/// A cluster of the fleet.
pub struct Member {
    /// The cluster.
    pub cluster: Cluster,
    /// A client with all rights.
    pub client: Client,
    /// The way from its agent to the hub.
    pub link: Proxy,
}

/// How agents reach the hub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Over links that can be cut.
    Cuttable,
    /// As they would anywhere else.
    Direct,
}

/// The hub, its members, and the processes of both. They end with this value.
pub struct Fleet {
    /// The hub.
    pub hub: Cluster,
    /// A client with all rights on it.
    pub client: Client,
    /// Where logs and credentials are.
    folder: PathBuf,
    members: BTreeMap<&'static str, Member>,
    commands: BTreeMap<&'static str, Command>,
    running: Mutex<BTreeMap<&'static str, Running>>,
    parts: BTreeMap<&'static str, Arc<RwLock<()>>>,
    /// Of the agents in their own clusters.
    _access: Vec<Temporary>,
}

impl Fleet {
    /// The fleet, started by whoever needs it first.
    pub async fn shared() -> Result<Arc<Self>> {
        static FLEET: tokio::sync::Mutex<Weak<Fleet>> = tokio::sync::Mutex::const_new(Weak::new());
        let mut known = FLEET.lock().await;
        if let Some(fleet) = known.upgrade() {
            return Ok(fleet);
        }
        let fleet = Arc::new(Self::start(Links::Cuttable, &IMAGES).await?);
        *known = Arc::downgrade(&fleet);
        Ok(fleet)
    }

    /// Starts a fleet of those members that there are, whose agents have more flags, and waits until all are Ready.
    pub async fn start(links: Links, agent_flags: &[&str]) -> Result<Self> {
        let hub = cluster(HUB);
        hub.install_crds().await?;
        remove_webhooks(&hub);
        // Members of an earlier run had other keys, and a member's key never changes.
        hub.kubectl(
            &[&["delete", "memberclusters", "--ignore-not-found", "--wait=false"][..], &MEMBERS].concat(),
        )?;
        for name in MEMBERS {
            // No hub runs that would empty them first; those that were never there are not there now.
            let free = r#"{"metadata":{"finalizers":null}}"#;
            let _ = hub.kubectl(&["patch", "memberclusters", name, "--type=merge", "--patch", free]);
        }
        let folder = std::env::temp_dir().join(format!("fleets-{}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let own = let_hub_in(&hub, &folder)?;
        access::apply(&hub, "webhook/hub")?;
        let mut command = Command::new(programs::hub().await?);
        // It is alone: nobody else could hold the lease when it is killed and started again.
        let flags = [
            "--metrics-addr=127.0.0.1:0",
            "--health-probe-addr=127.0.0.1:0",
            "--enable-leader-election=false",
        ];
        let variables =
            [("WEBHOOK_HOST", "127.0.0.1"), ("WEBHOOK_PORT", "0"), ("WEBHOOK_CERT_WRITER", "secret")];
        command.args(flags).arg("--kubeconfig").arg(&own).envs(variables);
        let mut fleet = Self {
            client: hub.client().await?,
            hub,
            folder,
            members: BTreeMap::new(),
            commands: [(HUB, command)].into(),
            running: Mutex::default(),
            parts: [HUB].iter().chain(&MEMBERS).map(|it| (*it, Arc::default())).collect(),
            _access: Vec::new(),
        };
        fleet.run_hub().await?;
        let named = MEMBERS.into_iter().filter(|it| is_named(it));
        let members: Vec<_> = named.collect();
        for name in &members {
            fleet.add(name, links, agent_flags).await?;
        }
        fleet.until_ready(&members).await?;
        Ok(fleet)
    }

    /// Starts the hub, and waits until it answers admission: before that its own kinds are refused.
    pub async fn run_hub(&self) -> Result<()> {
        self.run(HUB)?;
        self.until_admitted().await
    }

    /// Gives the hub its namespace, its rights and a token again, after somebody has deleted them.
    pub fn let_hub_in_again(&self) -> Result<()> {
        let_hub_in(&self.hub, &self.folder).map(drop)
    }

    /// Waits until an API server that was started anew knows the rights of the hub: without them the hub would end at once,
    /// and nobody starts it again here.
    pub async fn until_hub_is_known(&self) -> Result<()> {
        let account = format!("--as=system:serviceaccount:{HUB_NAMESPACE}:{HUB_ACCOUNT}");
        eventually("the hub has its rights", async || {
            let asked = self.hub.try_kubectl(&["auth", "can-i", "get", "/version", &account], "")?;
            Ok(asked.status.success().then_some(()))
        })
        .await
    }

    /// Waits until the hub answers admission.
    pub async fn until_admitted(&self) -> Result<()> {
        let policy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/samples/policy.yaml");
        let dry_run = ["apply", "--dry-run=server", "--filename", policy];
        eventually("the hub answers admission", async || {
            let answer = self.hub.try_kubectl(&dry_run, "")?;
            ensure!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
            Ok(Some(()))
        })
        .await
    }

    /// Joins a cluster by hand, and starts its agent.
    async fn add(&mut self, name: &'static str, links: Links, flags: &[&str]) -> Result<()> {
        let member = cluster(name);
        agent::remove_webhooks(&member);
        member.install_crds().await?;
        // There from an earlier test, perhaps.
        member.try_kubectl(&["create", "namespace", NAMESPACE], "")?;
        for folder in ["rbac", "rbac/link", "webhook"] {
            access::apply(&member, folder)?;
        }
        let link = Proxy::open(&self.hub.config().await?).await?;
        let granted = {
            let cuttable = format!("https://{}", link.address);
            self.join(name, &member, (links == Links::Cuttable).then_some(&*cuttable)).await?
        };
        let own = as_service_account(&member, "kruise-manager")?;
        let mut command = Command::new(programs::agent().await?);
        command
            .args(["manager", "--metrics-addr=127.0.0.1:0", "--health-probe-addr=127.0.0.1:0"])
            // It is alone: nobody led before it, whose last writes would have to be waited for.
            .arg("--enable-leader-election=false")
            .arg("--kubeconfig")
            .arg(&own.0)
            .arg("--hub-kubeconfig")
            .arg(&granted.0)
            .args(["--hub-uid", &granted.1])
            .args(flags)
            .envs(agent::VARIABLES);
        self._access.push(own);
        self.commands.insert(name, command);
        self.members.insert(name, Member { client: member.client().await?, cluster: member, link });
        self.run(name)
    }

    async fn join(&self, name: &str, member: &Cluster, server: Option<&str>) -> Result<(PathBuf, String)> {
        let newcomer = Newcomer { name, kubeconfig: &member.kubeconfig, server };
        let joined = join::join(&self.hub.kubeconfig, newcomer).await?;
        let path = self.folder.join(format!("{name}-on-hub.kubeconfig"));
        lab::pki::write_private(&path, &joined.kubeconfig.to_string())?;
        Ok((path, joined.hub_uid))
    }

    /// Gives a member everything on the hub again that joining gave it; its agent keeps the credential it has.
    pub async fn grant_again(&self, name: &str) -> Result<()> {
        join::grant(&self.client, name).await
    }

    /// A member by name.
    pub fn member(&self, name: &str) -> &Member {
        &self.members[name]
    }

    /// The right to use, or to disturb, the hub or a member.
    pub fn part(&self, name: &str) -> Arc<RwLock<()>> {
        self.parts[name].clone()
    }

    /// Starts the process of the hub or of a member.
    pub fn run(&self, name: &'static str) -> Result<()> {
        let running = Running::start(&self.commands[name], &self.log(name))?;
        self.running().insert(name, running);
        Ok(())
    }

    /// Kills a process as the kernel would.
    pub fn kill(&self, name: &'static str) -> Result<()> {
        let running = self.running().remove(name).with_context(|| format!("{name} runs"))?;
        running.kill()
    }

    /// The process of the hub or of a member, for what it costs.
    pub fn process(&self, name: &str) -> Result<Process> {
        let running = self.running();
        let running = running.get(name).with_context(|| format!("{name} runs"))?;
        Ok(Process(running.pid.clone()))
    }

    /// What a process has logged so far.
    pub fn logged(&self, name: &str) -> String {
        fs::read_to_string(self.log(name)).unwrap_or_default()
    }

    /// Where processes log.
    pub fn logs(&self) -> &Path {
        &self.folder
    }

    /// Where a process logs.
    fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    /// The state of a member.
    pub async fn state(&self, name: &str) -> Result<String> {
        Ok(self.told(name).await?["state"].as_str().unwrap_or_default().to_owned())
    }

    /// What the hub says of a member.
    async fn told(&self, name: &str) -> Result<Value> {
        let path = format!("/apis/fleet.kruise.io/v1alpha1/memberclusters/{name}");
        Ok(read(&self.client, &path).await?["status"].clone())
    }

    /// Waits until members may be used.
    pub async fn until_ready(&self, members: &[&str]) -> Result<()> {
        let ready = eventually("all members are Ready", async || {
            for name in members {
                let told = self.told(name).await?;
                ensure!(told["state"] == "Ready", "{name} is {}", told["state"]);
                // One that has just come back is Ready before it has said which kinds it has, and gets nothing until then.
                ensure!(told["apis"].is_array(), "{name} has not said which kinds it has");
            }
            Ok(Some(()))
        });
        ready.await.with_context(|| {
            let names = [HUB].into_iter().chain(MEMBERS);
            names
                .map(|it| format!("the end of the log of {it}:\n{}", tail(&self.log(it))))
                .collect::<Vec<_>>()
                .join("\n")
        })
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<&'static str, Running>> {
        // Nothing panics under this lock.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("members", &self.members.keys()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

/// Reads an object as it is.
pub async fn read(client: &Client, path: &str) -> Result<Value> {
    let request = Request::builder().method(Method::GET).uri(path).body(Vec::new())?;
    client.request(request).await.with_context(|| path.to_owned())
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.running().clear();
        for member in self.members.values() {
            agent::remove_webhooks(&member.cluster);
        }
        remove_webhooks(&self.hub);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Gives the hub its namespace and its rights, and says with which credential it may use them.
fn let_hub_in(hub: &Cluster, folder: &Path) -> Result<PathBuf> {
    access::apply(hub, "rbac/hub")?;
    let token =
        hub.kubectl(&["create", "token", HUB_ACCOUNT, "--namespace", HUB_NAMESPACE, "--duration=24h"])?;
    let path = folder.join("hub.kubeconfig");
    lab::pki::write_private(&path, &with_token(&hub.kubeconfig, &token)?.to_string())?;
    Ok(path)
}

/// Those of a hub that has ended lead to nobody.
fn remove_webhooks(hub: &Cluster) {
    for phase in ["mutating", "validating"] {
        let kind = format!("{phase}webhookconfiguration");
        let name = format!("kruise-hub-{phase}-webhook-configuration");
        let _ = hub.kubectl(&["delete", &kind, &name, "--ignore-not-found"]);
    }
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
