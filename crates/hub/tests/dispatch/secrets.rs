//! Pull secrets of jobs: from the hub into the clusters that serve the job, and gone with it (IPJ-6).

use http::Method;
use member_agent::link::secrets::name;
use serde_json::{Value, json};
use sim::{faults::Fate, world::Process};

use crate::kit::{
    FLEET, HUB, MEMBERS, Stage, agent_of,
    jobs::{DAEMONS, JOB, NODES, policy},
    play_images, rolling,
};

const SECRETS: &str = "/api/v1/namespaces/shop/secrets";
/// Nodes of the whole fleet.
const ALL: u64 = (MEMBERS.len() * NODES.len()) as u64;
/// Logins at the registries `one` and `two`, as Secrets have them.
const ONE: &str = "eyJhdXRocyI6eyJvbmUiOnt9fX0=";
const TWO: &str = "eyJhdXRocyI6eyJ0d28iOnt9fX0=";

/// Writes the Secret `registry` on the hub.
fn keep(stage: &Stage, data: &str) {
    let path = format!("{SECRETS}/registry");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry", "namespace": "shop"},
        "type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": data},
    });
    match stage.read(HUB, &path) {
        None => stage.world.write(HUB, Method::POST, SECRETS, &secret).unwrap(),
        Some(_) => stage.world.write(HUB, Method::PATCH, &path, &secret).unwrap(),
    };
}

/// A job that names it.
fn pull(stage: &Stage, image: &str, parallelism: u32, change: impl FnOnce(&mut Value)) {
    stage.pull(image, parallelism, |it| {
        it["pullSecrets"] = json!(["registry"]);
        change(it);
    });
}

/// The Secret in a member.
fn copy(stage: &Stage, member: &str) -> Option<Value> {
    stage.read(member, &format!("{SECRETS}/{}", name("warm", "registry")))
}

fn has(stage: &Stage, member: &str, data: &str) -> bool {
    copy(stage, member).is_some_and(|it| it["data"][".dockerconfigjson"] == data)
}

/// Every object of these kinds in a cluster, as text.
fn all(stage: &Stage, cluster: &str, kinds: &[&str]) -> Vec<String> {
    let server = stage.world.cluster(cluster).server().clone();
    kinds.iter().flat_map(|it| server.list(it)).map(|it| it.value().to_string()).collect()
}

/// Names and versions of all Secrets and jobs in the members.
fn versions(stage: &Stage) -> Vec<String> {
    let of = |member: &&str| {
        let server = stage.world.cluster(member).server().clone();
        let kinds = ["secrets", "imagepulljobs.apps.kruise.io"].into_iter();
        let stored = kinds.flat_map(move |it| server.list(it)).map(|it| it.value()["metadata"].clone());
        stored.map(|it| format!("{} {}", it["name"], it["resourceVersion"])).collect::<Vec<_>>()
    };
    MEMBERS.iter().flat_map(of).collect()
}

fn said(stage: &Stage, words: &str) -> bool {
    stage.job_binding()["status"]["conditions"].to_string().contains(words)
}

/// What a job with its Secret must have come to, whoever was killed on the way.
fn assert_brought(stage: &Stage, data: &str) {
    for member in MEMBERS {
        let (job, secret) = (stage.read(member, JOB).unwrap(), copy(stage, member).unwrap());
        assert_eq!(job["spec"]["pullSecrets"], json!([name("warm", "registry")]), "{member}");
        assert_eq!(secret["data"], json!({".dockerconfigjson": data}), "{member}");
        assert_eq!(secret["type"], "kubernetes.io/dockerconfigjson");
        let owners = secret["metadata"]["ownerReferences"].as_array().unwrap();
        assert_eq!(owners.len(), 1, "{owners:?}");
        assert_eq!(owners[0]["uid"], job["metadata"]["uid"], "{member}");
        let ours = all(stage, member, &["secrets"]);
        assert_eq!(ours.iter().filter(|it| it.contains("-pull-") && it.contains("\"shop\"")).count(), 1);
    }
}

