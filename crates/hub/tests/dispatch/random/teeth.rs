//! The promises have teeth: a hub that ignores exposure, acknowledgements or terms is caught.
//!
//! Nothing in the product is switched for that. What is stored is changed behind its back, so that it sees what it would see if the
//! rule were not there.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};
use sim::{
    World,
    faults::Direction,
    server::admission::{Hook, Operation, Review, Stage as When, Verdict},
};

use super::{caught, story::Story, wish::Wish};
use crate::kit::{FLEET, HUB, agent_of, all_pods, play};

/// Whether a rule is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// As it is.
    Kept,
    /// As though it were not there.
    Ignored,
}

/// After each write exposures are set to what is granted, as though everything were carried out at once.
pub(super) fn ignore_exposure(world: &World, rule: Rule) {
    if rule == Rule::Ignored {
        world.invariant("nothing", |world| {
            forget(world);
            Ok(())
        });
    }
}

/// Sets all exposures to what is granted.
fn forget(world: &World) {
    for binding in world.cluster(HUB).server().list("fleetbindings.fleet.kruise.io") {
        let before = binding.value();
        let mut after = before.clone();
        let rows = after["spec"]["ledger"]["clusters"].as_object_mut().into_iter().flatten();
        for (_, row) in rows {
            for column in ["replicas", "updated", "unavailable", "surge", "parallelism"] {
                let grant = row[column]["grant"].as_u64().unwrap_or(0);
                if row[column]["exposure"].as_u64().unwrap_or(0) > grant {
                    row[column]["exposure"] = json!(grant);
                }
            }
        }
        if after != before {
            let name = before["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("{FLEET}/namespaces/shop/fleetbindings/{name}");
            // Somebody else may have been faster; then there is another write after which to try.
            let _ = world.write(HUB, Method::PUT, &path, &after);
        }
    }
}

/// A member is drained whose link breaks at that moment: what it was told to give up, and did not hear of, is still there.
fn drain_a_silent_member(rule: Rule) {
    play(async |stage| {
        ignore_exposure(&stage.world, rule);
        let mut story = Story::begin(stage, Wish::plain(6)).await;
        story.may_move = true;
        story.promises.set(Some(story.bounds(6, None)));
        let link = story.stage.world.link(&agent_of("member-1"), HUB);
        link.cut(Direction::BOTH);
        story.stage.change_member("member-1", &json!({"drain": true}));
        story.stage.pass(60).await;
        link.heal();
        story.until("it is empty", |it| it.replicas()[0] == 0).await;
        story.rests().await;
    });
}

#[test]
fn a_ledger_without_exposure_is_caught() {
    caught(|| drain_a_silent_member(Rule::Kept)).unwrap();
    let why = caught(|| drain_a_silent_member(Rule::Ignored)).unwrap_err();
    assert!(why.contains("budget_never_exceeded") && why.contains("the ledger counts"), "{why}");
}

/// What a member says is stored as though it were said of the newest plan.
fn ignore_acknowledgements(world: &World) {
    let call = |review: &Review<'_>| {
        let mut object = review.object.clone();
        let plan = object["spec"].clone();
        for (said, of_plan) in [("appliedSeq", "seq"), ("appliedTerm", "term")] {
            object["status"][said] = plan[of_plan].clone();
        }
        object["status"]["observedGeneration"] = object["status"]["generation"].clone();
        Verdict::Replace(object)
    };
    world.cluster(HUB).server().admit(Hook {
        name: "no-acknowledgements".to_owned(),
        stage: When::Mutating,
        kinds: vec!["assignments.fleet.kruise.io/status".to_owned()],
        operations: vec![Operation::Update],
        fail_open: false,
        call: Arc::new(call),
    });
}

/// A member hears late of its plan, and has something to say meanwhile.
fn scale_a_member_that_hears_late(rule: Rule) {
    play(async |stage| {
        if rule == Rule::Ignored {
            ignore_acknowledgements(&stage.world);
        }
        let mut story = Story::begin(stage, Wish::plain(6)).await;
        let link = story.stage.world.link(&agent_of("member-1"), HUB);
        link.cut(Direction::TO_CLIENT);
        story.wish.replicas = 9;
        story.wish.apply(&story.stage);
        story.stage.pass(2).await;
        let pods = all_pods(&story.stage.world);
        let pod = pods.iter().find(|it| it.cluster == "member-1").unwrap();
        let path = format!("/api/v1/namespaces/shop/pods/{}", pod.name);
        story.stage.world.write("member-1", Method::DELETE, &path, &Value::Null).unwrap();
        story.stage.pass(20).await;
        link.heal();
        story.rests().await;
    });
}

#[test]
fn a_hub_that_needs_no_acknowledgement_is_caught() {
    caught(|| scale_a_member_that_hears_late(Rule::Kept)).unwrap();
    let why = caught(|| scale_a_member_that_hears_late(Rule::Ignored)).unwrap_err();
    assert!(why.contains("ack_required"), "{why}");
}

/// Twelve pods become three, and then an old plan arrives that nobody has waited for. It is taken for the newest where numbers of plans
/// mean nothing.
fn write_a_late_plan(rule: Rule) {
    play(async |stage| {
        let mut story = Story::begin(stage, Wish::plain(12)).await;
        let mut late = story.stage.assignment("member-1").unwrap();
        story.wish.replicas = 3;
        story.wish.apply(&story.stage);
        story.rests().await;
        story.promises.set(Some(story.bounds(3, None)));
        let now = story.stage.assignment("member-1").unwrap();
        if rule == Rule::Ignored {
            late["spec"]["term"] = now["spec"]["term"].clone();
            late["spec"]["seq"] = now["spec"]["seq"].clone();
        }
        late["metadata"] = json!({"name": now["metadata"]["name"], "labels": now["metadata"]["labels"]});
        let folder = format!("{FLEET}/namespaces/fleet-member-1/assignments");
        let path = format!("{folder}/cloneset.shop.web");
        story.stage.world.write(HUB, Method::DELETE, &path, &Value::Null).unwrap();
        story.stage.world.write(HUB, Method::POST, &folder, &late).unwrap();
        story.stage.pass(120).await;
        story.rests().await;
        let stored = story.stage.assignment("member-1").unwrap();
        assert_eq!(stored["spec"]["slice"], now["spec"]["slice"], "and the hub has put its own there again");
    });
}

#[test]
fn a_member_that_carries_out_what_a_deposed_leader_wrote_is_caught() {
    caught(|| write_a_late_plan(Rule::Kept)).unwrap();
    let why = caught(|| write_a_late_plan(Rule::Ignored)).unwrap_err();
    assert!(why.contains("budget_never_exceeded") && why.contains("the ledger counts"), "{why}");
}
