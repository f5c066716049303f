//! How many requests a second one API server answers, in this process and over HTTPS on loopback.

use std::{future::Future, thread, time::Duration};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, Config,
    api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;
use sim::{World, faults::Weather};
use tokio::sync::oneshot;

use crate::{pod, rate, start};

const PODS: usize = 5_000;
const LISTS: usize = 100;
const PAGE: u32 = 500;
const WATCHES: usize = 10;

/// Requests on their way at once: over HTTPS each takes some milliseconds, whatever the server does.
const AT_ONCE: usize = 64;

pub(crate) fn head() {
    println!("\n| one API server with {PODS} pods, a second | in the process | over HTTPS |");
    println!("|---|---|---|");
}

pub(crate) fn run() {
    let inside = sim::run(1, |world| async move {
        world.add_cluster("one");
        measure(world.client("bench", "one")).await
    });
    let outside = over_https();
    for ((name, inside), (_, outside)) in inside.iter().zip(&outside) {
        println!("| {name} | {inside:.0} | {outside:.0} |");
    }
}

/// The server has a thread of its own, as it has in `cargo xtask up`.
fn over_https() -> Vec<(&'static str, f64)> {
    // Two providers may be in the build; one has to be named before the first connection.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (ready, kubeconfig) = oneshot::channel();
    let (done, over) = oneshot::channel::<()>();
    let server = thread::spawn(move || {
        runtime().block_on(async move {
            let world = World::at(1, "2030-01-01T00:00:00Z".parse().expect("a time"));
            world.set_weather(Weather { latency: (Duration::ZERO, Duration::ZERO), ..Weather::calm() });
            world.add_cluster("one");
            let served = world.serve("one").expect("a port of loopback");
            ready.send(served.kubeconfig()).expect("somebody waits for it");
            // The other side has gone, one way or the other.
            let _ = over.await;
        });
    });
    let rates = runtime().block_on(async {
        let kubeconfig = kubeconfig.await.expect("the server starts");
        let kubeconfig = serde_json::from_value(kubeconfig).expect("a kubeconfig");
        let config = Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await;
        let client = Client::try_from(config.expect("it names a cluster")).expect("usable credentials");
        measure(client).await
    });
    drop(done);
    server.join().expect("the server ends well");
    rates
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

async fn measure(client: Client) -> Vec<(&'static str, f64)> {
    let api: Api<Pod> = Api::default_namespaced(client);
    let name = |index: usize| format!("web-{:05}", index % PODS);
    let before = api.list(&ListParams::default()).await.expect("a list").metadata.resource_version;

    let create =
        each(PODS, async |it| api.create(&PostParams::default(), &pod(&name(it))).await.map(drop)).await;
    let get = each(PODS * 2, async |it| api.get(&name(it)).await.map(drop)).await;
    let page = ListParams::default().limit(PAGE);
    let list = each(LISTS, async |_| api.list(&page).await.map(drop)).await;
    let merge = Patch::Merge(json!({"metadata": {"annotations": {"seen": "yes"}}}));
    let merged =
        each(PODS, async |it| api.patch(&name(it), &PatchParams::default(), &merge).await.map(drop)).await;
    let apply = Patch::Apply(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"annotations": {"applied": "yes"}},
    }));
    let manager = PatchParams::apply("bench");
    let applied = each(PODS, async |it| api.patch(&name(it), &manager, &apply).await.map(drop)).await;

    let before = before.expect("a list has a version");
    let events = PODS * 3;
    let watched = each(WATCHES, async |_| {
        let stream = api.watch(&WatchParams::default(), &before).await?;
        let changes = stream.try_filter(|it| std::future::ready(!matches!(it, WatchEvent::Bookmark(_))));
        changes.take(events).try_for_each(|_| std::future::ready(Ok(()))).await
    })
    .await;
    vec![
        ("create a pod", create),
        ("get a pod", get),
        ("list 500 pods of them", list),
        ("merge patch of a pod", merged),
        ("server-side apply to a pod", applied),
        ("events to 10 watches", watched * events as f64),
    ]
}

/// Does something so often and says how many a second.
async fn each<F>(count: usize, work: impl Fn(usize) -> F) -> f64
where
    F: Future<Output = Result<(), kube::Error>>,
{
    let begun = start();
    let all = stream::iter(0..count).map(work).buffer_unordered(AT_ONCE);
    all.try_for_each(|()| std::future::ready(Ok(()))).await.expect("every request is answered");
    rate(count, begun.elapsed())
}
