//! What is reported, and what people are told about it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::results::Outcome;
use crate::{
    api::node_pod_probe::{
        ContainerProbeState, NodePodProbeStatus, PodProbeStatus, ProbeState, events,
        v1alpha1::NodePodProbeSpec,
    },
    runtime::clock::whole_seconds,
};

/// The status for `spec`: what was reported before of probes that are still there, and over it what is known now.
pub fn build(
    spec: &NodePodProbeSpec,
    previous: &NodePodProbeStatus,
    known: &[Outcome],
    now: Timestamp,
) -> NodePodProbeStatus {
    let wanted: BTreeSet<(&str, &str)> = spec
        .pod_probes
        .iter()
        .flat_map(|pod| pod.probes.iter().map(|it| (pod.uid.as_str(), it.name.as_str())))
        .collect();
    let mut status = previous.clone();
    for pod in &mut status.pod_probe_statuses {
        pod.probe_states.retain(|it| wanted.contains(&(pod.uid.as_str(), it.name.as_str())));
    }
    status.pod_probe_statuses.retain(|it| !it.probe_states.is_empty());
    for it in known.iter().filter(|it| wanted.contains(&(it.of.uid.as_str(), it.of.probe.as_str()))) {
        put(&mut status, it, now);
    }
    status
}

fn put(status: &mut NodePodProbeStatus, known: &Outcome, now: Timestamp) {
    let Outcome { of, state, message, at } = known;
    let pods = &mut status.pod_probe_statuses;
    let place = pods.iter().position(|it| it.uid == of.uid).unwrap_or_else(|| {
        let (name, namespace, uid) = (of.pod.clone(), of.namespace.clone(), of.uid.clone());
        pods.push(PodProbeStatus { name, namespace, uid, probe_states: Vec::new() });
        pods.len() - 1
    });
    let new = ContainerProbeState {
        name: of.probe.clone(),
        state: *state,
        last_probe_time: Some(whole_seconds(*at)),
        last_transition_time: Some(whole_seconds(now)),
        message: message.clone(),
    };
    let states = &mut pods[place].probe_states;
    match states.iter_mut().find(|it| it.name == of.probe) {
        Some(old) if old.state == new.state => {
            // Only another state is a transition.
            *old = ContainerProbeState { last_transition_time: old.last_transition_time.clone(), ..new };
        }
        Some(old) => *old = new,
        None => states.push(new),
    }
}

/// One thing to tell about a pod.
#[derive(Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// The pod's namespace.
    pub namespace: &'a str,
    /// The pod's name.
    pub pod: &'a str,
    /// The pod's UID.
    pub uid: &'a str,
    /// The event's reason.
    pub reason: &'static str,
    /// What the probe said.
    pub message: &'a str,
}

