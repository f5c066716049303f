//! One member cluster: its pods, its CloneSet controller, and its agent.

use scheduling::ledger::{Report, Revision, Share};

use crate::{
    arithmetic::Numbers,
    pod::{Cause, Missing, Pod},
};

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) online: bool,
    pub(crate) exists: bool,
    pub(crate) in_place: bool,
    pub(crate) rolls_back: bool,
    /// Cannot carry maxSurge: written with maxUnavailable 1 where it has no share (BUD-9).
    pub(crate) in_place_only: bool,
    /// Knows the stable revision beside the target: else every pod it makes is of its body's.
    pub(crate) seeds: bool,
    pub(crate) pods: Vec<Pod>,
    /// The share in force.
    pub(crate) share: Share,
    pub(crate) missing: Missing,
    pub(crate) known_epoch: u64,
    pub(crate) observed: bool,
    pub(crate) incarnation: u64,
    /// The newest plan of which all that may be updated was updated and available at a time.
    pub(crate) fulfilled: u64,
    number: u64,
    next_pod: u64,
    /// Reports under way, oldest first.
    pub(crate) outbox: Vec<Report>,
}

impl Member {
    pub(crate) fn new(in_place: bool, rolls_back: bool, in_place_only: bool) -> Self {
        Self {
            online: true,
            exists: false,
            in_place,
            rolls_back,
            in_place_only,
            seeds: true,
            pods: Vec::new(),
            share: Share::default(),
            missing: Missing::default(),
            known_epoch: 0,
            observed: false,
            incarnation: 1,
            fulfilled: 0,
            number: 0,
            next_pod: 1,
            outbox: Vec::new(),
        }
    }

    pub(crate) fn available(&self) -> u32 {
        self.pods.iter().filter(|it| it.available).count() as u32
    }

    pub(crate) fn of(&self, revision: Revision) -> u32 {
        self.pods.iter().filter(|it| it.revision == revision).count() as u32
    }

    /// Pods of a revision that are not to be deleted.
    pub(crate) fn staying(&self, revision: Revision) -> u32 {
        self.pods.iter().filter(|it| it.revision == revision && !it.marked).count() as u32
    }

    /// Replicas down because we took them down.
    pub(crate) fn taken_down(&self) -> u32 {
        let down = self.pods.iter().filter(|it| !it.available && it.cause == Cause::Update).count() as u32;
        self.short().min(self.missing.update + down)
    }

    /// Replicas not available yet because growth granted them.
    pub(crate) fn growing(&self) -> u32 {
        let starting =
            self.pods.iter().filter(|it| !it.available && it.cause == Cause::Growth).count() as u32;
        let surplus = (self.pods.len() as u32).saturating_sub(self.share.replicas);
        self.short().min((self.missing.growth + starting).saturating_sub(surplus))
    }

    /// Available pods above the replicas.
    pub(crate) fn spare(&self) -> u32 {
        self.available().saturating_sub(self.share.replicas)
    }

    fn short(&self) -> u32 {
        self.share.replicas.saturating_sub(self.available())
    }

    /// The agent takes up a plan, unless it is an old one.
    pub(crate) fn apply(&mut self, share: &Share) {
        if (self.exists && share.seq <= self.share.seq) || share.epoch < self.known_epoch {
            return;
        }
        let ours = self.taken_down();
        let failed = self.missing.failure;
        let growing = self.growing().saturating_sub(self.share.replicas.saturating_sub(share.replicas));
        self.exists = true;
        let before = self.share.replicas;
        self.missing.growth += share.replicas.saturating_sub(before);
        self.share = *share;
        self.observed = false;
        for pod in self.pods.iter_mut().filter(|it| it.id == share.named) {
            pod.marked = true;
        }
        self.square_missing();
        // A shrink takes back growth first (MOVE-6): what failed and has no pod is still missing by its failure.
        for _ in self.missing.failure..failed {
            if share.replicas < before && self.growing() > growing {
                self.rename(Cause::Growth, Cause::Failure);
            }
        }
        // A surge pod that becomes a replica leaves the pod it stood in for as the one that is starting.
        while self.taken_down() > ours {
            self.rename(Cause::Update, Cause::Growth);
        }
    }

