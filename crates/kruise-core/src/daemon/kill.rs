//! Stopping one container, with its hook before: what container recreate and the restarter have in common.
//!
//! The container is stopped through the runtime; the kubelet then starts it anew, as it does with any container that
//! ended.

use std::{fmt, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ContainerPort, ObjectReference};
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::{
    cri::{self, Container, Runtime, keys},
    http,
    metrics::DaemonMetrics,
};
use crate::{
    api::container_recreate_request::{ProbeHandler, RecreateContainer, v1beta1::ContainerRecreateRequest},
    causes::with_causes,
    runtime::{
        clock::Clock,
        events::{Recorder, Severity},
    },
};

/// A container has at least this many seconds for stopping.
const LEAST_GRACE: u32 = 2;

/// The grace period of a recreate request that names none; its admission does.
const REQUEST_GRACE: i64 = 30;

/// Reason of the event before a container is stopped.
const KILLING: &str = "Killing";

/// Reason of the event when the hook fails.
const HOOK_FAILED: &str = "FailedPreStopHook";

/// A container to stop, with everything known about how.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The pod, as events name it.
    pub pod: ObjectReference,
    /// The container's name.
    pub container: String,
    /// The runtime's id of it.
    pub id: String,
    /// The sandbox it runs in.
    pub sandbox: String,
    /// What runs before.
    pub hook: Option<ProbeHandler>,
    /// Its ports, by which a hook may name one.
    pub ports: Vec<ContainerPort>,
    /// Seconds for the hook and for stopping together.
    pub grace: u32,
}

impl Target {
    /// What a recreate request says about a container of its pod.
    pub fn of_request(
        request: &ContainerRecreateRequest,
        wanted: &RecreateContainer,
        running: &Container,
    ) -> Self {
        let strategy = request.spec.strategy.as_ref();
        let grace = strategy.and_then(|it| it.termination_grace_period_seconds).unwrap_or(REQUEST_GRACE);
        let label = |key: &str| request.metadata.labels.as_ref().and_then(|it| it.get(key)).cloned();
        let uid = label(crate::api::container_recreate_request::keys::POD_UID).unwrap_or_default();
        let namespace = request.metadata.namespace.clone().unwrap_or_default();
        Self {
            pod: pod(namespace, request.spec.pod_name.clone(), uid, &wanted.name),
            container: wanted.name.clone(),
            id: running.id.clone(),
            sandbox: running.sandbox_id.clone(),
            hook: wanted.pre_stop.clone(),
            ports: wanted.ports.clone(),
            grace: seconds(grace),
        }
    }

    /// What the kubelet has written on the container itself.
    pub fn of_container(running: &Container) -> Self {
        let label = |key: &str| running.labels.get(key).cloned().unwrap_or_default();
        let number = |key: &str| running.annotations.get(key).and_then(|it| it.parse().ok());
        let json = |key: &str| running.annotations.get(key).map(String::as_str);
        let grace = number(keys::DELETION_GRACE_PERIOD).or_else(|| number(keys::TERMINATION_GRACE_PERIOD));
        Self {
            pod: pod(label(keys::POD_NAMESPACE), label(keys::POD_NAME), label(keys::POD_UID), &running.name),
            container: running.name.clone(),
            id: running.id.clone(),
            sandbox: running.sandbox_id.clone(),
            hook: json(keys::PRE_STOP_HANDLER).and_then(|it| serde_json::from_str(it).ok()),
            ports: json(keys::PORTS).and_then(|it| serde_json::from_str(it).ok()).unwrap_or_default(),
            grace: grace.map_or(LEAST_GRACE, seconds),
        }
    }
}

fn pod(namespace: String, name: String, uid: String, container: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".into()),
        kind: Some("Pod".into()),
        namespace: Some(namespace),
        name: Some(name),
        uid: Some(uid).filter(|it| !it.is_empty()),
        field_path: Some(format!("spec.containers{{{container}}}")),
        ..ObjectReference::default()
    }
}

/// Seconds as the API writes them; nonsense is none.
fn seconds(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

/// Stops containers.
pub struct Killer {
    /// Tells people.
    pub events: Recorder,
    /// Time.
    pub clock: Clock,
    /// Owns hooks that outlive their grace period.
    pub tasks: TaskTracker,
    /// Counts.
    pub metrics: DaemonMetrics,
}

impl fmt::Debug for Killer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Killer").finish_non_exhaustive()
    }
}

