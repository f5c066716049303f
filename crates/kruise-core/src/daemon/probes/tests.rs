//! Probing as a whole, against a fake runtime and an API server of one object.

use std::{collections::BTreeMap, sync::Mutex};

use axum::http::{Request, Response};
use futures::StreamExt;
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::{client::Body, runtime::watcher::Event};
use serde_json::{Value, json};
use tower::service_fn;

use super::*;
use crate::{
    api::node_pod_probe::{NodePodProbeStatus, ProbeState},
    daemon::cri::{
        self, Container, ContainerState,
        fake::{Asked, FakeRuntime},
        keys,
    },
    runtime::{client, events::Sink, metrics::Metrics, throttle::Throttle},
};

/// A node with one NodePodProbe, whose status patches are taken in as an API server would.
struct Node {
    syncer: Syncer,
    reporter: Reporter,
    runtime: Arc<FakeRuntime>,
    object: Arc<Mutex<Value>>,
    patches: Arc<Mutex<Vec<Value>>>,
    events: Arc<Mutex<Vec<Value>>>,
    clock: Clock,
    token: CancellationToken,
}

fn node() -> Node {
    let clock = Clock::following(Timestamp::from_second(10_000).unwrap());
    let object = Arc::new(Mutex::new(json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "NodePodProbe",
        "metadata": {"name": "n1", "uid": "u", "resourceVersion": "1"}, "spec": {},
    })));
    let patches: Arc<Mutex<Vec<Value>>> = Arc::default();
    let events: Arc<Mutex<Vec<Value>>> = Arc::default();
    let options = client::Options {
        user_agent: "kruise-test/1".into(),
        metrics: Metrics::default(),
        throttle: Throttle::default(),
        clock: clock.clone(),
    };
    let (stored, log, told) = (object.clone(), patches.clone(), events.clone());
    let server = service_fn(move |request: Request<Body>| {
        let (stored, log, told) = (stored.clone(), log.clone(), told.clone());
        async move {
            let is_event = request.uri().path().ends_with("/events");
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
            if is_event {
                told.lock().unwrap().push(sent.clone());
                return Response::builder().body(Body::from(sent.to_string().into_bytes()));
            }
            let mut object = stored.lock().unwrap();
            json_patch::merge(&mut object, &sent);
            count_up(&mut object);
            log.lock().unwrap().push(sent);
            Response::builder().body(Body::from(object.to_string().into_bytes()))
        }
    });
    let client = client::over(server, &options);
    let cache = Cache::new("nodepodprobes", clock.clone(), Metrics::default());
    let sink = Sink::new(client.clone(), clock.clone(), Metrics::default());
    let runtime = Arc::new(FakeRuntime::default());
    let token = CancellationToken::new();
    let context = Context {
        node: Key::new("", "n1"),
        writer: Writer::new(client, cache.clone()),
        cache,
        runtime: runtime.clone(),
        status: Triggers::new(clock.clone()),
        events: sink.recorder("kruise-daemon-podprobe"),
        clock: clock.clone(),
        started: clock.instant(),
        seed: Seed::from_number(1),
        metrics: DaemonMetrics::new(),
    };
    tokio::spawn(sink.run(token.clone()));
    let (syncer, reporter) = loops(context, TaskTracker::new(), token.clone());
    Node { syncer, reporter, runtime, object, patches, events, clock, token }
}

fn count_up(object: &mut Value) {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() + 1;
    object["metadata"]["resourceVersion"] = json!(version.to_string());
}

impl Node {
    /// Sets the spec, shows it to the cache, and looks.
    async fn want(&self, probes: Value) {
        let pods =
            json!([{"namespace": "shop", "name": "web", "uid": "p1", "IP": "127.0.0.1", "probes": probes}]);
        {
            let mut object = self.object.lock().unwrap();
            object["spec"] = json!({ "podProbes": pods });
            count_up(&mut object);
            let event = Event::Apply(serde_json::from_value(object.clone()).unwrap());
            self.syncer.context.cache.watched(event);
        }
        self.syncer.reconcile(Key::new("", "n1")).await.unwrap();
        self.after(0).await;
    }

    /// Lets time pass second by second, then reports.
    async fn after(&self, seconds: u64) {
        for _ in 0..seconds {
            tokio::time::advance(Duration::from_secs(1)).await;
            settle().await;
        }
        settle().await;
        self.reporter.reconcile(Key::new("", "n1")).await.unwrap();
        settle().await;
    }

