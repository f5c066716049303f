//! One container: pulled, started, ready, stopped, started again.

use std::time::Duration;

use jiff::Timestamp;

use super::{
    Behaviour, Due, ImageBehaviour,
    supply::{Order, Supply},
};
use crate::{
    images::{Ending, full},
    seed::Seed,
};

/// A container as its node runs it.
#[derive(Debug)]
pub(super) struct ContainerRun {
    pub(super) name: String,
    /// The image that runs, or is being brought up.
    pub(super) image: String,
    pub(super) restarts: u32,
    pub(super) id: Option<String>,
    /// What the container with this id was made from.
    pub(super) made: Option<Made>,
    pub(super) state: State,
    pub(super) last: Option<Ended>,
    /// The download that it waits for.
    order: Option<Order>,
    /// An image that has arrived and that its node does not know of yet.
    arrived: Option<String>,
    /// How often it exited by itself in a row.
    crashes: u32,
    /// A readiness set from outside.
    pub(super) forced_ready: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing was done for it yet.
    New,
    /// Its image is pulled.
    Pulling { until: Duration },
    /// It is created.
    Creating { until: Duration },
    /// Its image is not there, and its pod does not want it pulled.
    Unpulled { until: Duration },
    /// Its registry has just refused the image.
    Refused { until: Duration, why: String },
    /// Its image cannot be had; tried again later.
    NoImage { until: Duration },
    /// It runs.
    Running { since: Duration, wall: String, ready_at: Due, exit: Option<(Duration, i32)> },
    /// It was told to stop, to make room for a new image.
    Replacing { until: Duration, wall: String },
    /// It exited and waits to be started again.
    Waiting { until: Duration },
    /// It exited for good.
    Done(Ended),
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) started: String,
    pub(super) finished: String,
    pub(super) id: Option<String>,
    pub(super) made: Option<Made>,
}

/// From what a container was made, and when by the clock of that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Made {
    pub(super) image: String,
    pub(super) created: Timestamp,
}

/// What a container needs to know to move on.
pub(super) struct Surroundings<'a> {
    pub(super) behaviour: &'a Behaviour,
    pub(super) seed: Seed,
    pub(super) now: Duration,
    pub(super) wall: &'a str,
    /// The same as a time.
    pub(super) time: Timestamp,
    /// Whether the node has the image already.
    pub(super) has_image: bool,
    pub(super) pull: Pull,
    /// Where the node gets images from.
    pub(super) supply: Supply<'a>,
    pub(super) probe_delay: Option<Duration>,
    pub(super) restart: Restart,
}

/// How long a refused image is shown as such, and how long it is left alone after that.
const REFUSED: Duration = Duration::from_secs(10);
const BACK_OFF: Duration = Duration::from_secs(20);

/// When an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pull {
    /// At every start; the registry then says that nothing has changed.
    Always,
    IfNotPresent,
    Never,
}

/// When a container is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Restart {
    Always,
    OnFailure,
    Never,
}

impl ContainerRun {
    pub(super) fn new(name: &str, image: &str) -> Self {
        let (name, image) = (name.to_owned(), image.to_owned());
        Self {
            name,
            image,
            restarts: 0,
            id: None,
            made: None,
            state: State::New,
            last: None,
            order: None,
            arrived: None,
            crashes: 0,
            forced_ready: None,
        }
    }

    /// Moves on as far as time allows, towards the image that is wanted.
    pub(super) fn advance(&mut self, wanted: &str, around: &Surroundings<'_>) {
        if self.image != wanted {
            self.change_image(wanted, around);
        }
        // Each round makes at most one step; a container never makes more than a few in one instant.
        for _ in 0..8 {
            if !self.step(around) {
                break;
            }
        }
    }

