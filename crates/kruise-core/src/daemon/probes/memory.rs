//! What one worker remembers, and what it makes of a look at its container.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Probe;

use crate::{
    api::node_pod_probe::ProbeState,
    daemon::cri::{Container, ContainerState},
};

/// What a worker remembers from one look to the next.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The runtime's id of the container that everything below is about; empty before the first look.
    container: String,
    /// The last result, and how often in a row it came.
    streak: Option<(ProbeState, u32)>,
    /// Whether the last attempt ended in an error.
    is_erring: bool,
}

/// What a look at the container says.
#[derive(Debug, PartialEq, Eq)]
pub struct Look {
    /// Whether it is another container than before: nothing is known about it.
    pub is_new: bool,
    /// What to do now.
    pub step: Step,
}

/// What to do after a look at the container.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: it has not been up for long enough.
    Wait,
    /// Probe it.
    Probe,
    /// Report this as a failure, without probing.
    Fail(String),
}

impl Memory {
    /// Takes in how the container looks now.
    pub fn look(&mut self, container: &Container, probe: &Probe, now: Timestamp) -> Look {
        let is_new = self.container != container.id;
        if is_new {
            *self = Self { container: container.id.clone(), ..Self::default() };
        }
        if container.state != ContainerState::Running {
            let message = format!("Container({}) is Non-running", container.name);
            return Look { is_new, step: Step::Fail(message) };
        }
        let uptime = container.started_at.map_or(0, |it| now.duration_since(it).as_secs());
        let is_early = uptime < i64::from(at_least_one(probe.initial_delay_seconds));
        Look { is_new, step: if is_early { Step::Wait } else { Step::Probe } }
    }

    /// Takes in a result and says whether it came often enough in a row to be recorded.
    pub fn is_settled(&mut self, state: ProbeState, probe: &Probe) -> bool {
        let count = match self.streak {
            Some((last, count)) if last == state => count.saturating_add(1),
            _ => 1,
        };
        self.streak = Some((state, count));
        self.is_erring = false;
        let threshold = match state {
            ProbeState::Succeeded => probe.success_threshold,
            ProbeState::Failed | ProbeState::Unknown => probe.failure_threshold,
        };
        count >= at_least_one(threshold)
    }

    /// Takes in that there was no result, and says whether this is the first time in a row.
    pub fn is_first_error(&mut self) -> bool {
        !std::mem::replace(&mut self.is_erring, true)
    }

    /// Forgets results: they were another handler's. Gives the container that they were about.
    pub fn start_over(&mut self) -> Option<&str> {
        self.streak = None;
        self.is_erring = false;
        Some(self.container.as_str()).filter(|it| !it.is_empty())
    }
}

/// How often it is probed.
pub fn period(probe: &Probe) -> Duration {
    seconds(probe.period_seconds)
}

/// How long one attempt may take.
pub fn timeout(probe: &Probe) -> Duration {
    seconds(probe.timeout_seconds)
}

fn seconds(number: Option<i32>) -> Duration {
    Duration::from_secs(u64::from(at_least_one(number)))
}

