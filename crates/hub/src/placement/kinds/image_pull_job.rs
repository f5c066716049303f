//! ImagePullJobs and ImageListPullJobs: downloads at the same time are divided, the deadline is the hub's.

use jiff::Timestamp;
use kruise_core::{
    api::{
        APPS_GROUP,
        fleet::{PullSlice, Slice},
    },
    runtime::{clock::whole_seconds, webhook::FieldError},
};
use scheduling::pulls::{Completion, Time, nodes_of};
use serde_json::{Value, json};

use super::{Division, Granted, Kind, PullNumbers, texts, totals::Totals, whole_number};

/// Jobs that download images, of one of the two kinds.
#[derive(Debug, Clone, Copy)]
pub struct PullJobs {
    /// The kind.
    pub kind: &'static str,
}

impl Kind for PullJobs {
    fn name(&self) -> (&str, &str) {
        (APPS_GROUP, self.kind)
    }

    fn division(&self, object: &Value) -> Result<Division, FieldError> {
        let policy = "/spec/completionPolicy";
        let is_endless = object.pointer(&format!("{policy}/type")).and_then(Value::as_str) == Some("Never");
        let completion = if is_endless {
            Completion::Never
        } else {
            Completion::Always {
                deadline: whole_number(object, &format!("{policy}/activeDeadlineSeconds"))?,
                ttl: whole_number(object, &format!("{policy}/ttlSecondsAfterFinished"))?,
            }
        };
        Ok(Division::Pulls(PullNumbers {
            parallelism: whole_number(object, "/spec/parallelism")?.unwrap_or(1),
            completion,
            nodes: texts(object, "/spec/selector/names"),
            secrets: texts(object, "/spec/pullSecrets"),
        }))
    }

    fn revision_source(&self, object: &Value) -> Value {
        super::body(self, object)["spec"].take()
    }

    fn divided_fields(&self) -> &'static [&'static str] {
        &[
            "/spec/parallelism",
            "/spec/selector/names",
            "/spec/completionPolicy/activeDeadlineSeconds",
            // The hub owns it, or a member's copy could go before its last word was heard (IPJ-2).
            "/spec/completionPolicy/ttlSecondsAfterFinished",
        ]
    }

    fn slice(&self, granted: &Granted<'_>) -> Slice {
        let (parallelism, active_deadline_seconds) = match granted.time {
            Time::Unlimited => (granted.slots, None),
            Time::Left(seconds) => (granted.slots, Some(seconds)),
            Time::Over => (0, Some(0)),
        };
        let nodes = (!granted.nodes.is_empty())
            .then(|| nodes_of(granted.cluster, granted.nodes).into_iter().map(|it| it.to_string()).collect());
        Slice::ImagePullJob(PullSlice { parallelism, active_deadline_seconds, nodes })
    }

    fn status(&self, _: &Value, totals: &Totals) -> Value {
        let pulls = &totals.pulls;
        let time = |it: Option<Timestamp>| it.map(|it| whole_seconds(it).0.to_string());
        let mut status = json!({
            "desired": count(pulls.desired),
            "active": count(pulls.active),
            "succeeded": count(pulls.succeeded),
            "failed": count(pulls.failed),
            "startTime": time(totals.started),
            "completionTime": time(totals.completed),
            // Nothing at all takes away what was said before.
            "failedNodes": (!pulls.failed_nodes.is_empty()).then_some(&pulls.failed_nodes),
            "message": message(totals),
        });
        // Only a generation that every cluster has acknowledged counts as observed (ST-2).
        if let Some(generation) = totals.observed_generation {
            status["observedGeneration"] = generation.into();
        }
        status
    }
}

/// A sum as the kind can hold it, whatever clusters say.
fn count(sum: u64) -> i32 {
    i32::try_from(sum).unwrap_or(i32::MAX)
}

/// How the job stands, in the words that one cluster uses.
fn message(totals: &Totals) -> String {
    let pulls = &totals.pulls;
    let mut message = match (totals.completed, pulls.desired) {
        (Some(_), _) if totals.is_late && pulls.failed > 0 => "job exceeds activeDeadlineSeconds".to_owned(),
        (Some(_), _) => "job has completed".to_owned(),
        (None, 0) => "job is running, no progress".to_owned(),
        (None, desired) => {
            let done = 1_000 * (pulls.succeeded + pulls.failed).min(desired) / desired;
            format!("job is running, progress {}.{}%", done / 10, done % 10)
        }
    };
    if pulls.unlisted > 0 {
        message.push_str(&format!("; {} more nodes failed", pulls.unlisted));
    }
    message
}
