//! What the credentials of an agent reach: every verb on every resource of every other cluster's namespace is tried.

use anyhow::{Context, Result};
use axum::http::{Method, Request, header};
use kube::{
    Client,
    discovery::{Discovery, Scope},
};

use crate::{
    kit::Hub,
    members::{Member, Token},
};

const HOUR: i64 = 3_600;

/// One way to use a resource.
struct Attempt {
    verb: &'static str,
    method: Method,
    named: bool,
    query: &'static str,
}

const fn attempt(verb: &'static str, method: Method, named: bool, query: &'static str) -> Attempt {
    Attempt { verb, method, named, query }
}

/// Every verb that RBAC knows for resources.
const ATTEMPTS: [Attempt; 8] = [
    attempt("get", Method::GET, true, ""),
    attempt("list", Method::GET, false, ""),
    attempt("watch", Method::GET, false, "?watch=true&timeoutSeconds=1"),
    attempt("create", Method::POST, false, ""),
    attempt("update", Method::PUT, true, ""),
    attempt("patch", Method::PATCH, true, ""),
    attempt("delete", Method::DELETE, true, ""),
    attempt("deletecollection", Method::DELETE, false, ""),
];

/// The code with which the hub answers.
async fn code(client: &Client, attempt: &Attempt, path: &str) -> Result<u16> {
    let request = Request::builder().method(attempt.method.clone()).uri(format!("{path}{}", attempt.query));
    let content =
        if attempt.method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = request.header(header::CONTENT_TYPE, content).body(b"{}".to_vec().into())?;
    Ok(client.send(request).await?.status().as_u16())
}

/// SEC-1, SEC-5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_1_an_agent_reaches_nothing_of_another_cluster() -> Result<()> {
    reaches_nothing("certificate", ["reach-1", "reach-2"]).await
}

/// SEC-1: the same rights, whatever the hub knows it by.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_1_nor_does_an_agent_with_a_token() -> Result<()> {
    reaches_nothing("token", ["reach-3", "reach-4"]).await
}

async fn reaches_nothing(credentials: &str, names: [&str; 2]) -> Result<()> {
    let hub = Hub::start(&["--auto-approve=reach-*", &format!("--agent-credentials={credentials}")]).await?;
    hub.forget_members()?;
    let mut members = Vec::new();
    for (place, name) in ["m1", "m2"].into_iter().zip(names) {
        let mut member = Member::new(&hub, place, name).await?;
        member.give(&Token::create(&hub, name, 1, HOUR)?)?;
        member.start(&[]).await?;
        members.push(member);
    }
    for member in &members {
        member.ready(&hub).await?;
        assert_eq!(member.kept("token")?.is_some(), credentials == "token");
    }
    let resources = resources(&hub).await?;
    assert!(
        resources.iter().any(|it| it.0.ends_with("/assignments")) && resources.len() > 40,
        "{resources:?}"
    );
    let mut tried = 0;
    for member in &members {
        let client = member.on_hub(&hub).await?;
        let own = format!("fleet-{}", member.name);
        let assignments = format!("/apis/fleet.kruise.io/v1alpha1/namespaces/{own}/assignments");
        assert_eq!(code(&client, &ATTEMPTS[1], &assignments).await?, 200, "it is who it says it is");
        let others =
            members.iter().filter(|it| it.name != member.name).map(|it| format!("fleet-{}", it.name));
        for namespace in others.chain(["fleet-system", "kube-system", "default"].map(str::to_owned)) {
            for (resource, subresources) in &resources {
                let (root, plural) = resource.rsplit_once('/').context("a path has a resource")?;
                let folder = format!("{root}/namespaces/{namespace}/{plural}");
                for attempt in &ATTEMPTS {
                    let path = if attempt.named { format!("{folder}/agent") } else { folder.clone() };
                    let parts =
                        subresources.iter().filter(|_| attempt.named).map(|it| format!("{path}/{it}"));
                    for path in [path.clone()].into_iter().chain(parts) {
                        let answer = code(&client, attempt, &path).await?;
                        assert_eq!(answer, 403, "{} may {} {path}", member.name, attempt.verb);
                        tried += 1;
                    }
                }
            }
        }
        outside_of_namespaces(&client, &members, member).await?;
    }
    assert!(tried > 2_000, "{tried}");
    Ok(())
}

/// Its own MemberCluster may be read and its status patched; that of others, bodies of the fleet and requests of others may not.
async fn outside_of_namespaces(client: &Client, members: &[Member], own: &Member) -> Result<()> {
    let fleet = "/apis/fleet.kruise.io/v1alpha1";
    for attempt in &ATTEMPTS {
        let mut paths = vec![format!("{fleet}/memberclusters"), format!("{fleet}/joinrequests")];
        paths.push(format!("{fleet}/namespaces/fleet-content/fleetrevisions"));
        paths.push("/apis/certificates.k8s.io/v1/certificatesigningrequests".to_owned());
        paths.push("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings".to_owned());
        for folder in paths {
            let is_renewal = attempt.verb == "create" && folder.ends_with("certificatesigningrequests");
            let is_body = attempt.verb == "get" && folder.ends_with("fleetrevisions");
            if is_renewal || is_body {
                continue;
            }
            let names: Vec<_> =
                members.iter().filter(|it| it.name != own.name).map(|it| it.name.clone()).collect();
            for name in names {
                let path = if attempt.named { format!("{folder}/{name}") } else { folder.clone() };
                let answer = code(client, attempt, &path).await?;
                assert_eq!(answer, 403, "{} may {} {path}", own.name, attempt.verb);
            }
        }
    }
    let own_cluster = format!("{fleet}/memberclusters/{}", own.name);
    assert_eq!(code(client, &ATTEMPTS[0], &own_cluster).await?, 200);
    for attempt in ATTEMPTS.iter().filter(|it| it.named && it.verb != "get") {
        assert_eq!(code(client, attempt, &own_cluster).await?, 403, "{}", attempt.verb);
    }
    Ok(())
}

/// Every resource in namespaces that the hub serves, as `/apis/GROUP/VERSION/PLURAL`, with the subresources that tests of rights
/// care about.
async fn resources(hub: &Hub) -> Result<Vec<(String, Vec<String>)>> {
    let discovery = Discovery::new(hub.cluster.client().await?).run().await?;
    let mut found = Vec::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if capabilities.scope == Scope::Namespaced {
                let root = if resource.group.is_empty() {
                    format!("/api/{}", resource.version)
                } else {
                    format!("/apis/{}/{}", resource.group, resource.version)
                };
                let parts = capabilities.subresources.iter().map(|it| it.0.plural.clone());
                found.push((format!("{root}/{}", resource.plural), parts.collect()));
            }
        }
    }
    Ok(found)
}
