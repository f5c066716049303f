//! Numbers of a policy, judged as the user wrote them: the types alone could not name the field.

use kruise_core::runtime::webhook::FieldError;
use scheduling::numbers::{IntOrPercent, MAX_REPLICAS, MAX_WEIGHT, Percent, Rounding};
use serde_json::{Value, json};

/// What is wrong with the numbers of a policy.
pub(super) fn faults(spec: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    for (place, it) in items(spec, "/replicas/weights") {
        let path = format!("spec.replicas.weights[{place}].weight");
        faults.extend(range_fault(&path, it.get("weight"), u64::from(MAX_WEIGHT)));
        if it.get("weight").is_none_or(Value::is_null) {
            faults.push(FieldError::required(path, "a weight from 0 to 10000"));
        }
    }
    for (place, it) in items(spec, "/replicas/perCluster") {
        let path = format!("spec.replicas.perCluster[{place}]");
        let most = u64::from(MAX_REPLICAS);
        faults.extend(range_fault(&format!("{path}.min"), it.get("min"), most));
        faults.extend(range_fault(&format!("{path}.max"), it.get("max"), most));
        if let (Some(min), Some(max)) = (number(it.get("min")), number(it.get("max")))
            && min > max
        {
            let detail = format!("must not be above max, which is {max}");
            faults.push(FieldError::invalid(format!("{path}.min"), json!(min), detail));
        }
    }
    for (place, it) in items(spec, "/spread") {
        faults.extend(spread_faults(&format!("spec.spread[{place}]"), it));
    }
    faults.extend(rebalance_faults(spec.get("rebalance").unwrap_or(&Value::Null)));
    let share = |pointer: &str| percent_fault(&path(pointer), spec.pointer(pointer));
    faults.extend(share("/failover/maxOverlap"));
    faults.extend(share("/rollout/prePull/threshold"));
    for (place, it) in items(spec, "/rollout/waves") {
        let path = format!("spec.rollout.waves[{place}].maxConcurrency");
        let Some(value) = it.get("maxConcurrency").filter(|it| !it.is_null()) else { continue };
        match kruise_core::admission::numbers::read(&path, value) {
            Err(fault) => faults.push(fault),
            Ok(number) if number.is_zero() => {
                faults.push(FieldError::invalid(path, value.clone(), "must be at least 1, or above 0%"));
            }
            Ok(_) => {}
        }
    }
    faults
}

fn spread_faults(path: &str, rule: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    for name in ["minGroups", "maxGroups"] {
        if let Some(value) = rule.get(name).filter(|it| !it.is_null())
            && value.as_u64().is_none_or(|it| it < 1)
        {
            let detail = "must be an integer of at least 1";
            faults.push(FieldError::invalid(format!("{path}.{name}"), value.clone(), detail));
        }
    }
    let least = number(rule.get("minGroups")).unwrap_or(1);
    if number(rule.get("maxGroups")).is_some_and(|it| it < least) {
        let detail = "must not be above maxGroups";
        faults.push(FieldError::invalid(format!("{path}.minGroups"), json!(least), detail));
    }
    let share = rule.get("maxShare").filter(|it| !it.is_null());
    let fault = percent_fault(&format!("{path}.maxShare"), share);
    let is_nothing =
        share.and_then(Value::as_str).and_then(|it| Percent::parse(it).ok()).is_some_and(Percent::is_zero);
    if is_nothing {
        let detail = "must be above 0%: no group could have a replica";
        faults.push(FieldError::invalid(format!("{path}.maxShare"), json!(share), detail));
    }
    faults.extend(fault);
    faults
}

fn rebalance_faults(rules: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let mut read = |name: &str, default: IntOrPercent| {
        let path = format!("spec.rebalance.{name}");
        match rules.get(name).filter(|it| !it.is_null()) {
            None => Some(default),
            Some(value) => {
                kruise_core::admission::numbers::read(&path, value).map_err(|it| faults.push(it)).ok()
            }
        }
    };
    let surge = read("maxSurge", IntOrPercent::Percent(Percent::whole(10)));
    let unavailable = read("maxUnavailable", IntOrPercent::Int(0));
    read("maxMoves", IntOrPercent::Percent(Percent::whole(10)));
    if surge.is_some_and(IntOrPercent::is_zero) && unavailable.is_some_and(IntOrPercent::is_zero) {
        let value = rules.get("maxUnavailable").cloned().unwrap_or(json!(0));
        let detail = "maxSurge and maxUnavailable must not both be 0: no move could ever be made";
        faults.push(FieldError::invalid("spec.rebalance.maxUnavailable", value, detail));
    }
    faults.extend(percent_fault("spec.rebalance.tolerance", rules.get("tolerance")));
    faults
}

/// A percentage from 0% to 100%. Nothing there is no fault.
fn percent_fault(path: &str, value: Option<&Value>) -> Option<FieldError> {
    let value = value.filter(|it| !it.is_null())?;
    let percent = value.as_str().and_then(|it| Percent::parse(it).ok());
    let is_whole = percent.is_some_and(|it| it.of(100, Rounding::Up) == it.of(100, Rounding::Down));
    let fits = percent.is_some_and(|it| !it.is_above_hundred()) && is_whole;
    (!fits).then(|| FieldError::invalid(path, value.clone(), "must be a whole percentage from 0% to 100%"))
}

fn range_fault(path: &str, value: Option<&Value>, most: u64) -> Option<FieldError> {
    let value = value.filter(|it| !it.is_null())?;
    let fits = value.as_u64().is_some_and(|it| it <= most);
    (!fits).then(|| FieldError::invalid(path, value.clone(), format!("must be an integer from 0 to {most}")))
}

fn number(value: Option<&Value>) -> Option<u64> {
    value.and_then(Value::as_u64)
}

fn items<'a>(spec: &'a Value, pointer: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    spec.pointer(pointer).and_then(Value::as_array).into_iter().flatten().enumerate()
}

fn path(pointer: &str) -> String {
    format!("spec{}", pointer.replace('/', "."))
}
