//! How a CloneSet stands over the fleet, as a table of plain text that is written again when it changes.

use std::io::{IsTerminal, Write, stdout};

use serde_json::Value;

/// What is on the screen.
#[derive(Debug, Default)]
pub(super) struct Table {
    shown: Vec<String>,
}

impl Table {
    /// Shows `lines` in place of what was shown before; where that cannot be done, below it. The same is not shown twice.
    pub(super) fn show(&mut self, lines: &[String]) {
        if self.shown == lines {
            return;
        }
        let mut out = stdout();
        // A table that nobody can see is no reason to end the fleet.
        let _ = out.write_all(change(&self.shown, lines, out.is_terminal()).as_bytes());
        let _ = out.flush();
        self.shown = lines.to_vec();
    }
}

/// What to print so that `new` is seen after `old`.
fn change(old: &[String], new: &[String], is_terminal: bool) -> String {
    let mut text = String::new();
    if !old.is_empty() {
        // Up to the first line of the old table, and everything below it away; or else an empty line between.
        text = if is_terminal { format!("\x1b[{}A\x1b[J", old.len()) } else { "\n".to_owned() };
    }
    for line in new {
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// The table of a FleetBinding: a line for each cluster, and their sum.
pub(super) fn lines(binding: &Value) -> Vec<String> {
    let status = &binding["status"];
    let number = |it: &Value| it.as_u64().unwrap_or_default().to_string();
    let mut lines = vec![row(HEADINGS)];
    let clusters: Vec<&Value> = status["clusters"].as_array().into_iter().flatten().collect();
    for it in &clusters {
        lines.push(row([
            it["cluster"].as_str().unwrap_or_default(),
            it["state"].as_str().unwrap_or_default(),
            &number(share(it)),
            &number(&it["counts"]["replicas"]),
            &number(&it["counts"]["ready"]),
            &number(&it["counts"]["updated"]),
        ]));
    }
    let pods: u64 = clusters.iter().filter_map(|it| it["counts"]["replicas"].as_u64()).sum();
    let summary = status["summary"].as_str().unwrap_or_default();
    lines.push(row([
        "fleet",
        summary,
        &number(&status["desired"]),
        &pods.to_string(),
        &number(&status["ready"]),
        &number(&status["updated"]),
    ]));
    lines
}

/// The table of members, by name and state, to which nothing was given yet.
pub(super) fn waiting(members: &[(String, String)]) -> Vec<String> {
    let mut lines = vec![row(HEADINGS)];
    for (name, state) in members {
        let state = if state.is_empty() { "Joining" } else { state };
        lines.push(row([name, state, "", "", "", ""]).trim_end().to_owned());
    }
    lines
}

const HEADINGS: [&str; 6] = ["CLUSTER", "STATE", "SHARE", "PODS", "READY", "UPDATED"];

fn row(cells: [&str; 6]) -> String {
    let [cluster, state, share, pods, ready, updated] = cells;
    format!("{cluster:<8} {state:<11} {share:>5} {pods:>5} {ready:>5} {updated:>7}")
}

/// The replicas that a cluster was given.
fn share(row: &Value) -> &Value {
    &row["slice"]["cloneSet"]["replicas"]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_for_each_cluster_and_one_for_the_fleet() {
        let cluster = |name: &str, replicas: u32| {
            json!({
                "cluster": name, "state": "Ready", "slice": {"cloneSet": {"replicas": replicas}},
                "counts": {"replicas": replicas, "ready": replicas, "updated": 1},
            })
        };
        let binding = json!({"status": {
            "desired": 7, "ready": 7, "updated": 2, "summary": "Ready",
            "clusters": [cluster("m1", 4), cluster("m2", 3)],
        }});
        assert_eq!(
            lines(&binding),
            [
                "CLUSTER  STATE       SHARE  PODS READY UPDATED",
                "m1       Ready           4     4     4       1",
                "m2       Ready           3     3     3       1",
                "fleet    Ready           7     7     7       2",
            ]
        );
    }

    #[test]
    fn members_are_shown_before_anything_runs_on_them() {
        let members = [("m1".to_owned(), "Ready".to_owned()), ("m2".to_owned(), String::new())];
        let wanted = ["CLUSTER  STATE       SHARE  PODS READY UPDATED", "m1       Ready", "m2       Joining"];
        assert_eq!(waiting(&members), wanted);
    }

    #[test]
    fn a_terminal_is_overwritten_and_a_file_is_added_to() {
        let (old, new) = (["a".to_owned(), "b".to_owned()], ["c".to_owned()]);
        assert_eq!(change(&[], &new, true), "c\n");
        assert_eq!(change(&old, &new, true), "\x1b[2A\x1b[Jc\n");
        assert_eq!(change(&old, &new, false), "\nc\n");
    }
}
