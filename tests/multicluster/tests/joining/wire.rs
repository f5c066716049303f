//! Joining over the wire with the real programs: tokens, identities, rotation, revocation, and what an agent can reach.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use multicluster::{
    eventually,
    limits::{Limits, Pods},
};
use serde_json::{Value, json};

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

/// JOIN-4: certificates come and go under the links over which a release is steered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn join_4_certificates_are_exchanged_in_the_middle_of_releases_that_end_exact() -> Result<()> {
    let hub = Hub::start(&["--auto-approve=rot-*,env=test"]).await?;
    hub.forget_members()?;
    let mut members = Vec::new();
    for (place, name) in ROTATED {
        let mut member = Member::new(&hub, place, name).await?;
        member.give(&Token::create(&hub, name, 1, HOUR)?)?;
        member.start(&["--hub-renew-after=5s"]).await?;
        members.push(member);
    }
    for member in &members {
        member.ready(&hub).await?;
    }
    let namespace = hub.place(&ROTATED.map(|it| it.1), PODS).await?;
    hub.rests(&namespace, PODS).await?;
    let mut clusters = Vec::new();
    for ((place, _), member) in ROTATED.into_iter().zip(&members) {
        clusters.push((place, member.cluster.client().await?));
    }
    let pods = Pods { namespace, clusters };

    let in_steps = [(json!(5), 1), (json!("50%"), 3), (json!(0), PODS)];
    released(&hub, &members, &pods, "lab/web:2", &in_steps).await?;
    released(&hub, &members, &pods, "lab/web:3", &[(json!(0), PODS)]).await?;

    // One process and one key for all of it, and the hub refused nothing.
    for member in &mut members {
        assert!(member.kept("tls.key")?.context("a key is kept")?.contains("PRIVATE"));
        assert!(!member.log().contains("PRIVATE KEY") && !hub.log().contains("PRIVATE KEY"));
        let agent = member.agent.as_mut().context("it runs")?;
        assert!(agent.is_ready().await?);
        let metrics = agent.metrics().await?;
        let refused: Vec<_> = metrics.lines().filter(|it| it.contains("code=\"401\"")).collect();
        assert!(refused.is_empty(), "{refused:?}\n{}", member.log());
        let status = hub.get(&["memberclusters", &member.name])?["status"].clone();
        ensure!(status["state"] == "Ready", "{status}");
    }
    hub.close(&pods.namespace)
}

const PODS: usize = 6;

/// Where the members are that exchange their certificates, and what they are called.
const ROTATED: [(&str, &str); 3] = [("m1", "rot-1"), ("m2", "rot-2"), ("m3", "rot-3")];

/// Releases an image step by step: how far, and how many pods have it then. Never is more than one pod missing, or one too many of it.
async fn released(
    hub: &Hub,
    members: &[Member],
    pods: &Pods,
    image: &'static str,
    steps: &[(Value, usize)],
) -> Result<()> {
    let mut story = Story::begin(members, pods).await?;
    for (partition, new) in steps {
        let limits = Limits { available: PODS - 1, pods: PODS, of_image: Some((image, *new)) };
        let step = limits.hold_during(pods.clone(), async {
            hub.release(&pods.namespace, image, partition)?;
            story.step(hub, members, pods, *new).await
        });
        step.await.with_context(|| {
            let logs: Vec<String> = members.iter().map(Member::log).collect();
            format!("{}\n{}", hub.log(), logs.join("\n"))
        })?;
    }
    story.ends_well(pods, image).await
}

/// What is seen of a release, step by step.
struct Story {
    /// Certificates of each member, in the order of their appearance: serial number and first second.
    certificates: Vec<Vec<(String, i64)>>,
    /// How many of them appeared while pods were being replaced.
    in_the_middle: usize,
    /// The pods before the release.
    first: BTreeSet<String>,
    /// Every pod that there ever was.
    ever: BTreeSet<String>,
}

impl Story {
    async fn begin(members: &[Member], pods: &Pods) -> Result<Self> {
        let certificates =
            members.iter().map(|it| Ok(vec![it.certificate()?])).collect::<Result<Vec<_>>>()?;
        let first: BTreeSet<_> = pods.list().await?.into_iter().map(|it| it.uid).collect();
        Ok(Self { certificates, in_the_middle: 0, ever: first.clone(), first })
    }

    /// Waits until a step has come to rest with so many new pods, and every member has taken up another certificate meanwhile.
    async fn step(&mut self, hub: &Hub, members: &[Member], pods: &Pods, new: usize) -> Result<()> {
        let before: Vec<usize> = self.certificates.iter().map(Vec::len).collect();
        eventually("the step ends, and all certificates were exchanged", async || {
            self.ever.extend(pods.list().await?.into_iter().map(|it| it.uid));
            let is_over = hub.is_released(&pods.namespace, PODS, new)?;
            for (member, known) in members.iter().zip(&mut self.certificates) {
                let now = member.certificate()?;
                if known.last() != Some(&now) {
                    known.push(now);
                    self.in_the_middle += usize::from(!is_over);
                }
            }
            let all = self.certificates.iter().zip(&before).all(|(known, before)| known.len() > *before);
            Ok((is_over && all).then_some(()))
        })
        .await
    }

    /// Every pod was replaced once, nothing else happened to any, and certificates did change in the meantime.
    async fn ends_well(&self, pods: &Pods, image: &str) -> Result<()> {
        let after = pods.list().await?;
        assert_eq!(after.len(), PODS);
        for pod in &after {
            assert!(pod.image == image && pod.restarts == 0 && !self.first.contains(&pod.uid), "{pod:?}");
        }
        assert_eq!(self.ever.len(), 2 * PODS, "every pod was replaced once: {:?}", self.ever);
        for known in &self.certificates {
            let serials: BTreeSet<_> = known.iter().map(|it| &it.0).collect();
            assert!(serials.len() == known.len() && known.is_sorted_by_key(|it| it.1), "{known:?}");
        }
        eprintln!(
            "{} certificates in the middle of the release of {image}: {:?}",
            self.in_the_middle, self.certificates
        );
        assert!(
            self.in_the_middle >= self.certificates.len(),
            "certificates changed only while pods rested: {:?}",
            self.certificates
        );
        Ok(())
    }
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
    let namespace = hub.place(&["rev-1"], 3).await?;
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
