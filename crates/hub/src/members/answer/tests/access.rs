//! Rights follow `accepted`.

use serde_json::{Value, json};

use super::kit::{Case, member, user};
use crate::members::{access, answer::plan::Action};

fn of_member(accepted: bool, bound: [Option<&str>; 3]) -> Case {
    let bound = bound.map(|it| it.map(|it| vec![it.to_owned()])).to_vec();
    Case { member: Some(member(accepted)), bound, ..Case::quiet() }
}

#[test]
fn join_5_rights_are_withdrawn_first_and_then_it_is_said() {
    let user = user();
    let case = of_member(false, [Some(&user); 3]);
    assert_eq!(case.done(), ["withdraw"]);
    assert_eq!(case.events(), ["Member Warning Revoked"]);
    let actions = case.plan().actions;
    assert!(matches!(&actions[0], Action::Withdraw(all) if *all == access::withdrawn("eu-1")), "{actions:?}");
    // What a crash left is withdrawn too, and after that there is nothing to do.
    let rest = of_member(false, [None, None, Some(&user)]);
    assert!(
        matches!(&rest.plan().actions[0], Action::Withdraw(all) if all[..] == access::withdrawn("eu-1")[2..])
    );
    assert_eq!(of_member(false, [None; 3]).plan().actions, []);
}

#[test]
fn join_5_a_cluster_that_is_accepted_again_gets_its_rights_again() {
    let user = user();
    assert_eq!(of_member(true, [None; 3]).done(), ["grant"]);
    assert_eq!(of_member(true, [None, Some(&user), Some(&user)]).done(), ["grant"]);
    assert_eq!(of_member(true, [Some(&user); 3]).plan().actions, []);
}

#[test]
fn a_name_that_is_given_anew_is_taken_from_who_had_it() {
    let (user, former) = (user(), access::user("eu-1", ""));
    for bound in
        [[Some(former.as_str()); 3], [Some(&user), Some("fleet:agent:eu-1:0123456789abcdef"), Some("")]]
    {
        let case = of_member(true, bound);
        assert_eq!(case.done(), ["grant"]);
        let Action::Grant(objects) = &case.plan().actions[0] else { panic!("rights are granted") };
        let subjects = objects.iter().filter(|it| !it["subjects"].is_null()).map(|it| it["subjects"].clone());
        assert!(
            subjects
                .into_iter()
                .all(|it| it.as_array().unwrap().len() == 1 && it[0]["name"] == user.as_str())
        );
    }
}

#[test]
fn a_cluster_that_joined_by_hand_without_a_key_keeps_its_user() {
    let mut case = of_member(true, [Some("fleet:agent:eu-1"); 3]);
    case.member().spec.public_key = String::new();
    assert_eq!(case.plan().actions, []);
}

#[test]
fn rights_of_a_name_that_nobody_has_are_withdrawn() {
    let case = Case { bound: vec![Some(vec![user()]), None, Some(vec![user()])], ..Case::quiet() };
    assert_eq!(case.done(), ["withdraw"]);
    assert_eq!(case.events(), Vec::<String>::new());
}

#[test]
fn proto_7_a_namespace_that_somebody_deleted_is_not_made_again() {
    let user = user();
    let lost = Case { has_namespace: false, ..of_member(true, [None, Some(&user), Some(&user)]) };
    assert_eq!(lost.plan().actions, []);
    // A cluster that has nothing at all gets everything.
    let bare = Case { has_namespace: false, ..of_member(true, [None; 3]) };
    assert_eq!(bare.done(), ["grant"]);
}

/// An accepted member that is silent, though its agent has all that it needs.
fn whole() -> Case {
    let means = access::means("eu-1").into_iter().map(|it| Some(it["rules"].clone())).collect();
    Case { means, ..of_member(true, [Some(&user()); 3]) }
}

#[test]
fn join_3_a_lease_or_a_role_that_somebody_deleted_is_made_again_and_nothing_else() {
    let plan = whole().plan();
    assert_eq!((plan.actions.len(), plan.look_again_in.unwrap().as_secs()), (0, 60));
    for (place, object) in access::means("eu-1").into_iter().enumerate() {
        let mut case = whole();
        case.means[place] = None;
        assert_eq!(case.plan().actions, [Action::Grant(vec![object])]);
        // All of the namespace is gone, or about to be: that is somebody's wish.
        case.has_namespace = false;
        assert_eq!(case.plan().actions, []);
    }
}

#[test]
fn join_3_a_role_that_somebody_changed_is_made_as_it_was() {
    for rules in [json!([]), Value::Null, json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])] {
        let mut case = whole();
        case.means[0] = Some(rules);
        let Action::Grant(objects) = &case.plan().actions[0] else { panic!("it is made again") };
        assert_eq!(objects[..], access::means("eu-1")[..1]);
    }
}

#[test]
fn join_5_a_revoked_member_gets_no_role_back() {
    let case = Case { means: vec![None; 4], ..of_member(false, [None; 3]) };
    assert_eq!((case.plan().actions, case.plan().look_again_in), (Vec::new(), None));
}
