//! One random run: a setting, a schedule of edits and faults, and the way to rest.

use scheduling::{ledger::Revision, release::Wave, round::UnknownCountsAs};

use crate::{
    dice::Dice,
    fleet::{Broken, Fleet, Setting, Variant, rules, spec},
};

/// A setting drawn at random.
pub(crate) fn setting(seed: u64) -> Setting {
    let mut dice = Dice::new(!seed);
    let mut spec = spec();
    let mut rules = rules();
    let clusters = dice.pick(&[2, 3, 3, 4]);
    spec.replicas = dice.between(2, 12);
    spec.unavailable = dice.pick(&[0, 1, 1, 1, 2, 3]);
    spec.surge = dice.pick(&[0, 0, 1, 2]);
    if spec.unavailable == 0 && spec.surge == 0 {
        spec.unavailable = 1;
    }
    rules.move_surge = dice.pick(&[0, 1, 1, 2]);
    rules.move_unavailable = dice.pick(&[0, 0, 1, 2]);
    if rules.move_surge == 0 && rules.move_unavailable == 0 {
        rules.move_surge = 1;
    }
    rules.rebalance = dice.permille(500);
    if dice.permille(300) {
        rules.unknown = UnknownCountsAs::Unavailable;
    }
    let waves =
        if dice.permille(333) { vec![Wave::named("first"), Wave::named("second")] } else { Vec::new() };
    Setting { clusters, spec, rules, waves, in_place: dice.permille(500), variant: Variant::Sound }
}

/// Runs one seed to rest.
pub(crate) fn run(seed: u64, setting: &Setting) -> Result<(), Broken> {
    let mut fleet = Fleet::new(seed, setting);
    if fleet.dice.permille(80) {
        fleet.bad.push(fleet.spec.target);
    }
    for _ in 0..60 {
        fleet.step()?;
    }
    for _ in 0..fleet.dice.between(100, 350) {
        match fleet.dice.below(1000) {
            0..25 => edit(&mut fleet),
            25..45 => {
                let index = fleet.dice.below(fleet.members.len());
                fleet.members[index].online ^= true;
                fleet.log(|| format!("link {index} {}", fleet.members[index].online));
            }
            45..60 => hurt(&mut fleet),
            60..70 => {
                let index = fleet.dice.below(fleet.members.len());
                fleet.members[index].outbox.clear();
            }
            70..78 => {
                let index = fleet.dice.below(fleet.members.len());
                fleet.members[index].restart();
            }
            _ => {}
        }
        fleet.step()?;
    }
    come_to_rest(&mut fleet)
}

/// A user or operator does something.
fn edit(fleet: &mut Fleet) {
    let releasing = fleet.ledger.target != fleet.ledger.stable;
    let replicas = fleet.spec.replicas;
    match fleet.dice.below(100) {
        it if it < 5 || (it < 22 && !releasing) => {
            let revision = fleet.edit_template();
            if fleet.dice.permille(300) {
                fleet.bad.push(revision);
            }
            fleet.spec.partition = fleet.dice.between(0, replicas);
        }
        0..40 => fleet.spec.partition = fleet.dice.between(0, replicas),
        40..55 => {
            let change = fleet.dice.between(0, 8);
            fleet.spec.replicas = (replicas + change).saturating_sub(4).max(1);
            fleet.spec.partition = fleet.spec.partition.min(fleet.spec.replicas);
        }
        55..68 => drain(fleet),
        68..76 if fleet.members.len() < 5 => fleet.join(),
        76..80 => fleet.spec.paused ^= true,
        80..90 => give_up(fleet),
        _ => {}
    }
    fleet
        .log(|| format!("edit {:?} draining {:?} given up {:?}", fleet.spec, fleet.draining, fleet.given_up));
}

fn drain(fleet: &mut Fleet) {
    if fleet.draining.contains(&true) {
        fleet.draining.fill(false);
        return;
    }
    let live: Vec<usize> = (0..fleet.members.len()).filter(|it| !fleet.is_lost(*it)).collect();
    if live.len() > 1 {
        let index = fleet.dice.pick(&live);
        fleet.draining[index] = true;
    }
}

