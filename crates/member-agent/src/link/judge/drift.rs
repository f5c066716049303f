//! Changes by somebody else to what we applied (DR-1).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kruise_core::api::{
    cloneset::v1beta1::CloneSet,
    fleet::{
        assignment::Corrected,
        policy::{DriftMode, DriftPolicy},
    },
    image_pull_job::v1beta1::ImagePullJob,
};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use crate::link::{
    render::NUMBERS,
    report::{MOST_DRIFT, MOST_MANAGERS},
};

/// An event about corrections is told at most this often.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// So many corrections of one path ...
const FIGHT: usize = 3;
/// ... within this time are a fight.
const FIGHT_WITHIN: Duration = Duration::from_secs(600);
/// In a fight the numbers of the fleet are put right at most this often: another's number stands no longer.
const FIGHT_PACE: Duration = Duration::from_secs(10);
/// What an autoscaler in the member would change (CS-3).
pub const REPLICAS: &str = "/spec/replicas";

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
    // Whoever scales the object is told of whatever the policy says: only the hub may (CS-3).
    paths.retain(|it| it == REPLICAS || !is_ignored(it, policy));
    paths
}

/// Where `found` is something else than `body` says, whatever the policy. The form in which objects are read leaves out what a
/// field is by default: what somebody has set there shows only beside `body` as it is sent.
pub(super) fn changes(body: &Value, found: &Value) -> Vec<String> {
    let (mut paths, mut set) = (Vec::new(), Vec::new());
    compare(&mut paths, String::new(), &comparable(body), found);
    compare(&mut set, String::new(), body, found);
    let is_set = |path: &str| found.pointer(path).is_some_and(|it| !it.is_null());
    set.retain(|it| is_set(it) && !paths.contains(it));
    paths.extend(set);
    paths
}

/// Which of the changes that are not put right the hub is told of.
pub fn told(paths: &[String], mode: DriftMode) -> Vec<String> {
    let is_told = |path: &str| match mode {
        DriftMode::Correct => false,
        DriftMode::Report => true,
        // A conflict about the replicas is told in any mode (CS-3).
        DriftMode::Ignore => path == REPLICAS,
    };
    paths.iter().filter(|it| is_told(it)).cloned().collect()
}

/// Whether the policy says that others may change what is at `path`.
pub(super) fn is_ignored(path: &str, policy: &DriftPolicy) -> bool {
    policy.ignore_paths.iter().any(|it| is_within(path, it))
}

/// Whether `path` is `outer`, or something inside it.
pub(super) fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|it| it.is_empty() || it.starts_with('/'))
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
    /// What was put right and the hub does not know of.
    untold: Corrected,
    hub_told: Option<Instant>,
    /// Paths that differed last, and the field managers that had claimed them.
    named: Option<(Vec<String>, Vec<String>)>,
}

/// What to do about drift.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reaction {
    /// Nothing.
    Leave,
    /// Apply again.
    Correct {
        /// Whether to say so.
        tell: bool,
    },
    /// Say that somebody fights for `path`. Numbers of the fleet are put right all the same, though not at once each time; the
    /// path is put right along with one that nobody fights for; anything else is left alone for a while.
    Fight {
        /// The path.
        path: String,
        /// Whether to apply again.
        correct: bool,
        /// When to try again, if not.
        again_in: Duration,
    },
}

/// What the hub is to be told of corrections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Untold {
    /// Nothing.
    Nothing,
    /// Something, after this long.
    Later(Duration),
    /// This.
    Now(Corrected),
}

impl History {
    /// Decides about `paths`, and remembers it.
    pub fn react(&mut self, paths: &[String], mode: DriftMode, now: Instant) -> Reaction {
        self.corrections.retain(|it| now.saturating_duration_since(it.0) < FIGHT_WITHIN);
        if paths.is_empty() || mode != DriftMode::Correct {
            return Reaction::Leave;
        }
        let (fought, until) = self.fight(now);
        if let Some(path) = paths.iter().find(|it| fought.contains(it)) {
            let last = self.corrections.iter().map(|it| it.0).max().unwrap_or(now);
            let rest = FIGHT_PACE.saturating_sub(now.saturating_duration_since(last));
            let is_number = paths.iter().any(|it| is_number(it));
            // What nobody fights for does not wait for the end of somebody else's fight. That cannot go on for long: put right
            // three times, it is fought for too.
            let is_aside = paths.iter().any(|it| !fought.contains(it));
            let correct = is_aside || is_number && rest.is_zero();
            let again_in = if is_number { rest } else { until.unwrap_or(FIGHT_WITHIN) };
            if correct {
                self.remember(paths, now);
            }
            return Reaction::Fight { path: path.clone(), correct, again_in };
        }
        self.remember(paths, now);
        let tell = self.told.is_none_or(|it| now.saturating_duration_since(it) >= TELL_EVERY);
        if tell {
            self.told = Some(now);
        }
        Reaction::Correct { tell }
    }

