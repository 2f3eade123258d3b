//! One event, one line: flat JSON for machines, `key=value` for people. Fields of the spans around an event are
//! part of its line. Decides nothing about what is logged or where the lines go.

use std::fmt;
use std::io::Write as _;

use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::render::plain;

/// Fields whose text is itself JSON and goes into the line as such. A `tracing` value cannot be an object, hence
/// the agreement by name.
pub(super) const OBJECTS: [&str; 2] = ["backlogRemaining", "cutoffs"];

/// Keys that every line has, and that no field may take.
const OWN_KEYS: [&str; 4] = ["timestamp", "level", "target", "message"];

/// How lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFormat {
    /// One flat JSON object a line.
    Json,
    /// For reading.
    Text,
}

/// Writes each event as one line.
#[derive(Debug)]
pub struct Lines<W, T> {
    pub(super) format: LineFormat,
    pub(super) writer: W,
    pub(super) clock: T,
}

/// Fields in the order in which they were first set.
#[derive(Debug, Default)]
struct Fields(Vec<(&'static str, Value)>);

/// One line of JSON, before it is text.
struct JsonLine<'a> {
    timestamp: &'a str,
    metadata: &'a Metadata<'a>,
    fields: &'a Fields,
}

impl<S, W, T> Layer<S> for Lines<W, T>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'w> MakeWriter<'w> + 'static,
    T: FormatTime + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(around) = span.extensions().get::<Fields>() {
                fields.fill_in(around);
            }
        }
        let mut timestamp = String::new();
        // A clock that cannot be formatted leaves the timestamp empty; the line still goes out.
        let _ = self.clock.format_time(&mut Writer::new(&mut timestamp));
        let line = match self.format {
            LineFormat::Json => {
                JsonLine { timestamp: &timestamp, metadata: event.metadata(), fields: &fields }.to_text()
            }
            LineFormat::Text => text(&timestamp, event.metadata(), &fields),
        };
        // One write a line, so that lines of several threads do not mix. There is nowhere to report a failure.
        let _ = self.writer.make_writer_for(event.metadata()).write_all(line.as_bytes());
    }
}

impl Fields {
    fn set(&mut self, field: &Field, value: Value) {
        match self.0.iter_mut().find(|(name, _)| *name == field.name()) {
            Some((_, old)) => *old = value,
            None => self.0.push((field.name(), value)),
        }
    }

    /// Adds what is not there yet: the inner wins over the outer.
    fn fill_in(&mut self, outer: &Self) {
        for (name, value) in &outer.0 {
            if self.0.iter().all(|(own, _)| own != name) {
                self.0.push((name, value.clone()));
            }
        }
    }

    fn message(&self) -> &str {
        self.0
            .iter()
            .find(|(name, _)| *name == "message")
            .and_then(|(_, value)| value.as_str())
            .unwrap_or_default()
    }

    /// All fields but the message, under names that leave a line's own keys alone.
    fn beside_the_message(&self) -> impl Iterator<Item = (String, &Value)> {
        self.0.iter().filter(|(name, _)| *name != "message").map(|(name, value)| {
            let name = if OWN_KEYS.contains(name) { format!("field.{name}") } else { (*name).to_owned() };
            (name, value)
        })
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let object = if OBJECTS.contains(&field.name()) { serde_json::from_str(value).ok() } else { None };
        self.set(field, object.unwrap_or_else(|| value.into()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}").into());
    }
}

impl JsonLine<'_> {
    fn to_text(&self) -> String {
        // Strings, numbers and objects of them can always be written; the fallback keeps the line an object.
        let mut text = serde_json::to_string(self).unwrap_or_else(|_| "{}".to_owned());
        text.push('\n');
        text
    }
}

impl Serialize for JsonLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = serializer.serialize_map(None)?;
        line.serialize_entry("timestamp", self.timestamp)?;
        line.serialize_entry("level", self.metadata.level().as_str())?;
        line.serialize_entry("target", self.metadata.target())?;
        line.serialize_entry("message", self.fields.message())?;
        for (name, value) in self.fields.beside_the_message() {
            line.serialize_entry(&name, value)?;
        }
        line.end()
    }
}

fn text(timestamp: &str, metadata: &Metadata<'_>, fields: &Fields) -> String {
    let mut line = format!(
        "{timestamp} {:>5} {}: {}",
        metadata.level().as_str(),
        metadata.target(),
        plain(fields.message())
    );
    for (name, value) in fields.beside_the_message() {
        line.push(' ');
        line.push_str(&name);
        line.push('=');
        match value.as_str() {
            Some(word) if is_word(word) => line.push_str(word),
            // JSON's quotes show where a text ends, and its escapes keep it on the line.
            _ => line.push_str(&plain(&value.to_string())),
        }
    }
    line.push('\n');
    line
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control() || "\"\\=".contains(c))
}
