//! Tables as `kubectl` prints them.

use jiff::Timestamp;

/// Lines of a table: columns as wide as their widest cell, three spaces between them, nothing at the ends of lines.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let header: Vec<String> = header.iter().map(|it| (*it).to_owned()).collect();
    let lines: Vec<&Vec<String>> = std::iter::once(&header).chain(rows).collect();
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|it| it.get(column));
        cells.map(|it| it.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &&Vec<String>| {
        let padded: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        padded.join("   ").trim_end().to_owned()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// How long ago, in one unit or two, as `kubectl` has it; `-` for never.
pub fn age(then: Option<Timestamp>, now: Timestamp) -> String {
    let Some(then) = then else { return "-".to_owned() };
    span(now.duration_since(then).as_secs())
}

/// How long still; `expired` if it is over.
pub fn left(end: Timestamp, now: Timestamp) -> String {
    let seconds = end.duration_since(now).as_secs();
    if seconds <= 0 { "expired".to_owned() } else { span(seconds) }
}

/// A text, or a dash.
pub fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

fn span(seconds: i64) -> String {
    let seconds = seconds.max(0);
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, seconds) => format!("{seconds}s"),
        (0, 0, minutes, seconds) if minutes < 10 => format!("{minutes}m{seconds}s"),
        (0, 0, minutes, _) => format!("{minutes}m"),
        (0, hours, minutes, _) => format!("{hours}h{minutes}m"),
        (days, hours, ..) => format!("{days}d{hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["eu-1".to_owned(), "4".to_owned()], vec!["a".to_owned(), "12".to_owned()]];
        assert_eq!(table(&["CLUSTER", "R"], &rows), "CLUSTER   R\neu-1      4\na         12");
    }

    #[test]
    fn times_are_told_in_one_or_two_units() {
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap();
        let ages = [5, 65, 900, 3700, 90_000].map(|it| age(Some(at(0)), at(it)));
        assert_eq!(ages, ["5s", "1m5s", "15m", "1h1m", "1d1h"]);
        assert_eq!(
            (age(None, at(0)), left(at(5), at(5)), left(at(65), at(5))),
            ("-".to_owned(), "expired".to_owned(), "1m0s".to_owned())
        );
    }
}
