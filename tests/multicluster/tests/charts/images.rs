//! The recipe of the images fits the charts that run them. Building them needs a container engine and is not done here.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::{
    chart::{Chart, HUB, MEMBER},
    render::pods,
};

fn at_the_top(file: &str) -> Result<String> {
    let path = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))
}

/// What the images of a chart are called, without registry and version, and whether somebody names a program in them.
fn run_by(chart: Chart) -> Result<Vec<(String, bool)>> {
    let objects = chart.render(&[])?;
    let containers = pods(&objects).into_iter().map(|(_, pod)| pod["containers"][0].clone());
    let named = containers.map(|it: Value| {
        let image = it["image"].as_str().context("a container has an image")?;
        let (_, name) = image.rsplit_once('/').context("an image is in a repository")?;
        let (name, _) = name.split_once(':').context("an image has a version")?;
        Ok((name.to_owned(), it["command"].is_array()))
    });
    named.collect()
}

#[test]
fn every_image_of_the_charts_is_a_target_that_starts_its_program() -> Result<()> {
    let recipe = at_the_top("deploy/Dockerfile")?;
    let images = [run_by(HUB)?, run_by(MEMBER)?].concat();
    assert_eq!(images.len(), 3, "hub, manager and daemon: {images:?}");
    for (image, names_its_program) in images {
        let from = format!("FROM base AS {image}\n");
        let target = recipe.split_once(&from).with_context(|| format!("no target {image}"))?.1;
        let target = target.split("\nFROM ").next().unwrap_or_default();
        assert!(target.contains(&format!("COPY --from=build /out/{image} /{image}\n")), "{target}");
        assert!(target.contains(&format!("ENTRYPOINT [\"/{image}\"]")), "{target}");
        assert!(!names_its_program, "{image}: the chart gives arguments only");
    }
    Ok(())
}

#[test]
fn images_are_built_by_the_compiler_of_the_workspace() -> Result<()> {
    let toolchain = at_the_top("rust-toolchain.toml")?;
    let channel =
        toolchain.split_once("channel = \"").and_then(|it| it.1.split_once('"')).context("a channel")?.0;
    let recipe = at_the_top("deploy/Dockerfile")?;
    assert!(recipe.contains(&format!("\nARG RUST=docker.io/library/rust:{channel}-")), "{channel}");
    Ok(())
}
