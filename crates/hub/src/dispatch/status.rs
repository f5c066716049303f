//! How an object stands over the fleet: the binding's status, the object's own, and what is worth telling. Pure.

mod conditions;
pub mod figures;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kruise_core::{
    api::fleet::{
        Counts,
        assignment::ShareState,
        binding::{ClusterRow, FleetBindingStatus},
        keys::{conditions as types, events},
        member_cluster::ClusterState,
    },
    runtime::events::Severity,
};
use scheduling::{
    ledger::{Revision, Row},
    reason::{self, Change},
    round::{self as arithmetic, Pulls as Slots, Why},
    split::State,
};
use serde_json::Value;

use super::{
    plan::{Cluster, Observed, Pulls, Unheard},
    pods::Routing,
};
use crate::{
    ledger,
    placement::{
        kinds::{
            Kind,
            totals::{MemberWord, Totals},
        },
        round::Prepared,
        select::Selection,
    },
};

/// Why an object is not planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// No policy matches any more (DEL-5).
    Suspended,
    /// It is being deleted, but nobody asked for that (PROTO-7).
    SweptAlong(String),
    /// Its numbers cannot be used.
    BadNumbers(String),
    /// This build cannot do what the policy asks for.
    NotSupported(String),
}

/// Whether people are told what they were told before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It has happened, and when it happens again that is news: ten replicas may be placed in the same way twice.
    EveryTime,
    /// It is so, and may be found again in every round.
    Once,
}

/// Something to tell people about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Whether it is told again when it was told before.
    pub told: Told,
    /// Whether somebody should look into it.
    pub severity: Severity,
    /// One word.
    pub reason: &'static str,
    /// The rest.
    pub message: String,
}

/// How an object stands.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Standing {
    /// The status of its binding.
    pub binding: FleetBindingStatus,
    /// Its own status, as far as the fleet writes it.
    pub object: Value,
    /// What is worth telling.
    pub notes: Vec<Note>,
    /// Why it is not planned, if it is not.
    pub trouble: Option<Trouble>,
    /// The same in numbers; nothing if it is not planned.
    pub figures: Option<figures::Figures>,
}

/// A round, as far as people are told of it.
pub(super) struct Account<'a> {
    pub(super) observed: &'a Observed<'a>,
    pub(super) prepared: &'a Prepared<'a>,
    pub(super) before: &'a arithmetic::Ledger,
    pub(super) planned: &'a arithmetic::Plan,
    pub(super) rows: &'a [Row],
    pub(super) routing: &'a Routing,
    /// Clusters whose last word is not counted.
    pub(super) unheard: &'a Unheard,
    /// Clusters whose overrides do not fit, and why.
    pub(super) unfit: &'a [(String, String)],
    /// Clusters that have not said yet how much room they have.
    pub(super) awaited: &'a [String],
    /// What is said about Secrets that a job names and some cluster does not get, and whether the job is placed all the same.
    pub(super) unsent: Option<&'a (bool, String)>,
    /// What a job has besides.
    pub(super) pulls: Option<&'a Pulls>,
}

/// What a cluster has said of one object.
#[derive(Debug, Default)]
struct Heard {
    counts: Counts,
    /// Whether they may be added to those of others.
    is_counted: bool,
    /// The revision that it was told to bring pods to.
    body: Option<Revision>,
    applied_seq: u64,
    reported_at: Option<Time>,
}

