//! Image pull jobs over the fleet: never more pulls at a time than the job allows (IPJ-1), no copy removed before its end is
//! stored (IPJ-2), no time beyond the fleet's deadline (IPJ-3), sums that are true in the end (IPJ-4), and everyone who
//! joins served as well (IPJ-5).

mod hub;
mod member;

use scheduling::pulls::Completion;

use crate::{dice::Dice, fleet::Broken};
use hub::Job;

/// A rule put out of order on purpose, to see that the checks notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The rules as they are.
    None,
    /// Slots are used again before the member has acknowledged that they are free (IPJ-1).
    ForgetsExposure,
    /// The slots of a cluster that is only not heard are given to others (IPJ-1).
    FreesOffline,
    /// Copies are removed by time alone (IPJ-2).
    RemovesUnfinished,
    /// A cluster reached late gets the whole deadline (IPJ-3).
    GivesFullTime,
    /// A job that never ends is ended in members that have served all their nodes (IPJ-5).
    EndsNever,
}

/// Runs one seed: edits and faults, then the way to the end.
pub(crate) fn run(seed: u64, fault: Fault) -> Result<(), Broken> {
    let mut dice = Dice::new(seed);
    let completion = match dice.below(3) {
        0 => Completion::Never,
        _ => Completion::Always {
            deadline: dice.pick(&[None, Some(60), Some(200), Some(400)]),
            ttl: dice.pick(&[None, Some(0), Some(50)]),
        },
    };
    let mut job = Job::new(dice, completion, fault);
    for _ in 0..job.dice.between(100, 400) {
        edit(&mut job);
        job.step()?;
    }
    job.calm_down();
    for _ in 0..20_000 {
        job.step()?;
        if job.is_at_rest() {
            return job.check_end();
        }
    }
    Err(Broken(format!("pulls never end: {job:?}")))
}

/// Users, operators and chance.
fn edit(job: &mut Job) {
    let index = job.dice.below(job.pullers.len());
    match job.dice.below(100) {
        0..3 => job.pullers[index].online ^= true,
        3..5 => job.parallelism = job.dice.between(0, 6),
        5 => job.give_up(index),
        6 => job.pullers[index].restart(),
        7 => job.pullers[index].outbox.clear(),
        8..10 => job.pullers[index].change_nodes(&mut job.dice),
        10 if job.pullers.len() < 8 => job.join(),
        11 => job.restart(),
        _ => {}
    }
}