/// Deletes the job, and waits until nothing is left of it and of its Secrets.
async fn end(stage: &Stage) {
    stage.world.write(HUB, Method::DELETE, JOB, &Value::Null).unwrap();
    stage
        .until("all of it is gone", |it| {
            it.job().is_null()
                && MEMBERS.iter().all(|member| copy(it, member).is_none() && it.read(member, JOB).is_none())
        })
        .await;
    assert!(stage.read(HUB, &format!("{SECRETS}/registry")).is_some(), "that one is the user's");
}

#[test]
fn ipj_6_a_pull_secret_comes_with_the_job_under_another_name_and_goes_with_it() {
    play_images(async |stage| {
        keep(&stage, ONE);
        stage.place(&policy(|_| {}));
        pull(&stage, "stuck", 3, |_| {});
        stage.until("all slots are used", |it| it.pulling().iter().sum::<u64>() == 3).await;
        assert_brought(&stage, ONE);
        // Nodes are told where to find it, and find it there.
        for member in MEMBERS {
            let nodes = all(&stage, member, &["nodeimages.apps.kruise.io"]);
            let nodes: Vec<Value> = nodes.iter().map(|it| serde_json::from_str(it).unwrap()).collect();
            for node in nodes.iter().filter(|it| it["spec"]["images"]["stuck"]["tags"].is_array()) {
                let copy = node["spec"]["images"]["stuck"]["pullSecrets"][0]["name"].as_str().unwrap();
                let copy =
                    stage.read(member, &format!("/api/v1/namespaces/{DAEMONS}/secrets/{copy}")).unwrap();
                assert_eq!(copy["data"][".dockerconfigjson"], ONE, "{member}");
            }
        }
        // On the hub it is in the namespaces of clusters, and in nothing that others read.
        let kinds = [
            "fleetbindings.fleet.kruise.io",
            "fleetrevisions.fleet.kruise.io",
            "imagepulljobs.apps.kruise.io",
            "events",
        ];
        assert!(!all(&stage, HUB, &kinds).iter().any(|it| it.contains(ONE)));
        assert!(!stage.world.log().last(usize::MAX).iter().any(|it| it.contains(ONE)));
        end(&stage).await;
    });
}

#[test]
fn ipj_6_a_secret_is_only_where_the_policy_places_the_job() {
    play_images(async |stage| {
        keep(&stage, ONE);
        stage.place(&policy(|it| it["clusters"] = json!({"names": ["member-2"]})));
        pull(&stage, "web", 3, |_| {});
        stage.pulled(NODES.len() as u64).await;
        let holders = all(&stage, HUB, &["assignments.fleet.kruise.io"]);
        let holders: Vec<_> = holders.iter().filter(|it| it.contains(ONE)).collect();
        assert!(holders.len() == 1 && holders[0].contains("\"fleet-member-2\""), "{holders:?}");
        assert!(has(&stage, "member-2", ONE));
        assert!(copy(&stage, "member-1").is_none() && copy(&stage, "member-3").is_none());
        // It leaves with the copy of the job.
        stage.place(&policy(|it| it["clusters"] = json!({"names": ["member-1"]})));
        stage.until("it is gone from there", |it| copy(it, "member-2").is_none()).await;
    });
}

#[test]
fn ipj_6_a_job_whose_secret_is_missing_or_of_another_type_waits_and_says_so() {
    play_images(async |stage| {
        stage.place(&policy(|_| {}));
        pull(&stage, "web", 3, |_| {});
        stage.until("that is said", |it| said(it, "shop/registry does not exist")).await;
        let opaque = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry"}, "type": "Opaque", "data": {"a": ONE},
        });
        stage.world.write(HUB, Method::POST, SECRETS, &opaque).unwrap();
        stage.until("the type is said", |it| said(it, "is of type \\\"Opaque\\\"")).await;
        let events = all(&stage, HUB, &["events.events.k8s.io", "events"]);
        assert!(events.iter().any(|it| it.contains("PullSecretsNotBrought")), "{events:?}");
        assert!(MEMBERS.iter().all(|it| stage.read(it, JOB).is_none()));
        stage.world.write(HUB, Method::DELETE, &format!("{SECRETS}/registry"), &Value::Null).unwrap();
        keep(&stage, ONE);
        stage.pulled(ALL).await;
        assert_brought(&stage, ONE);
    });
}