/// Numbers of probes are at least one; what is absent or nonsense is one.
fn at_least_one(number: Option<i32>) -> u32 {
    number.and_then(|it| u32::try_from(it).ok()).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ProbeState::{Failed, Succeeded};
    use serde_json::{Value, json};

    use super::*;

    fn probe(fields: Value) -> Probe {
        serde_json::from_value(fields).unwrap()
    }

    fn container(id: &str, state: ContainerState, started: i64) -> Container {
        Container {
            id: id.into(),
            sandbox_id: "box".into(),
            name: "main".into(),
            state,
            created_at: Timestamp::UNIX_EPOCH,
            started_at: Timestamp::from_second(started).ok(),
            hash: 0,
            restart_count: 0,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        }
    }

    fn running(id: &str) -> Container {
        container(id, ContainerState::Running, 0)
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_container_is_new_once() {
        let (mut memory, probe) = (Memory::default(), probe(json!({})));
        assert_eq!(memory.look(&running("a"), &probe, at(9)), Look { is_new: true, step: Step::Probe });
        assert_eq!(memory.look(&running("a"), &probe, at(9)), Look { is_new: false, step: Step::Probe });
        assert!(memory.look(&running("b"), &probe, at(9)).is_new);
    }

    #[test]
    fn nothing_is_probed_before_the_initial_delay_has_passed() {
        let (mut memory, probe) = (Memory::default(), probe(json!({"initialDelaySeconds": 5})));
        for (now, step) in [(0, Step::Wait), (4, Step::Wait), (5, Step::Probe)] {
            assert_eq!(memory.look(&running("a"), &probe, at(now)).step, step, "after {now} s");
        }
    }

    #[test]
    fn without_an_initial_delay_it_is_one_second() {
        for fields in [json!({}), json!({"initialDelaySeconds": 0}), json!({"initialDelaySeconds": -9})] {
            let (mut memory, probe) = (Memory::default(), probe(fields));
            assert_eq!(memory.look(&running("a"), &probe, at(0)).step, Step::Wait);
            assert_eq!(memory.look(&running("a"), &probe, at(1)).step, Step::Probe);
        }
    }

    #[test]
    fn a_container_that_does_not_run_fails_and_is_not_probed() {
        for state in [ContainerState::Created, ContainerState::Exited, ContainerState::Unknown] {
            let look = Memory::default().look(&container("a", state, 0), &probe(json!({})), at(99));
            let step = Step::Fail("Container(main) is Non-running".into());
            assert_eq!(look, Look { is_new: true, step });
        }
    }

    #[test]
    fn a_result_counts_when_it_came_often_enough_in_a_row() {
        let (mut memory, probe) =
            (Memory::default(), probe(json!({"failureThreshold": 3, "successThreshold": 2})));
        let results = [Failed, Failed, Succeeded, Succeeded, Succeeded, Failed, Failed, Failed];
        let settled = results.map(|it| memory.is_settled(it, &probe));
        assert_eq!(settled, [false, false, false, true, true, false, false, true]);
    }

    #[test]
    fn without_thresholds_every_result_counts() {
        for fields in [json!({}), json!({"failureThreshold": 0, "successThreshold": -1})] {
            let (mut memory, probe) = (Memory::default(), probe(fields));
            assert!([Failed, Succeeded, Failed].iter().all(|it| memory.is_settled(*it, &probe)));
        }
    }

    #[test]
    fn a_row_ends_with_its_container_and_with_its_handler() {
        let (mut memory, probe) = (Memory::default(), probe(json!({"failureThreshold": 2})));
        assert_eq!(memory.start_over(), None, "nothing is recorded of a container that was never seen");
        memory.look(&running("a"), &probe, at(9));
        assert!(!memory.is_settled(Failed, &probe));
        memory.look(&running("b"), &probe, at(9));
        assert!(!memory.is_settled(Failed, &probe), "the other one was another container's");
        assert_eq!(memory.start_over(), Some("b"));
        assert!(!memory.is_settled(Failed, &probe), "the other one was another handler's");
        assert!(memory.is_settled(Failed, &probe));
    }

    #[test]
    fn only_the_first_error_in_a_row_is_one_to_tell() {
        let (mut memory, probe) = (Memory::default(), probe(json!({})));
        assert_eq!([memory.is_first_error(), memory.is_first_error()], [true, false]);
        memory.is_settled(Succeeded, &probe);
        assert!(memory.is_first_error());
    }

    #[test]
    fn periods_and_timeouts_are_at_least_a_second() {
        for fields in [json!({}), json!({"periodSeconds": 0, "timeoutSeconds": -3})] {
            let probe = probe(fields);
            assert_eq!((period(&probe), timeout(&probe)), (Duration::from_secs(1), Duration::from_secs(1)));
        }
        let own = probe(json!({"periodSeconds": 7, "timeoutSeconds": 3}));
        assert_eq!((period(&own), timeout(&own)), (Duration::from_secs(7), Duration::from_secs(3)));
    }
}
