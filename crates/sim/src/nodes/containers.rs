//! One container: pulled, started, ready, stopped, started again.

use std::time::Duration;

use super::{Behaviour, Due, ImageBehaviour};
use crate::seed::Seed;

/// A container as its node runs it.
#[derive(Debug)]
pub(super) struct ContainerRun {
    pub(super) name: String,
    /// The image that runs, or is being brought up.
    pub(super) image: String,
    pub(super) restarts: u32,
    pub(super) id: Option<String>,
    pub(super) state: State,
    pub(super) last: Option<Ended>,
    /// How often it exited by itself in a row.
    crashes: u32,
    /// A readiness set from outside.
    pub(super) forced_ready: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing was done for it yet.
    New,
    /// Its image is pulled, then it is created.
    Creating { until: Duration },
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
}

/// What a container needs to know to move on.
pub(super) struct Surroundings<'a> {
    pub(super) behaviour: &'a Behaviour,
    pub(super) seed: Seed,
    pub(super) now: Duration,
    pub(super) wall: &'a str,
    /// Whether the node has the image already.
    pub(super) has_image: bool,
    pub(super) probe_delay: Option<Duration>,
    pub(super) restart: Restart,
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
            state: State::New,
            last: None,
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
                let stop = self.stop_time(around);
                self.state = State::Replacing { until: around.now + stop, wall: wall.clone() };
                self.image = wanted.to_owned();
            }
            State::New | State::Creating { .. } | State::NoImage { .. } => {
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
            State::NoImage { until } if *until <= now => self.begin(around),
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

    fn begin(&self, around: &Surroundings<'_>) -> State {
        let image = self.image_behaviour(around.behaviour);
        if image.missing {
            return State::NoImage { until: around.now + Duration::from_secs(20) };
        }
        let draw = self.draw(around);
        let pull = match (around.has_image, image.pull) {
            (true, _) => Duration::ZERO,
            (false, Some(pull)) => pull,
            (false, None) => draw.of("pull").between(around.behaviour.pull.0, around.behaviour.pull.1),
        };
        let start = draw.of("start").between(around.behaviour.start.0, around.behaviour.start.1);
        State::Creating { until: around.now + pull + start }
    }

    fn run(&mut self, around: &Surroundings<'_>) -> State {
        let image = self.image_behaviour(around.behaviour);
        let draw = self.draw(around);
        let id = format!(
            "{:016x}{:016x}{:016x}{:016x}",
            draw.bits(),
            draw.at(1).bits(),
            draw.at(2).bits(),
            draw.at(3).bits()
        );
        self.id = Some(format!("containerd://{id}"));
        let ready = match (image.never_ready, image.ready, around.probe_delay) {
            (true, _, _) => None,
            (false, Some(delay), _) => Some(delay),
            (false, None, Some(first)) => {
                Some(first + draw.of("ready").between(around.behaviour.ready.0, around.behaviour.ready.1))
            }
            (false, None, None) => Some(Duration::ZERO),
        };
        State::Running {
            since: around.now,
            wall: around.wall.to_owned(),
            ready_at: ready.map(|it| around.now + it),
            exit: image.exit.map(|(after, code)| (around.now + after, code)),
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

    /// Ends it for good.
    pub(super) fn stop(&mut self, code: i32, around: &Surroundings<'_>) {
        let started = match &self.state {
            State::Running { wall, .. } | State::Replacing { wall, .. } => wall.clone(),
            State::Done(_) => return,
            _ => around.wall.to_owned(),
        };
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
            State::Creating { until }
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
    pub(super) fn stop_time(&self, around: &Surroundings<'_>) -> Duration {
        let usual = || self.draw(around).of("stop").between(around.behaviour.stop.0, around.behaviour.stop.1);
        self.image_behaviour(around.behaviour).stop.unwrap_or_else(usual)
    }

    fn ended(&self, code: i32, started: String, around: &Surroundings<'_>) -> Ended {
        Ended { code, started, finished: around.wall.to_owned(), id: self.id.clone() }
    }

    fn draw(&self, around: &Surroundings<'_>) -> Seed {
        around.seed.of(&self.name).of(&self.image).at(u64::from(self.restarts))
    }

    fn image_behaviour(&self, behaviour: &Behaviour) -> ImageBehaviour {
        behaviour.images.get(&self.image).cloned().unwrap_or_default()
    }
}
