//! Faults stop: the fleet must come to what the user asked for, and then be quiet.

use scheduling::{
    ledger::Revision,
    release::Gate,
    round::Numbers,
    split::{Mode, State},
};

use crate::{
    fleet::{Broken, Fleet},
    member::Member,
};

pub(crate) fn come_to_rest(fleet: &mut Fleet) -> Result<(), Broken> {
    fleet.faults = false;
    for member in &mut fleet.members {
        member.online = true;
    }
    fleet.given_up.fill(false);
    fleet.spec.paused = false;
    for flag in &mut fleet.flags {
        // The kind is there at last, and the first report.
        if matches!(flag, State::Unsupported | State::Pending) {
            *flag = State::Ready;
        }
    }
    if fleet.flags.iter().all(|it| *it != State::Ready) {
        fleet.flags.fill(State::Ready);
    }
    if fleet.members.len() >= 10 {
        // One share that goes round dozens of clusters takes long, and shows nothing that a small fleet does not.
        fleet.spec.unavailable = fleet.spec.unavailable.max(4);
    }
    let lenient = end_of_edits(fleet);
    fleet.log(|| format!("faults end {:?} lenient {lenient}", fleet.spec));
    // One share may have to go round all clusters, pod by pod.
    let patience = fleet.members.len() * (2500 + 40 * fleet.replicas() as usize) + 500 * fleet.waves.len();
    for turn in 0..patience {
        fleet.step()?;
        if turn % 20 == 19 {
            fleet.approve_all();
            if is_at_rest(fleet, lenient) {
                let writes = fleet.writes;
                for _ in 0..30 * fleet.members.len() {
                    fleet.step()?;
                }
                if fleet.writes == writes && is_at_rest(fleet, lenient) {
                    return Ok(());
                }
            }
        }
    }
    Err(Broken(format!("no rest (lenient {lenient}): {}", describe(fleet))))
}

/// A last template that can work. True where a partition may keep pods of one that cannot.
fn end_of_edits(fleet: &mut Fleet) -> bool {
    let broken_pods = fleet.members.iter().flat_map(|it| &it.pods).any(|it| fleet.bad.contains(&it.revision));
    let current = [fleet.spec.target, fleet.ledger.target, fleet.ledger.stable];
    if fleet.bad.contains(&Revision(1)) {
        // Broken pods in clusters of later waves hold earlier waves too: order Proportional is the way out (REL-12).
        fleet.waves.clear();
        // And a gate could only send the fleet back to what never worked.
        fleet.rules.gate = Gate::default();
    }
    if current.iter().any(|it| fleet.bad.contains(it)) {
        fleet.edit_template();
        fleet.spec.partition = 0;
        return false;
    }
    if broken_pods && !(fleet.dice.permille(500) && fleet.waves.is_empty()) {
        fleet.spec.partition = 0;
    }
    broken_pods
}

fn is_at_rest(fleet: &Fleet, lenient: bool) -> bool {
    let (spec, ledger) = (&fleet.spec, &fleet.ledger);
    if ledger.rows.iter().any(|it| it.lost) {
        return false;
    }
    let granted: u32 = fleet.members.iter().map(|it| it.share.replicas).sum();
    // Replicas that may stay nowhere, but run, are kept while there is no room elsewhere.
    let wanted = fleet.replicas() as u32;
    let replicas = wanted.saturating_sub(fleet.unplaced as u32);
    let placed = (replicas..=wanted).contains(&granted)
        || (lenient && granted + fleet.rules.move_unavailable >= replicas);
    let complete = fleet.members.iter().all(|it| {
        let well = it.pods.iter().all(|pod| pod.available || (lenient && fleet.bad.contains(&pod.revision)));
        // A marked pod stays while its successor cannot start: no cluster without maxUnavailable gets past that.
        let waits = lenient && it.share.unavailable == 0 && it.pods.iter().any(|pod| pod.marked);
        (it.pods.len() as u32 == it.share.replicas || waits) && well
    });
    let drained = lenient || (0..fleet.members.len()).all(|it| is_emptied(fleet, it));
    let followed = ledger.target == spec.target || ledger.rolled_back == Some(spec.target);
    // What one has too many makes up for no other's lack (SPLIT-6).
    let even = lenient
        || fleet.mode != Mode::Duplicated
        || fleet.members.iter().all(|it| it.share.replicas <= spec.replicas);
    // REV-13: nothing is kept old, so the release is over.
    let ended = lenient || spec.partition > 0 || ledger.target == ledger.stable;
    followed && ended && placed && complete && drained && even && is_exact(fleet)
}

