//! A release goes on for the rest while one link is down, if the policy trusts the last report.

use scheduling::{release::Gate, round::UnknownCountsAs};

use crate::{
    fleet::{Broken, Fleet},
    setting::{Theme, setting},
};

/// Brings a fleet to rest, cuts one link, edits the template, and waits for the others.
pub(crate) fn run_with_a_link_down(seed: u64) -> Result<(), Broken> {
    let mut setting = setting(seed, Theme::Calm);
    setting.rules.unknown = UnknownCountsAs::LastReported;
    setting.clusters = setting.clusters.min(6);
    // A gate may stop a release for the cluster that is away; that is what gates are for.
    for wave in &mut setting.waves {
        wave.gate = Gate::default();
    }
    setting.rules.gate = Gate::default();
    // One that takes all or nothing takes more than what the others leave of U at a time: it is not promised to end.
    setting.some_cannot_seed = false;
    let mut fleet = Fleet::new(seed, &setting);
    fleet.faults = false;
    let cut = fleet.dice.below(setting.clusters);
    wait_until(&mut fleet, "start", |fleet| {
        let made: u32 = fleet.members.iter().map(|it| it.available()).sum();
        let told =
            fleet.ledger.rows.iter().all(|it| it.share.seq == 0 || (it.acknowledged && it.moving == 0));
        u64::from(made) + fleet.unplaced == fleet.replicas() && fleet.rounds > 0 && told
    })?;
    fleet.members[cut].online = false;
    fleet.edit_template();
    wait_until(&mut fleet, "release", |fleet| {
        fleet.ledger.target == fleet.spec.target
            && (0..fleet.members.len()).filter(|it| *it != cut).all(|it| {
                let member = &fleet.members[it];
                member.of(fleet.spec.target) == member.share.replicas
                    && member.pods.iter().all(|pod| pod.available)
            })
    })
}

fn wait_until(fleet: &mut Fleet, what: &str, is_there: impl Fn(&Fleet) -> bool) -> Result<(), Broken> {
    let patience = fleet.members.len() * (2500 + 40 * fleet.replicas() as usize);
    for turn in 0..patience {
        fleet.step()?;
        if turn % 20 == 19 {
            fleet.approve_all();
            if is_there(fleet) {
                return Ok(());
            }
        }
    }
    Err(Broken(format!("the {what} never ends: {}", crate::rest::describe(fleet))))
}
