//! Which probes to begin, to change and to stop.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use k8s_openapi::api::core::v1::Probe;

use crate::api::node_pod_probe::v1alpha1::NodePodProbeSpec;

/// One probe of one container: what one worker is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProbeKey {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// The pod's address; empty if nobody knew it.
    pub ip: String,
    /// The container's name.
    pub container: String,
    /// The probe's name.
    pub probe: String,
}

/// The probes that workers are busy with.
pub type Busy = BTreeMap<Arc<ProbeKey>, Arc<Probe>>;

/// What changes among the workers.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    /// Workers to stop, before anything is begun: another worker may take a result over.
    pub stop: Vec<Arc<ProbeKey>>,
    /// Workers that get another probe.
    pub change: Vec<(Arc<ProbeKey>, Arc<Probe>)>,
    /// Workers to begin.
    pub start: Vec<(Arc<ProbeKey>, Arc<Probe>)>,
}

/// Compares what should be probed with what workers are busy with.
///
/// Results are reported by pod and name of the probe, so of two probes of one name in one pod the first counts.
pub fn plan(spec: &NodePodProbeSpec, busy: &Busy) -> Plan {
    let mut names = BTreeSet::new();
    let mut wanted = BTreeMap::new();
    for pod in &spec.pod_probes {
        for probe in pod.probes.iter().filter(|it| names.insert((&pod.uid, &it.name))) {
            let key = ProbeKey {
                namespace: pod.namespace.clone(),
                pod: pod.name.clone(),
                uid: pod.uid.clone(),
                ip: pod.ip.clone(),
                container: probe.container_name.clone(),
                probe: probe.name.clone(),
            };
            wanted.insert(key, &probe.probe);
        }
    }
    let mut plan = Plan {
        stop: busy.keys().filter(|it| !wanted.contains_key(&***it)).cloned().collect(),
        ..Plan::default()
    };
    for (key, probe) in wanted {
        match busy.get_key_value(&key) {
            None => plan.start.push((Arc::new(key), Arc::new(probe.clone()))),
            Some((known, current)) if **current != *probe => {
                plan.change.push((known.clone(), Arc::new(probe.clone())));
            }
            Some(_) => {}
        }
    }
    plan
}

/// Whether two probes do the same, however often.
pub fn has_same_handler(a: &Probe, b: &Probe) -> bool {
    a.exec == b.exec && a.http_get == b.http_get && a.tcp_socket == b.tcp_socket && a.grpc == b.grpc
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(pods: Value) -> NodePodProbeSpec {
        serde_json::from_value(json!({"podProbes": pods})).unwrap()
    }

    fn pod(uid: &str, ip: &str, probes: Value) -> Value {
        json!({"namespace": "shop", "name": "web", "uid": uid, "IP": ip, "probes": probes})
    }

    fn exec(name: &str, container: &str, command: &str) -> Value {
        json!({"name": name, "containerName": container, "probe": {"exec": {"command": [command]}}})
    }

    /// The workers after a plan was carried out.
    fn after(mut busy: Busy, plan: &Plan) -> Busy {
        busy.retain(|key, _| !plan.stop.contains(key));
        busy.extend(plan.change.iter().chain(&plan.start).cloned());
        busy
    }

    fn names(of: &[(Arc<ProbeKey>, Arc<Probe>)]) -> Vec<(&str, &str, &str)> {
        of.iter().map(|(key, _)| (key.uid.as_str(), key.container.as_str(), key.probe.as_str())).collect()
    }

    #[test]
    fn every_probe_without_a_worker_is_begun_and_planning_again_changes_nothing() {
        let spec = spec(json!([
            pod("u2", "10.0.0.2", json!([exec("m#a", "app", "x")])),
            pod("u1", "10.0.0.1", json!([exec("m#a", "app", "x"), exec("m#b", "log", "y")])),
        ]));
        let first = plan(&spec, &Busy::new());
        assert_eq!(names(&first.start), [("u1", "app", "m#a"), ("u1", "log", "m#b"), ("u2", "app", "m#a")]);
        assert_eq!((first.stop.len(), first.change.len()), (0, 0));
        assert_eq!(plan(&spec, &after(Busy::new(), &first)), Plan::default());
    }

    #[test]
    fn probes_that_left_are_stopped_and_others_go_on() {
        let both = spec(json!([pod("u", "", json!([exec("m#a", "app", "x"), exec("m#b", "app", "x")]))]));
        let busy = after(Busy::new(), &plan(&both, &Busy::new()));
        let one = spec(json!([pod("u", "", json!([exec("m#b", "app", "x")]))]));
        let it = plan(&one, &busy);
        assert_eq!(it.stop.iter().map(|it| it.probe.as_str()).collect::<Vec<_>>(), ["m#a"]);
        assert_eq!((it.start.len(), it.change.len()), (0, 0));
        assert_eq!(plan(&spec(json!([])), &busy).stop.len(), 2);
    }

    #[test]
    fn another_probe_changes_its_worker_and_another_address_makes_a_new_one() {
        let old = spec(json!([pod("u", "10.0.0.1", json!([exec("m#a", "app", "x")]))]));
        let busy = after(Busy::new(), &plan(&old, &Busy::new()));
        let changed = plan(&spec(json!([pod("u", "10.0.0.1", json!([exec("m#a", "app", "y")]))])), &busy);
        assert_eq!((changed.stop.len(), changed.start.len()), (0, 0));
        assert_eq!(names(&changed.change), [("u", "app", "m#a")]);
        let moved = plan(&spec(json!([pod("u", "10.0.0.9", json!([exec("m#a", "app", "x")]))])), &busy);
        assert_eq!((moved.stop.len(), moved.change.len(), moved.start.len()), (1, 0, 1));
    }

    #[test]
    fn of_two_probes_of_one_name_in_a_pod_the_first_counts() {
        let twice = json!([exec("m#a", "app", "x"), exec("m#a", "app", "y"), exec("m#a", "log", "x")]);
        let first = plan(&spec(json!([pod("u", "", twice)])), &Busy::new());
        assert_eq!(names(&first.start), [("u", "app", "m#a")]);
        assert_eq!(first.start[0].1.exec.as_ref().unwrap().command.as_ref().unwrap(), &["x"]);
    }

    #[test]
    fn how_often_is_no_part_of_what_a_probe_does() {
        let read = |it: Value| serde_json::from_value::<Probe>(it).unwrap();
        let once = read(json!({"tcpSocket": {"port": 80}}));
        assert!(has_same_handler(&once, &read(json!({"tcpSocket": {"port": 80}, "periodSeconds": 9}))));
        for other in [json!({"tcpSocket": {"port": 81}}), json!({"httpGet": {"port": 80}}), json!({})] {
            assert!(!has_same_handler(&once, &read(other)));
        }
    }
}
