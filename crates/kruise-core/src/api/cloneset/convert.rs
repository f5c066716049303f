//! CloneSet between v1alpha1 and v1beta1.

use serde_json::{Map, Value};

use super::{keys, v1alpha1, v1beta1};
use crate::api::convert::{Facet, Path, Shape, Version, decodes_as};

/// How CloneSets are converted.
pub(crate) const SHAPE: Shape =
    Shape { to_beta, to_alpha, facets, decodes: decodes_as::<v1alpha1::CloneSet, v1beta1::CloneSet> };

const ON_DELETE: &str = "OnDelete";
const ROLLING_UPDATE: &str = "RollingUpdate";
const RECREATE: &str = "ReCreate";

/// Fields that are directly under `updateStrategy` in v1alpha1 and under `rollingUpdate` in v1beta1.
const MOVED: [&str; 6] =
    ["partition", "maxUnavailable", "maxSurge", "paused", "priorityStrategy", "scatterStrategy"];

/// Annotations of v1alpha1 and the fields of `inPlaceUpdateStrategy` that stand for them in v1beta1.
const PREDOWNLOAD: [(&str, &str); 3] = [
    (keys::PREDOWNLOAD_PARALLELISM, "imagePreDownloadParallelism"),
    (keys::PREDOWNLOAD_TIMEOUT_SECONDS, "imagePreDownloadTimeoutSeconds"),
    (keys::PREDOWNLOAD_MIN_UPDATED_READY_PODS, "imagePreDownloadMinUpdatedReadyPods"),
];

fn to_beta(object: &mut Value) {
    let label = Path::label(keys::SCALING_EXCLUDE_PREPARING_DELETE);
    let excluded = label.get(object).and_then(Value::as_str) == Some("true");
    let predownload = predownload_of_annotations(object);
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };

    if let Some(mut scale) = take_fields(spec, "scaleStrategy") {
        let disabled = scale.remove("disablePVCReuse").as_ref().and_then(Value::as_bool).unwrap_or(false);
        if excluded {
            scale.insert("excludePreparingDelete".to_owned(), true.into());
        }
        // Reuse is off by default in v1beta1: a strategy that says only that need not be there.
        if !disabled || !scale.is_empty() {
            scale.insert("enablePVCReuse".to_owned(), (!disabled).into());
            spec.insert("scaleStrategy".to_owned(), scale.into());
        }
    }
    if let Some(strategy) = take_fields(spec, "updateStrategy") {
        spec.insert("updateStrategy".to_owned(), update_to_beta(strategy, predownload).into());
    }
}

fn update_to_beta(mut rolling: Map<String, Value>, predownload: Map<String, Value>) -> Map<String, Value> {
    let old_type = rolling.remove("type");
    let mut strategy = Map::new();
    if old_type.as_ref().and_then(Value::as_str) == Some(ON_DELETE) {
        strategy.insert("type".to_owned(), ON_DELETE.into());
        return strategy;
    }

    let policy = match old_type.as_ref().and_then(Value::as_str) {
        Some(known @ ("InPlaceIfPossible" | "InPlaceOnly")) => known,
        _ => RECREATE,
    };
    rolling.insert("podUpdatePolicy".to_owned(), policy.into());
    let in_place = rolling.remove("inPlaceUpdateStrategy");
    if in_place.is_some() || !predownload.is_empty() {
        let grace = in_place.as_ref().and_then(|it| it.get("gracePeriodSeconds"));
        let mut in_place: Map<String, Value> =
            grace.map(|it| ("gracePeriodSeconds".to_owned(), it.clone())).into_iter().collect();
        in_place.extend(predownload);
        rolling.insert("inPlaceUpdateStrategy".to_owned(), in_place.into());
    }
    strategy.insert("type".to_owned(), ROLLING_UPDATE.into());
    strategy.insert("rollingUpdate".to_owned(), rolling.into());
    strategy
}

fn predownload_of_annotations(object: &Value) -> Map<String, Value> {
    let mut fields = Map::new();
    for (annotation, field) in PREDOWNLOAD {
        let text = Path::annotation(annotation).get(object).and_then(Value::as_str).unwrap_or_default();
        let value = match text.parse::<i32>() {
            Ok(number) => Some(number.into()),
            // Only parallelism may be more than a number; what it may be is for admission to say.
            Err(_) if annotation == keys::PREDOWNLOAD_PARALLELISM && !text.is_empty() => Some(text.into()),
            Err(_) => None,
        };
        fields.extend(value.map(|it| (field.to_owned(), it)));
    }
    fields
}

fn to_alpha(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if let Some(mut scale) = take_fields(spec, "scaleStrategy") {
        let enabled = scale.remove("enablePVCReuse").as_ref().and_then(Value::as_bool).unwrap_or(false);
        scale.remove("excludePreparingDelete");
        if !enabled {
            scale.insert("disablePVCReuse".to_owned(), true.into());
        }
        if !scale.is_empty() {
            spec.insert("scaleStrategy".to_owned(), scale.into());
        }
    }
    let Some(strategy) = take_fields(spec, "updateStrategy") else { return };
    let (strategy, annotations) = update_to_alpha(strategy);
    spec.insert("updateStrategy".to_owned(), strategy.into());
    for (key, text) in annotations {
        Path::annotation(key).set(object, Some(text.into()));
    }
}

