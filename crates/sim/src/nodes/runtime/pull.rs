//! Downloads that the runtime is asked for.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::{
    images::{Ending, Login, Refusal, Registry, familiar, full},
    nodes::{Behaviour, ImageBehaviour},
    world::{Member, Shared, lock},
};

/// A download that is under way. Dropped before its end it is given up.
pub(super) struct Ticket {
    pub(super) takes: Duration,
    world: Weak<Shared>,
    record: Option<(Registry, usize)>,
    over: Arc<AtomicBool>,
}

/// What the end of a download needs to know of its ticket.
pub(super) struct Stub {
    record: Option<(Registry, usize)>,
    over: Arc<AtomicBool>,
}

impl Ticket {
    /// What ends the download when its time is over.
    pub(super) fn stub(&self) -> Stub {
        Stub { record: self.record.clone(), over: self.over.clone() }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let is_over = self.over.swap(true, Ordering::Relaxed);
        if let (false, Some(world), Some((registry, number))) = (is_over, self.world.upgrade(), &self.record)
        {
            registry.end(*number, world.clock.elapsed(), Ending::GivenUp);
        }
    }
}

pub(super) fn begin(
    world: &Arc<Shared>,
    member: &Arc<Member>,
    node: &str,
    image: &str,
    login: Option<&Login>,
    now: Duration,
) -> Result<Ticket, Refusal> {
    let (usual, is_there) = usual_time(member, node, image)?;
    let cluster = member.server().name();
    let registry = world.registries.of(image);
    let begun = registry.map(|it| {
        let begun = it.begin(&format!("{cluster}/{node}"), image, login, now, usual);
        begun.map(|(number, takes)| (it, number, takes))
    });
    let (record, takes) = match begun.transpose() {
        Ok(Some((registry, number, takes))) => (Some((registry, number)), takes),
        Ok(None) => (None, usual),
        Err(refusal) => {
            world.write_log(format_args!("{cluster} runtime {node} is refused {image}"));
            return Err(refusal);
        }
    };
    if is_there {
        if let Some((registry, number)) = &record {
            registry.end(*number, now, Ending::Unchanged);
        }
        let over = Arc::new(AtomicBool::new(true));
        return Ok(Ticket { takes: Duration::ZERO, world: Arc::downgrade(world), record: None, over });
    }
    world.write_log(format_args!("{cluster} runtime {node} pulls {image}"));
    Ok(Ticket { takes, world: Arc::downgrade(world), record, over: Arc::default() })
}

/// The node has the image, unless the download was given up.
pub(super) fn end(
    world: &Arc<Shared>,
    member: &Arc<Member>,
    node: &str,
    image: &str,
    stub: &Stub,
    now: Duration,
) {
    if stub.over.swap(true, Ordering::Relaxed) {
        return;
    }
    if let Some((registry, number)) = &stub.record {
        registry.end(*number, now, Ending::Done);
    }
    if let Some(entry) = lock(&member.nodes).entries.get_mut(node) {
        entry.images.insert(image.to_owned());
    }
    world.write_log(format_args!("{} runtime {node} has {image}", member.server().name()));
}

/// How long a download takes if its registry does not say otherwise, and whether the node has the image already.
fn usual_time(member: &Arc<Member>, node: &str, image: &str) -> Result<(Duration, bool), Refusal> {
    let mut nodes = lock(&member.nodes);
    let own = of_image(&nodes.behaviour, image).cloned().unwrap_or_default();
    if own.missing {
        return Err(Refusal::new("NotFound", format!("failed to resolve reference {image:?}: not found")));
    }
    let (seed, (from, to)) = (nodes.seed.of("pull").of(node).of(image), nodes.behaviour.pull);
    let Some(entry) = nodes.entries.get_mut(node) else {
        return Err(Refusal::new("Unavailable", format!("node {node} is gone")));
    };
    entry.pulls += 1;
    let takes = own.pull.unwrap_or_else(|| seed.at(entry.pulls).between(from, to));
    Ok((takes, entry.images.contains(image)))
}

fn of_image<'a>(behaviour: &'a Behaviour, image: &str) -> Option<&'a ImageBehaviour> {
    let images = &behaviour.images;
    let exact = images.get(familiar(image));
    exact.or_else(|| images.iter().find(|(name, _)| full(name) == image).map(|(_, it)| it))
}