#[test]
fn ipj_6_a_hub_without_the_right_says_what_grants_it() {
    play_images(async |stage| {
        keep(&stage, ONE);
        stage.place(&policy(|_| {}));
        let denied = 5;
        for _ in 0..denied {
            let is_read = |it: &sim::server::request::ApiRequest| {
                it.method == Method::GET && it.path.plural == "secrets" && it.path.name == "registry"
            };
            stage.world.link("hub", HUB).next(is_read, Fate::Refuse(403));
        }
        pull(&stage, "web", 3, |_| {});
        stage.until("that is said", |it| said(it, "pullSecrets.enabled=true of the hub's chart")).await;
        assert!(MEMBERS.iter().all(|it| stage.read(it, JOB).is_none()));
        let begun = stage.world.now();
        stage.pulled(ALL).await;
        let waited = stage.world.now().duration_since(begun).as_secs();
        assert!((60..400).contains(&waited), "it is asked for less and less often: {waited} s");
    });
}

#[test]
fn ipj_6_a_member_without_the_right_says_what_grants_it_and_downloads_nothing() {
    play_images(async |stage| {
        keep(&stage, ONE);
        stage.place(&policy(|_| {}));
        for _ in 0..3 {
            let is_made = |it: &sim::server::request::ApiRequest| {
                it.method == Method::POST && it.path.plural == "secrets" && it.path.namespace == "shop"
            };
            stage.world.link(&agent_of("member-2"), "member-2").next(is_made, Fate::Refuse(403));
        }
        pull(&stage, "web", 3, |_| {});
        stage
            .until("that is said", |it| {
                it.job_binding()["status"]["clusters"]
                    .to_string()
                    .contains("hub.pullSecrets=true of the member's chart")
            })
            .await;
        let job = stage.read("member-2", JOB).unwrap();
        assert_eq!((&job["spec"]["parallelism"], stage.pulling()[1]), (&json!(0), 0));
        stage.pulled(ALL).await;
        assert_brought(&stage, ONE);
    });
}

#[test]
fn ipj_6_a_secret_of_somebody_else_is_not_touched() {
    play_images(async |stage| {
        keep(&stage, ONE);
        let theirs = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name("warm", "registry")}, "data": {"a": TWO},
        });
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
        stage.world.write("member-2", Method::POST, "/api/v1/namespaces", &namespace).unwrap();
        stage.world.write("member-2", Method::POST, SECRETS, &theirs).unwrap();
        stage.place(&policy(|_| {}));
        pull(&stage, "web", 3, |_| {});
        stage.until("that is said", |it| it.job_binding()["status"]["summary"] == "Conflict").await;
        assert!(stage.read("member-2", JOB).is_none());
        let found = copy(&stage, "member-2").unwrap();
        assert_eq!(
            (&found["data"], &found["metadata"]["ownerReferences"]),
            (&json!({"a": TWO}), &Value::Null)
        );
        stage
            .world
            .write(
                "member-2",
                Method::DELETE,
                &format!("{SECRETS}/{}", name("warm", "registry")),
                &Value::Null,
            )
            .unwrap();
        stage.pulled(ALL).await;
        assert_brought(&stage, ONE);
    });
}

