//! What the programs have in common on the command line and in the environment. Values are written as Go programs write
//! them, so that manifests made for those fit.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use super::{client::Source, health, logs};

/// Looks up an environment variable.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log {
    /// How lines look.
    pub format: logs::Format,
    /// How much there is.
    pub level: &'static str,
}

impl Log {
    /// `verbosity` counts as klog does.
    pub fn new(format: logs::Format, verbosity: u8) -> Self {
        let level = match verbosity {
            0..=5 => "info",
            6..=7 => "debug",
            8.. => "trace",
        };
        Self { format, level }
    }
}

/// An address to listen on, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listen(pub Option<SocketAddr>);

impl Listen {
    /// Reads `:8080`, `127.0.0.1:8080`, or `0` for nowhere.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |_| format!("{text:?} is no address such as :8080, 127.0.0.1:8080 or 0");
        health::parse_address(text).map(Self).map_err(wrong)
    }
}

/// The order of controller-runtime: what is named, then the pod's own account, then the user's own file.
pub fn source(path: Option<PathBuf>, context: Option<String>, environment: Environment<'_>) -> Source {
    let in_pod = environment("KUBERNETES_SERVICE_HOST").is_some();
    let is_named = path.is_some() || context.is_some() || environment("KUBECONFIG").is_some();
    if in_pod && !is_named { Source::InCluster } else { Source::Kubeconfig { path, context } }
}

/// Reads a duration such as `60s`, `1m30s` or `1.5h`.
pub fn duration(text: &str) -> Result<Duration, String> {
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
pub fn boolean(text: &str) -> Result<bool, String> {
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
