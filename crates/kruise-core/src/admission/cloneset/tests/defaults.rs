use serde_json::{Value, json};

use super::{BOTH, cloneset, with};
use crate::{
    admission::{Version, cloneset::default},
    runtime::{
        gates::{Gate, Gates},
        webhook::Operation,
    },
};

fn bare(strategy: Value) -> Value {
    json!({"spec": {
        "template": {"spec": {"containers": [{"name": "c", "unknown": 1}]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
        "updateStrategy": strategy,
    }})
}

fn created(mut object: Value, version: Version) -> Value {
    default(&mut object, None, Operation::Create, version, Gates::defaults());
    object
}

#[test]
fn a_new_object_gets_replicas_a_history_and_template_defaults() {
    for version in BOTH {
        let it = created(bare(Value::Null), version);
        assert_eq!((&it["spec"]["replicas"], &it["spec"]["revisionHistoryLimit"]), (&json!(1), &json!(10)));
        let container = &it["spec"]["template"]["spec"]["containers"][0];
        assert_eq!((&container["imagePullPolicy"], &container["unknown"]), (&json!("Always"), &json!(1)));
        assert_eq!(it["spec"]["volumeClaimTemplates"][0]["status"], json!({"phase": "Pending"}));
        for field in ["progressDeadlineSeconds", "minReadySeconds", "lifecycle", "scaleStrategy", "selector"]
        {
            assert!(it["spec"].get(field).is_none(), "{field}");
        }
    }
}

#[test]
fn v1alpha1_gets_its_numbers_for_every_type() {
    let numbers = |kind: &str| json!({"type": kind, "partition": 0, "maxUnavailable": "20%", "maxSurge": 0});
    let strategy = |it| created(bare(it), Version::V1Alpha1)["spec"]["updateStrategy"].clone();
    assert_eq!(strategy(Value::Null), numbers("ReCreate"));
    assert_eq!(strategy(json!({"type": ""})), numbers("ReCreate"));
    assert_eq!(strategy(json!({"type": "OnDelete"})), numbers("OnDelete"));
    for kind in ["InPlaceIfPossible", "InPlaceOnly"] {
        let expected = with(numbers(kind), "/inPlaceUpdateStrategy", json!({}));
        assert_eq!(strategy(json!({"type": kind})), expected);
    }
    let given =
        json!({"type": "ReCreate", "partition": "5%", "maxUnavailable": 1, "maxSurge": 2, "unknown": 1});
    assert_eq!(strategy(given.clone()), given);
}

#[test]
fn v1beta1_gets_its_numbers_for_rolling_updates_only() {
    let numbers =
        |it: &str| json!({"podUpdatePolicy": it, "partition": 0, "maxUnavailable": "20%", "maxSurge": 0});
    let strategy = |it| created(bare(it), Version::V1Beta1)["spec"]["updateStrategy"].clone();
    let expected = json!({"type": "RollingUpdate", "rollingUpdate": numbers("ReCreate")});
    assert_eq!(strategy(Value::Null), expected);
    assert_eq!(strategy(json!({"type": "", "rollingUpdate": {"podUpdatePolicy": ""}})), expected);
    assert_eq!(strategy(json!({"type": "OnDelete"})), json!({"type": "OnDelete"}));
    let partial = json!({"type": "OnDelete", "rollingUpdate": {"paused": true}});
    assert_eq!(strategy(partial.clone()), partial);
    let got = strategy(json!({"rollingUpdate": {"podUpdatePolicy": "InPlaceOnly"}}));
    assert_eq!(got["rollingUpdate"], with(numbers("InPlaceOnly"), "/inPlaceUpdateStrategy", json!({})));
}

#[test]
fn a_template_nobody_touched_gets_no_defaults() {
    for version in BOTH {
        let old = cloneset(version);
        let mut new = with(old.clone(), "/spec/replicas", json!(7));
        // What a typed client leaves out and another one writes is no change.
        new["spec"]["template"]["spec"]["containers"][0].as_object_mut().unwrap().remove("resources");
        let before = new.clone();
        default(&mut new, Some(&old), Operation::Update, version, Gates::defaults());
        assert_eq!(new, before);

        let mut new = with(old.clone(), "/spec/template/spec/containers/0/image", json!("i:2"));
        default(&mut new, Some(&old), Operation::Update, version, Gates::defaults());
        assert_eq!(new["spec"]["template"]["spec"]["dnsPolicy"], "ClusterFirst");
    }
}

#[test]
fn the_gate_keeps_defaults_out_of_templates() {
    let mut it = bare(Value::Null);
    let gates = Gates::defaults().with(Gate::TemplateNoDefaults, true);
    default(&mut it, None, Operation::Create, Version::V1Beta1, gates);
    let untouched = bare(Value::Null);
    assert_eq!(it["spec"]["template"], untouched["spec"]["template"]);
    assert_eq!(it["spec"]["volumeClaimTemplates"], untouched["spec"]["volumeClaimTemplates"]);
    assert_eq!(it["spec"]["replicas"], 1);
}

#[test]
fn what_has_its_defaults_is_left_as_it_is_and_odd_shapes_are_no_panic() {
    for version in BOTH {
        let once = created(bare(json!({"type": "OnDelete"})), version);
        assert_eq!(created(once.clone(), version), once);
        for odd in [json!(1), json!({"spec": 1}), json!({"spec": {"updateStrategy": 1, "template": 1}})] {
            created(odd, version);
        }
    }
}