#[test]
fn ipj_6_a_changed_secret_reaches_members_and_one_that_is_deleted_takes_nothing_away() {
    play_images(async |stage| {
        keep(&stage, ONE);
        stage.place(&policy(|_| {}));
        pull(&stage, "web", 3, |it| it["completionPolicy"]["type"] = json!("Never"));
        stage.until("all are served", |it| it.job_status()["succeeded"] == ALL).await;
        stage.pass(120).await;
        keep(&stage, TWO);
        stage.until("it arrives", |it| MEMBERS.iter().all(|member| has(it, member, TWO))).await;
        assert_brought(&stage, TWO);
        stage.world.write(HUB, Method::DELETE, &format!("{SECRETS}/registry"), &Value::Null).unwrap();
        stage.pass(1_800).await;
        assert_brought(&stage, TWO);
    });
}

#[test]
fn ipj_6_and_ha_4_nobody_writes_anything_at_rest_whoever_restarts() {
    for kind in ["Never", "Always"] {
        play_images(async |stage| {
            keep(&stage, ONE);
            stage.place(&policy(|_| {}));
            pull(&stage, "web", 3, |it| it["completionPolicy"]["type"] = json!(kind));
            stage.until("all are served", |it| it.job_status()["succeeded"] == ALL).await;
            stage.pass(120).await;
            let before = (stage.versions(), versions(&stage));
            // Longer than it takes to look for a changed one.
            stage.pass(1_300).await;
            stage.hub.crash();
            stage.pass(300).await;
            assert_eq!((stage.versions(), versions(&stage)), before, "{kind}: the hub was restarted");
            stage.agents.values().for_each(Process::crash);
            stage.pass(300).await;
            let now: Vec<_> =
                versions(&stage).into_iter().filter(|it| !it.contains("\"fleet-agent\"")).collect();
            let before: Vec<_> = before.1.into_iter().filter(|it| !it.contains("\"fleet-agent\"")).collect();
            assert_eq!(now, before, "{kind}: the agents were restarted");
        });
    }
}

#[test]
fn ipj_6_and_ha_3_a_hub_killed_after_any_of_its_first_writes_ends_the_same() {
    for write in 1..=12 {
        play_images(async |stage| {
            keep(&stage, ONE);
            stage.place(&policy(|_| {}));
            stage.pass(5).await;
            stage.hub.crash_after_writes(write);
            pull(&stage, "web", 2, |_| {});
            stage.pulled(ALL).await;
            assert_eq!(stage.hub.starts(), 2, "write {write}");
            assert_brought(&stage, ONE);
            end(&stage).await;
        });
    }
}

#[test]
fn ipj_6_an_agent_killed_after_any_of_its_first_writes_ends_the_same_and_leaves_nothing_behind() {
    for write in 1..=10 {
        play_images(async |stage| {
            keep(&stage, ONE);
            stage.place(&policy(|_| {}));
            stage.pass(30).await;
            let agent = &stage.agents["member-2"];
            agent.crash_after_writes(write);
            pull(&stage, "web", 2, |_| {});
            stage.pulled(ALL).await;
            assert_eq!(agent.starts(), 2, "write {write}");
            assert_brought(&stage, ONE);
            end(&stage).await;
        });
    }
}

#[test]
fn ipj_6_a_job_that_somebody_deletes_in_a_member_comes_back_with_its_secret() {
    play_images(async |stage| {
        keep(&stage, ONE);
        stage.place(&policy(|_| {}));
        pull(&stage, "stuck", 3, |_| {});
        stage.until("all slots are used", |it| it.pulling().iter().sum::<u64>() == 3).await;
        let before = stage.read("member-1", JOB).unwrap()["metadata"]["uid"].clone();
        stage.world.write("member-1", Method::DELETE, JOB, &Value::Null).unwrap();
        stage
            .until("it is back", |it| {
                it.read("member-1", JOB)
                    .is_some_and(|it| it["metadata"]["uid"] != before && it["spec"]["parallelism"] == 1)
            })
            .await;
        stage.pass(120).await;
        assert_brought(&stage, ONE);
    });
}

