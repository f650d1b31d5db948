//! One flat JSON object per line, which contains the fields of the event and of all spans around it.
//!
//! The formatter of tracing-subscriber nests spans, and overwrites the field `name`, which contains the object's name,
//! with the name of the span.

use std::fmt;

use serde_json::{Map, Value};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{JsonFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

/// Formats events. If several fields have the same name, the event's field takes precedence over those of spans, and
/// the field of an inner span over those of outer spans.
pub(super) struct FlatJson;

impl<S> FormatEvent<S, JsonFields> for FlatJson
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, JsonFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let metadata = event.metadata();
        let mut line = Map::new();
        line.insert("timestamp".to_owned(), timestamp.into());
        line.insert("level".to_owned(), metadata.level().as_str().into());
        line.insert("target".to_owned(), metadata.target().into());
        for span in context.event_scope().into_iter().flat_map(Scope::from_root) {
            if let Some(fields) = span.extensions().get::<FormattedFields<JsonFields>>() {
                line.extend(object(fields));
            }
        }
        let mut fields = String::new();
        context.format_fields(Writer::new(&mut fields), event)?;
        line.extend(object(&fields));
        writeln!(writer, "{}", Value::Object(line))
    }
}

/// Parses the fields that `JsonFields` has written: an object, or an empty text for a span without fields.
fn object(fields: &str) -> Map<String, Value> {
    serde_json::from_str(fields).unwrap_or_default()
}
