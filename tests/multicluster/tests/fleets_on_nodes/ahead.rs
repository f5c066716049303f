//! Images that nodes have before the pods on them are updated.

use anyhow::{Context, Result, ensure};
use kruise_core::api::{image_pull_job::v1beta1::ImagePullJob, node_image::v1beta1::NodeImage};
use kube::{Api, Client, api::ListParams};
use multicluster::{duties::Daemons, eventually, stage::merged};
use serde_json::{Value, json};

use crate::kit::{Disturbs, Limits, Seen, Stage, among, rolling, web};

const OLD: &str = "nginx:1.14.2";
const NEW: &str = "nginx:1.15.1";

async fn jobs(client: &Client, stage: &Stage) -> Result<Vec<ImagePullJob>> {
    let api: Api<ImagePullJob> = Api::namespaced(client.clone(), &stage.namespace);
    Ok(api.list(&ListParams::default()).await?.items)
}

/// Six pods that take an image that is there as it is, and ask for new ones ahead.
fn app(image: &str, partition: Value) -> Value {
    let spec = rolling(json!({
        "podUpdatePolicy": "InPlaceOnly", "maxUnavailable": 2, "partition": partition,
        "inPlaceUpdateStrategy": {"imagePreDownloadParallelism": 2},
    }));
    let container = json!({"name": "web", "image": image, "imagePullPolicy": "IfNotPresent"});
    let template = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
    merged(&web(6, image, spec), &template)
}

/// Nodes of a member whose daemons say that the new image is there.
async fn nodes_with_it(client: &Client) -> Result<usize> {
    let (repository, tag) = NEW.split_once(':').context("an image has a tag")?;
    let has_it = |it: &NodeImage| {
        let images = it.status.iter().flat_map(|it| &it.image_statuses);
        let mut tags = images.filter(|it| it.0.ends_with(repository)).flat_map(|it| &it.1.tags);
        tags.any(|it| it.tag == tag && it.phase == "Succeeded")
    };
    let all = Api::<NodeImage>::all(client.clone()).list(&ListParams::default()).await?;
    Ok(all.iter().filter(|it| has_it(it)).count())
}

/// What the kubelets of a member say about getting the new image for containers.
fn pulls(stage: &Stage, member: &str) -> Result<Vec<String>> {
    let line = r#"jsonpath={range .items[*]}{.reason} {.message}{"\n"}{end}"#;
    let cluster = &stage.fleet.member(member).cluster;
    let said = cluster.kubectl(&["--namespace", &stage.namespace, "get", "events", "-o", line])?;
    Ok(said.lines().filter(|it| it.starts_with("Pull") && it.contains(NEW)).map(str::to_owned).collect())
}

fn new_pods(pods: &[Seen], member: &str) -> usize {
    pods.iter().filter(|it| it.cluster == member && it.image == NEW).count()
}

#[test]
fn rel_11_nodes_have_the_new_image_before_their_pods_are_updated() -> Result<()> {
    among(&["m1", "m2"], Disturbs::Nothing, async |stage| {
        let member = |name: &str| stage.fleet.member(name);
        let mut daemons = Vec::new();
        for name in ["m1", "m2"] {
            let started = Daemons::start(&member(name).cluster, stage.fleet.logs()).await?;
            ensure!(started.places.len() == 1, "{name} has {} real nodes", started.places.len());
            daemons.push(started);
        }
        stage.apply(&app(OLD, json!(0)))?;
        let before = stage.rests(6, OLD, 6).await?;

        // One pod of the fleet: the other member has no reason of its own to know the image.
        let one = Limits { available: 4, pods: 6, of_image: Some((NEW, 1)) };
        let part = one.hold_during(stage, async {
            stage.apply(&app(NEW, json!("90%")))?;
            eventually("both nodes have the image", async || {
                let (first, second) =
                    (nodes_with_it(&member("m1").client).await?, nodes_with_it(&member("m2").client).await?);
                Ok(((first, second) == (1, 1)).then_some(()))
            })
            .await?;
            let made = jobs(&stage.fleet.client, stage).await?;
            ensure!(made.len() == 1 && made[0].spec.image == NEW, "{made:?}");
            stage.rests(6, NEW, 1).await
        });
        let part = part.await?;
        let other = if new_pods(&part, "m1") == 0 { "m1" } else { "m2" };
        assert_eq!((new_pods(&part, other), pulls(stage, other)?), (0, Vec::new()), "only the job was there");
        for name in ["m1", "m2"] {
            let copies = jobs(&member(name).client, stage).await?;
            ensure!(copies.len() == 1, "the hub's alone, none of the member's own: {copies:?}");
        }

        let all = Limits { available: 4, pods: 6, of_image: None };
        let rolled = all.hold_during(stage, async {
            stage.apply(&app(NEW, json!(0)))?;
            stage.rests(6, NEW, 6).await
        });
        let after = rolled.await?;
        let lives = |pods: &[Seen]| pods.iter().map(|it| it.uid.clone()).collect::<Vec<_>>();
        assert_eq!(lives(&after), lives(&before));
        assert!(after.iter().all(|it| it.restarts == 1), "{after:?}");
        eventually("the kubelet has told where it had the image from", async || {
            let said = pulls(stage, other)?;
            let is_there = said.iter().all(|it| it.contains("already present on machine"));
            ensure!(is_there, "nothing was downloaded for an update: {said:?}");
            Ok((!said.is_empty()).then_some(()))
        })
        .await?;
        eventually("the jobs are gone", async || {
            let mut left = jobs(&stage.fleet.client, stage).await?.len();
            for name in ["m1", "m2"] {
                left += jobs(&member(name).client, stage).await?.len();
            }
            Ok((left == 0).then_some(()))
        })
        .await
    })
}
