//! What each cluster keeps and may reach before anything is divided (REV-3, REV-5, REV-9, REV-15).

use super::{Admission, Body, Cluster, Link, Request, Rollback, Row, Seeding};
use crate::{numbers::Pace, reason::Share, webster::Part};

/// One cluster at work, ordered by wave, then rank, then name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// Its index in the request.
    pub(super) place: usize,
    pub(super) wave: u32,
    pub(super) replicas: u32,
    /// What it has, and the most it may have.
    pub(super) part: Part,
    pub(super) floor: u32,
    /// Can only have nothing or everything.
    pub(super) is_whole: bool,
    pub(super) is_frozen: bool,
    /// Units it was given out of turn to mend broken pods.
    pub(super) mends: u32,
    /// What holds it back, if it does not get its part.
    held_by: Option<Share>,
}

pub(super) fn slots(request: &Request) -> Vec<Slot> {
    let mut slots: Vec<Slot> =
        request.clusters.iter().enumerate().map(|(place, it)| slot(request, place, it)).collect();
    slots.sort_unstable_by(|a, b| {
        let key = |it: &Slot| (it.wave, request.clusters[it.place].rank);
        let name = |it: &Slot| &request.clusters[it.place].name;
        key(a).cmp(&key(b)).then_with(|| name(a).cmp(name(b)))
    });
    slots
}

fn slot(request: &Request, place: usize, it: &Cluster) -> Slot {
    let mut slot = Slot {
        place,
        wave: it.wave,
        replicas: it.replicas,
        part: Part::default(),
        floor: 0,
        is_whole: false,
        is_frozen: false,
        mends: 0,
        held_by: None,
    };
    if let Link::Frozen { exposure } = it.link {
        slot.part = super::part(it.replicas, exposure, exposure);
        slot.floor = exposure;
        slot.is_frozen = true;
        slot.held_by = Some(Share::Frozen);
        return slot;
    }

    slot.floor = floor(request, it);
    let mut top = it.replicas;
    if it.seeding == Seeding::Unable {
        slot.held_by = Some(Share::CannotSeed);
        slot.is_whole = !it.has_target;
        if it.has_target {
            slot.floor = it.replicas;
        }
    }
    if request.pace == Pace::Paused {
        // Added pods follow the partition, existing ones stay as they are.
        top = top.min(it.granted.saturating_add(it.replicas.saturating_sub(it.previous)));
        slot.held_by = Some(Share::Paused);
    }
    if it.admission == Admission::ToCome {
        top = slot.floor;
        slot.held_by = Some(Share::WaveToCome);
    }
    // A cluster that takes all or nothing takes no part in the division.
    slot.is_whole &= top == it.replicas && slot.floor == 0;
    let top = if slot.is_whole { 0 } else { top };
    slot.part = super::part(it.replicas, slot.floor, top);
    slot
}

/// Pods that are updated and stay so. Of those a shrink takes, any may have been updated ones.
fn floor(request: &Request, it: &Cluster) -> u32 {
    match request.rollback {
        Rollback::On => 0,
        Rollback::Off => staying(it),
    }
}

fn staying(it: &Cluster) -> u32 {
    it.updated.saturating_sub(it.previous.saturating_sub(it.replicas)).min(it.replicas)
}

/// Gives units to admitted clusters with broken old pods, one per pod, wave by wave in order of rank. They come on top
/// of the pods that are updated already, also where those are no floor: a unit one of them uses mends nothing.
pub(super) fn mend_first(request: &Request, slots: &mut [Slot], mut left: u64) -> u64 {
    for slot in slots.iter_mut().filter(|it| !it.is_frozen) {
        let cluster = &request.clusters[slot.place];
        if cluster.broken_old == 0 {
            continue;
        }
        let used = u64::from(staying(cluster).saturating_sub(slot.part.at));
        let more = slot.part.room().min(used + u64::from(cluster.broken_old)).min(left);
        slot.part.at += more as u32;
        slot.mends = more.saturating_sub(used) as u32;
        left -= more;
    }
    left
}

/// Gives clusters that take all or nothing all, in order, as long as it is there; the first that must wait makes the
/// later ones wait too, so that more to give never means less for anyone.
pub(super) fn give_whole(slots: &mut [Slot], mut left: u64) {
    for slot in slots.iter_mut().filter(|it| it.is_whole) {
        let all = u64::from(slot.replicas);
        if all > left {
            break;
        }
        slot.part.at = slot.replicas;
        left -= all;
    }
}

impl Slot {
    pub(super) fn row(&self, cluster: &Cluster) -> Row {
        let updated = self.part.at;
        let body = if updated == 0 && !cluster.has_target { Body::Stable } else { Body::Target };
        let member_partition = match body {
            // Pods of a superseded target that run well are not sent back before they get the new one.
            Body::Stable => cluster.leftovers.min(self.replicas),
            Body::Target => self.replicas.saturating_sub(updated),
        };
        Row { name: cluster.name.clone(), updated, member_partition, body, why: self.why() }
    }

    fn why(&self) -> Share {
        let updated = self.part.at;
        if self.is_frozen {
            return Share::Frozen;
        }
        if self.mends > 0 {
            return Share::Mends(self.mends);
        }
        if let Some(cause) = self.held_by
            && (updated < self.replicas || cause == Share::CannotSeed)
        {
            return cause;
        }
        match updated {
            _ if updated == self.replicas => Share::Full,
            0 => Share::NotDue,
            _ if updated == self.floor => Share::AlreadyUpdated,
            _ => Share::Due,
        }
    }
}