impl Account<'_> {
    fn cluster(&self, name: &str) -> Option<&Cluster> {
        self.observed.clusters.iter().find(|it| it.facts.name == name)
    }

    /// Rows of clusters that were given something.
    fn given(&self) -> impl Iterator<Item = (&Row, &Cluster)> {
        let rows = self.rows.iter().filter(|it| it.share.seq > 0);
        rows.filter_map(|it| Some((it, self.cluster(it.cluster.as_str())?)))
    }

    /// The last that a cluster said and that can be true: another word leaves what was told before it (section 23). What was told
    /// is not counted where the cluster carries out a plan that this hub does not know.
    fn heard(&self, row: &Row, cluster: &Cluster) -> Heard {
        let name = &cluster.facts.name;
        let status = cluster.assignment.as_ref().and_then(|it| it.status.as_ref());
        let Some(status) = status.filter(|it| it.report > 0) else { return Heard::default() };
        if self.unheard.has(name) {
            let is_ahead = cluster.is_ahead_of(row.share.seq);
            let told = self.observed.last_told(name).cloned().unwrap_or_default();
            return Heard {
                counts: told.counts,
                is_counted: !is_ahead,
                body: row.report.map(|it| it.body),
                applied_seq: if is_ahead { status.applied_seq } else { told.applied_seq },
                reported_at: told.reported_at,
            };
        }
        Heard {
            counts: status.counts.clone(),
            is_counted: true,
            body: status.target.as_ref().map(|it| ledger::revision(&it.hash)),
            applied_seq: status.applied_seq,
            reported_at: status.reported_at.clone(),
        }
    }

    /// Clusters that the policy selects and that lack the kind, as they say themselves: one that has not reported yet may
    /// serve it.
    fn lacking(&self) -> impl Iterator<Item = (&Cluster, &Selection)> {
        let judged = self.prepared.selections.iter();
        let lacking = judged.filter(|it| matches!(it.1, Selection::Unsupported { .. }));
        let found = lacking.filter_map(|(name, why)| Some((self.cluster(name.as_str())?, why)));
        found.filter(|it| it.0.planning != State::Pending)
    }

    /// Clusters that the policy selects and whose overrides do not fit, and why.
    fn unfit(&self) -> impl Iterator<Item = (&Cluster, &String)> {
        let is_selected = |name: &str| {
            let judged = self.prepared.selections.iter().find(|it| it.0.as_str() == name);
            judged.is_some_and(|it| !matches!(it.1, Selection::Not(_)))
        };
        let selected = self.unfit.iter().filter(move |it| is_selected(&it.0));
        selected.filter_map(|(name, why)| Some((self.cluster(name)?, why)))
    }

    /// Clusters that carry out newer plans than this hub knows, and are left alone because of that (HA-5).
    fn ahead(&self) -> impl Iterator<Item = &Cluster> {
        self.given().filter(|(row, it)| it.is_ahead_of(row.share.seq)).map(|it| it.1)
    }

    /// Whether no cluster that the policy selects serves the kind.
    fn is_served_nowhere(&self) -> bool {
        let selected =
            self.prepared.selections.iter().filter(|it| !matches!(it.1, Selection::Not(_))).count();
        selected > 0 && self.lacking().count() == selected
    }
}

/// How the object stands after a round.
pub(super) fn standing(account: &Account<'_>, kind: &dyn Kind) -> Standing {
    let observed = account.observed;
    let totals = totals(account);
    let fitted = |it: u64| u32::try_from(it).unwrap_or(u32::MAX);
    let known = observed.binding.and_then(|it| it.status.as_ref());
    let held = conditions::of(account, &totals);
    let binding = FleetBindingStatus {
        observed_generation: totals
            .observed_generation
            .unwrap_or_else(|| known.map_or(0, |it| it.observed_generation)),
        cluster_count: fitted(account.rows.iter().filter(|it| it.share.seq > 0).count() as u64),
        desired: fitted(account.pulls.map_or(account.planned.population, |it| it.totals.desired)),
        ready: fitted(account.pulls.map_or(totals.ready, |it| it.totals.succeeded)),
        available: fitted(account.pulls.map_or(totals.available, |it| it.totals.succeeded)),
        updated: fitted(account.pulls.map_or(totals.updated, |it| it.totals.succeeded)),
        unknown_replicas: fitted(totals.unknown),
        wave: String::new(),
        budget: budget(account),
        summary: conditions::summary(&held).to_owned(),
        clusters: rows(account),
        conditions: conditions::written(held, known.map_or(&[], |it| &it.conditions), observed),
    };
    let notes = notes(account, known.map_or(&[], |it| &it.conditions), &binding.conditions);
    let figures = Some(figures::of(account, &totals));
    Standing { object: kind.status(observed.object, &totals), binding, notes, trouble: None, figures }
}

/// How an object stands that is not planned: as it stood, and why that is so.
pub(super) fn troubled(trouble: Trouble, observed: &Observed<'_>) -> Standing {
    let known = observed.binding.and_then(|it| it.status.clone()).unwrap_or_default();
    let held = conditions::of_trouble(&trouble);
    let binding = FleetBindingStatus {
        summary: conditions::summary(&held).to_owned(),
        conditions: conditions::written(held, &known.conditions, observed),
        ..known
    };
    let (object, notes) = (Value::Null, Vec::new());
    Standing { binding, object, notes, trouble: Some(trouble), figures: None }
}

