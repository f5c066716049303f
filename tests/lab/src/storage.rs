//! A storage class whose volumes are folders of this machine.
//!
//! All nodes of a cluster see the same files, so a claim gets its volume at once and its pod may run anywhere. Volumes are
//! made for every class that names our provisioner, grow when their class lets claims grow, and go with their claim if
//! their class says so. Nothing holds a pod to the size it asked for.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::{
    api::{
        core::v1::{PersistentVolume, PersistentVolumeClaim},
        storage::v1::StorageClass,
    },
    apimachinery::pkg::api::resource::Quantity,
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, watcher},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// The class every cluster with storage has, its default.
pub const CLASS: &str = "standard";

/// What further classes name to get their volumes here.
pub const PROVISIONER: &str = "fleet.kruise.io/lab-folders";

const MANAGER: &str = "lab-storage";
/// Set by the controller manager on a claim that waits for somebody else to make its volume.
const ASKED: &str = "volume.kubernetes.io/storage-provisioner";
const MADE_BY: &str = "pv.kubernetes.io/provisioned-by";

/// Makes, grows and removes volumes below `folder` until told to stop.
pub async fn run(client: Client, folder: PathBuf, stop: CancellationToken) -> Result<()> {
    let storage = Storage { client, folder };
    storage.register().await?;
    tokio::select! {
        () = storage.follow() => bail!("the watches of claims and volumes ended"),
        () = stop.cancelled() => Ok(()),
    }
}

struct Storage {
    client: Client,
    folder: PathBuf,
}

#[derive(Debug)]
enum Change {
    Claim(Box<PersistentVolumeClaim>),
    Volume(Box<PersistentVolume>),
}

/// What a claim needs done.
#[derive(Debug, PartialEq)]
enum Due {
    Make,
    Grow { volume: String, to: Quantity },
}

impl Storage {
    async fn register(&self) -> Result<()> {
        let classes: Api<StorageClass> = Api::all(self.client.clone());
        let class = json!({
            "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
            "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
            "provisioner": PROVISIONER,
            "reclaimPolicy": "Delete",
            "volumeBindingMode": "Immediate",
            "allowVolumeExpansion": true,
        });
        classes.patch(CLASS, &PatchParams::apply(MANAGER).force(), &Patch::Apply(&class)).await?;
        Ok(())
    }

    async fn follow(&self) {
        let claims = Api::<PersistentVolumeClaim>::all(self.client.clone());
        let volumes = Api::<PersistentVolume>::all(self.client.clone());
        // A broken watch is an item of the stream, not its end: the next item comes after a new list.
        let claims = watcher(claims, watcher::Config::default()).default_backoff().applied_objects();
        let volumes = watcher(volumes, watcher::Config::default()).default_backoff().applied_objects();
        stream::select(
            claims.map_ok(|it| Change::Claim(Box::new(it))),
            volumes.map_ok(|it| Change::Volume(Box::new(it))),
        )
        .for_each_concurrent(8, |change| async {
            match change {
                Ok(change) => self.serve_patiently(&change).await,
                Err(error) => eprintln!("storage: a watch broke: {error}"),
            }
        })
        .await;
    }

    /// A claim that could not be served would else wait for its next change, which may never come.
    async fn serve_patiently(&self, change: &Change) {
        for wait in [1, 2, 4, 8, 16] {
            let served = match change {
                Change::Claim(claim) => self.serve_claim(claim).await,
                Change::Volume(volume) => self.serve_volume(volume).await,
            };
            match served {
                Ok(()) => return,
                Err(error) => eprintln!("storage: {error:#}; again in {wait} s"),
            }
            tokio::time::sleep(Duration::from_secs(wait)).await;
        }
    }

    async fn serve_claim(&self, claim: &PersistentVolumeClaim) -> Result<()> {
        match due(claim) {
            None => Ok(()),
            Some(Due::Make) => self.make(claim).await,
            Some(Due::Grow { volume, to }) => self.grow(claim, &volume, &to).await,
        }
    }

    async fn make(&self, claim: &PersistentVolumeClaim) -> Result<()> {
        let class = claim.spec.as_ref().and_then(|it| it.storage_class_name.as_deref()).unwrap_or_default();
        let class = Api::<StorageClass>::all(self.client.clone()).get(class).await?;
        let name = volume_name(claim);
        let folder = self.folder.join(&name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        // Whoever the containers of the pod run as must be able to write.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
        let volume = serde_json::from_value(volume(claim, &class, &folder.to_string_lossy()))?;
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        match volumes.create(&PostParams::default(), &volume).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            other => other.map(|_| ()).with_context(|| format!("cannot create volume {name}")),
        }
    }

    async fn grow(&self, claim: &PersistentVolumeClaim, volume: &str, to: &Quantity) -> Result<()> {
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        let capacity = json!({"spec": {"capacity": {"storage": to}}});
        volumes.patch(volume, &PatchParams::default(), &Patch::Merge(&capacity)).await?;
        let claims: Api<PersistentVolumeClaim> =
            Api::namespaced(self.client.clone(), &claim.namespace().unwrap_or_default());
        let status = json!({"status": {"capacity": {"storage": to}, "conditions": null}});
        claims.patch_status(&claim.name_any(), &PatchParams::default(), &Patch::Merge(&status)).await?;
        Ok(())
    }

