//! Asks the API server what the user of a request may do.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    authentication::v1::UserInfo,
    authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec},
};
use kruise_core::{
    api::fleet::{GROUP, assignment::Assignment},
    runtime::{
        access::{self, Right},
        client::{Error, call},
    },
};
use kube::{Api, Client, Resource, api::PostParams};

use super::reach::{self, Need, Question, RESOURCE};

/// How many questions are asked at once.
const AT_ONCE: usize = 16;

/// The right to ask.
pub(super) fn needs() -> Vec<Right> {
    vec![access::cluster("authorization.k8s.io", "subjectaccessreviews", &["create"])]
}

/// The answers to everything that `needs` leave open.
pub(super) async fn answers(
    client: &Client,
    user: &UserInfo,
    needs: &[Need],
) -> Result<BTreeMap<Question, bool>, Error> {
    let mut answers = BTreeMap::new();
    loop {
        let questions = reach::open(needs, &answers);
        if questions.is_empty() {
            return Ok(answers);
        }
        let asking = stream::iter(questions).map(|it| ask(client, user, it));
        answers.extend(asking.buffer_unordered(AT_ONCE).try_collect::<Vec<_>>().await?);
    }
}

/// Whether a user may write Assignments of any cluster, as the hub may.
pub(super) async fn may_assign(client: &Client, user: &UserInfo) -> Result<bool, Error> {
    let attributes = ResourceAttributes {
        group: Some(GROUP.to_owned()),
        resource: Some(Assignment::plural(&()).into_owned()),
        verb: Some("create".to_owned()),
        ..ResourceAttributes::default()
    };
    is_allowed(client, &about(user, attributes)).await
}

async fn ask(client: &Client, user: &UserInfo, question: Question) -> Result<(Question, bool), Error> {
    let answer = is_allowed(client, &review(user, &question)).await?;
    Ok((question, answer))
}

async fn is_allowed(client: &Client, review: &SubjectAccessReview) -> Result<bool, Error> {
    let api: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = call("ask what a user may do", api.create(&PostParams::default(), review)).await?;
    Ok(answer.status.is_some_and(|it| it.allowed && it.denied != Some(true)))
}

fn review(user: &UserInfo, (verb, cluster): &Question) -> SubjectAccessReview {
    let attributes = ResourceAttributes {
        group: Some(GROUP.to_owned()),
        resource: Some(RESOURCE.to_owned()),
        verb: Some(verb.as_str().to_owned()),
        // Without a name all are asked for: a rule with names does not grant that.
        name: cluster.clone(),
        ..ResourceAttributes::default()
    };
    about(user, attributes)
}

fn about(user: &UserInfo, attributes: ResourceAttributes) -> SubjectAccessReview {
    let UserInfo { username, uid, groups, extra } = user.clone();
    let spec = SubjectAccessReviewSpec {
        user: username,
        uid,
        groups,
        extra,
        resource_attributes: Some(attributes),
        ..Default::default()
    };
    SubjectAccessReview { spec, ..SubjectAccessReview::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::reach::Verb, *};

    #[test]
    fn sec_4_the_user_is_asked_about_with_everything_that_is_known_of_it() {
        let user: UserInfo = serde_json::from_value(json!({
            "username": "ann", "uid": "7", "groups": ["tenants"], "extra": {"scopes": ["fleet"]},
        }))
        .unwrap();
        let asked = serde_json::to_value(review(&user, &(Verb::Place, Some("eu-1".to_owned())))).unwrap();
        assert_eq!(
            asked["spec"],
            json!({
                "user": "ann", "uid": "7", "groups": ["tenants"], "extra": {"scopes": ["fleet"]},
                "resourceAttributes":
                    {"group": "fleet.kruise.io", "resource": "memberclusters", "verb": "place", "name": "eu-1"},
            })
        );
        let all = serde_json::to_value(review(&user, &(Verb::Override, None))).unwrap();
        assert_eq!(all["spec"]["resourceAttributes"]["name"], json!(null));
    }
}
