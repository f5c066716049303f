//! One random run: a schedule of faults and edits, and the way to rest.

use crate::{
    edit::edit,
    fleet::{Broken, Fleet},
    rest::come_to_rest,
    setting::{Setting, Theme},
};

/// Runs one seed to rest.
pub(crate) fn run(seed: u64, setting: &Setting) -> Result<(), Broken> {
    let mut fleet = Fleet::new(seed, setting);
    // Where scaling is limited one cluster cannot mend broken pods either, so there are none.
    if fleet.dice.permille(80) && fleet.spec.scale_unavailable.is_none() {
        fleet.bad.push(fleet.spec.target);
    }
    fleet.faults = setting.theme != Theme::Calm;
    for _ in 0..60 {
        fleet.step()?;
    }
    // Larger fleets need more steps for the same amount of doing.
    let length = fleet.dice.between(100, 350) * (1 + setting.clusters as u32 / 16);
    for _ in 0..length {
        let chance = fleet.dice.below(1000);
        if chance < 25 {
            edit(&mut fleet, setting.theme);
        } else if fleet.faults {
            fault(&mut fleet, chance);
        }
        fleet.step()?;
    }
    come_to_rest(&mut fleet)
}

/// Runs one seed for a while and plans every round in another order of the clusters too.
pub(crate) fn run_turned(seed: u64, setting: &Setting) -> Result<(), Broken> {
    let mut fleet = Fleet::new(seed, setting);
    fleet.turn_every = 1;
    for turn in 0..120 {
        let chance = fleet.dice.below(1000);
        if chance < 60 && turn > 20 {
            edit(&mut fleet, setting.theme);
        } else {
            fault(&mut fleet, chance);
        }
        fleet.step()?;
    }
    Ok(())
}

fn fault(fleet: &mut Fleet, chance: usize) {
    let index = fleet.dice.below(fleet.members.len());
    match chance {
        25..45 => {
            fleet.members[index].online ^= true;
            fleet.log(|| format!("link {index} {}", fleet.members[index].online));
        }
        45..60 => hurt(fleet, index),
        60..70 => fleet.members[index].outbox.clear(),
        70..78 => fleet.members[index].restart(),
        _ => {}
    }
}

fn hurt(fleet: &mut Fleet, index: usize) {
    let pods = fleet.members[index].pods.len();
    if pods > 0 {
        let (pod, evict) = (fleet.dice.below(pods), fleet.dice.permille(500));
        fleet.members[index].hurt(pod, evict);
        fleet.log(|| format!("hurt {index}"));
    }
}
