//! What is going to happen, in order: every arrival, answer, kubelet step and collection is an entry here.
//!
//! One task works the entries off. Entries that are due in the same instant run in the order of their rank, and the
//! rank of a request comes from what the request is and not from when its task happened to be polled. That is what
//! makes a run repeatable though tokio's and the hash maps' own order is not.

use std::{
    cmp::Ordering,
    collections::BinaryHeap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use tokio::sync::Notify;

use crate::world::{Member, Shared, said};

type Job = Box<dyn FnOnce(&Arc<Shared>) + Send>;

/// The entries, soonest first.
#[derive(Default)]
pub(crate) struct Agenda {
    queue: Mutex<Queue>,
    wake: Notify,
}

#[derive(Default)]
struct Queue {
    entries: BinaryHeap<Entry>,
    count: u64,
}

pub(crate) struct Entry {
    due: Duration,
    rank: u64,
    sequence: u64,
    /// The cluster that the job may write to.
    member: Option<Arc<Member>>,
    job: Job,
}

impl Agenda {
    /// Adds an entry.
    pub(crate) fn add(
        &self,
        due: Duration,
        rank: u64,
        member: Option<Arc<Member>>,
        job: impl FnOnce(&Arc<Shared>) + Send + 'static,
    ) {
        let mut queue = self.queue.lock().expect("no panic happens under this lock");
        queue.count += 1;
        let sequence = queue.count;
        let first = queue.entries.peek().is_none_or(|it| due < it.due);
        queue.entries.push(Entry { due, rank, sequence, member, job: Box::new(job) });
        if first {
            self.wake.notify_one();
        }
    }

    fn pop(&self, now: Duration) -> Option<Entry> {
        let mut queue = self.queue.lock().expect("no panic happens under this lock");
        if queue.entries.peek()?.due > now {
            return None;
        }
        queue.entries.pop()
    }

    fn next_due(&self) -> Option<Duration> {
        let queue = self.queue.lock().expect("no panic happens under this lock");
        queue.entries.peek().map(|it| it.due)
    }
}

/// Works entries off for as long as the world exists.
pub(crate) async fn drive(agenda: Arc<Agenda>, world: Weak<Shared>) {
    loop {
        let wait = {
            let Some(world) = world.upgrade() else { return };
            let mut worked = 0_u32;
            while let Some(entry) = agenda.pop(world.clock.elapsed()) {
                let Entry { member, job, .. } = entry;
                // A job that panics must not end the driver: everybody would wait for ever, and nobody would say why.
                let done = catch_unwind(AssertUnwindSafe(|| {
                    job(&world);
                    if let Some(member) = &member {
                        world.settle(member);
                    }
                }));
                if let Err(panic) = done {
                    world.fail(format!("an entry of the agenda panicked: {}", said(&*panic)));
                }
                worked += 1;
                // Let clients see their answers before a long backlog is through.
                if worked == 256 {
                    break;
                }
            }
            match agenda.next_due() {
                Some(_) if worked == 256 => None,
                Some(due) => Some(Some(world.clock.instant(due))),
                None => Some(None),
            }
        };
        match wait {
            None => tokio::task::yield_now().await,
            Some(None) => agenda.wake.notified().await,
            Some(Some(instant)) => {
                tokio::select! {
                    biased;
                    () = agenda.wake.notified() => {}
                    () = tokio::time::sleep_until(instant) => {}
                }
            }
        }
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// Reversed: the heap gives out its greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |it: &Self| (it.due, it.rank, it.sequence);
        key(other).cmp(&key(self))
    }
}
