//! `cargo xtask cluster`: clusters by name. Real ones are started here; the simulated ones of `cargo xtask up` are found here.

use std::{path::PathBuf, process::Command as Process};

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use lab::{
    binaries,
    cluster::{self, Shape, State},
    progress::Progress,
};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a cluster; it runs until `cluster down`
    Up {
        /// 1 to 30 lower case letters, digits and dashes
        name: String,
        /// Real nodes: kubelet and containerd; needs root
        #[arg(long, default_value_t = 0)]
        nodes: usize,
        /// Nodes without machines: pods claim to run
        #[arg(long, default_value_t = 0)]
        fake_nodes: usize,
        /// CPUs that pods of a real node may ask for; without it, all of the machine's
        #[arg(long)]
        node_cpus: Option<usize>,
        /// A default storage class, `standard`, whose volumes are folders of this machine
        #[arg(long)]
        storage: bool,
        /// The API server alone, without controllers and service accounts: nobody writes but its clients
        #[arg(long, conflicts_with_all = ["nodes", "fake_nodes", "storage"])]
        bare: bool,
        /// A garbage collector beside it, and no other controller
        #[arg(long, requires = "bare")]
        collector: bool,
    },
    /// Show the clusters of this user, real and simulated
    List,
    /// Take a cluster down; nothing of it is left. A simulated one goes with its whole fleet
    Down {
        /// The cluster's name
        name: String,
    },
    /// Print the path of a cluster's kubeconfig
    Kubeconfig {
        /// The cluster's name
        name: String,
    },
    /// Run the kubectl that fits the clusters: `cargo xtask cluster kubectl NAME get nodes`
    Kubectl {
        /// The cluster's name
        name: String,
        /// What kubectl is given
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Up { name, nodes, fake_nodes, node_cpus, storage, bare, collector } => {
            let shape = Shape {
                nodes: *nodes,
                fake_nodes: *fake_nodes,
                node_cpus: *node_cpus,
                storage: *storage,
                bare: *bare,
                collector: *collector,
            };
            up(name, &shape)
        }
        Command::List => list(),
        Command::Down { name } => {
            cluster::down(name)?;
            println!("cluster {name} is gone");
            Ok(())
        }
        Command::Kubeconfig { name } => {
            println!("{}", find(name)?.kubeconfig().display());
            Ok(())
        }
        Command::Kubectl { name, arguments } => {
            let record = find(name)?;
            let mut kubectl = Process::new(kubectl_for(&record)?);
            if record.simulated {
                // Ports and kinds of simulated clusters change from one run to the next, so that what kubectl remembers goes with them.
                kubectl.env("KUBECACHEDIR", record.folder.join("kubectl"));
            }
            let status = kubectl.env("KUBECONFIG", record.kubeconfig()).args(arguments).status()?;
            std::process::exit(status.code().unwrap_or(1));
        }
    }
}

/// A kubectl that fits a cluster. For real ones it is built if need be; simulated ones must need nothing but cargo.
fn kubectl_for(record: &cluster::Record) -> Result<PathBuf> {
    if !record.simulated {
        return Ok(binaries::control_plane(&mut Progress::start())?.kubectl);
    }
    binaries::kubectl().with_context(|| {
        format!(
            "there is no kubectl of Kubernetes 1.33 or newer on PATH. Install one, or have it built once with Go, git and a C \
             compiler: `cargo xtask cluster up real && cargo xtask cluster down real`. Every other client of Kubernetes can \
             be used as well: export KUBECONFIG={}",
            record.kubeconfig().display()
        )
    })
}

/// Starts a cluster that ends with this process, and waits for that.
pub(crate) fn hold(name: &str) -> Result<()> {
    let _cluster = cluster::attached(name, &Shape::default(), &mut Progress::start())?;
    loop {
        std::thread::park();
    }
}

fn up(name: &str, shape: &Shape) -> Result<()> {
    let mut progress = Progress::start();
    let record = cluster::up(name, shape, &mut progress)?;
    progress.say(format!("cluster {name} is ready"));
    println!("export KUBECONFIG={}", record.kubeconfig().display());
    if let Some(port) = record.registry {
        println!("# images: 127.0.0.1:{port}/lab/web:1, lab/web:2, lab/sleep:1 and others");
    }
    println!("# cargo xtask cluster kubectl {name} get nodes");
    println!("# cargo xtask cluster down {name}");
    Ok(())
}

fn list() -> Result<()> {
    println!("{:<20} {:<9} {:<7} {:<11} KUBECONFIG", "NAME", "STATE", "NODES", "FAKE-NODES");
    for (record, state) in cluster::list()? {
        println!(
            "{:<20} {:<9} {:<7} {:<11} {}",
            record.name,
            match state {
                State::Running if record.simulated => "Simulated",
                State::Running => "Running",
                State::Dead => "Dead",
            },
            record.nodes.len(),
            record.fake_nodes.len(),
            record.kubeconfig().display()
        );
    }
    Ok(())
}

fn find(name: &str) -> Result<cluster::Record> {
    let (record, state) = cluster::list()?
        .into_iter()
        .find(|(it, _)| it.name == name)
        .with_context(|| format!("there is no cluster {name}; `cargo xtask cluster up {name}` starts it"))?;
    if state == State::Dead {
        bail!("cluster {name} is dead; `cargo xtask cluster down {name}` removes what is left of it");
    }
    Ok(record)
}
