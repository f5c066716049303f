use proptest::prelude::*;
use scheduling::{
    release::Wave,
    round::{SlotReport, SlotRow},
};

use super::*;

fn name(revision: Revision) -> RevisionRef {
    RevisionRef { namespace: None, name: format!("body-{revision}"), hash: hash(revision) }
}

fn column() -> impl Strategy<Value = Column> {
    (any::<u32>(), any::<u32>()).prop_map(|(grant, exposure)| Column { grant, exposure })
}

fn revisions() -> impl Strategy<Value = Revision> {
    any::<u64>().prop_map(Revision)
}

fn share() -> impl Strategy<Value = Share> {
    let plan = (0..1u64 << 53, 0..1u64 << 53);
    let numbers = (any::<[u32; 4]>(), any::<Option<u32>>(), any::<bool>());
    (plan, numbers, revisions(), revisions(), any::<u64>()).prop_map(
        |((seq, epoch), (n, scale_unavailable, paused), body, stable, named)| Share {
            seq,
            epoch,
            replicas: n[0],
            updated: n[1],
            unavailable: n[2],
            surge: n[3],
            scale_unavailable,
            paused,
            body,
            stable,
            named,
        },
    )
}

fn report() -> impl Strategy<Value = Report> {
    (any::<[u32; 11]>(), any::<[u32; 5]>(), any::<bool>(), revisions(), revisions()).prop_map(
        |(n, plan, observed, body, stable)| Report {
            incarnation: plan[0].into(),
            number: plan[1].into(),
            seq: plan[2].into(),
            epoch: plan[3].into(),
            known_epoch: plan[4].into(),
            observed,
            replicas: n[0],
            body,
            stable,
            pods: n[1],
            available: n[2],
            updated: n[3],
            updated_available: n[4],
            at_stable: n[5],
            neither_unavailable: n[6],
            marked: n[7],
            failing: n[8],
            unselected: n[9],
            unselected_updated: n[10],
        },
    )
}

fn row() -> impl Strategy<Value = Row> {
    let past = prop::collection::vec((revisions(), any::<u32>()), 0..3);
    let flags = any::<[bool; 5]>();
    let rest = (share(), prop::option::of(report()), past, any::<Option<u32>>());
    ([column(), column(), column(), column()], any::<[u32; 5]>(), flags, rest).prop_map(
        |(columns, n, flags, (share, report, past, due))| Row {
            cluster: ClusterName::from("set later"),
            share,
            epoch: n[0].into(),
            replicas: columns[0],
            updated: columns[1],
            unavailable: columns[2],
            surge: columns[3],
            moving: n[1],
            past: past.into_iter().map(|(revision, exposure)| PastTarget { revision, exposure }).collect(),
            due,
            admitted: flags[0],
            busy_for: n[2],
            lost: flags[1],
            counted: flags[2],
            in_place_only: flags[3],
            report,
            acknowledged: flags[4],
            moving_for: n[3],
            unused_for: n[4],
        },
    )
}

fn paused() -> impl Strategy<Value = Option<Paused>> {
    prop_oneof![
        Just(None),
        Just(Some(Paused::ByOperator)),
        any::<u32>().prop_map(|failed| Some(Paused::ClustersFailed { failed })),
        any::<u32>().prop_map(|failing| Some(Paused::PodsFailing { failing })),
    ]
}

fn release() -> impl Strategy<Value = Release> {
    let stage =
        prop_oneof![Just(Stage::Waiting), Just(Stage::Rolling), Just(Stage::Soaking), Just(Stage::Over)];
    (stage, any::<[u32; 3]>(), paused()).prop_map(|(stage, n, paused)| Release {
        wave: n[0] as usize,
        stage,
        soaked: n[1],
        pulling: n[2],
        paused,
        ..Release::begin(Revision(7), &[Wave::named("canary"), Wave::named("rest")])
    })
}

