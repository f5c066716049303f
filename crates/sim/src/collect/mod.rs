//! What the controller manager does for every cluster: garbage collection and the end of namespaces.

mod memory;
mod namespaces;
mod owners;
mod verdict;

use std::sync::Arc;

pub(crate) use memory::Memory;

use crate::{
    server::{Controllers, store::Change},
    world::{Member, Shared},
};

/// Looks at one write and plans what follows from it.
pub(crate) fn react(world: &Arc<Shared>, member: &Arc<Member>, change: &Change) {
    if member.server().settings().controllers == Controllers::Absent {
        return;
    }
    owners::react(world, member, change);
    namespaces::react(world, member, change);
}
