//! Changes by somebody else to what we applied (DR-1).

use std::time::Duration;

use kruise_core::api::{
    cloneset::v1beta1::CloneSet,
    fleet::policy::{DriftMode, DriftPolicy},
    image_pull_job::v1beta1::ImagePullJob,
};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

/// An event about corrections is told at most this often.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// So many corrections of one path ...
const FIGHT: usize = 3;
/// ... within this time are a fight.
const FIGHT_WITHIN: Duration = Duration::from_secs(600);

/// The names that the member's controller takes off the list when their pods are gone.
const PODS_TO_DELETE: &str = "/spec/scaleStrategy/podsToDelete";

/// What was sent, in the form in which the member object is read: fields that the kind does not have are dropped by the API
/// server, and are no drift.
pub fn comparable(body: &Value) -> Value {
    let read = match body["kind"].as_str() {
        Some("CloneSet") => serde_json::from_value::<CloneSet>(body.clone()).map(|it| json!(it)),
        Some("ImagePullJob") => serde_json::from_value::<ImagePullJob>(body.clone()).map(|it| json!(it)),
        _ => return body.clone(),
    };
    read.unwrap_or_else(|_| body.clone())
}

/// Where `found` differs from `wanted`, as JSON pointers in order. What `wanted` does not speak of belongs to others: only
/// fields that we applied can drift.
pub fn differences(wanted: &Value, found: &Value, policy: &DriftPolicy) -> Vec<String> {
    let mut paths = Vec::new();
    compare(&mut paths, String::new(), wanted, found);
    let is_ignored = |path: &String| {
        let below = |it: &String| {
            path.strip_prefix(it.as_str()).is_some_and(|it| it.is_empty() || it.starts_with('/'))
        };
        policy.ignore_paths.iter().any(below)
    };
    paths.retain(|it| !is_ignored(it));
    paths
}

fn compare(paths: &mut Vec<String>, path: String, wanted: &Value, found: &Value) {
    match (wanted, found) {
        // We asked for nothing there.
        (Value::Null, _) => {}
        (Value::Object(wanted), Value::Object(found)) => {
            for (name, wanted) in wanted {
                let token = name.replace('~', "~0").replace('/', "~1");
                let found = found.get(name).unwrap_or(&Value::Null);
                compare(paths, format!("{path}/{token}"), wanted, found);
            }
        }
        (Value::Array(wanted), Value::Array(found))
            if path == PODS_TO_DELETE && wanted.iter().all(|it| found.contains(it)) => {}
        (Value::Array(_), Value::Array(_)) if path == PODS_TO_DELETE => paths.push(path),
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            for (index, (wanted, found)) in wanted.iter().zip(found).enumerate() {
                compare(paths, format!("{path}/{index}"), wanted, found);
            }
        }
        (wanted, found) if essence(wanted) != essence(found) => paths.push(path),
        _ => {}
    }
}

/// The first path at which two objects mean something else.
pub(super) fn first_change(before: &Value, after: &Value) -> Option<String> {
    let (before, after) = (essence(before), essence(after));
    let change = json_patch::diff(&before, &after);
    change.first().map(|it| it.path().to_string())
}

/// The value without what says nothing: `null`s, empty lists and empty objects.
pub(super) fn essence(value: &Value) -> Value {
    let is_nothing = |it: &Value| match it {
        Value::Null => true,
        Value::Array(it) => it.is_empty(),
        Value::Object(it) => it.is_empty(),
        _ => false,
    };
    let value = match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, it)| (name.clone(), essence(it)));
            Value::Object(fields.filter(|(_, it)| !is_nothing(it)).collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(essence).collect()),
        other => other.clone(),
    };
    if is_nothing(&value) { Value::Null } else { value }
}

/// What was done about the drift of one object so far.
#[derive(Debug, Clone, Default)]
pub struct History {
    corrections: Vec<(Instant, String)>,
    told: Option<Instant>,
}

/// What to do about drift.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reaction {
    /// Nothing.
    Leave,
    /// Apply again; whether to tell people, or only to do it.
    Correct {
        /// Whether an event is due.
        tell: bool,
    },
    /// Somebody keeps changing this path. Leave it for as long.
    Fight {
        /// The path.
        path: String,
        /// When to try again.
        again_in: Duration,
    },
}

impl History {
    /// Decides about `paths`, and remembers it.
    pub fn react(&mut self, paths: &[String], mode: DriftMode, now: Instant) -> Reaction {
        self.corrections.retain(|it| now.saturating_duration_since(it.0) < FIGHT_WITHIN);
        if paths.is_empty() || mode != DriftMode::Correct {
            return Reaction::Leave;
        }
        for path in paths {
            let mut earlier = self.corrections.iter().filter(|it| it.1 == *path).map(|it| it.0);
            let first = earlier.next();
            if let Some(first) = first.filter(|_| earlier.count() + 1 >= FIGHT) {
                let again_in = FIGHT_WITHIN - now.saturating_duration_since(first);
                return Reaction::Fight { path: path.clone(), again_in };
            }
        }
        self.corrections.extend(paths.iter().map(|it| (now, it.clone())));
        let tell = self.told.is_none_or(|it| now.saturating_duration_since(it) >= TELL_EVERY);
        if tell {
            self.told = Some(now);
        }
        Reaction::Correct { tell }
    }
}

