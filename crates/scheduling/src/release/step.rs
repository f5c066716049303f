use std::fmt;

use super::{Approval, Gate, OnFailure, Paused, Release, Stage};
use crate::numbers::concurrency;

/// What a step of a release looks at.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The clusters that are not lost.
    pub clusters: &'a [ClusterView<'a>],
    /// Whether the admitted clusters are too few for the pods that may be updated.
    pub wants_more_clusters: bool,
    /// How far the images of the wave to come are pulled.
    pub pre_pull: Option<PrePullView>,
    /// Seconds after which a cluster that is not done counts as failed.
    pub progress_deadline: u32,
    /// Seconds since the last step.
    pub elapsed: u32,
}

/// Progress of an ImagePullJob for the next wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrePullView {
    /// Nodes that have the images.
    pub pulled: u32,
    /// Nodes in all.
    pub nodes: u32,
}

/// One cluster as a release sees it.
#[derive(Debug, Clone, Copy)]
pub struct ClusterView<'a> {
    /// Its name; settles ties.
    pub name: &'a str,
    /// The wave it matches.
    pub wave: usize,
    /// Its place inside the wave.
    pub order: i64,
    /// Whether it is given the target as soon as pods are due.
    pub admitted: bool,
    /// For how many seconds it has been admitted and not done.
    pub busy_for: u32,
    /// Whether it is heard.
    pub heard: bool,
    /// Whether the release goes on without it while it is not heard (REL-10).
    pub may_be_passed_over: bool,
    /// Updated pods due there; `None` while that has not been worked out.
    pub due: Option<u32>,
    /// Updated pods granted there.
    pub granted: u32,
    /// Replicas added in this round: what becomes due by them is no larger canary.
    pub added: u32,
    /// Whether it has no replicas.
    pub is_empty: bool,
    /// Updated available pods, by a report that acknowledges the newest plan (REL-3).
    pub updated_available: Option<u32>,
    /// Updated pods that are failing.
    pub failing: u32,
}

impl ClusterView<'_> {
    /// REL-3: whether all that is due here is there and well, or the release goes on without it (REL-10).
    pub fn is_done(&self) -> bool {
        if self.heard { self.has_arrived() } else { self.may_be_passed_over }
    }

    /// Whether all that is due here is there and well, as far as is known.
    pub fn has_arrived(&self) -> bool {
        match self.due {
            None => false,
            // Pods that were granted and are due elsewhere now may still be updated here.
            Some(0) if self.granted == 0 => true,
            Some(due) => {
                let well = self.updated_available.is_some_and(|it| it >= self.granted);
                !self.lacks(due) && self.failing == 0 && well
            }
        }
    }

    /// Whether pods are due here that it has not been granted, or that nobody has worked out yet.
    fn has_more_due(&self) -> bool {
        self.due.is_none_or(|due| self.lacks(due))
    }

    fn lacks(&self, due: u32) -> bool {
        self.granted.saturating_add(self.added) < due
    }

    fn has_pods_due(&self) -> bool {
        self.due.is_some_and(|it| it > 0)
    }
}

impl Gate {
    /// REL-7: why the clusters at work do not pass, if they do not.
    pub fn failure(&self, clusters: &[ClusterView<'_>], progress_deadline: u32) -> Option<Paused> {
        let at_work = || clusters.iter().filter(|it| it.admitted);
        let failed =
            at_work().filter(|it| !it.has_arrived() && it.busy_for > progress_deadline).count() as u32;
        let failing = at_work().map(|it| it.failing).fold(0, u32::saturating_add);
        if failed > self.max_failed {
            Some(Paused::ClustersFailed { failed })
        } else if failing > self.max_failing_pods {
            Some(Paused::PodsFailing { failing })
        } else {
            None
        }
    }
}

/// What follows from one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The release as it is to be saved.
    pub release: Release,
    /// Places, in the view, of the clusters admitted now.
    pub admit: Vec<usize>,
    /// Whether the stable revision is to be the target again (REL-7).
    pub roll_back: bool,
    /// What happened.
    pub decisions: Vec<Decision>,
    /// What the release waits for.
    pub held: Option<Held>,
}

