//! Where traces go, by the standard variables of OpenTelemetry. What the exporter reads from the environment itself
//! (headers, sampling, queue sizes) is not here.

use percent_encoding::percent_decode_str;

use super::parse;
use super::raw::RawShared;
use super::table::{self, Setting};
use super::valid::{Reader, given};

/// Below a collector's base address, where it takes traces over HTTP.
const TRACES_PATH: &str = "/v1/traces";

/// The attribute that names the service.
const SERVICE_NAME: &str = "service.name";

/// From a text to a text that is known to be right.
type Parse = fn(&Setting, &str) -> Result<String, String>;

/// Where and how traces are exported, and what they say about this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSettings {
    /// The collector; over HTTP with the path, ready to be posted to.
    pub endpoint: String,
    /// How to talk to it.
    pub protocol: TraceProtocol,
    /// Attributes of the resource, of which the last of a name counts; `service.name` is always among them.
    pub attributes: Vec<(String, String)>,
}

/// How spans travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceProtocol {
    /// `http/protobuf`.
    Http,
    /// `grpc`.
    Grpc,
}

/// Reads the settings of the traces; `None` when none are to be exported, or when one is faulty.
pub(super) fn read(reader: &mut Reader, shared: &RawShared) -> Option<TraceSettings> {
    let mut text = |setting: &'static Setting, value: &Option<String>, parse: Parse| {
        reader.read(setting, given(value.as_deref()), parse)
    };
    let base =
        text(&table::OTEL_EXPORTER_OTLP_ENDPOINT, &shared.otel_exporter_otlp_endpoint, parse::http_url);
    let own = text(
        &table::OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
        &shared.otel_exporter_otlp_traces_endpoint,
        parse::http_url,
    );
    let protocol = text(&table::OTEL_EXPORTER_OTLP_PROTOCOL, &shared.otel_exporter_otlp_protocol, a_protocol);
    let own_protocol = text(
        &table::OTEL_EXPORTER_OTLP_TRACES_PROTOCOL,
        &shared.otel_exporter_otlp_traces_protocol,
        a_protocol,
    );
    let exporter = text(&table::OTEL_TRACES_EXPORTER, &shared.otel_traces_exporter, |_, text| {
        one_of(&["otlp", "none"], text)
    });
    let disabled = text(&table::OTEL_SDK_DISABLED, &shared.otel_sdk_disabled, |_, text| {
        one_of(&["true", "false"], &text.to_ascii_lowercase())
    });
    let service_name =
        text(&table::OTEL_SERVICE_NAME, &shared.otel_service_name, |_, text| Ok(text.to_owned()));
    let further = reader.read(
        &table::OTEL_RESOURCE_ATTRIBUTES,
        given(shared.otel_resource_attributes.as_deref()),
        |_, text| attributes(text),
    );

    if exporter.as_deref() == Some("none") || disabled.as_deref() == Some("true") {
        return None;
    }
    let protocol = match own_protocol.or(protocol)?.as_str() {
        "grpc" => TraceProtocol::Grpc,
        _ => TraceProtocol::Http,
    };
    let endpoint = own.or_else(|| {
        let base = base?;
        Some(match protocol {
            TraceProtocol::Http => format!("{}{TRACES_PATH}", base.trim_end_matches('/')),
            TraceProtocol::Grpc => base,
        })
    })?;
    let named = given(shared.otel_service_name.as_deref()).map(|name| (SERVICE_NAME.to_owned(), name));
    let attributes = std::iter::once((SERVICE_NAME.to_owned(), service_name?))
        .chain(further.unwrap_or_default())
        .chain(named)
        .collect();
    Some(TraceSettings { endpoint, protocol, attributes })
}

fn a_protocol(_: &Setting, text: &str) -> Result<String, String> {
    one_of(&["http/protobuf", "grpc"], text)
}

fn one_of(known: &[&str], text: &str) -> Result<String, String> {
    if known.contains(&text) { Ok(text.to_owned()) } else { Err("not supported".to_owned()) }
}

/// `KEY=VALUE` pairs, separated by commas; blanks around keys and values are no part of them.
fn attributes(text: &str) -> Result<Vec<(String, String)>, String> {
    let decoded = |part: &str| percent_decode_str(part.trim()).decode_utf8_lossy().into_owned();
    let pair = |pair: &str| match pair.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((decoded(key), decoded(value))),
        _ => Err("not a list of KEY=VALUE pairs".to_owned()),
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use crate::settings::{Settings, TraceProtocol, TraceSettings};

    fn traces(vars: &[(&str, &str)]) -> Option<TraceSettings> {
        let vars = vars.iter().chain(&[("DATABASE_URL", "postgres://localhost/identity")]);
        Settings::load(vars.map(|(name, value)| ((*name).into(), (*value).into()))).unwrap().traces
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector.example:4318/");

    #[rstest]
    #[case::without_an_endpoint(&[])]
    #[case::with_an_empty_one(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")])]
    #[case::with_no_exporter(&[ENDPOINT, ("OTEL_TRACES_EXPORTER", "none")])]
    #[case::with_the_sdk_disabled(&[ENDPOINT, ("OTEL_SDK_DISABLED", "TRUE")])]
    #[case::for_another_signal(&[("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://collector.example:4318")])]
    fn nothing_is_exported(#[case] vars: &[(&str, &str)]) {
        assert_eq!(traces(vars), None);
    }

    #[rstest]
    #[case(&[ENDPOINT], TraceProtocol::Http, "http://collector.example:4318/v1/traces")]
    #[case(&[ENDPOINT, ("OTEL_SDK_DISABLED", "false"), ("OTEL_TRACES_EXPORTER", "otlp")], TraceProtocol::Http, "http://collector.example:4318/v1/traces")]
    #[case(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")], TraceProtocol::Grpc, "http://collector.example:4318/")]
    #[case(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf")], TraceProtocol::Http, "http://collector.example:4318/v1/traces")]
    #[case(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces.example/here")], TraceProtocol::Http, "https://traces.example/here")]
    fn the_more_specific_variable_wins(
        #[case] vars: &[(&str, &str)],
        #[case] protocol: TraceProtocol,
        #[case] endpoint: &str,
    ) {
        let traces = traces(vars).unwrap();
        assert_eq!((traces.protocol, traces.endpoint.as_str()), (protocol, endpoint));
    }

    #[rstest]
    #[case(&[], "retention-worker")]
    #[case(&[("OTEL_RESOURCE_ATTRIBUTES", "a=1, service.name=of%20resource ,")], "of resource")]
    #[case(&[("OTEL_RESOURCE_ATTRIBUTES", "service.name=other"), ("OTEL_SERVICE_NAME", "own")], "own")]
    fn the_last_name_of_the_service_counts(#[case] vars: &[(&str, &str)], #[case] name: &str) {
        let attributes = traces(&[&[ENDPOINT], vars].concat()).unwrap().attributes;
        let last = attributes.iter().rfind(|(key, _)| key == "service.name").unwrap();
        assert_eq!(last.1, name);
    }
}
