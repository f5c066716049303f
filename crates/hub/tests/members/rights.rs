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

#[test]
fn del_6_a_member_has_its_finalizer_from_the_beginning_however_it_came() {
    play(&["*"], async |stage| {
        stage.token("abcdef", "*", 1, 3_600);
        let cluster = Cluster::new("eu-1", "uid-1");
        stage.ask(&cluster, "abcdef");
        stage.until("it is made", |it| it.member("eu-1").is_some()).await;
        let finalizers =
            |it: &crate::kit::Stage, name: &str| it.member(name).unwrap()["metadata"]["finalizers"].clone();
        assert_eq!(finalizers(&stage, "eu-1"), json!(["fleet.kruise.io/shares"]));
        let by_hand = json!({
            "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "MemberCluster",
            "metadata": {"name": "eu-2", "finalizers": ["example.org/other"]},
            "spec": {"clusterUid": "uid-2", "publicKey": "", "accepted": true},
        });
        let path = "/apis/fleet.kruise.io/v1alpha1/memberclusters";
        stage.world.write(HUB, http::Method::POST, path, &by_hand).unwrap();
        stage
            .until("it gets it", |it| {
                finalizers(it, "eu-2") == json!(["example.org/other", "fleet.kruise.io/shares"])
            })
            .await;
        // Removed, ours goes, and rights stay until the other one is gone too.
        stage.forget("memberclusters/eu-2");
        stage.until("ours is gone", |it| finalizers(it, "eu-2") == json!(["example.org/other"])).await;
        stage.pass(30).await;
        assert_eq!(stage.bound("eu-2").len(), 3);
        stage.change("memberclusters/eu-2", &json!({"metadata": {"finalizers": null}}));
        stage.until("its rights are gone", |it| it.bound("eu-2").is_empty()).await;
    });
}

#[test]
fn del_6_a_hub_killed_after_any_write_of_a_removal_withdraws_everything() {
    let mut kills = 0;
    for k in 1..20 {
        let mut was_killed = false;
        let seen = &mut was_killed;
        play(&["*"], async |stage| {
            stage.token("abcdef", "*", 1, 36_000);
            let cluster = Cluster::new("eu-1", "uid-1");
            stage.ask(&cluster, "abcdef");
            stage.joined(&cluster).await;
            stage.pass(10).await;
            let starts = stage.hub.starts();
            stage.hub.crash_after_writes(k);
            stage.forget("memberclusters/eu-1");
            stage
                .until("it is gone, its rights last", |it| {
                    let is_gone = it.member("eu-1").is_none();
                    assert!(is_gone || it.bound("eu-1").len() == 3, "killed after write {k}");
                    is_gone && it.bound("eu-1").is_empty()
                })
                .await;
            stage.pass(60).await;
            assert!(stage.member("eu-1").is_none(), "and it stays away");
            *seen = stage.hub.starts() > starts;
        });
        if !was_killed {
            break;
        }
        kills = k;
    }
    assert!((3..19).contains(&kills), "{kills} writes");
}
