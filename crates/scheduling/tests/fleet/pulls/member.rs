//! One member's copy of an ImagePullJob: its nodes, the controller that pulls on them one by one, and its agent.

use scheduling::{pulls::Copy, round::SlotReport};

use crate::dice::Dice;

/// How far one node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    Waiting,
    Pulling,
    Done,
    Failed,
}

/// What the hub writes for one cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) seq: u64,
    pub(super) slots: u32,
    /// Seconds the copy may run, from when it is made; `None` for as long as it takes.
    pub(super) seconds: Option<u32>,
    /// When this was written, for the checks.
    pub(super) written_at: u64,
}

/// One report: what the ledger reads of it, and what the status does.
#[derive(Debug, Clone)]
pub(super) struct Word {
    pub(super) slots: SlotReport,
    pub(super) copy: Copy,
}

/// The copy in the member, from the first plan on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running {
    pub(super) order: Order,
    /// When it was made.
    pub(super) made_at: u64,
    /// When it has to end.
    pub(super) ends_at: Option<u64>,
    /// For how long the plan that made it was under way.
    pub(super) late_by: u64,
}

#[derive(Debug)]
pub(super) struct Puller {
    pub(super) online: bool,
    /// Judged lost by the operator.
    pub(super) gone: bool,
    pub(super) nodes: Vec<Node>,
    pub(super) running: Option<Running>,
    /// It has said its last word, or is about to.
    pub(super) ended: bool,
    /// The hub had the copy removed.
    pub(super) removed: bool,
    /// Whether its nodes are to be served whenever they join.
    takes_all: bool,
    /// Whether the copy knows that, too.
    pub(super) never_ends: bool,
    observed: bool,
    incarnation: u64,
    number: u64,
    pub(super) outbox: Vec<Word>,
}

impl Puller {
    pub(super) fn new(nodes: usize, takes_all: bool) -> Self {
        Self {
            online: true,
            gone: false,
            nodes: vec![Node::Waiting; nodes],
            running: None,
            ended: false,
            removed: false,
            takes_all,
            never_ends: takes_all,
            observed: false,
            incarnation: 1,
            number: 0,
            outbox: Vec::new(),
        }
    }

    pub(super) fn count(&self, of: Node) -> u32 {
        self.nodes.iter().filter(|it| **it == of).count() as u32
    }

    pub(super) fn is_served(&self) -> bool {
        self.nodes.iter().all(|it| matches!(it, Node::Done | Node::Failed))
    }

    /// The agent takes up a plan, unless it is an old one or the copy is gone for good (PROTO-11).
    pub(super) fn apply(&mut self, order: Order, now: u64) {
        if self.removed {
            return;
        }
        match &mut self.running {
            Some(running) if order.seq <= running.order.seq => return,
            Some(running) => running.order = order,
            None => {
                let ends_at = order.seconds.map(|it| now + u64::from(it));
                let late_by = now - order.written_at;
                self.running = Some(Running { order, made_at: now, ends_at, late_by });
            }
        }
        self.observed = false;
    }

    /// One pass of the controller: at most one pull is begun. What runs is never cut short by fewer slots.
    pub(super) fn reconcile(&mut self, now: u64) {
        let Some(running) = self.running.filter(|_| !self.removed && !self.ended) else {
            self.observed = self.running.is_some();
            return;
        };
        self.observed = true;
        if running.ends_at.is_some_and(|it| it <= now) {
            for node in self.nodes.iter_mut().filter(|it| matches!(it, Node::Waiting | Node::Pulling)) {
                *node = Node::Failed;
            }
        } else if self.count(Node::Pulling) < running.order.slots
            && let Some(next) = self.nodes.iter_mut().find(|it| **it == Node::Waiting)
        {
            *next = Node::Pulling;
        }
        self.ended = !self.never_ends && self.is_served();
    }

    /// A pull comes to an end: mostly well, sometimes not, and sometimes the node has to begin anew.
    pub(super) fn finish_one(&mut self, dice: &mut Dice) {
        if let Some(node) = self.nodes.iter_mut().find(|it| **it == Node::Pulling) {
            *node = dice.pick(&[Node::Done, Node::Done, Node::Done, Node::Failed, Node::Waiting]);
        }
    }

    /// A node joins, or one that is not served leaves.
    pub(super) fn change_nodes(&mut self, dice: &mut Dice) {
        let unserved = |it: &Node| matches!(it, Node::Waiting | Node::Pulling);
        if self.ended || dice.permille(500) {
            // A job that is over is not about it any more.
            if (self.takes_all || !self.ended) && self.nodes.len() < 14 {
                self.nodes.push(Node::Waiting);
            }
        } else if let Some(place) = self.nodes.iter().position(unserved) {
            self.nodes.remove(place);
        }
    }

    pub(super) fn report(&mut self) {
        self.number += 1;
        let active = self.count(Node::Pulling);
        let slots = SlotReport {
            incarnation: self.incarnation,
            number: self.number,
            seq: self.running.map_or(0, |it| it.order.seq),
            observed: self.observed,
            active,
            left: active + self.count(Node::Waiting),
        };
        self.outbox.push(Word { slots, copy: self.copy() });
        if self.outbox.len() > 4 {
            self.outbox.remove(0);
        }
    }

    /// The copy's status as it truly is.
    pub(super) fn copy(&self) -> Copy {
        let failed = self.nodes.iter().enumerate().filter(|it| *it.1 == Node::Failed);
        Copy {
            desired: self.nodes.len() as u32,
            active: self.count(Node::Pulling),
            succeeded: self.count(Node::Done),
            failed: self.count(Node::Failed),
            failed_nodes: failed.map(|it| format!("n{}", it.0)).collect(),
            is_final: self.ended,
            is_lost: self.gone,
        }
    }

    /// The agent starts anew: the plan is kept in the member.
    pub(super) fn restart(&mut self) {
        self.incarnation += 1;
        self.number = 0;
        self.observed = false;
    }
}
