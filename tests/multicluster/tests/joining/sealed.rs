//! Agents that are known by sealed tokens, with the real programs on API servers that are not asked to sign anything.

use anyhow::{Context, Result, ensure};
use kube::{Client, api::Api, core::DynamicObject};
use multicluster::eventually;
use serde_json::Value;

use crate::{
    kit::Hub,
    members::{Member, Token},
};

const HOUR: i64 = 3_600;
const TOKENS: &str = "--agent-credentials=token";

/// How the hub answers whoever asks for its own MemberCluster.
async fn code(client: &Client, name: &str) -> Result<u16> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource());
    match api.get(name).await {
        Ok(_) => Ok(200),
        Err(kube::Error::Api(status)) => Ok(status.code),
        Err(other) => Err(other.into()),
    }
}

fn resource() -> kube::api::ApiResource {
    let kind = kube::api::GroupVersionKind::gvk("fleet.kruise.io", "v1alpha1", "MemberCluster");
    kube::api::ApiResource::from_gvk(&kind)
}

async fn joined(hub: &Hub, place: &str, name: &str, flags: &[&str]) -> Result<Member> {
    let mut member = Member::new(hub, place, name).await?;
    member.give(&Token::create(hub, name, 1, HOUR)?)?;
    member.start(flags).await?;
    member.ready(hub).await?;
    Ok(member)
}

/// JOIN-4: a share is steered over tokens that come and go under the link.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn join_4_a_token_opens_the_hub_and_is_exchanged_while_the_object_is_scaled() -> Result<()> {
    let hub = Hub::start(&["--auto-approve=seal-*", TOKENS]).await?;
    hub.forget_members()?;
    let mut member = joined(&hub, "m1", "seal-1", &["--hub-renew-after=5s"]).await?;
    let mut tokens = vec![member.kept("token")?.context("a token is kept")?];
    assert_eq!(member.kept("tls.crt")?, None);
    let namespace = hub.place(&["seal-1"], 2).await?;
    hub.rests(&namespace, 2).await?;
    for replicas in [4, 6, 3] {
        hub.scale(&namespace, replicas)?;
        let exchanged = eventually("another token is in use", async || {
            let now = member.kept("token")?.filter(|it| !tokens.contains(it));
            tokens.extend(now.clone());
            Ok(now.map(drop))
        });
        exchanged.await.with_context(|| format!("{}\n{}", hub.log(), member.log()))?;
        hub.rests(&namespace, replicas as usize).await?;
    }
    // The first one is good until it ends, nobody had to ask twice, and nothing was signed.
    assert_eq!(code(&hub.as_holder(&tokens[0]).await?, "seal-1").await?, 200);
    let agent = member.agent.as_mut().context("it runs")?;
    assert!(agent.is_ready().await?);
    let metrics = agent.metrics().await?;
    let refused: Vec<_> = metrics.lines().filter(|it| it.contains("code=\"401\"")).collect();
    assert!(refused.is_empty(), "{refused:?}\n{}", member.log());
    let account = "system:serviceaccount:fleet-seal-1:fleet-agent";
    let asked = hub.get(&["certificatesigningrequests"])?;
    let asked: Vec<&Value> = asked["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|it| it["spec"]["username"] == account)
        .collect();
    assert!(asked.len() >= 3, "{} requests", asked.len());
    assert!(asked.iter().all(|it| it["status"]["conditions"].is_null()), "nobody answers them");
    // SEC-3: what is sealed is in no log, event or metric.
    let events = hub.cluster.kubectl(&["get", "events", "--all-namespaces", "-o", "json"])?;
    let own_events = member.cluster.kubectl(&["get", "events", "--all-namespaces", "-o", "json"])?;
    let member_cluster = hub.get(&["memberclusters", "seal-1"])?.to_string();
    for text in [hub.log(), member.log(), metrics, events, own_events, member_cluster] {
        ensure!(!tokens.iter().any(|it| text.contains(it)), "SEC-3: a token is told");
        ensure!(!text.contains("PRIVATE KEY"), "SEC-3: a key is told");
    }
    eprintln!("{} tokens while the object was scaled", tokens.len());
    hub.close(&namespace)
}

/// JOIN-5: the token of a revoked cluster dies; what runs goes on, nothing is applied, and it comes back with another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn join_5_a_revoked_members_token_dies_and_it_comes_back_with_another() -> Result<()> {
    let hub = Hub::start(&["--auto-approve=seal-*", TOKENS]).await?;
    hub.forget_members()?;
    let member = joined(&hub, "m1", "seal-2", &[]).await?;
    let namespace = hub.place(&["seal-2"], 3).await?;
    hub.rests(&namespace, 3).await?;
    let token = member.kept("token")?.context("a token is kept")?;
    let holder = hub.as_holder(&token).await?;
    assert_eq!(code(&holder, "seal-2").await?, 200);

    hub.accept("seal-2", false)?;
    // First it is refused, and then not known any more.
    let mut seen = Vec::new();
    eventually("its token is dead", async || {
        let now = code(&holder, "seal-2").await?;
        if seen.last() != Some(&now) {
            seen.push(now);
        }
        Ok((now == 401).then_some(()))
    })
    .await
    .with_context(|| hub.log())?;
    eprintln!("answers to the holder of a token that was taken back: {seen:?}");
    assert!(
        seen.iter().all(|it| [200, 403, 401].contains(it)) && seen.is_sorted_by_key(|it| *it == 401),
        "{seen:?}"
    );
    member.says("the hub has taken the rights of this cluster away").await?;
    eventually("the hub says so", async || {
        Ok((hub.get(&["memberclusters", "seal-2"])?["status"]["state"] == "Revoked").then_some(()))
    })
    .await?;
    hub.scale(&namespace, 5)?;
    assert_eq!(member.web(&namespace)?["spec"]["replicas"], 3);

    hub.accept("seal-2", true)?;
    member.says("the hub has accepted this cluster again").await?;
    member.ready(&hub).await?;
    hub.rests(&namespace, 5).await?;
    assert_ne!(member.kept("token")?.context("a token is kept")?, token);
    assert_eq!(code(&holder, "seal-2").await?, 401, "nothing revives the old one");
    hub.close(&namespace)
}