fn ledger() -> impl Strategy<Value = Ledger> {
    let rows = prop::collection::vec(row(), 0..6);
    let words = (revisions(), revisions(), prop::option::of(revisions()), prop::option::of(revisions()));
    let numbers = (any::<[u32; 5]>(), any::<bool>());
    (rows, words, numbers, prop::option::of(release()), paused()).prop_map(
        |(mut rows, words, (n, asked), release, paused)| {
            for (place, row) in rows.iter_mut().enumerate() {
                row.cluster = ClusterName::from(format!("c{place}"));
            }
            Ledger {
                rows,
                target: words.0,
                stable: words.1,
                population: n[0].into(),
                scale_down: n[1].into(),
                move_hole: n[2].into(),
                rebalance: RebalanceState {
                    asked,
                    policy: PolicyMark { id: u64::from(n[3]), generation: 9 },
                    moved: n[3].into(),
                    passed: n[4],
                },
                release,
                rolled_back: words.2.filter(|it| *it != Revision::default()),
                pre_download: words.3.filter(|it| *it != Revision::default()),
                paused,
            }
        },
    )
}

proptest! {
    #[test]
    fn restart_noop_a_ledger_reads_back_as_it_was_written(ledger in ledger()) {
        let clusters: Vec<_> = ledger.rows.iter().map(|it| it.cluster.clone()).collect();
        let mut saved = Saved::default();
        write(&mut saved, &ledger, Some("web-7"), name);
        // Through the bytes that the API server stores.
        let text = serde_json::to_string(&saved).unwrap();
        let stored: Saved = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&stored, &saved);
        let waves = ledger.release.clone().map(|it| Release {
            wave: 0, stage: Stage::Waiting, soaked: 0, pulling: 0, paused: None, ..it
        });
        prop_assert_eq!(&read(&stored, &clusters, waves), &ledger);
        let mut again = stored.clone();
        write(&mut again, &ledger, Some("web-7"), name);
        prop_assert_eq!(again, stored);
    }

    #[test]
    fn rows_of_downloads_read_back_as_they_were_written(
        rows in prop::collection::vec((any::<u32>(), column(), any::<Option<[u32; 5]>>(), any::<bool>()), 0..5),
    ) {
        let rows: Vec<SlotRow> = rows
            .into_iter()
            .enumerate()
            .map(|(place, (seq, slots, report, acknowledged))| SlotRow {
                cluster: ClusterName::from(format!("c{place}")),
                seq: seq.into(),
                slots,
                report: report.map(|n| SlotReport {
                    incarnation: n[0].into(), number: n[1].into(), seq: n[2].into(), observed: n[3] > 9,
                    active: n[3], left: n[4],
                }),
                acknowledged,
            })
            .collect();
        let mut saved = Saved::default();
        write_slots(&mut saved, &rows);
        let clusters: Vec<_> = rows.iter().map(|it| it.cluster.clone()).collect();
        prop_assert_eq!(read_slots(&saved, &clusters), rows);
    }
}

#[test]
fn what_only_the_hub_knows_stays() {
    let mut saved = Saved { term: 3, generation: 4, ..Saved::default() };
    saved.weights.insert("a".to_owned(), 20);
    saved.clusters.insert("a".to_owned(), LedgerRow::default());
    saved.clusters.insert("gone".to_owned(), LedgerRow::default());
    let ledger = Ledger { rows: vec![Row::new(ClusterName::from("a"))], ..Ledger::new(Revision(1)) };
    write(&mut saved, &ledger, None, name);
    assert_eq!((saved.term, saved.generation), (3, 4));
    assert_eq!(saved.clusters.keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(saved.weights["a"], 20);
}

#[test]
fn a_row_at_rest_is_short() {
    let row = Row {
        share: Share {
            seq: 3,
            replicas: 4,
            updated: 4,
            body: Revision(1 << 60),
            stable: Revision(1 << 60),
            ..Share::default()
        },
        replicas: Column { grant: 4, exposure: 4 },
        updated: Column { grant: 4, exposure: 4 },
        ..Row::new(ClusterName::from("a"))
    };
    let text = serde_json::to_string(&write_row(&row)).unwrap();
    assert!(text.len() < 250, "{} bytes: {text}", text.len());
}