    fn remember(&mut self, paths: &[String], now: Instant) {
        self.corrections.extend(paths.iter().map(|it| (now, it.clone())));
        self.untold.count += 1;
        let known: BTreeSet<String> = self.untold.paths.drain(..).chain(paths.iter().cloned()).collect();
        self.untold.paths = known.into_iter().take(MOST_DRIFT).collect();
    }

    /// What was decided last did not come about. It is decided again, and counts once.
    pub fn take_back(&mut self) {
        let Some(last) = self.corrections.iter().map(|it| it.0).max() else { return };
        self.corrections.retain(|it| it.0 != last);
        self.untold.count = self.untold.count.saturating_sub(1);
    }

    /// The paths that somebody fights for, and when the first of them will have been left in peace for long enough.
    pub fn fight(&self, now: Instant) -> (Vec<String>, Option<Duration>) {
        let mut by_path: BTreeMap<&String, Vec<Instant>> = BTreeMap::new();
        for (at, path) in &self.corrections {
            if now.saturating_duration_since(*at) < FIGHT_WITHIN {
                by_path.entry(path).or_default().push(*at);
            }
        }
        by_path.retain(|_, it| it.len() >= FIGHT);
        let ends = by_path.values().map(|it| {
            let decisive = it[it.len() - FIGHT];
            FIGHT_WITHIN.saturating_sub(now.saturating_duration_since(decisive))
        });
        let until = ends.min();
        (by_path.into_keys().cloned().collect(), until)
    }

    /// The field managers that had claimed the paths which differ, if these are the paths that differed last.
    pub fn named(&self, paths: &[String]) -> Option<Vec<String>> {
        self.named.as_ref().filter(|it| it.0 == paths).map(|it| it.1.clone())
    }

    /// The field managers that were found last.
    pub fn last_named(&self) -> Vec<String> {
        self.named.as_ref().map(|it| it.1.clone()).unwrap_or_default()
    }

    /// Remembers which field managers had claimed the paths that differ.
    pub fn name(&mut self, paths: &[String], managers: &[String]) {
        self.named = Some((paths.to_vec(), managers.to_vec()));
        let known: BTreeSet<String> = self.untold.by.drain(..).chain(managers.iter().cloned()).collect();
        self.untold.by = known.into_iter().take(MOST_MANAGERS).collect();
    }

    /// What the hub is to be told of corrections: all since it was last told, once a minute at most.
    pub fn untold(&self, now: Instant) -> Untold {
        if self.untold.count == 0 {
            return Untold::Nothing;
        }
        let since = self.hub_told.map_or(TELL_EVERY, |it| now.saturating_duration_since(it));
        match TELL_EVERY.saturating_sub(since) {
            Duration::ZERO => Untold::Now(self.untold.clone()),
            rest => Untold::Later(rest),
        }
    }

    /// The hub was told.
    pub fn hub_was_told(&mut self, now: Instant) {
        (self.untold, self.hub_told) = (Corrected::default(), Some(now));
    }
}