    /// Keeps the reasons in line with how many pods are missing.
    pub(crate) fn square_missing(&mut self) {
        let gap = self.share.replicas.saturating_sub(self.pods.len() as u32);
        for cause in [Cause::Start, Cause::Failure, Cause::Growth, Cause::Update] {
            let over = self.missing.total().saturating_sub(gap);
            let count = self.missing.of(cause);
            *count -= over.min(*count);
        }
        self.missing.start += gap.saturating_sub(self.missing.total());
    }

    /// One pass of the controller: the first thing that changes something ends it.
    pub(crate) fn reconcile(&mut self) {
        if !self.exists {
            return;
        }
        self.observed = true;
        // A plan of an older epoch may not be acted on (FO-5).
        if self.share.epoch < self.known_epoch {
            return;
        }
        let numbers = Numbers::of(self);
        if self.create(&numbers) || self.delete(&numbers) {
            return;
        }
        self.update(&numbers);
    }

    fn create(&mut self, numbers: &Numbers) -> bool {
        for index in 0..numbers.create {
            let mut cause = Cause::Start;
            for it in [Cause::Update, Cause::Growth, Cause::Failure, Cause::Start] {
                if *self.missing.of(it) > 0 {
                    *self.missing.of(it) -= 1;
                    cause = it;
                    break;
                }
            }
            let revision =
                if index < numbers.create_old && self.seeds { self.share.stable } else { self.share.body };
            self.pods.push(Pod { id: self.next_pod, revision, available: false, marked: false, cause });
            self.next_pod += 1;
        }
        self.square_missing();
        numbers.create > 0
    }

    fn delete(&mut self, numbers: &Numbers) -> bool {
        if numbers.short {
            return false;
        }
        let mut ready_deletes = numbers.ready_deletes;
        let mut doomed: Vec<(u64, bool)> = Vec::new();
        let mut condemn = |pod: &Pod, marked: bool, doomed: &mut Vec<(u64, bool)>| {
            if pod.available {
                if ready_deletes == 0 {
                    return;
                }
                ready_deletes -= 1;
            }
            doomed.push((pod.id, marked));
        };
        if self.pods.iter().any(|it| it.marked) {
            for pod in self.pods.iter().filter(|it| it.marked) {
                condemn(pod, true, &mut doomed);
            }
        } else if numbers.delete > 0 {
            let old = numbers.delete.min(numbers.delete_old);
            for (is_old, count) in [(true, old), (false, numbers.delete - old)] {
                let chosen = |it: &&Pod| (it.revision != self.share.body) == is_old;
                let mut taken = 0;
                for available in [false, true] {
                    for pod in self.pods.iter().filter(chosen).filter(|it| it.available == available) {
                        if taken < count {
                            condemn(pod, false, &mut doomed);
                            taken += 1;
                        }
                    }
                }
            }
        }
        for (id, marked) in &doomed {
            self.remove(*id, *marked);
        }
        !doomed.is_empty()
    }

    fn remove(&mut self, id: u64, marked: bool) {
        let Some(index) = self.pods.iter().position(|it| it.id == id) else { return };
        let pod = self.pods.remove(index);
        if marked {
            *self.missing.of(if pod.available { Cause::Update } else { pod.cause }) += 1;
        } else if pod.available && self.available() < self.share.replicas {
            self.missing.update += 1;
        } else if !pod.available && pod.cause == Cause::Failure {
            // The failed pod goes and a starting one stays: the shortfall is still the failure's.
            if let Some(it) = self.pods.iter_mut().find(|it| !it.available && it.cause == Cause::Growth) {
                it.cause = Cause::Failure;
            }
        }
        self.square_missing();
    }

