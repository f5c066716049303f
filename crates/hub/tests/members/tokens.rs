//! Tokens: for their names, their time and their uses (JOIN-1).

use serde_json::json;

use crate::kit::{Cluster, play};

#[test]
fn join_2_a_rule_lets_a_cluster_in_and_its_certificate_comes_back() {
    play(&["eu-*"], async |stage| {
        stage.token("abcdef", "eu-*", 1, 3_600);
        let cluster = Cluster::new("eu-1", "uid-1");
        stage.ask(&cluster, "abcdef");
        stage.joined(&cluster).await;
        let status = stage.status("eu-1");
        assert_eq!((&status["decision"], &status["namespace"]), (&json!("Approved"), &json!("fleet-eu-1")));
        let system = stage.read("/api/v1/namespaces/kube-system").unwrap();
        assert_eq!(status["hubUid"], system["metadata"]["uid"]);
        let member = stage.member("eu-1").unwrap();
        assert_eq!(
            member["spec"],
            json!({"clusterUid": "uid-1", "publicKey": cluster.public_key(), "accepted": true})
        );
        assert!(member["status"]["credentialExpiresAt"].is_string());
        let lease = "/apis/coordination.k8s.io/v1/namespaces/fleet-eu-1/leases/agent";
        assert!(stage.read(lease).is_some() && stage.used_by("abcdef").len() == 1);
        // The holder of the token may read this request, until it goes.
        let reader = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/fleet-join-eu-1";
        assert_eq!(stage.read(reader).unwrap()["subjects"][0]["name"], "system:bootstrap:abcdef");
        stage.pass(24 * 3_600 + 60).await;
        stage.until("the answered request is gone", |it| it.status("eu-1").is_null()).await;
        stage.until("nobody may read it", |it| it.read(reader).is_none()).await;
        assert!(stage.member("eu-1").is_some() && stage.bound("eu-1").len() == 3);
    });
}

#[test]
fn join_1_a_token_is_used_as_often_as_it_may_be_however_many_ask_at_once() {
    play(&["*"], async |stage| {
        stage.token("abcdef", "*", 2, 3_600);
        let clusters = ["a", "b", "c", "d", "e"].map(|it| Cluster::new(it, it));
        for cluster in &clusters {
            stage.ask(cluster, "abcdef");
        }
        stage
            .until("all are answered", |it| clusters.iter().all(|c| !it.answer(c.name).starts_with('-')))
            .await;
        stage.pass(60).await;
        let mut answers: Vec<_> = clusters.iter().map(|it| stage.answer(it.name)).collect();
        answers.sort();
        let (good, bad) = ("Approved ApprovedByRule", "Denied TokenRejected");
        assert_eq!(answers, [good, good, bad, bad, bad]);
        assert_eq!(stage.used_by("abcdef").len(), 2);
        assert_eq!(clusters.iter().filter(|it| stage.member(it.name).is_some()).count(), 2);
        assert_eq!(stage.events("JoinRequest").iter().filter(|it| *it == "TokenRejected").count(), 3);
    });
}

#[test]
fn join_1_expired_tokens_and_other_names_are_refused_and_get_nothing() {
    play(&["*"], async |stage| {
        stage.token("expird", "*", 1, -1);
        stage.token("others", "us-*", 1, 3_600);
        for (cluster, token) in [("eu-1", "expird"), ("eu-2", "others"), ("eu-3", "unknwn")] {
            let cluster = Cluster::new(cluster, cluster);
            stage.ask(&cluster, token);
            stage.answered(cluster.name, "Denied TokenRejected").await;
            stage
                .until("its signing request is refused", |it| {
                    it.said(&format!("fleet-agent-{token}-{}", cluster.name)).0 == ["Denied"]
                })
                .await;
            assert!(stage.member(cluster.name).is_none() && stage.bound(cluster.name).is_empty());
        }
        assert!(stage.used_by("expird").is_empty() && stage.used_by("others").is_empty());
    });
}

#[test]
fn join_2_what_is_known_of_a_token_goes_some_time_after_its_end() {
    play(&["*"], async |stage| {
        stage.token("expird", "*", 1, 600);
        stage.token("abcdef", "*", 1, 36_000);
        let path = |id: &str| format!("/api/v1/namespaces/fleet-system/configmaps/fleet-token-{id}");
        stage.pass(3_600).await;
        assert!(stage.read(&path("expird")).is_some(), "people may still ask what became of it");
        stage.pass(3_600).await;
        assert!(stage.read(&path("expird")).is_none() && stage.read(&path("abcdef")).is_some());
    });
}

#[test]
fn join_2_without_a_rule_a_person_decides_and_an_expired_token_decides_too() {
    play(&["us-*"], async |stage| {
        stage.token("abcdef", "*", 2, 600);
        let (first, second) = (Cluster::new("eu-1", "uid-1"), Cluster::new("eu-2", "uid-2"));
        stage.ask(&first, "abcdef");
        stage.ask(&second, "abcdef");
        stage.answered("eu-1", "Pending ApprovalNeeded").await;
        stage.answered("eu-2", "Pending ApprovalNeeded").await;
        assert_eq!(stage.used_by("abcdef").len(), 2, "a request that waits has used its token");
        let word = json!({"metadata": {"annotations": {"fleet.kruise.io/decision": "Approve"}}});
        stage.change("joinrequests/eu-1", &word);
        stage.joined(&first).await;
        assert_eq!(stage.status("eu-1")["decidedBy"], "administrator");
        stage.pass(700).await;
        stage.answered("eu-2", "Denied TokenRejected").await;
        assert!(stage.member("eu-2").is_none());
    });
}