/// What to tell people after `previous` became `new`: results with another state or message than before. That a result
/// is not known yet is no news.
pub fn notes<'a>(previous: &NodePodProbeStatus, new: &'a NodePodProbeStatus) -> Vec<Note<'a>> {
    let told: BTreeMap<(&str, &str), (ProbeState, &str)> = previous
        .pod_probe_statuses
        .iter()
        .flat_map(|pod| pod.probe_states.iter().map(move |it| (pod, it)))
        .map(|(pod, it)| ((pod.uid.as_str(), it.name.as_str()), (it.state, it.message.as_str())))
        .collect();
    let mut notes = Vec::new();
    for pod in &new.pod_probe_statuses {
        for it in &pod.probe_states {
            let reason = match it.state {
                ProbeState::Succeeded => events::PROBE_SUCCEEDED,
                ProbeState::Failed => events::PROBE_FAILED,
                ProbeState::Unknown => continue,
            };
            if told.get(&(pod.uid.as_str(), it.name.as_str())) != Some(&(it.state, it.message.as_str())) {
                let PodProbeStatus { namespace, name, uid, probe_states: _ } = pod;
                notes.push(Note { namespace, pod: name, uid, reason, message: &it.message });
            }
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ProbeState::{Failed, Succeeded, Unknown};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;
    use crate::daemon::probes::plan::ProbeKey;

    fn spec(probes: &[(&str, &str)]) -> NodePodProbeSpec {
        let pods: Vec<_> = probes
            .iter()
            .map(|(uid, probe)| {
                json!({"namespace": "shop", "name": "web", "uid": uid, "IP": "",
                    "probes": [{"name": probe, "containerName": "main", "probe": {}}]})
            })
            .collect();
        serde_json::from_value(json!({"podProbes": pods})).unwrap()
    }

    fn known(uid: &str, probe: &str, state: ProbeState, message: &str, seconds: i64) -> Outcome {
        let of = ProbeKey {
            namespace: "shop".into(),
            pod: "web".into(),
            uid: uid.into(),
            ip: String::new(),
            container: "main".into(),
            probe: probe.into(),
        };
        Outcome { of: Arc::new(of), state, message: message.into(), at: at(seconds) }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    /// UID, probe, state, message, and the seconds of both times.
    fn summary(status: &NodePodProbeStatus) -> Vec<(&str, &str, ProbeState, &str, i64, i64)> {
        let states =
            status.pod_probe_statuses.iter().flat_map(|pod| pod.probe_states.iter().map(move |it| (pod, it)));
        states
            .map(|(pod, it)| {
                let seconds = |it: &Option<Time>| it.as_ref().unwrap().0.as_second();
                let times = (seconds(&it.last_probe_time), seconds(&it.last_transition_time));
                (pod.uid.as_str(), it.name.as_str(), it.state, it.message.as_str(), times.0, times.1)
            })
            .collect()
    }

    #[test]
    fn only_another_state_is_a_transition() {
        let (spec, empty) = (spec(&[("u", "m#a")]), NodePodProbeStatus::default());
        let first = build(&spec, &empty, &[known("u", "m#a", Succeeded, "ok", 5)], at(6));
        assert_eq!(summary(&first), [("u", "m#a", Succeeded, "ok", 5, 6)]);
        let said = build(&spec, &first, &[known("u", "m#a", Succeeded, "fine", 15)], at(16));
        assert_eq!(summary(&said), [("u", "m#a", Succeeded, "fine", 15, 6)]);
        let failed = build(&spec, &said, &[known("u", "m#a", Failed, "no", 25)], at(26));
        assert_eq!(summary(&failed), [("u", "m#a", Failed, "no", 25, 26)]);
        assert_eq!(build(&spec, &failed, &[known("u", "m#a", Failed, "no", 25)], at(99)), failed, "no news");
    }

    #[test]
    fn probes_of_one_pod_stand_side_by_side_and_pods_of_one_name_apart() {
        let spec = spec(&[("u", "m#a"), ("u", "m#b"), ("v", "m#a")]);
        let all = [
            known("u", "m#a", Succeeded, "", 1),
            known("u", "m#b", Failed, "no", 2),
            known("v", "m#a", Unknown, "", 3),
        ];
        let status = build(&spec, &NodePodProbeStatus::default(), &all, at(9));
        assert_eq!(status.pod_probe_statuses.len(), 2);
        let states: Vec<_> = summary(&status).into_iter().map(|it| (it.0, it.1, it.2)).collect();
        assert_eq!(states, [("u", "m#a", Succeeded), ("u", "m#b", Failed), ("v", "m#a", Unknown)]);
    }

    #[test]
    fn what_left_the_spec_disappears_also_without_new_results() {
        let all = [known("u", "m#a", Succeeded, "", 1), known("v", "m#b", Failed, "", 1)];
        let both = build(&spec(&[("u", "m#a"), ("v", "m#b")]), &NodePodProbeStatus::default(), &all, at(1));
        let one = spec(&[("u", "m#a")]);
        let left = build(&one, &both, &[], at(2));
        assert_eq!(summary(&left), [("u", "m#a", Succeeded, "", 1, 1)]);
        assert_eq!(build(&one, &both, &all, at(2)), left, "late results of probes that left do not count");
        assert_eq!(build(&NodePodProbeSpec::default(), &both, &[], at(2)), NodePodProbeStatus::default());
    }

    #[test]
    fn what_was_reported_before_a_restart_stays_until_something_is_known() {
        let spec = spec(&[("u", "m#a")]);
        let before =
            build(&spec, &NodePodProbeStatus::default(), &[known("u", "m#a", Failed, "no", 1)], at(1));
        assert_eq!(build(&spec, &before, &[], at(50)), before);
    }

    #[test]
    fn people_are_told_of_another_state_or_message_and_of_nothing_twice() {
        let (spec, empty) = (spec(&[("u", "m#a")]), NodePodProbeStatus::default());
        let now = |state, message, seconds| {
            build(&spec, &empty, &[known("u", "m#a", state, message, seconds)], at(9))
        };
        let note = |reason, message| Note { namespace: "shop", pod: "web", uid: "u", reason, message };
        let (ok, later, no) = (now(Succeeded, "ok", 1), now(Succeeded, "ok", 601), now(Failed, "no", 2));
        assert_eq!(notes(&empty, &ok), [note("KruiseProbeSucceeded", "ok")]);
        assert_eq!(notes(&ok, &later), []);
        assert_eq!(notes(&ok, &now(Succeeded, "fine", 2)), [note("KruiseProbeSucceeded", "fine")]);
        assert_eq!(notes(&later, &no), [note("KruiseProbeFailed", "no")]);
        assert_eq!(notes(&no, &now(Unknown, "", 3)), []);
    }
}
