//! One log line as a JSON object.
//!
//! The shape is that of tracing-subscriber's own, with the fields of the event at the top. What differs is that an
//! error is written down with its causes: the library prints only the outermost, which says that something failed and
//! not why.

use std::{error::Error, fmt};

use serde::ser::{SerializeMap, Serializer};
use serde_json::Value;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{
        FmtContext, FormatEvent, FormatFields, FormattedFields,
        format::Writer,
        time::{FormatTime, SystemTime},
    },
    registry::{LookupSpan, SpanRef},
};

use crate::causes::with_causes;

/// Writes events as lines of JSON. The fields of spans must be JSON already.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let span = event.parent().and_then(|it| context.span(it)).or_else(|| context.lookup_current());
        let spans: Vec<Value> =
            span.iter().flat_map(|it| it.scope().from_root()).map(|it| described::<S, N>(&it)).collect();
        let mut bytes = Vec::new();
        line(&mut bytes, &time, event, &spans).map_err(|_| fmt::Error)?;
        writeln!(writer, "{}", String::from_utf8_lossy(&bytes))
    }
}

fn line(bytes: &mut Vec<u8>, time: &str, event: &Event<'_>, spans: &[Value]) -> serde_json::Result<()> {
    let mut serializer = serde_json::Serializer::new(bytes);
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("timestamp", time)?;
    map.serialize_entry("level", event.metadata().level().as_str())?;
    let mut fields = Fields { map, result: Ok(()), target: None };
    event.record(&mut fields);
    let Fields { mut map, result, target } = fields;
    result?;
    map.serialize_entry("target", target.as_deref().unwrap_or(event.metadata().target()))?;
    if let Some(innermost) = spans.last() {
        map.serialize_entry("span", innermost)?;
        map.serialize_entry("spans", spans)?;
    }
    map.end()
}

/// A span with its fields and its name.
fn described<S, N>(span: &SpanRef<'_, S>) -> Value
where
    S: for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    let extensions = span.extensions();
    let fields = extensions.get::<FormattedFields<N>>().map(|it| it.fields.as_str()).unwrap_or_default();
    let mut described: serde_json::Map<String, Value> = serde_json::from_str(fields).unwrap_or_default();
    described.insert("name".to_owned(), span.name().into());
    described.into()
}

/// Writes the fields of an event into the line.
struct Fields<M: SerializeMap> {
    map: M,
    result: Result<(), M::Error>,
    /// What the `log` crate calls the target, for libraries that use it.
    target: Option<String>,
}

impl<M: SerializeMap> Fields<M> {
    fn put(&mut self, field: &Field, value: impl serde::Serialize) {
        // What comes through the `log` crate says in fields of its own where it comes from.
        if self.result.is_ok() && !field.name().starts_with("log.") {
            self.result = self.map.serialize_entry(field.name(), &value);
        }
    }
}

impl<M: SerializeMap> Visit for Fields<M> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "log.target" {
            self.target = Some(value.to_owned());
        }
        self.put(field, value);
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.put(field, with_causes(value).to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }
}
