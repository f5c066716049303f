//! Every rule, as the API server passes its answer on: which field, what is wrong, what to do instead.

use anyhow::{Context, Result, bail};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use multicluster::stage::{self, Stage};
use serde_json::{Value, json};

use crate::{GATED, PLAIN, container, cs_demo, merged};

/// The answer to `manifest`, which must be refused: its code and message.
async fn refusal(stage: &Stage, manifest: &Value) -> Result<(u16, String)> {
    let version =
        manifest["apiVersion"].as_str().and_then(|it| it.split('/').next_back()).unwrap_or_default();
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("apps.kruise.io", version, "CloneSet"));
    let clonesets: Api<DynamicObject> = Api::namespaced_with(stage.client.clone(), &stage.namespace, &kind);
    let object: DynamicObject = serde_json::from_value(manifest.clone())?;
    let rehearsal = PostParams { dry_run: true, ..PostParams::default() };
    match clonesets.create(&rehearsal, &object).await {
        Err(kube::Error::Api(status)) => Ok((status.code, status.message)),
        Err(error) => Err(error.into()),
        Ok(_) => bail!("this should have been refused: {manifest}"),
    }
}

/// Expects one refusal per row, and tells of all rows that are answered otherwise.
async fn refuses(stage: &Stage, rows: Vec<(Value, &str, &str)>) -> Result<()> {
    let mut wrong = Vec::new();
    for (manifest, field, text) in rows {
        let (code, message) = refusal(stage, &manifest).await.with_context(|| format!("{field}: {text}"))?;
        if code != 422 || !message.contains(field) || !message.contains(text) {
            wrong.push(format!("{field} ({text}): {code} {message}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn beta(spec: Value) -> Value {
    merged(&cs_demo(spec), &json!({"apiVersion": "apps.kruise.io/v1beta1"}))
}

/// Both versions of a manifest.
fn both(spec: &Value) -> [Value; 2] {
    [cs_demo(spec.clone()), beta(spec.clone())]
}

#[test]
fn rules_of_both_versions_name_the_field_and_the_remedy() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let no_deadline = json!({"minReadySeconds": 10, "progressDeadlineSeconds": 5});
        let claims = json!([{"metadata": {"name": "A"}}]);
        let tables: Vec<(Value, &str, &str)> = vec![
            (json!({"replicas": -1}), "spec.replicas", "greater than or equal to 0"),
            (json!({"minReadySeconds": -1}), "spec.minReadySeconds", "greater than or equal to 0"),
            (json!({"revisionHistoryLimit": -1}), "spec.revisionHistoryLimit", "greater than or equal to 0"),
            (json!({"selector": null}), "spec.selector", "Required value"),
            (json!({"selector": {"matchLabels": null}}), "spec.selector", "select a label of spec.template"),
            (
                json!({"selector": {"matchLabels": {"app": "x"}}}),
                "spec.template.metadata.labels",
                "must carry the selector's",
            ),
            (
                json!({"selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}),
                "spec.selector",
                "must be In, NotIn",
            ),
            (json!({"template": null}), "spec.template", "Required value"),
            (
                json!({"template": {"spec": {"containers": []}}}),
                "spec.template.spec.containers",
                "Required value",
            ),
            (
                json!({"template": {"spec": {"restartPolicy": "Never"}}}),
                "spec.template.spec.restartPolicy",
                "supported values: \"Always\"",
            ),
            (
                json!({"template": {"spec": {"activeDeadlineSeconds": 5}}}),
                "spec.template.spec.activeDeadlineSeconds",
                "remove it",
            ),
            (
                json!({"volumeClaimTemplates": claims}),
                "spec.volumeClaimTemplates[0].metadata.name",
                "it names a volume",
            ),
            (
                json!({"scaleStrategy": {"podsToDelete": ["a", "a"]}}),
                "spec.scaleStrategy.podsToDelete",
                "name each pod once",
            ),
            (
                json!({"scaleStrategy": {"podsToDelete": ["a"]}}),
                "spec.scaleStrategy.podsToDelete",
                "name pods of this cloneset",
            ),
            (
                json!({"scaleStrategy": {"maxUnavailable": "5"}}),
                "spec.scaleStrategy.maxUnavailable",
                "it must",
            ),
            (
                no_deadline,
                "spec.progressDeadlineSeconds",
                "must be greater than minReadySeconds, which is 10",
            ),
        ];
        let rows = tables.into_iter().flat_map(|(spec, field, text)| both(&spec).map(|it| (it, field, text)));
        refuses(stage, rows.collect()).await
    })
}

#[test]
fn cln_20_rules_for_updates_name_the_field_and_the_remedy() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let order = json!([{"orderedKey": "k"}]);
        let weight = |weight: i32| json!([{"weight": weight, "matchSelector": {"matchLabels": {"a": "b"}}}]);
        let empty = json!([{"weight": 1, "matchSelector": {}}]);
        let scatter = json!([{"key": "a", "value": "b"}, {"key": "a", "value": "b"}]);
        let tables: Vec<(Value, &str, &str)> = vec![
            (json!({"partition": "5"}), "partition", "it must"),
            (json!({"partition": -1}), "partition", "-1"),
            (json!({"maxUnavailable": "5"}), "maxUnavailable", "it must"),
            (json!({"maxSurge": "many%"}), "maxSurge", "it must"),
            (json!({"maxUnavailable": 0}), "maxUnavailable", "should not both be less than 1"),
            (
                json!({"priorityStrategy": {"weightPriority": weight(1), "orderPriority": order}}),
                "priorityStrategy",
                "only one of",
            ),
            (
                json!({"priorityStrategy": {"weightPriority": weight(101)}}),
                "priorityStrategy",
                "less than or equal to 100",
            ),
            (json!({"priorityStrategy": {"weightPriority": empty}}), "priorityStrategy", "name the labels"),
            (
                json!({"priorityStrategy": {"orderPriority": [{"orderedKey": ""}]}}),
                "priorityStrategy",
                "key of a label",
            ),
            (json!({"scatterStrategy": scatter}), "scatterStrategy", "once is enough"),
            (json!({"scatterStrategy": [{"key": "", "value": ""}]}), "scatterStrategy", "key of a label"),
            (
                json!({"inPlaceUpdateStrategy": {"gracePeriodSeconds": -1}}),
                "inPlaceUpdateStrategy.gracePeriodSeconds",
                "0",
            ),
        ];
        let mut rows = Vec::new();
        for (strategy, field, text) in tables {
            rows.push((cs_demo(json!({"updateStrategy": strategy})), field, text));
            rows.push((beta(json!({"updateStrategy": {"rollingUpdate": strategy}})), field, text));
        }
        rows.push((
            cs_demo(json!({"updateStrategy": {"type": "Recreate"}})),
            "spec.updateStrategy.type",
            "InPlaceIfPossible",
        ));
        rows.push((
            beta(json!({"updateStrategy": {"type": "ReCreate"}})),
            "spec.updateStrategy.type",
            "RollingUpdate",
        ));
        let policy = json!({"updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "Never"}}});
        rows.push((beta(policy), "spec.updateStrategy.rollingUpdate.podUpdatePolicy", "InPlaceOnly"));
        let parallel = json!({"updateStrategy": {"rollingUpdate": {"inPlaceUpdateStrategy": {"imagePreDownloadParallelism": "5%"}}}});
        rows.push((beta(parallel), "imagePreDownloadParallelism", "not a percentage"));
        refuses(stage, rows).await
    })
}

#[test]
fn a_selector_must_not_change_and_a_template_of_the_documents_without_spec_is_refused() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        stage.apply(&cs_demo(json!({"replicas": 0})))?;
        let labels = json!({"app": "cs", "b": "c"});
        let other = json!({"selector": {"matchLabels": {"app": null, "b": "c"}}, "template": {"metadata": {"labels": labels}}});
        let said = stage.refused(&cs_demo(merged(&json!({"replicas": 0}), &other)))?;
        assert!(said.contains("spec: Forbidden: selector must not change"), "{said}");
        assert!(said.contains("Make another cloneset instead"), "{said}");

        // CLN-28 as it is printed: the containers stand beside the metadata.
        let mut printed = cs_demo(json!({}));
        printed["metadata"]["name"] = json!("printed");
        printed["spec"]["template"] =
            json!({"metadata": {"labels": {"app": "cs"}}, "containers": [container("nginx")]});
        let (code, message) = refusal(stage, &printed).await?;
        assert!(code == 422 && message.contains("spec.template.spec.containers"), "{code} {message}");
        Ok(())
    })
}

