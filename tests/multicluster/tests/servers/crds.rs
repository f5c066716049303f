//! The kinds on a real API server: accepted, explained, listed, and strict about bad input.

use anyhow::{Context, Result};
use multicluster::{Cluster, cluster};
use serde_json::{Value, json};

const CLONESET: &str = "apps.kruise.io/v1beta1";

fn cloneset(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": CLONESET,
        "kind": "CloneSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "lab/web:1"}]},
            },
        },
    })
}

fn refusal(cluster: &Cluster, object: &Value) -> Result<String> {
    let output = cluster.try_kubectl(&["create", "--filename", "-"], &object.to_string())?;
    assert!(!output.status.success(), "accepted: {object}");
    Ok(String::from_utf8(output.stderr)?)
}

#[tokio::test]
async fn every_definition_is_accepted_and_structural() -> Result<()> {
    let cluster = cluster("m1");
    let crds = cluster.install_crds().await?;
    let client = cluster.client().await?;
    let api: kube::Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = kube::Api::all(client);
    for crd in crds {
        let name = crd.metadata.name.context("a definition has a name")?;
        let status = api.get(&name).await?.status.context("an established definition has a status")?;
        let bad: Vec<_> = status
            .conditions
            .iter()
            .flatten()
            .filter(|it| it.type_ == "NonStructuralSchema" && it.status == "True")
            .filter_map(|it| it.message.clone())
            .collect();
        assert!(bad.is_empty(), "{name}: {bad:?}");
    }
    Ok(())
}

#[tokio::test]
async fn kubectl_explains_the_fields() -> Result<()> {
    let cluster = cluster("m1");
    cluster.install_crds().await?;
    // The API server publishes schemas a moment after a definition is established.
    let text = multicluster::eventually("the schema is published", async || {
        Ok(Some(cluster.kubectl(&["explain", "cloneset.spec.updateStrategy"])?))
    })
    .await?;
    assert!(text.contains("rollingUpdate"), "{text}");
    let description = text.split("DESCRIPTION:").nth(1).and_then(|it| it.split("FIELDS:").next());
    let description = description.unwrap_or_default().trim();
    assert!(description.len() > 20 && !description.contains("<empty>"), "{text}");
    Ok(())
}

#[tokio::test]
async fn kubectl_lists_a_cloneset_with_the_columns_of_upstream() -> Result<()> {
    let cluster = cluster("m1");
    cluster.install_crds().await?;
    let namespace = cluster.namespace("columns").await?;
    let created =
        cluster.try_kubectl(&["create", "--filename", "-"], &cloneset(&namespace, "web").to_string())?;
    assert!(created.status.success(), "{created:?}");
    let listed =
        |extra: &[&str]| cluster.kubectl(&[&["get", "clone", "--namespace", &namespace], extra].concat());
    let header =
        |text: &str| text.lines().next().map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "));
    let narrow = "NAME DESIRED UPDATED UPDATED_READY UPDATED_AVAILABLE READY TOTAL AGE";
    assert_eq!(header(&listed(&[])?).as_deref(), Some(narrow));
    assert_eq!(header(&listed(&["-o", "wide"])?), Some(format!("{narrow} CONTAINERS IMAGES SELECTOR")));
    cluster.forget(&namespace).await
}

#[tokio::test]
async fn bad_input_is_refused_with_the_name_of_the_field() -> Result<()> {
    let cluster = cluster("m1");
    cluster.install_crds().await?;
    let namespace = cluster.namespace("refused").await?;

    let mut negative = cloneset(&namespace, "negative");
    negative["spec"]["replicas"] = json!(-1);
    let text = refusal(&cluster, &negative)?;
    assert!(text.contains("spec.replicas") && text.contains("-1"), "{text}");

    let mut unknown = cloneset(&namespace, "unknown");
    unknown["spec"]["updateStrategy"] = json!({"type": "Sometimes"});
    let text = refusal(&cluster, &unknown)?;
    assert!(text.contains("spec.updateStrategy.type") && text.contains("Sometimes"), "{text}");
    cluster.forget(&namespace).await
}

#[tokio::test]
async fn unknown_fields_of_a_template_survive_the_api_server_and_our_types() -> Result<()> {
    let cluster = cluster("m1");
    cluster.install_crds().await?;
    let namespace = cluster.namespace("unknown").await?;
    let mut object = cloneset(&namespace, "web");
    object["spec"]["template"]["spec"]["fromTheFuture"] = json!({"deep": [1, {"er": null}]});
    object["spec"]["template"]["spec"]["containers"][0]["alsoNew"] = json!("kept");
    let created =
        cluster.try_kubectl(&["create", "--validate=false", "--filename", "-"], &object.to_string())?;
    assert!(created.status.success(), "{created:?}");

    let api: kube::Api<kruise_core::api::cloneset::v1beta1::CloneSet> =
        kube::Api::namespaced(cluster.client().await?, &namespace);
    // A read into our type and a write of the whole of it back: nothing of the template may be lost on the way.
    let mut read = api.get("web").await?;
    assert_eq!(read.spec.template, object["spec"]["template"], "lost by the API server or by our type");
    read.spec.replicas = Some(3);
    api.replace("web", &kube::api::PostParams::default(), &read).await?;
    let again = cluster.kubectl(&["get", "clone", "web", "--namespace", &namespace, "-o", "json"])?;
    let again: Value = serde_json::from_str(&again)?;
    assert_eq!(again["spec"]["template"], object["spec"]["template"]);
    assert_eq!(again["spec"]["replicas"], 3);
    cluster.forget(&namespace).await
}
