//! Hooks that change and refuse.

use std::sync::Arc;

use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::api::PostParams;
use serde_json::json;
use sim::server::admission::{Hook, Operation, Stage, Verdict};

use crate::kit::*;

fn hook(
    stage: Stage,
    call: impl Fn(&sim::server::admission::Review<'_>) -> Verdict + Send + Sync + 'static,
) -> Hook {
    Hook {
        name: "test.example.com".to_owned(),
        stage,
        kinds: vec!["configmaps".to_owned()],
        operations: vec![Operation::Create, Operation::Update, Operation::Delete],
        fail_open: false,
        call: Arc::new(call),
    }
}

#[test]
fn a_mutating_hook_changes_what_is_stored() {
    bare(async |world| {
        world.cluster("member-1").server().admit(hook(Stage::Mutating, |review| {
            let mut object = review.object.clone();
            object["metadata"]["labels"]["seen"] = json!("yes");
            Verdict::Replace(object)
        }));
        let maps = maps(&client(&world));
        let made = maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        assert_eq!(made.metadata.labels.unwrap()["seen"], "yes");
    });
}

#[test]
fn a_refusal_names_the_hook_and_nothing_is_stored() {
    bare(async |world| {
        world.cluster("member-1").server().admit(hook(Stage::Validating, |review| match review.operation {
            Operation::Create => Verdict::Deny("not today".to_owned()),
            _ => Verdict::Allow,
        }));
        let maps = maps(&client(&world));
        let error = maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap_err();
        let status = status(&error);
        assert_eq!(status["code"], 403);
        let words = "admission webhook \"test.example.com\" denied the request: not today";
        assert_eq!(status["message"], words);
        assert!(maps.get_opt("a").await.unwrap().is_none());
    });
}

#[test]
fn a_hook_that_cannot_be_reached_fails_closed_or_open_as_it_says() {
    bare(async |world| {
        let server = world.cluster("member-1").server().clone();
        let down = hook(Stage::Validating, |_| Verdict::Unreachable("no route".to_owned()));
        server.admit(Hook { fail_open: true, ..down.clone() });
        let maps = maps(&client(&world));
        maps.create(&PostParams::default(), &map("a", "k", "1")).await.unwrap();
        server.admit(down);
        let error = maps.create(&PostParams::default(), &map("b", "k", "1")).await.unwrap_err();
        assert_eq!(status(&error)["code"], 500);
    });
}

#[test]
fn whoever_is_let_in_may_do_everything_and_reviews_of_rights_say_so() {
    bare(async |world| {
        let api: kube::Api<SubjectAccessReview> = kube::Api::all(client(&world));
        let mut review = SubjectAccessReview::default();
        review.spec.user = Some("ann".to_owned());
        let answer = api.create(&PostParams::default(), &review).await.unwrap();
        assert!(answer.status.unwrap().allowed);
        assert_eq!(answer.spec.user.as_deref(), Some("ann"));
        let error = api.list(&kube::api::ListParams::default()).await.unwrap_err();
        assert_eq!(status(&error)["code"], 405, "as a real API server: they are answered and not kept");
    });
}