#[test]
fn a_protected_cloneset_is_not_deleted_before_it_is_empty() -> Result<()> {
    stage::on(GATED, async |stage| {
        let label = json!({"metadata": {"labels": {"policy.kruise.io/delete-protection": "Cascading"}}});
        stage.apply(&merged(&cs_demo(json!({"replicas": 1})), &label))?;
        let Err(error) = stage.kubectl(&["delete", "cloneset", "cs-demo"]) else { bail!("it was deleted") };
        let said = format!("{error:#}");
        assert!(said.contains("while spec.replicas is 1; scale to 0 or remove the label first"), "{said}");
        stage.kubectl(&["scale", "cloneset", "cs-demo", "--replicas=0"])?;
        stage.complete("cs-demo", 0).await?;
        stage.kubectl(&["delete", "cloneset", "cs-demo"]).map(drop)
    })
}

#[test]
fn what_will_do_nothing_is_accepted_with_a_warning() -> Result<()> {
    stage::on(PLAIN, async |stage| {
        let said = stage.apply(&cs_demo(json!({
            "replicas": 0,
            "lifecycle": {"inPlaceUpdate": {"finalizersHandler": ["example.io/f"]}},
        })))?;
        assert!(said.contains("Warning: spec.lifecycle.inPlaceUpdate has no effect unless"), "{said}");
        assert!(said.contains("created"), "{said}");
        Ok(())
    })
}
