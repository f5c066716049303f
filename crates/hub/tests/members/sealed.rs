//! A hub whose API server signs nothing: tokens, sealed to the agents' keys (JOIN-4, JOIN-5, ADR 13).

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hub::members::account::{self, Credentials};
use kruise_core::api::fleet::agent_token::AgentToken;
use serde_json::{Value, json};

use crate::kit::{Cluster, HUB, Stage, play_by, text};

const ACCOUNT: &str = "/api/v1/namespaces/fleet-eu-1/serviceaccounts/fleet-agent";

/// What is sealed in a status, as only the cluster reads it.
fn opened(stage: &Stage, cluster: &Cluster, status: &Value) -> Option<AgentToken> {
    let sealed = text(&status["sealedCredential"]);
    let hub = text(&stage.read("/api/v1/namespaces/kube-system").unwrap()["metadata"]["uid"]);
    AgentToken::open(&cluster.key.serialize_pem(), cluster.name, &hub, &sealed).ok()
}

/// Whether the API server would take a token: the account that it is of is there.
fn is_good(stage: &Stage, token: &AgentToken) -> bool {
    let claims = token.token.split('.').nth(1).unwrap();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    assert_eq!(claims["sub"], account::user("eu-1"));
    let account = stage.read(ACCOUNT).unwrap_or_default();
    claims["kubernetes.io"]["serviceaccount"]["uid"] == account["metadata"]["uid"]
        && stage.world.now() < token.expires
}

/// Waits until the request has a good token.
async fn joined(stage: &Stage, cluster: &Cluster) -> AgentToken {
    let token = |it: &Stage| opened(it, cluster, &it.status(cluster.name)).filter(|token| is_good(it, token));
    stage
        .until("it has joined with a token", |it| {
            token(it).is_some() && it.bound(cluster.name) == vec![cluster.user(); 3]
        })
        .await;
    token(stage).unwrap()
}

fn member(stage: &Stage) -> Value {
    stage.member("eu-1").unwrap()["status"].clone()
}

fn asked(stage: &Stage) -> Cluster {
    stage.token("abcdef", "*", 1, 360_000);
    let cluster = Cluster::new("eu-1", "uid-1");
    stage.ask(&cluster, "abcdef");
    cluster
}

#[test]
fn join_4_a_cluster_joins_with_a_sealed_token_and_nothing_is_signed() {
    play_by(Credentials::Token, &["*"], async |stage| {
        let cluster = asked(&stage);
        let token = joined(&stage, &cluster).await;
        assert!(token.expires > stage.world.now() + jiff::SignedDuration::from_hours(23));
        assert_eq!(text(&member(&stage)["credentialExpiresAt"]), token.expires.to_string());
        stage.pass(60).await;
        assert_eq!(stage.said("fleet-agent-abcdef-eu-1"), (Vec::new(), false), "nobody approves anything");
        assert_eq!(joined(&stage, &cluster).await, token, "one is enough");
        let stranger = Cluster::new("eu-1", "uid-1");
        assert_eq!(opened(&stage, &stranger, &stage.status("eu-1")), None, "only the cluster reads it");
        // SEC-3: it is in nothing else that is stored.
        for kind in
            ["events", "joinrequests.fleet.kruise.io", "memberclusters.fleet.kruise.io", "serviceaccounts"]
        {
            for object in stage.world.cluster(HUB).server().list(kind) {
                assert!(!object.value().to_string().contains(&token.token), "{kind}");
            }
        }
        let writes = stage.hub.writes();
        stage.hub.crash();
        stage.pass(90).await;
        assert_eq!((stage.hub.starts(), stage.hub.writes()), (2, writes), "a restart at rest writes nothing");
    });
}

