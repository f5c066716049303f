//! What must hold in every cluster for itself where each has the object's numbers (SPLIT-6, `PerCluster`).

use std::collections::BTreeMap;

use scheduling::{
    ledger::Row,
    round::{Ledger, Numbers, Spec},
};

use crate::{fleet::Broken, member::Member};

const NO_LIMIT: u64 = u64::MAX;

/// Limits in force in one cluster. After one was lowered, what was granted before may stay until it is acknowledged gone.
#[derive(Debug, Clone)]
struct Limits {
    target: u64,
    updated: u64,
    asked: u64,
    /// Pods of earlier targets there could be, by the ledger at the last step.
    kept: BTreeMap<u64, u64>,
    may_be_over: bool,
    replicas: u64,
    surge: u64,
    down: u64,
    starting: u64,
}

/// The limits of every cluster, in the order of the ledger's rows.
#[derive(Debug, Default)]
pub(crate) struct Each(Vec<Limits>);

impl Each {
    pub(crate) fn after_step(
        &mut self,
        spec: &Spec,
        ledger: &Ledger,
        members: &[Member],
    ) -> Result<(), Broken> {
        while self.0.len() < ledger.rows.len() {
            self.0.push(Limits::of_nothing(ledger));
        }
        for ((limits, row), member) in self.0.iter_mut().zip(&ledger.rows).zip(members) {
            let broken = |what: String| Broken(format!("{}: {what}", row.cluster));
            limits.canary(spec, ledger, row, member).map_err(broken)?;
            limits.flood(spec, row, member).map_err(broken)?;
            limits.down(spec, row, member).map_err(broken)?;
            limits.starting(spec, row).map_err(broken)?;
        }
        Ok(())
    }

    /// Whether a cluster at rest has as many pods of the target as its own partition leaves.
    pub(crate) fn is_exact(
        &self,
        spec: &Spec,
        ledger: &Ledger,
        members: &[Member],
        rolls_back: bool,
    ) -> bool {
        self.0.iter().zip(members).all(|(limits, member)| {
            let (updated, all) = (u64::from(member.of(ledger.target)), member.pods.len() as u64);
            let asked = all.saturating_sub(spec.partition);
            match () {
                // What cannot run old pods beside new ones is all old or all new (REV-7).
                () if !member.seeds => updated == all || (updated == 0 && spec.partition > 0),
                () => updated == asked || (updated > asked && limits.may_be_over && !rolls_back),
            }
        })
    }
}

/// The factor by which budgets over the fleet are larger where every cluster has them.
pub(crate) fn times(spec: &Spec, clusters: usize) -> u64 {
    if spec.numbers == Numbers::PerCluster { clusters as u64 } else { 1 }
}

impl Limits {
    fn of_nothing(ledger: &Ledger) -> Self {
        Self {
            target: ledger.target.0,
            updated: 0,
            asked: 0,
            kept: BTreeMap::new(),
            may_be_over: false,
            replicas: 0,
            surge: 0,
            down: 0,
            starting: 0,
        }
    }

    /// As many pods of the target as the partition leaves of the cluster's own replicas, and no more.
    fn canary(&mut self, spec: &Spec, ledger: &Ledger, row: &Row, member: &Member) -> Result<(), String> {
        let limited = ledger.target != ledger.stable && spec.partition > 0 && ledger.rolled_back.is_none();
        let replicas = u64::from(row.replicas.exposure.min(spec.replicas));
        let asked = if limited { replicas.saturating_sub(spec.partition) } else { NO_LIMIT };
        if self.target != ledger.target.0 {
            self.target = ledger.target.0;
            self.updated = self.kept.get(&self.target).copied().unwrap_or(0);
            self.may_be_over = self.updated > asked;
        } else if asked < self.asked {
            self.may_be_over = true;
        }
        self.asked = asked;
        self.updated = asked.max(self.updated.min(u64::from(row.updated.exposure)));
        self.kept = row.past.iter().map(|it| (it.revision.0, u64::from(it.exposure))).collect();
        let updated = u64::from(member.staying(ledger.target));
        if limited && updated > self.updated {
            return Err(format!("updated {updated} > {} (its own G = {asked})", self.updated));
        }
        Ok(())
    }

    /// Pods alive never above N + S.
    fn flood(&mut self, spec: &Spec, row: &Row, member: &Member) -> Result<(), String> {
        self.replicas = u64::from(spec.replicas).max(self.replicas.min(u64::from(row.replicas.exposure)));
        self.surge = u64::from(spec.surge).max(self.surge.min(u64::from(row.surge.exposure)));
        let alive = member.pods.len() as u64;
        if alive > self.replicas + self.surge {
            return Err(format!("alive {alive} > {} + {}", self.replicas, self.surge));
        }
        Ok(())
    }

    /// Pods taken down on purpose never above U. A lost cluster's are nobody's.
    fn down(&mut self, spec: &Spec, row: &Row, member: &Member) -> Result<(), String> {
        self.down = u64::from(spec.unavailable).max(self.down.min(u64::from(row.unavailable.exposure)));
        let down = u64::from(member.taken_down());
        if !row.lost && down > self.down {
            return Err(format!("taken down {down} > {} (U = {})", self.down, spec.unavailable));
        }
        Ok(())
    }

    /// Growth never has more replicas starting than scaleStrategy.maxUnavailable (BUD-10).
    fn starting(&mut self, spec: &Spec, row: &Row) -> Result<(), String> {
        let starting = u64::from(row.moving);
        let limit = spec.scale_unavailable.map_or(NO_LIMIT, u64::from);
        // One that came back brings its own.
        if starting > limit.max(self.starting) && row.epoch == 0 {
            return Err(format!("{starting} replicas are starting > {limit}"));
        }
        self.starting = starting;
        Ok(())
    }
}
