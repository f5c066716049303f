//! Rights that are withdrawn and given back, and certificates that are renewed (JOIN-4, JOIN-5).

use serde_json::json;

use crate::kit::{Cluster, HUB, play, text};

#[test]
fn join_5_a_revoked_cluster_loses_its_rights_first_and_gets_them_back() {
    play(&["*"], async |stage| {
        stage.token("abcdef", "*", 2, 36_000);
        let cluster = Cluster::new("eu-1", "uid-1");
        stage.ask(&cluster, "abcdef");
        stage.joined(&cluster).await;
        stage.change("memberclusters/eu-1", &json!({"spec": {"accepted": false}}));
        let state = |it: &crate::kit::Stage| text(&it.member("eu-1").unwrap()["status"]["state"]);
        stage
            .until("it is said", |it| {
                let is_said = state(it) == "Revoked";
                assert!(!is_said || it.bound("eu-1").is_empty(), "said before it is so");
                is_said
            })
            .await;
        assert!(stage.events("MemberCluster").contains(&"Revoked".to_owned()));
        stage.sign("fleet-agent-2", &cluster.user(), &cluster.pem());
        stage.until("nothing is signed", |it| it.said("fleet-agent-2").0 == ["Denied"]).await;
        // Asking again does not help.
        stage.forget("joinrequests/eu-1");
        stage.token("bbbbbb", "*", 1, 3_600);
        stage.ask(&cluster, "bbbbbb");
        stage.answered("eu-1", "Denied Revoked").await;
        stage.change("memberclusters/eu-1", &json!({"spec": {"accepted": true}}));
        stage.until("it has its rights again", |it| it.bound("eu-1") == vec![cluster.user(); 3]).await;
        stage.until("that is said", |it| state(it) != "Revoked").await;
    });
}

#[test]
fn join_4_an_agent_renews_as_itself_and_finds_the_certificate_in_its_member() {
    play(&["*"], async |stage| {
        stage.token("abcdef", "*", 1, 3_600);
        let cluster = Cluster::new("eu-1", "uid-1");
        stage.ask(&cluster, "abcdef");
        stage.joined(&cluster).await;
        let status = |it: &crate::kit::Stage| it.member("eu-1").unwrap()["status"].clone();
        let mut last = (String::new(), text(&status(&stage)["credentialExpiresAt"]));
        for round in 1..=3 {
            stage.pass(600).await;
            stage.sign(&format!("fleet-agent-r{round}"), &cluster.user(), &cluster.pem());
            stage.until("a newer one is there", |it| text(&status(it)["certificate"]) != last.0).await;
            let now = status(&stage);
            let next = (text(&now["certificate"]), text(&now["credentialExpiresAt"]));
            assert!(next.1 > last.1, "{} after {}", next.1, last.1);
            last = next;
        }
        assert!(stage.status("eu-1")["certificate"] != json!(last.0), "the first one stays in the request");
        // Not with another key, and not for another cluster.
        let mut other = Cluster::new("eu-1", "uid-1");
        stage.sign("fleet-agent-key", &cluster.user(), &other.pem());
        other.name = "eu-2";
        stage.sign("fleet-agent-name", &cluster.user(), &other.pem());
        for name in ["fleet-agent-key", "fleet-agent-name"] {
            stage.until("it is refused", |it| it.said(name).0 == ["Denied"]).await;
        }
        stage.pass(30).await;
        assert_eq!(text(&status(&stage)["certificate"]), last.0);
    });
}

#[test]
fn a_hub_that_restarts_at_rest_writes_nothing() {
    play(&["*"], async |stage| {
        stage.token("abcdef", "*", 1, 3_600);
        let cluster = Cluster::new("eu-1", "uid-1");
        stage.ask(&cluster, "abcdef");
        stage.joined(&cluster).await;
        stage.pass(90).await;
        let writes = stage.hub.writes();
        stage.hub.crash();
        stage.pass(90).await;
        assert_eq!((stage.hub.starts(), stage.hub.writes()), (2, writes));
    });
}

#[test]
fn join_6_a_member_that_cannot_be_read_keeps_its_rights() {
    play(&["*"], async |stage| {
        stage.token("abcdef", "*", 1, 3_600);
        let cluster = Cluster::new("eu-1", "uid-1");
        stage.ask(&cluster, "abcdef");
        stage.joined(&cluster).await;
        // An agent may write its own status, and the schema lets nothing through that cannot be read; an older one did.
        let mut member = stage.member("eu-1").unwrap();
        member["status"]["readyPods"] = json!(5_000_000_000_u64);
        stage.world.put_back(HUB, "memberclusters.fleet.kruise.io", member);
        let stored = stage.member("eu-1").unwrap()["status"]["readyPods"].clone();
        assert_eq!(stored, json!(5_000_000_000_u64), "it is stored");
        stage.forget("joinrequests/eu-1");
        stage.pass(120).await;
        assert_eq!(stage.bound("eu-1"), vec![cluster.user(); 3]);
    });
}
