//! A round, as far as people are told of it, and what clusters have said in it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kruise_core::api::fleet::{Counts, assignment::Corrected};
use scheduling::{
    ledger::{Revision, Row},
    round as arithmetic,
    split::State,
};

use super::is_silent;
use crate::{
    dispatch::{
        plan::{Cluster, Observed, Pulls, Unheard},
        pods::Routing,
    },
    ledger,
    placement::{
        kinds::totals::{MemberWord, Totals},
        round::Prepared,
        select::Selection,
    },
};

/// A round, as far as people are told of it.
pub(in crate::dispatch) struct Account<'a> {
    pub(in crate::dispatch) observed: &'a Observed<'a>,
    pub(in crate::dispatch) prepared: &'a Prepared<'a>,
    pub(in crate::dispatch) before: &'a arithmetic::Ledger,
    pub(in crate::dispatch) planned: &'a arithmetic::Plan,
    pub(in crate::dispatch) rows: &'a [Row],
    pub(in crate::dispatch) routing: &'a Routing,
    /// Clusters whose last word is not counted.
    pub(in crate::dispatch) unheard: &'a Unheard,
    /// Clusters whose overrides do not fit, and why.
    pub(in crate::dispatch) unfit: &'a [(String, String)],
    /// Clusters that have not said yet how much room they have.
    pub(in crate::dispatch) awaited: &'a [String],
    /// What is said about Secrets that a job names and some cluster does not get, and whether the job is placed all the same.
    pub(in crate::dispatch) unsent: Option<&'a (bool, String)>,
    /// What a job has besides.
    pub(in crate::dispatch) pulls: Option<&'a Pulls>,
}

/// What clusters have said of one object, whether or not it is planned.
#[derive(Clone, Copy)]
pub(super) struct Words<'a> {
    pub(super) observed: &'a Observed<'a>,
    pub(super) rows: &'a [Row],
    /// Clusters whose last word is not counted.
    pub(super) unheard: &'a Unheard,
}

/// What a cluster has said of one object.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) counts: Counts,
    /// Whether they may be added to those of others.
    pub(super) is_counted: bool,
    /// The revision that it was told to bring pods to.
    pub(super) body: Option<Revision>,
    pub(super) applied_seq: u64,
    pub(super) reported_at: Option<Time>,
    /// Whether the object was there before.
    pub(super) adopted: bool,
    /// What was put right there, where that is known.
    pub(super) corrected: Option<Corrected>,
}

impl<'a> Words<'a> {
    pub(super) fn cluster(self, name: &str) -> Option<&'a Cluster> {
        self.observed.clusters.iter().find(|it| it.facts.name == name)
    }

    /// Rows of clusters that were given something.
    pub(super) fn given(self) -> impl Iterator<Item = (&'a Row, &'a Cluster)> {
        let rows = self.rows.iter().filter(|it| it.share.seq > 0);
        rows.filter_map(move |it| Some((it, self.cluster(it.cluster.as_str())?)))
    }

    /// The last that a cluster said and that can be true: another word leaves what was told before it (section 23). What was told
    /// is not counted where the cluster carries out a plan that this hub does not know.
    pub(super) fn heard(self, row: &Row, cluster: &Cluster) -> Heard {
        let name = &cluster.facts.name;
        let last_told = || {
            let told = self.observed.last_told(name).cloned().unwrap_or_default();
            Heard {
                counts: told.counts,
                is_counted: true,
                body: row.report.map(|it| it.body),
                applied_seq: told.applied_seq,
                reported_at: told.reported_at,
                adopted: told.adopted,
                corrected: None,
            }
        };
        // Somebody has deleted its Assignment, and its report with it: its pods run on (PROTO-7).
        let Some(assignment) = &cluster.assignment else { return last_told() };
        let status = assignment.status.as_ref().filter(|it| it.report > 0);
        let Some(status) = status else { return Heard::default() };
        if self.unheard.has(name) {
            let heard = last_told();
            return match cluster.is_ahead_of(row.share.seq) {
                true => Heard { is_counted: false, applied_seq: status.applied_seq, ..heard },
                false => heard,
            };
        }
        Heard {
            counts: status.counts.clone(),
            is_counted: true,
            body: status.target.as_ref().map(|it| ledger::revision(&it.hash)),
            applied_seq: status.applied_seq,
            reported_at: status.reported_at.clone(),
            adopted: status.adopted,
            corrected: status.corrected.clone(),
        }
    }

    /// What all of them have said, added up; `target` is what pods are to become.
    pub(super) fn sum(self, target: Revision, planned: Option<i64>) -> Totals {
        let nothing = Counts::default();
        let heard: Vec<_> =
            self.given().map(|(row, cluster)| (row, cluster, self.heard(row, cluster))).collect();
        let words: Vec<_> = heard
            .iter()
            .map(|(row, cluster, heard)| MemberWord {
                cluster: &cluster.facts.name,
                state: cluster.shown,
                counts: if heard.is_counted { &heard.counts } else { &nothing },
                is_of_target: heard.body == Some(target),
                // What a silent cluster acknowledged is not what it does now (ST-2).
                is_acknowledged: row.acknowledged && !is_silent(cluster.shown),
            })
            .collect();
        Totals::of(&words, planned)
    }
}

