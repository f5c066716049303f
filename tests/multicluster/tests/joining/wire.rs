//! Joining over the wire with the real programs: tokens, identities, rotation, revocation, and what an agent can reach.

use anyhow::{Context, Result, ensure};
use multicluster::eventually;
use serde_json::json;

use crate::{
    kit::Hub,
    members::{Member, Token, ends},
};

const HOUR: i64 = 3_600;

/// JOIN-1: a token that is for others, has expired, or was used as often as it may be, lets nobody in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn join_1_a_token_is_for_its_names_for_its_time_and_for_its_uses() -> Result<()> {
    let hub = Hub::start(&["--auto-approve=tok-*"]).await?;
    hub.forget_members()?;
    let mut second = Member::new(&hub, "m2", "tok-2").await?;
    let once = Token::create(&hub, "tok-*", 1, HOUR)?;
    second.give(&once)?;
    second.start(&[]).await?;
    second.says("this cluster has joined the fleet as tok-2").await?;

    let mut first = Member::new(&hub, "m1", "tok-1").await?;
    first.give(&Token::create(&hub, "other-*", 1, HOUR)?)?;
    first.start(&[]).await?;
    first.says("the token is for other-*").await?;
    first.give(&once)?;
    first.says("the token is used up").await?;
    first.give(&Token::create(&hub, "tok-*", 1, -60)?)?;
    first.says("the hub does not know the bootstrap token").await?;
    let requests = hub.get(&["joinrequests"])?;
    let names: Vec<_> =
        requests["items"].as_array().into_iter().flatten().map(|it| it["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["tok-2"], "nobody else was let ask");

    let good = Token::create(&hub, "tok-1", 1, HOUR)?;
    first.give(&good)?;
    first.says("this cluster has joined the fleet as tok-1").await?;
    first.ready(&hub).await?;
    for (log, secret) in
        [(first.log(), good.whole()), (second.log(), once.whole()), (hub.log(), good.whole())]
    {
        assert!(!log.contains(&secret), "SEC-3: a token is in a log");
    }
    Ok(())
}

/// JOIN-2, JOIN-6: a person decides; a name or a cluster that is taken stays whose it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn join_6_neither_another_cluster_nor_another_key_takes_a_members_place() -> Result<()> {
    let hub = Hub::start(&[]).await?;
    hub.forget_members()?;
    let mut owner = Member::new(&hub, "m1", "mine").await?;
    owner.give(&Token::create(&hub, "mine", 1, HOUR)?)?;
    owner.start(&[]).await?;
    hub.answered("mine", "Pending", "ApprovalNeeded").await?;
    owner.says("the request to join as mine is pending").await?;
    hub.decide("mine", "Approve")?;
    owner.ready(&hub).await?;
    let before = hub.get(&["memberclusters", "mine"])?["spec"].clone();
    assert_eq!((&before["region"], &before["accepted"]), (&json!("eu"), &json!(true)));

    // The name, from another cluster. The answered request is gone after a day; here at once.
    hub.cluster.kubectl(&["delete", "joinrequests", "mine"])?;
    let mut thief = Member::new(&hub, "m2", "mine").await?;
    thief.give(&Token::create(&hub, "mine", 1, HOUR)?)?;
    thief.start(&[]).await?;
    hub.answered("mine", "Denied", "IdentityMismatch").await?;
    thief.says("the hub denied mine to join: IdentityMismatch").await?;
    assert_eq!(thief.kept("tls.crt")?, None);
    thief.agent = None;

    // The cluster, with another key.
    hub.cluster.kubectl(&["delete", "joinrequests", "mine"])?;
    let key = owner.kept("tls.key")?.context("a key is kept")?;
    owner.agent = None;
    owner.forget()?;
    owner.give(&Token::create(&hub, "mine", 1, HOUR)?)?;
    owner.start(&[]).await?;
    hub.answered("mine", "Denied", "IdentityMismatch").await?;
    owner.says("the hub denied mine to join: IdentityMismatch").await?;
    assert_ne!(owner.kept("tls.key")?.context("a key is kept")?, key);
    assert_eq!(hub.get(&["memberclusters", "mine"])?["spec"], before, "the member is as it was");
    Ok(())
}

