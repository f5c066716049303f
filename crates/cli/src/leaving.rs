//! `remove`: a cluster leaves the fleet (DEL-6).

use ::hub::members::departure::Departure;
use kruise_core::api::fleet::{
    keys::{self, cluster_conditions},
    member_cluster::MemberCluster,
};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::{
    Answer, Error,
    arguments::Removal,
    connection::{self, Hub},
};

/// `remove`: the wish as an annotation, then the deletion, and the hub does the rest.
pub async fn remove(hub: &Hub, wish: &Removal) -> Result<Answer, Error> {
    let members: Api<MemberCluster> = hub.all();
    let name = &wish.cluster;
    let member = connection::get(&members, "cluster", name).await?;
    if let Some(note) = note(&member, wish) {
        connection::patch(&members, name, &note).await?;
    }
    if member.metadata.deletion_timestamp.is_none() {
        connection::delete(&members, name, member.metadata.uid.as_deref()).await?;
    }
    if wish.timeout.is_zero() {
        let value = json!({ "cluster": name, "removed": false });
        return Ok(Answer::done(begun(name, departure(&member, wish)), value));
    }
    let mut last = String::new();
    let gone = hub
        .wait(wish.timeout, &format!("{name} has left"), async || {
            let found = kruise_core::runtime::client::call("get", members.get_opt(name)).await?;
            let found = found.filter(|it| it.metadata.uid == member.metadata.uid);
            if let Some(held) = found.as_ref().and_then(held) {
                last = held;
            }
            Ok(found.is_none().then_some(()))
        })
        .await;
    match gone {
        Err(Error::TimedOut(what)) if !last.is_empty() => Err(Error::TimedOut(format!("{what}; {last}"))),
        other => other,
    }?;
    Ok(Answer::done(format!("{name} has left the fleet"), json!({ "cluster": name, "removed": true })))
}

/// What a cluster that leaves waits for, as the hub last said it.
pub fn held(member: &MemberCluster) -> Option<String> {
    member.metadata.deletion_timestamp.as_ref()?;
    let conditions = member.status.as_ref().map(|it| it.conditions.as_slice()).unwrap_or_default();
    let told = conditions.iter().find(|it| it.type_ == cluster_conditions::LEAVING)?;
    Some(format!("{} is leaving: {}: {}", member.name_any(), told.reason, told.message))
}

/// How the cluster is to leave: what was said before counts while it does.
fn departure(member: &MemberCluster, wish: &Removal) -> Departure {
    let before = Departure::of(member).unwrap_or_default();
    Departure { orphan: wish.orphan || before.orphan, force: wish.force || before.force }
}

/// What is written before the deletion; nothing if it is there.
fn note(member: &MemberCluster, wish: &Removal) -> Option<Value> {
    let words = departure(member, wish).words();
    let known = member.annotations().get(keys::LEAVE).map(String::as_str);
    (words != known).then(|| json!({ "metadata": { "annotations": { (keys::LEAVE): words } } }))
}

fn begun(name: &str, departure: Departure) -> String {
    let what = match (departure.orphan, departure.force) {
        (false, false) => "what it runs is moved away first",
        (true, _) => "what it runs is let go of and runs on",
        (false, true) => "what it runs is deleted without waiting for replacements",
    };
    format!("{name} is leaving: {what}; `kubectl fleet get clusters` says what is waited for")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    use kruise_core::api::fleet::member_cluster::MemberClusterStatus;

    use super::*;

    fn wish(orphan: bool, force: bool) -> Removal {
        Removal { cluster: "eu-1".to_owned(), orphan, force, timeout: Duration::ZERO }
    }

    #[test]
    fn del_6_the_wish_is_written_before_the_deletion_and_only_adds_to_one_that_is_under_way() {
        let mut member = MemberCluster::new("eu-1", Default::default());
        assert_eq!(note(&member, &wish(false, false)), None, "nothing to say: it is drained");
        let words = |member: &MemberCluster, wish: &Removal| {
            note(member, wish).map(|it| it["metadata"]["annotations"]["fleet.kruise.io/leave"].clone())
        };
        assert_eq!(words(&member, &wish(true, false)), Some(json!("Orphan")));
        member.annotations_mut().insert(keys::LEAVE.to_owned(), "Orphan".to_owned());
        assert_eq!(words(&member, &wish(false, false)), Some(Value::Null), "left over from another time");
        member.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(words(&member, &wish(false, false)), None);
        assert_eq!(words(&member, &wish(false, true)), Some(json!("Orphan,Force")));
    }

    #[test]
    fn del_6_what_holds_a_removal_up_is_shown() {
        let mut member = MemberCluster::new("eu-1", Default::default());
        let condition = Condition {
            type_: "Leaving".to_owned(),
            status: "True".to_owned(),
            reason: "Unreachable".to_owned(),
            message: "it does not report".to_owned(),
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
            observed_generation: None,
        };
        member.status = Some(MemberClusterStatus { conditions: vec![condition], ..Default::default() });
        assert_eq!(held(&member), None);
        member.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        assert_eq!(held(&member).unwrap(), "eu-1 is leaving: Unreachable: it does not report");
    }
}
