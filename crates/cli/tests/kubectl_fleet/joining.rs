//! Tokens, requests, clusters.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::kit::{Fleet, unique};

/// JOIN-1.
#[tokio::test]
async fn a_token_is_made_listed_and_revoked() -> Result<()> {
    let fleet = Fleet::new().await?;
    let made = fleet
        .run(&["token", "create", "--for", "eu-*", "--ttl", "2h", "--uses", "3", "-o", "json"])?
        .json()?;
    let token = made["token"].as_str().context("a token is a text")?;
    let (id, secret) = token.split_once('.').context("a token has two parts")?;

    let stored = fleet.get(&["--namespace=kube-system", "secret", &format!("bootstrap-token-{id}")])?;
    assert_eq!(stored["type"], "bootstrap.kubernetes.io/token");
    let known = fleet.get(&["--namespace=fleet-system", "configmap", &format!("fleet-token-{id}")])?;
    assert_eq!((&known["data"]["for"], &known["data"]["uses"]), (&json!("eu-*"), &json!("3")));
    assert!(!known.to_string().contains(secret), "the hub's half holds no secret");

    let listed = fleet.run(&["token", "list"])?;
    let line = listed.out.lines().find(|it| it.starts_with(id)).context("the token is listed")?;
    assert!(line.contains("eu-*") && line.contains("1h59m") && line.ends_with("0/3"), "{line}");
    assert!(!listed.out.contains(secret));

    assert_eq!(fleet.run(&["token", "revoke", id])?.code, 0);
    assert_eq!(
        fleet.get(&["--namespace=kube-system", "secret", &format!("bootstrap-token-{id}")])?,
        Value::Null
    );
    let again = fleet.run(&["token", "revoke", id])?;
    assert_eq!(again.code, 1);
    assert!(again.err.contains("there is no token"), "{again:?}");
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_used_is_named_and_nothing_is_written() -> Result<()> {
    let fleet = Fleet::new().await?;
    for (arguments, word) in [
        (&["token", "create", "--for", "EU"][..], "--for: must be"),
        (&["token", "revoke", "no"], "ID: must be"),
        (&["join", "eu-1", "--print", "--token", "no"], "--token: must be"),
        (&["approve", "nobody"], "there is no JoinRequest nobody"),
        (&["cordon", "nobody"], "there is no cluster nobody"),
        (&["status", "cloneset/nobody"], "there is no CloneSet nobody"),
        (&["plan", "-f", "/nowhere"], "--filename /nowhere"),
        (&["status", "web"], "KIND/NAME"),
    ] {
        let ended = fleet.run(arguments)?;
        assert_eq!(ended.code, 1, "{arguments:?}: {ended:?}");
        assert!(ended.err.contains(word) && ended.out.is_empty(), "{arguments:?}: {ended:?}");
    }
    Ok(())
}

/// JOIN-1, SEC-3.
#[tokio::test]
async fn what_join_prints_can_be_applied() -> Result<()> {
    let fleet = Fleet::new().await?;
    let printed =
        fleet.run(&["join", "eu-1", "--print", "--agent-namespace", "default", "--region", "eu"])?;
    assert_eq!(printed.code, 0, "{printed:?}");
    assert!(
        printed.out.contains("--hub-cluster=eu-1") && printed.out.contains("--hub-ca-hash=sha256:"),
        "{printed:?}"
    );
    let applied = fleet.hub.try_kubectl(&["apply", "--dry-run=server", "--filename", "-"], &printed.out)?;
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));

    let tokens = fleet.run(&["token", "list", "-o", "json"])?.json()?;
    for it in tokens["items"].as_array().into_iter().flatten().filter(|it| it["for"] == "eu-1") {
        fleet.run(&["token", "revoke", it["id"].as_str().unwrap_or_default()])?;
    }
    Ok(())
}

/// JOIN-2.
#[tokio::test]
async fn a_request_is_approved_and_the_hubs_answer_is_waited_for() -> Result<()> {
    let fleet = Fleet::new().await?;
    let name = unique("asks");
    fleet.apply(&json!({
        "apiVersion": "fleet.kruise.io/v1alpha1", "kind": "JoinRequest", "metadata": { "name": name },
        "spec": { "clusterUid": "u", "publicKey": "k" },
    }))?;
    assert_eq!(fleet.run(&["approve", &name, "--timeout", "0"])?.code, 2, "the answer is pending");
    let request = fleet.get(&["joinrequest", &name])?;
    assert_eq!(request["metadata"]["annotations"]["fleet.kruise.io/decision"], "Approve");
    let late = fleet.run(&["approve", &name, "--timeout", "1s"])?;
    assert_eq!(late.code, 4, "nobody answers: {late:?}");

    fleet.answer(
        "joinrequest",
        &name,
        &json!({ "decision": "Denied", "reason": "TokenRejected", "message": "too late" }),
    )?;
    let refused = fleet.run(&["approve", &name])?;
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.err.contains("TokenRejected too late"), "{refused:?}");
    assert_eq!(fleet.run(&["deny", &name, "-o", "json"])?.json()?["decision"], "Denied");
    fleet.forget("joinrequest", &[name])
}

/// JOIN-5, STATE-5.
#[tokio::test]
async fn a_cluster_is_cordoned_drained_and_revoked() -> Result<()> {
    let fleet = Fleet::new().await?;
    let name = unique("used");
    fleet.member(&name)?;
    let listed = fleet.run(&["get", "clusters"])?.out;
    assert!(listed.lines().any(|it| it.starts_with(&name) && it.contains("Ready")), "{listed}");

    let spec =
        |field: &str| -> Result<Value> { Ok(fleet.get(&["membercluster", &name])?["spec"][field].clone()) };
    assert_eq!(fleet.run(&["cordon", &name, "-o", "json"])?.json()?["unschedulable"], true);
    assert_eq!(spec("unschedulable")?, true);
    assert_eq!(fleet.run(&["drain", &name])?.code, 0);
    assert_eq!(spec("drain")?, true);
    assert_eq!(fleet.run(&["drain", &name, "--timeout", "5s"])?.code, 0, "it has nothing");
    let undone = fleet.run(&["uncordon", &name, "-o", "json"])?.json()?;
    assert_eq!((&undone["drain"], &undone["unschedulable"]), (&json!(false), &json!(false)));
    assert_eq!(fleet.run(&["revoke", &name])?.code, 0);
    assert_eq!(spec("accepted")?, false);
    assert_eq!(fleet.run(&["revoke", &name, "--undo"])?.code, 0);
    assert_eq!(spec("accepted")?, true);
    fleet.forget("membercluster", &[name])
}
