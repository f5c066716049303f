//! What others have changed and the policy leaves to them, also where something is written (DR-1): a plan is applied as a whole
//! and by force, and shares change all through a release.
//!
//! No write leaves the template to others. Pods are counted by the fleet's revisions (REV-14), and those of a template that is
//! the hub's in part are of none of them: the release would never end.

use kruise_core::api::fleet::{
    PatchOperation, PatchStep,
    owned::touched,
    policy::{DriftMode, DriftPolicy},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::drift;
use crate::link::{marks::Pair, render, store::Record};

const TEMPLATE: &str = "/spec/template";

/// What decides how the numbers of a plan act. They are written for what the body says there (BUD-9).
const PACE: [&str; 2] = ["/spec/updateStrategy/type", "/spec/updateStrategy/rollingUpdate/podUpdatePolicy"];

/// What a member object was made from. By it a change on the hub, which is carried out, is told from one by somebody else.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Given {
    /// The number of the plan.
    pub plan: Pair,
    /// The body with overrides, without the template: that is never left to others, and is the bulk of it.
    pub base: Value,
}

impl Given {
    /// What the plan with this number gave, as far as `kept` knows.
    pub fn by(number: Pair, kept: &Record) -> Option<Self> {
        if super::pair(&kept.plan) != number {
            return kept.before.clone().filter(|it| it.plan == number);
        }
        let body = kept.body(kept.plan.target.as_ref()?)?;
        let mut base = render::base(body, &kept.plan).ok()?;
        if let Some(spec) = base.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("template");
        }
        Some(Self { plan: number, base })
    }
}

/// What is about to be written.
#[derive(Debug, Clone, Copy)]
pub struct Writing<'a> {
    /// The member object to be.
    pub body: &'a Value,
    /// What it is made from.
    pub base: &'a Value,
    /// What the member object was made from so far.
    pub before: &'a Value,
}

/// Whether anything is left to others.
pub fn is_any_left(policy: &DriftPolicy) -> bool {
    policy.mode != DriftMode::Correct || !policy.ignore_paths.is_empty()
}

/// The body with what others have made of it in `found` and the policy leaves to them; nothing if there is no such thing.
pub fn leave(writing: Writing<'_>, found: &Value, policy: &DriftPolicy) -> Option<Value> {
    if !is_any_left(policy) {
        return None;
    }
    let mut left = writing.body.clone();
    for path in drift::changes(writing.body, found) {
        let is_policy = policy.mode != DriftMode::Correct || drift::is_ignored(&path, policy);
        if is_policy && may_be_left(&path) && is_unchanged(writing, &path) {
            put(&mut left, &path, found.pointer(&path));
        }
    }
    (left != *writing.body).then_some(left)
}

/// Whether a path may be somebody else's.
fn may_be_left(path: &str) -> bool {
    let step = PatchStep { op: PatchOperation::Add, path: path.to_owned(), from: None, value: None };
    touched(&step).is_none() && !drift::is_within(path, TEMPLATE) && !PACE.contains(&path)
}

/// Whether the hub says there what it said before, and the plan adds nothing of its own.
fn is_unchanged(writing: Writing<'_>, path: &str) -> bool {
    let Writing { body, base, before } = writing;
    // Where we say nothing, nothing is overwritten.
    let Some(wanted) = body.pointer(path) else { return false };
    let says = |it: &Value| drift::essence(it.pointer(path).unwrap_or(&Value::Null));
    let wanted = drift::essence(wanted);
    says(base) == wanted && says(before) == wanted
}