#[test]
fn join_4_an_agent_renews_its_token_as_itself_and_the_old_one_stays_good() {
    play_by(Credentials::Token, &["*"], async |stage| {
        let cluster = asked(&stage);
        let first = joined(&stage, &cluster).await;
        let mut last = first.clone();
        for round in 1..=3 {
            stage.pass(600).await;
            stage.sign(&format!("fleet-agent-r{round}"), &account::user("eu-1"), &cluster.pem());
            let next = |it: &Stage| opened(it, &cluster, &member(it)).filter(|it| *it != last);
            stage.until("a newer one is there", |it| next(it).is_some()).await;
            let new = next(&stage).unwrap();
            assert!(new.expires > last.expires && is_good(&stage, &new) && is_good(&stage, &first));
            last = new;
        }
        assert_eq!(text(&member(&stage)["credentialExpiresAt"]), last.expires.to_string());
        // Not with another key, and not for another cluster.
        let mut other = Cluster::new("eu-1", "uid-1");
        stage.sign("fleet-agent-z-key", &account::user("eu-1"), &other.pem());
        other.name = "eu-2";
        stage.sign("fleet-agent-z-name", &account::user("eu-1"), &other.pem());
        stage.sign("fleet-agent-z-user", &account::user("eu-2"), &cluster.pem());
        stage.pass(60).await;
        assert_eq!(opened(&stage, &cluster, &member(&stage)), Some(last));
    });
}

#[test]
fn join_5_a_revoked_clusters_token_dies_after_its_bindings_and_it_gets_another_one_back() {
    play_by(Credentials::Token, &["*"], async |stage| {
        let cluster = asked(&stage);
        let first = joined(&stage, &cluster).await;
        stage.change("memberclusters/eu-1", &json!({"spec": {"accepted": false}}));
        stage
            .until("it is said", |it| {
                let (is_bound, has_account) = (!it.bound("eu-1").is_empty(), it.read(ACCOUNT).is_some());
                assert!(has_account || !is_bound, "bindings go first");
                let is_said = text(&member(it)["state"]) == "Revoked";
                assert!(!is_said || !has_account, "said before it is so");
                is_said
            })
            .await;
        assert!(!is_good(&stage, &first));
        let sealed = stage.status("eu-1")["sealedCredential"].clone();
        stage.sign("fleet-agent-2", &account::user("eu-1"), &cluster.pem());
        stage.pass(60).await;
        assert!(
            stage.status("eu-1")["sealedCredential"] == sealed
                && member(&stage)["sealedCredential"].is_null()
        );
        stage.change("memberclusters/eu-1", &json!({"spec": {"accepted": true}}));
        let second = joined(&stage, &cluster).await;
        assert!(second != first && !is_good(&stage, &first));
    });
}

#[test]
fn join_6_a_name_that_is_given_anew_revives_no_token_of_who_had_it() {
    play_by(Credentials::Token, &["*"], async |stage| {
        let former = asked(&stage);
        let old = joined(&stage, &former).await;
        // While the hub is away, so that it finds the account of the former one.
        stage.hub.crash();
        stage.forget("joinrequests/eu-1");
        stage.forget("memberclusters/eu-1");
        stage.change("memberclusters/eu-1", &json!({"metadata": {"finalizers": null}}));
        stage.token("bbbbbb", "*", 1, 3_600);
        let heir = Cluster::new("eu-1", "uid-2");
        stage.ask(&heir, "bbbbbb");
        joined(&stage, &heir).await;
        assert!(!is_good(&stage, &old));
    });
}

#[test]
fn a_hub_that_changes_from_certificates_to_tokens_and_back_locks_nobody_out() {
    play_by(Credentials::Certificate, &["*"], async |stage| {
        let cluster = asked(&stage);
        stage.joined(&cluster).await;
        *stage.by.lock().unwrap() = Credentials::Token;
        stage.hub.crash();
        stage.until("there is an account", |it| it.read(ACCOUNT).is_some()).await;
        assert_eq!(
            stage.bound("eu-1"),
            vec![cluster.user(); 3],
            "whoever has a certificate keeps its rights"
        );
        stage.sign("fleet-agent-2", &cluster.user(), &cluster.pem());
        let token = |it: &Stage| opened(it, &cluster, &member(it));
        stage.until("its agent gets a token", |it| token(it).is_some_and(|token| is_good(it, &token))).await;
        assert!(member(&stage)["certificate"].is_null());
        *stage.by.lock().unwrap() = Credentials::Certificate;
        stage.hub.crash();
        stage.sign("fleet-agent-3", &account::user("eu-1"), &cluster.pem());
        stage.until("its agent gets a certificate", |it| member(it)["certificate"].is_string()).await;
        stage.until("as whom it is", |it| it.said("fleet-agent-3").0 == ["Approved"]).await;
        assert!(member(&stage)["sealedCredential"].is_null());
        assert!(stage.read(ACCOUNT).is_some(), "the token that it may still have is good");
    });
}