/// Who else has claimed the field at `path`: the names of field managers besides ours.
pub fn other_managers(object: &Value, path: &str, ours: &str) -> Vec<String> {
    let tokens: Vec<String> =
        path.split('/').skip(1).map(|it| it.replace("~1", "/").replace("~0", "~")).collect();
    let owns = |entry: &Value| {
        let mut fields = &entry["fieldsV1"];
        for token in &tokens {
            match fields.get(format!("f:{token}")) {
                Some(below) => fields = below,
                // Lists without keys are owned as a whole.
                None => return fields.as_object().is_some_and(Map::is_empty),
            }
        }
        true
    };
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let names = entries.filter(|it| owns(it)).filter_map(|it| it["manager"].as_str());
    let mut names: Vec<String> = names.filter(|it| *it != ours).map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(wanted: Value, found: Value) -> Vec<String> {
        differences(&wanted, &found, &DriftPolicy::default())
    }

    #[test]
    fn dr_1_only_fields_that_were_applied_can_drift() {
        let wanted =
            json!({"spec": {"replicas": 3, "template": {"containers": [{"name": "a", "image": "x"}]}}});
        let mut found = wanted.clone();
        found["spec"]["extra"] = json!(1);
        found["spec"]["template"]["containers"][0]["terminationMessagePath"] = json!("/dev/log");
        assert_eq!(paths(wanted.clone(), found.clone()), Vec::<String>::new());
        found["spec"]["replicas"] = json!(5);
        found["spec"]["template"]["containers"][0]["image"] = json!("y");
        assert_eq!(paths(wanted.clone(), found), ["/spec/replicas", "/spec/template/containers/0/image"]);
        assert_eq!(paths(wanted, json!({})), ["/spec"]);
    }

    #[test]
    fn dr_1_ignored_paths_and_all_below_them_are_left() {
        let wanted = json!({"spec": {"a": {"b": 1}, "ab": 1}, "metadata": {"labels": {"x/y": "1"}}});
        let policy = |ignored: &[&str]| DriftPolicy {
            ignore_paths: ignored.iter().map(|it| (*it).to_owned()).collect(),
            ..DriftPolicy::default()
        };
        let left =
            differences(&wanted, &json!({"spec": {"a": {}}}), &policy(&["/spec/a", "/metadata/labels/x~1y"]));
        assert_eq!(left, ["/metadata", "/spec/ab"]);
        let found = json!({"spec": {"a": {}, "ab": 1}, "metadata": {"labels": {}}});
        assert_eq!(
            differences(&wanted, &found, &policy(&["/spec/a", "/metadata/labels"])),
            Vec::<String>::new()
        );
    }

    #[test]
    fn names_of_pods_that_are_gone_do_not_drift() {
        let list = |names: &[&str]| json!({"spec": {"scaleStrategy": {"podsToDelete": names}}});
        assert_eq!(paths(list(&[]), list(&["gone"])), Vec::<String>::new());
        assert_eq!(paths(list(&[]), json!({"spec": {"scaleStrategy": {}}})), Vec::<String>::new());
        assert_eq!(paths(list(&["a"]), list(&[])), [PODS_TO_DELETE]);
    }

    #[test]
    fn dr_1_one_event_a_minute_and_three_corrections_are_a_fight() {
        let start = kruise_core::runtime::clock::Clock::system().instant();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut history = History::default();
        let path = ["/spec/replicas".to_owned()];
        let mut react = |seconds| history.react(&path, DriftMode::Correct, at(seconds));
        assert_eq!(react(0), Reaction::Correct { tell: true });
        assert_eq!(react(10), Reaction::Correct { tell: false });
        assert_eq!(react(70), Reaction::Correct { tell: true });
        let fight =
            |again| Reaction::Fight { path: "/spec/replicas".into(), again_in: Duration::from_secs(again) };
        assert_eq!(react(100), fight(500));
        assert_eq!(react(599), fight(1));
        assert_eq!(react(600), Reaction::Correct { tell: true });
    }

    #[test]
    fn dr_1_reporting_and_ignoring_leave_things_as_they_are() {
        let now = kruise_core::runtime::clock::Clock::system().instant();
        for mode in [DriftMode::Report, DriftMode::Ignore] {
            assert_eq!(History::default().react(&["/a".to_owned()], mode, now), Reaction::Leave);
        }
        assert_eq!(History::default().react(&[], DriftMode::Correct, now), Reaction::Leave);
    }

    #[test]
    fn dr_1_a_fight_names_the_other_field_manager() {
        let entry = |manager: &str, fields: Value| json!({"manager": manager, "fieldsV1": fields});
        let object = json!({"metadata": {"managedFields": [
            entry("fleet-agent", json!({"f:spec": {"f:replicas": {}}})),
            entry("hpa", json!({"f:spec": {"f:replicas": {}}})),
            entry("kubectl", json!({"f:spec": {"f:template": {}}})),
        ]}});
        assert_eq!(other_managers(&object, "/spec/replicas", "fleet-agent"), ["hpa"]);
        assert_eq!(other_managers(&object, "/spec/template/spec/x", "fleet-agent"), ["kubectl"]);
    }
}
