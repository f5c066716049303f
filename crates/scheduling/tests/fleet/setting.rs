//! What a run begins with, drawn at random.

use scheduling::{
    ledger::Revision,
    moves::{PolicyMark, Rebalance, Trigger},
    names::{GroupName, TopologyKey},
    numbers::{IntOrPercent, Percent},
    release::{Approval, Gate, OnFailure, PrePull, Wave},
    round::{Numbers, OnReturn, Population, Rules, Spec, UnknownCountsAs},
    split::{Mode, Spread, WhenShort, WhenUnsatisfiable},
};

use crate::{dice::Dice, fleet::Variant};

/// What a run is mostly about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theme {
    /// A bit of everything.
    Mixed,
    /// Partitions, in the middle of moves.
    Canary,
    /// Clusters that join or take over in the middle of a release.
    Joining,
    /// Clusters that are lost, replaced and return.
    Failover,
    /// Waves with gates, soak and approvals.
    Waves,
    /// No faults but broken revisions.
    Calm,
}

/// What is set before a run begins.
#[derive(Debug, Clone)]
pub(crate) struct Setting {
    pub(crate) theme: Theme,
    pub(crate) clusters: usize,
    pub(crate) spec: Spec,
    pub(crate) rules: Rules,
    pub(crate) waves: Vec<Wave>,
    pub(crate) when_short: WhenShort,
    pub(crate) spread: Vec<Spread>,
    /// Whether clusters differ in weight, bounds and tier.
    pub(crate) uneven: bool,
    pub(crate) in_place: bool,
    /// How replicas are divided.
    pub(crate) mode: Mode,
    /// Whether some agents cannot seed.
    pub(crate) some_cannot_seed: bool,
    pub(crate) variant: Variant,
}

/// Draws a setting of the commonest kind: replicas divided, agents that can seed, mostly small fleets.
pub(crate) fn plain_setting(seed: u64, theme: Theme) -> Setting {
    let mut dice = Dice::new(!seed);
    let (clusters, replicas) = match dice.below(1000) {
        0..2 => (dice.between(10, 50) as usize, dice.between(20, 80)),
        2..100 => (dice.between(4, 8) as usize, dice.between(4, 24)),
        _ => (dice.pick(&[2, 3, 3, 4]), dice.between(2, 12)),
    };
    let mut spec = spec();
    spec.replicas = replicas;
    (spec.unavailable, spec.surge) = budgets(&mut dice);
    if clusters >= 10 {
        // A large fleet with a small budget takes long, and shows nothing that a small one does not.
        spec.unavailable += dice.between(1, 5);
    }
    if dice.permille(150) {
        spec.scale_unavailable = Some(dice.between(1, 4));
    }
    let mut rules = rules();
    (rules.move_surge, rules.move_unavailable) = move_limits(&mut dice);
    if dice.permille(500) {
        rules.rebalance.trigger = Trigger::Continuous;
        rules.rebalance.tolerance = dice.pick(&[0, 0, 1, 2]);
        if dice.permille(300) {
            rules.rebalance.max_moves = dice.between(1, 3);
            rules.rebalance.interval = 20;
        }
    }
    if dice.permille(300) {
        rules.unknown = UnknownCountsAs::Unavailable;
    }
    rules.partition_rollback = dice.permille(150);
    rules.max_lost = dice.pick(&[1, 1, 2, 3]);
    rules.max_overlap = dice.pick(&[100, 100, 100, 50, 0]);
    rules.progress_deadline = dice.pick(&[600, 600, 40]);
    if dice.permille(300) {
        rules.on_return = OnReturn::Failback;
    }
    let with_waves = if theme == Theme::Waves { 1000 } else { 333 };
    let waves = if dice.permille(with_waves) { draw_waves(&mut dice, theme) } else { Vec::new() };
    let in_place = dice.permille(500);
    if in_place && dice.permille(200) {
        spec.in_place_only = true;
        spec.unavailable = spec.unavailable.max(1);
        // Shrinking first would need a share beside the hole: such objects want room above N.
        rules.move_surge = rules.move_surge.max(1);
    }
    Setting {
        theme,
        clusters,
        spec,
        rules,
        waves,
        when_short: if dice.permille(300) { WhenShort::Hold } else { WhenShort::Overcommit },
        spread: if dice.permille(100) { vec![draw_spread(&mut dice)] } else { Vec::new() },
        uneven: dice.permille(300),
        in_place,
        mode: Mode::Divided,
        some_cannot_seed: false,
        variant: Variant::Sound,
    }
}