impl Killer {
    /// Runs the hook and stops the container. A hook that fails or takes too long does not keep it from being stopped.
    pub async fn kill(
        &self,
        runtime: &Arc<dyn Runtime>,
        target: &Target,
        message: &str,
    ) -> Result<(), cri::Error> {
        // Ids differ each time; without them the API server can count equal events.
        let note = message.replace(&target.id, &target.container);
        self.events.record(target.pod.clone(), Severity::Normal, KILLING, note);
        let mut grace = target.grace;
        if let Some(hook) = target.hook.clone().filter(|_| grace > 0) {
            let begun = self.clock.instant();
            if let Err(reason) = self.run_hook(runtime.clone(), target, hook, grace).await {
                warn!(container = target.container, reason, "the hook before the stop failed");
                self.events.record(target.pod.clone(), Severity::Warning, HOOK_FAILED, reason);
            }
            let spent = u32::try_from(self.clock.since(begun).as_secs()).unwrap_or(u32::MAX);
            grace = grace.saturating_sub(spent);
        }
        let stopped = runtime.stop(&target.id, grace.max(LEAST_GRACE)).await;
        self.metrics.killed(stopped.is_ok());
        info!(container = target.container, id = target.id, stopped = stopped.is_ok(), "{message}");
        stopped
    }

    /// Waits for the hook for as long as the grace period lasts; it is not cut short by that.
    async fn run_hook(
        &self,
        runtime: Arc<dyn Runtime>,
        target: &Target,
        hook: ProbeHandler,
        grace: u32,
    ) -> Result<(), String> {
        let (id, sandbox, ports) = (target.id.clone(), target.sandbox.clone(), target.ports.clone());
        let running = self.tasks.spawn(async move { perform(&*runtime, &id, &sandbox, &ports, hook).await });
        match tokio::time::timeout(Duration::from_secs(u64::from(grace)), running).await {
            Ok(Ok(ended)) => ended,
            Ok(Err(_)) => Err("the hook was given up".into()),
            Err(_) => Err(format!("the hook did not end within {grace} s")),
        }
    }
}

