//! Builds Kubernetes, etcd and Helm from their Go modules, showing progress by packages compiled.

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, bail};

use super::{ETCD, HELM, KUBERNETES};
use crate::{home, process, progress::Progress};

/// Builds programs of Kubernetes into `folder`.
pub(super) fn kubernetes(folder: &Path, names: &[&str], progress: &mut Progress) -> Result<()> {
    let _lock = lock("kubernetes")?;
    let missing: Vec<&str> = names.iter().copied().filter(|it| !folder.join(it).exists()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    progress.say(format!(
        "building {} v{KUBERNETES} from source, once per user (about 6 minutes on 2 cores)",
        missing.join(", ")
    ));
    let module = module("kubernetes")?;
    // The module of Kubernetes replaces its own parts by folders, which the module system ignores for a dependency:
    // the same parts are published one by one under a version number that follows the release.
    let parts = replaced_parts()?;
    let part_version = KUBERNETES.replacen("1.", "0.", 1);
    let replaces: String = parts.iter().map(|it| format!("\t{it} => {it} v{part_version}\n")).collect();
    fs::write(
        module.join("go.mod"),
        format!(
            "module localkubernetes\n\ngo 1.24.0\n\nrequire k8s.io/kubernetes v{KUBERNETES}\n\nreplace (\n{replaces})\n"
        ),
    )?;
    let all = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl"];
    let imports: String = all.iter().map(|it| format!("\t_ \"k8s.io/kubernetes/cmd/{it}\"\n")).collect();
    fs::write(
        module.join("tools.go"),
        format!("//go:build tools\n\npackage localkubernetes\n\nimport (\n{imports})\n"),
    )?;
    tidy(&module, progress)?;

    let (major, minor) = release(KUBERNETES)?;
    let stamp = "k8s.io/component-base/version";
    let flags = format!(
        "-s -w -X {stamp}.gitVersion=v{KUBERNETES} -X {stamp}.gitMajor={major} -X {stamp}.gitMinor={minor}"
    );
    let packages: Vec<String> = missing.iter().map(|it| format!("k8s.io/kubernetes/cmd/{it}")).collect();
    build(&module, &flags, folder, &packages, progress)
}

/// Builds etcd into `folder`.
pub(super) fn etcd(folder: &Path, progress: &mut Progress) -> Result<PathBuf> {
    let _lock = lock("etcd")?;
    let program = folder.join("etcd");
    if program.exists() {
        return Ok(program);
    }
    progress.say(format!("building etcd v{ETCD} from source, once per user (about 30 seconds)"));
    let module = module("etcd")?;
    fs::write(
        module.join("go.mod"),
        format!("module localetcd\n\ngo 1.24.0\n\nrequire go.etcd.io/etcd/server/v3 v{ETCD}\n"),
    )?;
    fs::create_dir_all(module.join("etcd"))?;
    fs::write(
        module.join("etcd/main.go"),
        "package main\n\nimport (\n\t\"os\"\n\n\t\"go.etcd.io/etcd/server/v3/etcdmain\"\n)\n\nfunc main() { etcdmain.Main(os.Args) }\n",
    )?;
    tidy(&module, progress)?;
    build(&module, "-s -w", folder, &["./etcd".to_owned()], progress)?;
    Ok(program)
}

/// Builds Helm into `folder`.
pub(super) fn helm(folder: &Path, progress: &mut Progress) -> Result<PathBuf> {
    let _lock = lock("helm")?;
    let program = folder.join("helm");
    if program.exists() {
        return Ok(program);
    }
    progress.say(format!("building Helm v{HELM} from source, once per user (about 3 minutes on 2 cores)"));
    let module = module("helm")?;
    fs::write(
        module.join("go.mod"),
        format!("module localhelm\n\ngo 1.24.0\n\nrequire helm.sh/helm/v3 v{HELM}\n"),
    )?;
    fs::write(
        module.join("tools.go"),
        "//go:build tools\n\npackage localhelm\n\nimport _ \"helm.sh/helm/v3/cmd/helm\"\n",
    )?;
    tidy(&module, progress)?;
    let (major, minor) = release(KUBERNETES)?;
    // Without these it takes every cluster that it cannot ask for one of years ago.
    let stamps = [("pkg/chartutil.k8sVersionMajor", major), ("pkg/chartutil.k8sVersionMinor", minor)];
    let stamps = stamps.map(|(name, value)| format!(" -X helm.sh/helm/v3/{name}={value}")).concat();
    let flags = format!("-s -w -X helm.sh/helm/v3/internal/version.version=v{HELM}{stamps}");
    build(&module, &flags, folder, &["helm.sh/helm/v3/cmd/helm".to_owned()], progress)?;
    Ok(program)
}

/// The major and the minor number of a version.
fn release(version: &str) -> Result<(&str, &str)> {
    let (major, rest) = version.split_once('.').context("a release has a minor number")?;
    Ok((major, rest.split('.').next().unwrap_or_default()))
}

fn module(name: &str) -> Result<PathBuf> {
    let have_go = process::output(Command::new("go").arg("version"));
    if have_go.is_err() {
        bail!(
            "{name} has to be built, and there is no `go` on PATH. Install Go 1.24 or newer, or set KUBEBUILDER_ASSETS \
             to a folder with etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet and kubectl"
        );
    }
    let folder = home::cache()?.join("build").join(name);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Held while a program is built, so that two commands at once build it once.
fn lock(name: &str) -> Result<fs::File> {
    let file = fs::File::create(home::cache()?.join(format!("{name}.lock")))?;
    file.lock()?;
    Ok(file)
}

fn replaced_parts() -> Result<Vec<String>> {
    let query = process::output(
        Command::new("go").args(["mod", "download", "-json"]).arg(format!("k8s.io/kubernetes@v{KUBERNETES}")),
    )?;
    let answer: serde_json::Value = serde_json::from_str(&query)?;
    let manifest = answer["GoMod"].as_str().context("go names no go.mod of Kubernetes")?;
    let text = fs::read_to_string(manifest)?;
    let parts =
        text.lines().filter_map(|it| it.split_once("=> ./staging/")).map(|(it, _)| it.trim().to_owned());
    Ok(parts.collect())
}

fn tidy(module: &Path, progress: &mut Progress) -> Result<()> {
    progress.say("  fetching modules");
    process::output(Command::new("go").args(["mod", "tidy"]).current_dir(module))?;
    Ok(())
}

fn build(module: &Path, flags: &str, to: &Path, packages: &[String], progress: &mut Progress) -> Result<()> {
    let listed = process::output(
        Command::new("go").args(["list", "-deps"]).args(packages).current_dir(module).env("CGO_ENABLED", "0"),
    )?;
    let total = listed.lines().collect::<BTreeSet<_>>().len();

    // Built beside its place and moved there whole: an interrupted build leaves nothing that looks finished.
    let partial = module.join("bin");
    fs::create_dir_all(&partial)?;
    let mut child = Command::new("go")
        .args(["build", "-v", "-trimpath", "-ldflags", flags, "-o"])
        .arg(format!("{}/", partial.display()))
        .args(packages)
        .current_dir(module)
        .env("CGO_ENABLED", "0")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let stderr = child.stderr.take().context("the output of go is piped")?;
    let mut complaints = String::new();
    for (compiled, line) in BufReader::new(stderr).lines().enumerate() {
        let line = line?;
        if line.contains(' ') || line.starts_with('#') {
            complaints.push_str(&line);
            complaints.push('\n');
        }
        progress
            .tick(Duration::from_secs(5), || format!("  compiled {compiled} of at most {total} packages"));
    }
    if !child.wait()?.success() {
        bail!("go build failed:\n{complaints}");
    }
    for entry in fs::read_dir(&partial)? {
        let entry = entry?;
        fs::rename(entry.path(), to.join(entry.file_name()))?;
    }
    progress.say(format!("  built into {}", to.display()));
    Ok(())
}
