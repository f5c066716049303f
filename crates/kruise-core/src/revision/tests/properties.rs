//! What holds for any template and any history.

use proptest::{collection::vec, prelude::*};
use serde_json::{Map, Value, json};

use super::{
    super::{
        data::RevisionData,
        hash::short_hash,
        history::{Choice, choose, truncate},
    },
    stored, template, wanted,
};

/// JSON of any form, with names that the table knows strewn in, so that types are met and missed.
fn any_json() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e30..1e30f64).prop_map(Value::from),
        "[0-9.+eEkKMi<&\"\u{2028}\u{1}-]{0,6}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        prop::sample::select(vec![
            "metadata",
            "spec",
            "containers",
            "name",
            "env",
            "resources",
            "limits",
            "volumes",
            "emptyDir",
            "sizeLimit",
            "labels",
            "creationTimestamp",
            "livenessProbe",
            "httpGet",
            "port",
            "valueFrom",
            "resourceFieldRef",
            "divisor",
        ])
        .prop_map(str::to_owned),
        "[a-z<$]{0,3}",
    ];
    scalar.prop_recursive(7, 64, 5, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((name.clone(), inner), 0..6)
                .prop_map(|it| Value::Object(it.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn recording_twice_changes_nothing(metadata in any_json(), spec in any_json()) {
        let template = json!({"metadata": metadata, "spec": spec});
        let once = RevisionData::of_template(&template);
        let recorded: Value = serde_json::from_str(once.as_str()).unwrap();
        prop_assert_eq!(RevisionData::of_json(&recorded), once.clone());
        prop_assert_eq!(RevisionData::of_template(&once.template().unwrap()), once);
    }

    #[test]
    fn choosing_twice_is_stable(images in vec(0..4u8, 0..6), image in 0..5u8, count in 0..3i32) {
        let mut revisions: Vec<_> = images
            .iter()
            .zip(1..)
            .map(|(image, number)| stored(&format!("web-{number}"), number, &template(&image.to_string())))
            .collect();
        let wanted = wanted(&template(&image.to_string()));
        let name = match choose(&revisions.iter().collect::<Vec<_>>(), &wanted, count) {
            Choice::Use { name } => name,
            Choice::Refresh { name, revision, .. } => {
                let place = revisions.iter().position(|it| it.name() == name).unwrap();
                let mut refreshed = revisions.remove(place);
                refreshed.revision = revision;
                revisions.push(refreshed);
                name
            }
            Choice::Create(new) => {
                revisions.push(serde_json::from_str(&new.body()).unwrap());
                new.name
            }
        };
        prop_assert!(revisions.windows(2).all(|it| it[0].revision < it[1].revision));
        let again = choose(&revisions.iter().collect::<Vec<_>>(), &wanted, count);
        prop_assert_eq!(again, Choice::Use { name });
    }

    #[test]
    fn truncation_keeps_what_lives_and_the_newest(count in 0..15i64, live in vec(0..15i64, 0..6), limit in -2..12i32) {
        let revisions: Vec<_> = (0..count).map(|it| stored(&format!("web-{it}"), it, &template("a"))).collect();
        let listed: Vec<_> = revisions.iter().collect();
        let live: Vec<_> = live.iter().map(|it| format!("web-{it}")).collect();
        let gone = truncate(&listed, live.iter().map(String::as_str), limit);
        prop_assert!(gone.iter().all(|it| !live.contains(it)));
        let unused: Vec<_> = listed.iter().map(|it| it.name().to_owned()).filter(|it| !live.contains(it)).collect();
        let want = usize::try_from(limit).map_or(0, |it| unused.len().saturating_sub(it));
        prop_assert_eq!(&gone[..], &unused[..want]);
        let rest: Vec<_> = listed.into_iter().filter(|it| !gone.iter().any(|name| name == it.name())).collect();
        let short: Vec<_> = live.iter().map(|it| short_hash(it)).collect();
        prop_assert!(truncate(&rest, short, limit).is_empty());
    }
}