/// Something a step decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// A wave began.
    WaveStarted(String),
    /// A wave's clusters are done; it soaks.
    WaveSoaking(String),
    /// A wave is over.
    WaveDone(String),
    /// Images are to be pulled on the nodes of a wave.
    PrePull(String),
    /// The pulling took too long; the wave starts all the same.
    PrePullTimedOut(String),
    /// The release stands still.
    ReleasePaused(Paused),
    /// The stable revision is the target again.
    RolledBack(Paused),
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaveStarted(wave) => write!(f, "wave {wave} started"),
            Self::WaveSoaking(wave) => write!(f, "wave {wave} is done and soaks"),
            Self::WaveDone(wave) => write!(f, "wave {wave} is over"),
            Self::PrePull(wave) => write!(f, "images are pulled for wave {wave}"),
            Self::PrePullTimedOut(wave) => write!(f, "wave {wave} starts without all its images"),
            Self::ReleasePaused(why) => write!(f, "release paused: {why}"),
            Self::RolledBack(why) => write!(f, "release rolled back: {why}"),
        }
    }
}

/// What a release waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// The release is paused.
    Paused(Paused),
    /// A person must approve the wave.
    ApprovalNeeded {
        /// The wave.
        wave: String,
        /// Before or after it.
        when: Approval,
    },
    /// Images are still being pulled for the wave.
    PrePulling(String),
    /// Clusters of the wave are at work.
    Clusters(u32),
    /// The soak goes on for so many seconds.
    Soak(u32),
    /// The partition is reached: no further wave is needed yet.
    Partition,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused(why) => write!(f, "{why}"),
            Self::ApprovalNeeded { wave, when: Approval::After } => {
                write!(f, "approval needed after wave {wave}")
            }
            Self::ApprovalNeeded { wave, .. } => write!(f, "approval needed before wave {wave}"),
            Self::PrePulling(wave) => write!(f, "images are still being pulled for wave {wave}"),
            Self::Clusters(1) => f.write_str("1 cluster of the wave is not done"),
            Self::Clusters(count) => write!(f, "{count} clusters of the wave are not done"),
            Self::Soak(seconds) => write!(f, "the wave soaks for another {seconds} s"),
            Self::Partition => f.write_str("the partition is reached"),
        }
    }
}

/// Takes a release one step on.
pub fn next(release: &Release, view: &View<'_>) -> Step {
    let mut step = Step {
        release: release.clone(),
        admit: Vec::new(),
        roll_back: false,
        decisions: Vec::new(),
        held: None,
    };
    if let Some(why) = release.paused {
        step.held = Some(Held::Paused(why));
        return step;
    }
    if step.release.waves.is_empty() {
        step.admit = (0..view.clusters.len()).filter(|it| !view.clusters[*it].admitted).collect();
        return step;
    }
    if step.gate_failed(view) {
        return step;
    }
    let mut admitted: Vec<bool> = view.clusters.iter().map(|it| it.admitted).collect();
    // A wave whose clusters have nothing due passes in the same step as the one before it.
    while step.advance(view, &mut admitted) {}
    step
}

impl Step {
    /// One wave's progress; true when the next wave may be looked at at once.
    fn advance(&mut self, view: &View<'_>, admitted: &mut [bool]) -> bool {
        if self.release.stage == Stage::Waiting && !self.start(view) {
            return false;
        }
        let wave = self.release.wave;
        if view.wants_more_clusters {
            self.admit_by_order(view, admitted);
        }
        let last = wave + 1 == self.release.waves.len();
        let members = || {
            let of_wave = |it: &usize| wave_of(&view.clusters[*it], &self.release) <= wave;
            (0..view.clusters.len()).filter(of_wave).map(|it| (&view.clusters[it], admitted[it]))
        };
        let is_due = |open: bool| open || view.wants_more_clusters;
        let undone =
            members().filter(|(it, open)| is_due(*open) && !(it.admitted && it.is_done())).count() as u32;
        let outside = members().any(|(it, open)| it.heard && !open && !it.is_empty);
        let begins = |it: &ClusterView<'_>| !it.is_empty && (!it.admitted || it.has_more_due());
        if outside || members().any(|(it, _)| it.heard && begins(it)) {
            // More became due: what soaked so far was a smaller canary.
            self.release.stage = Stage::Rolling;
            self.release.soaked = 0;
        }
        if undone > 0 {
            self.held = Some(Held::Clusters(undone));
            return false;
        }
        if outside {
            // Some clusters of the wave have their turn when more pods may be updated.
            self.held = Some(Held::Partition);
            return false;
        }
        let empty = !view.clusters.iter().any(|it| wave_of(it, &self.release) == wave && it.has_pods_due());
        if self.release.stage == Stage::Rolling {
            self.release.stage = Stage::Soaking;
            self.decisions.push(Decision::WaveSoaking(self.wave_name()));
            self.begin_pre_pull();
        } else {
            self.release.soaked = self.release.soaked.saturating_add(view.elapsed);
            self.release.pulling = self.release.pulling.saturating_add(view.elapsed);
        }
        if self.release.stage == Stage::Soaking && !self.soak_is_over(empty) {
            return false;
        }
        if last {
            self.held = None;
            return false;
        }
        if !view.wants_more_clusters {
            self.held = Some(Held::Partition);
            return false;
        }
        self.release.wave += 1;
        self.release.stage = Stage::Waiting;
        self.release.soaked = 0;
        true
    }

