//! Joining over the wire, and staying known (JOIN-1 to 7), with the hub's part played by hand.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::{
    door::{Door, TOKEN},
    kit::{HUB, MEMBER, OWN, Stage, WEB, plan, play_with, share},
};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/fleet-member-1/leases/agent";

pub(crate) async fn until_asked(stage: &Stage) {
    stage.until("it asks to join", |it| it.asked().is_some()).await;
}

/// The agent joins, and the link works.
async fn join(stage: &Stage, door: &Door) {
    until_asked(stage).await;
    door.book().may_read = true;
    stage.approve(door);
    stage.until("it has joined", |it| it.kept("tls.crt").is_some()).await;
    stage.publish("v1");
    stage.assign(plan(1, "v1", share(3, 3)));
    stage.acknowledged(1).await;
}

pub(crate) fn set_replicas(stage: &Stage, replicas: u64) {
    let mut web = stage.web().unwrap();
    web["spec"]["replicas"] = json!(replicas);
    stage.world.write(MEMBER, Method::PUT, WEB, &web).unwrap();
}

#[test]
fn join_2_a_cluster_asks_waits_and_only_then_is_linked() {
    let door = Door::new("asks", None);
    play_with(Some(door.clone()), async |stage| {
        until_asked(&stage).await;
        let asked = stage.asked().unwrap();
        let key = stage.kept("tls.key").expect("the key was kept before anything was sent");
        assert!(key.contains("PRIVATE KEY") && !asked.to_string().contains("PRIVATE KEY"));
        assert_eq!(stage.signing_requests(), [asked["spec"]["signingRequest"].as_str().unwrap()]);
        assert!(asked["spec"]["signingRequest"].as_str().unwrap().starts_with("fleet-agent-"));
        let own = stage.read(MEMBER, "/api/v1/namespaces/kube-system").unwrap();
        assert_eq!(asked["spec"]["clusterUid"], own["metadata"]["uid"]);
        assert_eq!(asked["spec"]["region"], "eu");
        door.book().may_read = true;
        stage.answer(json!({"decision": "Pending", "reason": "ApprovalNeeded", "message": "waits"}));
        stage.until("it is told that it waits", |it| it.has_event("JoinPending")).await;
        stage.pass(600).await;
        assert_eq!(stage.kept("tls.crt"), None);
        assert!(
            stage.read(HUB, LEASE).unwrap()["spec"]["holderIdentity"].is_null(),
            "no link without a credential"
        );
        assert_eq!(stage.signing_requests().len(), 1, "waiting makes no second one");
        join(&stage, &door).await;
        assert!(stage.has_event("Joined"));
        assert_eq!(stage.kept("hub-uid").as_deref(), Some("the-hub"));
        let token_uses = door.book().with_token.len();
        stage.pass(300).await;
        assert_eq!(door.book().with_token.len(), token_uses, "whoever has joined needs no token");
        assert_eq!(stage.kept("signing-request"), None);
    });
}

#[test]
fn join_2_killed_after_any_write_it_goes_on_with_the_same_key_and_request() {
    // The key, the name of the request, the request, the JoinRequest, the certificate, the proof of it, the first heartbeat.
    for writes in 1..=7 {
        let door = Door::new(&format!("killed-{writes}"), None);
        play_with(Some(door.clone()), async |stage| {
            stage.agent.crash_after_writes(writes);
            join(&stage, &door).await;
            assert_eq!(stage.agent.starts(), 2, "{writes}");
            assert_eq!(stage.signing_requests().len(), 1, "{writes}");
            let asked = stage.asked().unwrap();
            assert_eq!(asked["spec"]["signingRequest"], stage.signing_requests()[0].as_str(), "{writes}");
        });
    }
}

#[test]
fn join_2_whoever_was_denied_asks_again_only_when_the_request_is_gone() {
    let door = Door::new("denied", None);
    play_with(Some(door.clone()), async |stage| {
        until_asked(&stage).await;
        let first = stage.asked().unwrap();
        door.book().may_read = true;
        stage.answer(
            json!({"decision": "Denied", "reason": "IdentityMismatch", "message": "another cluster"}),
        );
        stage.until("it is told why", |it| it.has_event("JoinDenied")).await;
        stage.pass(600).await;
        assert_eq!(stage.asked().unwrap()["metadata"]["uid"], first["metadata"]["uid"]);
        stage.forget_request(&door);
        until_asked(&stage).await;
        let second = stage.asked().unwrap();
        assert_eq!(second["spec"]["publicKey"], first["spec"]["publicKey"]);
        assert_ne!(second["spec"]["signingRequest"], first["spec"]["signingRequest"]);
        join(&stage, &door).await;
    });
}

#[test]
fn join_1_a_token_that_nobody_knows_is_told_and_another_one_is_taken_from_the_file() {
    let door = Door::new("token", None);
    door.hand_out("aaaaaa.0123456789abcdef");
    play_with(Some(door.clone()), async |stage| {
        stage.until("it is told", |it| it.has_event("TokenRejected")).await;
        assert_eq!(stage.asked(), None);
        door.hand_out(TOKEN);
        join(&stage, &door).await;
        let events = stage.world.cluster(MEMBER).server().list("events");
        let all: String = events.iter().map(|it| it.value().to_string()).collect();
        assert!(!all.contains("0123456789abcdef"), "SEC-3: {all}");
    });
}