fn update_to_alpha(mut strategy: Map<String, Value>) -> (Map<String, Value>, Vec<(&'static str, String)>) {
    let on_delete = strategy.get("type").and_then(Value::as_str) == Some(ON_DELETE);
    let mut alpha = match strategy.remove("rollingUpdate") {
        Some(Value::Object(rolling)) => rolling,
        _ => Map::new(),
    };
    let policy = alpha.remove("podUpdatePolicy");
    let new_type = match policy.as_ref().and_then(Value::as_str) {
        _ if on_delete => ON_DELETE,
        Some(known @ ("InPlaceIfPossible" | "InPlaceOnly")) => known,
        _ => RECREATE,
    };
    alpha.insert("type".to_owned(), new_type.into());

    let mut annotations = Vec::new();
    if let Some(Value::Object(in_place)) = alpha.remove("inPlaceUpdateStrategy") {
        for (annotation, field) in PREDOWNLOAD {
            match in_place.get(field) {
                Some(Value::Number(number)) => annotations.push((annotation, number.to_string())),
                Some(Value::String(text)) => annotations.push((annotation, text.clone())),
                _ => {}
            }
        }
        let grace = in_place.get("gracePeriodSeconds").filter(|it| it.as_i64() != Some(0));
        if grace.is_some() || !annotations.is_empty() {
            let in_place: Map<String, Value> =
                grace.map(|it| ("gracePeriodSeconds".to_owned(), it.clone())).into_iter().collect();
            alpha.insert("inPlaceUpdateStrategy".to_owned(), in_place.into());
        }
    }
    (alpha, annotations)
}

/// Takes a field that should be an object; absent ones count as empty, others stay where they are.
fn take_fields(spec: &mut Map<String, Value>, name: &str) -> Option<Map<String, Value>> {
    match spec.remove(name) {
        None | Some(Value::Null) => Some(Map::new()),
        Some(Value::Object(fields)) => Some(fields),
        Some(other) => {
            spec.insert(name.to_owned(), other);
            None
        }
    }
}

fn facets(version: Version, _: &Value) -> Vec<Facet> {
    match version {
        Version::Alpha => alpha_facets(),
        Version::Beta => beta_facets(),
    }
}

fn alpha_facets() -> Vec<Facet> {
    let (scale, update) = (Path::fields("spec.scaleStrategy"), Path::fields("spec.updateStrategy"));
    let (beta_type, rolling) = (update.clone().field("type"), update.clone().field("rollingUpdate"));
    let in_place = |strategy: &Path| strategy.clone().field("inPlaceUpdateStrategy");

    let mut facets = vec![
        Facet::new(scale.clone().field("disablePVCReuse"), [scale.clone().field("enablePVCReuse")]),
        Facet::new(
            update.clone().field("type"),
            [beta_type.clone(), rolling.clone().field("podUpdatePolicy")],
        ),
    ];
    // OnDelete has no place for these in v1beta1.
    facets.extend(
        MOVED.map(|it| Facet::new(update.clone().field(it), [beta_type.clone(), rolling.clone().field(it)])),
    );
    for (annotation, field) in PREDOWNLOAD {
        let beta = in_place(&rolling).field(field);
        facets.push(Facet::new(in_place(&update).field(field), [beta_type.clone(), beta.clone()]));
        facets.push(Facet::new(Path::annotation(annotation), [beta, Path::annotation(annotation)]));
    }
    facets.push(Facet::new(in_place(&update), [beta_type, in_place(&rolling)]));
    facets.push(Facet::new(scale.clone(), [scale]));
    facets.push(Facet::new(update.clone(), [update]));
    facets
}

fn beta_facets() -> Vec<Facet> {
    let (scale, update) = (Path::fields("spec.scaleStrategy"), Path::fields("spec.updateStrategy"));
    let (alpha_type, rolling) = (update.clone().field("type"), update.clone().field("rollingUpdate"));
    let in_place = |strategy: &Path| strategy.clone().field("inPlaceUpdateStrategy");

    let mut facets = vec![
        Facet::new(
            scale.clone().field("excludePreparingDelete"),
            [Path::label(keys::SCALING_EXCLUDE_PREPARING_DELETE)],
        ),
        Facet::new(scale.clone().field("enablePVCReuse"), [scale.clone().field("disablePVCReuse")]),
        Facet::new(update.clone().field("type"), [alpha_type.clone()]),
        Facet::new(rolling.clone().field("podUpdatePolicy"), [alpha_type.clone()]),
    ];
    facets.extend(
        MOVED.map(|it| Facet::new(rolling.clone().field(it), [alpha_type.clone(), update.clone().field(it)])),
    );
    let grace = |strategy: &Path| in_place(strategy).field("gracePeriodSeconds");
    facets.push(Facet::new(grace(&rolling), [alpha_type.clone(), grace(&update)]));
    for (annotation, field) in PREDOWNLOAD {
        let beta = in_place(&rolling).field(field);
        facets.push(Facet::new(beta, [alpha_type.clone(), Path::annotation(annotation)]));
        // The field is written over the annotation of the same name.
        facets.push(Facet::new(Path::annotation(annotation), [Path::annotation(annotation)]));
    }
    let alpha_in_place: Vec<_> = [alpha_type, in_place(&update)]
        .into_iter()
        .chain(PREDOWNLOAD.map(|(annotation, _)| Path::annotation(annotation)))
        .collect();
    facets.push(Facet::new(in_place(&rolling), alpha_in_place));
    facets.push(Facet::new(scale.clone(), [scale, Path::label(keys::SCALING_EXCLUDE_PREPARING_DELETE)]));
    facets.push(Facet::new(rolling, [update.clone()]));
    facets.push(Facet::new(update.clone(), [update]));
    facets
}