    /// Whether the wave may begin; begins it.
    fn start(&mut self, view: &View<'_>) -> bool {
        if !view.wants_more_clusters {
            self.held = Some(Held::Partition);
            return false;
        }
        let wave = &self.release.waves[self.release.wave];
        if wave.approval == Approval::Before && !self.release.is_approved(wave) {
            self.held = Some(Held::ApprovalNeeded { wave: wave.name.clone(), when: Approval::Before });
            return false;
        }
        if let (Some(pre_pull), true) = (wave.pre_pull, self.release.wave > 0) {
            let pulled = view.pre_pull.is_some_and(|it| {
                u64::from(it.pulled) * 100 >= u64::from(it.nodes) * u64::from(pre_pull.threshold)
            });
            if !pulled {
                if self.release.pulling < pre_pull.timeout {
                    self.release.pulling = self.release.pulling.saturating_add(view.elapsed);
                    self.held = Some(Held::PrePulling(wave.name.clone()));
                    return false;
                }
                self.decisions.push(Decision::PrePullTimedOut(wave.name.clone()));
            }
        }
        self.decisions.push(Decision::WaveStarted(wave.name.clone()));
        self.release.stage = Stage::Rolling;
        self.release.pulling = 0;
        true
    }

    /// REL-4: so many at a time, by order and name; clusters that joined an earlier wave come with it (REL-6).
    fn admit_by_order(&mut self, view: &View<'_>, admitted: &mut [bool]) {
        let open = self.release.wave;
        for wave in 0..=open {
            let mut members: Vec<usize> = (0..view.clusters.len())
                .filter(|it| wave_of(&view.clusters[*it], &self.release) == wave)
                .collect();
            let limit = concurrency(self.release.waves[wave].max_concurrency, members.len() as u64);
            members.sort_by_key(|it| (view.clusters[*it].order, view.clusters[*it].name));
            let busy = members.iter().filter(|it| {
                let cluster = &view.clusters[**it];
                cluster.admitted && !cluster.is_done()
            });
            let mut free = limit.saturating_sub(busy.count() as u64);
            for it in members {
                if free == 0 {
                    break;
                }
                if !admitted[it] {
                    admitted[it] = true;
                    self.admit.push(it);
                    free -= 1;
                }
            }
        }
    }

    fn begin_pre_pull(&mut self) {
        self.release.pulling = 0;
        if let Some(next) = self.release.waves.get(self.release.wave + 1)
            && next.pre_pull.is_some()
        {
            self.decisions.push(Decision::PrePull(next.name.clone()));
        }
    }

    /// Soak and the approval after it.
    fn soak_is_over(&mut self, empty: bool) -> bool {
        let wave = &self.release.waves[self.release.wave];
        if !empty && self.release.soaked < wave.soak {
            self.held = Some(Held::Soak(wave.soak - self.release.soaked));
            return false;
        }
        if wave.approval == Approval::After && !self.release.is_approved(wave) {
            self.held = Some(Held::ApprovalNeeded { wave: wave.name.clone(), when: Approval::After });
            return false;
        }
        self.decisions.push(Decision::WaveDone(wave.name.clone()));
        self.release.stage = Stage::Over;
        true
    }

    /// REL-7: stops or turns the release where its wave fails.
    fn gate_failed(&mut self, view: &View<'_>) -> bool {
        let gate = self.release.waves[self.release.wave].gate;
        let Some(why) = gate.failure(view.clusters, view.progress_deadline) else { return false };
        self.release.paused = Some(why);
        self.held = Some(Held::Paused(why));
        match gate.on_failure {
            OnFailure::Pause => self.decisions.push(Decision::ReleasePaused(why)),
            OnFailure::Rollback => {
                self.roll_back = true;
                self.decisions.push(Decision::RolledBack(why));
            }
        }
        true
    }

    fn wave_name(&self) -> String {
        self.release.waves[self.release.wave].name.clone()
    }
}

/// A cluster that matches no wave belongs to the last.
fn wave_of(cluster: &ClusterView<'_>, release: &Release) -> usize {
    cluster.wave.min(release.waves.len() - 1)
}
