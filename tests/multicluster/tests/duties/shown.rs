//! What a person sees of downloads and restarts with kubectl alone.

use anyhow::{Context, Result};
use multicluster::eventually;
use serde_json::json;

use crate::support::Stage;

impl Stage {
    fn get(&self, what: &[&str]) -> Result<String> {
        self.cluster.kubectl(&[&["--namespace", self.namespace.as_str()][..], what].concat())
    }

    /// The first line of a table, and the line of one object.
    fn row(&self, kind: &str, name: &str) -> Result<(Vec<String>, Vec<String>)> {
        let table = self.get(&["get", kind, name])?;
        let words = |it: &str| it.split_whitespace().map(str::to_owned).collect();
        let mut lines = table.lines();
        let (header, row) =
            (lines.next().context("there is a header")?, lines.next().context("there is a row")?);
        Ok((words(header), words(row)))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_and_descriptions_say_which_nodes_failed_and_why() -> Result<()> {
    let stage = Stage::set().await?;
    let once = json!({"parallelism": 10, "pullPolicy": {"backoffLimit": 0}});
    stage.job("absent", &stage.registry.image("late/absent", "1"), once.clone()).await?;
    stage.job("there", &stage.registry.image("open/there", "1"), once).await?;
    let nodes = stage.nodes().to_string();
    for (job, succeeded, failed) in [("absent", "0", nodes.as_str()), ("there", nodes.as_str(), "0")] {
        stage.finished(job).await?;
        let (header, row) = stage.row("imagepulljob", job)?;
        assert_eq!(header, ["NAME", "TOTAL", "ACTIVE", "SUCCEED", "FAILED", "AGE"]);
        assert_eq!(row[..5], [job, &nodes, "0", succeeded, failed]);
    }
    let first = &stage.duties.places[0].name;
    let (header, row) = stage.row("nodeimage", first)?;
    assert_eq!(header, ["NAME", "DESIRED", "PULLING", "SUCCEED", "FAILED", "AGE"]);
    assert_eq!(row[0], *first);
    let described = eventually("every node's failure is told", async || {
        let described = stage.get(&["describe", "imagepulljob", "absent"])?;
        let is_told = |name: &str| described.contains(&format!("(node {name})"));
        Ok(stage.duties.places.iter().all(|it| is_told(&it.name)).then_some(described))
    })
    .await?;
    for wanted in ["Failed Nodes:", "job has completed", "PullImageFailed", "not found"] {
        assert!(described.contains(wanted), "{wanted}: {described}");
    }
    let image = format!("{}/open/there", stage.registry.host);
    eventually("the node tells of the download", async || {
        let described = stage.cluster.kubectl(&["describe", "nodeimage", first])?;
        let is_told = described.lines().any(|it| it.contains("PullImageSucceed") && it.contains(&image));
        Ok(is_told.then_some(()))
    })
    .await?;

    stage.pod("web", json!({"containers": [{"name": "app", "image": "lab/sleep:1"}]})).await?;
    stage.request("again", "web", &["app"], json!({})).await?;
    stage.completed("again").await?;
    let (header, row) = stage.row("crr", "again")?;
    assert_eq!(header, ["NAME", "PHASE", "POD", "NODE", "AGE"]);
    assert_eq!(row[..3], ["again", "Completed", "web"]);
    assert!(stage.duties.places.iter().any(|it| it.name == row[3]), "{row:?}");
    stage.end().await
}
