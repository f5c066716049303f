//! Who is who: names, UIDs, keys, and whoever asks under another's name (JOIN-6, API-3).

use serde_json::json;

use crate::kit::{Cluster, play, text};

#[test]
fn join_6_another_cluster_and_another_key_are_denied_and_the_member_stays() {
    play(&["*"], async |stage| {
        stage.token("abcdef", "*", 9, 36_000);
        let owner = Cluster::new("eu-1", "uid-1");
        stage.ask(&owner, "abcdef");
        stage.joined(&owner).await;
        let before = stage.member("eu-1").unwrap()["spec"].clone();
        for (uid, token) in [("uid-2", "bbbbbb"), ("uid-1", "cccccc")] {
            stage.token(token, "*", 1, 3_600);
            stage.forget("joinrequests/eu-1");
            let other = Cluster::new("eu-1", uid);
            stage.ask(&other, token);
            stage.answered("eu-1", "Denied IdentityMismatch").await;
            assert!(stage.used_by(token).is_empty());
        }
        // The same cluster under another name.
        let twin = Cluster { name: "eu-2", ..owner };
        stage.ask(&twin, "abcdef");
        stage.answered("eu-2", "Denied IdentityMismatch").await;
        stage.pass(30).await;
        assert_eq!(stage.member("eu-1").unwrap()["spec"], before);
        assert!(stage.member("eu-2").is_none());
        let owner = Cluster { name: "eu-1", ..twin };
        assert_eq!(stage.bound("eu-1"), vec![owner.user(); 3]);
        let told = |kind: &str| stage.events(kind).contains(&"IdentityMismatch".to_owned());
        assert!(told("JoinRequest") && told("MemberCluster"));
    });
}

#[test]
fn join_2_of_two_names_that_one_cluster_asks_for_at_once_at_most_one_is_let_in() {
    // At several moments of a round, as the requests of others move what is done at once.
    for others in 0..4 {
        play(&["*"], async |stage| {
            stage.token("abcdef", "*", 20, 36_000);
            for other in ["x", "y", "z"].into_iter().take(others) {
                stage.ask(&Cluster::new(other, other), "abcdef");
            }
            let twins = ["a", "b", "c", "d"].map(|it| Cluster::new(it, "uid-1"));
            for twin in &twins {
                stage.ask(twin, "abcdef");
            }
            let is_final = |answer: String| answer.starts_with("Approved") || answer.starts_with("Denied");
            stage
                .until("all are answered", |it| twins.iter().all(|twin| is_final(it.answer(twin.name))))
                .await;
            stage.pass(60).await;
            let members: Vec<_> = twins.iter().filter(|it| stage.member(it.name).is_some()).collect();
            assert_eq!(members.len(), 1, "{others}");
            let let_in = twins.iter().filter(|it| stage.answer(it.name).starts_with("Approved"));
            assert_eq!(let_in.map(|it| it.name).collect::<Vec<_>>(), [members[0].name]);
            assert!(twins.iter().all(|it| stage.bound(it.name).is_empty() || it.name == members[0].name));
        });
    }
}

#[test]
fn api_3_the_hub_is_not_its_own_member() {
    play(&["*"], async |stage| {
        stage.token("abcdef", "*", 1, 3_600);
        let uid = text(&stage.read("/api/v1/namespaces/kube-system").unwrap()["metadata"]["uid"]);
        let cluster = Cluster::new("eu-1", Box::leak(uid.into_boxed_str()));
        stage.ask(&cluster, "abcdef");
        stage.answered("eu-1", "Denied HubCannotBeMember").await;
        assert!(stage.member("eu-1").is_none());
    });
}

#[test]
fn a_stranger_who_takes_the_name_of_a_signing_request_gets_nothing_signed() {
    play(&["*"], async |stage| {
        stage.token("abcdef", "*", 2, 3_600);
        let cluster = Cluster::new("eu-1", "uid-1");
        // Before the cluster asks: it knows the cluster's public key, and has none of its own.
        stage.sign("fleet-agent-1", "alice", &cluster.pem());
        stage.request(&cluster, "abcdef", "fleet-agent-1");
        stage.answered("eu-1", "Denied SigningRefused").await;
        stage.until("it is refused", |it| it.said("fleet-agent-1").0 == ["Denied"]).await;
        assert!(stage.member("eu-1").is_none() && stage.used_by("abcdef").is_empty());
        // Others' requests are nobody's business here.
        stage.sign("alice", "alice", &cluster.pem());
        stage.forget("joinrequests/eu-1");
        stage.request(&cluster, "abcdef", "alice");
        stage.answered("eu-1", "Denied SigningRefused").await;
        stage.pass(30).await;
        assert_eq!(stage.said("alice"), (Vec::new(), false));
        // Again, as it should be; a request that comes before what it names waits for it.
        stage.forget("joinrequests/eu-1");
        stage.request(&cluster, "abcdef", "fleet-agent-2");
        stage.answered("eu-1", "Pending SigningRequestMissing").await;
        stage.sign("fleet-agent-2", "system:bootstrap:abcdef", &cluster.pem());
        stage.joined(&cluster).await;
    });
}

#[test]
fn a_name_that_is_given_anew_revives_no_certificate_of_who_had_it() {
    play(&["*"], async |stage| {
        stage.token("abcdef", "*", 9, 36_000);
        let former = Cluster::new("eu-1", "uid-1");
        stage.ask(&former, "abcdef");
        stage.joined(&former).await;
        stage.forget("memberclusters/eu-1");
        stage.until("its rights are gone", |it| it.bound("eu-1").is_empty()).await;
        stage.pass(60).await;
        assert!(stage.member("eu-1").is_none(), "an approved request does not bring it back");
        stage.forget("joinrequests/eu-1");
        stage.token("bbbbbb", "*", 1, 3_600);
        let heir = Cluster::new("eu-1", "uid-2");
        stage.ask(&heir, "bbbbbb");
        stage.joined(&heir).await;
        assert_ne!(former.user(), heir.user());
        assert_eq!(stage.bound("eu-1"), vec![heir.user(); 3], "and nobody else");
        // Nor does the former one get a new certificate.
        stage.sign("fleet-agent-former", &former.user(), &former.pem());
        stage.until("it is refused", |it| it.said("fleet-agent-former").0 == ["Denied"]).await;
        // One who was given the name while the hub was away is treated the same.
        stage.hub.crash();
        stage.forget("memberclusters/eu-1");
        // Somebody who does not wait for the hub takes the finalizer off.
        stage.change("memberclusters/eu-1", &json!({"metadata": {"finalizers": null}}));
        let by_hand = json!({
            "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "MemberCluster", "metadata": {"name": "eu-1"},
            "spec": {"clusterUid": "uid-3", "publicKey": "", "accepted": true},
        });
        let path = "/apis/fleet.kruise.io/v1alpha1/memberclusters";
        stage.world.write(crate::kit::HUB, http::Method::POST, path, &by_hand).unwrap();
        stage.until("the rights are the new one's", |it| it.bound("eu-1") == ["fleet:agent:eu-1"; 3]).await;
    });
}
