use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    body::Body,
    http::{Request, Response, Uri},
};
use futures::StreamExt;
use kube::{Api, Client};
use pod::PodLite;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tower::{BoxError, service_fn};

use super::{watch::LOOK_UP_AFTER, *};
use crate::runtime::{client, overlay::Intent};

fn pod(name: &str, version: u64) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "n", "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "managedFields": [{"manager": "kubectl"}],
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "yes"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "owner", "controller": true}],
        },
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    })
}

fn light(name: &str, version: u64) -> PodLite {
    serde_json::from_value(pod(name, version)).unwrap()
}

/// What the server does with the next request of a kind.
enum Answer {
    Json(u16, Value),
    /// Sends these watch events and keeps the connection open.
    Stream(Vec<Value>),
    Hang,
}

/// A server that answers by script: one for lists, one for watches, one for reads.
#[derive(Clone, Default)]
struct Script(Arc<Mutex<[VecDeque<Answer>; 3]>>, Arc<Mutex<Vec<String>>>);

impl Script {
    fn on(self, kind: usize, answer: Answer) -> Self {
        self.0.lock().unwrap()[kind].push_back(answer);
        self
    }

    fn list(self, version: u64, pods: Vec<Value>) -> Self {
        let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version.to_string()}, "items": pods});
        self.on(0, Answer::Json(200, list))
    }

    fn watch(self, answer: Answer) -> Self {
        self.on(1, answer)
    }

    fn asked(&self) -> Vec<String> {
        self.1.lock().unwrap().clone()
    }

    fn client(&self) -> Client {
        let script = self.clone();
        let options = client::Options {
            user_agent: "test".into(),
            metrics: Metrics::default(),
            throttle: Default::default(),
            clock: Clock::system(),
        };
        client::over(
            service_fn(move |request: Request<kube::client::Body>| {
                let script = script.clone();
                async move { script.answer(request.uri().clone()).await }
            }),
            &options,
        )
    }

    async fn answer(&self, uri: Uri) -> Result<Response<Body>, BoxError> {
        let query = uri.query().unwrap_or_default();
        let kind = match (query.contains("watch=true"), uri.path().ends_with("/pods")) {
            (true, _) => 1,
            (false, true) => 0,
            (false, false) => 2,
        };
        self.1.lock().unwrap().push(format!("{} {}", ["list", "watch", "get"][kind], uri.path()));
        let next = self.0.lock().unwrap()[kind].pop_front();
        match next {
            Some(Answer::Json(code, body)) => {
                Ok(Response::builder().status(code).body(Body::from(body.to_string()))?)
            }
            Some(Answer::Stream(events)) => {
                let lines = events.into_iter().map(|it| Ok::<_, BoxError>(format!("{it}\n")));
                let open = futures::stream::iter(lines).chain(futures::stream::pending());
                Ok(Response::new(Body::from_stream(open)))
            }
            Some(Answer::Hang) | None => std::future::pending().await,
        }
    }
}

fn refusal(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "Expired", "message": "too old"})
}

