use super::{
    OnReturn,
    draft::{Draft, Reach},
    reason::Why,
};
use crate::{
    ledger::{Row, Share},
    split::State,
};

impl Draft<'_> {
    /// Notes clusters that are given up now (FO-1, FO-5), and opens the lines of the round.
    pub(super) fn note_losses(&mut self) {
        let elapsed = self.world.elapsed;
        let mut lost = self.ledger.rows.iter().filter(|it| it.lost).count() as u32;
        for place in self.by_rank.clone() {
            let cluster = &self.world.clusters[place];
            let row = &mut self.ledger.rows[place];
            if cluster.candidate.state == State::Lost && !row.lost && lost < self.world.rules.max_lost {
                row.lose();
                lost += 1;
                self.decide(place, Why::Lost);
            } else {
                row.age(elapsed);
            }
            let row = &mut self.ledger.rows[place];
            if row.lost && cluster.stopped {
                // Nothing runs there any more (FO-9).
                row.replicas.exposure = 0;
                row.surge.exposure = 0;
                row.updated.exposure = 0;
                row.past.clear();
            }
        }
        self.open_lines();
    }

    /// Grants returned clusters what they run, under their new epoch (FO-6).
    pub(super) fn take_back_returned(&mut self) {
        for place in self.by_rank.clone() {
            if !self.world.clusters[place].is_heard() {
                continue;
            }
            let Some(share) = self.adoption(&self.ledger.rows[place]) else { continue };
            let target = self.ledger.target;
            let row = &mut self.ledger.rows[place];
            let available = row.report.map_or(0, |it| it.available);
            row.lost = false;
            row.write(share, target, share.replicas.saturating_sub(available));
            // Nothing else is changed there before it has acknowledged; its share counts from now on.
            let line = &mut self.lines[place];
            line.reach = Reach::Frozen;
            line.before = share.replicas;
            line.goal = share.replicas;
            line.least_move = share.replicas;
            line.replicas = share.replicas;
            line.starting = self.ledger.rows[place].moving;
            (line.unavailable, line.surge) = (share.unavailable, share.surge);
            if self.world.rules.on_return == OnReturn::Failback {
                self.ledger.rebalance.ask();
            }
            self.decide(place, Why::Returned { replicas: share.replicas });
        }
    }

    fn adoption(&self, row: &Row) -> Option<Share> {
        let report = row.report.filter(|it| row.lost && it.known_epoch == row.epoch)?;
        let (target, stable) = (self.ledger.target, self.ledger.stable);
        let body = if report.body == target || report.body == stable { report.body } else { stable };
        let replicas = report.pods.min(row.replicas.exposure);
        let updated = if !self.ledger.is_releasing() {
            replicas
        } else if body == target {
            replicas.min(report.of(target))
        } else {
            0
        };
        Some(Share {
            seq: row.share.seq,
            epoch: row.epoch,
            replicas,
            updated,
            unavailable: 0,
            surge: 0,
            scale_unavailable: row.share.scale_unavailable,
            paused: true,
            body,
            stable,
            named: 0,
        })
    }
}