    fn change_image(&mut self, wanted: &str, around: &Surroundings<'_>) {
        match &self.state {
            State::Running { wall, .. } => {
                let stop = self.stop_time(around.behaviour, around.seed);
                self.state = State::Replacing { until: around.now.saturating_add(stop), wall: wall.clone() };
                self.image = wanted.to_owned();
            }
            State::New
            | State::Pulling { .. }
            | State::Creating { .. }
            | State::Unpulled { .. }
            | State::Refused { .. }
            | State::NoImage { .. } => {
                self.give_up(around.now);
                self.image = wanted.to_owned();
                self.state = State::New;
            }
            State::Waiting { .. } => {
                self.image = wanted.to_owned();
                self.crashes = 0;
                self.state = State::Waiting { until: around.now };
            }
            State::Replacing { .. } => self.image = wanted.to_owned(),
            State::Done(_) => {}
        }
    }

    fn step(&mut self, around: &Surroundings<'_>) -> bool {
        let now = around.now;
        let next = match &self.state {
            State::New => self.begin(around),
            State::Creating { until } if *until <= now => self.run(around),
            State::Refused { until, .. } if *until <= now => State::NoImage { until: now + BACK_OFF },
            State::NoImage { until } | State::Unpulled { until } if *until <= now => self.begin(around),
            State::Pulling { until } if *until <= now => {
                let until = *until;
                if let Some(order) = self.order.take() {
                    order.end(until, Ending::Done);
                }
                self.arrived = Some(full(&self.image));
                self.create(around)
            }
            State::Running { exit: Some((at, code)), wall, .. } if *at <= now => {
                let (code, started) = (*code, wall.clone());
                self.exited(code, started, around)
            }
            State::Replacing { until, wall } if *until <= now => {
                let ended = self.ended(0, wall.clone(), around);
                self.last = Some(ended);
                self.restarts += 1;
                self.begin(around)
            }
            State::Waiting { until } if *until <= now => {
                self.restarts += 1;
                self.begin(around)
            }
            _ => return false,
        };
        self.state = next;
        true
    }

    fn begin(&mut self, around: &Surroundings<'_>) -> State {
        match (around.pull, around.has_image) {
            (Pull::Never, false) => return State::Unpulled { until: around.now + REFUSED },
            (Pull::Never | Pull::IfNotPresent, true) => return self.create(around),
            (Pull::Always, _) | (Pull::IfNotPresent, false) => {}
        }
        let image = self.image_behaviour(around.behaviour);
        if image.missing {
            return State::NoImage { until: around.now + BACK_OFF };
        }
        let (from, to) = around.behaviour.pull;
        let usual = image.pull.unwrap_or_else(|| self.draw(around.seed).of("pull").between(from, to));
        match around.supply.order(&self.image, usual, around.now) {
            Err(refusal) => State::Refused { until: around.now + REFUSED, why: refusal.message },
            Ok(order) if around.has_image => {
                order.end(around.now, Ending::Unchanged);
                self.create(around)
            }
            Ok(order) => {
                let until = around.now.saturating_add(order.takes);
                self.order = Some(order);
                State::Pulling { until }
            }
        }
    }

    fn create(&self, around: &Surroundings<'_>) -> State {
        let start =
            self.draw(around.seed).of("start").between(around.behaviour.start.0, around.behaviour.start.1);
        State::Creating { until: around.now.saturating_add(start) }
    }

    /// Ends the download that it waits for, if there is one.
    pub(super) fn give_up(&mut self, now: Duration) {
        if let Some(order) = self.order.take() {
            order.end(now, Ending::GivenUp);
        }
    }

    /// The image that has arrived since this was asked last.
    pub(super) fn take_arrived(&mut self) -> Option<String> {
        self.arrived.take()
    }

    fn run(&mut self, around: &Surroundings<'_>) -> State {
        let image = self.image_behaviour(around.behaviour);
        let draw = self.draw(around.seed);
        let id = format!(
            "{:016x}{:016x}{:016x}{:016x}",
            draw.bits(),
            draw.at(1).bits(),
            draw.at(2).bits(),
            draw.at(3).bits()
        );
        self.id = Some(format!("containerd://{id}"));
        self.made = Some(Made { image: self.image.clone(), created: around.time });
        let ready = match (image.never_ready, image.ready, around.probe_delay) {
            (true, _, _) => None,
            (false, Some(delay), _) => Some(delay),
            (false, None, Some(first)) => {
                let more = draw.of("ready").between(around.behaviour.ready.0, around.behaviour.ready.1);
                Some(first.saturating_add(more))
            }
            (false, None, None) => Some(Duration::ZERO),
        };
        State::Running {
            since: around.now,
            wall: around.wall.to_owned(),
            ready_at: ready.map(|it| around.now.saturating_add(it)),
            exit: image.exit.map(|(after, code)| (around.now.saturating_add(after), code)),
        }
    }

