//! Which containers were stopped for requests that are still open.
//!
//! The status says so too, but only once the API server has taken it. Until then this is what keeps a container that was
//! stopped from being stopped a second time.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::plan;
use crate::{
    api::container_recreate_request::v1beta1::ContainerRecreateRequest,
    runtime::key::{Key, uid},
};

/// Containers that were stopped, by pod and request.
#[derive(Debug, Default)]
pub struct Kills(Mutex<BTreeSet<Kill>>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kill {
    pod: Key,
    /// The UID of the request.
    request: String,
    container: String,
}

impl Kills {
    /// Remembers that a container was stopped.
    pub fn add(&self, pod: Key, request: &ContainerRecreateRequest, container: &str) {
        let kill = Kill { pod, request: uid(request).to_owned(), container: container.to_owned() };
        self.all().insert(kill);
    }

    /// The containers that were stopped for a request.
    pub fn of(&self, request: &ContainerRecreateRequest) -> BTreeSet<String> {
        let request = uid(request);
        self.all().iter().filter(|it| it.request == request).map(|it| it.container.clone()).collect()
    }

    /// Forgets what was stopped in a pod for others than its requests that are still open.
    pub fn keep(&self, pod: &Key, requests: &[&ContainerRecreateRequest]) {
        let is_open = |kill: &Kill| requests.iter().any(|it| uid(*it) == kill.request && plan::is_open(it));
        self.all().retain(|it| it.pod != *pod || is_open(it));
    }

    fn all(&self) -> MutexGuard<'_, BTreeSet<Kill>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use axum::http::{Request, Response};
    use http_body_util::BodyExt;
    use jiff::Timestamp;
    use kube::{client::Body, runtime::watcher::Event};
    use serde_json::{Value, json};
    use tokio_util::task::TaskTracker;
    use tower::service_fn;

    use super::*;
    use crate::{
        daemon::{
            cri::{
                Container, ContainerState, Runtime,
                fake::{Asked, FakeRuntime},
                keys,
            },
            kill::Killer,
            metrics::DaemonMetrics,
            recreate::Recreator,
        },
        runtime::{
            cache::Cache, client, clock::Clock, controller::Reconcile, events::Sink, metrics::Metrics,
            throttle::Throttle, writes::Writer,
        },
    };

    /// A client of a server that knows one object and refuses this many requests first.
    fn server(object: Arc<Mutex<Value>>, refusals: usize, clock: &Clock) -> kube::Client {
        let options = client::Options {
            user_agent: "kruise-test/1".into(),
            metrics: Metrics::default(),
            throttle: Throttle::default(),
            clock: clock.clone(),
        };
        let count = Arc::new(AtomicUsize::new(0));
        let answer = move |request: Request<Body>| {
            let (object, count) = (object.clone(), count.clone());
            async move {
                if count.fetch_add(1, Ordering::SeqCst) < refusals {
                    return Response::builder().status(500).body(Body::empty());
                }
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let sent: Value = serde_json::from_slice(&body).unwrap();
                let mut object = object.lock().unwrap();
                json_patch::merge(&mut object, &sent);
                object["metadata"]["resourceVersion"] = json!("2");
                Response::builder().body(Body::from(object.to_string().into_bytes()))
            }
        };
        client::over(service_fn(answer), &options)
    }

    fn container(id: &str, restarts: i32) -> Container {
        let created = Timestamp::from_second(100 + i64::from(restarts)).unwrap();
        Container {
            id: id.into(),
            sandbox_id: "box".into(),
            name: "app".into(),
            state: ContainerState::Running,
            created_at: created,
            started_at: Some(created),
            hash: 0,
            restart_count: restarts,
            labels: BTreeMap::from([(keys::POD_UID.to_owned(), "p1".to_owned())]),
            annotations: BTreeMap::new(),
        }
    }

    fn forced() -> Value {
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest",
            "metadata": {
                "name": "r", "namespace": "n", "uid": "u", "resourceVersion": "1",
                "labels": {"crr.apps.kruise.io/pod-uid": "p1"},
            },
            "spec": {
                "podName": "web", "strategy": {"forceRecreate": true},
                "containers": [
                    {"name": "app", "statusContext": {"containerID": "containerd://old", "restartCount": 0}},
                ],
            },
            "status": {
                "phase": "Recreating", "containerRecreateStates": [{"name": "app", "phase": "Pending"}],
            },
        })
    }

    fn parsed(object: &Mutex<Value>) -> ContainerRecreateRequest {
        serde_json::from_value(object.lock().unwrap().clone()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_container_is_stopped_once_also_if_that_cannot_be_written_down() {
        let clock = Clock::following(Timestamp::from_second(1_000).unwrap());
        let object = Arc::new(Mutex::new(forced()));
        let client = server(object.clone(), 2, &clock);
        let cache: Cache<ContainerRecreateRequest> =
            Cache::new("requests", clock.clone(), Metrics::default());
        cache.watched(Event::Apply(parsed(&object)));
        let runtime = Arc::new(FakeRuntime::default());
        *runtime.containers.lock().unwrap() = vec![container("old", 0)];
        let sink = Sink::new(client.clone(), clock.clone(), Metrics::default());
        let killer = Killer {
            events: sink.recorder("test"),
            clock: clock.clone(),
            tasks: TaskTracker::new(),
            metrics: DaemonMetrics::new(),
        };
        let recreator = Recreator {
            cache: cache.clone(),
            writer: Writer::new(client, cache.clone()),
            runtimes: BTreeMap::from([("containerd".to_owned(), runtime.clone() as Arc<dyn Runtime>)]),
            killer: Arc::new(killer),
            kills: Kills::default(),
            clock,
        };
        let pod = Key::new("n", "web");
        assert!(recreator.reconcile(pod.clone()).await.is_err());
        *runtime.containers.lock().unwrap() = vec![container("new", 1)];
        assert!(recreator.reconcile(pod.clone()).await.is_err());
        assert!(recreator.reconcile(pod.clone()).await.is_ok());
        assert_eq!(runtime.asked(), [Asked::Stop("old".into(), 30)]);
        let written = object.lock().unwrap()["status"]["containerRecreateStates"].clone();
        assert_eq!(written, json!([{"name": "app", "phase": "Recreating", "isKilled": true}]));
        assert_eq!(recreator.kills.all().len(), 1);

        object.lock().unwrap()["metadata"]["resourceVersion"] = json!("3");
        cache.watched(Event::Delete(parsed(&object)));
        assert!(recreator.reconcile(pod).await.is_ok());
        assert_eq!(recreator.kills.all().len(), 0, "nothing is kept about a request that is gone");
    }

    #[test]
    fn what_was_stopped_for_a_completed_request_is_forgotten() {
        let open = Mutex::new(forced());
        let done = Mutex::new(forced());
        done.lock().unwrap()["status"]["completionTime"] = json!("1970-01-01T00:00:09Z");
        let (open, done) = (parsed(&open), parsed(&done));
        let (kills, pod) = (Kills::default(), Key::new("n", "web"));
        kills.add(pod.clone(), &open, "app");
        kills.keep(&Key::new("n", "other"), &[]);
        kills.keep(&pod, &[&open]);
        assert_eq!(kills.of(&open), BTreeSet::from(["app".to_owned()]));
        kills.keep(&pod, &[&done]);
        assert!(kills.of(&open).is_empty());
    }
}
