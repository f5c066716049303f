//! Structured logs on standard error, as text for people or as one JSON object per line.

use std::str::FromStr;

use tracing::Metadata;
use tracing_subscriber::{
    EnvFilter, Layer, filter::filter_fn, fmt::MakeWriter, layer::SubscriberExt, util::SubscriberInitExt,
};

/// How a log line looks: the values of `--log-format`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// One JSON object per line.
    #[default]
    Json,
    /// Lines for people.
    Text,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value of `--log-format` that does not exist.
    #[error("log format {0:?} is neither json nor text")]
    Format(String),
    /// A level or filter that cannot be read.
    #[error("log level {filter:?} cannot be read")]
    Level {
        /// What was given.
        filter: String,
        /// What is wrong with it.
        source: tracing_subscriber::filter::ParseError,
    },
    /// Something else set up logging before.
    #[error("logging was set up twice")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "json" => Ok(Self::Json),
            "text" => Ok(Self::Text),
            _ => Err(Error::Format(text.to_owned())),
        }
    }
}

/// Sets up logging for the process. `rust_log` is the value of `RUST_LOG`, which wins over `level` where it is set.
pub fn init(format: Format, level: &str, rust_log: Option<&str>) -> Result<(), Error> {
    subscriber(format, &filter(level, rust_log), std::io::stderr)?.try_init().map_err(Error::Twice)
}

/// Libraries stay at `warn` whatever our own level is; `RUST_LOG` can say otherwise.
fn filter(level: &str, rust_log: Option<&str>) -> String {
    match rust_log.filter(|it| !it.is_empty()) {
        Some(it) => it.to_owned(),
        None => format!(
            "{level},hyper=warn,hyper_util=warn,h2=warn,tower=warn,rustls=warn,kube_client=warn,kube_runtime=warn"
        ),
    }
}

fn subscriber<W>(
    format: Format,
    filter: &str,
    writer: W,
) -> Result<impl SubscriberInitExt + tracing::Subscriber + Send + Sync, Error>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let levels =
        EnvFilter::try_new(filter).map_err(|source| Error::Level { filter: filter.to_owned(), source })?;
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    let lines = match format {
        Format::Json => lines.json().flatten_event(true).boxed(),
        Format::Text => lines.with_ansi(false).boxed(),
    };
    Ok(tracing_subscriber::registry().with(levels).with(lines.with_filter(filter_fn(carries_no_body))))
}

/// kube's client prints whole answers when it cannot decode them (`client/mod.rs` of kube-client 5.0, at `warn` and
/// below): a Secret would end up in the log. No filter of the user's can turn these lines on.
fn carries_no_body(line: &Metadata<'_>) -> bool {
    line.is_span() || !line.target().starts_with("kube_client::client")
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log(format: Format, level: &str, rust_log: Option<&str>) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = subscriber(format, &filter(level, rust_log), move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            tracing::debug!(pods = 3, "small");
            tracing::warn!(label = "timeout", "reconcile failed");
            tracing::info!(target: "hyper::proto", "noise");
            tracing::warn!(target: "kube_client::client", "{{\"data\":{{\"password\":\"c2VjcmV0\"}}}}");
        });
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn json_lines_have_their_fields_at_the_top() {
        let log = log(Format::Json, "info", None);
        let line: serde_json::Value = serde_json::from_str(log.trim()).unwrap();
        assert_eq!(line["message"], "reconcile failed");
        assert_eq!(line["label"], "timeout");
        assert_eq!(line["level"], "WARN");
    }

    #[test]
    fn the_level_counts_for_us_and_rust_log_wins() {
        assert!(log(Format::Text, "debug", None).contains("pods=3"));
        assert!(!log(Format::Text, "debug", None).contains("noise"));
        assert!(log(Format::Text, "error", Some("trace")).contains("noise"));
        assert!(log(Format::Text, "info", Some("")).contains("reconcile failed"));
    }

    #[test]
    fn bodies_are_never_logged_whatever_the_filter() {
        assert!(!log(Format::Text, "trace", Some("trace,kube_client=trace")).contains("password"));
    }

    #[test]
    fn wrong_settings_are_named() {
        assert_eq!(
            "yaml".parse::<Format>().unwrap_err().to_string(),
            "log format \"yaml\" is neither json nor text"
        );
        let error = subscriber(Format::Text, "kruise=loud", io::stderr).map(|_| ()).unwrap_err();
        assert_eq!(error.to_string(), "log level \"kruise=loud\" cannot be read");
    }
}
