//! What users and operators do in the middle of a run.

use scheduling::{
    ledger::Revision,
    round::Numbers,
    split::{Mode, State},
};

use crate::{
    fleet::Fleet,
    setting::{Theme, budgets, move_limits},
};

/// A user or an operator does something.
pub(crate) fn edit(fleet: &mut Fleet, theme: Theme) {
    let chance = fleet.dice.below(100);
    let themed = fleet.dice.permille(400);
    match theme {
        Theme::Canary if themed => repartition(fleet),
        Theme::Joining if themed && fleet.members.len() < 8 => fleet.join(),
        Theme::Failover if themed => give_up(fleet),
        Theme::Waves if themed => steer(fleet),
        _ => any(fleet, chance),
    }
    fleet.log(|| {
        format!(
            "edit {:?} {:?} states {:?} given up {:?}",
            fleet.spec, fleet.rules, fleet.flags, fleet.given_up
        )
    });
}

fn any(fleet: &mut Fleet, chance: usize) {
    let releasing = fleet.ledger.target != fleet.ledger.stable;
    match chance {
        it if it < 5 || (it < 22 && !releasing) => new_template(fleet),
        0..34 => repartition(fleet),
        34..48 => {
            let change = fleet.dice.between(0, 8);
            fleet.spec.replicas = match fleet.mode {
                Mode::Duplicated => 1 + change / 3,
                _ => (fleet.spec.replicas + change).saturating_sub(4).max(1),
            };
            fleet.spec.partition = fleet.spec.partition.min(most_kept(fleet));
        }
        48..60 => flag(fleet),
        60..66 if fleet.members.len() < 5 => fleet.join(),
        66..70 => fleet.spec.paused ^= true,
        70..79 => give_up(fleet),
        79..83 => {
            (fleet.spec.unavailable, fleet.spec.surge) = budgets(&mut fleet.dice);
            let least = u32::from(fleet.spec.in_place_only);
            fleet.spec.unavailable = fleet.spec.unavailable.max(least);
        }
        83..86 => {
            (fleet.rules.move_surge, fleet.rules.move_unavailable) = move_limits(&mut fleet.dice);
            let least = u32::from(fleet.spec.in_place_only);
            fleet.rules.move_surge = fleet.rules.move_surge.max(least);
        }
        86..90 => name_pod(fleet),
        90..93 => reshape(fleet),
        _ => steer(fleet),
    }
}

fn repartition(fleet: &mut Fleet) {
    let most = most_kept(fleet);
    fleet.spec.partition = u64::from(fleet.dice.between(0, most as u32));
}

/// What a partition may be at most.
fn most_kept(fleet: &Fleet) -> u64 {
    match fleet.mode {
        Mode::Duplicated if fleet.spec.numbers == Numbers::Global => {
            u64::from(fleet.spec.replicas) * fleet.members.len() as u64
        }
        _ => u64::from(fleet.spec.replicas),
    }
}

/// A new template; now and then one that was there before.
fn new_template(fleet: &mut Fleet) {
    let newest = fleet.newest_revision();
    if newest > 1 && fleet.dice.permille(250) {
        fleet.spec.target = Revision(u64::from(fleet.dice.between(1, newest as u32)));
    } else {
        let revision = fleet.edit_template();
        if fleet.dice.permille(300) && fleet.spec.scale_unavailable.is_none() {
            fleet.bad.push(revision);
        }
    }
    repartition(fleet);
}

/// Drains, cordons or excludes a cluster, or takes all such flags back.
fn flag(fleet: &mut Fleet) {
    if fleet.flags.iter().any(|it| *it != State::Ready) {
        fleet.flags.fill(State::Ready);
        return;
    }
    let live: Vec<usize> = (0..fleet.members.len()).filter(|it| !fleet.is_lost(*it)).collect();
    if fleet.dice.permille(100) {
        fleet.flags.fill(State::Excluded);
    } else if live.len() > 1 {
        let index = fleet.dice.pick(&live);
        fleet.flags[index] = fleet.dice.pick(&[
            State::Draining,
            State::Draining,
            State::Cordoned,
            State::Excluded,
            State::Unsupported,
            State::Pending,
        ]);
    }
}

/// A cluster that is not heard is judged lost; or one that is lost is declared stopped.
fn give_up(fleet: &mut Fleet) {
    let lost: Vec<usize> = (0..fleet.members.len()).filter(|it| fleet.is_lost(*it)).collect();
    if !lost.is_empty() && fleet.dice.permille(150) {
        let index = fleet.dice.pick(&lost);
        if !fleet.members[index].online {
            fleet.declare_stopped(index);
        }
        return;
    }
    let away: Vec<usize> = (0..fleet.members.len()).filter(|it| !fleet.members[*it].online).collect();
    if !away.is_empty() && away.len() < fleet.members.len() {
        let index = fleet.dice.pick(&away);
        fleet.given_up[index] = true;
    }
}

/// The user names a pod for deletion, perhaps together with a scale-down.
fn name_pod(fleet: &mut Fleet) {
    let index = fleet.dice.below(fleet.members.len());
    let pods = fleet.members[index].pods.len();
    if pods == 0 || fleet.clusters[index].names != 0 {
        return;
    }
    let pod = fleet.dice.below(pods);
    fleet.clusters[index].names = fleet.members[index].pods[pod].id;
    fleet.clusters[index].candidate.named_for_deletion = 1;
    if fleet.spec.replicas > 1 && fleet.dice.permille(500) {
        fleet.spec.replicas -= 1;
        fleet.spec.partition = fleet.spec.partition.min(most_kept(fleet));
    }
}

/// The policy changes: weights, bounds, room.
fn reshape(fleet: &mut Fleet) {
    let index = fleet.dice.below(fleet.members.len());
    fleet.shape(index);
    fleet.rules.rebalance.policy.generation += 1;
}

/// Someone looks after the release: approves, resumes, or leaves a cluster's broken pods out.
fn steer(fleet: &mut Fleet) {
    let index = fleet.dice.below(fleet.members.len());
    match fleet.dice.below(4) {
        0 | 1 => fleet.approve_all(),
        2 => fleet.ignore(index),
        _ => fleet.pause_release(),
    }
}