    fn exited(&mut self, code: i32, started: String, around: &Surroundings<'_>) -> State {
        let ended = self.ended(code, started, around);
        let again = match around.restart {
            Restart::Always => true,
            Restart::OnFailure => code != 0,
            Restart::Never => false,
        };
        if !again {
            return State::Done(ended);
        }
        self.last = Some(ended);
        let wait = match self.crashes {
            0 => Duration::ZERO,
            many => around.behaviour.crash_wait * 2_u32.saturating_pow(many - 1).min(30),
        };
        self.crashes += 1;
        State::Waiting { until: around.now + wait.min(Duration::from_secs(300)) }
    }

    /// Makes it exit at the next step.
    pub(super) fn make_exit(&mut self, now: Duration, code: i32) {
        if let State::Running { exit, .. } = &mut self.state {
            *exit = Some((now, code));
        }
    }

    /// Makes it exit at a moment to come, unless it does so sooner anyway. Gives that moment, or none if it does not run.
    pub(super) fn exit_at(&mut self, at: Duration, code: i32) -> Due {
        match &mut self.state {
            State::Running { exit: Some((sooner, _)), .. } if *sooner <= at => Some(*sooner),
            State::Running { exit, .. } => {
                *exit = Some((at, code));
                Some(at)
            }
            State::Replacing { until, .. } => {
                *until = at.min(*until);
                Some(*until)
            }
            _ => None,
        }
    }

    /// Ends it for good.
    pub(super) fn stop(&mut self, code: i32, around: &Surroundings<'_>) {
        let started = match &self.state {
            State::Running { wall, .. } | State::Replacing { wall, .. } => wall.clone(),
            State::Done(_) => return,
            _ => around.wall.to_owned(),
        };
        self.give_up(around.now);
        self.state = State::Done(self.ended(code, started, around));
    }

    pub(super) fn is_ready(&self, now: Duration) -> bool {
        match &self.state {
            State::Running { ready_at, .. } => {
                self.forced_ready.unwrap_or_else(|| ready_at.is_some_and(|it| it <= now))
            }
            _ => false,
        }
    }

    pub(super) fn due(&self, now: Duration) -> Due {
        match &self.state {
            State::New => Some(now),
            State::Pulling { until }
            | State::Creating { until }
            | State::Unpulled { until }
            | State::Refused { until, .. }
            | State::NoImage { until }
            | State::Replacing { until, .. }
            | State::Waiting { until } => Some(*until),
            State::Running { ready_at, exit, .. } => {
                super::sooner(ready_at.filter(|it| *it > now), exit.map(|(at, _)| at))
            }
            State::Done(_) => None,
        }
    }

    /// How long it takes to stop.
    pub(super) fn stop_time(&self, behaviour: &Behaviour, seed: Seed) -> Duration {
        let usual = || self.draw(seed).of("stop").between(behaviour.stop.0, behaviour.stop.1);
        self.image_behaviour(behaviour).stop.unwrap_or_else(usual)
    }

    fn ended(&self, code: i32, started: String, around: &Surroundings<'_>) -> Ended {
        let (finished, id) = (around.wall.to_owned(), self.id.clone());
        Ended { code, started, finished, id, made: self.made.clone() }
    }

    fn draw(&self, seed: Seed) -> Seed {
        seed.of(&self.name).of(&self.image).at(u64::from(self.restarts))
    }

    fn image_behaviour(&self, behaviour: &Behaviour) -> ImageBehaviour {
        behaviour.images.get(&self.image).cloned().unwrap_or_default()
    }
}
