//! Clusters that join a hub over the wire: the built `kruise-agent` with the rights of `config/rbac` and a bootstrap token.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use kube::{Client, config::Kubeconfig};
use multicluster::{
    Cluster,
    access::{Temporary, apply, as_service_account},
    agent::{self, Agent, NAMESPACE},
    cluster, eventually,
};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::kit::{Hub, private};

/// The Secret in which an agent keeps its credential.
const CREDENTIAL: &str = "fleet-hub-credential";

/// A bootstrap token, as `kubectl fleet token create` makes it.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) id: String,
    secret: String,
}

impl Token {
    /// A token for names that match, which ends in so many seconds.
    pub(crate) fn create(hub: &Hub, pattern: &str, uses: u32, ends_in: i64) -> Result<Self> {
        let letters = |it: &[u8]| it.iter().map(|it| char::from(b'a' + it % 26)).collect::<String>();
        let mut random = [0_u8; 22];
        ring::rand::SecureRandom::fill(&ring::rand::SystemRandom::new(), &mut random)
            .map_err(|_| anyhow::anyhow!("no randomness"))?;
        let token = Self { id: letters(&random[..6]), secret: letters(&random[6..]) };
        let ends = hub.now()? + jiff::SignedDuration::from_secs(ends_in);
        let ends = jiff::Timestamp::from_second(ends.as_second())?.to_string();
        let labels = json!({"fleet.kruise.io/bootstrap": "true"});
        hub.create(&json!({
            "apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"name": format!("bootstrap-token-{}", token.id), "namespace": "kube-system", "labels": labels},
            "stringData": {
                "token-id": token.id, "token-secret": token.secret, "expiration": ends,
                "usage-bootstrap-authentication": "true", "auth-extra-groups": "system:bootstrappers:fleet",
            },
        }))?;
        hub.create(&json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("fleet-token-{}", token.id), "namespace": "fleet-system", "labels": labels},
            "data": {"for": pattern, "expires": ends, "uses": uses.to_string()},
        }))?;
        Ok(token)
    }

    /// What an agent is given.
    pub(crate) fn whole(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }
}

/// A cluster that wants to be a member. Its agent ends with this value.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) cluster: Cluster,
    /// The name that it asks for.
    pub(crate) name: String,
    server: String,
    ca: Temporary,
    ca_hash: String,
    token: Temporary,
    access: Option<Temporary>,
    pub(crate) agent: Option<Agent>,
}

impl Member {
    /// The cluster `place`, which has forgotten whatever it was before, and will ask for `name`.
    pub(crate) async fn new(hub: &Hub, place: &str, name: &str) -> Result<Self> {
        let cluster = cluster(place);
        agent::remove_webhooks(&cluster);
        cluster.install_crds().await?;
        cluster.try_kubectl(&["create", "namespace", NAMESPACE], "")?;
        for folder in ["rbac", "rbac/link"] {
            apply(&cluster, folder)?;
        }
        let admin = Kubeconfig::read_from(&hub.cluster.kubeconfig)?;
        let known = admin
            .clusters
            .first()
            .and_then(|it| it.cluster.as_ref())
            .context("a kubeconfig names a cluster")?;
        let server = known.server.clone().context("a cluster has an address")?;
        let authority = match (&known.certificate_authority_data, &known.certificate_authority) {
            (Some(data), _) => String::from_utf8(STANDARD.decode(data)?)?,
            (None, Some(path)) => std::fs::read_to_string(path)?,
            (None, None) => anyhow::bail!("the kubeconfig of the hub has no authority"),
        };
        let this = Self {
            ca_hash: hash(&authority)?,
            ca: private(&format!("{name}-{}.ca", std::process::id()), &authority)?,
            token: private(&format!("{name}-{}.token", std::process::id()), "")?,
            name: name.to_owned(),
            access: None,
            agent: None,
            cluster,
            server,
        };
        this.forget()?;
        Ok(this)
    }