fn totals(account: &Account<'_>) -> Totals {
    let target = &account.planned.ledger.target;
    let nothing = Counts::default();
    let heard: Vec<_> =
        account.given().map(|(row, cluster)| (row, cluster, account.heard(row, cluster))).collect();
    let words: Vec<_> = heard
        .iter()
        .map(|(row, cluster, heard)| MemberWord {
            cluster: &cluster.facts.name,
            state: cluster.shown,
            counts: if heard.is_counted { &heard.counts } else { &nothing },
            is_of_target: heard.body == Some(*target),
            // What a silent cluster acknowledged is not what it does now (ST-2).
            is_acknowledged: row.acknowledged && !is_silent(cluster.shown),
        })
        .collect();
    let name = |it| format!("{}-{}", account.observed.reference.name, ledger::hash(it));
    // While it is not known whose the named pods are, the old number of replicas stands (SPLIT-8).
    let is_planned = !account.rows.is_empty() && !account.routing.is_awaited && account.awaited.is_empty();
    let planned = is_planned.then(|| account.observed.generation());
    Totals {
        expected_updated: account.planned.population.saturating_sub(account.prepared.spec.partition),
        target: name(account.planned.ledger.target),
        stable: name(account.planned.ledger.stable),
        pulls: account.pulls.map(|it| it.totals.clone()).unwrap_or_default(),
        started: account.pulls.and_then(|it| it.started),
        completed: account.pulls.and_then(|it| it.completed),
        is_late: account.pulls.is_some_and(|it| it.is_late),
        ..Totals::of(&words, planned)
    }
}

/// Pods that may be down on purpose, or are, or downloads that may be running: used and limit.
fn budget(account: &Account<'_>) -> String {
    if let Some(pulls) = account.pulls {
        return format!("{}/{}", pulls.exposed(), pulls.numbers.parallelism);
    }
    format!("{}/{}", unavailable(account.rows), account.prepared.spec.unavailable)
}

/// Pods that may be down on purpose, or are.
fn unavailable(rows: &[Row]) -> u64 {
    let used = |it: &Row| {
        u64::from(it.unavailable.exposure.max(it.reported_unavailable().saturating_sub(it.moving)))
    };
    rows.iter().filter(|it| !it.lost).map(used).sum()
}

/// A row for each cluster that was given something, and for each that is left out though the policy selects it.
fn rows(account: &Account<'_>) -> Vec<ClusterRow> {
    let given = account.given().map(|(row, cluster)| {
        let Heard { counts, applied_seq, reported_at, .. } = account.heard(row, cluster);
        ClusterRow {
            cluster: cluster.facts.name.clone(),
            state: Some(cluster.shown),
            // What it has, not what is about to be written: that is seen when it is stored.
            slice: cluster.assignment.as_ref().and_then(|it| it.spec.slice.clone()),
            counts,
            seq: row.share.seq,
            applied_seq,
            reported_at,
            reason: reason(account, &cluster.facts.name),
        }
    });
    let mut rows: Vec<ClusterRow> = given.collect();
    let lacking = account.lacking().map(|(cluster, why)| (cluster, why.to_string()));
    let unfit = account.unfit().map(|(cluster, why)| (cluster, why.clone()));
    for (cluster, reason) in lacking.chain(unfit) {
        let name = &cluster.facts.name;
        if rows.iter().all(|it| it.cluster != *name) {
            let (cluster, state) = (name.clone(), Some(cluster.shown));
            rows.push(ClusterRow { cluster, state, reason, ..ClusterRow::default() });
        }
    }
    rows.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    rows
}

/// Why a cluster has what it has, in the words of whoever decided.
fn reason(account: &Account<'_>, cluster: &str) -> String {
    // Before its reports: a report about a newer plan cannot be true of the one that is known.
    if account.ahead().any(|it| it.facts.name == cluster) {
        return "it carries out a newer plan than this hub knows, and is left alone".to_owned();
    }
    if let Some((_, why)) = account.unfit.iter().chain(&account.unheard.refused).find(|it| it.0 == cluster) {
        return why.clone();
    }
    if let Some((_, why)) = account.lacking().find(|it| it.0.facts.name == cluster) {
        return why.to_string();
    }
    let status = account.cluster(cluster).and_then(|it| it.assignment.as_ref()?.status.as_ref());
    let stuck = status.filter(|it| matches!(it.state, Some(ShareState::Conflict | ShareState::Failed)));
    if let Some(condition) = stuck.and_then(|it| it.conditions.first()) {
        return condition.message.clone();
    }
    let lasting = |it: &&Why| {
        let is_frozen = matches!(it, Why::Placed(why) if why.change == Change::Frozen);
        is_frozen
            || matches!(
                it,
                Why::GrowthHeldByPods(_)
                    | Why::GrowthHeldByStarting(_)
                    | Why::GrowthHeldUntilHeard(_)
                    | Why::ShrinkHeld(_)
                    | Why::Lost
                    | Why::Pulls(Slots::Wait(_) | Slots::Held(_))
            )
    };
    let ours = account
        .planned
        .decisions
        .iter()
        .filter(|it| it.cluster.as_ref().is_some_and(|it| it.as_str() == cluster));
    let words = |it: &Why| match it {
        Why::Placed(why) => why.limit.to_string(),
        other => other.to_string(),
    };
    ours.map(|it| &it.why).filter(lasting).map(words).collect::<Vec<_>>().join("; ")
}