    /// Puts a container there, newer than all others, that was started now.
    fn run(&self, id: &str, state: ContainerState) {
        let now = self.clock.now();
        let container = Container {
            id: id.into(),
            sandbox_id: "box".into(),
            name: "main".into(),
            state,
            created_at: now,
            started_at: Some(now),
            hash: 0,
            restart_count: 0,
            labels: BTreeMap::from([(keys::POD_UID.to_owned(), "p1".to_owned())]),
            annotations: BTreeMap::new(),
        };
        self.runtime.containers.lock().unwrap().insert(0, container);
    }

    fn answer(&self, answer: Result<&str, &str>) {
        let answer = answer.map(|it| it.as_bytes().to_vec());
        let failed = |it: &str| cri::Error::CommandFailed { code: 1, stderr: it.into() };
        *self.runtime.exec_answer.lock().unwrap() = Some(answer.map_err(failed));
    }

    fn states(&self) -> Vec<(String, ProbeState, String)> {
        let status = self.object.lock().unwrap()["status"].clone();
        let status: NodePodProbeStatus = serde_json::from_value(status).unwrap_or_default();
        let states = status.pod_probe_statuses.into_iter().flat_map(|it| it.probe_states);
        states.map(|it| (it.name, it.state, it.message)).collect()
    }

    fn told(&self) -> Vec<(String, String)> {
        let text = |it: &Value, field: &str| it[field].as_str().unwrap_or_default().to_owned();
        self.events.lock().unwrap().iter().map(|it| (text(it, "reason"), text(it, "message"))).collect()
    }
}

/// Workers need a few turns to get from one await to the next.
async fn settle() {
    futures::stream::iter(0..50).for_each(|_| tokio::task::yield_now()).await;
}

fn exec(name: &str, more: Value) -> Value {
    let mut probe = json!({"exec": {"command": [name]}});
    json_patch::merge(&mut probe, &more);
    json!({"name": name, "containerName": "main", "probe": probe})
}