fn give_up(fleet: &mut Fleet) {
    let away: Vec<usize> = (0..fleet.members.len()).filter(|it| !fleet.members[*it].online).collect();
    if !away.is_empty() && away.len() < fleet.members.len() {
        let index = fleet.dice.pick(&away);
        fleet.given_up.fill(false);
        fleet.given_up[index] = true;
    }
}

fn hurt(fleet: &mut Fleet) {
    let index = fleet.dice.below(fleet.members.len());
    let pods = fleet.members[index].pods.len();
    if pods > 0 {
        let (pod, evict) = (fleet.dice.below(pods), fleet.dice.permille(500));
        fleet.members[index].hurt(pod, evict);
        fleet.log(|| format!("hurt {index}"));
    }
}

/// Faults stop; the fleet must come to what the user asked for, and then be quiet.
fn come_to_rest(fleet: &mut Fleet) -> Result<(), Broken> {
    fleet.faults = false;
    let broken_pods = fleet.members.iter().flat_map(|it| &it.pods).any(|it| fleet.bad.contains(&it.revision));
    let mut lenient = false;
    let current = [fleet.spec.target, fleet.ledger.target, fleet.ledger.stable];
    if current.iter().any(|it| fleet.bad.contains(it)) {
        fleet.edit_template();
        fleet.spec.partition = 0;
    } else if broken_pods {
        if !(fleet.dice.permille(500) && fleet.waves.is_empty()) {
            fleet.spec.partition = 0;
        }
        lenient = true;
    }
    if fleet.bad.contains(&Revision(1)) {
        fleet.waves.clear();
    }
    for member in &mut fleet.members {
        member.online = true;
    }
    fleet.spec.paused = false;
    fleet.given_up.fill(false);
    if fleet.draining.iter().all(|it| *it) {
        fleet.draining.fill(false);
    }
    fleet.log(|| format!("faults end {:?} lenient {lenient}", fleet.spec));
    let patience = 2000 * fleet.members.len();
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
    Err(Broken(format!("no rest: {}", describe(fleet))))
}

fn is_at_rest(fleet: &Fleet, lenient: bool) -> bool {
    if fleet.ledger.rows.iter().any(|it| it.lost) {
        return false;
    }
    let (spec, ledger) = (&fleet.spec, &fleet.ledger);
    let granted: u32 = fleet.members.iter().map(|it| it.share.replicas).sum();
    let updated: u32 = fleet.members.iter().map(|it| it.of(ledger.target)).sum();
    let due: u32 = ledger.rows.iter().filter_map(|it| it.due).sum();
    let asked = spec.replicas - spec.partition;
    let placed =
        granted == spec.replicas || (lenient && granted + fleet.rules.move_unavailable >= spec.replicas);
    let complete = fleet.members.iter().all(|it| {
        it.pods.len() as u32 == it.share.replicas
            && it.pods.iter().all(|pod| pod.available || (lenient && fleet.bad.contains(&pod.revision)))
    });
    let exact = ledger.target == ledger.stable || updated == asked || (updated > asked && due >= asked);
    let drained = lenient
        || (0..fleet.members.len()).all(|it| !fleet.draining[it] || fleet.members[it].share.replicas == 0);
    ledger.target == spec.target && placed && complete && exact && drained
}

fn describe(fleet: &Fleet) -> String {
    let mut text = format!(
        "{:?} {:?} target {} stable {} draining {:?} release {:?}",
        fleet.spec,
        fleet.rules,
        fleet.ledger.target,
        fleet.ledger.stable,
        fleet.draining,
        fleet.ledger.release
    );
    for (row, member) in fleet.ledger.rows.iter().zip(&fleet.members) {
        text += &format!("\n  {row:?}\n    pods");
        for pod in &member.pods {
            text += &format!(
                " {}{}{}",
                pod.revision.0,
                if pod.available { "+" } else { "-" },
                if pod.marked { "x" } else { "" }
            );
        }
    }
    text
}