/// What is worth an event: replicas that were placed or moved, and what began to be the matter.
fn notes(account: &Account<'_>, before: &[Condition], after: &[Condition]) -> Vec<Note> {
    let mut notes = Vec::new();
    let was = |row: &Row| {
        account.before.rows.iter().find(|it| it.cluster == row.cluster).map_or(0, |it| it.share.replicas)
    };
    let changed: Vec<_> = account.rows.iter().filter(|it| was(it) != it.share.replicas).collect();
    if !changed.is_empty() {
        let placed: u64 = account.before.rows.iter().map(|it| u64::from(it.share.replicas)).sum();
        // What was due and had no place yet is placed, not moved.
        let is_move =
            account.before.population == account.planned.population && placed >= account.planned.population;
        let reason = if is_move { events::RESCHEDULED } else { events::SCHEDULED };
        let shown = |it: &&Row| format!("{} {} -> {}", it.cluster, was(it), it.share.replicas);
        let message = changed.iter().map(shown).collect::<Vec<_>>().join(", ");
        notes.push(Note { told: Told::EveryTime, severity: Severity::Normal, reason, message });
    }
    let was_given =
        |row: &Row| account.before.rows.iter().any(|it| it.cluster == row.cluster && it.share.seq > 0);
    let given =
        account.rows.iter().filter(|it| account.pulls.is_some() && it.share.seq > 0 && !was_given(it));
    let given: Vec<_> = given.map(|it| it.cluster.clone()).collect();
    if !given.is_empty() {
        let (reason, message) = (events::SCHEDULED, format!("placed on {}", reason::list(&given)));
        notes.push(Note { told: Told::EveryTime, severity: Severity::Normal, reason, message });
    }
    for names in &account.routing.ambiguous {
        let message = format!("several pods have this name; say which: {}", names.join(", "));
        notes.push(Note {
            told: Told::Once,
            severity: Severity::Warning,
            reason: events::AMBIGUOUS_POD,
            message,
        });
    }
    for (cluster, why) in &account.unheard.refused {
        // A report about a newer plan cannot be true of the one that is known; that is told otherwise.
        if account.ahead().any(|it| it.facts.name == *cluster) {
            continue;
        }
        let status = account.cluster(cluster).and_then(|it| it.assignment.as_ref()?.status.as_ref());
        let number = status.map_or((0, 0), |it| (it.incarnation, it.report));
        let message =
            format!("report {}.{} of {cluster} cannot be true and is not counted: {why}", number.0, number.1);
        notes.push(Note {
            told: Told::Once,
            severity: Severity::Warning,
            reason: events::REPORT_REFUSED,
            message,
        });
    }
    if account.ahead().next().is_some() {
        let told = after.iter().find(|it| it.type_ == types::STALE).map(|it| it.message.clone());
        let (told, message) = (Told::Once, told.unwrap_or_default());
        notes.push(Note { told, severity: Severity::Warning, reason: events::RESTORED, message });
    }
    if let Some((_, message)) = account.unsent {
        let (told, message) = (Told::Once, message.clone());
        notes.push(Note { told, severity: Severity::Warning, reason: events::PULL_SECRETS, message });
    }
    let is_news = |it: &&Condition| {
        let known = before.iter().find(|known| known.type_ == it.type_);
        it.status == "True" && known.is_none_or(|known| known.status != "True")
    };
    for condition in after.iter().filter(is_news) {
        if let Some(reason) = conditions::event(&condition.type_) {
            let message = condition.message.clone();
            notes.push(Note { told: Told::Once, severity: Severity::Warning, reason, message });
        }
    }
    notes
}

/// Whether two statuses say the same, whenever it began.
pub(super) fn is_same(a: &FleetBindingStatus, b: &FleetBindingStatus) -> bool {
    let essence = |it: &FleetBindingStatus| {
        let mut it = it.clone();
        it.conditions.iter_mut().for_each(|it| it.last_transition_time = Time(Timestamp::UNIX_EPOCH));
        it
    };
    essence(a) == essence(b)
}

/// Whether a cluster does not report, so that what it has is not known.
fn is_silent(state: ClusterState) -> bool {
    matches!(state, ClusterState::Offline | ClusterState::Lost | ClusterState::Revoked)
}
