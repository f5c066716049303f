//! Two replicas of an agent: one leads, both answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kruise_core::runtime::clock::Clock;
use kube::Api;
use multicluster::{
    Cluster,
    agent::{Agent, agent},
    balancer::Balancer,
    cluster, eventually,
};
use tokio::task::JoinHandle;

use crate::{condition, create, is_ours, ordered_pod};

/// The lease time of the leader, plus one retry.
const TAKEOVER: Duration = Duration::from_secs(17);

/// Asks for admission again and again.
struct Asking {
    enough: Arc<AtomicBool>,
    task: JoinHandle<Result<Answers>>,
}

#[derive(Debug, Default)]
struct Answers {
    good: usize,
    /// Requests that failed, and failed again when they were sent once more.
    lost: Vec<String>,
    /// Requests that worked the second time.
    retried: usize,
}

impl Asking {
    fn start(cluster: Cluster, namespace: String) -> Self {
        let enough = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&enough);
        let task = tokio::spawn(async move {
            let mut answers = Answers::default();
            while !until.load(Ordering::Relaxed) {
                match ask(&cluster, &namespace).await {
                    Ok(()) => answers.good += 1,
                    Err(_) => match ask(&cluster, &namespace).await {
                        Ok(()) => answers.retried += 1,
                        Err(error) => answers.lost.push(format!("{error:#}")),
                    },
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok(answers)
        });
        Self { enough, task }
    }

    async fn end(self) -> Result<Answers> {
        self.enough.store(true, Ordering::Relaxed);
        self.task.await?
    }
}

async fn ask(cluster: &Cluster, namespace: &str) -> Result<()> {
    let pod = create(cluster, namespace, &ordered_pod("rehearsal"), true).await?;
    is_ours(&pod).then_some(()).context("the pod was let in without us")
}

async fn start(cluster: &Cluster, balancer: &Balancer, is_replica: bool) -> Result<Agent> {
    let builder = agent(cluster)
        .flag("--feature-gates=KruisePodReadinessGate=true")
        .variable("WEBHOOK_HOST", balancer.address.to_string());
    let started = if is_replica { builder.replica().start().await? } else { builder.start().await? };
    balancer.add(started.webhooks()?);
    Ok(started)
}

// Calls of kubectl block their thread; the balancer of this test needs another.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_killed_leader_is_replaced_while_admission_goes_on() -> Result<()> {
    let cluster = cluster("m2");
    let balancer = Balancer::open().await?;
    let mut first = start(&cluster, &balancer, false).await?;
    eventually("the first one leads", async || Ok(first.is_leader().await?.then_some(()))).await?;
    let mut second = start(&cluster, &balancer, true).await?;
    assert!(!second.is_leader().await?);
    let namespace = cluster.namespace("replicas").await?;
    eventually("pods are admitted", async || ask(&cluster, &namespace).await.map(Some)).await?;

    let asking = Asking::start(cluster.clone(), namespace.clone());
    assert!(first.is_ready().await? && second.is_ready().await?, "both answer");
    let clock = Clock::system();
    let killed = clock.instant();
    first.kill().await?;
    let mut unready = 0;
    eventually("the second one leads", async || {
        unready += usize::from(!second.is_ready().await?);
        Ok(second.is_leader().await?.then_some(()))
    })
    .await?;
    let took = clock.since(killed);

    create(&cluster, &namespace, &ordered_pod("web"), false).await?;
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, &namespace);
    eventually("the new leader opens readiness gates", async || {
        Ok((condition(&pods.get("web").await?, "KruisePodReady") == Some("True")).then_some(()))
    })
    .await?;
    let answers = asking.end().await?;
    println!("taken over after {took:?}; {} answers, {} at the second try", answers.good, answers.retried);
    assert_eq!(answers.lost, Vec::<String>::new());
    assert!(answers.good > 10, "{answers:?}");
    assert_eq!(unready, 0, "the second one stayed ready");
    // The exact bound is tested on a clock of our own; here machines may be slow.
    assert!(took < 3 * TAKEOVER, "taken over only after {took:?}");

    assert!(second.terminate().await?.success(), "{}", second.log());
    assert!(!second.log().contains("\"level\":\"ERROR\""), "{}", second.log());
    cluster.forget(&namespace).await
}
