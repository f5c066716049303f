//! Who may join: what to do in the cluster, and a person's word on its request (ADR 9).

pub mod bootstrap;

use kruise_core::api::fleet::{
    join_request::{JoinDecision, JoinRequest},
    keys::DECISION,
    member_cluster::MemberCluster,
};
use kube::Api;
use serde_json::{Value, json};

use crate::{
    Answer, Error, Exit,
    arguments::{Decision, Join, TokenWish},
    connection::{self, Hub},
    tokens,
};

/// A person's word on a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Yes.
    Approve,
    /// No.
    Deny,
}

impl Word {
    fn written(self) -> &'static str {
        match self {
            Self::Approve => "Approve",
            Self::Deny => "Deny",
        }
    }

    fn asks_for(self) -> JoinDecision {
        match self {
            Self::Approve => JoinDecision::Approved,
            Self::Deny => JoinDecision::Denied,
        }
    }
}

/// `join --print`
pub async fn join(hub: &Hub, wish: &Join) -> Result<Answer, Error> {
    bootstrap::check(wish)?;
    let way = bootstrap::Way::read(hub.source(), wish.server.as_deref())?;
    let token = match &wish.token {
        Some(token) => token.clone(),
        None => {
            let (ttl, uses) = (std::time::Duration::from_secs(3600), 1);
            tokens::make(hub, &TokenWish { pattern: wish.cluster.clone(), ttl, uses }).await?.whole()
        }
    };
    let (secret, flags) = (bootstrap::secret(wish, &way, &token), bootstrap::flags(wish, &way));
    let value = json!({ "secret": secret, "flags": flags });
    Ok(Answer::done(bootstrap::page(wish, &secret, &flags)?, value))
}

/// `approve` and `deny`: one annotation, and then the hub's answer.
pub async fn answer(hub: &Hub, decision: &Decision, word: Word) -> Result<Answer, Error> {
    let requests: Api<JoinRequest> = hub.all();
    let name = &decision.cluster;
    let request = connection::get(&requests, "JoinRequest", name).await?;
    if let Some(settled) = settled(&request, word) {
        return settled;
    }
    let note = json!({ "metadata": { "annotations": { DECISION: word.written() } } });
    connection::patch(&requests, name, &note).await?;
    if decision.timeout.is_zero() {
        return Ok(noted(name, word));
    }
    let waiting = format!("the hub's answer to {name}; does a kruise-hub run?");
    hub.wait(decision.timeout, &waiting, async || {
        let request = connection::get(&requests, "JoinRequest", name).await?;
        settled(&request, word).transpose()
    })
    .await
}

/// What is told to whoever does not wait: the hub's answer is still to come.
fn noted(name: &str, word: Word) -> Answer {
    let text = format!("{} is noted for {name}; the hub has not answered yet", word.written());
    let value = json!({ "cluster": name, "decision": JoinDecision::Pending });
    Answer { exit: Exit::Pending, ..Answer::done(text, value) }
}

/// What has been decided about a request, if it has.
fn settled(request: &JoinRequest, word: Word) -> Option<Result<Answer, Error>> {
    let name = request.metadata.name.as_deref().unwrap_or_default();
    let status = request.status.as_ref()?;
    let decision = status.decision.filter(|it| *it != JoinDecision::Pending)?;
    let told = format!("{name} is {decision:?}: {} {}", status.reason, status.message);
    if decision != word.asks_for() {
        let fix = "an answer is not taken back: delete the JoinRequest and let the cluster ask again, or revoke the cluster";
        return Some(Err(Error::Refused(format!("{}; {fix}", told.trim_end()))));
    }
    let value = json!({ "cluster": name, "decision": decision, "reason": status.reason, "namespace": status.namespace });
    Some(Ok(Answer::done(told.trim_end(), value)))
}

/// `revoke`, and taking it back.
pub async fn accept(hub: &Hub, cluster: &str, undo: bool) -> Result<Answer, Error> {
    let members: Api<MemberCluster> = hub.all();
    connection::get(&members, "cluster", cluster).await?;
    connection::patch(&members, cluster, &json!({ "spec": { "accepted": undo } })).await?;
    let text = if undo {
        format!("{cluster} is accepted again")
    } else {
        format!(
            "{cluster} is revoked: its agent has no rights on the hub any more, and what runs there goes on"
        )
    };
    Ok(Answer::done(text, json!({ "cluster": cluster, "accepted": Value::Bool(undo) })))
}

#[cfg(test)]
mod tests {
    use kruise_core::api::fleet::join_request::JoinRequestStatus;

    use super::*;

    fn request(decision: Option<JoinDecision>) -> JoinRequest {
        let status =
            JoinRequestStatus { decision, reason: "Because".to_owned(), ..JoinRequestStatus::default() };
        let mut request = JoinRequest::new("eu-1", Default::default());
        request.status = Some(status);
        request
    }

    #[test]
    fn join_2_an_answer_that_was_given_is_told_and_not_taken_back() {
        assert!(settled(&request(None), Word::Approve).is_none());
        assert!(settled(&request(Some(JoinDecision::Pending)), Word::Deny).is_none());
        let approved = request(Some(JoinDecision::Approved));
        assert_eq!(settled(&approved, Word::Approve).unwrap().unwrap().text, "eu-1 is Approved: Because");
        let refused = settled(&approved, Word::Deny).unwrap().unwrap_err();
        assert_eq!(refused.exit(), Exit::Refused);
        assert!(refused.told().contains("delete the JoinRequest"), "{}", refused.told());
    }

    #[test]
    fn section_21_who_does_not_wait_for_the_answer_is_told_that_it_is_pending() {
        for word in [Word::Approve, Word::Deny] {
            let noted = noted("eu-1", word);
            assert_eq!((noted.exit.code(), &noted.value["decision"]), (2, &json!("Pending")));
            assert!(noted.text.starts_with(word.written()), "{}", noted.text);
        }
    }
}
