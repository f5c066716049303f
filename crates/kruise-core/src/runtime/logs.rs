//! Structured logs on standard error, as text for people or as one JSON object per line.

mod json;

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
        Format::Json => lines.json().event_format(json::Lines).boxed(),
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

    /// What `work` logs.
    fn logged(format: Format, filter: &str, work: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = subscriber(format, filter, move || writer.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, work);
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn log(format: Format, level: &str, rust_log: Option<&str>) -> String {
        logged(format, &filter(level, rust_log), || {
            tracing::debug!(pods = 3, "small");
            tracing::warn!(label = "timeout", "reconcile failed");
            tracing::info!(target: "hyper::proto", "noise");
            tracing::warn!(target: "kube_client::client", "{{\"data\":{{\"password\":\"c2VjcmV0\"}}}}");
        })
    }

    fn json(work: impl FnOnce()) -> serde_json::Value {
        serde_json::from_str(&logged(Format::Json, "trace", work)).unwrap()
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
    fn errors_have_their_causes_in_both_formats() {
        let work = || {
            let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
            let error = Error::Level { filter: "x".into(), source: filter_error() };
            let outer = io::Error::other(error);
            tracing::warn!(
                error = &outer as &dyn std::error::Error,
                alone = &refused as &dyn std::error::Error
            );
        };
        let cause = filter_error().to_string();
        let line = json(work);
        assert_eq!(line["error"], format!("log level \"x\" cannot be read: {cause}"));
        assert_eq!(line["alone"], "connection refused");
        let text = logged(Format::Text, "trace", work);
        assert!(text.contains("cannot be read") && text.contains(&cause), "{text}");
    }

    fn filter_error() -> tracing_subscriber::filter::ParseError {
        EnvFilter::try_new("kruise=loud").unwrap_err()
    }

    #[test]
    fn values_keep_their_types_and_spans_their_fields() {
        let line = json(|| {
            let outer = tracing::info_span!("reconcile", controller = "cloneset", object = %"shop/web");
            let _outer = outer.enter();
            let _inner = tracing::info_span!("apply", pods = 2).entered();
            let (wait, name) = (std::time::Duration::from_secs(2), "a \"b\"\n");
            tracing::info!(count = 3, share = 0.5, below = -1, is_on = true, ?wait, name, "done");
        });
        let fields = ["count", "share", "below", "is_on", "wait", "name", "message", "level"];
        let found = serde_json::Value::from_iter(fields.map(|it| (it, line[it].clone())));
        assert_eq!(
            found,
            serde_json::json!({"count": 3, "share": 0.5, "below": -1, "is_on": true, "wait": "2s", "name": "a \"b\"\n",
                "message": "done", "level": "INFO"})
        );
        assert_eq!(line["target"], module_path!());
        assert_eq!(line["span"], serde_json::json!({"name": "apply", "pods": 2}));
        let outer = serde_json::json!({"name": "reconcile", "controller": "cloneset", "object": "shop/web"});
        assert_eq!(line["spans"], serde_json::json!([outer, line["span"]]));
        let time = line["timestamp"].as_str().unwrap();
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");
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