    fn update(&mut self, numbers: &Numbers) {
        if self.share.paused || self.share.is_still() || numbers.update == 0 {
            return;
        }
        let (forward, to) =
            if numbers.update > 0 { (true, self.share.body) } else { (false, self.share.stable) };
        let body = self.share.body;
        let mut down = self.pods.iter().filter(|it| !it.available).count() as i64;
        let mut down_new = self.pods.iter().filter(|it| !it.available && it.revision == to).count() as i64;
        let mut left = numbers.update.abs();
        for available in [false, true] {
            for index in 0..self.pods.len() {
                let pod = self.pods[index];
                if pod.available != available || (pod.revision != body) != forward || pod.revision == to {
                    continue;
                }
                // A pod already on its way out was chosen in an earlier pass and counts again.
                if left == 0 || down_new >= numbers.update_limit {
                    return;
                }
                if pod.available {
                    if down >= numbers.update_limit {
                        return;
                    }
                    down += 1;
                }
                left -= 1;
                down_new += 1;
                self.update_pod(index, to);
            }
        }
    }

    fn update_pod(&mut self, index: usize, to: Revision) {
        let pod = &mut self.pods[index];
        if !self.in_place {
            pod.marked = true;
            return;
        }
        pod.revision = to;
        if !pod.available {
            return;
        }
        pod.available = false;
        pod.cause = Cause::Start;
        if self.available() < self.share.replicas {
            self.pods[index].cause = Cause::Update;
        }
    }

    /// Notes whether what the plan allows is reached.
    pub(crate) fn note_progress(&mut self) {
        let updated =
            self.pods.iter().filter(|it| it.available && it.revision == self.share.body).count() as u32;
        if self.observed && updated >= self.share.updated {
            self.fulfilled = self.share.seq;
        }
    }

    /// The agent reads the counts and puts a report on its way.
    pub(crate) fn report(&mut self, is_bad: impl Fn(Revision) -> bool) {
        self.number += 1;
        let share = &self.share;
        let count = |it: &dyn Fn(&Pod) -> bool| self.pods.iter().filter(|pod| it(pod)).count() as u32;
        let report = Report {
            incarnation: self.incarnation,
            number: self.number,
            seq: share.seq,
            epoch: share.epoch,
            known_epoch: self.known_epoch,
            observed: self.observed,
            replicas: share.replicas,
            body: share.body,
            stable: share.stable,
            pods: self.pods.len() as u32,
            available: self.available(),
            updated: self.of(share.body),
            updated_available: count(&|it| it.available && it.revision == share.body),
            at_stable: self.of(share.stable),
            neither_unavailable: count(&|it| {
                !it.available && it.revision != share.stable && it.revision != share.body
            }),
            marked: count(&|it| it.marked),
            failing: count(&|it| !it.available && it.revision == share.body && is_bad(it.revision)),
            unselected: 0,
            unselected_updated: 0,
        };
        self.outbox.push(report);
        if self.outbox.len() > 4 {
            self.outbox.remove(0);
        }
    }

    /// The agent starts anew: what it had not sent is gone, the plan is kept in the member.
    pub(crate) fn restart(&mut self) {
        self.incarnation += 1;
        self.number = 0;
        self.observed = false;
    }

    /// A pod fails, or is evicted. What that does to the numbers is never put down to us.
    pub(crate) fn hurt(&mut self, index: usize, evict: bool) {
        let (ours, growing) = (self.taken_down(), self.growing());
        let pod = self.pods[index];
        if evict {
            self.pods.remove(index);
            *self.missing.of(if pod.available { Cause::Failure } else { pod.cause }) += 1;
            self.square_missing();
        } else if pod.available {
            self.pods[index].available = false;
            self.pods[index].cause = Cause::Failure;
        }
        while self.taken_down() > ours {
            self.rename(Cause::Update, Cause::Failure);
        }
        while self.growing() > growing {
            self.rename(Cause::Growth, Cause::Failure);
        }
    }

    fn rename(&mut self, from: Cause, to: Cause) {
        if let Some(it) = self.pods.iter_mut().find(|it| !it.available && it.cause == from) {
            it.cause = to;
        } else {
            *self.missing.of(from) -= 1;
            *self.missing.of(to) += 1;
        }
    }

    /// A returned cluster's pods that are down count as starting, not as taken down (FO-6).
    pub(crate) fn count_as_growing(&mut self) {
        for pod in self.pods.iter_mut().filter(|it| it.cause == Cause::Update) {
            pod.cause = Cause::Growth;
        }
        self.missing.growth += self.missing.update;
        self.missing.update = 0;
    }
}