fn is_emptied(fleet: &Fleet, index: usize) -> bool {
    let leaves = matches!(fleet.flags[index], State::Draining | State::Excluded);
    // With nowhere to go the pods stay.
    !leaves || fleet.unplaced > 0 || fleet.members[index].share.replicas == 0
}

/// As many pods of the target as asked for; more only where the partition was raised or replicas were taken away.
fn is_exact(fleet: &Fleet) -> bool {
    let ledger = &fleet.ledger;
    if ledger.target == ledger.stable {
        return true;
    }
    if fleet.spec.numbers == Numbers::PerCluster {
        let rolls_back = fleet.rules.partition_rollback;
        return fleet.check.each.is_exact(&fleet.spec, ledger, &fleet.members, rolls_back);
    }
    let updated: u32 = fleet.members.iter().map(|it| it.of(ledger.target)).sum();
    let asked = fleet.replicas().saturating_sub(fleet.spec.partition) as u32;
    let all: u32 = fleet.members.iter().map(|it| it.pods.len() as u32).sum();
    let asked = asked.min(all);
    if updated < asked && waits_for_all_of_it(fleet, asked - updated) {
        return true;
    }
    // What cannot run old pods beside new ones cannot go back to them either.
    let stays = fleet.members.iter().any(|it| !it.seeds && it.of(ledger.target) > 0);
    let goes_back = fleet.rules.partition_rollback && !stays;
    updated == asked || (updated > asked && fleet.check.may_be_over && !goes_back)
}

/// Whether what is missing is less than a cluster takes that can only be new as a whole (REV-7): it waits, and so do
/// those behind it, while all others before it are through.
fn waits_for_all_of_it(fleet: &Fleet, missing: u32) -> bool {
    let target = fleet.ledger.target;
    let waits = |it: &Member| !it.seeds && it.share.body != target && it.share.replicas > missing;
    let through = |it: &Member| !it.seeds || it.of(target) == it.share.replicas;
    fleet.members.iter().any(waits) && (!fleet.waves.is_empty() || fleet.members.iter().all(through))
}

pub(crate) fn describe(fleet: &Fleet) -> String {
    let (spec, ledger) = (&fleet.spec, &fleet.ledger);
    let mut text = format!(
        "N {} P {} U {} S {} K {:?} M {} B {} unplaced {} target {} stable {} flags {:?} bad {:?}\n  {:?}",
        spec.replicas,
        spec.partition,
        spec.unavailable,
        spec.surge,
        spec.scale_unavailable,
        fleet.rules.move_surge,
        fleet.rules.move_unavailable,
        fleet.unplaced,
        ledger.target.0,
        ledger.stable.0,
        fleet.flags,
        fleet.bad,
        ledger.release.as_ref().map(|it| (it.wave, it.stage, it.paused)),
    );
    for (index, (row, member)) in ledger.rows.iter().zip(&fleet.members).enumerate() {
        let columns =
            [row.replicas, row.updated, row.unavailable, row.surge].map(|it| (it.grant, it.exposure));
        text += &format!(
            "\n  {} wave {} {columns:?} moving {} due {:?} acknowledged {} lost {} body {} pods",
            row.cluster,
            fleet.clusters[index].wave,
            row.moving,
            row.due,
            row.acknowledged,
            row.lost,
            row.share.body.0
        );
        for pod in &member.pods {
            let marks = (if pod.available { "+" } else { "-" }, if pod.marked { "x" } else { "" });
            text += &format!(" {}{}{}", pod.revision.0, marks.0, marks.1);
        }
    }
    text
}
