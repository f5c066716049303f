//! The puller as a whole, against a fake runtime and an API server of one object.

use std::{collections::BTreeMap, path::PathBuf};

use axum::http::{Request, Response};
use futures::StreamExt;
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::{client::Body, runtime::watcher::Event};
use serde_json::{Value, json};
use tower::service_fn;

use super::*;
use crate::{
    daemon::cri::fake::{FakeImages, Outcome},
    runtime::{client, events::Sink, metrics::Metrics, throttle::Throttle},
};

/// A node with one NodeImage, whose status patches are taken in as an API server would.
struct Node {
    puller: Puller,
    images: Arc<FakeImages>,
    object: Arc<Mutex<Value>>,
    written: Arc<Mutex<Vec<Value>>>,
}

fn node(images: FakeImages, slots: Option<usize>) -> Node {
    node_with(images, slots, Vec::new())
}

fn node_with(
    images: FakeImages,
    slots: Option<usize>,
    docker_files: Vec<(PathBuf, docker_files::Form)>,
) -> Node {
    let clock = Clock::following(Timestamp::UNIX_EPOCH);
    let object = Arc::new(Mutex::new(json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage",
        "metadata": {"name": "n1", "uid": "u", "resourceVersion": "1"}, "spec": {},
    })));
    let written: Arc<Mutex<Vec<Value>>> = Arc::default();
    let options = client::Options {
        user_agent: "kruise-test/1".into(),
        metrics: Metrics::default(),
        throttle: Throttle::default(),
        clock: clock.clone(),
    };
    let (stored, log) = (object.clone(), written.clone());
    let server = service_fn(move |request: Request<Body>| {
        let (stored, log) = (stored.clone(), log.clone());
        async move {
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let patch: Value = serde_json::from_slice(&body).unwrap_or_default();
            let mut object = stored.lock().unwrap();
            json_patch::merge(&mut object, &patch);
            let next = object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() + 1;
            object["metadata"]["resourceVersion"] = json!(next.to_string());
            log.lock().unwrap().push(patch);
            Response::builder().body(Body::from(object.to_string().into_bytes()))
        }
    });
    let client = client::over(server, &options);
    let cache = Cache::new("nodeimages", clock.clone(), Metrics::default());
    let sink = Sink::new(client.clone(), clock.clone(), Metrics::default());
    let images = Arc::new(images);
    let context = Context {
        node: Key::new("", "n1"),
        writer: Writer::new(client.clone(), cache.clone()),
        cache,
        images: images.clone(),
        secrets: Secrets::new(client, clock.clone(), Seed::from_number(1)),
        docker_files: DockerFiles::new(docker_files, clock.clone()),
        plugins: Plugins::none(clock.clone()),
        slots: slots.map(|it| Arc::new(Semaphore::new(it))),
        triggers: Triggers::new(clock.clone()),
        events: sink.recorder("kruise-daemon"),
        clock,
        seed: Seed::from_number(1),
        metrics: DaemonMetrics::new(),
    };
    let puller = Puller::new(context, TaskTracker::new(), CancellationToken::new());
    Node { puller, images, object, written }
}

impl Node {
    /// Sets the spec, shows it to the cache, and looks.
    async fn want(&self, images: Value) {
        {
            let mut object = self.object.lock().unwrap();
            object["spec"] = json!({"images": images});
            let next = object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() + 1;
            object["metadata"]["resourceVersion"] = json!(next.to_string());
            self.puller.context.cache.watched(Event::Apply(serde_json::from_value(object.clone()).unwrap()));
        }
        self.look().await;
    }

    /// Lets the workers run, then looks.
    async fn look(&self) -> Next {
        // Workers need a few turns to get from one await to the next.
        futures::stream::iter(0..50).for_each(|_| tokio::task::yield_now()).await;
        self.puller.reconcile(Key::new("", "n1")).await.unwrap()
    }

    async fn after(&self, seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
        self.look().await;
    }

    fn phases(&self) -> BTreeMap<String, String> {
        let status = self.object.lock().unwrap()["status"].clone();
        let status: NodeImageStatus = serde_json::from_value(status).unwrap();
        let tags = status.image_statuses.into_iter().flat_map(|(name, image)| {
            image.tags.into_iter().map(move |it| (format!("{name}:{}", it.tag), it.phase))
        });
        tags.collect()
    }

