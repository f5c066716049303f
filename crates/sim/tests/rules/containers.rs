//! Container runtimes and registries: what daemons beside a kubelet see, and what the kubelet makes of it.

use http::Method;
use serde_json::{Value, json};
use sim::{
    World, fleet,
    images::{Ending, Login},
    nodes::{
        Behaviour, ImageBehaviour,
        runtime::{Act, ContainerState, Did, Ran},
    },
};

use crate::kit::*;

fn one_node<F: Future<Output = ()>>(seed: u64, test: impl FnOnce(World) -> F) {
    fleet().nodes(1).seed(seed).run(test);
}

fn get_pod(world: &World, name: &str) -> Value {
    read(world, &format!("/api/v1/namespaces/default/pods/{name}"))
}

fn status(world: &World, pod: &str, container: usize) -> Value {
    get_pod(world, pod)["status"]["containerStatuses"][container].clone()
}

/// The runtime's id of a container.
fn id(status: &Value) -> String {
    status["containerID"].as_str().unwrap().trim_start_matches("containerd://").to_owned()
}

fn two_containers(world: &World, spec: Value) {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "app", "image": "app:1"}, {"name": "log", "image": "log:1"}]},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    write(world, Method::POST, "/api/v1/namespaces/default/pods", pod);
}

#[test]
fn a_kubelet_waits_for_a_registry_that_refuses() {
    one_node(1, async |world| {
        let registry = world.registry("docker.io").refuse("toomanyrequests");
        world.create_pod("member-1", "a", "app:1");
        world.pass(secs(5)).await;
        let waiting = |world: &World| status(world, "a", 0)["state"]["waiting"].clone();
        assert_eq!(waiting(&world)["reason"], "ErrImagePull");
        assert!(waiting(&world)["message"].as_str().unwrap().contains("toomanyrequests"));
        world.pass(secs(10)).await;
        assert_eq!(waiting(&world)["reason"], "ImagePullBackOff");
        let registry = registry.accept().slow(secs(7));
        world.all_ready("member-1", secs(60)).await;
        let last = registry.downloads().pop().unwrap();
        assert_eq!((last.node.as_str(), last.image.as_str()), ("member-1/node-1", "docker.io/library/app:1"));
        assert_eq!(last.end.unwrap(), (last.began + secs(7), Ending::Done));
    });
}

#[test]
fn a_kubelet_logs_in_with_the_pull_secrets_of_the_pod() {
    one_node(2, async |world| {
        let registry = world.registry("registry.example").needs("reader", "secret");
        let config = json!({"auths": {"registry.example": {"username": "reader", "password": "secret"}}});
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
            "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": config.to_string()},
        });
        write(&world, Method::POST, "/api/v1/namespaces/default/secrets", secret);
        for (name, secrets) in [("with", json!([{"name": "login"}])), ("without", json!([]))] {
            let pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
                "spec": {
                    "imagePullSecrets": secrets,
                    "containers": [{"name": "main", "image": format!("registry.example/{name}:1")}],
                },
            });
            write(&world, Method::POST, "/api/v1/namespaces/default/pods", pod);
        }
        world.pass(secs(20)).await;
        assert_eq!(get_pod(&world, "with")["status"]["phase"], "Running");
        assert_eq!(get_pod(&world, "without")["status"]["phase"], "Pending");
        assert_eq!(registry.done(), 1);
    });
}

#[test]
fn an_image_that_a_daemon_has_pulled_is_not_pulled_by_the_kubelet() {
    one_node(3, async |world| {
        let registry = world.registry("docker.io").slow(secs(30));
        let runtime = world.runtime("member-1", "node-1");
        runtime.pull("app:1", None).await.unwrap();
        let images = runtime.images().await;
        assert_eq!(images[0].tags, ["docker.io/library/app:1"]);
        world.create_pod("member-1", "a", "app:1");
        world.all_ready("member-1", secs(10)).await;
        let image_id = status(&world, "a", 0)["imageID"].as_str().unwrap().to_owned();
        assert_eq!(images[0].digests, [format!("docker.io/library/{image_id}")]);
        runtime.pull("app:1", None).await.unwrap();
        let ends: Vec<_> = registry.downloads().into_iter().map(|it| it.end.unwrap().1).collect();
        assert_eq!(ends, [Ending::Done, Ending::Unchanged]);

        runtime.remove_image("app:1").await;
        assert!(runtime.images().await.is_empty());
    });
}

