//! A hub that gives tokens instead of certificates (JOIN-4, JOIN-5, ADR 13), its part played by hand.

use std::time::Duration;

use jiff::SignedDuration;
use kruise_core::api::fleet::agent_token::AgentToken;
use serde_json::json;

use crate::{
    door::{Door, TOKEN},
    joining::{set_replicas, until_asked},
    kit::{HUB, MEMBER, Stage, plan, play_with, share},
};

/// The agent joins with a token, and the link works.
async fn join(stage: &Stage, door: &Door) -> AgentToken {
    until_asked(stage).await;
    door.book().may_read = true;
    let token = stage.approve_sealed(door);
    stage.until("it has joined", |it| it.kept("token").is_some()).await;
    stage.publish("v1");
    stage.assign(plan(1, "v1", share(3, 3)));
    stage.acknowledged(1).await;
    token
}

#[test]
fn join_4_a_cluster_joins_with_a_token_that_only_its_key_opens() {
    let door = Door::new("sealed", None);
    play_with(Some(door.clone()), async |stage| {
        let token = join(&stage, &door).await;
        assert_eq!((stage.kept("token"), stage.kept("tls.crt")), (Some(token.token.clone()), None));
        assert_eq!(stage.kept("token-expires"), Some(token.expires.to_string()));
        assert!(stage.has_event("Joined"));
        // SEC-3: neither cluster has it in anything but the Secret.
        for cluster in [HUB, MEMBER] {
            let events = stage.world.cluster(cluster).server().list("events");
            assert!(events.iter().all(|it| !it.value().to_string().contains(&token.token)));
        }
        // It is used again after a restart, and the bootstrap token is not.
        let token_uses = door.book().with_token.len();
        stage.agent.crash();
        stage.assign(plan(2, "v1", share(4, 4)));
        stage.acknowledged(2).await;
        assert_eq!((stage.agent.starts(), door.book().with_token.len()), (2, token_uses));
    });
}

#[test]
fn join_4_killed_after_any_write_it_goes_on_with_the_same_key() {
    // The key, the name of the request, the request, the JoinRequest, the token, the proof of it, the first heartbeat.
    for writes in 1..=7 {
        let door = Door::new(&format!("sealed-killed-{writes}"), None);
        play_with(Some(door.clone()), async |stage| {
            stage.agent.crash_after_writes(writes);
            join(&stage, &door).await;
            assert_eq!((stage.agent.starts(), stage.signing_requests().len()), (2, 1), "{writes}");
        });
    }
}

#[test]
fn join_4_a_token_is_renewed_under_the_running_link_while_the_object_is_scaled() {
    let door = Door::new("sealed-renewed", Some(Duration::from_secs(3_600)));
    play_with(Some(door.clone()), async |stage| {
        let first = join(&stage, &door).await;
        let asked = stage.signing_requests().len();
        stage.pass(3_000).await;
        stage.until("it asks for another", |it| it.signing_requests().len() == asked + 1).await;
        // What is sealed for others, or by nobody, is not taken.
        stage.offer_as("sealedCredential", "none");
        stage.pass(60).await;
        // One that the hub does not take stays unused: the old one is what there is.
        let (second, sealed) = stage.issued(&door);
        door.book().issued.remove(&second.token);
        stage.offer_as("sealedCredential", &sealed);
        stage.until("it was tried", |it| it.has_event("CredentialUnusable")).await;
        assert_eq!((stage.kept("token"), stage.kept("next-token")), (Some(first.token.clone()), None));
        stage.until("it asks again", |it| it.signing_requests().len() == asked + 2).await;
        stage.assign(plan(2, "v1", share(6, 6)));
        let (third, sealed) = stage.issued(&door);
        stage.offer_as("sealedCredential", &sealed);
        stage.until("it is taken up", |it| it.kept("token").as_ref() == Some(&third.token)).await;
        assert!(stage.has_event("CredentialRenewed"));
        // Now the old one can go: nobody uses it any more, and nothing was started anew.
        door.book().issued.remove(&first.token);
        stage.acknowledged(2).await;
        stage.until("they run", |it| it.images().len() == 6).await;
        stage.pass(120).await;
        assert_eq!(door.book().last.as_ref(), Some(&third.token));
        assert_eq!((stage.agent.starts(), &stage.told()["incarnation"]), (1, &json!(1)));
    });
}

