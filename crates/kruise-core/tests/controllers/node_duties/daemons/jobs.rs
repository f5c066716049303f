//! Jobs that download images, from the job to the registry.

use base64::{Engine, prelude::BASE64_STANDARD};
use sim::images::{Download, Ending};

use super::*;

fn nodes_of(downloads: &[Download], is_meant: impl Fn(&Ending) -> bool) -> Vec<&str> {
    let meant = downloads.iter().filter(|it| it.end.as_ref().is_some_and(|it| is_meant(&it.1)));
    let mut nodes: Vec<_> = meant.map(|it| it.node.as_str()).collect();
    nodes.sort_unstable();
    nodes
}

const EVERY_NODE: [&str; NODES] = ["member-1/node-1", "member-1/node-2", "member-1/node-3"];

#[test]
fn one_node_after_the_other_downloads_an_image_and_none_does_so_twice() {
    cluster(1, Weather::calm()).run(async |world| {
        let registry = world.registry("docker.io").slow(secs(20));
        start(&world).await;
        make_job(&world, "first", "shop/web:1", json!({"parallelism": 1}));
        let status = end_of_job(&world, "first", 300).await;
        assert_eq!(counts(&status), (3, 0), "{status}");
        assert_eq!(nodes_of(&registry.downloads(), |it| *it == Ending::Done), EVERY_NODE);
        assert_eq!(registry.most_at_once(), 1, "{:?}", registry.downloads());

        // The nodes have it: a second job asks nobody, and one that always asks finds nothing new.
        make_job(&world, "second", "shop/web:1", json!({"parallelism": 1}));
        assert_eq!(counts(&end_of_job(&world, "second", 300).await), (3, 0));
        assert_eq!(registry.downloads().len(), 3);
        make_job(&world, "third", "shop/web:1", json!({"imagePullPolicy": "Always"}));
        assert_eq!(counts(&end_of_job(&world, "third", 300).await), (3, 0));
        assert_eq!(nodes_of(&registry.downloads(), |it| *it == Ending::Unchanged), EVERY_NODE);

        // Kubelets have the same images.
        world.create_pod(CLUSTER, "web", "shop/web:1");
        world.all_ready(CLUSTER, secs(30)).await;
        assert_eq!(registry.downloads().len(), 6);
    });
}

#[test]
fn as_many_nodes_download_at_once_as_the_job_says() {
    cluster(2, Weather::calm()).run(async |world| {
        let registry = world.registry("docker.io").slow(secs(20));
        start(&world).await;
        make_job(&world, "job", "shop/web:1", json!({"parallelism": 2}));
        assert_eq!(counts(&end_of_job(&world, "job", 300).await), (3, 0));
        assert_eq!((registry.most_at_once(), registry.done()), (2, 3));
    });
}

#[test]
fn a_slow_registry_fails_a_job_after_its_attempts_and_a_later_job_is_not_held_up_by_that() {
    cluster(3, Weather::calm()).run(async |world| {
        let registry = world.registry("docker.io").slow(secs(600));
        start(&world).await;
        let limits = json!({"parallelism": 3, "pullPolicy": {"timeoutSeconds": 10, "backoffLimit": 2}});
        make_job(&world, "job", "shop/web:1", limits);
        let status = end_of_job(&world, "job", 300).await;
        assert_eq!(counts(&status), (0, 3), "{status}");
        assert_eq!(status["failedNodes"], json!(["node-1", "node-2", "node-3"]));
        let downloads = registry.downloads();
        assert_eq!(downloads.len(), 9, "three attempts for each node: {downloads:?}");
        for it in &downloads {
            let (end, how) = it.end.clone().unwrap();
            assert_eq!((how, (end - it.began).as_secs()), (Ending::GivenUp, 9), "{it:?}");
        }
        registry.usual_pace();
        make_job(&world, "later", "shop/web:1", json!({"parallelism": 3}));
        assert_eq!(counts(&end_of_job(&world, "later", 300).await), (3, 0));
    });
}

fn make_secret(world: &World, name: &str, password: &str) {
    let config = json!({"auths": {"registry.example": {"username": "reader", "password": password}}});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": BASE64_STANDARD.encode(config.to_string())},
    });
    write(world, Method::POST, "/api/v1/namespaces/default/secrets", &secret);
}

#[test]
fn a_registry_that_needs_a_login_serves_jobs_with_the_right_secret_alone() {
    cluster(4, Weather::calm()).run(async |world| {
        let registry = world.registry("registry.example").needs("reader", "open-sesame");
        start(&world).await;
        make_secret(&world, "right", "open-sesame");
        make_secret(&world, "wrong", "close-sesame");
        let once = |secrets: Value| {
            json!({"parallelism": 3, "pullSecrets": secrets, "pullPolicy": {"backoffLimit": 0}})
        };
        make_job(&world, "nobody", "registry.example/shop/a:1", once(json!([])));
        assert_eq!(counts(&end_of_job(&world, "nobody", 300).await), (0, 3));
        make_job(&world, "wrong", "registry.example/shop/b:1", once(json!(["wrong"])));
        assert_eq!(counts(&end_of_job(&world, "wrong", 300).await), (0, 3));
        assert_eq!((registry.done(), registry.downloads().len()), (0, 6));
        make_job(&world, "right", "registry.example/shop/c:1", once(json!(["right"])));
        assert_eq!(counts(&end_of_job(&world, "right", 300).await), (3, 0));
        assert_eq!(nodes_of(&registry.downloads(), |it| *it == Ending::Done), EVERY_NODE);
        let done = registry.downloads().into_iter().filter(|it| matches!(it.end, Some((_, Ending::Done))));
        assert!(done.into_iter().all(|it| it.user.as_deref() == Some("reader")));

        let told = read(&world, NODE_IMAGES).unwrap().to_string();
        assert!(told.contains("401 Unauthorized"), "{told}");
        assert!(!told.contains("sesame") && !told.contains("reader"), "{told}");
    });
}

#[test]
fn an_image_that_appears_later_is_downloaded_by_the_same_job() {
    cluster(5, Weather::calm()).run(async |world| {
        let registry = world.registry("docker.io").lacks("shop/web:2");
        start(&world).await;
        let patient = json!({"parallelism": 3, "pullPolicy": {"backoffLimit": 8}});
        make_job(&world, "job", "shop/web:2", patient);
        world.pass(secs(20)).await;
        assert_eq!(registry.done(), 0);
        let registry = registry.publish("shop/web:2");
        let status = end_of_job(&world, "job", 300).await;
        assert_eq!(counts(&status), (3, 0), "{status}");
        assert_eq!(nodes_of(&registry.downloads(), |it| *it == Ending::Done), EVERY_NODE);
        assert!(registry.downloads().len() >= 3 * 4, "refused again and again before");
    });
}