#[test]
fn a_download_that_nobody_waits_for_is_given_up() {
    one_node(4, async |world| {
        let registry = world.registry("docker.io").slow(secs(30));
        let runtime = world.runtime("member-1", "node-1");
        assert!(tokio::time::timeout(secs(10), runtime.pull("app:1", None)).await.is_err());
        world.pass(secs(60)).await;
        assert!(runtime.images().await.is_empty());
        let download = registry.downloads().pop().unwrap();
        assert_eq!(download.end.unwrap().1, Ending::GivenUp);

        registry.needs("reader", "secret");
        let refusal = runtime.pull("app:1", Some(Login::new("reader", "guess"))).await.unwrap_err();
        assert!(refusal.message.contains("401"), "{refusal}");
        world.registry("registry.example").lacks("registry.example/app:1");
        let refusal = runtime.pull("registry.example/app:1", None).await.unwrap_err();
        assert_eq!(refusal.code, "NotFound");
    });
}

#[test]
fn a_container_that_is_stopped_is_started_again_and_the_other_is_left_alone() {
    one_node(5, async |world| {
        two_containers(&world, json!({}));
        world.all_ready("member-1", secs(30)).await;
        let runtime = world.runtime("member-1", "node-1");
        let (app, log) = (status(&world, "web", 0), status(&world, "web", 1));
        let listed = runtime.containers().await;
        assert_eq!(listed.len(), 2);
        assert_eq!(listed[0].labels["io.kubernetes.container.name"], "app");
        assert_eq!(listed[0].annotations["io.kubernetes.pod.terminationGracePeriod"], "30");
        let address = runtime.address(&listed[0].sandbox).await.unwrap();
        assert_eq!(address.as_deref(), get_pod(&world, "web")["status"]["podIP"].as_str());

        runtime.stop(&id(&app), secs(30)).await.unwrap();
        let listed = runtime.containers().await;
        assert_eq!((&listed[0].id, listed[0].state), (&id(&app), ContainerState::Exited));
        world.pass(secs(1)).await;
        world.all_ready("member-1", secs(30)).await;
        let again = status(&world, "web", 0);
        assert_eq!((&again["restartCount"], &app["restartCount"]), (&json!(1), &json!(0)));
        assert_ne!(id(&again), id(&app));
        assert_eq!(again["lastState"]["terminated"]["exitCode"], 143);
        assert_eq!(status(&world, "web", 1), log);
        let listed = runtime.containers().await;
        let lives: Vec<_> = listed.iter().map(|it| (it.name.as_str(), it.state, it.restarts)).collect();
        let (running, exited) = (ContainerState::Running, ContainerState::Exited);
        assert_eq!(lives, [("app", running, 1), ("app", exited, 0), ("log", running, 0)]);
        assert!(listed[0].created > listed[1].created);

        // What has ended can be stopped, what never was cannot.
        runtime.stop(&id(&app), secs(30)).await.unwrap();
        world.pass(secs(5)).await;
        assert_eq!(status(&world, "web", 0)["restartCount"], 1);
        assert_eq!(runtime.stop("other", secs(30)).await.unwrap_err().code, "NotFound");
    });
}

#[test]
fn a_container_that_does_not_stop_is_killed_and_ends_as_its_pod_says() {
    let slow = ImageBehaviour { stop: Some(secs(100)), ..ImageBehaviour::default() };
    fleet().nodes(1).behaviour(Behaviour::default().image("app:1", slow)).run(async |world| {
        two_containers(&world, json!({"restartPolicy": "Never"}));
        world.all_ready("member-1", secs(30)).await;
        let began = world.now();
        let runtime = world.runtime("member-1", "node-1");
        runtime.stop(&id(&status(&world, "web", 0)), secs(3)).await.unwrap();
        assert_eq!(world.now().duration_since(began).as_secs(), 3);
        world.pass(secs(5)).await;
        let ended = status(&world, "web", 0);
        assert_eq!(ended["state"]["terminated"]["exitCode"], 137);
        assert_eq!(
            (&ended["restartCount"], get_pod(&world, "web")["status"]["phase"].as_str()),
            (&json!(0), Some("Running"))
        );
    });
}