    async fn serve_volume(&self, volume: &PersistentVolume) -> Result<()> {
        if !is_over(volume) {
            return Ok(());
        }
        match fs::remove_dir_all(self.folder.join(volume.name_any())) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot empty volume {}", volume.name_any()));
            }
            _ => {}
        }
        let volumes: Api<PersistentVolume> = Api::all(self.client.clone());
        match volumes.delete(&volume.name_any(), &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
            other => other.map(|_| ()).with_context(|| format!("cannot delete volume {}", volume.name_any())),
        }
    }
}

/// Named after the claim's identity, so that a second attempt finds the first one.
fn volume_name(claim: &PersistentVolumeClaim) -> String {
    format!("pvc-{}", claim.uid().unwrap_or_default())
}

fn due(claim: &PersistentVolumeClaim) -> Option<Due> {
    let spec = claim.spec.as_ref()?;
    let ours = claim.annotations().get(ASKED).is_some_and(|it| it == PROVISIONER);
    if !ours || claim.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let Some(volume) = &spec.volume_name else {
        return Some(Due::Make);
    };
    let asked = spec.resources.as_ref()?.requests.as_ref()?.get("storage")?;
    let given = claim.status.as_ref()?.capacity.as_ref()?.get("storage")?;
    // The API server lets a bound claim only grow, so another size is a bigger one.
    (asked != given).then(|| Due::Grow { volume: volume.clone(), to: asked.clone() })
}

/// Whether a volume of ours has lost its claim for good.
fn is_over(volume: &PersistentVolume) -> bool {
    let ours = volume.annotations().get(MADE_BY).is_some_and(|it| it == PROVISIONER);
    let policy = volume.spec.as_ref().and_then(|it| it.persistent_volume_reclaim_policy.as_deref());
    let phase = volume.status.as_ref().and_then(|it| it.phase.as_deref());
    ours && policy == Some("Delete")
        && phase == Some("Released")
        && volume.metadata.deletion_timestamp.is_none()
}

fn volume(claim: &PersistentVolumeClaim, class: &StorageClass, folder: &str) -> Value {
    let spec = claim.spec.clone().unwrap_or_default();
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": volume_name(claim), "annotations": {MADE_BY: PROVISIONER}},
        "spec": {
            "storageClassName": class.name_any(),
            "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
            "capacity": spec.resources.unwrap_or_default().requests,
            "accessModes": spec.access_modes,
            "volumeMode": spec.volume_mode,
            "mountOptions": class.mount_options,
            "claimRef": {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                "namespace": claim.namespace(), "name": claim.name_any(), "uid": claim.uid(),
            },
            "hostPath": {"path": folder, "type": "Directory"},
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(change: impl FnOnce(&mut Value)) -> PersistentVolumeClaim {
        let mut claim = json!({
            "metadata": {"namespace": "shop", "name": "data", "uid": "1234", "annotations": {ASKED: PROVISIONER}},
            "spec": {
                "storageClassName": CLASS, "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        });
        change(&mut claim);
        serde_json::from_value(claim).unwrap()
    }

    #[test]
    fn only_a_claim_without_a_volume_that_asks_us_gets_one() {
        assert_eq!(due(&claim(|_| {})), Some(Due::Make));
        assert_eq!(
            due(&claim(|it| it["metadata"]["annotations"][ASKED] = json!("somebody.else/disks"))),
            None
        );
        assert_eq!(due(&claim(|it| it["metadata"]["annotations"] = json!({}))), None);
        assert_eq!(
            due(&claim(|it| it["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"))),
            None
        );
    }

    #[test]
    fn a_bound_claim_is_left_alone_until_it_asks_for_more() {
        let bound = |asked: &str| {
            claim(|it| {
                it["spec"]["volumeName"] = json!("pvc-1234");
                it["spec"]["resources"]["requests"]["storage"] = json!(asked);
                it["status"] = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
            })
        };
        assert_eq!(due(&bound("1Gi")), None);
        let grow = Due::Grow { volume: "pvc-1234".to_owned(), to: Quantity("2Gi".to_owned()) };
        assert_eq!(due(&bound("2Gi")), Some(grow));
    }

    #[test]
    fn a_volume_is_bound_to_its_claim_and_follows_its_class() {
        let class = StorageClass { reclaim_policy: Some("Retain".to_owned()), ..StorageClass::default() };
        let made: PersistentVolume =
            serde_json::from_value(volume(&claim(|_| {}), &class, "/volumes/pvc-1234")).unwrap();
        assert_eq!(made.name_any(), "pvc-1234");
        let spec = made.spec.unwrap();
        assert_eq!(spec.claim_ref.unwrap().uid.unwrap(), "1234");
        assert_eq!(spec.capacity.unwrap()["storage"].0, "1Gi");
        assert_eq!(spec.persistent_volume_reclaim_policy.unwrap(), "Retain");
        assert_eq!(spec.host_path.unwrap().path, "/volumes/pvc-1234");
    }

    #[test]
    fn only_released_volumes_of_ours_that_need_not_be_kept_are_over() {
        let volume = |made_by: &str, policy: &str, phase: &str| -> PersistentVolume {
            let volume = json!({
                "metadata": {"name": "pvc-1234", "annotations": {MADE_BY: made_by}},
                "spec": {"persistentVolumeReclaimPolicy": policy},
                "status": {"phase": phase},
            });
            serde_json::from_value(volume).unwrap()
        };
        assert!(is_over(&volume(PROVISIONER, "Delete", "Released")));
        assert!(!is_over(&volume(PROVISIONER, "Delete", "Bound")));
        assert!(!is_over(&volume(PROVISIONER, "Retain", "Released")));
        assert!(!is_over(&volume("somebody.else/disks", "Delete", "Released")));
    }
}