    /// Forgets everything about any hub, as a cluster that was never a member.
    pub(crate) fn forget(&self) -> Result<()> {
        let delete = |arguments: &[&str]| {
            let always = ["delete", "--namespace", NAMESPACE, "--ignore-not-found", "secrets"];
            self.cluster.kubectl(&[&always, arguments].concat()).map(drop)
        };
        delete(&[CREDENTIAL, "fleet-agent"])?;
        delete(&["--selector=fleet.kruise.io/plan"])
    }

    /// Puts a token into the agent's file.
    pub(crate) fn give(&self, token: &Token) -> Result<()> {
        Ok(std::fs::write(&self.token.0, token.whole())?)
    }

    /// Flags of its agent besides those that say which cluster it is in.
    pub(crate) fn flags(&self) -> Vec<String> {
        vec![
            format!("--hub-server={}", self.server),
            format!("--hub-ca-file={}", self.ca.0.display()),
            format!("--hub-ca-hash={}", self.ca_hash),
            format!("--hub-token-file={}", self.token.0.display()),
            format!("--hub-cluster={}", self.name),
            "--hub-region=eu".to_owned(),
            "--hub-label=env=test".to_owned(),
            // It is alone: nobody led before it, whose last writes would have to be waited for.
            "--enable-leader-election=false".to_owned(),
        ]
    }

    /// Starts its agent with the rights of the generated roles.
    pub(crate) async fn start(&mut self, more: &[&str]) -> Result<()> {
        self.agent = None;
        // An agent that ended has taken its own away, and these rights are none to make them.
        apply(&self.cluster, "webhook")?;
        let access = as_service_account(&self.cluster, "kruise-manager")?;
        let flags = self.flags().into_iter().chain(more.iter().map(|it| (*it).to_owned()));
        let builder = agent::agent(&self.cluster).kubeconfig(&access.0);
        self.agent = Some(flags.fold(builder, |it, flag| it.flag(flag)).start().await?);
        self.access = Some(access);
        Ok(())
    }

    pub(crate) fn log(&self) -> String {
        self.agent.as_ref().map(Agent::log).unwrap_or_default()
    }

    /// Waits until its agent has logged this.
    pub(crate) async fn says(&self, words: &str) -> Result<()> {
        let what = format!("the agent of {} says {words:?}", self.name);
        let said = eventually(&what, async || Ok(self.log().contains(words).then_some(())));
        said.await.with_context(|| self.log())
    }

    /// Waits until it is Ready on the hub.
    pub(crate) async fn ready(&self, hub: &Hub) -> Result<()> {
        let what = format!("{} is Ready", self.name);
        let ready = eventually(&what, async || {
            let state = hub.get(&["memberclusters", &self.name])?["status"]["state"].clone();
            ensure!(state == "Ready", "{} is {state}", self.name);
            Ok(Some(()))
        });
        ready.await.with_context(|| format!("the hub:\n{}\nthe agent:\n{}", hub.log(), self.log()))
    }

    /// A field of the Secret with its credential.
    pub(crate) fn kept(&self, field: &str) -> Result<Option<String>> {
        let arguments =
            ["get", "secret", "--namespace", NAMESPACE, CREDENTIAL, "-o", "json", "--ignore-not-found"];
        let text = self.cluster.kubectl(&arguments)?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        let secret: Value = serde_json::from_str(&text)?;
        let Some(data) = secret["data"][field].as_str() else { return Ok(None) };
        Ok(Some(String::from_utf8(STANDARD.decode(data)?)?))
    }

    /// Serial number and first second of the certificate that it has now.
    pub(crate) fn certificate(&self) -> Result<(String, i64)> {
        let kept = self.kept("tls.crt")?.context("a certificate is kept")?;
        let (_, pem) = x509_parser::pem::parse_x509_pem(kept.as_bytes())?;
        let certificate = pem.parse_x509()?;
        Ok((certificate.raw_serial_as_string(), certificate.validity().not_before.timestamp()))
    }

    /// The hub as its agent sees it.
    pub(crate) async fn on_hub(&self, hub: &Hub) -> Result<Client> {
        if let Some(token) = self.kept("token")? {
            return hub.as_holder(&token).await;
        }
        let mut config = hub.cluster.config().await?;
        let mut auth = kube::config::AuthInfo::default();
        let field = |name: &str| -> Result<String> {
            Ok(STANDARD.encode(self.kept(name)?.with_context(|| format!("{name} is kept"))?))
        };
        auth.client_certificate_data = Some(field("tls.crt")?);
        auth.client_key_data = Some(field("tls.key")?.into());
        config.auth_info = auth;
        Ok(Client::try_from(config)?)
    }