/// Whether a path is one of the fleet's numbers, or holds one.
fn is_number(path: &str) -> bool {
    let tokens = || path.split('/').skip(1);
    NUMBERS.iter().any(|it| it.iter().zip(tokens()).all(|(a, b)| *a == b))
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
    fn cs_3_whoever_scales_the_object_is_told_of_in_any_mode_and_cannot_be_ignored() {
        let wanted = json!({"spec": {"replicas": 3, "minReadySeconds": 5}});
        let found = json!({"spec": {"replicas": 7, "minReadySeconds": 9}});
        for ignored in ["", "/spec", REPLICAS] {
            let policy = DriftPolicy { ignore_paths: vec![ignored.to_owned()], ..DriftPolicy::default() };
            let paths = differences(&wanted, &found, &policy);
            assert!(paths.contains(&REPLICAS.to_owned()), "{ignored:?}: {paths:?}");
        }
        let all = paths(wanted, found);
        assert_eq!(told(&all, DriftMode::Report), all);
        assert_eq!(told(&all, DriftMode::Ignore), [REPLICAS]);
        assert_eq!(told(&all, DriftMode::Correct), Vec::<String>::new(), "it is put right");
    }

    #[test]
    fn names_of_pods_that_are_gone_do_not_drift() {
        let list = |names: &[&str]| json!({"spec": {"scaleStrategy": {"podsToDelete": names}}});
        assert_eq!(paths(list(&[]), list(&["gone"])), Vec::<String>::new());
        assert_eq!(paths(list(&[]), json!({"spec": {"scaleStrategy": {}}})), Vec::<String>::new());
        assert_eq!(paths(list(&["a"]), list(&[])), [PODS_TO_DELETE]);
    }

    fn at(seconds: u64) -> Instant {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        let start = *START.get_or_init(|| kruise_core::runtime::clock::Clock::system().instant());
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn dr_1_one_event_a_minute_and_three_corrections_are_a_fight() {
        let mut history = History::default();
        let path = ["/spec/minReadySeconds".to_owned()];
        let mut react = |seconds| history.react(&path, DriftMode::Correct, at(seconds));
        assert_eq!(react(0), Reaction::Correct { tell: true });
        assert_eq!(react(10), Reaction::Correct { tell: false });
        assert_eq!(react(70), Reaction::Correct { tell: true });
        let fight = |again| Reaction::Fight {
            path: "/spec/minReadySeconds".into(),
            correct: false,
            again_in: Duration::from_secs(again),
        };
        assert_eq!(react(100), fight(500));
        assert_eq!(react(599), fight(1));
        assert_eq!(react(600), Reaction::Correct { tell: true });
    }

    #[test]
    fn cs_3_a_number_of_the_fleet_is_put_right_in_a_fight_too_and_stands_for_ten_seconds_at_most() {
        let mut history = History::default();
        let path = [REPLICAS.to_owned()];
        for seconds in [0, 15, 30] {
            assert!(matches!(
                history.react(&path, DriftMode::Correct, at(seconds)),
                Reaction::Correct { .. }
            ));
        }
        let mut react = |seconds| history.react(&path, DriftMode::Correct, at(seconds));
        let fight = |correct, again| Reaction::Fight {
            path: REPLICAS.into(),
            correct,
            again_in: Duration::from_secs(again),
        };
        assert_eq!(react(33), fight(false, 7));
        assert_eq!(react(45), fight(true, 0));
        assert_eq!(react(46), fight(false, 9));
        assert_eq!(react(60), fight(true, 0));
        // Ten minutes of peace end it.
        assert_eq!(history.fight(at(61)).0, path);
        assert_eq!(history.fight(at(630)), (vec![], None));
    }

    #[test]
    fn dr_1_a_fight_for_one_path_keeps_no_other_from_being_put_right() {
        let mut history = History::default();
        let (fought, other) = ("/spec/minReadySeconds".to_owned(), "/spec/template/spec/x".to_owned());
        for seconds in [0, 10, 20] {
            history.react(std::slice::from_ref(&fought), DriftMode::Correct, at(seconds));
        }
        let both = [fought.clone(), other];
        let corrects =
            |it: &Reaction| matches!(it, Reaction::Fight { correct: true, path, .. } if *path == fought);
        for seconds in [30, 40, 50] {
            assert!(corrects(&history.react(&both, DriftMode::Correct, at(seconds))), "at {seconds}");
        }
        assert!(!corrects(&history.react(&both, DriftMode::Correct, at(60))), "by now both are fought for");
    }

    #[test]
    fn dr_1_the_hub_is_told_of_corrections_once_a_minute_and_of_all_of_them() {
        let mut history = History::default();
        let path = |it: &str| [it.to_owned()];
        assert_eq!(history.untold(at(0)), Untold::Nothing);
        history.react(&path("/spec/a"), DriftMode::Correct, at(0));
        history.name(&path("/spec/a"), &["kubectl".to_owned()]);
        let told = |count, paths: &[&str], by: &[&str]| {
            let all = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect();
            Untold::Now(Corrected { count, paths: all(paths), by: all(by) })
        };
        assert_eq!(history.untold(at(1)), told(1, &["/spec/a"], &["kubectl"]));
        history.hub_was_told(at(1));
        assert_eq!(history.untold(at(2)), Untold::Nothing);
        history.react(&path("/spec/b"), DriftMode::Correct, at(11));
        history.react(&path("/spec/a"), DriftMode::Correct, at(21));
        assert_eq!(history.untold(at(21)), Untold::Later(Duration::from_secs(40)));
        assert_eq!(history.untold(at(61)), told(2, &["/spec/a", "/spec/b"], &[]));
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