    fn counts(&self) -> (i64, i64, i64) {
        let object = self.object.lock().unwrap();
        let count = |it: &str| object["status"][it].as_i64().unwrap();
        (count("pulling"), count("waiting"), count("succeeded"))
    }
}

fn tags(names: &[&str]) -> Value {
    names
        .iter()
        .map(|it| ((*it).to_owned(), json!({"tags": [{"tag": "1"}]})))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[tokio::test(start_paused = true)]
async fn two_slots_and_three_images_are_two_pulling_and_one_waiting() {
    let take = |seconds| Outcome::Take(Duration::from_secs(seconds));
    let node = node(FakeImages::with(vec![take(10), take(30), take(30)]), Some(2));
    node.want(tags(&["a", "b", "c"])).await;
    node.look().await;
    assert_eq!(node.counts(), (2, 1, 0));
    node.after(10).await;
    assert_eq!(node.counts(), (2, 0, 1));
    node.after(40).await;
    assert_eq!(node.counts(), (0, 0, 3));
}

#[tokio::test(start_paused = true)]
async fn a_finished_version_is_not_pulled_again_and_a_higher_one_is() {
    let node = node(FakeImages::default(), None);
    node.want(tags(&["a"])).await;
    node.look().await;
    assert_eq!(node.phases()["a:1"], "Succeeded");
    node.look().await;
    let writes = node.written.lock().unwrap().len();
    node.look().await;
    assert_eq!(node.written.lock().unwrap().len(), writes, "at rest nothing is written");
    assert_eq!(node.images.pulls().len(), 1);
    node.want(json!({"a": {"tags": [{"tag": "1", "version": 1}]}})).await;
    node.look().await;
    assert_eq!(node.images.pulls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn images_that_leave_are_given_up_and_report_nothing() {
    let node = node(FakeImages::with(vec![Outcome::Hang]), None);
    node.want(tags(&["redis"])).await;
    node.look().await;
    assert_eq!(node.phases()["redis:1"], "Pulling");
    node.want(tags(&["nginx"])).await;
    node.look().await;
    assert_eq!(node.phases().keys().collect::<Vec<_>>(), ["nginx:1"]);
    node.want(tags(&["busybox", "nginx"])).await;
    node.look().await;
    assert_eq!(node.phases().len(), 2);
    assert_eq!(node.images.pulls().len(), 3, "nginx was not pulled again");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_was_stopped_in_the_queue_is_never_begun() {
    let node = node(FakeImages::with(vec![Outcome::Take(Duration::from_secs(10))]), Some(1));
    node.want(tags(&["a", "b"])).await;
    node.want(tags(&["a"])).await;
    node.after(20).await;
    node.look().await;
    let pulled: Vec<_> = node.images.pulls().into_iter().map(|it| it.image).collect();
    assert_eq!(pulled, ["docker.io/library/a:1"]);
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_reports_is_held_back_and_none_is_lost() {
    let node = node(FakeImages::default(), Some(1));
    let names: Vec<String> = (0..20).map(|it| format!("image-{it:02}")).collect();
    node.want(tags(&names.iter().map(String::as_str).collect::<Vec<_>>())).await;
    for _ in 0..20 {
        node.look().await;
    }
    assert!(node.written.lock().unwrap().len() <= 5);
    for _ in 0..10 {
        node.after(2).await;
    }
    assert_eq!(node.counts(), (0, 0, 20));
}

/// node-daemon.md 5.5: credentials of the node's own docker configuration.
#[tokio::test(start_paused = true)]
async fn the_docker_configuration_of_the_node_logs_in() {
    let folder = std::env::temp_dir().join(format!("kruise-puller-docker-{}", std::process::id()));
    std::fs::create_dir_all(folder.join(".docker")).unwrap();
    let config = r#"{"auths":{"r.io":{"username":"of-the-node","password":"p"}}}"#;
    std::fs::write(folder.join(".docker/config.json"), config).unwrap();
    let places = docker_files::places(&folder, Some(&folder));
    let node = node_with(FakeImages::default(), None, places);
    node.want(tags(&["r.io/a", "other.io/a"])).await;
    node.look().await;
    std::fs::remove_dir_all(&folder).unwrap();
    let user = |it: &crate::daemon::cri::Pull| it.credential.as_ref().map(|it| it.username.clone());
    let pulls = node.images.pulls();
    let of = |image: &str| pulls.iter().find(|it| it.image.starts_with(image)).and_then(user);
    assert_eq!((of("r.io/a"), of("other.io/a")), (Some("of-the-node".to_owned()), None));
}