    /// The CloneSet `web` of a namespace as the member has it.
    pub(crate) fn web(&self, namespace: &str) -> Result<Value> {
        let arguments =
            ["get", "clonesets.v1beta1.apps.kruise.io", "web", "--namespace", namespace, "-o", "json"];
        Ok(serde_json::from_str(&self.cluster.kubectl(&arguments)?)?)
    }
}

impl Hub {
    /// The hub as the holder of a token sees it.
    pub(crate) async fn as_holder(&self, token: &str) -> Result<Client> {
        let mut config = self.cluster.config().await?;
        let token = Some(token.to_owned().into());
        config.auth_info = kube::config::AuthInfo { token, ..kube::config::AuthInfo::default() };
        Ok(Client::try_from(config)?)
    }

    /// The time by the machine's clock: tests may look at it, our programs only through their own.
    #[expect(clippy::disallowed_methods, reason = "a token ends by the clock of a real API server")]
    pub(crate) fn now(&self) -> Result<jiff::Timestamp> {
        Ok(jiff::Timestamp::now())
    }

    /// Forgets all members, requests and tokens of other tests.
    pub(crate) fn forget_members(&self) -> Result<()> {
        // Nothing of other tests is waited for: their agents may be gone.
        self.cluster.kubectl(&["delete", "memberclusters", "--all", "--wait=false"])?;
        let left = self.cluster.kubectl(&["get", "memberclusters", "-o", "name"])?;
        for name in left.lines() {
            let free = r#"{"metadata":{"finalizers":null}}"#;
            // It may have gone meanwhile.
            let _ = self.cluster.kubectl(&["patch", name, "--type=merge", "--patch", free]);
        }
        for kind in ["memberclusters", "joinrequests"] {
            self.cluster.kubectl(&["delete", kind, "--all", "--wait=true", "--timeout=60s"])?;
        }
        for (namespace, kind) in [("kube-system", "secrets"), ("fleet-system", "configmaps")] {
            let selector = "--selector=fleet.kruise.io/bootstrap=true";
            self.cluster.kubectl(&["delete", kind, "--namespace", namespace, selector])?;
        }
        Ok(())
    }

    /// An administrator's word on a request.
    pub(crate) fn decide(&self, name: &str, word: &str) -> Result<()> {
        let note = format!("fleet.kruise.io/decision={word}");
        self.cluster.kubectl(&["annotate", "joinrequests", name, &note]).map(drop)
    }

    /// Waits until a request was answered so.
    pub(crate) async fn answered(&self, name: &str, decision: &str, reason: &str) -> Result<Value> {
        let what = format!("{name} is {decision} because of {reason}");
        let answered = eventually(&what, async || {
            let status = self.get(&["joinrequests", name])?["status"].clone();
            ensure!(status["decision"] == decision && status["reason"] == reason, "{status}");
            Ok(Some(status))
        });
        answered.await.with_context(|| self.log())
    }

    /// Sets whether a member is accepted.
    pub(crate) fn accept(&self, name: &str, accepted: bool) -> Result<()> {
        let patch = json!({"spec": {"accepted": accepted}}).to_string();
        self.cluster.kubectl(&["patch", "memberclusters", name, "--type=merge", "--patch", &patch]).map(drop)
    }

