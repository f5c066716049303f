//! ImagePullJobs and ImageListPullJobs: downloads at the same time are divided, the deadline is the hub's.

use kruise_core::{
    api::{
        APPS_GROUP,
        fleet::{PullSlice, Slice},
    },
    runtime::webhook::FieldError,
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
        let mut status = json!({
            "desired": pulls.desired,
            "active": pulls.active,
            "succeeded": pulls.succeeded,
            "failed": pulls.failed,
        });
        if !pulls.failed_nodes.is_empty() {
            status["failedNodes"] = json!(pulls.failed_nodes);
        }
        if pulls.unlisted > 0 {
            status["message"] = format!("{} more nodes failed", pulls.unlisted).into();
        }
        status
    }
}