#[test]
fn join_4_a_certificate_is_renewed_under_the_running_link() {
    let door = Door::new("renewed", Some(Duration::from_secs(3_600)));
    play_with(Some(door.clone()), async |stage| {
        join(&stage, &door).await;
        let (first, asked) = (stage.kept("tls.crt").unwrap(), stage.signing_requests().len());
        stage.pass(3_000).await;
        assert_eq!(stage.signing_requests().len(), asked);
        stage.until("it asks for another", |it| it.signing_requests().len() == asked + 1).await;
        // Certificates of others, or none at all, are not taken.
        stage.offer("none");
        stage.pass(60).await;
        assert_eq!(stage.kept("tls.crt"), Some(first.clone()));
        let name = stage.kept("signing-request").unwrap();
        assert!(stage.signing_requests().contains(&name));
        let second = stage.signed(&door, &name);
        // One that the hub does not take stays unused: the old one is what there is.
        door.book().certificates.remove(&second);
        stage.offer(&second);
        stage.until("it was tried", |it| it.has_event("CredentialUnusable")).await;
        assert_eq!((stage.kept("tls.crt"), stage.kept("next.crt")), (Some(first.clone()), None));
        let name = |it: &Stage| it.kept("signing-request").filter(|it| *it != name);
        let is_sent = |it: &Stage| name(it).is_some_and(|name| it.signing_requests().contains(&name));
        stage.until("it asks again", is_sent).await;
        let third = stage.signed(&door, &name(&stage).unwrap());
        stage.offer(&third);
        stage.until("it is taken up", |it| it.kept("tls.crt").as_ref() == Some(&third)).await;
        assert!(stage.has_event("CredentialRenewed"));
        // Now the old one can go: nobody uses it any more, and nothing was started anew.
        door.book().certificates.remove(&first);
        stage.pass(120).await;
        assert_eq!(door.book().last.as_ref(), Some(&third));
        stage.assign(plan(2, "v1", share(4, 4)));
        stage.acknowledged(2).await;
        assert_eq!((stage.agent.starts(), &stage.told()["incarnation"]), (1, &json!(1)));
    });
}

#[test]
fn expired_while_offline_it_joins_again_with_the_same_key() {
    let door = Door::new("expired", None);
    play_with(Some(door.clone()), async |stage| {
        join(&stage, &door).await;
        let first = stage.asked().unwrap();
        stage.forget_request(&door);
        door.hand_out("");
        door.book().certificates.clear();
        stage.until("it is told", |it| it.has_event("CredentialExpired")).await;
        // Without a token it waits; the last plan stands meanwhile (PROTO-6).
        set_replicas(&stage, 1);
        stage.until("it is put right", |it| it.web().unwrap()["spec"]["replicas"] == 3).await;
        assert_eq!(stage.asked(), None);
        door.hand_out(TOKEN);
        until_asked(&stage).await;
        assert_eq!(stage.asked().unwrap()["spec"]["publicKey"], first["spec"]["publicKey"]);
        door.book().may_read = true;
        stage.approve(&door);
        stage.assign(plan(2, "v1", share(4, 4)));
        stage.acknowledged(2).await;
        assert_eq!(stage.agent.starts(), 1);
    });
}

#[test]
fn join_5_a_revoked_agent_applies_and_deletes_nothing_until_it_is_accepted_again() {
    let door = Door::new("revoked", None);
    play_with(Some(door.clone()), async |stage| {
        join(&stage, &door).await;
        stage.until("they run", |it| it.images().len() == 3).await;
        door.book().is_revoked = true;
        stage.until("it notices", |it| it.has_event("Revoked")).await;
        stage.assign(plan(2, "v1", share(5, 5)));
        set_replicas(&stage, 1);
        stage.until("controllers go on", |it| it.images().len() == 1).await;
        stage.pass(600).await;
        assert_eq!(stage.web().unwrap()["spec"]["replicas"], 1, "nothing is applied");
        // Nor by an agent that is started anew.
        stage.agent.crash();
        stage.pass(600).await;
        assert_eq!((stage.agent.starts(), &stage.web().unwrap()["spec"]["replicas"]), (2, &json!(1)));
        assert_eq!(stage.kept("revoked").as_deref(), Some("true"));
        // Nor when its certificate ends, which nobody renews.
        let known = std::mem::take(&mut door.book().certificates);
        stage.pass(600).await;
        assert_eq!(stage.web().unwrap()["spec"]["replicas"], 1);
        door.book().certificates = known;
        door.book().is_revoked = false;
        stage.acknowledged(2).await;
        assert_eq!(stage.web().unwrap()["spec"]["replicas"], 5);
        assert!(stage.has_event("Accepted"));
        stage.until("that is kept", |it| it.kept("revoked").is_none()).await;
    });
}

#[test]
fn proto_6_a_member_that_starts_without_its_hub_is_linked_at_once() {
    let door = Door::new("away", None);
    play_with(Some(door.clone()), async |stage| {
        join(&stage, &door).await;
        stage.world.link("agent", HUB).cut(sim::faults::Direction::BOTH);
        stage.agent.crash();
        stage.pass(60).await;
        set_replicas(&stage, 1);
        stage.until("the kept plan stands", |it| it.web().unwrap()["spec"]["replicas"] == 3).await;
        assert_eq!(stage.agent.starts(), 2);
    });
}

#[test]
fn a_credential_that_cannot_be_read_is_left_alone() {
    let door = Door::new("unreadable", None);
    play_with(Some(door.clone()), async |stage| {
        until_asked(&stage).await;
        let path = format!("/api/v1/namespaces/{OWN}/secrets/fleet-hub-credential");
        let mut secret = stage.read(MEMBER, &path).unwrap();
        secret["data"]["tls.key"] = Value::String("bm9uZQ==".into());
        stage.world.write(MEMBER, Method::PUT, &path, &secret).unwrap();
        stage.until("it is told", |it| it.has_event("CredentialUnusable")).await;
        stage.pass(600).await;
        assert_eq!(
            stage.kept("tls.key").as_deref(),
            Some("none"),
            "nobody but a person decides what becomes of it"
        );
    });
}