fn state(name: &str, state: ProbeState, message: &str) -> (String, ProbeState, String) {
    (name.to_owned(), state, message.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_probe_is_unknown_then_succeeds_then_fails_and_people_are_told_once_of_each() {
    let node = node();
    node.run("c1", ContainerState::Running);
    node.answer(Ok("fine"));
    node.want(json!([exec("m#a", json!({"initialDelaySeconds": 3}))])).await;
    node.after(2).await;
    assert_eq!(node.states(), [state("m#a", ProbeState::Unknown, "")]);
    assert_eq!(node.told(), []);
    node.after(2).await;
    assert_eq!(node.states(), [state("m#a", ProbeState::Succeeded, "fine")]);
    let writes = node.patches.lock().unwrap().len();
    node.after(30).await;
    assert_eq!(node.patches.lock().unwrap().len(), writes, "at rest nothing is written");
    node.answer(Err("broken"));
    node.after(2).await;
    assert_eq!(node.states(), [state("m#a", ProbeState::Failed, "broken")]);
    node.after(600).await;
    assert_eq!(node.patches.lock().unwrap().len(), writes + 2, "after ten minutes it is written again");
    let told = [("KruiseProbeSucceeded", "fine"), ("KruiseProbeFailed", "broken")];
    assert_eq!(node.told(), told.map(|(reason, message)| (reason.to_owned(), message.to_owned())));
    assert_eq!(node.events.lock().unwrap()[0]["involvedObject"]["uid"], "p1");
}

#[tokio::test(start_paused = true)]
async fn two_probes_of_one_container_have_a_state_each_and_one_that_leaves_takes_its_own_along() {
    let node = node();
    node.run("c1", ContainerState::Running);
    node.answer(Ok(""));
    let tcp = json!({"name": "m#b", "containerName": "main", "probe": {"tcpSocket": {"port": 0}}});
    node.want(json!([exec("m#a", json!({})), tcp])).await;
    node.after(5).await;
    let (a, b) =
        (state("m#a", ProbeState::Succeeded, ""), state("m#b", ProbeState::Failed, "there is no port 0"));
    let mut states = node.states();
    states.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(states, [a.clone(), b]);
    node.want(json!([exec("m#a", json!({}))])).await;
    node.after(5).await;
    assert_eq!(node.states(), [a]);
    assert_eq!(node.syncer.workers.busy().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn another_handler_begins_at_unknown_and_another_period_does_not() {
    let node = node();
    node.run("c1", ContainerState::Running);
    node.answer(Ok("fine"));
    node.want(json!([exec("m#a", json!({}))])).await;
    node.after(3).await;
    assert_eq!(node.states(), [state("m#a", ProbeState::Succeeded, "fine")]);
    node.want(json!([exec("m#a", json!({"periodSeconds": 60}))])).await;
    assert_eq!(node.states(), [state("m#a", ProbeState::Succeeded, "fine")]);
    let other = json!({"exec": {"command": ["other"]}, "periodSeconds": 60});
    node.want(json!([exec("m#a", other)])).await;
    assert_eq!(node.states(), [state("m#a", ProbeState::Unknown, "")]);
    node.after(61).await;
    assert_eq!(node.states(), [state("m#a", ProbeState::Succeeded, "fine")]);
    assert_eq!(node.runtime.asked().last(), Some(&Asked::Exec("c1".into(), vec!["other".into()])));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_of_the_old_handler_says_nothing_about_the_new_one() {
    let node = node();
    node.run("c1", ContainerState::Running);
    node.answer(Ok("of the old one"));
    *node.runtime.exec_takes.lock().unwrap() = Duration::from_secs(20);
    node.want(json!([exec("m#a", json!({"timeoutSeconds": 60}))])).await;
    node.after(5).await;
    assert_eq!(node.states(), [state("m#a", ProbeState::Unknown, "")]);
    assert_eq!(node.runtime.asked().len(), 1, "the attempt is under way");
    let other = json!({"exec": {"command": ["other"]}, "timeoutSeconds": 60});
    node.want(json!([exec("m#a", other)])).await;
    node.after(18).await;
    assert_eq!(
        node.states(),
        [state("m#a", ProbeState::Unknown, "")],
        "the old attempt would be over by now"
    );
    node.after(10).await;
    assert_eq!(node.states()[0].1, ProbeState::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_container_that_ended_fails_unprobed_and_its_successor_begins_at_unknown() {
    let node = node();
    node.run("c1", ContainerState::Exited);
    node.answer(Ok("fine"));
    node.want(json!([exec("m#a", json!({"initialDelaySeconds": 5}))])).await;
    node.after(30).await;
    assert_eq!(node.states(), [state("m#a", ProbeState::Failed, "Container(main) is Non-running")]);
    assert_eq!(node.runtime.asked(), [], "it is not probed");
    node.run("c2", ContainerState::Running);
    node.after(2).await;
    assert_eq!(node.states(), [state("m#a", ProbeState::Unknown, "")]);
    node.after(5).await;
    assert_eq!(node.states(), [state("m#a", ProbeState::Succeeded, "fine")]);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_cannot_be_made_changes_nothing() {
    let node = node();
    node.run("c1", ContainerState::Running);
    node.answer(Ok("fine"));
    node.want(json!([exec("m#a", json!({}))])).await;
    node.after(3).await;
    *node.runtime.exec_answer.lock().unwrap() = Some(Err(cri::Error::Incomplete("broken")));
    node.after(10).await;
    assert_eq!(node.states(), [state("m#a", ProbeState::Succeeded, "fine")]);
}

#[tokio::test(start_paused = true)]
async fn a_runtime_that_does_not_tell_about_containers_changes_nothing_and_is_counted() {
    let node = node();
    node.run("c1", ContainerState::Running);
    node.answer(Ok("fine"));
    node.want(json!([exec("m#a", json!({}))])).await;
    node.after(3).await;
    let metrics = Metrics::new(|it| node.syncer.context.metrics.register(it));
    assert!(!metrics.text().contains("daemon_probes_total{result=\"error\"}"));
    *node.runtime.containers_fail.lock().unwrap() = Some(cri::Error::Incomplete("broken"));
    node.after(3).await;
    assert_eq!(node.states(), [state("m#a", ProbeState::Succeeded, "fine")]);
    let text = metrics.text();
    assert!(text.contains("daemon_probes_total{result=\"error\"}"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_daemon_that_has_just_started_spreads_its_first_attempts_over_one_period() {
    let node = node();
    node.run("c1", ContainerState::Running);
    let probes: Vec<_> = (0..20).map(|it| exec(&format!("m#{it}"), json!({"periodSeconds": 10}))).collect();
    node.want(json!(probes)).await;
    let mut counts = Vec::new();
    for _ in 0..11 {
        node.after(1).await;
        counts.push(node.runtime.asked().len());
    }
    assert!(counts[1] < 12 && counts[4] < 18, "{counts:?}");
    assert!(counts[10] >= 20, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn when_the_object_goes_nothing_is_probed_any_more() {
    let node = node();
    node.run("c1", ContainerState::Running);
    node.answer(Ok("fine"));
    node.want(json!([exec("m#a", json!({})), exec("m#b", json!({}))])).await;
    node.after(3).await;
    let object = serde_json::from_value(node.object.lock().unwrap().clone()).unwrap();
    node.syncer.context.cache.watched(Event::Delete(object));
    node.syncer.reconcile(Key::new("", "n1")).await.unwrap();
    let asked = node.runtime.asked().len();
    node.after(30).await;
    assert_eq!(node.runtime.asked().len(), asked);
    assert_eq!((node.syncer.workers.busy().len(), node.syncer.workers.known().len()), (0, 0));
    node.token.cancel();
}
