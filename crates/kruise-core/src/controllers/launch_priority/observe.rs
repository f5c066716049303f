//! Reading the barrier of a pod.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;

use super::{Barrier, LaunchPriority, Owner};
use crate::{
    pod::launch::{barrier_name, priority_of_key},
    runtime::{
        client::{Error, call},
        key::Key,
    },
};

impl LaunchPriority {
    /// The barrier of the pod `key`, if there is one.
    pub(super) async fn observe(&self, key: &Key) -> Result<Option<Barrier>, Error> {
        let (api, name) = (self.barriers(&key.namespace), barrier_name(&key.name));
        Ok(call("get a pod's barrier", api.get_opt(&name)).await?.map(barrier))
    }

    /// The ConfigMaps of `namespace`.
    pub(super) fn barriers(&self, namespace: &str) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

fn barrier(object: ConfigMap) -> Barrier {
    let owners = object.metadata.owner_references.unwrap_or_default().into_iter();
    Barrier {
        version: object.metadata.resource_version.unwrap_or_default(),
        released: object.data.unwrap_or_default().keys().filter_map(|it| priority_of_key(it)).collect(),
        pods: owners
            .filter(|it| it.kind == "Pod" && it.api_version == "v1")
            .map(|it| Owner { name: it.name, uid: it.uid })
            .collect(),
    }
}