#[test]
fn commands_take_their_time_and_end_with_their_container() {
    one_node(6, async |world| {
        two_containers(&world, json!({}));
        world.all_ready("member-1", secs(30)).await;
        let runtime = world.runtime("member-1", "node-1");
        let app = id(&status(&world, "web", 0));
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (began, ran) = (world.now(), runtime.exec(&app, words("sleep 5")).await.unwrap());
        assert_eq!((ran.code, world.now().duration_since(began).as_secs()), (0, 5));

        world.set_programs("member-1", |it| Ran {
            code: if it.words[0] == "false" { 1 } else { 0 },
            takes: secs(60),
            stdout: format!("{} in {}/{} of {}", it.words[0], it.pod, it.container, it.image),
            ..Ran::default()
        });
        let ran = runtime.exec(&app, words("false")).await.unwrap();
        assert_eq!((ran.code, ran.stdout.as_str()), (1, "false in web/app of app:1"));
        let stopped = async {
            world.pass(secs(10)).await;
            runtime.stop(&app, secs(30)).await
        };
        let (ran, _) = tokio::join!(runtime.exec(&app, words("true")), stopped);
        assert_eq!(ran.unwrap().code, 137);
        assert_eq!(runtime.exec(&app, words("true")).await.unwrap_err().code, "Unknown");
        let did: Vec<Act> = runtime.acts();
        assert!(did.iter().all(|it| it.container == "app" && it.pod == "web"));
        assert_eq!(did.iter().filter(|it| matches!(it.what, Did::Exec(_))).count(), 3);
        assert_eq!(did.last().unwrap().what, Did::ExecEnded(137));
    });
}

#[test]
fn calls_of_many_clients_at_once_happen_in_the_same_order_in_every_run() {
    let run = || {
        fleet().nodes(3).seed(9).run(async |world| {
            world.registry("docker.io").lacks("app:3");
            for index in 0..6 {
                world.create_pod("member-1", &format!("p{index}"), "app:1");
            }
            world.all_ready("member-1", secs(30)).await;
            let mut clients = tokio::task::JoinSet::new();
            for index in 0..12_u32 {
                let runtime = world.runtime("member-1", &format!("node-{}", 1 + index % 3));
                clients.spawn(async move {
                    let _ = runtime.pull(&format!("app:{}", index % 4), None).await;
                    for container in runtime.containers().await {
                        let _ = runtime.stop(&container.id, secs(10)).await;
                    }
                });
            }
            while clients.join_next().await.is_some() {}
            world.pass(secs(60)).await;
            world.log().fingerprint()
        })
    };
    assert_eq!(run(), run());
}

#[test]
fn a_container_that_is_being_replaced_is_shown_as_it_was_made() {
    let slow = ImageBehaviour { stop: Some(secs(20)), ..ImageBehaviour::default() };
    fleet().nodes(1).behaviour(Behaviour::default().image("app:1", slow.clone())).run(async |world| {
        world.create_pod("member-1", "a", "app:1");
        world.all_ready("member-1", secs(30)).await;
        world.set_image("member-1", "app:2", slow);
        world.set_programs("member-1", |it| Ran { stdout: it.image.to_owned(), ..Ran::default() });
        let runtime = world.runtime("member-1", "node-1");
        let (began, made) = (world.now(), runtime.containers().await);
        let hash =
            |it: &sim::nodes::runtime::Container| it.annotations["io.kubernetes.container.hash"].clone();

        let path = "/api/v1/namespaces/default/pods/a";
        let mut pod = read(&world, path);
        pod["spec"]["containers"][0]["image"] = json!("app:2");
        write(&world, Method::PUT, path, pod);
        world.pass(secs(10)).await;
        let replaced = runtime.containers().await;
        assert_eq!((hash(&replaced[0]), &replaced[0].id), (hash(&made[0]), &made[0].id));
        let ran = runtime.exec(&made[0].id, vec!["version".to_owned()]).await.unwrap();
        assert_eq!(ran.stdout, "app:1");

        world.pass(secs(20)).await;
        // A clock that is set wrong says nothing about containers that were made before.
        world.cluster("member-1").server().clock().jump(jiff::SignedDuration::from_hours(5));
        let listed = runtime.containers().await;
        assert_eq!(listed.len(), 2);
        assert_ne!(hash(&listed[0]), hash(&made[0]));
        assert_eq!((hash(&listed[1]), listed[1].created), (hash(&made[0]), made[0].created));
        assert!(listed[0].created.duration_since(began).as_secs() < 60, "{}", listed[0].created);
    });
}

