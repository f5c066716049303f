//! What holds whatever users do and wherever a pass breaks off.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::Village;
use crate::controllers::cloneset::plan::limits::Limits;

/// One thing that happens.
#[derive(Debug, Clone)]
enum Event {
    Replicas(i32),
    Image(u8),
    Label(u8),
    Env(u8),
    Partition(Value),
    Pause(bool),
    /// A pod is named for deletion.
    Name(usize),
    /// A pod is deleted from outside.
    Lose(usize),
    /// A pod does not become ready any more.
    Break(usize),
    Mend,
    /// A pass that is cut short after this many actions.
    Pass(usize),
    Tick,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => (0..9).prop_map(Event::Replicas),
        2 => (1..4_u8).prop_map(Event::Image),
        1 => (1..3_u8).prop_map(Event::Label),
        1 => (1..3_u8).prop_map(Event::Env),
        1 => prop_oneof![(0..8).prop_map(|it| json!(it)), (0..10).prop_map(|it| json!(format!("{}%", it * 11)))]
            .prop_map(Event::Partition),
        1 => any::<bool>().prop_map(Event::Pause),
        1 => any::<usize>().prop_map(Event::Name),
        1 => any::<usize>().prop_map(Event::Lose),
        1 => any::<usize>().prop_map(Event::Break),
        1 => Just(Event::Mend),
        6 => (0..4_usize).prop_map(Event::Pass),
        6 => Just(Event::Pass(usize::MAX)),
        12 => Just(Event::Tick),
    ]
}

fn spec() -> impl Strategy<Value = Value> {
    let policy = prop_oneof![Just("ReCreate"), Just("InPlaceIfPossible")];
    (1..8_i32, 0..4_i32, 0..3_i32, policy, prop::bool::weighted(0.2), 0..3_i32).prop_map(
        |(replicas, unavailable, surge, policy, claims, min_ready)| {
            let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
            let templates =
                if claims { json!([{"metadata": {"name": "data"}, "spec": {}}]) } else { json!([]) };
            json!({
                "replicas": replicas, "minReadySeconds": min_ready, "volumeClaimTemplates": templates,
                "scaleStrategy": {"enablePVCReuse": true},
                "updateStrategy": {"rollingUpdate": {
                    "podUpdatePolicy": policy, "maxUnavailable": unavailable, "maxSurge": surge,
                }},
            })
        },
    )
}

fn happen(village: &mut Village, event: &Event) {
    let pick = |village: &Village, index: &usize| {
        let names = village.names();
        (!names.is_empty()).then(|| names[index % names.len()].clone())
    };
    let container = |village: &Village| village.cloneset.spec.template["spec"]["containers"][0].clone();
    match event {
        Event::Replicas(replicas) => village.change(json!({"replicas": replicas})),
        Event::Image(number) => {
            let mut container = container(village);
            container["image"] = json!(format!("web:{number}"));
            village.change(json!({"template": {"spec": {"containers": [container]}}}));
        }
        Event::Label(number) => {
            village.change(json!({"template": {"metadata": {"labels": {"tier": number.to_string()}}}}));
        }
        Event::Env(number) => {
            let mut container = container(village);
            container["env"] = json!([{"name": "A", "value": number.to_string()}]);
            village.change(json!({"template": {"spec": {"containers": [container]}}}));
        }
        Event::Partition(value) => {
            village.change(json!({"updateStrategy": {"rollingUpdate": {"partition": value}}}));
        }
        Event::Pause(paused) => {
            village.change(json!({"updateStrategy": {"rollingUpdate": {"paused": paused}}}));
        }
        Event::Name(index) => {
            if let Some(name) = pick(village, index) {
                village.label(&name, "apps.kruise.io/specified-delete", json!("true"));
            }
        }
        Event::Lose(index) => {
            if let Some(name) = pick(village, index) {
                village.pods.remove(&name);
            }
        }
        Event::Break(index) => village.broken.extend(pick(village, index)),
        Event::Mend => village.broken.clear(),
        Event::Pass(most) => {
            village.pass(*most);
        }
        Event::Tick => village.tick(),
    }
}

/// Whether this pass took more down than the budget allows. Pods that were down before are not on our account.
fn pass_within_budget(village: &mut Village, most: usize) {
    let limits = Limits::of(&village.cloneset.spec);
    let floor = (limits.replicas - limits.max_unavailable).min(village.available() as i64);
    village.pass(most);
    assert!(
        village.available() as i64 >= floor,
        "{} available, floor {floor}: {:?} {:?}",
        village.available(),
        village.summary(),
        village.log
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn limits_hold_at_every_step_and_everything_ends_well(
        spec in spec(), events in prop::collection::vec(event(), 1..60), rollback: bool,
    ) {
        let mut village = Village::new(spec);
        village.options.partition_rollback = rollback;
        village.settle();
        for event in &events {
            match event {
                Event::Pass(most) => pass_within_budget(&mut village, *most),
                other => happen(&mut village, other),
            }
        }
        // Under fair conditions every state ends in the wanted one.
        village.broken.clear();
        village.change(json!({"updateStrategy": {"rollingUpdate": {"paused": false}}}));
        village.settle();
        let limits = Limits::of(&village.cloneset.spec);
        prop_assert_eq!(village.pods.len() as i64, limits.replicas, "{:?}", village.summary());
        prop_assert_eq!(village.available() as i64, limits.replicas);
        let updated = village.count(village.update_revision()) as i64;
        let expected = limits.expected_updated().unwrap();
        prop_assert!(updated >= expected, "{updated} of {expected}: {:?}", village.summary());
        // Claims of pods that were lost wait for a successor; none is missing.
        let claims = village.cloneset.spec.volume_claim_templates.len() * village.pods.len();
        prop_assert!(village.claims.len() >= claims);
        // Images are those of the revision that a pod says it is at.
        let image = &village.cloneset.spec.template["spec"]["containers"][0]["image"];
        let update = village.update_revision();
        for pod in village.pods.values().filter(|it| it["metadata"]["labels"]["controller-revision-hash"] == update) {
            prop_assert_eq!(&pod["spec"]["containers"][0]["image"], image);
        }
    }
}
