//! Flag values as Go programs write them.

use std::time::Duration;

/// Reads a duration such as `60s`, `1m30s` or `1.5h`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let malformed = || format!("{text:?} is no duration such as 60s, 5m or 1h30m");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|it: char| !it.is_ascii_digit() && it != '.').ok_or_else(malformed)?;
        let (number, beyond) = rest.split_at(digits);
        let letters = beyond.find(|it: char| it.is_ascii_digit()).unwrap_or(beyond.len());
        let (unit, beyond) = beyond.split_at(letters);
        let unit = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" | "μs" => 1e-6,
            "ns" => 1e-9,
            _ => return Err(malformed()),
        };
        let number: f64 = number.parse().map_err(|_| malformed())?;
        let part = Duration::try_from_secs_f64(number * unit).map_err(|_| malformed())?;
        total = total.checked_add(part).ok_or_else(malformed)?;
        rest = beyond;
    }
    if text.is_empty() { Err(malformed()) } else { Ok(total) }
}

/// Reads the spellings of true and false that Go's flag library accepts.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, millis) in [
            ("60s", 60_000),
            ("5m", 300_000),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("0", 0),
            ("250ms", 250),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "-5s", "5 s", "5x", "1..5s", "99999999999999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn booleans_are_read_as_go_reads_them() {
        assert_eq!(boolean("T"), Ok(true));
        assert_eq!(boolean("0"), Ok(false));
        assert_eq!(boolean("yes"), Err("\"yes\" is neither true nor false".to_owned()));
    }
}