/// JOIN-4: certificates come and go under a link that works.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn join_4_certificates_are_exchanged_while_a_template_is_released() -> Result<()> {
    let hub = Hub::start(&["--auto-approve=rot-*,env=test"]).await?;
    hub.forget_members()?;
    let mut member = Member::new(&hub, "m1", "rot-1").await?;
    member.give(&Token::create(&hub, "rot-1", 1, HOUR)?)?;
    member.start(&["--hub-renew-after=5s"]).await?;
    member.ready(&hub).await?;
    const PODS: u32 = 4;
    let namespace = hub.place("rot-1", PODS).await?;
    hub.rests(&namespace, PODS).await?;
    let mut during = 0;
    let mut seen = vec![member.kept("tls.crt")?.context("a certificate is kept")?];
    for release in 2..=4 {
        hub.release(&namespace, &format!("lab/web:{release}"))?;
        let other = eventually("another certificate is taken up", async || {
            Ok(member.kept("tls.crt")?.filter(|it| !seen.contains(it)))
        });
        seen.push(other.await.with_context(|| format!("{}\n{}", hub.log(), member.log()))?);
        during += u32::from(!hub.is_released(&namespace, PODS)?);
        eventually("the release ends", async || Ok(hub.is_released(&namespace, PODS)?.then_some(())))
            .await
            .with_context(|| format!("{}\n{}", hub.log(), member.log()))?;
    }
    // A release takes twelve seconds at least, and a certificate five.
    assert!(during > 0, "no certificate was exchanged while pods were updated");
    let key = member.kept("tls.key")?.context("a key is kept")?;
    assert!(seen.len() == 4 && key.contains("PRIVATE"));
    // One process and one key for all of it, and the hub refused nothing.
    let agent = member.agent.as_mut().context("it runs")?;
    assert!(agent.is_ready().await?);
    let metrics = agent.metrics().await?;
    let refused: Vec<_> = metrics.lines().filter(|it| it.contains("code=\"401\"")).collect();
    assert!(refused.is_empty(), "{refused:?}\n{}", member.log());
    assert!(!member.log().contains("PRIVATE KEY") && !hub.log().contains("PRIVATE KEY"));
    let status = hub.get(&["memberclusters", "rot-1"])?["status"].clone();
    ensure!(status["state"] == "Ready", "{status}");
    hub.close(&namespace)
}

/// JOIN-5: what runs goes on, nothing is applied or deleted, and all is well again when the cluster is accepted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn join_5_a_revoked_member_keeps_what_it_has_and_comes_back() -> Result<()> {
    let hub = Hub::start(&["--auto-approve=rev-*"]).await?;
    hub.forget_members()?;
    let mut member = Member::new(&hub, "m1", "rev-1").await?;
    member.give(&Token::create(&hub, "rev-1", 1, HOUR)?)?;
    member.start(&[]).await?;
    member.ready(&hub).await?;
    let namespace = hub.place("rev-1", 3).await?;
    hub.rests(&namespace, 3).await?;

    hub.accept("rev-1", false)?;
    member.says("the hub has taken the rights of this cluster away").await?;
    eventually("the hub says so", async || {
        Ok((hub.get(&["memberclusters", "rev-1"])?["status"]["state"] == "Revoked").then_some(()))
    })
    .await?;
    // Its own controllers work: somebody scales by hand, and nobody takes that back.
    let patch = json!({"spec": {"replicas": 2}}).to_string();
    let kind = "clonesets.v1beta1.apps.kruise.io";
    member.cluster.kubectl(&[
        "patch",
        kind,
        "web",
        "--namespace",
        &namespace,
        "--type=merge",
        "--patch",
        &patch,
    ])?;
    eventually("two pods are left", async || {
        Ok((member.web(&namespace)?["status"]["replicas"] == 2).then_some(()))
    })
    .await?;
    hub.scale(&namespace, 4)?;
    // A restart finds it as it was.
    member.start(&[]).await?;
    member.says("the hub has taken the rights of this cluster away").await?;
    assert_eq!(member.web(&namespace)?["spec"]["replicas"], 2);

    hub.accept("rev-1", true)?;
    member.says("the hub has accepted this cluster again").await?;
    member.ready(&hub).await?;
    hub.rests(&namespace, 4).await?;
    hub.close(&namespace)
}

/// SEC-3: another authority than the pinned one, and flags that contradict each other, end the agent at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_3_an_agent_does_not_talk_to_a_hub_that_is_not_the_pinned_one() -> Result<()> {
    let hub = Hub::start(&[]).await?;
    let member = Member::new(&hub, "m1", "pin-1").await?;
    let mut flags = member.flags();
    flags.retain(|it| !it.starts_with("--hub-ca-hash"));
    flags.push(format!("--hub-ca-hash=sha256:{}", "0".repeat(64)));
    let (is_fine, said) = ends(&member, &flags).await?;
    assert!(
        !is_fine && said.contains("--hub-ca-file is not the authority that --hub-ca-hash names"),
        "{said}"
    );
    assert_eq!(member.kept("tls.key")?, None, "nothing was made for such a hub");
    flags.push("--hub-kubeconfig=/nowhere".to_owned());
    let (is_fine, said) = ends(&member, &flags).await?;
    assert!(!is_fine && said.contains("--hub-server and --hub-kubeconfig exclude each other"), "{said}");
    Ok(())
}