/// Puts `value` into a place of `object`, or takes away what is there.
fn put(object: &mut Value, path: &str, value: Option<&Value>) {
    if let Some(value) = value.filter(|it| !it.is_null()) {
        if let Some(place) = object.pointer_mut(path) {
            *place = value.clone();
        }
        return;
    }
    let Some((holder, name)) = path.rsplit_once('/') else { return };
    if let Some(fields) = object.pointer_mut(holder).and_then(Value::as_object_mut) {
        fields.remove(&name.replace("~1", "/").replace("~0", "~"));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kruise_core::api::fleet::{
        FederatedObject,
        assignment::{AssignmentSpec, RevisionRef},
    };
    use serde_json::json;

    use super::*;

    fn base() -> Value {
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
            "metadata": {"name": "web", "namespace": "shop", "labels": {"team": "x"}},
            "spec": {
                "replicas": 9, "minReadySeconds": 0, "revisionHistoryLimit": 10,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "v1"}]},
                },
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"podUpdatePolicy": "ReCreate"}},
            },
        })
    }

    /// What a plan makes of `base`.
    fn rendered(base: &Value) -> Value {
        let mut body = base.clone();
        let numbers = json!({
            "metadata": {"annotations": {"fleet.kruise.io/hub-uid": "hub"}},
            "spec": {
                "replicas": 4, "scaleStrategy": {"podsToDelete": []},
                "updateStrategy": {"rollingUpdate": {"partition": 1, "maxUnavailable": 1, "maxSurge": 0, "paused": false}},
            },
        });
        json_patch::merge(&mut body, &numbers);
        body
    }

    fn policy(mode: DriftMode, ignored: &[&str]) -> DriftPolicy {
        DriftPolicy { mode, ignore_paths: ignored.iter().map(|it| (*it).to_owned()).collect() }
    }

    /// `object` with `change` in it.
    fn with(object: &Value, change: &Value) -> Value {
        let mut changed = object.clone();
        json_patch::merge(&mut changed, change);
        changed
    }

    /// What is written over `found` by a plan whose body is the same as before.
    fn written(found: &Value, policy: &DriftPolicy) -> Option<Value> {
        let base = base();
        leave(Writing { body: &rendered(&base), base: &base, before: &base }, found, policy)
    }

    #[test]
    fn dr_1_a_write_leaves_what_others_changed_where_the_policy_says_so() {
        let body = rendered(&base());
        let change = json!({
            "metadata": {"labels": {"team": null}},
            "spec": {"minReadySeconds": 30, "revisionHistoryLimit": 5},
        });
        let found = with(&body, &change);
        for mode in [DriftMode::Report, DriftMode::Ignore] {
            assert_eq!(written(&found, &policy(mode, &[])), Some(found.clone()), "{mode:?}");
            assert_eq!(written(&body, &policy(mode, &[])), None, "{mode:?}: nobody has changed anything");
        }
        let ignored = written(&found, &policy(DriftMode::Correct, &["/spec/revisionHistoryLimit"]));
        assert_eq!(ignored, Some(with(&body, &json!({"spec": {"revisionHistoryLimit": 5}}))));
        assert_eq!(written(&found, &policy(DriftMode::Correct, &[])), None);
    }

    #[test]
    fn ov_1_no_write_leaves_to_others_what_is_the_fleets() {
        let body = rendered(&base());
        for change in [
            json!({"spec": {"replicas": 7}}),
            json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0, "maxUnavailable": 3}}}}),
            json!({"spec": {"updateStrategy": {"rollingUpdate": {"paused": true, "maxSurge": 2}}}}),
            json!({"spec": {"updateStrategy": {"rollingUpdate": null}}}),
            json!({"spec": {"updateStrategy": {"rollingUpdate": {"podUpdatePolicy": "InPlaceOnly"}}}}),
            json!({"spec": {"updateStrategy": {"type": "OnDelete"}}}),
            json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}}),
            json!({"metadata": {"annotations": {"fleet.kruise.io/hub-uid": "another"}}}),
            json!({"metadata": {"annotations": null}}),
        ] {
            let found = with(&body, &change);
            assert_eq!(written(&found, &policy(DriftMode::Report, &[])), None, "{change}");
            let ignored = policy(DriftMode::Correct, &["/spec", "/metadata"]);
            assert_eq!(written(&found, &ignored), None, "{change}");
        }
    }

    #[test]
    fn rev_14_no_write_leaves_the_template_to_others() {
        let mut found = rendered(&base());
        found["spec"]["template"]["spec"]["containers"][0]["image"] = json!("v9");
        assert_eq!(written(&found, &policy(DriftMode::Report, &["/spec/template"])), None);
    }

    #[test]
    fn dr_1_what_the_hub_has_changed_is_written_whatever_others_made_of_it() {
        let before = base();
        let base = with(&before, &json!({"spec": {"revisionHistoryLimit": 7}}));
        let body = rendered(&base);
        let change = json!({"metadata": {"labels": {"team": "y"}}, "spec": {"revisionHistoryLimit": 5}});
        let writing = Writing { body: &body, base: &base, before: &before };
        let left = leave(writing, &with(&body, &change), &policy(DriftMode::Report, &[]));
        assert_eq!(left, Some(with(&body, &json!({"metadata": {"labels": {"team": "y"}}}))));
        // Nobody has touched what the hub has changed.
        let found = rendered(&before);
        assert_eq!(leave(writing, &found, &policy(DriftMode::Report, &[])), None);
    }

    #[test]
    fn dr_1_what_the_plan_itself_writes_is_no_change_by_others() {
        let base = json!({"kind": "ImagePullJob", "spec": {"pullPolicy": {"timeoutSeconds": 600}}});
        let body = with(&base, &json!({"spec": {"pullPolicy": {"timeoutSeconds": 300}}}));
        let writing = Writing { body: &body, base: &base, before: &base };
        assert_eq!(leave(writing, &base, &policy(DriftMode::Report, &[])), None);
    }

    #[test]
    fn dr_1_what_was_given_is_told_by_the_number_on_the_object() {
        let target = Some(RevisionRef { name: "frv-1".into(), hash: "1".into(), namespace: None });
        let object = FederatedObject {
            api_version: "apps.kruise.io/v1beta1".into(),
            kind: "CloneSet".into(),
            namespace: Some("shop".into()),
            name: "web".into(),
            uid: "object".into(),
        };
        let number = |seq| Pair { term: 1, seq };
        let before = Given { plan: number(6), base: json!({"spec": {}}) };
        let kept = Record {
            plan: AssignmentSpec { object, term: 1, seq: 7, target, ..AssignmentSpec::default() },
            before: Some(before.clone()),
            bodies: BTreeMap::from([("frv-1".to_owned(), base())]),
            ..Record::default()
        };
        let given = Given::by(number(7), &kept).unwrap();
        assert_eq!((given.plan, &given.base["spec"]["revisionHistoryLimit"]), (number(7), &json!(10)));
        assert_eq!(given.base["spec"].get("template"), None);
        assert_eq!(Given::by(number(6), &kept), Some(before), "the newer one was only taken on");
        assert_eq!(Given::by(number(5), &kept), None);
    }
}
