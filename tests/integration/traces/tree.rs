//! What a collector received, as one tree of spans that can be asked.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;

/// Spans and what they say about the process they come from.
pub struct Tree {
    pub resource: BTreeMap<String, Value>,
    pub spans: Vec<Span>,
}

impl Tree {
    /// All that was received. Every part must come from the same resource, and from the worker itself.
    pub fn of(requests: Vec<ExportTraceServiceRequest>) -> Self {
        let mut tree = Self { resource: BTreeMap::new(), spans: Vec::new() };
        for part in requests.into_iter().flat_map(|request| request.resource_spans) {
            let resource = attributes(&part.resource.unwrap().attributes);
            assert!(tree.resource.is_empty() || tree.resource == resource);
            tree.resource = resource;
            for scope in part.scope_spans {
                assert_eq!(scope.scope.unwrap().name, "retention_worker");
                tree.spans.extend(scope.spans);
            }
        }
        tree
    }

    /// The only span without a parent.
    pub fn root(&self) -> &Span {
        let mut roots = self.spans.iter().filter(|span| span.parent_span_id.is_empty());
        let root = roots.next().unwrap();
        assert!(roots.next().is_none(), "one run, one root");
        root
    }

    /// The children of a span, of which each must lie within it.
    pub fn below(&self, parent: &Span) -> Vec<&Span> {
        let children = self.spans.iter().filter(|span| span.parent_span_id == parent.span_id);
        children
            .inspect(|child| {
                assert_eq!(child.trace_id, parent.trace_id);
                assert!(child.start_time_unix_nano >= parent.start_time_unix_nano, "{child:?}");
                assert!(child.end_time_unix_nano <= parent.end_time_unix_nano, "{child:?}");
                assert!(child.end_time_unix_nano >= child.start_time_unix_nano, "{child:?}");
            })
            .collect()
    }
}

/// A span's attributes by name.
pub fn attributes(attributes: &[KeyValue]) -> BTreeMap<String, Value> {
    attributes
        .iter()
        .map(|pair| match &pair.value {
            Some(AnyValue { value: Some(value) }) => (pair.key.clone(), value.clone()),
            _ => panic!("an attribute without a value: {pair:?}"),
        })
        .collect()
}

/// A text attribute.
pub fn text(span: &Span, name: &str) -> String {
    match attributes(&span.attributes).get(name) {
        Some(Value::StringValue(text)) => text.clone(),
        other => panic!("{name} is {other:?} in {span:?}"),
    }
}

/// A whole number among a span's attributes.
pub fn number(span: &Span, name: &str) -> i64 {
    match attributes(&span.attributes).get(name) {
        Some(Value::IntValue(number)) => *number,
        other => panic!("{name} is {other:?} in {span:?}"),
    }
}

/// What a span says went wrong.
pub fn error(span: &Span) -> Option<&str> {
    let status = span.status.as_ref()?;
    (status.code() == StatusCode::Error).then_some(status.message.as_str())
}
