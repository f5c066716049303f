//! etcd, API server, controller manager and scheduler of one cluster, all on loopback.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};

use crate::{
    binaries,
    pki::{self, Authority},
    process::{Running, output, tied},
    progress::now,
};

const SERVICE_NETWORK: &str = "10.96.0.0/16";
const SERVICE_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1));
const PATIENCE: Duration = Duration::from_secs(120);
const APISERVER: &str = "kube-apiserver";
const ETCD: &str = "etcd";
/// Where a copy of etcd's folder is kept.
pub const COPY: &str = "etcd.copy";

/// Where a control plane listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Ports {
    /// etcd, for the API server.
    pub etcd: u16,
    /// etcd, for its (absent) peers.
    pub etcd_peer: u16,
    /// The API server.
    pub apiserver: u16,
    /// Health of the controller manager.
    pub controller_manager: u16,
    /// Health of the scheduler.
    pub scheduler: u16,
}

/// A control plane being run by this process.
#[derive(Debug)]
pub struct ControlPlane {
    folder: PathBuf,
    programs: binaries::ControlPlane,
    ports: Ports,
    /// Names of real nodes: the API server reaches their kubelets by name.
    node_names: Vec<String>,
    /// Whether there is nothing but the API server.
    bare: bool,
    /// The authority node certificates are signed by.
    pub authority: Authority,
    children: Vec<Running>,
}

impl ControlPlane {
    /// Writes certificates and kubeconfig of a new cluster below `folder`.
    pub fn create(
        name: &str,
        folder: &Path,
        programs: binaries::ControlPlane,
        ports: Ports,
        node_names: Vec<String>,
    ) -> Result<Self> {
        let pki = folder.join("pki");
        fs::create_dir_all(&pki)?;
        fs::create_dir_all(folder.join("logs"))?;
        let authority = Authority::create(&format!("{name}-ca"))?;
        authority.write(&pki)?;
        let names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
        let addresses = [IpAddr::V4(Ipv4Addr::LOCALHOST), SERVICE_ADDRESS];
        authority.server("kube-apiserver", &names, &addresses)?.write(&pki, "apiserver")?;
        for (user, group) in [
            ("admin", "system:masters"),
            ("system:kube-controller-manager", "system:kube-controller-manager"),
            ("system:kube-scheduler", "system:kube-scheduler"),
            ("kubelet-client", "system:masters"),
        ] {
            authority.client(user, group)?.write(&pki, user)?;
        }
        pki::write_token_keys(&pki)?;
        let this = Self {
            folder: folder.to_owned(),
            programs,
            ports,
            node_names,
            bare: false,
            authority,
            children: Vec::new(),
        };
        for (user, file) in [
            ("admin", "kubeconfig"),
            ("system:kube-controller-manager", "controller-manager.kubeconfig"),
            ("system:kube-scheduler", "scheduler.kubeconfig"),
        ] {
            this.write_kubeconfig(name, user, file)?;
        }
        Ok(this)
    }

    /// Writes a kubeconfig for a user whose certificate is in `pki`.
    pub fn write_kubeconfig(&self, cluster: &str, user: &str, file: &str) -> Result<()> {
        let pki = self.folder.join("pki");
        let text = pki::kubeconfig(cluster, &self.url(), &pki.join("ca.crt"), &pki, user);
        pki::write_private(&self.folder.join(file), &text)
    }