struct Running {
    cache: Cache<PodLite>,
    told: Arc<Mutex<Vec<String>>>,
    token: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

fn run(script: &Script) -> Running {
    let cache: Cache<PodLite> = Cache::new("pods", Clock::system(), Metrics::default());
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let (notes, reader) = (told.clone(), cache.clone());
    cache.on_change(move |change| {
        // Listeners may read the cache they are told about.
        let count = reader.owned_by("owner").len();
        notes.lock().unwrap().push(format!("{} {} of {count}", change.key(), change.after.is_some()));
    });
    let token = CancellationToken::new();
    let (feeding, client, stop) = (cache.clone(), script.client(), token.clone());
    let task = tokio::spawn(async move {
        let api = Api::all(client.clone());
        feeding.run(client, api, client::watch(), stop).await;
    });
    Running { cache, told, token, task }
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn event(kind: &str, object: Value) -> Value {
    json!({"type": kind, "object": object})
}

#[tokio::test(start_paused = true)]
async fn a_cache_is_complete_after_the_list_and_follows_the_watch() {
    let events = vec![event("ADDED", pod("b", 11)), event("DELETED", pod("a", 12))];
    let script = Script::default().list(10, vec![pod("a", 5)]).watch(Answer::Stream(events));
    let running = run(&script);
    assert!(!running.cache.is_synced());
    running.cache.synced().await;
    pass(1).await;
    assert_eq!(*running.told.lock().unwrap(), ["n/a true of 1", "n/b true of 2", "n/a false of 1"]);
    let pods = running.cache.owned_by("owner");
    assert_eq!(pods.len(), 1);
    assert_eq!(
        (&pods[0].metadata.managed_fields, pods[0].annotations().len()),
        (&None, 1),
        "ballast is dropped"
    );
    assert_eq!((running.cache.in_namespace("n").len(), running.cache.orphans_in("n").len()), (1, 0));
    running.token.cancel();
    running.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_watch_whose_opening_answers_410_leads_to_a_new_list() {
    let script = Script::default()
        .list(10, vec![pod("a", 5)])
        .watch(Answer::Json(410, refusal(410)))
        .list(20, vec![pod("b", 15)])
        .watch(Answer::Stream(Vec::new()));
    let running = run(&script);
    pass(5).await;
    assert!(
        running.cache.get(&Key::new("n", "b")).is_some() && running.cache.get(&Key::new("n", "a")).is_none()
    );
    assert_eq!(*running.told.lock().unwrap(), ["n/a true of 1", "n/a false of 1", "n/b true of 1"]);
    running.token.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_list_that_never_answers_is_given_up_and_tried_again() {
    let script =
        Script::default().on(0, Answer::Hang).list(10, vec![pod("a", 5)]).watch(Answer::Stream(Vec::new()));
    let running = run(&script);
    pass(30).await;
    assert!(!running.cache.is_synced());
    pass(60).await;
    assert!(running.cache.is_synced());
    running.token.cancel();
}

#[tokio::test(start_paused = true)]
async fn own_writes_show_at_once_and_those_that_the_watch_never_shows_are_looked_up() {
    let script = Script::default()
        .list(10, Vec::new())
        .watch(Answer::Stream(Vec::new()))
        .on(2, Answer::Json(404, refusal(404)))
        .on(2, Answer::Json(200, pod("c", 13)));
    let running = run(&script);
    running.cache.synced().await;
    running.cache.wrote(light("ghost", 11));
    assert_eq!(running.cache.owned_by("owner").len(), 1);
    pass(LOOK_UP_AFTER.as_secs() + 31).await;
    assert_eq!(running.cache.owned_by("owner").len(), 0, "it was deleted without the watch saying so");
    assert_eq!(running.told.lock().unwrap().last().unwrap(), "n/ghost false of 0");

    let doubt =
        Doubt { key: Key::new("n", "c"), uid: None, owner: Some("owner".into()), intent: Intent::Create };
    running.cache.doubted(doubt);
    assert_eq!(running.cache.doubts_of("owner").len(), 1);
    pass(LOOK_UP_AFTER.as_secs() + 31).await;
    assert_eq!(running.cache.doubts_of("owner").len(), 0);
    assert_eq!(running.cache.owned_by("owner").len(), 1, "the create had happened");
    let gets: Vec<_> = script.asked().into_iter().filter(|it| it.starts_with("get")).collect();
    assert_eq!(gets, ["get /api/v1/namespaces/n/pods/ghost", "get /api/v1/namespaces/n/pods/c"]);
    running.token.cancel();
}

#[tokio::test(start_paused = true)]
async fn a_quiet_cache_asks_for_nothing() {
    let script = Script::default().list(10, vec![pod("a", 5)]).watch(Answer::Stream(Vec::new()));
    let running = run(&script);
    pass(60).await;
    assert_eq!(script.asked(), ["list /api/v1/pods", "watch /api/v1/pods"]);
    running.token.cancel();
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_read_stays_what_it_was_and_does_not_stop_the_others() {
    let unreadable = |name: &str, version: u64| {
        let mut pod = pod(name, version);
        pod["spec"]["containers"] = json!("none");
        pod
    };
    let events = vec![
        event("MODIFIED", unreadable("a", 11)),
        event("ADDED", unreadable("new", 12)),
        event("ADDED", pod("b", 13)),
        event("DELETED", unreadable("a", 14)),
    ];
    let listed = vec![unreadable("x", 4), pod("a", 5)];
    let script = Script::default().list(10, listed).watch(Answer::Stream(events));
    let cache: Cache<PodLite> = Cache::new("pods", Clock::system(), Metrics::default());
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let notes = told.clone();
    cache.on_change(move |it| notes.lock().unwrap().push(format!("{} {}", it.key(), it.after.is_some())));
    let (feeding, client, token) = (cache.clone(), script.client(), CancellationToken::new());
    let stop = token.clone();
    let task = tokio::spawn(async move {
        let api = Api::all(client.clone());
        feeding.run_guarded(client, api, client::watch(), stop).await;
    });
    cache.synced().await;
    pass(1).await;
    let told: Vec<_> = told.lock().unwrap().iter().filter(|it| *it != "n/a true").cloned().collect();
    assert_eq!(told, ["n/b true", "n/a false"]);
    assert_eq!(cache.all().len(), 1);
    assert_eq!(script.asked().len(), 2, "one list and one watch are enough");
    token.cancel();
    task.await.unwrap();
}