    /// Places the CloneSet `web` with so many replicas on members, in a namespace of its own.
    pub(crate) async fn place(&self, members: &[&str], replicas: usize) -> Result<String> {
        let namespace = self.cluster.namespace("joining").await?;
        self.create(&json!({
            "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "PlacementPolicy",
            "metadata": {"name": "all", "namespace": namespace},
            "spec": {"targets": [{"kind": "CloneSet", "labelSelector": {}}], "clusters": {"names": members}},
        }))?;
        self.create(&json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "web", "namespace": namespace},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "web", "image": "lab/web:1"}]},
                },
            },
        }))?;
        Ok(namespace)
    }

    /// Sets the replicas of `web`.
    pub(crate) fn scale(&self, namespace: &str, replicas: u32) -> Result<()> {
        let patch = json!({"spec": {"replicas": replicas}}).to_string();
        let kind = "clonesets.v1beta1.apps.kruise.io";
        self.cluster
            .kubectl(&["patch", kind, "web", "--namespace", namespace, "--type=merge", "--patch", &patch])
            .map(drop)
    }

    /// Releases another image of `web` as far as `partition`, pod by pod and slowly enough to watch.
    pub(crate) fn release(&self, namespace: &str, image: &str, partition: &Value) -> Result<()> {
        let patch = json!({"spec": {
            "minReadySeconds": 5,
            "updateStrategy": {"rollingUpdate": {"maxUnavailable": 1, "partition": partition}},
            "template": {"spec": {"containers": [{"name": "web", "image": image}]}},
        }});
        let (kind, patch) = ("clonesets.v1beta1.apps.kruise.io", patch.to_string());
        self.cluster
            .kubectl(&["patch", kind, "web", "--namespace", namespace, "--type=merge", "--patch", &patch])
            .map(drop)
    }

    /// Whether so many pods of `web` have what was released last, and all are available.
    pub(crate) fn is_released(&self, namespace: &str, replicas: usize, updated: usize) -> Result<bool> {
        let web = self.get(&["clonesets.v1beta1.apps.kruise.io", "web", "--namespace", namespace])?;
        let count = |field: &str| web["status"][field].as_u64().unwrap_or(0);
        let is_seen = web["status"]["observedGeneration"] == web["metadata"]["generation"];
        let found = (count("replicas"), count("availableReplicas"), count("updatedReplicas"));
        Ok(is_seen && found == (replicas as u64, replicas as u64, updated as u64))
    }

    /// Waits until the fleet has so many available pods of `web`.
    pub(crate) async fn rests(&self, namespace: &str, replicas: usize) -> Result<()> {
        let what = format!("{replicas} pods are available");
        let rests = eventually(&what, async || {
            let web = self.get(&["clonesets.v1beta1.apps.kruise.io", "web", "--namespace", namespace])?;
            let found = web["status"]["availableReplicas"].as_u64().unwrap_or(0);
            ensure!(found == replicas as u64, "{found}");
            Ok(Some(()))
        });
        rests.await.with_context(|| self.log())
    }

    /// Deletes a namespace with what is in it, as the hub asks for it (DEL-4).
    pub(crate) fn close(&self, namespace: &str) -> Result<()> {
        let kind = "clonesets.v1beta1.apps.kruise.io";
        self.cluster.kubectl(&["delete", kind, "--all", "--namespace", namespace, "--timeout=120s"])?;
        self.cluster.kubectl(&["delete", "namespace", namespace, "--wait=false"]).map(drop)
    }
}

/// SHA-256 of the first certificate, as `kubectl fleet join --print` prints it.
fn hash(pem: &str) -> Result<String> {
    let body = pem.split("-----BEGIN CERTIFICATE-----").nth(1).context("a certificate")?;
    let body = body.split("-----END CERTIFICATE-----").next().context("its end")?;
    let der = STANDARD.decode(body.split_whitespace().collect::<String>())?;
    let digits: String = digest(&SHA256, &der).as_ref().iter().map(|it| format!("{it:02x}")).collect();
    Ok(format!("sha256:{digits}"))
}

/// Runs an agent that is expected to end by itself, and gives what it said.
pub(crate) async fn ends(member: &Member, flags: &[String]) -> Result<(bool, String)> {
    let program: PathBuf = multicluster::programs::agent().await?;
    let output = tokio::process::Command::new(program)
        .arg("manager")
        .arg("--kubeconfig")
        .arg(&member.cluster.kubeconfig)
        .args(["--metrics-addr=0", "--health-probe-addr=0", "--log-format=text"])
        .args(flags)
        .envs(agent::VARIABLES)
        .kill_on_drop(true)
        .output();
    let output =
        tokio::time::timeout(Duration::from_secs(120), output).await.context("the agent did not end")??;
    Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
}
