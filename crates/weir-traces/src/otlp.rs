//! Spans as the messages of OTLP, in protobuf.
//!
//! Source: opentelemetry-proto, `trace/v1/trace.proto` and `collector/trace/v1/trace_service.proto`
//! (version 1). Only the fields that Weir sets are declared; the numbers never change.

use bytes::Bytes;
use prost::{Message, Oneof};
use weir_base::clock::Timestamp;

use crate::span::{AttributeValue, SpanRecord};

/// The name of the instrumentation in each batch.
const SCOPE: &str = "weir";

#[derive(Clone, PartialEq, Message)]
struct ExportTraceServiceRequest {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<OtlpResource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct OtlpResource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<OtlpSpan>,
}

#[derive(Clone, PartialEq, Message)]
struct InstrumentationScope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct OtlpSpan {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    status: Option<SpanStatus>,
    #[prost(fixed32, tag = "16")]
    flags: u32,
}

#[derive(Clone, PartialEq, Message)]
struct SpanStatus {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

/// The code of a failed span.
const STATUS_ERROR: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "AnyValueKind", tags = "1, 3, 4")]
    value: Option<AnyValueKind>,
}

#[derive(Clone, PartialEq, Oneof)]
enum AnyValueKind {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Integer(i64),
    #[prost(double, tag = "4")]
    Number(f64),
}

#[derive(Clone, PartialEq, Message)]
struct ExportTraceServiceResponse {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_spans: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// Encodes spans as the body of a request to the collector. `resource` describes this process.
#[must_use]
pub fn encode(resource: &[(&'static str, String)], spans: Vec<Box<SpanRecord>>) -> Bytes {
    let attributes = resource.iter().map(|(key, value)| KeyValue {
        key: (*key).to_owned(),
        value: Some(AnyValue { value: Some(AnyValueKind::Text(value.clone())) }),
    });
    let scope = InstrumentationScope {
        name: SCOPE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let spans = spans.into_iter().map(|record| encode_span(*record)).collect();
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(OtlpResource { attributes: attributes.collect() }),
            scope_spans: vec![ScopeSpans { scope: Some(scope), spans }],
        }],
    };
    Bytes::from(request.encode_to_vec())
}

/// Returns how many spans the collector rejected with this response, and why. Zero if the response is
/// empty or none of OTLP.
#[must_use]
pub fn rejected_spans(response: &[u8]) -> (u64, String) {
    let partial =
        ExportTraceServiceResponse::decode(response).ok().and_then(|it| it.partial_success);
    let partial = partial.unwrap_or_default();
    (u64::try_from(partial.rejected_spans).unwrap_or_default(), partial.error_message)
}

fn encode_span(record: SpanRecord) -> OtlpSpan {
    let SpanRecord { context, parent, name, kind, began_at, ended_at, attributes, error } = record;
    let error = error.map(|message| SpanStatus { message, code: STATUS_ERROR });
    OtlpSpan {
        trace_id: context.trace_id().to_vec(),
        span_id: context.span_id().to_vec(),
        parent_span_id: parent.map_or_else(Vec::new, |parent| parent.span_id().to_vec()),
        name: name.into_owned(),
        kind: kind as i32,
        start_time_unix_nano: nanos(began_at),
        end_time_unix_nano: nanos(ended_at),
        attributes: attributes.into_iter().map(encode_attribute).collect(),
        status: error,
        flags: u32::from(context.flags()),
    }
}

fn encode_attribute((key, value): (&'static str, AttributeValue)) -> KeyValue {
    let value = match value {
        AttributeValue::Text(text) => AnyValueKind::Text(text.into_owned()),
        AttributeValue::Integer(integer) => AnyValueKind::Integer(integer),
        AttributeValue::Number(number) => AnyValueKind::Number(number),
    };
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
}

fn nanos(at: Timestamp) -> u64 {
    at.as_micros().saturating_mul(1_000)
}