impl<'a> Account<'a> {
    /// What clusters have said.
    pub(super) fn words(&self) -> Words<'a> {
        Words { observed: self.observed, rows: self.rows, unheard: self.unheard }
    }

    pub(super) fn cluster(&self, name: &str) -> Option<&'a Cluster> {
        self.words().cluster(name)
    }

    /// Rows of clusters that were given something.
    pub(super) fn given(&self) -> impl Iterator<Item = (&'a Row, &'a Cluster)> {
        self.words().given()
    }

    /// Clusters that the policy selects and that lack the kind, as they say themselves: one that has not reported yet may
    /// serve it.
    pub(super) fn lacking(&self) -> impl Iterator<Item = (&Cluster, &Selection)> {
        let judged = self.prepared.selections.iter();
        let lacking = judged.filter(|it| matches!(it.1, Selection::Unsupported { .. }));
        let found = lacking.filter_map(|(name, why)| Some((self.cluster(name.as_str())?, why)));
        found.filter(|it| it.0.planning != State::Pending)
    }

    /// Clusters that the policy selects and whose overrides do not fit, and why.
    pub(super) fn unfit(&self) -> impl Iterator<Item = (&Cluster, &String)> {
        let is_selected = |name: &str| {
            let judged = self.prepared.selections.iter().find(|it| it.0.as_str() == name);
            judged.is_some_and(|it| !matches!(it.1, Selection::Not(_)))
        };
        let selected = self.unfit.iter().filter(move |it| is_selected(&it.0));
        selected.filter_map(|(name, why)| Some((self.cluster(name)?, why)))
    }

    /// What a cluster's agent is too old for, though a share of this object needs it (HA-6).
    pub(super) fn too_old(&self, cluster: &str) -> Option<&'static str> {
        let facts = &self.cluster(cluster)?.facts;
        let judged = self.prepared.selections.iter().find(|it| it.0.as_str() == cluster)?;
        let is_selected = matches!(judged.1, Selection::Selected { .. } | Selection::NothingNew { .. });
        self.prepared.needs.iter().find(|it| is_selected && !facts.can(it)).copied()
    }

    /// Clusters that carry out newer plans than this hub knows, and are left alone because of that (HA-5).
    pub(super) fn ahead(&self) -> impl Iterator<Item = &Cluster> {
        self.given().filter(|(row, it)| it.is_ahead_of(row.share.seq)).map(|it| it.1)
    }

    /// Whether no cluster that the policy selects serves the kind.
    pub(super) fn is_served_nowhere(&self) -> bool {
        let selected =
            self.prepared.selections.iter().filter(|it| !matches!(it.1, Selection::Not(_))).count();
        selected > 0 && self.lacking().count() == selected
    }
}
