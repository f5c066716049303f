//! Where every run must end in fair weather.

use std::collections::BTreeSet;

use sim::World;

use super::{
    agent::Agents,
    ledger::Ledger,
    objects::{self, Pod, Set},
    run::pass,
};

/// Whether everything is as the spec wants it.
pub(super) fn is_as_wanted(world: &World) -> Result<(), String> {
    let set = objects::set(world).ok_or("the CloneSet is gone")?;
    let pods = objects::pods(world);
    let active: Vec<&Pod> = pods.iter().filter(|it| it.is_active).collect();
    let same = |what: &str, is: i64, should: i64| match is == should {
        true => Ok(()),
        false => Err(format!("{what}: {is} instead of {should}")),
    };
    let count = |it: usize| it as i64;
    let replicas = set.limits.replicas;
    let min_ready = set.limits.min_ready_seconds;
    let is_available = |it: &&&Pod| it.is_available(min_ready, world.now());
    same("active pods", count(active.len()), replicas)?;
    same("pods on their way out", count(pods.len() - active.len()), 0)?;
    same("available pods", count(active.iter().filter(is_available).count()), replicas)?;
    same("marked pods", count(active.iter().filter(|it| it.is_marked).count()), 0)?;
    same("names of pods to delete", count(set.object.spec.scale_strategy.pods_to_delete.len()), 0)?;
    releases(&set, &active)?;
    status(&set, &active)?;
    claims(world, &set, &active)?;
    history(world, &set, &active)
}

fn releases(set: &Set, active: &[&Pod]) -> Result<(), String> {
    let updated = active.iter().filter(|it| it.release == set.release).count() as i64;
    let kept = set.limits.replicas - set.limits.expected_updated().unwrap_or_default();
    // A partition that grows takes no pod back, so more may be updated. Pods of a release that the user has taken back are
    // old as well, and kept by the partition even where the revisions before and after are the same.
    match active.len() as i64 - updated <= kept.max(0) {
        true => Ok(()),
        false => Err(format!("{updated} of {} pods are updated, {kept} may be kept", active.len())),
    }
}

fn status(set: &Set, active: &[&Pod]) -> Result<(), String> {
    let status = set.object.status.clone().unwrap_or_default();
    let updated = active.iter().filter(|it| it.release == set.release).count();
    let said = [
        status.observed_generation,
        status.replicas.into(),
        status.ready_replicas.into(),
        status.available_replicas.into(),
        status.updated_replicas.into(),
        status.updated_ready_replicas.into(),
        status.updated_available_replicas.into(),
        status.expected_updated_replicas.into(),
    ];
    let (all, updated) = (active.len() as i64, updated as i64);
    let generation = set.object.metadata.generation.unwrap_or_default();
    let expected = set.limits.expected_updated().unwrap_or_default();
    let is = [generation, all, all, all, updated, updated, updated, expected];
    if said != is {
        return Err(format!("the status says {said:?} instead of {is:?}"));
    }
    match status.conditions.iter().find(|it| it.type_.starts_with("Failed") && it.status == "True") {
        Some(it) => Err(format!("a condition still says {}: {}", it.type_, it.message)),
        None => Ok(()),
    }
}

/// Every pod has its claims. What is left beyond them must be there to be used again.
fn claims(world: &World, set: &Set, active: &[&Pod]) -> Result<(), String> {
    let claims = objects::claims(world);
    let templates = set.object.spec.volume_claim_templates.len();
    let ids: BTreeSet<&str> = active.iter().map(|it| &*it.id).collect();
    let used = claims.values().filter(|it| ids.contains(&***it)).count();
    if used != templates * active.len() {
        return Err(format!("{used} claims for {} pods with {templates} each", active.len()));
    }
    match claims.len() > used && !set.object.spec.scale_strategy.enable_pvc_reuse {
        true => Err(format!("{} claims serve nobody", claims.len() - used)),
        false => Ok(()),
    }
}

fn history(world: &World, set: &Set, active: &[&Pod]) -> Result<(), String> {
    let status = set.object.status.clone().unwrap_or_default();
    let is_live = |name: &str, release: &str| {
        name == status.update_revision
            || name == status.current_revision
            || active.iter().any(|it| it.release == release)
    };
    let revisions = objects::revisions(world);
    let releases: BTreeSet<&String> = revisions.values().collect();
    if releases.len() != revisions.len() {
        return Err(format!("two revisions record the same: {revisions:?}"));
    }
    let idle = revisions.iter().filter(|it| !is_live(it.0, it.1)).count() as i32;
    let limit = set.object.spec.revision_history_limit.unwrap_or(10);
    match idle > limit {
        true => Err(format!("{idle} old revisions, {limit} may be kept")),
        false => Ok(()),
    }
}

/// Waits until everything is as wanted, for at most an hour.
pub(super) async fn reach(world: &World, ledger: &Ledger) -> Result<(), String> {
    let mut last = Ok(());
    for _ in 0..720 {
        pass(world, 5).await;
        if let Some(broken) = ledger.broken() {
            return Err(broken);
        }
        last = is_as_wanted(world);
        if last.is_ok() {
            return Ok(());
        }
    }
    last.map_err(|it| {
        let pods: Vec<String> = objects::pods(world).iter().map(Pod::told).collect();
        with_log(world, &format!("an hour of fair weather did not do: {it}\n{}", pods.join("\n")))
    })
}

/// A while in which nothing has to be done, and then a restart: nobody writes anything.
pub(super) async fn stay(world: &World, agents: &Agents, seconds: u64) -> Result<(), String> {
    // What was asked for twice may still be noticed once.
    pass(world, 120).await;
    let at_rest = objects::written(world);
    pass(world, seconds).await;
    unchanged(world, "a quiet time", &at_rest)?;
    agents.crash();
    pass(world, 120).await;
    unchanged(world, "a restart at rest", &at_rest)?;
    is_as_wanted(world).map_err(|it| with_log(world, &it))
}

fn unchanged(world: &World, when: &str, before: &[String]) -> Result<(), String> {
    let after = objects::written(world);
    match after.iter().find(|it| !before.contains(it)) {
        None if after.len() == before.len() => Ok(()),
        None => Err(with_log(world, &format!("in {when} something was deleted"))),
        Some(it) => Err(with_log(world, &format!("in {when} somebody wrote {it}"))),
    }
}

fn with_log(world: &World, what: &str) -> String {
    format!("{what}\n{}", world.log().last(super::shown()).join("\n"))
}
