//! Seeding and pinning: a member learns the stable revision before it hears of the target (REV-7), and keeps it as the
//! current one until the hub ends the release (REV-8). Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kruise_core::{
    admission::{Version, cloneset::default},
    api::{cloneset::v1beta1::CloneSet, fleet::assignment::AssignmentSpec},
    controllers::cloneset::revisions::{owner, wanted},
    revision::{
        data::RevisionData,
        history::{self, NewRevision},
    },
    runtime::{
        cache::revision::RevisionLite,
        gates::Gates,
        key::{controller_uid, uid},
        webhook::Operation,
    },
};
use kube::core::{Selector, SelectorExt};
use serde_json::Value;

/// What has to be there before the target may be written.
#[derive(Debug, Clone, PartialEq)]
pub enum Seed {
    /// The member knows the stable revision under this name.
    Known {
        /// The name.
        name: String,
        /// Who has to become its owner: it was written before the member object was there.
        adopter: Option<OwnerReference>,
    },
    /// It has to be written.
    Write(Box<NewRevision>),
}

/// Why a member cannot be seeded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the stable body cannot be read: {reason}")]
pub struct Unreadable {
    reason: String,
}

/// Whether the plan has pods of two revisions: then the stable one is seeded and pinned. What counts is what creates a
/// revision in members, not which body it came in.
pub fn is_needed(plan: &AssignmentSpec) -> bool {
    match (&plan.target, &plan.stable) {
        (Some(target), Some(stable)) => target.hash != stable.hash,
        _ => false,
    }
}

/// What to do so that the member knows `stable`, which is the stable body with overrides. `member` is the member object, if
/// it is there; `revisions` are all that it owns, and those that nobody owns.
pub fn seed(
    stable: &Value,
    member: Option<&CloneSet>,
    revisions: &[&RevisionLite],
    gates: Gates,
) -> Result<Seed, Unreadable> {
    let unreadable = |it: &dyn std::fmt::Display| Unreadable { reason: it.to_string() };
    let mut stable = stable.clone();
    default(&mut stable, None, Operation::Create, Version::V1Beta1, gates);
    let mut stable: CloneSet = serde_json::from_value(stable).map_err(|it| unreadable(&it))?;
    stable.metadata.uid = member.and_then(|it| it.metadata.uid.clone());
    let selector = Selector::try_from(stable.spec.selector.clone()).map_err(|it| unreadable(&it))?;

    let history = history::history(revisions, uid(&stable), |it| selector.matches(it));
    let data = RevisionData::of_template(&stable.spec.template);
    let collisions = member.and_then(|it| it.status.as_ref()?.collision_count).unwrap_or_default();
    if let Some(known) = history.iter().rfind(|it| it.data.means_same(&data)) {
        let is_nobodys = controller_uid(*known).is_none();
        let adopter = (member.is_some() && is_nobodys).then(|| owner(&stable));
        return Ok(Seed::Known { name: known.name().to_owned(), adopter });
    }
    let new = history::seed(&history, &wanted(&stable, data), collisions);
    Ok(Seed::Write(Box::new(new.expect("none of the history records the same"))))
}

#[cfg(test)]
mod tests {
    use kruise_core::api::fleet::assignment::RevisionRef;
    use serde_json::json;

    use super::*;

    fn body(image: &str) -> Value {
        json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": image}]}},
            },
        })
    }

    fn member() -> CloneSet {
        let mut member = body("old");
        member["metadata"]["uid"] = json!("member");
        serde_json::from_value(member).unwrap()
    }

    /// What the API server would have stored for `new`.
    fn stored(new: &NewRevision) -> RevisionLite {
        serde_json::from_str(&new.body()).unwrap()
    }

    fn written(seed: Seed) -> NewRevision {
        match seed {
            Seed::Write(it) => *it,
            other => panic!("{other:?}"),
        }
    }

    fn sow(image: &str, member: Option<&CloneSet>, revisions: &[&RevisionLite]) -> Seed {
        seed(&body(image), member, revisions, Gates::defaults()).unwrap()
    }

    #[test]
    fn rev_7_a_new_object_is_seeded_before_it_is_there_and_adopts_its_seed() {
        let new = written(sow("old", None, &[]));
        assert_eq!(new.revision, 1);
        let found = stored(&new);
        assert_eq!(found.metadata.owner_references, None);
        let Seed::Known { name, adopter } = sow("old", None, &[&found]) else { panic!("it is known") };
        assert_eq!((name, adopter), (new.name.clone(), None));
        let Seed::Known { adopter, .. } = sow("old", Some(&member()), &[&found]) else {
            panic!("it is known")
        };
        assert_eq!(adopter.unwrap().uid, "member");
    }

    #[test]
    fn rev_7_a_seed_is_numbered_below_what_is_there() {
        let mut first = stored(&written(sow("first", Some(&member()), &[])));
        first.revision = 7;
        let new = written(sow("old", Some(&member()), &[&first]));
        assert_eq!((new.revision, new.owner.uid.as_str()), (6, "member"));
        first.revision = 0;
        assert_eq!(written(sow("old", Some(&member()), &[&first])).revision, 0, "no API server takes less");
    }

    #[test]
    fn rev_7_what_the_member_recorded_itself_is_the_seed() {
        let mut recorded = stored(&written(sow("old", Some(&member()), &[])));
        recorded.revision = 3;
        let Seed::Known { name, adopter } = sow("old", Some(&member()), &[&recorded]) else {
            panic!("it is known")
        };
        assert_eq!((name.as_str(), adopter), (recorded.name(), None));
        // Of another CloneSet with the same labels.
        let mut other = member();
        other.metadata.uid = Some("another".into());
        assert!(matches!(sow("old", Some(&other), &[&recorded]), Seed::Write(_)));
    }

    #[test]
    fn rev_7_the_bytes_are_those_that_the_members_controller_records() {
        let new = written(sow("old", Some(&member()), &[]));
        let mut stored = body("old");
        default(&mut stored, None, Operation::Create, Version::V1Beta1, Gates::defaults());
        let cloneset: CloneSet = serde_json::from_value(stored).unwrap();
        let own =
            history::choose(&[], &wanted(&cloneset, RevisionData::of_template(&cloneset.spec.template)), 0);
        let history::Choice::Create(own) = own else { panic!("there is none yet") };
        assert_eq!((own.name, own.data, own.labels), (new.name, new.data, new.labels));
    }

    #[test]
    fn rev_8_only_a_plan_of_two_revisions_pins() {
        let revision = |hash: &str, name: &str| {
            Some(RevisionRef { hash: hash.into(), name: name.into(), namespace: None })
        };
        let plan = |target, stable| AssignmentSpec { target, stable, ..AssignmentSpec::default() };
        assert!(is_needed(&plan(revision("b", "2"), revision("a", "1"))));
        assert!(
            !is_needed(&plan(revision("a", "2"), revision("a", "1"))),
            "the same template in another body"
        );
        assert!(!is_needed(&plan(revision("a", "1"), None)));
    }

    #[test]
    fn a_body_that_cannot_be_read_is_an_answer_and_no_panic() {
        let nonsense = json!({"metadata": {}, "spec": {"selector": 7}});
        assert!(seed(&nonsense, None, &[], Gates::defaults()).is_err());
    }
}
