//! The rows of jobs that download images.

use kruise_core::api::fleet::binding::{Ledger as Saved, LedgerReport};
use scheduling::{
    names::ClusterName,
    round::{SlotReport, SlotRow},
};

use super::{keep_only, read_column, write_column};

/// Reads the rows of a job that downloads images, for these clusters, in their order.
pub fn read_slots(saved: &Saved, clusters: &[ClusterName]) -> Vec<SlotRow> {
    let row = |name: &ClusterName| match saved.clusters.get(name.as_str()) {
        None => SlotRow::new(name.clone()),
        Some(row) => SlotRow {
            cluster: name.clone(),
            seq: row.share.seq,
            slots: read_column(row.parallelism),
            report: row.report.as_ref().map(|it| SlotReport {
                incarnation: it.incarnation,
                number: it.number,
                seq: it.seq,
                observed: it.observed,
                active: it.active,
                left: it.nodes_left,
            }),
            acknowledged: row.acknowledged,
        },
    };
    clusters.iter().map(row).collect()
}

/// Writes the rows of a job that downloads images.
pub fn write_slots(saved: &mut Saved, rows: &[SlotRow]) {
    keep_only(saved, rows.iter().map(|it| &it.cluster));
    for SlotRow { cluster, seq, slots, report, acknowledged } in rows {
        let kept = saved.clusters.entry(cluster.to_string()).or_default();
        kept.share.seq = *seq;
        kept.parallelism = write_column(*slots);
        kept.acknowledged = *acknowledged;
        kept.report = report.map(|it| LedgerReport {
            incarnation: it.incarnation,
            number: it.number,
            seq: it.seq,
            observed: it.observed,
            active: it.active,
            nodes_left: it.left,
            ..LedgerReport::default()
        });
    }
}