async fn perform(
    runtime: &dyn Runtime,
    id: &str,
    sandbox: &str,
    ports: &[ContainerPort],
    hook: ProbeHandler,
) -> Result<(), String> {
    if let Some(exec) = hook.exec {
        let command = exec.command.unwrap_or_default();
        return runtime.exec(id, command, None).await.map(drop).map_err(|it| it.to_string());
    }
    let Some(action) = hook.http_get else {
        return Err("invalid handler: neither exec nor httpGet".into());
    };
    let address = match action.host.as_deref().unwrap_or_default() {
        "" => runtime.address(sandbox).await.map_err(|it| it.to_string())?,
        _ => None,
    };
    let told = |it: http::Error| with_causes(&it).to_string();
    let call = http::call(http::HOOK, &action, ports, address.as_deref()).map_err(told)?;
    http::get(&call).await.map(drop).map_err(told)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::daemon::cri::{
        ContainerState,
        fake::{Asked, FakeRuntime},
    };

    fn container(annotations: &[(&str, &str)]) -> Container {
        let map = |it: &[(&str, &str)]| it.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        let labels: BTreeMap<String, String> =
            map(&[(keys::POD_NAME, "web"), (keys::POD_NAMESPACE, "shop"), (keys::POD_UID, "u1")]);
        Container {
            id: "abc".into(),
            sandbox_id: "box".into(),
            name: "main".into(),
            state: ContainerState::Running,
            created_at: Timestamp::UNIX_EPOCH,
            started_at: None,
            hash: 0,
            restart_count: 0,
            labels,
            annotations: map(annotations),
        }
    }

    fn request(strategy: Value, wanted: Value) -> Target {
        let request: ContainerRecreateRequest = serde_json::from_value(json!({
            "metadata": {"name": "r", "namespace": "shop", "labels": {"crr.apps.kruise.io/pod-uid": "u1"}},
            "spec": {"podName": "web", "containers": [wanted], "strategy": strategy},
        }))
        .unwrap();
        Target::of_request(&request, &request.spec.containers[0], &container(&[]))
    }

    /// Kills `target` on the paused clock and gives what the runtime was asked, with the seconds it took.
    async fn kill(target: &Target, runtime: FakeRuntime) -> (Result<(), cri::Error>, Vec<Asked>, u64) {
        let clock = Clock::following(Timestamp::UNIX_EPOCH);
        let sink = crate::runtime::events::Sink::new(
            crate::daemon::tests::no_server(&clock),
            clock.clone(),
            Default::default(),
        );
        let killer = Killer {
            events: sink.recorder("test"),
            clock: clock.clone(),
            tasks: TaskTracker::new(),
            metrics: DaemonMetrics::new(),
        };
        let runtime = Arc::new(runtime);
        let begun = clock.instant();
        let result = killer.kill(&(runtime.clone() as Arc<dyn Runtime>), target, "Stopping abc").await;
        (result, runtime.asked(), clock.since(begun).as_secs())
    }

    fn exec_takes(seconds: u64) -> FakeRuntime {
        let runtime = FakeRuntime::default();
        *runtime.exec_takes.lock().unwrap() = Duration::from_secs(seconds);
        runtime
    }

    fn with_hook(grace: i64) -> Target {
        request(
            json!({"terminationGracePeriodSeconds": grace}),
            json!({"name": "main", "preStop": {"exec": {"command": ["sleep"]}}}),
        )
    }

    fn stop(grace: u32) -> Asked {
        Asked::Stop("abc".into(), grace)
    }

    fn exec() -> Asked {
        Asked::Exec("abc".into(), vec!["sleep".into()])
    }

    #[test]
    fn a_request_gives_the_pod_the_hook_and_the_grace_period() {
        let target = request(json!({}), json!({"name": "main"}));
        assert_eq!((target.grace, target.hook.is_none()), (30, true));
        assert_eq!(target.pod.field_path.as_deref(), Some("spec.containers{main}"));
        assert_eq!((target.pod.name.as_deref(), target.pod.uid.as_deref()), (Some("web"), Some("u1")));
        assert_eq!(with_hook(3).grace, 3);
    }

    #[test]
    fn without_a_request_everything_comes_from_the_container_itself() {
        let target = Target::of_container(&container(&[
            (keys::TERMINATION_GRACE_PERIOD, "20"),
            (keys::PRE_STOP_HANDLER, r#"{"exec":{"command":["a"]}}"#),
            (keys::PORTS, r#"[{"name":"x","containerPort":8080}]"#),
        ]));
        assert_eq!((target.grace, target.ports[0].container_port), (20, 8080));
        assert!(target.hook.unwrap().exec.is_some());
        assert_eq!(target.pod.namespace.as_deref(), Some("shop"));
        let deleted = [(keys::TERMINATION_GRACE_PERIOD, "20"), (keys::DELETION_GRACE_PERIOD, "7")];
        assert_eq!(Target::of_container(&container(&deleted)).grace, 7);
        assert_eq!(Target::of_container(&container(&[])).grace, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_hook_runs_first_and_its_time_is_taken_off_the_grace_period() {
        let (result, asked, took) = kill(&with_hook(30), exec_takes(8)).await;
        assert_eq!((result, took), (Ok(()), 8));
        assert_eq!(asked, [exec(), stop(22)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hook_that_takes_too_long_is_not_waited_for_and_two_seconds_are_left() {
        let (result, asked, took) = kill(&with_hook(3), exec_takes(8)).await;
        assert_eq!((result, took), (Ok(()), 3));
        assert_eq!(asked, [exec(), stop(2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hook_that_fails_does_not_keep_the_container_alive() {
        let runtime = FakeRuntime::default();
        *runtime.exec_answer.lock().unwrap() =
            Some(Err(cri::Error::CommandFailed { code: 1, stderr: "no".into() }));
        let (result, asked, _) = kill(&with_hook(10), runtime).await;
        assert_eq!((result, asked), (Ok(()), vec![exec(), stop(10)]));
        let invalid = request(json!({}), json!({"name": "main", "preStop": {"tcpSocket": {"port": 80}}}));
        assert_eq!(kill(&invalid, FakeRuntime::default()).await.1, [stop(30)]);
    }

    #[tokio::test(start_paused = true)]
    async fn without_grace_there_is_no_hook_and_a_failed_stop_is_the_result() {
        assert_eq!(kill(&with_hook(0), FakeRuntime::default()).await.1, [stop(2)]);
        let runtime = FakeRuntime::default();
        let error = cri::Error::Incomplete("broken");
        *runtime.stop_fails.lock().unwrap() = Some(error.clone());
        assert_eq!(kill(&with_hook(5), runtime).await.0, Err(error));
    }
}