    /// The address of the API server.
    pub fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.ports.apiserver)
    }

    /// Starts everything; answers when the API server is ready.
    pub async fn start(&mut self) -> Result<()> {
        self.start_server().await?;
        self.run("kube-controller-manager", self.controller_manager("*,bootstrapsigner,tokencleaner"))?;
        self.run("kube-scheduler", self.scheduler())
    }

    /// Kills the API server, as a machine that fails does, and starts it again; answers when it is ready.
    pub async fn restart_apiserver(&mut self) -> Result<()> {
        let command = self.apiserver()?;
        let log = self.folder.join("logs/kube-apiserver.log");
        let server = self.child(APISERVER)?;
        server.kill();
        *server = Running::start(APISERVER, command, &log)?;
        self.wait_ready().await
    }

    /// Keeps a copy of everything that the cluster knows now.
    pub async fn keep_copy(&mut self) -> Result<()> {
        let (etcd, copy) = (self.folder.join("etcd"), self.folder.join(COPY));
        let unfinished = self.folder.join("etcd.copying");
        self.without_server(|| {
            let _ = fs::remove_dir_all(&copy);
            output(Command::new("cp").arg("-a").arg(&etcd).arg(&unfinished))?;
            // It is there as a whole or not at all.
            Ok(fs::rename(&unfinished, &copy)?)
        })
        .await
    }

    /// Goes back to the copy, as after the loss of a disk: what happened since is forgotten.
    pub async fn go_back(&mut self) -> Result<()> {
        let (etcd, copy) = (self.folder.join("etcd"), self.folder.join(COPY));
        if !copy.exists() {
            bail!("no copy was kept");
        }
        self.without_server(|| {
            fs::remove_dir_all(&etcd)?;
            Ok(fs::rename(&copy, &etcd)?)
        })
        .await
    }

    /// Does something while neither etcd nor the API server runs; answers when both do again.
    async fn without_server(&mut self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        for name in [APISERVER, ETCD] {
            self.child(name)?.kill();
        }
        work()?;
        for (name, command) in [(ETCD, self.etcd()), (APISERVER, self.apiserver()?)] {
            let log = self.folder.join("logs").join(format!("{name}.log"));
            *self.child(name)? = Running::start(name, command, &log)?;
        }
        self.wait_ready().await
    }

    fn child(&mut self, name: &str) -> Result<&mut Running> {
        let child = self.children.iter_mut().find(|it| it.name == name);
        child.with_context(|| format!("{name} was never started"))
    }

    /// Starts an API server alone. Without a controller manager no service accounts are made, so pods must do without.
    pub async fn start_bare(&mut self) -> Result<()> {
        self.bare = true;
        self.start_server().await
    }

    /// Starts the garbage collector of the controller manager and none of its other controllers.
    pub fn start_collector(&mut self) -> Result<()> {
        let mut command = self.controller_manager("garbage-collector-controller");
        // Tests that compare collectors run many families at once.
        command.args(["--kube-api-qps=300", "--kube-api-burst=600"]);
        self.run("kube-controller-manager", command)
    }

    async fn start_server(&mut self) -> Result<()> {
        self.run(ETCD, self.etcd())?;
        self.run(APISERVER, self.apiserver()?)?;
        self.wait_ready().await
    }

    /// An error if a part of it has ended.
    pub fn must_run(&mut self) -> Result<()> {
        self.children.iter_mut().try_for_each(Running::must_run)
    }

    /// Ends everything, last started first.
    pub fn stop(&mut self) {
        while let Some(mut child) = self.children.pop() {
            child.stop(Duration::from_secs(5));
        }
    }

    fn run(&mut self, name: &str, command: Command) -> Result<()> {
        let log = self.folder.join("logs").join(format!("{name}.log"));
        self.children.push(Running::start(name, command, &log)?);
        Ok(())
    }

    async fn wait_ready(&mut self) -> Result<()> {
        let started = now();
        let client = client(&self.folder.join("kubeconfig")).await?;
        loop {
            let request = axum::http::Request::get("/readyz").body(Vec::new())?;
            let asked = tokio::time::timeout(Duration::from_secs(2), client.request_text(request));
            if let Ok(Ok(_)) = asked.await {
                return Ok(());
            }
            self.must_run()?;
            if started.elapsed() > PATIENCE {
                bail!(
                    "the API server was not ready within {PATIENCE:?}; see {}",
                    self.folder.join("logs").display()
                );
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn etcd(&self) -> Command {
        let client = format!("http://127.0.0.1:{}", self.ports.etcd);
        let peer = format!("http://127.0.0.1:{}", self.ports.etcd_peer);
        let mut command = tied(&self.programs.etcd);
        command
            .arg("--data-dir")
            .arg(self.folder.join("etcd"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            // What these clusters hold need not survive a power cut.
            .args(["--unsafe-no-fsync", "--log-level", "warn"]);
        command
    }

    fn apiserver(&self) -> Result<Command> {
        let pki = self.folder.join("pki");
        let mut command = if self.node_names.is_empty() {
            tied(&self.programs.apiserver)
        } else {
            self.with_own_hosts_file(&self.programs.apiserver)?
        };
        command
            .arg(format!("--etcd-servers=http://127.0.0.1:{}", self.ports.etcd))
            .arg(format!("--secure-port={}", self.ports.apiserver))
            .args([
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                "--endpoint-reconciler-type=none",
            ])
            .arg(format!("--service-cluster-ip-range={SERVICE_NETWORK}"))
            .args(["--authorization-mode=Node,RBAC", "--allow-privileged=true", "--profiling=false"])
            .args([
                "--service-account-issuer=https://kubernetes.default.svc",
                "--kubelet-preferred-address-types=Hostname",
            ])
            .args(["--enable-bootstrap-token-auth=true"]);
        if self.bare {
            command.arg("--disable-admission-plugins=ServiceAccount");
        }
        for (flag, file) in [
            ("client-ca-file", "ca.crt"),
            ("tls-cert-file", "apiserver.crt"),
            ("tls-private-key-file", "apiserver.key"),
            ("service-account-key-file", "sa.pub"),
            ("service-account-signing-key-file", "sa.key"),
            ("kubelet-client-certificate", "kubelet-client.crt"),
            ("kubelet-client-key", "kubelet-client.key"),
        ] {
            command.arg(format!("--{flag}={}", pki.join(file).display()));
        }
        Ok(command)
    }

    /// For `logs` and `exec` the API server looks up nodes by name. It gets a hosts file of its own, in a mount
    /// namespace of its own, so that the machine's file stays as it is.
    fn with_own_hosts_file(&self, program: &Path) -> Result<Command> {
        let hosts = self.folder.join("hosts");
        let entries: String = self.node_names.iter().map(|it| format!("127.0.0.1 {it}\n")).collect();
        fs::write(&hosts, format!("127.0.0.1 localhost\n{entries}"))?;
        let mut command = tied("unshare");
        command
            .args(["--mount", "--propagation", "private", "sh", "-c"])
            .arg(r#"mount --bind "$0" /etc/hosts && exec "$@""#)
            .arg(hosts)
            .arg(program);
        Ok(command)
    }

    fn controller_manager(&self, controllers: &str) -> Command {
        let pki = self.folder.join("pki");
        let mut command = tied(&self.programs.controller_manager);
        command
            .arg(format!("--kubeconfig={}", self.folder.join("controller-manager.kubeconfig").display()))
            .args([
                "--use-service-account-credentials=true",
                "--leader-elect=false",
                "--bind-address=127.0.0.1",
            ])
            .arg(format!("--secure-port={}", self.ports.controller_manager))
            .arg(format!("--controllers={controllers}"));
        for (flag, file) in [
            ("service-account-private-key-file", "sa.key"),
            ("root-ca-file", "ca.crt"),
            ("cluster-signing-cert-file", "ca.crt"),
            ("cluster-signing-key-file", "ca.key"),
        ] {
            command.arg(format!("--{flag}={}", pki.join(file).display()));
        }
        command
    }

    fn scheduler(&self) -> Command {
        let mut command = tied(&self.programs.scheduler);
        command
            .arg(format!("--kubeconfig={}", self.folder.join("scheduler.kubeconfig").display()))
            .args(["--leader-elect=false", "--bind-address=127.0.0.1"])
            // Its own limit of 50 bindings per second would be what every measurement shows.
            .args(["--kube-api-qps=2000", "--kube-api-burst=4000"])
            .arg(format!("--secure-port={}", self.ports.scheduler));
        command
    }
}

/// A client for one of our clusters.
pub async fn client(kubeconfig: &Path) -> Result<kube::Client> {
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig)
        .with_context(|| format!("cannot read {}", kubeconfig.display()))?;
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await?;
    Ok(kube::Client::try_from(config)?)
}
