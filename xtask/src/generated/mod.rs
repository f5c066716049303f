//! `cargo xtask crds`: files made from the types, and checked in so that changes to them are seen.

mod crds;
mod manifests;
mod reference;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result, bail};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kruise_core::api;

/// One folder that holds nothing but generated files.
struct Folder {
    /// Below the top of the checkout.
    path: &'static str,
    /// File names and contents, as they should be.
    wanted: BTreeMap<String, String>,
}

/// Writes every generated file, or with `check` only says which differ from what would be written.
pub(crate) fn run(check: bool) -> Result<()> {
    let folders = folders()?;
    if !check {
        return folders.iter().try_for_each(|it| it.write(crate::root()));
    }
    let mut complaints = Vec::new();
    for folder in &folders {
        complaints.extend(folder.complaints(crate::root())?);
    }
    if !complaints.is_empty() {
        bail!("{}\nrun `cargo xtask crds`", complaints.join("\n"));
    }
    Ok(())
}

fn folders() -> Result<Vec<Folder>> {
    let stem = |crd: &CustomResourceDefinition| format!("{}_{}", crd.spec.group, crd.spec.names.plural);
    let definitions = |crds: Vec<CustomResourceDefinition>| -> Result<BTreeMap<String, String>> {
        crds.iter().map(|it| Ok((format!("{}.yaml", stem(it)), crds::document(it)?))).collect()
    };
    let pages = api::crds().iter().map(|it| (format!("{}.md", stem(it)), reference::page(it))).collect();
    Ok(vec![
        Folder { path: "config/crd", wanted: definitions(api::member_crds())? },
        // Apart, so that a cluster without a hub does not get them.
        Folder { path: "config/crd/fleet", wanted: definitions(api::fleet_crds())? },
        Folder { path: "config/rbac", wanted: manifests::access()? },
        // Apart, so that an agent without a hub has no right that it does not use.
        Folder { path: "config/rbac/link", wanted: manifests::link_access()? },
        Folder { path: "config/rbac/link/pull-secrets", wanted: manifests::link_secrets()? },
        Folder { path: "config/rbac/hub", wanted: manifests::hub_access()? },
        Folder { path: "config/rbac/hub/pull-secrets", wanted: manifests::hub_secrets()? },
        Folder { path: "config/webhook", wanted: manifests::webhooks()? },
        Folder { path: "config/webhook/hub", wanted: manifests::hub_webhooks()? },
        Folder { path: "docs/api", wanted: pages },
        // Helm takes no file from outside of a chart.
        Folder { path: "deploy/member/files/crd", wanted: definitions(api::member_crds())? },
        Folder { path: "deploy/member/files/rbac", wanted: manifests::access()? },
        Folder { path: "deploy/member/files/rbac/link", wanted: manifests::link_access()? },
        Folder { path: "deploy/member/files/rbac/link/pull-secrets", wanted: manifests::link_secrets()? },
        Folder { path: "deploy/member/files/webhook", wanted: manifests::webhooks()? },
        Folder { path: "deploy/hub/files/crd", wanted: definitions(api::crds())? },
        Folder { path: "deploy/hub/files/rbac", wanted: manifests::hub_access()? },
        Folder { path: "deploy/hub/files/rbac/pull-secrets", wanted: manifests::hub_secrets()? },
        Folder { path: "deploy/hub/files/webhook", wanted: manifests::hub_webhooks()? },
    ])
}

impl Folder {
    fn write(&self, top: &Path) -> Result<()> {
        let folder = top.join(self.path);
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        for name in present(&folder)?.iter().filter(|it| !self.wanted.contains_key(*it)) {
            fs::remove_file(folder.join(name)).with_context(|| format!("removing {name}"))?;
        }
        for (name, text) in &self.wanted {
            let file = folder.join(name);
            if fs::read_to_string(&file).ok().as_ref() != Some(text) {
                fs::write(&file, text).with_context(|| format!("writing {name}"))?;
            }
        }
        Ok(())
    }

    fn complaints(&self, top: &Path) -> Result<Vec<String>> {
        let Self { path, wanted } = self;
        let mut complaints = Vec::new();
        for (name, text) in wanted {
            match fs::read_to_string(top.join(path).join(name)) {
                Ok(found) if found == *text => {}
                Ok(_) => complaints.push(format!("{path}/{name} differs")),
                Err(_) => complaints.push(format!("{path}/{name} is missing")),
            }
        }
        let extra = present(&top.join(path))?.into_iter().filter(|it| !wanted.contains_key(it));
        complaints.extend(extra.map(|it| format!("{path}/{it} is not generated from any type")));
        Ok(complaints)
    }
}

fn present(folder: &Path) -> Result<BTreeSet<String>> {
    if !folder.exists() {
        return Ok(BTreeSet::new());
    }
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))? {
        let entry = entry?;
        // A folder inside has a list of its own.
        if entry.file_type()?.is_file() {
            names.extend(entry.file_name().into_string().ok());
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checked_in_files_are_up_to_date() {
        run(true).unwrap();
    }

    #[test]
    fn missing_differing_and_superfluous_files_are_named() {
        let top = std::env::temp_dir().join(format!("xtask-generated-{}", std::process::id()));
        fs::create_dir_all(top.join("made")).unwrap();
        fs::write(top.join("made/same.yaml"), "same").unwrap();
        fs::write(top.join("made/changed.yaml"), "by hand").unwrap();
        fs::write(top.join("made/extra.yaml"), "").unwrap();
        let wanted = ["same", "changed", "gone"].map(|it| (format!("{it}.yaml"), it.to_owned()));
        let folder = Folder { path: "made", wanted: BTreeMap::from(wanted) };
        let complaints = folder.complaints(&top).unwrap();
        folder.write(&top).unwrap();
        let after = folder.complaints(&top).unwrap();
        fs::remove_dir_all(&top).unwrap();
        assert_eq!(
            complaints,
            [
                "made/changed.yaml differs",
                "made/gone.yaml is missing",
                "made/extra.yaml is not generated from any type"
            ]
        );
        assert!(after.is_empty(), "{after:?}");
    }
}
