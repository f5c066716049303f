//! Commands in containers.

use std::{fmt, sync::Arc, time::Duration};

use super::{Did, KILLED, gone, note, view};
use crate::{
    images::Refusal,
    nodes::{
        Nodes,
        containers::{ContainerRun, State},
    },
    world::{Member, Shared, lock},
};

/// A command, and where it runs.
#[derive(Debug, Clone, Copy)]
pub struct Command<'a> {
    /// The pod's name.
    pub pod: &'a str,
    /// The container's name.
    pub container: &'a str,
    /// The container's image, as its pod names it.
    pub image: &'a str,
    /// The program and its arguments.
    pub words: &'a [String],
}

/// What came of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ran {
    /// How long it took.
    pub takes: Duration,
    /// Its exit code.
    pub code: i32,
    /// What it printed.
    pub stdout: String,
    /// What it complained about.
    pub stderr: String,
}

type Program = dyn Fn(&Command<'_>) -> Ran + Send + Sync;

/// What commands do.
#[derive(Clone)]
pub(in crate::nodes) struct Programs(Arc<Program>);

impl Programs {
    pub(super) fn new(run: impl Fn(&Command<'_>) -> Ran + Send + Sync + 'static) -> Self {
        Self(Arc::new(run))
    }
}

impl Default for Programs {
    /// `sleep` takes as long as it says; everything else is quick and ends well.
    fn default() -> Self {
        Self::new(|command| {
            let words = command.words.iter().flat_map(|it| it.split_whitespace());
            let seconds = words.skip_while(|it| *it != "sleep").nth(1).and_then(|it| it.parse().ok());
            Ran { takes: Duration::from_secs(seconds.unwrap_or(0)), ..Ran::default() }
        })
    }
}

impl fmt::Debug for Programs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Programs")
    }
}

pub(super) fn begin(
    world: &Arc<Shared>,
    member: &Arc<Member>,
    node: &str,
    id: &str,
    words: Vec<String>,
    now: Duration,
) -> Result<Ran, Refusal> {
    let ran = {
        let mut nodes = lock(&member.nodes);
        let Nodes { runs, programs, .. } = &mut *nodes;
        let (pod, _) = view::names(runs, node, id).ok_or_else(|| gone(id))?;
        let container = view::find(runs, node, id).ok_or_else(|| gone(id))?.container;
        if !is_running(container, id, now) {
            return Err(Refusal::new("Unknown", format!("container {id:?} is not running")));
        }
        let image = container.made.as_ref().map_or(container.image.as_str(), |it| it.image.as_str());
        let name = container.name.as_str();
        (programs.0)(&Command { pod: &pod, container: name, image, words: &words })
    };
    note(world, member, node, id, now, Did::Exec(words));
    Ok(ran)
}

/// A command ends at the latest with its container.
pub(super) fn end(
    world: &Arc<Shared>,
    member: &Arc<Member>,
    node: &str,
    id: &str,
    ran: Ran,
    now: Duration,
) -> Ran {
    let is_alive = {
        let mut nodes = lock(&member.nodes);
        view::find(&mut nodes.runs, node, id).is_some_and(|it| is_running(it.container, id, now))
    };
    let ran = if is_alive { ran } else { Ran { code: KILLED, ..ran } };
    note(world, member, node, id, now, Did::ExecEnded(ran.code));
    ran
}

fn is_running(container: &ContainerRun, id: &str, now: Duration) -> bool {
    let runs = match &container.state {
        State::Running { exit, .. } => exit.is_none_or(|(at, _)| at > now),
        State::Replacing { until, .. } => *until > now,
        _ => false,
    };
    runs && view::is(container.id.as_deref(), id)
}
