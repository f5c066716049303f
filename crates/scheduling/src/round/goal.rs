use super::{
    Population,
    draft::{Draft, Line, Reach},
    reason::{Condition, Why},
};
use crate::{
    moves::Imbalance,
    partition::Seeding,
    reason::Change,
    split::{self, Candidate, Goal, Mode, Request, State},
};

impl Draft<'_> {
    /// Asks the split what every cluster should have in the end (section 6).
    pub(super) fn set_goals(&mut self) {
        if self.world.spec.population == Population::Matched {
            self.population = self.live().map(|it| u64::from(self.lines[it].before)).sum();
            self.ledger.population = self.population;
            return;
        }
        match split::plan(&self.request()) {
            Ok(answer) => self.follow(&answer),
            Err(error) => {
                self.population = self.live().map(|it| u64::from(self.lines[it].before)).sum();
                self.conditions.push(Condition::Refused(error));
            }
        }
        self.note_scale_down();
        // Where each cluster has all replicas, one's overdue growth is no other's loss (SPLIT-6).
        if self.ledger.scale_down > 0 && self.world.mode != Mode::Duplicated {
            self.take_overdue_growth_first();
        }
        self.rebalance();
    }

    fn request(&self) -> Request {
        let takes_more = |it| matches!(it, State::Ready | State::Unconfirmed);
        let candidate = |place: usize| {
            let (cluster, line) = (&self.world.clusters[place], &self.lines[place]);
            let state = match line.reach {
                // A cluster that is not heard, or was taken back just now, keeps what it has.
                Reach::Frozen if cluster.candidate.state != State::Unsupported => State::Offline,
                Reach::Away => State::Lost,
                // Taken back already: it keeps what it was granted, and gets no more before it is ready (FO-6).
                _ if cluster.candidate.state == State::Returning => State::Cordoned,
                // Pods added there during a release would all be of one revision, due or not (REV-7).
                _ if takes_more(cluster.candidate.state) && self.is_one_sided(place) => State::Cordoned,
                // What it has stays, as the volumes would (CS-5).
                _ if self.keeps_volumes(place) => State::Cordoned,
                _ => cluster.candidate.state,
            };
            let current = if line.reach == Reach::Away { 0 } else { line.before };
            Candidate { state, current, ..cluster.candidate.clone() }
        };
        Request {
            replicas: self.world.spec.replicas,
            mode: self.world.mode,
            selects_none: self.world.selects_none,
            when_short: self.world.when_short,
            goal: Goal::LeastMovement,
            spread: self.world.spread.to_vec(),
            clusters: (0..self.lines.len()).map(candidate).collect(),
        }
    }

    /// Whether a cluster cannot run old pods beside new ones while there are both.
    pub(super) fn is_one_sided(&self, place: usize) -> bool {
        self.ledger.is_releasing() && self.world.clusters[place].seeding == Seeding::Unable
    }

    /// Whether a cluster is drained and its pods stay all the same, because nobody said that their volumes may be left behind
    /// (CS-5).
    pub(super) fn keeps_volumes(&self, place: usize) -> bool {
        let cluster = &self.world.clusters[place];
        self.world.spec.stateful && cluster.candidate.state == State::Draining && !cluster.moves_stateful
    }

    fn follow(&mut self, answer: &split::Answer) {
        self.population = answer.population;
        self.unplaced = answer.unplaced;
        self.conditions.extend(answer.conditions.iter().cloned().map(Condition::Division));
        for place in self.by_rank.clone() {
            let row = &answer.rows[place];
            let line = &mut self.lines[place];
            if line.reach == Reach::Away {
                continue;
            }
            line.goal = row.replicas;
            line.least_move = row.replicas;
            line.ideal = row.ideal;
            if row.why.change != Change::Kept {
                self.decide(place, Why::Placed(row.why));
            }
        }
    }

    /// Moves goals from the least movement towards the ideal split, as far as a rebalance may go now.
    fn rebalance(&mut self) {
        let deadline = self.world.rules.progress_deadline;
        let heard: Vec<usize> = self.heard().collect();
        let distance = |it: &usize| self.lines[*it].before.abs_diff(self.lines[*it].ideal);
        // Pods with volumes of their own are where they should be, wherever they are (CS-5).
        let stays = self.world.spec.stateful;
        let seen = Imbalance {
            largest: heard.iter().filter(|_| !stays).map(distance).max().unwrap_or(0),
            overdue: self
                .live()
                .map(|it| &self.ledger.rows[it])
                .filter(|it| it.moving_for > deadline)
                .map(|it| u64::from(it.moving))
                .sum(),
            all_are_heard: stays || self.live().count() == heard.len(),
            gate_is_open: self.ledger.release.as_ref().is_some_and(|it| it.gate_is_open()),
        };
        let allowed = self.ledger.rebalance.allowance(&self.world.rules.rebalance, &seen, self.world.elapsed);
        let allowed = allowed.unwrap_or_else(|held| {
            self.conditions.push(Condition::RebalanceHeld(held));
            0
        });
        let wanted: u64 = heard
            .iter()
            .map(|it| u64::from(self.lines[*it].ideal.saturating_sub(self.lines[*it].goal)))
            .sum();
        let surplus: u64 = heard
            .iter()
            .map(|it| u64::from(self.lines[*it].goal.saturating_sub(self.lines[*it].ideal)))
            .sum();
        let moves = allowed.min(wanted).min(surplus);
        let (mut to_give, mut to_take) = (moves, moves);
        for place in heard {
            let line = &mut self.lines[place];
            let more = u64::from(line.ideal.saturating_sub(line.goal)).min(to_give);
            let less = u64::from(line.goal.saturating_sub(line.ideal)).min(to_take);
            line.goal = line.goal + more as u32 - less as u32;
            to_give -= more;
            to_take -= less;
        }
    }

    /// A scale-down takes growth that has not become available within the deadline before pods that are available,
    /// as one cluster deletes the pods that are not ready first (MOVE-3, MOVE-6).
    fn take_overdue_growth_first(&mut self) {
        let deadline = self.world.rules.progress_deadline;
        let heard: Vec<usize> = self.heard().collect();
        let falls = |line: &Line| line.before.saturating_sub(line.goal);
        // What each cluster is to lose for the scale-down, used up from the front.
        let mut losses: Vec<(usize, u32)> = heard.iter().map(|it| (*it, falls(&self.lines[*it]))).collect();
        let mut first = 0;
        for &place in &heard {
            let (line, row) = (&self.lines[place], &self.ledger.rows[place]);
            if row.moving_for <= deadline || !row.acknowledged {
                continue;
            }
            let mut overdue = line.starting.saturating_sub(falls(line)).min(line.goal);
            let mut next = first;
            while overdue > 0 && next < losses.len() {
                let (other, loss) = losses[next];
                // Its own loss is no other's; it stays for those that follow.
                if other != place {
                    let spared = loss.min(overdue);
                    losses[next].1 -= spared;
                    self.lines[other].goal += spared;
                    self.lines[place].goal -= spared;
                    overdue -= spared;
                }
                if losses[next].1 == 0 && next == first {
                    first += 1;
                }
                next += 1;
            }
        }
        for place in heard {
            let line = &mut self.lines[place];
            line.least_move = line.goal;
        }
    }

    /// Notes how much the user has taken away that is still granted (MOVE-3).
    fn note_scale_down(&mut self) {
        let before = |it: usize| u64::from(self.lines[it].before);
        let granted: u64 = self.live().map(before).sum();
        let wanted = self.population;
        let credit = if self.world.mode == Mode::Duplicated {
            // The population falls with the number of clusters too, and that is no word of the user's.
            let replicas = u64::from(self.world.spec.replicas);
            self.live().map(|it| before(it).saturating_sub(replicas)).sum()
        } else {
            let last = self.ledger.population;
            (self.ledger.scale_down + last.saturating_sub(wanted)).saturating_sub(wanted.saturating_sub(last))
        };
        self.ledger.scale_down = credit.min(granted.saturating_sub(self.to_keep()));
        self.ledger.population = wanted;
    }
}
