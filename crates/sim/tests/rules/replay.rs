//! A run is a function of its seed.

use std::{process::Command, sync::Arc};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
    runtime::{Controller, controller::Action, watcher},
};
use serde_json::json;
use sim::{faults::Weather, fleet};

use crate::kit::*;

async fn touch(pod: Arc<Pod>, client: Arc<kube::Client>) -> Result<Action, kube::Error> {
    let ready = pod.status.as_ref().and_then(|it| it.phase.clone()).unwrap_or_default();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"seen": ready}}}));
    pods(&client).patch(&pod.name_any(), &PatchParams::default(), &patch).await?;
    Ok(Action::await_change())
}

/// An hour with two clusters, kubelets, a controller that handles many pods at once, crashes and bad weather.
fn hour(seed: u64) -> (Vec<String>, (u64, u64)) {
    fleet().members(2).nodes(3).weather(Weather::rough()).seed(seed).run(async |world| {
        for member in ["member-1", "member-2"] {
            for index in 0..12 {
                world.create_pod(member, &format!("p{index}"), "nginx:1");
            }
            let process = world.process(member, move |context| async move {
                let client = context.client(member);
                Controller::new(pods(&client), watcher::Config::default().timeout(60))
                    .run(touch, |_, _, _| Action::requeue(secs(10)), Arc::new(client))
                    .for_each(|_| std::future::ready(()))
                    .await;
            });
            process.crash_after_writes(9);
        }
        world.pass(secs(60)).await;
        world.lose_node("member-1", "node-2");
        world.pass(secs(3_600)).await;
        (world.log().last(usize::MAX), world.log().fingerprint())
    })
}

#[test]
fn two_runs_of_one_seed_have_the_same_log() {
    // Each thread has hash maps of its own order.
    let (one, two) = (std::thread::spawn(|| hour(11)), std::thread::spawn(|| hour(11)));
    let (one, two) = (one.join().unwrap(), two.join().unwrap());
    for (index, (left, right)) in one.0.iter().zip(&two.0).enumerate() {
        assert_eq!(left, right, "line {index}");
    }
    assert_eq!(one.1, two.1);
    assert!(one.0.len() > 200, "a log of {} lines shows little", one.0.len());
    assert_ne!(hour(12).1, one.1, "another seed is another run");
}

const CHILD: &str = "SIM_REPLAY_CHILD";

#[test]
fn two_processes_with_one_seed_have_the_same_log() {
    if std::env::var_os(CHILD).is_some() {
        let (count, digest) = hour(13).1;
        println!("fingerprint {count} {digest:016x}");
        return;
    }
    let child = || {
        let name = "replay::two_processes_with_one_seed_have_the_same_log";
        let binary = std::env::current_exe().unwrap();
        let output =
            Command::new(binary).args([name, "--exact", "--nocapture"]).env(CHILD, "1").output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().find(|it| it.contains("fingerprint")).unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    assert_eq!(child(), child());
}
