//! Images that are downloaded ahead of an update in place.

use anyhow::{Result, ensure};
use multicluster::eventually;
use serde_json::{Value, json};

use crate::kit::{Disturbs, Stage, on, rolling, web};

fn jobs(stage: &Stage) -> Result<Vec<Value>> {
    let list: Value =
        serde_json::from_str(&stage.kubectl(&["get", "imagepulljobs.apps.kruise.io", "-o", "json"])?)?;
    Ok(list["items"].as_array().cloned().unwrap_or_default())
}

#[test]
fn rel_11_a_job_of_the_fleet_comes_with_a_release_and_goes_with_it() -> Result<()> {
    on(Disturbs::Nothing, async |stage| {
        let spec = |partition: Value| {
            rolling(json!({
                "podUpdatePolicy": "InPlaceIfPossible", "partition": partition,
                "inPlaceUpdateStrategy": {"imagePreDownloadParallelism": 2},
            }))
        };
        stage.apply(&web(6, "lab/web:1", spec(json!("50%"))))?;
        stage.rests(6, "lab/web:1", 6).await?;
        ensure!(jobs(stage)?.is_empty(), "nothing changes");
        stage.apply(&web(6, "lab/web:2", spec(json!("50%"))))?;
        let job = eventually("there is a job", async || Ok(jobs(stage)?.pop())).await?;
        assert_eq!((&job["spec"]["image"], &job["spec"]["parallelism"]), (&json!("lab/web:2"), &json!(2)));
        assert_eq!(job["metadata"]["ownerReferences"][0]["uid"], stage.web().await?["metadata"]["uid"]);
        stage.event("CreatedImagePullJob created ImagePullJob web-").await?;
        stage.rests(6, "lab/web:2", 3).await?;
        stage.apply(&web(6, "lab/web:2", spec(json!(0))))?;
        stage.rests(6, "lab/web:2", 6).await?;
        eventually("the job is gone", async || Ok(jobs(stage)?.is_empty().then_some(()))).await
    })
}