/// Draws a setting with everything in it.
pub(crate) fn setting(seed: u64, theme: Theme) -> Setting {
    let mut setting = plain_setting(seed, theme);
    // Dice of its own, so that runs without any of this stay the runs they were.
    let mut dice = Dice::new(seed.rotate_left(32) ^ 0x5eed);
    if dice.permille(52) {
        // Mostly at the lower end: what a run costs grows with the square.
        let most = if dice.permille(100) { 50 } else { 13 };
        setting.clusters = dice.between(10, most) as usize;
        setting.spec.replicas = dice.between(10, 20);
        setting.spec.unavailable += dice.between(1, 5);
    }
    match dice.below(100) {
        0..10 => {
            setting.mode = Mode::Duplicated;
            setting.spec.replicas = dice.between(1, 3);
            if Dice::new(seed.rotate_left(48) ^ 0xeac4).permille(500) {
                setting.spec.numbers = Numbers::PerCluster;
            }
        }
        10..20 => setting.mode = Mode::Aggregated,
        _ => {}
    }
    setting.some_cannot_seed = dice.permille(100);
    if dice.permille(100) {
        setting.rules.gate = draw_gate(&mut dice);
    }
    for wave in &mut setting.waves {
        if dice.permille(250) {
            let (threshold, timeout) = (dice.pick(&[50, 90, 100]), dice.pick(&[0, 20, 200]));
            wave.pre_pull = Some(PrePull { threshold, timeout });
        }
    }
    setting
}

/// Draws a setting in which every cluster has all replicas, and the object's numbers for itself.
pub(crate) fn per_cluster_setting(seed: u64) -> Setting {
    let theme = [Theme::Mixed, Theme::Canary, Theme::Joining, Theme::Failover, Theme::Waves, Theme::Calm];
    let mut setting = setting(seed, theme[(seed % 6) as usize]);
    let mut dice = Dice::new(seed.rotate_left(16) ^ 0xeac4);
    setting.mode = Mode::Duplicated;
    setting.spec.numbers = Numbers::PerCluster;
    setting.spec.replicas = dice.between(1, if setting.clusters < 10 { 6 } else { 3 });
    setting
}

/// U and S, not both 0.
pub(crate) fn budgets(dice: &mut Dice) -> (u32, u32) {
    match (dice.pick(&[0, 1, 1, 1, 2, 3]), dice.pick(&[0, 0, 1, 2])) {
        (0, 0) => (1, 0),
        both => both,
    }
}

/// M and B, not both 0.
pub(crate) fn move_limits(dice: &mut Dice) -> (u32, u32) {
    match (dice.pick(&[0, 1, 1, 2]), dice.pick(&[0, 0, 1, 2])) {
        (0, 0) => (1, 0),
        both => both,
    }
}

fn draw_waves(dice: &mut Dice, theme: Theme) -> Vec<Wave> {
    let plain = theme != Theme::Waves && dice.permille(500);
    let names = ["first", "second", "third"];
    let count = if plain { 2 } else { dice.between(1, 3) as usize };
    let mut waves: Vec<Wave> = names[..count].iter().map(|it| Wave::named(it)).collect();
    if plain {
        return waves;
    }
    for wave in &mut waves {
        wave.max_concurrency =
            dice.pick(&[None, Some(IntOrPercent::Int(1)), Some(IntOrPercent::Percent(Percent::whole(50)))]);
        wave.soak = dice.pick(&[0, 0, 10, 30]);
        wave.approval = dice.pick(&[Approval::None, Approval::None, Approval::Before, Approval::After]);
        if dice.permille(300) {
            wave.gate = draw_gate(dice);
        }
    }
    waves
}

fn draw_gate(dice: &mut Dice) -> Gate {
    Gate {
        max_failed: dice.between(0, 1),
        max_failing_pods: dice.between(0, 2),
        on_failure: dice.pick(&[OnFailure::Pause, OnFailure::Rollback]),
    }
}

fn draw_spread(dice: &mut Dice) -> Spread {
    Spread {
        key: TopologyKey::from("zone"),
        min_groups: dice.between(1, 2),
        max_groups: dice.pick(&[None, None, Some(2)]),
        max_share: dice.pick(&[None, Some(Percent::whole(60)), Some(Percent::whole(50))]),
        when_unsatisfiable: dice.pick(&[WhenUnsatisfiable::DoNotSchedule, WhenUnsatisfiable::ScheduleAnyway]),
    }
}

/// The zone of a cluster.
pub(crate) fn zone(dice: &mut Dice) -> Option<GroupName> {
    dice.pick(&[Some("a"), Some("b"), Some("c")]).map(GroupName::from)
}

/// The policy a run begins with.
pub(crate) fn rules() -> Rules {
    Rules {
        move_surge: 1,
        move_unavailable: 0,
        unknown: UnknownCountsAs::LastReported,
        max_overlap: 100,
        max_lost: 1,
        progress_deadline: 600,
        rebalance: Rebalance {
            trigger: Trigger::Never,
            tolerance: 0,
            max_moves: u32::MAX,
            interval: 0,
            policy: PolicyMark { id: 1, generation: 1 },
        },
        on_return: OnReturn::Keep,
        partition_rollback: false,
        gate: Gate::default(),
    }
}

/// The object a run begins with.
pub(crate) fn spec() -> Spec {
    Spec {
        replicas: 6,
        partition: 0,
        unavailable: 1,
        surge: 0,
        scale_unavailable: None,
        paused: false,
        target: Revision(1),
        in_place_only: false,
        stateful: false,
        population: Population::Granted,
        numbers: Numbers::Global,
    }
}