fn with_policy(world: &World, name: &str, policy: &str) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "app:1", "imagePullPolicy": policy}]},
    });
    write(world, Method::POST, "/api/v1/namespaces/default/pods", pod);
}

#[test]
fn an_image_that_was_removed_stays_away_until_it_is_pulled_again() {
    one_node(11, async |world| {
        let registry = world.registry("docker.io");
        world.create_pod("member-1", "a", "app:1");
        world.all_ready("member-1", secs(30)).await;
        let runtime = world.runtime("member-1", "node-1");
        runtime.remove_image("app:1").await;
        write(
            &world,
            Method::PATCH,
            "/api/v1/namespaces/default/pods/a",
            json!({"metadata": {"labels": {"seen": "again"}}}),
        );
        world.pass(secs(5)).await;
        assert!(runtime.images().await.is_empty());
        world.create_pod("member-1", "b", "app:1");
        world.pass(secs(30)).await;
        assert_eq!((runtime.images().await.len(), registry.done()), (1, 2));
    });
}

#[test]
fn a_download_of_a_kubelet_ends_when_it_is_over_or_its_pod_is_gone() {
    one_node(12, async |world| {
        let registry = world.registry("docker.io").slow(secs(30));
        world.create_pod("member-1", "a", "app:1");
        world.create_pod("member-1", "b", "app:2");
        world.pass(secs(10)).await;
        assert_eq!((registry.downloads().len(), registry.done()), (2, 0));
        assert!(registry.downloads().iter().all(|it| it.end.is_none()));
        write(&world, Method::DELETE, "/api/v1/namespaces/default/pods/b?gracePeriodSeconds=0", Value::Null);
        world.pass(secs(30)).await;
        let downloads = registry.downloads();
        let end = |image: &str| {
            let download = downloads.iter().find(|it| it.image.ends_with(image)).unwrap();
            let (at, ending) = download.end.clone().unwrap();
            ((at - download.began).as_secs(), ending)
        };
        assert_eq!(end("app:1"), (30, Ending::Done));
        assert_eq!((end("app:2").1, end("app:2").0 < 12), (Ending::GivenUp, true));
    });
}

#[test]
fn a_pod_says_when_its_images_are_pulled() {
    one_node(13, async |world| {
        let registry = world.registry("docker.io");
        with_policy(&world, "never", "Never");
        world.pass(secs(30)).await;
        let waiting = status(&world, "never", 0)["state"]["waiting"].clone();
        assert_eq!(waiting["reason"], "ErrImageNeverPull");
        let message = "Container image \"app:1\" is not present with pull policy of Never";
        assert_eq!(waiting["message"], message);
        assert!(registry.downloads().is_empty());
        world.runtime("member-1", "node-1").pull("app:1", None).await.unwrap();
        world.all_ready("member-1", secs(30)).await;

        for (name, policy) in [("lazy", "IfNotPresent"), ("eager", "Always")] {
            with_policy(&world, name, policy);
        }
        world.all_ready("member-1", secs(30)).await;
        let ends: Vec<_> = registry.downloads().into_iter().map(|it| it.end.unwrap().1).collect();
        assert_eq!(ends, [Ending::Done, Ending::Unchanged]);
        registry.refuse("toomanyrequests");
        with_policy(&world, "late", "Always");
        world.pass(secs(5)).await;
        assert_eq!(status(&world, "late", 0)["state"]["waiting"]["reason"], "ErrImagePull");
    });
}