#[test]
fn ipj_6_and_del_3_a_job_that_is_let_go_of_keeps_its_secret_without_our_marks() {
    play_images(async |stage| {
        keep(&stage, ONE);
        stage.place(&policy(|it| it["deletion"] = json!("Orphan")));
        pull(&stage, "web", 3, |_| {});
        stage.pulled(ALL).await;
        stage.world.write(HUB, Method::DELETE, JOB, &Value::Null).unwrap();
        stage.until("the hub has forgotten it", |it| it.job().is_null()).await;
        assert_brought(&stage, ONE);
        assert!(!MEMBERS.iter().any(|it| {
            copy(&stage, it).unwrap()["metadata"]["annotations"].to_string().contains("fleet.kruise.io")
        }));
    });
}

#[test]
fn ipj_6_jobs_of_a_list_have_the_secrets_of_the_list() {
    play_images(async |stage| {
        keep(&stage, ONE);
        let list = json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "ImageListPullJob",
            "metadata": {"name": "both", "namespace": "shop"},
            "spec": {
                "images": ["web:1", "api:1"], "parallelism": 1, "completionPolicy": {"type": "Always"},
                "pullSecrets": ["registry"],
            },
        });
        stage.place(&crate::kit::policy(|it| {
            it["targets"] = json!([{"kind": "ImageListPullJob", "labelSelector": {}}])
        }));
        let path = "/apis/apps.kruise.io/v1beta1/namespaces/shop/imagelistpulljobs";
        stage.world.write(HUB, Method::POST, path, &list).unwrap();
        stage
            .until("both are brought", |it| {
                MEMBERS.iter().all(|member| {
                    let secrets = all(it, member, &["secrets"]);
                    secrets
                        .iter()
                        .filter(|it| it.contains("\"shop\"") && it.contains("-pull-") && it.contains(ONE))
                        .count()
                        == 2
                })
            })
            .await;
    });
}

#[test]
fn rel_11_images_are_downloaded_ahead_with_the_secrets_of_the_template() {
    play_images(async |stage| {
        keep(&stage, ONE);
        let half = |spec: &mut Value| {
            spec["template"]["spec"]["imagePullSecrets"] = json!([{"name": "registry"}]);
            let strategy =
                json!({"imagePreDownloadParallelism": 2, "imagePreDownloadMinUpdatedReadyPods": 1});
            rolling(
                spec,
                json!({
                    "podUpdatePolicy": "InPlaceIfPossible", "partition": "50%", "maxUnavailable": 1,
                    "inPlaceUpdateStrategy": strategy,
                }),
            );
        };
        stage.place(&crate::kit::policy(|_| {}));
        stage.apply("v1", 15, half);
        stage.rests(15, 0).await;
        stage.apply("v2", 15, half);
        let jobs = |it: &Stage, cluster: &str| -> Vec<Value> {
            let jobs = all(it, cluster, &["imagepulljobs.apps.kruise.io"]);
            jobs.iter().map(|it| serde_json::from_str(it).unwrap()).collect()
        };
        stage
            .until("the downloads are over", |it| {
                jobs(it, HUB).iter().any(|it| it["status"]["completionTime"].is_string())
            })
            .await;
        let job = &jobs(&stage, HUB)[0];
        assert_eq!(
            (&job["spec"]["image"], &job["spec"]["pullSecrets"]),
            (&json!("v2"), &json!(["registry"]))
        );
        let name = name(job["metadata"]["name"].as_str().unwrap(), "registry");
        for member in MEMBERS {
            assert_eq!(jobs(&stage, member)[0]["spec"]["pullSecrets"], json!([name]), "{member}");
            let secret = stage.read(member, &format!("{SECRETS}/{name}")).unwrap();
            assert_eq!(secret["data"][".dockerconfigjson"], ONE, "{member}");
        }
        // They go with the release.
        stage.set_partition(json!(0));
        stage.rests(15, 15).await;
        stage
            .until("the Secrets are gone", |it| {
                MEMBERS.iter().all(|member| it.read(member, &format!("{SECRETS}/{name}")).is_none())
            })
            .await;
        assert!(stage.read(HUB, &format!("{FLEET}/namespaces/shop/fleetbindings/cloneset.web")).is_some());
    });
}