#[test]
fn join_4_a_hub_may_change_from_certificates_to_tokens_and_back() {
    let door = Door::new("sealed-changed", Some(Duration::from_secs(3_600)));
    play_with(Some(door.clone()), async |stage| {
        until_asked(&stage).await;
        door.book().may_read = true;
        stage.approve(&door);
        stage.until("it has joined", |it| it.kept("tls.crt").is_some()).await;
        let asked = stage.signing_requests().len();
        stage.pass(3_000).await;
        stage.until("it asks for another", |it| it.signing_requests().len() > asked).await;
        let (token, sealed) = stage.issued(&door);
        stage.offer_as("sealedCredential", &sealed);
        stage.until("it has a token", |it| it.kept("token").as_ref() == Some(&token.token)).await;
        assert_eq!(stage.kept("tls.crt"), None);
        let asked = stage.signing_requests().len();
        stage.pass(3_000).await;
        stage.until("it asks for another", |it| it.signing_requests().len() > asked).await;
        let certificate = stage.signed(&door, &stage.kept("signing-request").unwrap());
        stage.offer_as("sealedCredential", "");
        stage.offer(&certificate);
        stage.until("it has a certificate", |it| it.kept("tls.crt").as_ref() == Some(&certificate)).await;
        assert_eq!((stage.kept("token"), stage.agent.starts()), (None, 1));
    });
}

#[test]
fn join_5_an_agent_whose_token_was_taken_back_applies_nothing_until_it_is_let_in_again() {
    let door = Door::new("sealed-revoked", None);
    play_with(Some(door.clone()), async |stage| {
        join(&stage, &door).await;
        stage.until("they run", |it| it.images().len() == 3).await;
        // It never sees that it is refused: the hub does not know it any more.
        let dead = std::mem::take(&mut door.book().issued);
        stage.until("it notices", |it| it.has_event("Revoked")).await;
        stage.assign(plan(2, "v1", share(5, 5)));
        set_replicas(&stage, 1);
        stage.until("controllers go on", |it| it.images().len() == 1).await;
        stage.pass(600).await;
        assert_eq!(stage.web().unwrap()["spec"]["replicas"], 1, "nothing is applied");
        stage.agent.crash();
        stage.pass(600).await;
        assert_eq!((stage.agent.starts(), &stage.web().unwrap()["spec"]["replicas"]), (2, &json!(1)));
        assert_eq!(stage.kept("revoked").as_deref(), Some("true"));
        // Accepted again, its request has another token, which the holder of the bootstrap token reads.
        door.hand_out(TOKEN);
        let token = stage.approve_sealed(&door);
        stage.acknowledged(2).await;
        assert_eq!(stage.web().unwrap()["spec"]["replicas"], 5);
        assert!(!dead.contains(&token.token) && stage.kept("token") == Some(token.token));
        stage.until("that is kept", |it| it.kept("revoked").is_none()).await;
    });
}

#[test]
fn proto_6_an_agent_whose_token_has_ended_goes_on_with_its_last_plan() {
    let door = Door::new("sealed-expired", None);
    play_with(Some(door.clone()), async |stage| {
        door.book().life = Some(SignedDuration::from_hours(1));
        let token = join(&stage, &door).await;
        stage.forget_request(&door);
        door.hand_out("");
        stage.world.link("agent", HUB).cut(sim::faults::Direction::BOTH);
        stage.pass(3_700).await;
        assert!(stage.world.now() > token.expires);
        door.book().issued.clear();
        stage.world.link("agent", HUB).heal();
        stage.until("it wants to join again", |it| it.has_event("TokenRejected")).await;
        set_replicas(&stage, 1);
        stage.until("it is put right", |it| it.web().unwrap()["spec"]["replicas"] == 3).await;
        assert!(!stage.has_event("Revoked"));
    });
}
